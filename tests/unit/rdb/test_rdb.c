/* The RDB stream, byte by byte. What real servers say of it: test_rdb_servers.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "payload_build.h"
#include "rdb/rdb.h"

#define EXPIRY UINT64_C(0x0102030405060708)

static struct kw_buffer out, payload;
static struct kw_rdb rdb;
static struct kw_error error;

static int clear(void **state)
{
	kw_buffer_close(&out);
	kw_buffer_close(&payload);
	return 0;
}

static void begin(uint16_t version, bool checksummed)
{
	kw_rdb_begin(&rdb, version, checksummed, &out);
	kw_buffer_clear(&out);
}

static void string_payload(const char *text, uint16_t version)
{
	kw_buffer_clear(&payload);
	build_begin(&payload, 0);
	build_text(&payload, text);
	build_end(&payload, version);
}

static struct kw_rdb_entry entry_of(uint32_t database, uint64_t expires_ms, const char *key)
{
	return (struct kw_rdb_entry){
		database, expires_ms, kw_slice_text(key), build_slice(&payload)};
}

static int put(uint32_t database, uint64_t expires_ms, const char *key)
{
	const struct kw_rdb_entry entry = entry_of(database, expires_ms, key);

	return kw_rdb_put(&rdb, &entry, &out, &error);
}

#define assert_out(text)                                                                           \
	do {                                                                                       \
		assert_int_equal(kw_buffer_length(&out), sizeof(text) - 1);                        \
		assert_memory_equal(kw_buffer_bytes(&out), text, sizeof(text) - 1);                \
		kw_buffer_clear(&out);                                                             \
	} while (0)

static void the_header_names_the_fork_and_the_version(void **state)
{
	kw_rdb_begin(&rdb, 10, true, &out);
	assert_out("REDIS0010");
	assert_int_equal(rdb.bytes, 9);
	kw_rdb_begin(&rdb, 80, true, &out);
	assert_out("VALKEY080");
	assert_int_equal(rdb.bytes, 9);
}

static void a_key_stands_behind_its_database_and_expiry(void **state)
{
	begin(10, true);
	string_payload("v", 10);
	assert_int_equal(put(3, EXPIRY, "key"), KW_OK);
	assert_out("\xfe\x03\xfc\x08\x07\x06\x05\x04\x03\x02\x01\x00\x03key\x01v");
	assert_int_equal(put(3, 0, ""), KW_OK);
	assert_out("\x00\x00\x01v"); /* the same database: not selected again */
	assert_int_equal(put(0, 0, "k"), KW_OK);
	assert_out("\xfe\x00\x00\x01k\x01v");
	assert_int_equal(put(300, 0, "k"), KW_OK);
	assert_out("\xfe\x41\x2c\x00\x01k\x01v");
	assert_int_equal(rdb.entries, 4);
}

static void sizes_stand_behind_their_database(void **state)
{
	begin(10, false);
	kw_rdb_sizes(&rdb, 2, 100000, 5, &out);
	assert_out("\xfe\x02\xfb\x80\x00\x01\x86\xa0\x05");
	kw_rdb_sizes(&rdb, 2, UINT64_C(1) << 40, 63, &out);
	assert_out("\xfb\x81\x00\x00\x01\x00\x00\x00\x00\x00\x3f");
}

static void long_keys_have_long_lengths(void **state)
{
	static const struct {
		size_t length;
		const char *form;
		size_t bytes;
	} keys[] = {{63, "\x3f", 1}, {64, "\x40\x40", 2}, {16383, "\x7f\xff", 2},
		{16384, "\x80\x00\x00\x40\x00", 5}};
	char *text = kw_alloc(20000);

	begin(10, false);
	string_payload("v", 10);
	assert_int_equal(put(0, 0, "first"), KW_OK);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		memset(text, 'k', keys[i].length);
		text[keys[i].length] = '\0';
		kw_buffer_clear(&out);
		assert_int_equal(put(0, 0, text), KW_OK);
		assert_int_equal(kw_buffer_length(&out), 1 + keys[i].bytes + keys[i].length + 2);
		assert_memory_equal(kw_buffer_bytes(&out) + 1, keys[i].form, keys[i].bytes);
	}
	free(text);
}

/* The value may go its own way: bytes and checksum are the same. */
static void a_value_can_be_left_where_it_is(void **state)
{
	struct kw_buffer whole = {0};
	struct kw_rdb other;
	struct kw_rdb_entry entry;
	struct kw_slice value;

	string_payload("a value that is written from where it lies", 10);
	entry = entry_of(7, EXPIRY, "key");
	kw_rdb_begin(&rdb, 10, true, &out);
	assert_int_equal(kw_rdb_put_head(&rdb, &entry, &out, &value, &error), KW_OK);
	kw_buffer_append(&out, value.data, value.length);
	kw_rdb_begin(&other, 10, true, &whole);
	assert_int_equal(kw_rdb_put(&other, &entry, &whole, &error), KW_OK);
	kw_rdb_end(&rdb, &out);
	kw_rdb_end(&other, &whole);
	assert_int_equal(kw_buffer_length(&out), kw_buffer_length(&whole));
	assert_memory_equal(kw_buffer_bytes(&out), kw_buffer_bytes(&whole), kw_buffer_length(&out));
	assert_int_equal(rdb.bytes, kw_buffer_length(&out));
	assert_int_equal(other.bytes, rdb.bytes);
	kw_buffer_close(&whole);
}

