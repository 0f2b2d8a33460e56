/*
 * Values that follow from the one before: INCRBY, APPEND, SETRANGE, KEEPTTL. The feed is a fake.
 * Where both are compared, the server does the same.
 */
#include "values_fixture.h"

#include "base/clock.h"
#include "source/missing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* ---- from the table ---- */

/* Strings in each encoding that DUMP has. */
static const char *const befores[] = {"0", "5", "-1", "127", "-128", "128", "32767", "-32769",
	"2147483647", "-2147483648", "2147483648", "99999999999", "9223372036854775806",
	"-9223372036854775807", "007", "-0", "+1", "1.5", "a", "123456789012345678901234567890",
	"aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

static void set_all(const char *suffix)
{
	for (size_t i = 0; i < sizeof befores / sizeof *befores; i++) {
		char name[32];

		snprintf(name, sizeof name, "%s:%zu", suffix, i);
		test_ask(&test, "SET %s %s PXAT " EXPIRES_TEXT, name, befores[i]);
		tell_dirty_expiry(name);
	}
}

static void every_encoding_is_amended_as_the_server_does(void **state)
{
	begin();
	set_all("add");
	set_all("append");
	set_all("write");
	test_until(&test, is_at_rest, "their fetches");
	pass_orders();
	no_fetch_from_here();
	for (size_t i = 0; i < sizeof befores / sizeof *befores; i++) {
		char name[32];

		snprintf(name, sizeof name, "add:%zu", i);
		if (server_does("INCRBY", name, "1"))
			add(name, 1);
		snprintf(name, sizeof name, "append:%zu", i);
		if (server_does("APPEND", name, "7"))
			append(name, "7");
		snprintf(name, sizeof name, "write:%zu", i);
		if (server_does("SETRANGE", name, "2 xy"))
			write_at(name, 2, "xy");
	}
	assert_no_fetch();
	test_assert_same(&test);
	end();
}

static void one_change_after_the_other_needs_no_fetch(void **state)
{
	uint64_t values;

	begin();
	values = test_stats(&test).values;
	no_fetch_from_here();
	tell(KW_FEED_STRING, "n", "7", EXPIRES);
	for (int i = 0; i < 1000; i++)
		add("n", i % 2 ? -3 : 4);
	assert_string_equal(text_of("n"), "507");
	assert_int_equal(expiry_of("n"), EXPIRES);
	add("n", -600); /* from the table */
	append("n", "x");
	write_at("n", 6, "y");
	append("n", "z");
	assert_int_equal(test_stats(&test).values, values + 1001);
	test_run_ms(&test, 1);
	assert_int_equal(test_stats(&test).values, values + 1005);
	assert_no_fetch();
	end();
}

static void a_key_that_is_gone_begins_anew(void **state)
{
	begin();
	no_fetch_from_here();
	tell(KW_FEED_STRING, "n", "7", EXPIRES);
	tell(KW_FEED_GONE, "n", "", 0);
	add("n", 2);
	assert_string_equal(text_of("n"), "2");
	assert_int_equal(expiry_of("n"), 0);
	tell(KW_FEED_GONE, "n", "", 0);
	test_run_ms(&test, 1);
	append("n", "new");
	assert_string_equal(text_of("n"), "new");
	assert_no_fetch();
	end();
}

static void a_key_that_the_table_lacks_is_new(void **state)
{
	begin();
	no_fetch_from_here();
	add("n", -3);
	append("a", "text");
	write_at("w", 0, "written");
	tell(KW_FEED_KEEPTTL, "k", "1.5", 0);
	assert_string_equal(text_of("n"), "-3");
	assert_string_equal(text_of("a"), "text");
	assert_string_equal(text_of("w"), "written");
	assert_string_equal(text_of("k"), "1.5");
	assert_no_fetch();
	end();
}

/* A replica answers nil for an expired key that its primary may have changed before it expired. */
static void a_key_that_a_replica_lacks_may_be_there(void **state)
{
	begin();
	fake_feed.identity.upstream = KW_UPSTREAM_UP;
	no_fetch_from_here();
	tell(KW_FEED_GONE, "gone", "", 0); /* its primary's word */
	add("gone", 2);
	assert_string_equal(text_of("gone"), "2");
	append("key:1", "x");
	assert_no_fetch();
	test_ask(&test, "SET n 5");
	add("n", 1);
	assert_int_equal(test_stats(&test).dirty_keys, 1);
	tell(KW_FEED_KEEPTTL, "k", "1.5", 0);
	assert_int_equal(test_stats(&test).dirty_keys, 2);
	test_until(&test, is_at_rest, "their fetches");
	assert_string_equal(text_of("n"), "5");
	assert_null(text_of("k"));
	end();
}

/* These are on the server although the table has nothing of them. */
static void a_key_that_the_table_cannot_hold_is_not_new(void **state)
{
	struct kw_store *store;

	begin();
	store = &test.source->store;
	test_ask(&test, "SET large 5");
	test_ask(&test, "SET unreadable 6 PXAT " EXPIRES_TEXT);
	kw_missing_add(&store->too_large, 0, kw_slice_text("large"));
	kw_missing_add(&store->unreadable->keys, 0, kw_slice_text("unreadable"));
	no_fetch_from_here();
	add("large", 1);
	assert_int_equal(test_stats(&test).dirty_keys, 1);
	tell(KW_FEED_KEEPTTL, "unreadable", "7", 0);
	assert_int_equal(test_stats(&test).dirty_keys, 2);
	assert_false(test_has(&test, 0, "large"));
	assert_false(test_has(&test, 0, "unreadable"));
	end();
}

static void a_kept_expiry_is_that_of_the_table(void **state)
{
	begin();
	test_ask(&test, "SET key:1 old PXAT " EXPIRES_TEXT);
	fetch("key:1");
	no_fetch_from_here();
	tell(KW_FEED_KEEPTTL, "key:1", "first", 0);
	assert_string_equal(text_of("key:1"), "first");
	assert_int_equal(expiry_of("key:1"), EXPIRES);
	tell(KW_FEED_EXPIRY, "key:1", "", 0);
	tell(KW_FEED_KEEPTTL, "key:1", "second", 0);
	assert_string_equal(text_of("key:1"), "second");
	assert_int_equal(expiry_of("key:1"), 0);
	tell(KW_FEED_STRING, "key:2", "v", EXPIRES);
	tell(KW_FEED_KEEPTTL, "key:2", "w", 0);
	tell(KW_FEED_EXPIRY, "key:2", "", EXPIRES + 1);
	assert_string_equal(text_of("key:2"), "w");
	assert_int_equal(expiry_of("key:2"), EXPIRES + 1);
	assert_no_fetch();
	end();
}

/* ---- what is not exact ---- */

static void tell_each_amendment(void)
{
	add("key:1", 1);
	append("key:2", "x");
	write_at("key:3", 1, "x");
	tell(KW_FEED_KEEPTTL, "key:4", "x", 0);
	copy(0, "key:5", 0, "key:6");
}

/* Each of them must be fetched: what the feed told is not true. */
static void assert_all_fetched(void)
{
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(fetches_since(), 5);
	test_assert_same(&test);
}

static void guarded_keys_are_fetched(void **state)
{
	begin_guarded();
	no_fetch_from_here();
	tell_each_amendment();
	assert_all_fetched();
	end();
}

static void dirty_keys_are_fetched(void **state)
{
	begin();
	test_ask(&test, "CLIENT PAUSE 300 ALL");
	for (int i = 1; i < 6; i++) {
		char name[16];

		snprintf(name, sizeof name, "key:%d", i);
		tell_dirty(name);
	}
	test_run_ms(&test, 20); /* in flight; but key:6 is not */
	tell_each_amendment();
	test_until(&test, is_at_rest, "their fetches");
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).values, 0);
	end();
}

