#include "cursor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MARK "keywake-cursor "
#define KW_CURSOR_ENCODED 196 /* the longest name, each byte as %XX, and its end */

/* Version 1 did not say whose data they are. It is read, and not written any more. */
enum text_version { TEXT_1, TEXT_2 };

static const char *const marks[] = {[TEXT_1] = MARK "1 ", [TEXT_2] = MARK "2 "};

static_assert(KW_KEY_COUNTS_DATABASES == 64, "the parser's field width");
static_assert(KW_CURSOR_NAME_MAX == 64, "the same");

/* Comments of the library: the server ignores them, and so do agents that do not know them. */
static const char *const bonds[] = {
	[KW_BOND_NONE] = "",
	[KW_BOND_LED] = "-- a replica of keywake-agent\n",
	[KW_BOND_PROMOTED] = "-- promoted, was a replica of keywake-agent\n",
};

int kw_cursor_name_check(const char *name, struct kw_error *error)
{
	size_t length = strlen(name);
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

	if (length == 0 || length > KW_CURSOR_NAME_MAX || strspn(name, allowed) != length)
		return kw_error_set(error, KW_E_CONFIG,
			"apply.cursor_name: \"%.80s\" cannot name a function library: use 1 to %d "
			"letters, digits and '_'",
			name, KW_CURSOR_NAME_MAX);
	return KW_OK;
}

/* ---- the text ---- */

/* What a name may show as it is; all else becomes %XX, so that no name ends a string of Lua. */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("._:/@[]-", c));
}

static void encode(const char *name, char text[KW_CURSOR_ENCODED])
{
	size_t at = 0;

	for (; *name && at + 4 <= KW_CURSOR_ENCODED; name++)
		at += (size_t)snprintf(text + at, KW_CURSOR_ENCODED - at,
			is_plain(*name) ? "%c" : "%%%02X", (unsigned char)*name);
	text[at] = '\0';
}

/* False: longer than a name can be. Whether it is the one way to write it is seen by encoding. */
static bool decode(const char *text, char *name, size_t room)
{
	for (size_t at = 0; at < room; at++) {
		unsigned code;

		name[at] = *text;
		if (*text == '\0')
			return true;
		if (*text++ != '%')
			continue;
		if (sscanf(text, "%2X", &code) != 1 || !text[0] || !text[1])
			return false;
		name[at] = (char)code;
		text += 2;
	}
	return false;
}

static void add(char text[KW_CURSOR_TEXT], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add(char text[KW_CURSOR_TEXT], const char *format, ...)
{
	size_t length = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + length, KW_CURSOR_TEXT - length, format, args);
	va_end(args);
}

/* What version 2 says beyond version 1: whose data they are. */
static void add_history(const struct kw_local_cursor *cursor, char text[KW_CURSOR_TEXT])
{
	const struct kw_history *history = &cursor->history;
	char name[KW_CURSOR_ENCODED];

	if (history->replid[0])
		add(text, " replid=%s", history->replid);
	if (history->replid2[0])
		add(text, " replid2=%s second=%" PRIu64, history->replid2, history->second_offset);
	if (history->proxy) {
		encode(history->proxy_name, name);
		add(text, " proxy=%016" PRIx64 " proxy_name=%s", history->proxy, name);
	}
	if (cursor->agent[0]) {
		encode(cursor->agent, name);
		add(text, " agent=%s", name);
	}
}

static void add_lease(const struct kw_local_cursor *cursor, char text[KW_CURSOR_TEXT])
{
	char owner[KW_LEASE_OWNER_TEXT];

	if (cursor->lease.session == 0)
		return;
	kw_lease_owner_text(&cursor->lease, owner);
	add(text, " lease=%s", owner);
}

static void format_text(
	const struct kw_local_cursor *cursor, enum text_version version, char text[KW_CURSOR_TEXT])
{
	snprintf(text, KW_CURSOR_TEXT,
		"%sepoch=%016" PRIx64 " version=%" PRIu64 " run_id=%s flushes=%" PRIu64,
		marks[version], cursor->epoch, cursor->version, cursor->run_id, cursor->flushes);
	if (cursor->key_counts.text[0])
		add(text, " held=%s", cursor->key_counts.text);
	if (cursor->refused > 0)
		add(text, " refused=%" PRIu64, cursor->refused);
	if (cursor->evicted > 0)
		add(text, " evicted=%" PRIu64, cursor->evicted);
	if (cursor->filter)
		add(text, " filter=%016" PRIx64, cursor->filter);
	if (version >= TEXT_2 && cursor->writes.said)
		add(text, " writes=%" PRIu64, cursor->writes.calls);
	if (version >= TEXT_2 && cursor->ended.said)
		add(text, " ended=%" PRIu64, cursor->ended.calls);
	if (version >= TEXT_2)
		add_history(cursor, text);
	if (version >= TEXT_2)
		add_lease(cursor, text);
	if (version >= TEXT_2 && cursor->consented > 0)
		add(text, " consented=%" PRIu64, cursor->consented);
	if (version >= TEXT_2 && cursor->term.domain)
		add(text, " term=%" PRIu64 "@%016" PRIx64, cursor->term.term, cursor->term.domain);
	/* Always there, and the last: a text that was cut off is no cursor. */
	add(text, " quarantined=%" PRIu64, cursor->quarantined);
}

