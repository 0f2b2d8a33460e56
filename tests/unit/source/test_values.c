/*
 * Values that the feed tells, in order with what is fetched. The feed is a fake and tells what the
 * server does not have, so it is seen which of the two is in the table. The server is real.
 */
#include "values_fixture.h"

#include "source/missing.h"

#include <stdio.h>
#include <string.h>

static void a_value_needs_no_fetch(void **state)
{
	uint64_t fetches;

	begin();
	fetches = test_stats(&test).fetches;
	tell_string("key:1");
	tell_string("new");
	tell(KW_FEED_STRING, "expires", TOLD, 4102444800123);
	tell(KW_FEED_GONE, "key:2", "", 0);
	assert_string_equal(text_of("key:1"), TOLD);
	assert_string_equal(text_of("new"), TOLD);
	assert_int_equal(expiry_of("expires"), 4102444800123);
	assert_false(test_has(&test, 0, "key:2"));
	test_run_ms(&test, 50);
	assert_int_equal(test_stats(&test).fetches, fetches);
	assert_int_equal(test_stats(&test).values, 4);
	end();
}

static void the_last_of_two_changes_counts(void **state)
{
	begin();
	tell(KW_FEED_STRING, "a", "first", 0);
	tell(KW_FEED_STRING, "a", "second", 0);
	tell(KW_FEED_GONE, "b", "", 0);
	tell(KW_FEED_STRING, "b", "after", 0);
	tell(KW_FEED_STRING, "c", "before", 0);
	tell(KW_FEED_GONE, "c", "", 0);
	assert_string_equal(text_of("a"), "second");
	assert_string_equal(text_of("b"), "after");
	assert_false(test_has(&test, 0, "c"));
	end();
}

/* More than a batch of them, as a transaction has: none is left for the next turn. */
static void many_values_are_there_together(void **state)
{
	char name[16];

	begin();
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "many:%d", i);
		tell_string(name);
	}
	test_run_ms(&test, 1);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "many:%d", i);
		assert_true(test_has(&test, 0, name));
	}
	end();
}

/* The fetches of the first scan can be ahead of what the feed tells. */
static void before_the_first_order_each_key_is_fetched(void **state)
{
	uint64_t fetches;

	begin_guarded();
	fetches = test_stats(&test).fetches;
	tell_string("key:1");
	test_until(&test, is_at_rest, "its fetch");
	test_assert_same(&test);
	assert_true(test_stats(&test).fetches > fetches);
	assert_int_equal(test_stats(&test).values, 0);
	end();
}

static void a_key_that_was_fetched_just_now_is_fetched_again(void **state)
{
	begin();
	test_ask(&test, "SET key:1 newer");
	tell_dirty("key:1");
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "newer");
	tell_string("key:1"); /* of before that fetch */
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "newer");
	pass_orders();
	tell_string("key:1");
	assert_string_equal(text_of("key:1"), TOLD);
	end();
}

/* The server is at this offset. The key was fetched there, and before the next hundred. */
static void fetch_at(const char *name, uint64_t offset)
{
	tell_dirty("key:9");
	pass_order(offset);
	tell_dirty(name);
	pass_order(offset + 100);
}

/* A stream that is far behind tells what the fetch has: that makes no fetch. */
static void a_change_from_before_a_fetch_is_passed_over(void **state)
{
	uint64_t now;

	begin();
	now = fake_feed.offset;
	test_ask(&test, "SET key:1 newer");
	fetch_at("key:1", now + 100);
	no_fetch_from_here();
	tell_string("key:1");
	add("key:1", 1);
	tell(KW_FEED_GONE, "key:1", "", 0);
	assert_no_fetch();
	assert_string_equal(text_of("key:1"), "newer");
	fake_feed.offset = now + 150; /* between the fetch's two offsets */
	tell_string("key:1");
	await_fetch();
	assert_string_equal(text_of("key:1"), "newer");
	pass_order(now + 300);
	fake_feed.offset = now + 300;
	no_fetch_from_here();
	tell_string("key:1");
	assert_string_equal(text_of("key:1"), TOLD);
	assert_no_fetch();
	end();
}