static bool is_scanning(struct test *t)
{
	return t->source->sweep.sm.state == KW_SWEEP_SCANNING;
}

/* The scan has come to none of them yet: they are neither dirty nor guarded. */
static void keys_in_doubt_are_fetched(void **state)
{
	begin();
	fake_feed_doubt(KW_DOUBT_COMMAND, 0);
	test_until(&test, is_scanning, "the scan");
	assert_int_equal(test_stats(&test).dirty_keys, 0);
	no_fetch_from_here();
	tell_each_amendment();
	assert_int_equal(test_stats(&test).dirty_keys, 5);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).values, 0);
	end();
}

/* The value was told after the question, so the answer is not used: the table is exact. */
/* The server may have left it out without a word. Its clock counts, and not ours. */
static void nothing_follows_from_a_value_whose_time_is_over(void **state)
{
	uint64_t in_a_minute = kw_wall_us() / 1000 + 60000;

	begin();
	tell(KW_FEED_STRING, "key:1", "one", in_a_minute);
	append("key:1", "more");
	assert_string_equal(text_of("key:1"), "onemore");
	fake_feed.skew_us = 59000000;
	append("key:1", "yet");
	assert_string_equal(text_of("key:1"), "onemoreyet");
	fake_feed.skew_us = 60000000;
	append("key:1", "late");
	await_fetch();
	end();
}

static void a_key_in_flight_that_was_overtaken_is_exact(void **state)
{
	begin();
	test_ask(&test, "CLIENT PAUSE 300 ALL");
	tell_dirty("key:1");
	test_run_ms(&test, 20);
	tell(KW_FEED_STRING, "key:1", "5", 0);
	assert_string_equal(text_of("key:1"), "5");
	add("key:1", 6);
	assert_string_equal(text_of("key:1"), "11");
	assert_int_equal(test_stats(&test).dirty_keys, 1);
	test_until(&test, is_at_rest, "the answer");
	assert_string_equal(text_of("key:1"), "11");
	end();
}

/* It waits here, so it is exact. But the table can be ahead, so it is fetched in the end. */
static void a_guarded_key_is_fetched_although_its_value_was_told(void **state)
{
	begin_guarded();
	test_ask(&test, "SET key:1 9");
	tell(KW_FEED_STRING, "key:1", "5", 0);
	add("key:1", 1);
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "9");
	end();
}

