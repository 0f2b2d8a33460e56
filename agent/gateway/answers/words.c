#include "words.h"

#include "answers.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool kw_word_is(struct kw_slice word, const char *text)
{
	return word.length == strlen(text) && strncasecmp(word.data, text, word.length) == 0;
}

/* ---- patterns ---- */

/* Where one pattern element at `at` ends, and whether it matches the byte. */
static size_t match_class(struct kw_slice pattern, size_t at, uint8_t byte, bool *matches)
{
	const uint8_t *p = pattern.data;
	bool inverted = at < pattern.length && p[at] == '^', found = false;

	at += inverted;
	while (at < pattern.length && p[at] != ']') {
		uint8_t low, high;

		if (p[at] == '\\' && at + 1 < pattern.length)
			at++;
		low = high = p[at++];
		if (at + 1 < pattern.length && p[at] == '-') {
			high = p[at + 1];
			at += 2;
		}
		if (low > high) {
			uint8_t swap = low;

			low = high;
			high = swap;
		}
		found |= byte >= low && byte <= high;
	}
	*matches = found != inverted;
	return at < pattern.length ? at + 1 : at;
}

static size_t match_one(struct kw_slice pattern, size_t at, uint8_t byte, bool *matches)
{
	const uint8_t *p = pattern.data;

	switch (p[at]) {
	case '?':
		*matches = true;
		return at + 1;
	case '[':
		return match_class(pattern, at + 1, byte, matches);
	case '\\':
		if (at + 1 < pattern.length)
			at++;
		break;
	}
	*matches = p[at] == byte;
	return at + 1;
}

bool kw_word_matches(struct kw_slice text, struct kw_slice pattern)
{
	const uint8_t *t = text.data, *p = pattern.data;
	size_t i = 0, j = 0, star = SIZE_MAX, star_text = 0;

	/* After a mismatch only the last star takes one more byte: earlier ones never need to. */
	while (i < text.length) {
		bool matches = false;
		size_t next = j;

		if (j < pattern.length && p[j] == '*') {
			star = ++j;
			star_text = i;
			continue;
		}
		if (j < pattern.length)
			next = match_one(pattern, j, t[i], &matches);
		if (matches) {
			i++;
			j = next;
		} else if (star != SIZE_MAX) {
			j = star;
			i = ++star_text;
		} else {
			return false;
		}
	}
	while (j < pattern.length && p[j] == '*')
		j++;
	return j == pattern.length;
}

/* ---- scans ---- */

#define CURSOR_MAX 31

/* Older servers take all that strtoul(3) takes, but no blank before it. */
static bool is_cursor(const struct kw_ask *ask)
{
	struct kw_slice word = ask->words[2];
	char text[CURSOR_MAX + 1], *end;
	uint64_t cursor;

	if (kw_release_since(ask->to->release, KW_RELEASE(7, 4), KW_RELEASE(8, 0)))
		return kw_answer_unsigned(word, &cursor);
	if (word.length > CURSOR_MAX)
		return false;
	memcpy(text, word.length ? word.data : "", word.length);
	text[word.length] = '\0';
	errno = 0;
	strtoul(text, &end, 10);
	return !isspace((unsigned char)text[0]) && *end == '\0' && errno == 0;
}

static bool read_option(const struct kw_ask *ask, size_t *at, struct kw_scan_words *scan)
{
	bool has_value = *at + 1 < ask->count;
	int64_t count = 0;

	if (kw_word_is(ask->words[*at], "novalues") &&
		kw_release_since(ask->to->release, KW_RELEASE(7, 4), KW_RELEASE(8, 0))) {
		scan->no_values = kw_word_is(ask->words[0], "hscan");
		if (!scan->no_values)
			kw_reply_error(ask->to, "ERR NOVALUES option can only be used in HSCAN");
		return scan->no_values;
	}
	if (has_value && kw_word_is(ask->words[*at], "match")) {
		scan->pattern = ask->words[++*at];
		return true;
	}
	if (!has_value || !kw_word_is(ask->words[*at], "count")) {
		kw_reply_error(ask->to, "ERR syntax error");
		return false;
	}
	if (!kw_answer_number(ask->words[++*at], &count)) {
		kw_reply_error(ask->to, "ERR value is not an integer or out of range");
		return false;
	}
	if (count < 1)
		kw_reply_error(ask->to, "ERR syntax error");
	return count >= 1;
}

bool kw_answer_scan(const struct kw_ask *ask, struct kw_scan_words *scan)
{
	*scan = (struct kw_scan_words){0};
	if (!is_cursor(ask)) {
		kw_reply_error(ask->to, "ERR invalid cursor");
		return false;
	}
	/* The words after the cursor are looked at only if there is a key. */
	for (size_t at = 3; !kw_ask_is_missing(ask) && at < ask->count; at++)
		if (!read_option(ask, &at, scan))
			return false;
	kw_reply_array(ask->to, 2);
	kw_reply_bulk(ask->to, kw_slice("0", 1));
	return true;
}