/* The fetch did not ask for one: nothing had told that there is any. */
static void an_expiry_from_before_a_fetch_is_fetched(void **state)
{
	begin();
	fetch_at("key:1", fake_feed.offset + 100);
	test_ask(&test, "PEXPIREAT key:1 4102444800123");
	no_fetch_from_here();
	tell(KW_FEED_EXPIRY, "key:1", "", 4102444800123);
	await_fetch();
	assert_int_equal(expiry_of("key:1"), 4102444800123);
	end();
}

/* The same with its value: it waits in the batch first. */
static void a_value_with_an_expiry_from_before_a_fetch_is_fetched(void **state)
{
	begin();
	fetch_at("key:1", fake_feed.offset + 100);
	test_ask(&test, "SET key:1 \"told\" PXAT 4102444800123");
	no_fetch_from_here();
	tell(KW_FEED_STRING, "key:1", "told", EXPIRES);
	await_fetch();
	assert_int_equal(expiry_of("key:1"), EXPIRES);
	end();
}

/* The table has what key:1 became after the COPY. */
static void nothing_is_copied_of_what_a_fetch_brought_later(void **state)
{
	begin();
	test_ask(&test, "SET copy older");
	test_ask(&test, "SET key:1 newer");
	fetch_at("key:1", fake_feed.offset + 100);
	copy(0, "key:1", 0, "copy");
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("copy"), "older");
	end();
}

/* A sweep saw the key, and it was gone when it was asked for: the table has it until that is told.
 */
static void the_end_of_a_key_that_a_sweep_found_gone_is_not_passed_over(void **state)
{
	begin();
	test_ask(&test, "DEL key:1");
	tell_dirty("key:9");
	pass_order(fake_feed.offset + 100);
	kw_dirty_add(test.source->dirty, 0, kw_slice_text("key:1"), KW_DIRTY_SCAN);
	tell_dirty("key:9"); /* a turn */
	pass_order(fake_feed.offset + 200);
	assert_true(test_has(&test, 0, "key:1"));
	tell(KW_FEED_GONE, "key:1", "", 0);
	test_until(&test, is_at_rest, "its end");
	assert_null(text_of("key:1"));
	end();
}

/* FLUSHDB │ SET key:1 │ DEL key:1 │ the answer that the database is empty: key:1 stays away. */
static void a_change_from_before_its_database_was_emptied_is_passed_over(void **state)
{
	uint64_t now;

	begin();
	now = fake_feed.offset;
	fetch_at("key:1", now + 100);
	assert_true(fake_feed_empty(0));
	no_fetch_from_here();
	tell_string("key:1");
	tell_string("key:2"); /* it was never fetched */
	assert_no_fetch();
	assert_null(text_of("key:1"));
	assert_null(text_of("key:2"));
	fake_feed.offset =
		now + 250; /* it was asked for at 200, and the next offset is not known */
	tell_string("key:2");
	await_fetch();
	pass_order(now + 300);
	fake_feed.offset = now + 300;
	no_fetch_from_here();
	tell_string("key:3");
	assert_string_equal(text_of("key:3"), TOLD);
	assert_no_fetch();
	end();
}

/*
 * SET key:1 first PXAT … │ SET key:1 second │ COPY key:1 copy │ the fetch of key:1
 * The first is never old, and waits in the batch. The second is old and passed over. What waits is
 * not what the key has at the COPY then.
 */
static void what_waits_is_not_copied_after_a_change_that_was_passed_over(void **state)
{
	uint64_t now;

	begin();
	now = fake_feed.offset;
	test_ask(&test, "SET key:1 second");
	test_ask(&test, "SET copy second");
	fetch_at("key:1", now + 100);
	tell(KW_FEED_STRING, "key:1", "first", EXPIRES);
	tell(KW_FEED_STRING, "key:1", "second", 0);
	copy(0, "key:1", 0, "copy");
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("copy"), "second");
	assert_int_equal(expiry_of("copy"), 0);
	end();
}