/* ---- what no server sends ---- */

struct lie {
	const char *before; /* a command; NULL: the key is not there */
	enum kw_feed_value_kind kind;
	int64_t number;
	const char *bytes;
};

static const struct lie lies[] = {
	{"SET lie 007", KW_FEED_ADD, 1, ""},
	{"SET lie +5", KW_FEED_ADD, 1, ""},
	{"SET lie 5.0", KW_FEED_ADD, 1, ""},
	{"SET lie text", KW_FEED_ADD, 1, ""},
	{"SET lie 9223372036854775807", KW_FEED_ADD, 1, ""},
	{"SET lie -9223372036854775808", KW_FEED_ADD, -1, ""},
	{"SET lie 123456789012345678901", KW_FEED_ADD, 1, ""},
	{"RPUSH lie a b", KW_FEED_ADD, 1, ""},
	{"RPUSH lie a b", KW_FEED_APPEND, 0, "x"},
	{"SADD lie 1 2", KW_FEED_APPEND, 0, "x"},
	{"HSET lie a b", KW_FEED_WRITE, 1, "x"},
	{"SET lie text", KW_FEED_WRITE, (1 << 20) + 1, "x"},
	{"SET lie text", KW_FEED_WRITE, INT64_MAX, "x"},
};

static void what_a_server_refuses_is_fetched(void **state)
{
	begin();
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		test_ask(&test, "DEL lie");
		test_ask(&test, "%s", lies[i].before);
		fetch("lie");
		no_fetch_from_here();
		fake_feed_value(&(struct kw_feed_value){.kind = lies[i].kind,
			.name = kw_slice_text("lie"),
			.bytes = kw_slice_text(lies[i].bytes),
			.number = lies[i].number});
		await_fetch();
		test_assert_same(&test);
		pass_orders();
	}
	end();
}

static void a_string_beyond_the_bound_is_fetched(void **state)
{
	struct kw_slice set[] = {kw_slice_text("SET"), kw_slice_text("large"), {0}};
	char *text = malloc(MIB);

	memset(text, 'x', MIB);
	begin();
	set[2] = kw_slice(text, MIB);
	test_send(&test, 3, set);
	fetch("large");
	no_fetch_from_here();
	append("large", "");
	write_at("large", 5, "written");
	test_ask(&test, "SETRANGE large 5 written");
	assert_no_fetch();
	test_assert_same(&test);
	test_ask(&test, "APPEND large x");
	append("large", "x");
	await_fetch();
	test_assert_same(&test);
	free(text);
	end();
}

/* ---- work is bounded ---- */

/* A short command that changes a long value: beyond the bound its key is fetched. */
static void bytes_that_the_stream_did_not_carry_are_bounded(void **state)
{
	struct kw_bucket *derived;

	begin();
	derived = &test.source->store.values.derived;
	kw_bucket_init(derived, 1, kw_clock_us()); /* a byte: in debt for longer than the test */
	tell(KW_FEED_STRING, "n", "5", 0);
	no_fetch_from_here();
	write_at("w", 100000, "x"); /* the last one that is taken */
	add("n", 1);                /* an integer is never long */
	assert_string_equal(text_of("n"), "6");
	assert_no_fetch();
	test_ask(&test, "DEL key:1 key:2 key:3 key:4");
	append("key:1", "x");
	write_at("key:2", 5, "x");
	copy(0, "key:5", 0, "key:3");
	tell(KW_FEED_EXPIRY, "key:4", "", EXPIRES);
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(fetches_since(), 4);
	for (int i = 1; i < 5; i++) {
		char name[16];

		snprintf(name, sizeof name, "key:%d", i);
		assert_false(test_has(&test, 0, name));
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_encoding_is_amended_as_the_server_does),
		cmocka_unit_test(one_change_after_the_other_needs_no_fetch),
		cmocka_unit_test(a_key_that_is_gone_begins_anew),
		cmocka_unit_test(a_key_that_the_table_lacks_is_new),
		cmocka_unit_test(a_key_that_a_replica_lacks_may_be_there),
		cmocka_unit_test(a_key_that_the_table_cannot_hold_is_not_new),
		cmocka_unit_test(a_kept_expiry_is_that_of_the_table),
		cmocka_unit_test(guarded_keys_are_fetched),
		cmocka_unit_test(dirty_keys_are_fetched),
		cmocka_unit_test(keys_in_doubt_are_fetched),
		cmocka_unit_test(nothing_follows_from_a_value_whose_time_is_over),
		cmocka_unit_test(a_key_in_flight_that_was_overtaken_is_exact),
		cmocka_unit_test(a_guarded_key_is_fetched_although_its_value_was_told),
		cmocka_unit_test(what_a_server_refuses_is_fetched),
		cmocka_unit_test(a_string_beyond_the_bound_is_fetched),
		cmocka_unit_test(bytes_that_the_stream_did_not_carry_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
