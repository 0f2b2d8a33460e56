/*
 * Keys that get the value of another one: COPY, RENAME, MOVE. And a random workload of all that
 * follows from known values. The feed is a fake; the server does the same.
 */
#include "values_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_copy_has_value_and_expiry(void **state)
{
	begin();
	test_ask(&test, "SET key:1 v PXAT " EXPIRES_TEXT);
	fetch("key:1");
	no_fetch_from_here();
	copy(0, "key:1", 0, "from the table");
	tell(KW_FEED_STRING, "told", "t", EXPIRES);
	copy(0, "told", 0, "from the batch");
	copy(0, "from the batch", 0, "key:2"); /* REPLACE */
	tell(KW_FEED_GONE, "told", "", 0);
	assert_string_equal(text_of("from the table"), "v");
	assert_int_equal(expiry_of("from the table"), EXPIRES);
	assert_string_equal(text_of("from the batch"), "t");
	assert_int_equal(expiry_of("from the batch"), EXPIRES);
	assert_string_equal(text_of("key:2"), "t");
	assert_int_equal(expiry_of("key:2"), EXPIRES);
	assert_false(test_has(&test, 0, "told"));
	copy(0, "key:3", 0, "key:2");
	test_run_ms(&test, 1);
	assert_int_equal(expiry_of("key:2"), 0);
	assert_no_fetch();
	end();
}

static const char *const kinds[] = {"SET string v", "RPUSH list a b c", "SADD set a 1",
	"SADD ints 1 2 3", "HSET hash f v", "ZADD zset 1 a 2.5 b", "SETRANGE sparse 5000 x"};

static void values_of_every_kind_are_copied(void **state)
{
	begin();
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		char name[16];

		test_ask(&test, "%s", kinds[i]);
		sscanf(kinds[i], "%*s %15s", name);
		fetch(name);
	}
	no_fetch_from_here();
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		char name[16], target[24];

		sscanf(kinds[i], "%*s %15s", name);
		snprintf(target, sizeof target, "copy:%s", name);
		test_ask(&test, "COPY %s %s DB 2", name, target);
		copy(0, name, 2, target);
		test_ask(&test, "RENAME %s %s", name, target);
		copy(0, name, 0, target);
		tell(KW_FEED_GONE, name, "", 0);
	}
	assert_no_fetch();
	test_assert_same(&test);
	end();
}

/* Reading changes a consumer's times, and the replication stream does not tell that. */
static void a_stream_is_fetched_for_its_copy(void **state)
{
	begin();
	test_ask(&test, "XADD stream 1-1 f v");
	fetch("stream");
	no_fetch_from_here();
	test_ask(&test, "COPY stream copy");
	copy(0, "stream", 0, "copy");
	await_fetch();
	test_assert_same(&test);
	end();
}

static void the_copy_of_a_key_that_is_not_exact_is_fetched(void **state)
{
	begin();
	no_fetch_from_here();
	test_ask(&test, "SET unknown last PXAT " EXPIRES_TEXT);
	test_ask(&test, "COPY unknown copy");
	tell_dirty_expiry("unknown");
	copy(0, "unknown", 0, "copy");
	copy(0, "nobody has it", 0, "key:7");
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(fetches_since(), 3);
	assert_int_equal(expiry_of("copy"), EXPIRES);
	copy(0, "unknown", 0, "key:8"); /* guarded: what was fetched can be of after the copy */
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(fetches_since(), 4);
	test_assert_same(&test);
	end();
}

/* The table can be ahead of the target, or a sweep waits for it. */
static void a_copy_to_a_guarded_key_is_fetched(void **state)
{
	begin();
	test_ask(&test, "SET key:1 newer PXAT " EXPIRES_TEXT);
	tell_dirty_expiry("key:1");
	test_until(&test, is_at_rest, "its fetch");
	no_fetch_from_here();
	copy(0, "key:2", 0, "key:1"); /* of before that fetch */
	await_fetch();
	assert_string_equal(text_of("key:1"), "newer");
	assert_int_equal(expiry_of("key:1"), EXPIRES);
	end();
}

/* The scan saw the key, and then it was gone: the stream is behind that, and its value unknown. */
static void a_key_that_was_gone_unexplained_is_not_copied(void **state)
{
	begin();
	fake_feed_dirty(&(struct kw_dirty_key){kw_slice_text("key:1"), 0, KW_DIRTY_SCAN}, 1);
	test_ask(&test, "RENAME key:1 key:2");
	test_until(&test, is_at_rest, "its fetch");
	assert_true(test_has(&test, 0, "key:1")); /* the feed will say why */
	no_fetch_from_here();
	copy(0, "key:1", 0, "key:2");
	tell(KW_FEED_GONE, "key:1", "", 0);
	await_fetch();
	test_assert_same(&test);
	end();
}

