/* The fields at the beginning of an RDB, as servers wrote them for a reader that leaves all keys
 * out. */
#include "stream/preamble.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define BYTES(text)                                                                                \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

#define REDIS_7                                                                                    \
	"REDIS0010\xfa\tredis-ver\x06"                                                             \
	"7.0.15\xfa\nredis-bits\xc0@\xfa\x05"                                                      \
	"ctime\xc2\x84\xf3\tk\xfa\x08used-mem\xc2\x08\xd2\x0f\x00\xfa\x0erepl-stream-"             \
	"db\xc0\x03\xfa"                                                                           \
	"\x07repl-id(eb458a00016e7591face917c21e816f5888a86be\xfa\x0brepl-offset\xc0M\xfa\x08"     \
	"aof-base\xc0\x00\xff\xdc\xbb\xcf\x1fs\xf8\x02\xcb"
#define VALKEY_9                                                                                   \
	"REDIS0011\xfa\nvalkey-ver\x05"                                                            \
	"9.1.2\xfa\nredis-bits\xc0@\xfa\x05"                                                       \
	"ctime\xc2\x95\xf3\tk\xfa\x08used-mem\xc2\xa0"                                             \
	"8\x10\x00\xfa\x0erepl-stream-db\xc0\x03\xfa\x07repl-id("                                  \
	"de27f55b0c54085b8ec943d854910c1f46c2f3da\xfa\x0brepl-offset\xc0[\xfa\x08"                 \
	"aof-base\xc0\x00\xff`-m\xd2"                                                              \
	"2\n\x16\xdc"

/* From memory of just that size, so that a sanitizer sees each byte beyond it. */
static bool number(struct kw_slice rdb, const char *field, uint64_t *value)
{
	char *exact = malloc(rdb.length + 1);
	bool found;

	memcpy(exact, rdb.data, rdb.length);
	found = kw_repl_preamble_number(kw_slice(exact, rdb.length), field, value);
	free(exact);
	return found;
}

static void what_servers_write_is_read(void **state)
{
	static const struct kw_slice servers[] = {BYTES(REDIS_7), BYTES(VALKEY_9)};

	for (size_t i = 0; i < 2; i++) {
		uint64_t value;

		assert_true(number(servers[i], "repl-stream-db", &value));
		assert_int_equal(value, 3);
		assert_true(number(servers[i], "redis-bits", &value));
		assert_int_equal(value, 64);
		assert_false(number(servers[i], "repl-id", &value));
		assert_false(number(servers[i], "repl-stream", &value));
		assert_false(number(servers[i], "another", &value));
	}
}

static void each_form_of_a_number_is_read(void **state)
{
	static const struct {
		struct kw_slice rdb;
		uint64_t value;
	} cases[] = {
		{BYTES("REDIS0010\xfa\x01n\xc1\x34\x12"), 0x1234},
		{BYTES("REDIS0010\xfa\x01n\xc2\x78\x56\x34\x12"), 0x12345678},
		{BYTES("REDIS0010\xfa\x01n\x03"
		       "123"),
			123},
		{BYTES("VALKEY080\xfa\x40\x01n\x40\x02"
		       "12"),
			12}, /* lengths of 14 bits */
		{BYTES("REDIS0010\xfa\x80\0\0\0\x01n\x81\0\0\0\0\0\0\0\x01"
		       "7"),
			7}, /* … and of 32 and 64 */
	};
	uint64_t value;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_true(number(cases[i].rdb, "n", &value));
		assert_int_equal(value, cases[i].value);
	}
}

static void what_is_none_is_refused(void **state)
{
	static const struct kw_slice cases[] = {
		BYTES(""),
		BYTES("RDB000010\xfa\x01n\x01"
		      "1"),
		BYTES("REDIS0010\xfe\x01n\x01"
		      "1"),                               /* another opcode */
		BYTES("REDIS0010\xfa\x01n\xc0\xff"),      /* less than 0 */
		BYTES("REDIS0010\xfa\x01n\xc1\xff"),      /* not whole */
		BYTES("REDIS0010\xfa\x01n\xc3\x01\x01x"), /* packed by LZF */
		BYTES("REDIS0010\xfa\x01n\x82"),          /* no such length */
		BYTES("REDIS0010\xfa\x01n\x81\xff\xff\xff\xff\xff\xff\xff\xff"), /* longer than all
										  */
		BYTES("REDIS0010\xfa\x01n\x02"
		      "1x"),
		BYTES("REDIS0010\xfa\x01n\x80\0\0\0"),
	};
	uint64_t value;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_false(number(cases[i], "n", &value));
}

static void each_beginning_of_it_is_refused_or_read(void **state)
{
	const struct kw_slice whole = BYTES(REDIS_7);
	bool found = false;

	for (size_t length = 0; length <= whole.length; length++) {
		uint64_t value = 0;
		bool now = number(kw_slice(whole.data, length), "repl-stream-db", &value);

		assert_true(now || !found);
		assert_true(!now || value == 3);
		found = now;
	}
	assert_true(found);
}

static void fields_are_bounded(void **state)
{
	char rdb[9 + 6 * (KW_REPL_PREAMBLE_FIELDS + 1)];
	uint64_t value;

	memcpy(rdb, "REDIS0010", 9);
	for (size_t at = 9; at < sizeof rdb; at += 6)
		memcpy(rdb + at,
			at + 6 == sizeof rdb ? "\xfa\x01n\xc1\x01\0" : "\xfa\x01m\xc1\x01\0", 6);
	assert_false(number(kw_slice(rdb, sizeof rdb), "n", &value));
	assert_true(number(kw_slice(rdb, sizeof rdb), "m", &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_servers_write_is_read),
		cmocka_unit_test(each_form_of_a_number_is_read),
		cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(each_beginning_of_it_is_refused_or_read),
		cmocka_unit_test(fields_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