void kw_cursor_format(const struct kw_local_cursor *cursor, char text[KW_CURSOR_TEXT])
{
	format_text(cursor, TEXT_2, text);
}

/* If the field stands at *text, take it in and go past it. The format ends in %n, for *length. */
static bool take(const char **text, int *length, const char *format, ...)
	__attribute__((format(scanf, 3, 4)));

static bool take(const char **text, int *length, const char *format, ...)
{
	va_list args;
	int taken;

	*length = 0;
	va_start(args, format);
	taken = vsscanf(*text, format, args);
	va_end(args);
	if (taken != 1 || *length == 0)
		return false;
	*text += *length;
	return true;
}

static bool take_history(const char **at, struct kw_local_cursor *found)
{
	char proxy[KW_CURSOR_ENCODED] = "", agent[KW_CURSOR_ENCODED] = "";
	struct kw_history *history = &found->history;
	int length;

	static_assert(KW_CURSOR_ENCODED == 196, "the fields' width");
	take(at, &length, " replid=%40[0-9a-f]%n", history->replid, &length);
	take(at, &length, " replid2=%40[0-9a-f]%n", history->replid2, &length);
	take(at, &length, " second=%20" SCNu64 "%n", &history->second_offset, &length);
	take(at, &length, " proxy=%16" SCNx64 "%n", &history->proxy, &length);
	take(at, &length, " proxy_name=%195[!-~]%n", proxy, &length);
	take(at, &length, " agent=%195[!-~]%n", agent, &length);
	history->standing = history->replid[0] ? KW_HISTORY_TOLD
			    : history->proxy   ? KW_HISTORY_UNTOLD
					       : KW_HISTORY_NONE;
	return (!history->replid[0] || kw_history_is_id(history->replid)) &&
	       (!history->replid2[0] || kw_history_is_id(history->replid2)) &&
	       decode(proxy, history->proxy_name, sizeof history->proxy_name) &&
	       decode(agent, found->agent, sizeof found->agent);
}

/* What other clients did, by the server's counts. */
static void take_counts(const char **at, struct kw_local_cursor *found)
{
	int length;

	found->writes.said =
		take(at, &length, " writes=%20" SCNu64 "%n", &found->writes.calls, &length);
	found->ended.said =
		take(at, &length, " ended=%20" SCNu64 "%n", &found->ended.calls, &length);
}

static bool take_lease(const char **at, struct kw_local_cursor *found)
{
	char owner[KW_LEASE_OWNER_TEXT] = "";
	int length;

	static_assert(KW_LEASE_OWNER_TEXT == 147, "the field's width");
	return !take(at, &length, " lease=%146[!-~]%n", owner, &length) ||
	       kw_lease_owner_parse(kw_slice_text(owner), &found->lease);
}

static void take_consent(const char **at, struct kw_local_cursor *found)
{
	int length;

	take(at, &length, " consented=%20" SCNu64 "%n", &found->consented, &length);
}

static void take_term(const char **at, struct kw_local_cursor *found)
{
	int length;

	if (take(at, &length, " term=%20" SCNu64 "%n", &found->term.term, &length))
		take(at, &length, "@%16" SCNx64 "%n", &found->term.domain, &length);
}