/* ---- anything, in any order ---- */

#define NAMES 12
#define STEPS 1500

static uint64_t dice;

static uint32_t roll(uint32_t bound)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 16) % bound;
}

static const char *some_text(void)
{
	static const char *const texts[] = {"0", "-1", "126", "32767", "2147483647",
		"9223372036854775800", "007", "x", "abcabcabcabcabcabcabcabcabcabcabcabcabcabc",
		"0123456789012345678"};

	return texts[roll(sizeof texts / sizeof *texts)];
}

/* Done by the server, and changed something? */
static bool did(void)
{
	return test.reply[0] != '-' && strcmp(test.reply, "0") != 0;
}

static void say_value(
	enum kw_feed_value_kind kind, const char *name, const char *text, uint64_t expires_ms)
{
	say(&(struct kw_feed_value){.kind = kind,
		.name = kw_slice_text(name),
		.bytes = kw_slice_text(text),
		.expires_ms = expires_ms});
}

static void random_string(const char *name)
{
	const char *text = some_text();
	int64_t number = roll(2) ? (int64_t)roll(300) - 150 : INT64_C(1) << roll(62);
	uint32_t at = roll(60);
	char more[64];

	switch (roll(6)) {
	case 0:
		test_ask(&test, "SET %s %s PXAT " EXPIRES_TEXT, name, text);
		say_value(KW_FEED_STRING, name, text, EXPIRES);
		break;
	case 1:
		test_ask(&test, "SET %s %s KEEPTTL", name, text);
		say_value(KW_FEED_KEEPTTL, name, text, 0);
		break;
	case 2:
		if (server_does("APPEND", name, text))
			append(name, text);
		break;
	case 3:
		snprintf(more, sizeof more, "%u %s", at, text);
		if (server_does("SETRANGE", name, more))
			write_at(name, at, text);
		break;
	default:
		snprintf(more, sizeof more, "%" PRId64, number);
		if (server_does("INCRBY", name, more))
			add(name, number);
		break;
	}
}

static void random_other(const char *name, const char *other)
{
	switch (roll(6)) {
	case 0:
		test_ask(&test, "PEXPIREAT %s " EXPIRES_TEXT, name);
		if (did())
			say_value(KW_FEED_EXPIRY, name, "", EXPIRES);
		break;
	case 1:
		test_ask(&test, "PERSIST %s", name);
		if (did())
			say_value(KW_FEED_EXPIRY, name, "", 0);
		break;
	case 2:
		test_ask(&test, "DEL %s", name);
		if (did())
			say_value(KW_FEED_GONE, name, "", 0);
		break;
	case 3:
		test_try(&test, "RENAME %s %s", name, other);
		if (!did() || strcmp(name, other) == 0)
			break;
		copy(0, name, 0, other);
		say_value(KW_FEED_GONE, name, "", 0);
		break;
	default:
		if (strcmp(name, other) == 0)
			break;
		test_ask(&test, "COPY %s %s REPLACE", name, other);
		if (did())
			copy(0, name, 0, other);
		break;
	}
}

static void a_random_workload_is_followed_without_a_fetch(void **state)
{
	static char names[NAMES][16]; /* half of them are there already */
	const char *seed = getenv("KW_SEED");

	dice = seed ? strtoull(seed, NULL, 10) * 2 + 1 : UINT64_C(88172645463325252);
	print_message("KW_SEED=%s\n", seed ? seed : "none");
	begin();
	no_fetch_from_here();
	for (int i = 0; i < NAMES; i++)
		snprintf(names[i], sizeof names[i], "key:%d", KEYS - NAMES / 2 + i);
	for (int i = 0; i < STEPS; i++) {
		if (none_waits())
			say_together(roll(2) ? 0 : roll(TOGETHER));
		if (roll(3))
			random_string(names[roll(NAMES)]);
		else
			random_other(names[roll(NAMES)], names[roll(NAMES)]);
	}
	say_all();
	say_together(0);
	assert_no_fetch();
	test_assert_same(&test);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_that_was_gone_unexplained_is_not_copied),
		cmocka_unit_test(a_copy_has_value_and_expiry),
		cmocka_unit_test(values_of_every_kind_are_copied),
		cmocka_unit_test(a_stream_is_fetched_for_its_copy),
		cmocka_unit_test(the_copy_of_a_key_that_is_not_exact_is_fetched),
		cmocka_unit_test(a_copy_to_a_guarded_key_is_fetched),
		cmocka_unit_test(a_random_workload_is_followed_without_a_fetch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
