#include "cursor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MARK "keywake-cursor 1 "

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

void kw_cursor_format(const struct kw_local_cursor *cursor, char text[KW_CURSOR_TEXT])
{
	char refused[32] = "", evicted[32] = "", filter[32] = "";

	if (cursor->refused > 0)
		snprintf(refused, sizeof refused, " refused=%" PRIu64, cursor->refused);
	if (cursor->evicted > 0)
		snprintf(evicted, sizeof evicted, " evicted=%" PRIu64, cursor->evicted);
	if (cursor->filter)
		snprintf(filter, sizeof filter, " filter=%016" PRIx64, cursor->filter);
	snprintf(text, KW_CURSOR_TEXT,
		MARK "epoch=%016" PRIx64 " version=%" PRIu64 " run_id=%s flushes=%" PRIu64
		     "%s%s%s%s%s quarantined=%" PRIu64,
		cursor->epoch, cursor->version, cursor->run_id, cursor->flushes,
		cursor->key_counts.text[0] ? " held=" : "", cursor->key_counts.text, refused,
		evicted, filter, cursor->quarantined);
}

bool kw_cursor_parse(struct kw_slice slice, struct kw_local_cursor *cursor)
{
	char text[KW_CURSOR_TEXT], again[KW_CURSOR_TEXT];
	struct kw_local_cursor found = {0};
	int at = 0, length = 0;

	if (slice.length == 0 || slice.length >= sizeof text)
		return false;
	memcpy(text, slice.data, slice.length);
	text[slice.length] = '\0';
	if (sscanf(text,
		    MARK "epoch=%16" SCNx64 " version=%20" SCNu64
			 " run_id=%40[0-9a-f] flushes=%20" SCNu64 "%n",
		    &found.epoch, &found.version, found.run_id, &found.flushes, &at) != 4)
		return false;
	if (sscanf(text + at, " held=%64[-a-zA-Z]%n", found.key_counts.text, &length) == 1)
		at += length;
	length = 0;
	if (sscanf(text + at, " refused=%20" SCNu64 "%n", &found.refused, &length) == 1)
		at += length;
	length = 0;
	if (sscanf(text + at, " evicted=%20" SCNu64 "%n", &found.evicted, &length) == 1)
		at += length;
	length = 0;
	if (sscanf(text + at, " filter=%16" SCNx64 "%n", &found.filter, &length) == 1)
		at += length;
	if (sscanf(text + at, " quarantined=%20" SCNu64, &found.quarantined) != 1)
		return false;
	/*
	 * sscanf accepts spaces, signs and overflow; only the exact text that we would write is a
	 * cursor.
	 */
	kw_cursor_format(&found, again);
	if (strcmp(text, again) != 0 || !kw_key_counts_valid(&found.key_counts))
		return false;
	*cursor = found;
	return true;
}

void kw_cursor_library(
	const char *name, const struct kw_local_cursor *cursor, struct kw_buffer *code)
{
	char text[KW_CURSOR_TEXT];

	kw_cursor_format(cursor, text);
	kw_buffer_printf(code,
		"#!lua name=%s\n%s"
		"redis.register_function{function_name='%s', flags={'no-writes'},\n"
		"callback=function() return '%s' end}\n",
		name, bonds[cursor->bond], name, text);
}

enum kw_cursor_kind kw_cursor_from_library(struct kw_slice code, struct kw_local_cursor *cursor)
{
	const char *mark = code.length ? memmem(code.data, code.length, MARK, strlen(MARK)) : NULL;
	const char *end;

	if (!mark)
		return KW_CURSOR_FOREIGN;
	end = memchr(mark, '\'', code.length - (size_t)(mark - (const char *)code.data));
	if (!end || !kw_cursor_parse(kw_slice(mark, (size_t)(end - mark)), cursor))
		return KW_CURSOR_FOREIGN;
	for (cursor->bond = KW_BOND_PROMOTED; cursor->bond > KW_BOND_NONE; cursor->bond--)
		if (memmem(code.data, code.length, bonds[cursor->bond],
			    strlen(bonds[cursor->bond])))
			break;
	return KW_CURSOR_OURS;
}

bool kw_cursor_is_library(struct kw_slice code)
{
	char head[sizeof "#!lua name=" + KW_CURSOR_NAME_MAX], name[KW_CURSOR_NAME_MAX + 1];
	size_t length = code.length < sizeof head ? code.length : sizeof head - 1;
	struct kw_buffer written = {0};
	struct kw_local_cursor cursor;
	bool same;

	if (length == 0)
		return false;
	memcpy(head, code.data, length);
	head[length] = '\0';
	if (sscanf(head, "#!lua name=%64[0-9a-zA-Z_]", name) != 1 ||
		kw_cursor_from_library(code, &cursor) != KW_CURSOR_OURS)
		return false;
	kw_cursor_library(name, &cursor, &written);
	same = kw_slice_equal(
		code, kw_slice(kw_buffer_bytes(&written), kw_buffer_length(&written)));
	kw_buffer_close(&written);
	return same;
}