static bool take_fields(const char *text, enum text_version version, struct kw_local_cursor *found)
{
	const char *at = text + strlen(marks[version]);
	int length = 0;

	if (sscanf(at,
		    "epoch=%16" SCNx64 " version=%20" SCNu64
		    " run_id=%40[0-9a-f] flushes=%20" SCNu64 "%n",
		    &found->epoch, &found->version, found->run_id, &found->flushes, &length) != 4)
		return false;
	at += length;
	take(&at, &length, " held=%64[-a-zA-Z]%n", found->key_counts.text, &length);
	take(&at, &length, " refused=%20" SCNu64 "%n", &found->refused, &length);
	take(&at, &length, " evicted=%20" SCNu64 "%n", &found->evicted, &length);
	take(&at, &length, " filter=%16" SCNx64 "%n", &found->filter, &length);
	if (version >= TEXT_2)
		take_counts(&at, found);
	if (version >= TEXT_2 && (!take_history(&at, found) || !take_lease(&at, found)))
		return false;
	if (version >= TEXT_2) {
		take_consent(&at, found);
		take_term(&at, found);
	}
	return take(&at, &length, " quarantined=%20" SCNu64 "%n", &found->quarantined, &length);
}

/* Which version of the text is it? False: it is no cursor. */
static bool parse_text(
	struct kw_slice slice, struct kw_local_cursor *cursor, enum text_version *version)
{
	char text[KW_CURSOR_TEXT], again[KW_CURSOR_TEXT];
	struct kw_local_cursor found = {0};

	if (slice.length == 0 || slice.length >= sizeof text)
		return false;
	memcpy(text, slice.data, slice.length);
	text[slice.length] = '\0';
	*version = strncmp(text, marks[TEXT_1], strlen(marks[TEXT_1])) == 0 ? TEXT_1 : TEXT_2;
	if (strncmp(text, marks[*version], strlen(marks[*version])) != 0 ||
		!take_fields(text, *version, &found))
		return false;
	/*
	 * sscanf accepts spaces, signs and overflow; only the exact text that an agent would write
	 * is a cursor.
	 */
	format_text(&found, *version, again);
	if (strcmp(text, again) != 0 || !kw_key_counts_valid(&found.key_counts))
		return false;
	*cursor = found;
	return true;
}

bool kw_cursor_parse(struct kw_slice text, struct kw_local_cursor *cursor)
{
	enum text_version version;

	return parse_text(text, cursor, &version);
}

/* ---- the library ---- */

static void write_library(const char *name, const struct kw_local_cursor *cursor,
	enum text_version version, struct kw_buffer *code)
{
	char text[KW_CURSOR_TEXT];

	format_text(cursor, version, text);
	kw_buffer_printf(code,
		"#!lua name=%s\n%s"
		"redis.register_function{function_name='%s', flags={'no-writes'},\n"
		"callback=function() return '%s' end}\n",
		name, bonds[cursor->bond], name, text);
}

void kw_cursor_library(
	const char *name, const struct kw_local_cursor *cursor, struct kw_buffer *code)
{
	write_library(name, cursor, TEXT_2, code);
}

static enum kw_cursor_kind read_library(
	struct kw_slice code, struct kw_local_cursor *cursor, enum text_version *version)
{
	const char *mark = code.length ? memmem(code.data, code.length, MARK, strlen(MARK)) : NULL;
	const char *end;

	if (!mark)
		return KW_CURSOR_FOREIGN;
	end = memchr(mark, '\'', code.length - (size_t)(mark - (const char *)code.data));
	if (!end || !parse_text(kw_slice(mark, (size_t)(end - mark)), cursor, version))
		return KW_CURSOR_FOREIGN;
	for (cursor->bond = KW_BOND_PROMOTED; cursor->bond > KW_BOND_NONE; cursor->bond--)
		if (memmem(code.data, code.length, bonds[cursor->bond],
			    strlen(bonds[cursor->bond])))
			break;
	return KW_CURSOR_OURS;
}

enum kw_cursor_kind kw_cursor_from_library(struct kw_slice code, struct kw_local_cursor *cursor)
{
	enum text_version version;

	return read_library(code, cursor, &version);
}

bool kw_cursor_is_library(struct kw_slice code)
{
	char head[sizeof "#!lua name=" + KW_CURSOR_NAME_MAX], name[KW_CURSOR_NAME_MAX + 1];
	size_t length = code.length < sizeof head ? code.length : sizeof head - 1;
	struct kw_buffer written = {0};
	struct kw_local_cursor cursor;
	enum text_version version;
	bool same;

	if (length == 0)
		return false;
	memcpy(head, code.data, length);
	head[length] = '\0';
	if (sscanf(head, "#!lua name=%64[0-9a-zA-Z_]", name) != 1 ||
		read_library(code, &cursor, &version) != KW_CURSOR_OURS)
		return false;
	write_library(name, &cursor, version, &written);
	same = kw_slice_equal(
		code, kw_slice(kw_buffer_bytes(&written), kw_buffer_length(&written)));
	kw_buffer_close(&written);
	return same;
}