/* SET key:1 5 PXAT … │ SET key:1 7 │ the fetch of key:1 │ INCR key:1, in one turn of the stream */
static void nothing_is_added_to_what_waits_after_a_change_that_was_passed_over(void **state)
{
	uint64_t now;

	begin();
	now = fake_feed.offset;
	test_ask(&test, "SET key:1 7");
	fetch_at("key:1", now + 100);
	test_ask(&test, "INCR key:1");
	tell(KW_FEED_STRING, "key:1", "5", EXPIRES);
	tell(KW_FEED_STRING, "key:1", "7", 0);
	fake_feed.offset = now + 200;
	add("key:1", 1);
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "8");
	assert_int_equal(expiry_of("key:1"), 0);
	end();
}

/* The same, with an expiry that is kept: the table would lose the key then. */
static void no_expiry_is_kept_of_what_waits_after_a_change_that_was_passed_over(void **state)
{
	uint64_t now;

	begin();
	now = fake_feed.offset;
	test_ask(&test, "SET key:1 second");
	fetch_at("key:1", now + 100);
	test_ask(&test, "SET key:1 third KEEPTTL");
	tell(KW_FEED_STRING, "key:1", "first", EXPIRES);
	tell(KW_FEED_STRING, "key:1", "second", 0);
	fake_feed.offset = now + 200;
	tell(KW_FEED_KEEPTTL, "key:1", "third", 0);
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "third");
	assert_int_equal(expiry_of("key:1"), 0);
	end();
}

static uv_check_t answered;
static uint64_t answered_from;

static void tell_after_answer(uv_check_t *check)
{
	if (kw_fetch_stats(test.source->fetch)->fetches == answered_from)
		return;
	uv_check_stop(check);
	tell(KW_FEED_STRING, "key:1", "first", 0); /* the answer waits to be stored */
	tell(KW_FEED_KEEPTTL, "key:3", TOLD, 0);   /* looks at the table, so it is stored now */
	tell(KW_FEED_STRING, "key:1", "second", 0);
	copy(0, "key:1", 0, "copy");
}

static bool is_told_after_answer(struct test *t)
{
	return !uv_is_active((uv_handle_t *)&answered);
}

static void check_closed(uv_handle_t *handle)
{
}

/* The same without an expiry: the fetch is stored between the two changes. */
static void what_waits_is_not_copied_after_a_fetch_was_stored(void **state)
{
	begin();
	test_ask(&test, "SET key:1 second");
	test_ask(&test, "SET copy second");
	tell_dirty("key:9");
	pass_order(fake_feed.offset + 100);
	answered_from = kw_fetch_stats(test.source->fetch)->fetches;
	uv_check_init(&test.loop, &answered);
	uv_check_start(&answered, tell_after_answer);
	tell_dirty("key:1");
	test_until(&test, is_told_after_answer, "the answer");
	test_until(&test, is_at_rest, "what came of it");
	assert_string_equal(text_of("copy"), "second");
	uv_close((uv_handle_t *)&answered, check_closed);
	end();
}

/* Two connections: a dirty key that is asked for when the value is told. */
static void the_answer_to_a_key_that_a_value_has_overtaken_is_not_used(void **state)
{
	begin();
	test_ask(&test, "CLIENT PAUSE 300 ALL"); /* the answer waits in the server */
	tell_dirty("key:1");
	test_run_ms(&test, 20);
	assert_int_equal(test_stats(&test).dirty_keys, 1);
	tell_string("key:1");
	assert_string_equal(text_of("key:1"), TOLD);
	test_until(&test, is_at_rest, "the answer");
	assert_string_equal(text_of("key:1"), TOLD);
	end();
}

static void a_change_after_the_value_is_fetched_again(void **state)
{
	begin();
	test_ask(&test, "SET key:1 last");
	test_ask(&test, "CLIENT PAUSE 300 ALL");
	tell_dirty("key:1");
	test_run_ms(&test, 20);
	tell_string("key:1");
	tell_dirty("key:1");
	test_until(&test, is_at_rest, "the second answer");
	assert_string_equal(text_of("key:1"), "last");
	end();
}

