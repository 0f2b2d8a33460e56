/*
 * Arbitrary bytes as a cursor and as the code of a function library: what is taken for a cursor is
 * written again as the very same text, and what is taken for our library is made of nothing else.
 */
#include "fuzz.h"

#include "local/cursor.h"

#include <stdio.h>
#include <string.h>

static const char text[] = "keywake-cursor 1 epoch=00000000000000aa version=17 "
			   "run_id=0123456789abcdef0123456789abcdef01234567 flushes=3 held=d--a "
			   "refused=1 evicted=2 filter=00000000000000ff quarantined=4";

static void look_at_text(struct kw_slice bytes)
{
	struct kw_local_cursor cursor, again;
	char written[KW_CURSOR_TEXT];

	if (!kw_cursor_parse(bytes, &cursor))
		return;
	kw_cursor_format(&cursor, written);
	must(memchr(written, 0, sizeof written) != NULL);
	must(kw_cursor_parse(kw_slice_text(written), &again));
}

static void look_at_library(struct kw_slice code)
{
	struct kw_local_cursor cursor, again;
	struct kw_buffer library = {0};

	must(!kw_cursor_is_library(code) ||
		kw_cursor_from_library(code, &cursor) == KW_CURSOR_OURS);
	if (kw_cursor_from_library(code, &cursor) != KW_CURSOR_OURS)
		return;
	kw_cursor_library("name", &cursor, &library);
	code = kw_slice(kw_buffer_bytes(&library), kw_buffer_length(&library));
	must(kw_cursor_is_library(code));
	must(kw_cursor_from_library(code, &again) == KW_CURSOR_OURS);
	must(again.version == cursor.version && again.bond == cursor.bond);
	kw_buffer_close(&library);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_slice bytes = kw_slice(data, size);
	struct kw_error error = {0};
	char name[128];

	look_at_text(bytes);
	look_at_library(bytes);
	snprintf(name, sizeof name, "%.*s", (int)(size < 100 ? size : 100), (const char *)data);
	must(kw_cursor_name_check(name, &error) == 0 || error.text[0] != 0);
	return 0;
}

/* The text alone, and a library of each bond. */
size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	struct kw_buffer library = {0};
	struct kw_local_cursor cursor;
	size_t length;

	if (n > 1 + KW_BOND_PROMOTED || most < 1024)
		return 0;
	if (n == 0) {
		memcpy(data, text, sizeof text - 1);
		return sizeof text - 1;
	}
	must(kw_cursor_parse(kw_slice_text(text), &cursor));
	cursor.bond = (enum kw_cursor_bond)(n - 1);
	kw_cursor_library("keywake", &cursor, &library);
	length = kw_buffer_length(&library);
	memcpy(data, kw_buffer_bytes(&library), length);
	kw_buffer_close(&library);
	return length;
}