static void the_checksum_covers_all_before_it(void **state)
{
	uint64_t crc, written = 0;
	const uint8_t *bytes;
	size_t length;

	kw_rdb_begin(&rdb, 10, true, &out);
	kw_rdb_function(&rdb, kw_slice_text("#!lua name=a\n"), &out);
	kw_rdb_sizes(&rdb, 0, 2, 0, &out);
	string_payload("v", 10);
	put(0, 0, "k");
	put(1, EXPIRY, "k");
	kw_rdb_end(&rdb, &out);
	bytes = kw_buffer_bytes(&out);
	length = kw_buffer_length(&out);
	crc = kw_crc64(0, bytes, length - 8);
	for (unsigned i = 0; i < 8; i++)
		written |= (uint64_t)bytes[length - 8 + i] << (8 * i);
	assert_int_equal(bytes[length - 9], 0xff);
	assert_true(crc == written);
	assert_int_equal(rdb.bytes, length);
}

static void a_link_has_zeros_for_a_checksum(void **state)
{
	begin(10, false);
	kw_rdb_end(&rdb, &out);
	assert_out("\xff\0\0\0\0\0\0\0\0");
}

static void assert_refused(int code, const char *words)
{
	const struct kw_rdb before = rdb;

	kw_buffer_clear(&out);
	kw_buffer_append(&out, "what was there", 14);
	assert_int_equal(put(9, EXPIRY, "key"), code);
	assert_non_null(strstr(error.text, words));
	assert_out("what was there");
	assert_memory_equal(&rdb, &before, sizeof rdb);
}

static void what_would_stop_a_server_is_refused(void **state)
{
	begin(10, true);
	string_payload("v", 11);
	assert_refused(KW_E_PROTOCOL, "11");
	string_payload("v", 10);
	payload.data[payload.start + 1] ^= 1;
	assert_refused(KW_E_CORRUPT, "CRC64");
	kw_buffer_clear(&payload);
	assert_refused(KW_E_CORRUPT, "few");
	build_begin(&payload, 255);
	build_text(&payload, "an end in the middle");
	build_end(&payload, 10);
	assert_refused(KW_E_PROTOCOL, "255");
	string_payload("v", 9); /* an older one goes */
	assert_int_equal(put(9, 0, "key"), KW_OK);
}

static void the_forks_do_not_mix(void **state)
{
	begin(80, false);
	string_payload("v", 12);
	assert_refused(KW_E_PROTOCOL, "12");
	string_payload("v", 11);
	assert_int_equal(put(0, 0, "shared by both"), KW_OK);
	string_payload("v", 80);
	assert_int_equal(put(0, 0, "its own"), KW_OK);
	begin(14, false);
	assert_refused(KW_E_PROTOCOL, "80");
}

/* ---- functions ---- */

static const char first_code[] = "#!lua name=first\nredis.register_function('f', g)\n";
static const char quoted_code[] = "#!LUA  \"NAME=second\" other=1\n-- name=first\n";

static void add_library(const char *code)
{
	uint8_t opcode = 245;

	kw_buffer_append(&payload, &opcode, 1);
	build_text(&payload, code);
}

static void function_dump(uint16_t version)
{
	kw_buffer_clear(&payload);
	add_library(first_code);
	add_library(quoted_code);
	build_end(&payload, version);
}

static int functions(const char *name)
{
	const struct kw_rdb_except except = {.name = name};

	kw_buffer_clear(&out);
	return kw_rdb_functions(&rdb, build_slice(&payload), name ? &except : NULL, &out, &error);
}

static void libraries_stand_as_they_were_dumped(void **state)
{
	begin(10, true);
	function_dump(10);
	assert_int_equal(functions(NULL), KW_OK);
	assert_int_equal(kw_buffer_length(&out), kw_buffer_length(&payload) - 10);
	assert_memory_equal(
		kw_buffer_bytes(&out), kw_buffer_bytes(&payload), kw_buffer_length(&out));
}