/* A value ends the wait of a key that is not asked for yet. */
static void a_waiting_key_is_not_fetched_any_more(void **state)
{
	uint64_t fetches;

	begin();
	fetches = test_stats(&test).fetches;
	tell_dirty("key:1");
	tell_string("key:1");
	test_until(&test, is_at_rest, "the end of its wait");
	test_run_ms(&test, 20);
	assert_string_equal(text_of("key:1"), TOLD);
	assert_int_equal(test_stats(&test).fetches, fetches);
	end();
}

static void a_change_without_a_value_comes_after_it(void **state)
{
	begin();
	test_ask(&test, "SET key:1 last");
	tell_string("key:1");
	tell_dirty("key:1");
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "last");
	end();
}

static void an_expiry_is_set_on_what_is_known_exactly(void **state)
{
	uint64_t fetches;

	begin();
	fetches = test_stats(&test).fetches;
	tell_string("key:1");
	tell(KW_FEED_EXPIRY, "key:1", "", 4102444800123);
	test_run_ms(&test, 1);
	assert_int_equal(expiry_of("key:1"), 4102444800123);
	tell(KW_FEED_EXPIRY, "key:1", "", 0);
	test_run_ms(&test, 1);
	assert_int_equal(expiry_of("key:1"), 0);
	assert_string_equal(text_of("key:1"), TOLD);
	assert_int_equal(test_stats(&test).fetches, fetches);
	end();
}

static void an_expiry_of_another_key_is_fetched_with_its_value(void **state)
{
	begin();
	test_ask(&test, "SET key:1 last PXAT 4102444800123");
	test_ask(&test, "SET unknown last PXAT 4102444800124");
	tell_dirty("key:1");
	tell(KW_FEED_EXPIRY, "key:1", "", 4102444800123);
	tell(KW_FEED_EXPIRY, "unknown", "", 4102444800124);
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(expiry_of("key:1"), 4102444800123);
	assert_int_equal(expiry_of("unknown"), 4102444800124);
	assert_string_equal(text_of("key:1"), "last");
	end();
}

/* While a sweep mends, what the table has can be wrong. */
static void an_expiry_in_doubt_is_fetched_with_its_value(void **state)
{
	begin();
	test_ask(&test, "SET key:1 last PXAT 4102444800123");
	fake_feed_doubt(KW_DOUBT_COMMAND, 0);
	tell(KW_FEED_EXPIRY, "key:1", "", 4102444800123);
	test_settle(&test);
	assert_string_equal(text_of("key:1"), "last");
	end();
}

/* Its answer can be older than the value, and a database that it does not list may be emptied. */
static void while_databases_are_listed_each_key_is_fetched(void **state)
{
	begin();
	test_ask(&test, "SET key:1 last");
	fake_feed_doubt(KW_DOUBT_FLUSH, 0);
	tell_string("key:1");
	test_settle(&test);
	assert_string_equal(text_of("key:1"), "last");
	assert_int_equal(test_stats(&test).values, 0);
	end();
}

static void a_flush_is_the_end_of_each_key(void **state)
{
	begin();
	no_fetch_from_here();
	tell_string("key:1");
	assert_true(fake_feed_flushed(0));
	tell_string("key:2");
	append("key:3", "alone");
	assert_null(text_of("key:1"));
	assert_string_equal(text_of("key:2"), TOLD);
	assert_string_equal(text_of("key:3"), "alone");
	assert_int_equal(kw_table_database_keys(test.table, 0), 2);
	assert_no_fetch();
	end();
}

static void a_flush_ends_the_fetches_of_its_keys(void **state)
{
	begin();
	test_ask(&test, "CLIENT PAUSE 300 ALL"); /* the answer waits in the server */
	tell_dirty("key:1");
	test_run_ms(&test, 20);
	tell_dirty("key:2");
	assert_true(fake_feed_flushed(0));
	test_until(&test, is_at_rest, "the answer");
	assert_int_equal(kw_table_database_keys(test.table, 0), 0);
	end();
}

static void a_flush_of_another_database_ends_nothing(void **state)
{
	begin();
	test_ask(&test, "SET key:1 last");
	tell_dirty("key:1");
	assert_true(fake_feed_flushed(1));
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "last");
	assert_int_equal(kw_table_database_keys(test.table, 0), KEYS);
	end();
}

