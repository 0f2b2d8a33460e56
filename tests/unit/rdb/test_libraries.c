/* Sets of function libraries: taken out of a server's dump, compared, and written for another one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "payload_build.h"
#include "rdb/libraries.h"

#define MOST ((size_t)1 << 20)

static const char one[] = "#!lua name=one\nredis.register_function('f', g)\n";
static const char other_one[] = "#!lua name=one\nredis.register_function('f', h)\n";
static const char two[] = "#!lua  \"name=two\" engine=x\n-- name=one\n";
static const char cursor[] =
	"#!lua name=keywake_cursor\n"
	"redis.register_function{function_name='keywake_cursor', flags={'no-writes'},\n"
	"callback=function() return 'keywake-cursor 2 epoch=0 version=0 quarantined=0' end}\n";
/* Of an agent that is not written yet. */
static const char later_cursor[] =
	"#!lua name=other_cursor\n-- more\n"
	"redis.register_function{function_name='other_cursor', flags={'no-writes'},\n"
	"callback=function() return 'keywake-cursor 9 anything=1' end}\n";

static struct kw_buffer dump, again;
static struct kw_libraries set;
static struct kw_error error;

static int clear(void **state)
{
	kw_buffer_close(&dump);
	kw_buffer_close(&again);
	kw_libraries_close(&set);
	return 0;
}

static void add_opcode(void)
{
	const uint8_t opcode = 245;

	kw_buffer_append(&dump, &opcode, 1);
}

static void add(const char *code)
{
	add_opcode();
	build_text(&dump, code);
}

static int read_dump(uint16_t version, size_t most)
{
	kw_libraries_close(&set);
	build_end(&dump, version);
	return kw_libraries_read(&set, build_slice(&dump), most, &error);
}

/* The libraries in this order, as a server of this version dumps them. */
static void take(uint16_t version, const char *const *codes, size_t count)
{
	kw_buffer_clear(&dump);
	for (size_t i = 0; i < count; i++)
		add(codes[i]);
	assert_int_equal(read_dump(version, MOST), KW_OK);
}

#define TAKE(version, ...)                                                                         \
	take(version, (const char *const[]){__VA_ARGS__},                                          \
		sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

#define assert_text(slice, text)                                                                   \
	do {                                                                                       \
		assert_int_equal((slice).length, strlen(text));                                    \
		assert_memory_equal((slice).data, text, strlen(text));                             \
	} while (0)

static void a_set_is_in_the_order_of_its_names(void **state)
{
	TAKE(10, two, one);
	assert_int_equal(set.count, 2);
	assert_text(set.all[0].name, "one");
	assert_text(set.all[0].code, one);
	assert_text(set.all[1].name, "two");
	assert_text(set.all[1].code, two);
	assert_ptr_equal(kw_libraries_find(&set, kw_slice_text("two")), &set.all[1]);
	assert_null(kw_libraries_find(&set, kw_slice_text("tw")));
	assert_null(kw_libraries_find(&set, kw_slice_text("")));
}

static void a_dump_without_a_library_is_an_empty_set(void **state)
{
	kw_buffer_clear(&dump);
	assert_int_equal(read_dump(10, MOST), KW_OK);
	assert_int_equal(set.count, 0);
	assert_true(kw_libraries_is_empty(build_slice(&dump)));
	assert_null(kw_libraries_find(&set, kw_slice_text("one")));
}

/* Order, version and packing are the server's own. */
static void equal_sets_have_one_digest_and_others_have_another(void **state)
{
	static const char long_one[] =
		"#!lua name=long\n-- aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	struct kw_hash128 first, next;

	TAKE(10, two, one);
	first = kw_libraries_digest(&set);
	TAKE(80, one, two);
	next = kw_libraries_digest(&set);
	assert_memory_equal(&first, &next, sizeof first);
	TAKE(10, two, one, cursor);
	next = kw_libraries_digest(&set);
	assert_memory_equal(&first, &next, sizeof first);
	TAKE(10, two, other_one);
	next = kw_libraries_digest(&set);
	assert_memory_not_equal(&first, &next, sizeof first);
	TAKE(10, two);
	next = kw_libraries_digest(&set);
	assert_memory_not_equal(&first, &next, sizeof first);

	TAKE(10, long_one);
	first = kw_libraries_digest(&set);
	kw_buffer_clear(&dump);
	add_opcode();
	build_lzf(&dump, kw_slice_text(long_one));
	assert_int_equal(read_dump(11, MOST), KW_OK);
	next = kw_libraries_digest(&set);
	assert_memory_equal(&first, &next, sizeof first);
}

static void what_is_written_is_read_back(void **state)
{
	struct kw_hash128 first, next;
	const uint8_t *bytes;

	TAKE(12, two, cursor, one);
	first = kw_libraries_digest(&set);
	kw_buffer_append(&again, "before", 6);
	kw_libraries_write(&set, 10, &again);
	kw_buffer_consume(&again, 6);
	kw_libraries_close(&set);
	assert_int_equal(kw_libraries_read(&set, build_slice(&again), MOST, &error), KW_OK);
	next = kw_libraries_digest(&set);
	assert_memory_equal(&first, &next, sizeof first);
	assert_int_equal(set.cursor_count, 0);
	bytes = kw_buffer_bytes(&again);
	assert_int_equal(bytes[kw_buffer_length(&again) - 10], 10);
}

/* A set speaks of the server's functions. A cursor speaks of one server's data. */
static void cursors_are_no_part_of_a_set(void **state)
{
	TAKE(10, cursor, one, later_cursor);
	assert_int_equal(set.count, 1);
	assert_text(set.all[0].name, "one");
	assert_int_equal(set.cursor_count, 2);
	assert_true(kw_libraries_has_cursor(&set, kw_slice_text("keywake_cursor")));
	assert_true(kw_libraries_has_cursor(&set, kw_slice_text("other_cursor")));
	assert_false(kw_libraries_has_cursor(&set, kw_slice_text("one")));
	assert_null(kw_libraries_find(&set, kw_slice_text("keywake_cursor")));
}

/* What only names a cursor, or quotes one, is a library as any other. */
static void only_the_shape_of_a_cursor_makes_one(void **state)
{
	static char long_code[8192];
	static const char *const codes[] = {
		"#!lua name=keywake_cursor\nredis.register_function('f', g)\n",
		"#!lua name=a\n-- keywake-cursor 2 epoch=0\n",
		"-- #!lua name=keywake_cursor\ncallback=function() return 'keywake-cursor 2' "
		"end}\n",
		"",
		long_code,
	};

	memset(long_code, 'x', sizeof long_code - 1);
	memcpy(long_code, cursor, sizeof cursor - 1);
	assert_true(kw_library_is_cursor(kw_slice_text(cursor)));
	assert_true(kw_library_is_cursor(kw_slice_text(later_cursor)));
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		assert_false(kw_library_is_cursor(kw_slice_text(codes[i])));
}

static void names_are_read_as_the_servers_read_them(void **state)
{
	static const struct {
		const char *line, *name; /* NULL: it has none */
	} rows[] = {
		{"#!lua name=a", "a"},
		{"#!lua name=A_9\nname=b", "A_9"},
		{"#!js NAME=a", "a"},
		{"#!lua\tx=y\tname=\"b\"\n", "b"},
		{"#!lua 'name=b'", "b"},
		{"#!lua name=\n", NULL},
		{"#!lua name=a-b\n", NULL},
		{"#!lua name=a\"b\"\n", NULL},
		{"#!lua\nname=a\n", NULL},
		{"", NULL},
	};
	struct kw_slice name;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(
			kw_library_name(kw_slice_text(rows[i].line), &name), rows[i].name != NULL);
		if (rows[i].name)
			assert_text(name, rows[i].name);
	}
}

