/*
 * Arbitrary bytes as a FUNCTION DUMP and as a key's payload: the stream takes all of it or nothing,
 * and what it takes is made of the bytes that were there. A set of libraries is written as it was
 * read, less the cursors. The version and CRC64 at the end are made
 * right first, or nothing would get past them.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "rdb/libraries.h"
#include "rdb/payload.h"
#include "rdb/rdb.h"

#include <string.h>

#define STREAM_VERSION 12
#define CODE_MOST 4096

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES(""),
	KW_FUZZ_BYTES("\xf5\x0e#!lua name=lib\xf5\x40\x0e#!lua name=own"),
	KW_FUZZ_BYTES("\xf5\x10#!lua \"name=own\""),
	KW_FUZZ_BYTES("\xf5\xc3\x05\x40\x60\x00"
		      "a\xe0\x56\x00"),
	KW_FUZZ_BYTES("\xf5\xc0\x07\xf5\x00"),
	KW_FUZZ_BYTES("\xf5\x80\x00\x00\x00\x0f#!lua name='own'"),
	KW_FUZZ_BYTES("\x00\x05hello"),
	KW_FUZZ_BYTES("\xf5\x0d#!lua name=b\n\xf5\x0d#!lua name=a\n"),
	KW_FUZZ_BYTES("\xf5\x0c#!lua name=a\xf5\x0c#!lua name=a"),
	KW_FUZZ_BYTES("\xf5\x40\x3d#!lua name=c\n"
		      "callback=function() return 'keywake-cursor 2' end"),
};

size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	if (n >= sizeof seeds / sizeof *seeds || seeds[n].length > most)
		return 0;
	if (seeds[n].length == 0) {
		data[0] = 0;
		return 1;
	}
	memcpy(data, seeds[n].bytes, seeds[n].length);
	return seeds[n].length;
}

static void seal(struct kw_buffer *payload, const uint8_t *data, size_t size)
{
	const uint8_t version[2] = {STREAM_VERSION, 0};
	uint64_t crc;

	kw_buffer_append(payload, data, size);
	kw_buffer_append(payload, version, 2);
	crc = kw_crc64(0, kw_buffer_bytes(payload), size + 2);
	for (unsigned i = 0; i < 8; i++) {
		uint8_t byte = (uint8_t)(crc >> (8 * i));

		kw_buffer_append(payload, &byte, 1);
	}
}

static void try_functions(struct kw_slice dump, const char *name)
{
	const struct kw_rdb_except by_name = {.name = name}, *except = name ? &by_name : NULL;
	struct kw_buffer out = {0};
	struct kw_rdb rdb, before;
	struct kw_error error;
	size_t length;
	int code;

	kw_rdb_begin(&rdb, STREAM_VERSION, true, &out);
	before = rdb;
	length = kw_buffer_length(&out);
	code = kw_rdb_functions(&rdb, dump, except, &out, &error);
	if (code) {
		must(kw_buffer_length(&out) == length && memcmp(&rdb, &before, sizeof rdb) == 0);
	} else {
		length = kw_buffer_length(&out) - length;
		must(except ? length <= dump.length - KW_PAYLOAD_FOOTER
			    : length == dump.length - KW_PAYLOAD_FOOTER);
		must(rdb.crc == kw_crc64(0, kw_buffer_bytes(&out), kw_buffer_length(&out)));
		must(rdb.bytes == kw_buffer_length(&out));
	}
	kw_buffer_close(&out);
}

static void try_set(struct kw_slice dump)
{
	struct kw_libraries set = {0}, again = {0};
	struct kw_hash128 first, next;
	struct kw_buffer out = {0};
	struct kw_error error;

	if (kw_libraries_read(&set, dump, CODE_MOST, &error) == KW_OK) {
		for (size_t i = 0; i < set.count; i++)
			must(kw_libraries_find(&set, set.all[i].name) == &set.all[i] &&
				!kw_library_is_cursor(set.all[i].code));
		kw_libraries_write(&set, STREAM_VERSION, &out);
		must(kw_libraries_read(&again,
			     kw_slice(kw_buffer_bytes(&out), kw_buffer_length(&out)), CODE_MOST,
			     &error) == KW_OK);
		must(again.count == set.count && again.cursor_count == 0);
		first = kw_libraries_digest(&set);
		next = kw_libraries_digest(&again);
		must(memcmp(&first, &next, sizeof first) == 0);
	} else {
		must(!set.all && !set.cursors && error.text[0]);
	}
	kw_libraries_close(&set);
	kw_libraries_close(&again);
	kw_buffer_close(&out);
}

static void try_key(struct kw_slice payload)
{
	const struct kw_rdb_entry entry = {1, 2, kw_slice("key", 3), payload};
	struct kw_buffer out = {0};
	struct kw_rdb rdb;

	kw_rdb_begin(&rdb, STREAM_VERSION, true, &out);
	if (kw_rdb_put(&rdb, &entry, &out, NULL) == KW_OK)
		must(rdb.crc == kw_crc64(0, kw_buffer_bytes(&out), kw_buffer_length(&out)) &&
			rdb.bytes == kw_buffer_length(&out));
	else
		must(kw_buffer_length(&out) == 9);
	kw_buffer_close(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_buffer sealed = {0};
	struct kw_slice payload;

	seal(&sealed, data, size);
	payload = kw_slice(kw_buffer_bytes(&sealed), kw_buffer_length(&sealed));
	try_functions(payload, NULL);
	try_functions(payload, "own");
	try_functions(kw_slice(data, size), NULL);
	try_set(payload);
	try_set(kw_slice(data, size));
	try_key(payload);
	kw_buffer_close(&sealed);
	return 0;
}