/* FLUSHDB │ SET key:1 │ the fetch of key:1: it is there, and was not flushed. */
static void a_flush_from_before_a_fetch_is_not_used(void **state)
{
	begin();
	fetch_at("key:1", fake_feed.offset + 100);
	assert_false(fake_feed_flushed(0));
	assert_int_equal(kw_table_database_keys(test.table, 0), KEYS);
	fake_feed.offset += 500;
	assert_true(fake_feed_flushed(0));
	assert_int_equal(kw_table_database_keys(test.table, 0), 0);
	end();
}

static void while_databases_are_listed_no_flush_is_used(void **state)
{
	begin();
	fake_feed_doubt(KW_DOUBT_FLUSH, 0);
	assert_false(fake_feed_flushed(0));
	test_settle(&test);
	assert_int_equal(kw_table_database_keys(test.table, 0), KEYS);
	end();
}

/* Its only keys are some that the table cannot hold. */
static void a_flush_forgets_the_keys_that_the_table_lacks(void **state)
{
	struct kw_store *store;

	begin();
	store = &test.source->store;
	kw_missing_add(&store->too_large, 5, kw_slice_text("giant"));
	kw_missing_add(&store->unreadable->keys, 5, kw_slice_text("strange"));
	kw_missing_add(&store->too_large, 6, kw_slice_text("elsewhere"));
	assert_false(fake_feed_swapped(0, 5));
	assert_true(fake_feed_flushed(5));
	assert_int_equal(store->too_large.count, 1);
	assert_int_equal(store->unreadable->keys.count, 0);
	assert_true(fake_feed_swapped(0, 5));
	kw_missing_remove(&store->too_large, 6, kw_slice_text("elsewhere"));
	end();
}

static void databases_are_swapped_if_both_are_exact(void **state)
{
	begin();
	no_fetch_from_here();
	tell_string("key:1");
	assert_true(fake_feed_swapped(0, 5));
	tell_string("key:2");
	assert_null(text_of("key:1"));
	assert_string_equal(text_of("key:2"), TOLD);
	assert_int_equal(kw_table_database_keys(test.table, 0), 1);
	assert_int_equal(kw_table_database_keys(test.table, 5), KEYS);
	assert_true(fetches_since() <= 2); /* keys that are not followed in database 0 alone */
	test_until(&test, is_at_rest, "their fetches");
	pass_orders();
	assert_true(fake_feed_swapped(5, 7));
	assert_true(fake_feed_swapped(7, 5));
	assert_true(fake_feed_swapped(5, 0));
	assert_string_equal(text_of("key:1"), TOLD);
	assert_int_equal(kw_table_database_keys(test.table, 5), 1);
	assert_int_equal(kw_table_database_keys(test.table, 7), 0);
	end();
}

static void databases_with_a_key_that_is_fetched_are_not_swapped(void **state)
{
	begin();
	tell_dirty("key:1");
	assert_false(fake_feed_swapped(0, 5));
	assert_true(fake_feed_swapped(6, 5));
	test_until(&test, is_at_rest, "its fetch");
	assert_false(fake_feed_swapped(0, 5)); /* it may be ahead */
	pass_orders();
	assert_true(fake_feed_swapped(0, 5));
	assert_int_equal(kw_table_database_keys(test.table, 5), KEYS);
	end();
}

static void databases_that_are_mended_are_not_swapped(void **state)
{
	begin();
	fake_feed_doubt(KW_DOUBT_COMMAND, 5);
	assert_false(fake_feed_swapped(0, 5));
	test_settle(&test);
	pass_orders();
	assert_true(fake_feed_swapped(0, 5));
	end();
}

/* Each walks over the index, however short the command is. */
static void flushes_and_swaps_of_a_second_are_bounded(void **state)
{
	uint32_t flushes = 0, swaps = 0;

	begin();
	while (fake_feed_swapped(5, 7))
		assert_true(++swaps < 100000);
	assert_true(swaps > 10);
	test_run_ms(&test, 500);
	do {
		tell_string("key:1");
		assert_true(++flushes < 100000);
	} while (fake_feed_flushed(0));
	assert_true(flushes > 10);
	end();
}