static void assert_refused(enum kw_code code, uint16_t version, size_t most)
{
	error.text[0] = '\0';
	assert_int_equal(read_dump(version, most), code);
	assert_int_not_equal(error.text[0], 0);
	assert_int_equal(set.count, 0);
	assert_null(set.all);
}

static void what_is_no_set_is_refused(void **state)
{
	kw_buffer_clear(&dump);
	add(one);
	add(other_one); /* one name twice */
	assert_refused(KW_E_CORRUPT, 10, MOST);

	kw_buffer_clear(&dump);
	add("-- no name");
	assert_refused(KW_E_CORRUPT, 10, MOST);

	kw_buffer_clear(&dump);
	add(one);
	build_text(&dump, two); /* without its opcode */
	assert_refused(KW_E_CORRUPT, 10, MOST);

	kw_buffer_clear(&dump);
	add(one);
	add_opcode(); /* and nothing after it */
	assert_refused(KW_E_CORRUPT, 10, MOST);
}

static void every_bit_of_a_dump_counts(void **state)
{
	uint8_t *bytes;

	TAKE(10, one, two);
	bytes = (uint8_t *)(uintptr_t)kw_buffer_bytes(&dump);
	for (size_t bit = 0; bit < 8 * kw_buffer_length(&dump); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		kw_libraries_close(&set);
		assert_int_equal(
			kw_libraries_read(&set, build_slice(&dump), MOST, &error), KW_E_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t length = 0; length < kw_buffer_length(&dump); length++)
		assert_int_equal(kw_libraries_read(&set, kw_slice(bytes, length), MOST, &error),
			KW_E_CORRUPT);
}

static void a_set_is_bounded(void **state)
{
	char code[64];

	kw_buffer_clear(&dump);
	add(one);
	add(two);
	assert_refused(KW_E_FULL, 10, sizeof one + sizeof two - 3);
	TAKE(10, one, two);

	kw_buffer_clear(&dump);
	for (int i = 0; i <= KW_LIBRARIES_MAX; i++) {
		snprintf(code, sizeof code, "#!lua name=n%d", i);
		add(code);
	}
	assert_refused(KW_E_FULL, 10, MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_is_in_the_order_of_its_names),
		cmocka_unit_test(a_dump_without_a_library_is_an_empty_set),
		cmocka_unit_test(equal_sets_have_one_digest_and_others_have_another),
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(cursors_are_no_part_of_a_set),
		cmocka_unit_test(only_the_shape_of_a_cursor_makes_one),
		cmocka_unit_test(names_are_read_as_the_servers_read_them),
		cmocka_unit_test(what_is_no_set_is_refused),
		cmocka_unit_test(every_bit_of_a_dump_counts),
		cmocka_unit_test(a_set_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, clear);
}
