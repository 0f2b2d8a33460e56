#include "control/json_comments.h"

#include <string.h>

struct pass {
	char *text;
	size_t length;
	size_t from, to; /* read so far; written so far, never further */
	char before;     /* the last character outside of comments and spaces; 0: none yet */
	char *comma;     /* a comma after an item, if `before` is one; else NULL */
	bool blanked;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Of a character of UTF-8, every byte but the first. */
static bool is_continued(char c)
{
	return ((unsigned char)c & 0xC0) == 0x80;
}

static bool begins(const struct pass *pass, const char two[3])
{
	return pass->length - pass->from >= 2 && memcmp(pass->text + pass->from, two, 2) == 0;
}

static void keep(struct pass *pass)
{
	pass->text[pass->to++] = pass->text[pass->from++];
}

static void blank(struct pass *pass)
{
	const char c = pass->text[pass->from++];

	if (!is_continued(c))
		pass->text[pass->to++] = is_space(c) ? c : ' ';
	pass->blanked = true;
}

static void blank_line(struct pass *pass)
{
	while (pass->from < pass->length && pass->text[pass->from] != '\n')
		blank(pass);
}

static bool blank_block(struct pass *pass)
{
	blank(pass);
	blank(pass);
	while (pass->from < pass->length && !begins(pass, "*/"))
		blank(pass);
	if (pass->from == pass->length)
		return false;
	blank(pass);
	blank(pass);
	return true;
}

/* To its closing quote, or to the end: the parser says that there is none. */
static void keep_string(struct pass *pass)
{
	keep(pass);
	while (pass->from < pass->length && pass->text[pass->from] != '"') {
		if (pass->text[pass->from] == '\\' && pass->length - pass->from > 1)
			keep(pass);
		keep(pass);
	}
	if (pass->from < pass->length)
		keep(pass);
	pass->before = '"';
	pass->comma = NULL;
}

/* A comma goes if it stands between an item and the end of its list. [,] and [1,,] stay wrong. */
static void keep_mark(struct pass *pass)
{
	const char c = pass->text[pass->from];

	if ((c == ']' || c == '}') && pass->comma) {
		*pass->comma = ' ';
		pass->blanked = true;
	}
	if (!is_space(c)) {
		pass->comma = c == ',' && pass->before && !strchr("[{,:", pass->before)
				      ? pass->text + pass->to
				      : NULL;
		pass->before = c;
	}
	keep(pass);
}

/* Every character before this byte of what was written is in its place. */
static struct kw_json_place place_of(const char *text, size_t at)
{
	struct kw_json_place place = {1, 1};

	for (size_t i = 0; i < at; i++) {
		if (text[i] == '\n')
			place = (struct kw_json_place){place.line + 1, 1};
		else if (!is_continued(text[i]))
			place.column++;
	}
	return place;
}

enum kw_json_comments kw_json_blank_comments(char *text, size_t *length, struct kw_json_place *open)
{
	struct pass pass = {.text = text, .length = *length};

	while (pass.from < pass.length) {
		if (text[pass.from] == '"') {
			keep_string(&pass);
		} else if (begins(&pass, "//")) {
			blank_line(&pass);
		} else if (begins(&pass, "/*")) {
			const size_t at = pass.to;

			if (!blank_block(&pass)) {
				*open = place_of(text, at);
				return KW_JSON_COMMENTS_UNCLOSED;
			}
		} else {
			keep_mark(&pass);
		}
	}
	*length = pass.to;
	return pass.blanked ? KW_JSON_COMMENTS_BLANKED : KW_JSON_COMMENTS_NONE;
}