static void a_payload_is_used_if_it_is_whole(void **state)
{
	struct kw_slice payload;
	uint64_t expires_ms;
	uint8_t copy[64];
	size_t length;

	begin();
	assert_true(kw_table_get(test.table, 0, kw_slice_text("key:1"), &payload, &expires_ms));
	length = payload.length;
	assert_true(length <= sizeof copy);
	memcpy(copy, payload.data, length);
	tell_payload("restored", kw_slice(copy, length));
	assert_non_null(text_of("restored"));
	copy[3] ^= 1;
	tell_payload("broken", kw_slice(copy, length));
	test_until(&test, is_at_rest, "its fetch");
	assert_false(test_has(&test, 0, "broken")); /* the server has none */
	end();
}

static void a_new_connection_begins_with_every_key_guarded(void **state)
{
	begin();
	fake_feed_lost("the test says so");
	test_until(&test, fake_feed_is_stopping, "the stop of the feed");
	fake_feed_stopped();
	test_until(&test, fake_feed_is_starting, "the start of the feed");
	fake_feed_ready(KW_FEED_CONTINUED_SERVER);
	test_settle(&test);
	tell_string("key:1");
	test_until(&test, is_at_rest, "its fetch");
	test_assert_same(&test);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_needs_no_fetch),
		cmocka_unit_test(the_last_of_two_changes_counts),
		cmocka_unit_test(many_values_are_there_together),
		cmocka_unit_test(before_the_first_order_each_key_is_fetched),
		cmocka_unit_test(a_key_that_was_fetched_just_now_is_fetched_again),
		cmocka_unit_test(a_change_from_before_a_fetch_is_passed_over),
		cmocka_unit_test(an_expiry_from_before_a_fetch_is_fetched),
		cmocka_unit_test(a_value_with_an_expiry_from_before_a_fetch_is_fetched),
		cmocka_unit_test(nothing_is_copied_of_what_a_fetch_brought_later),
		cmocka_unit_test(the_end_of_a_key_that_a_sweep_found_gone_is_not_passed_over),
		cmocka_unit_test(a_change_from_before_its_database_was_emptied_is_passed_over),
		cmocka_unit_test(what_waits_is_not_copied_after_a_change_that_was_passed_over),
		cmocka_unit_test(
			nothing_is_added_to_what_waits_after_a_change_that_was_passed_over),
		cmocka_unit_test(
			no_expiry_is_kept_of_what_waits_after_a_change_that_was_passed_over),
		cmocka_unit_test(what_waits_is_not_copied_after_a_fetch_was_stored),
		cmocka_unit_test(the_answer_to_a_key_that_a_value_has_overtaken_is_not_used),
		cmocka_unit_test(a_change_after_the_value_is_fetched_again),
		cmocka_unit_test(a_waiting_key_is_not_fetched_any_more),
		cmocka_unit_test(a_change_without_a_value_comes_after_it),
		cmocka_unit_test(an_expiry_is_set_on_what_is_known_exactly),
		cmocka_unit_test(an_expiry_of_another_key_is_fetched_with_its_value),
		cmocka_unit_test(an_expiry_in_doubt_is_fetched_with_its_value),
		cmocka_unit_test(while_databases_are_listed_each_key_is_fetched),
		cmocka_unit_test(a_flush_is_the_end_of_each_key),
		cmocka_unit_test(a_flush_ends_the_fetches_of_its_keys),
		cmocka_unit_test(a_flush_of_another_database_ends_nothing),
		cmocka_unit_test(a_flush_from_before_a_fetch_is_not_used),
		cmocka_unit_test(while_databases_are_listed_no_flush_is_used),
		cmocka_unit_test(a_flush_forgets_the_keys_that_the_table_lacks),
		cmocka_unit_test(databases_are_swapped_if_both_are_exact),
		cmocka_unit_test(databases_with_a_key_that_is_fetched_are_not_swapped),
		cmocka_unit_test(databases_that_are_mended_are_not_swapped),
		cmocka_unit_test(flushes_and_swaps_of_a_second_are_bounded),
		cmocka_unit_test(a_payload_is_used_if_it_is_whole),
		cmocka_unit_test(a_new_connection_begins_with_every_key_guarded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