static void one_library_is_left_out_by_its_name(void **state)
{
	const size_t first = 2 + sizeof first_code - 1, second = 2 + sizeof quoted_code - 1;

	begin(10, true);
	function_dump(10);
	assert_int_equal(functions("first"), KW_OK);
	assert_int_equal(kw_buffer_length(&out), second);
	assert_int_equal(functions("second"), KW_OK); /* in quotes, in capitals */
	assert_int_equal(kw_buffer_length(&out), first);
	assert_int_equal(functions("fir"), KW_OK);
	assert_int_equal(kw_buffer_length(&out), first + second);
	assert_int_equal(functions("firstly"), KW_OK);
	assert_int_equal(kw_buffer_length(&out), first + second);
	assert_int_equal(functions(""), KW_OK);
	assert_int_equal(kw_buffer_length(&out), first + second);
}

static bool is_first(struct kw_slice code)
{
	return kw_slice_equal(code, kw_slice_text(first_code));
}

static void libraries_are_left_out_by_their_code(void **state)
{
	const struct kw_rdb_except except = {.name = "second", .leave = is_first};
	const struct kw_rdb_except code_alone = {.leave = is_first};

	begin(10, true);
	function_dump(10);
	kw_buffer_clear(&out);
	assert_int_equal(
		kw_rdb_functions(&rdb, build_slice(&payload), &code_alone, &out, &error), KW_OK);
	assert_int_equal(kw_buffer_length(&out), 2 + sizeof quoted_code - 1);
	kw_buffer_clear(&out);
	assert_int_equal(
		kw_rdb_functions(&rdb, build_slice(&payload), &except, &out, &error), KW_OK);
	assert_int_equal(kw_buffer_length(&out), 0);
}

static void a_compressed_library_has_a_name_too(void **state)
{
	char code[600] = "#!lua name=packed\n";
	uint8_t opcode = 245;

	memset(code + strlen(code), '-', sizeof code - strlen(code) - 1);
	kw_buffer_append(&payload, &opcode, 1);
	build_lzf(&payload, kw_slice_text(code));
	add_library("no first line at all");
	add_library("");
	build_end(&payload, 10);
	begin(10, true);
	assert_int_equal(functions(NULL), KW_OK);
	assert_int_equal(kw_buffer_length(&out), kw_buffer_length(&payload) - 10);
	assert_int_equal(functions("packed"), KW_OK);
	assert_int_equal(kw_buffer_length(&out), 2 + 20 + 2);
}

static void a_server_without_libraries_dumps_a_footer(void **state)
{
	begin(10, true);
	build_end(&payload, 10);
	assert_int_equal(functions("any"), KW_OK);
	assert_int_equal(kw_buffer_length(&out), 0);
	payload.data[payload.start + 5] ^= 1;
	assert_int_equal(functions(NULL), KW_E_CORRUPT);
}

static void assert_dump_refused(int code)
{
	const struct kw_rdb before = rdb;

	assert_int_equal(functions(NULL), code);
	assert_int_equal(kw_buffer_length(&out), 0);
	assert_memory_equal(&rdb, &before, sizeof rdb);
}

static void a_dump_that_would_stop_a_server_is_refused(void **state)
{
	uint8_t text_and_length[] = {245, 0x30, 'x'};

	begin(10, true);
	function_dump(11);
	assert_dump_refused(KW_E_PROTOCOL);
	function_dump(10);
	payload.data[payload.start + 9] ^= 1;
	assert_dump_refused(KW_E_CORRUPT);
	string_payload("a value's payload is no dump of functions", 10);
	assert_dump_refused(KW_E_CORRUPT);
	kw_buffer_clear(&payload);
	add_library(first_code); /* a good one first: it must not stay */
	kw_buffer_append(&payload, text_and_length, sizeof text_and_length);
	build_end(&payload, 10);
	assert_dump_refused(KW_E_CORRUPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_header_names_the_fork_and_the_version, clear),
		cmocka_unit_test_teardown(a_key_stands_behind_its_database_and_expiry, clear),
		cmocka_unit_test_teardown(sizes_stand_behind_their_database, clear),
		cmocka_unit_test_teardown(long_keys_have_long_lengths, clear),
		cmocka_unit_test_teardown(a_value_can_be_left_where_it_is, clear),
		cmocka_unit_test_teardown(the_checksum_covers_all_before_it, clear),
		cmocka_unit_test_teardown(a_link_has_zeros_for_a_checksum, clear),
		cmocka_unit_test_teardown(what_would_stop_a_server_is_refused, clear),
		cmocka_unit_test_teardown(the_forks_do_not_mix, clear),
		cmocka_unit_test_teardown(libraries_stand_as_they_were_dumped, clear),
		cmocka_unit_test_teardown(one_library_is_left_out_by_its_name, clear),
		cmocka_unit_test_teardown(libraries_are_left_out_by_their_code, clear),
		cmocka_unit_test_teardown(a_compressed_library_has_a_name_too, clear),
		cmocka_unit_test_teardown(a_server_without_libraries_dumps_a_footer, clear),
		cmocka_unit_test_teardown(a_dump_that_would_stop_a_server_is_refused, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
