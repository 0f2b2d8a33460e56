/*
 * Values that the feed tells, in order with what is fetched. The feed is a fake and tells what the
 * server does not have, so it is seen which of the two is in the table. The server is real.
 */
#include "fake_feed.h"
#include "fixture.h"

#include "base/clock.h"
#include "rdb/payload.h"
#include "source/source_internal.h"

#include <stdio.h>
#include <string.h>

#define KEYS 50
#define TOLD "told by the feed"

static struct test test;

static bool has_started(struct test *t)
{
	return fake_feed.state == FAKE_STARTING;
}

static bool is_ordering(struct test *t)
{
	return fake_feed.orders_owed > 0;
}

/* What was told is in the table or fetched. */
static bool is_at_rest(struct test *t)
{
	return t->source->store.values.count == 0 && test_stats(t).dirty_keys == 0;
}

/* … and nothing that was fetched can be ahead of the stream. */
static bool is_even(struct test *t)
{
	const struct kw_order *order = &t->source->store.values.order;

	return is_at_rest(t) && order->state == KW_ORDER_EVEN && order->since.count == 0;
}

static bool is_ordering_or_even(struct test *t)
{
	return is_ordering(t) || is_even(t);
}

static void tell(
	enum kw_feed_value_kind kind, const char *name, const char *text, uint64_t expires_ms)
{
	fake_feed_value(&(struct kw_feed_value){
		kind, 0, kw_slice_text(name), kw_slice_text(text), expires_ms});
}

static void tell_string(const char *name)
{
	tell(KW_FEED_STRING, name, TOLD, 0);
}

static void tell_dirty(const char *name)
{
	fake_feed_dirty(&(struct kw_dirty_key){kw_slice_text(name), 0, KW_DIRTY_EVENT}, 1);
}

/* Follows, and no order has passed yet. */
static void begin_guarded(void)
{
	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE %d key 20", KEYS);
	test.options.feed = fake_feed_new;
	test.options.audit_keys_per_second = 0;
	test_follow(&test);
	test_until(&test, has_started, "the start of the feed");
	fake_feed_ready(KW_FEED_SAME_SERVER);
	test_settle(&test);
	test_assert_same(&test);
}

/* What was fetched is behind the stream. */
static void pass_orders(void)
{
	while (!is_even(&test)) {
		test_until(&test, is_ordering_or_even, "an order");
		if (is_ordering(&test))
			fake_feed_ordered();
	}
}

static void begin(void)
{
	begin_guarded();
	tell_string("key:0"); /* it is guarded, and wants an order */
	pass_orders();
}

static bool is_stopping(struct test *t)
{
	return fake_feed.state == FAKE_STOPPING;
}

static void on_source_closed(void *arg)
{
	((struct test *)arg)->source_closed = true;
}

static bool source_is_closed(struct test *t)
{
	return t->source_closed;
}

static void end(void)
{
	kw_source_close(test.source, on_source_closed, &test);
	test.source = NULL;
	test_until(&test, is_stopping, "the stop of the feed");
	fake_feed_stopped();
	test_until(&test, source_is_closed, "the end of the source");
	test_end(&test);
}

/* What the table has of a key, as the text of a string; NULL: it has none. */
static const char *text_of(const char *name)
{
	static char text[64];
	struct kw_slice payload;
	uint64_t expires_ms;
	struct kw_error error;
	const uint8_t *bytes;

	test_run_ms(&test, 1);
	if (!kw_table_get(test.table, 0, kw_slice_text(name), &payload, &expires_ms))
		return NULL;
	assert_int_equal(kw_payload_check(payload, NULL, &error), KW_OK);
	bytes = payload.data;
	assert_int_equal(bytes[0], 0);
	assert_true(bytes[1] < sizeof text); /* a short string, as it is */
	memcpy(text, bytes + 2, bytes[1]);
	text[bytes[1]] = '\0';
	return text;
}

static uint64_t expiry_of(const char *name)
{
	struct kw_slice payload;
	uint64_t expires_ms = 0;

	assert_true(kw_table_get(test.table, 0, kw_slice_text(name), &payload, &expires_ms));
	return expires_ms;
}

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
	fake_feed_value(&(struct kw_feed_value){
		KW_FEED_PAYLOAD, 0, kw_slice_text("restored"), kw_slice(copy, length), 0});
	assert_non_null(text_of("restored"));
	copy[3] ^= 1;
	fake_feed_value(&(struct kw_feed_value){
		KW_FEED_PAYLOAD, 0, kw_slice_text("broken"), kw_slice(copy, length), 0});
	test_until(&test, is_at_rest, "its fetch");
	assert_false(test_has(&test, 0, "broken")); /* the server has none */
	end();
}

static void a_new_connection_begins_with_every_key_guarded(void **state)
{
	begin();
	fake_feed_lost("the test says so");
	test_until(&test, is_stopping, "the stop of the feed");
	fake_feed_stopped();
	test_until(&test, has_started, "the start of the feed");
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
		cmocka_unit_test(the_answer_to_a_key_that_a_value_has_overtaken_is_not_used),
		cmocka_unit_test(a_change_after_the_value_is_fetched_again),
		cmocka_unit_test(a_waiting_key_is_not_fetched_any_more),
		cmocka_unit_test(a_change_without_a_value_comes_after_it),
		cmocka_unit_test(an_expiry_is_set_on_what_is_known_exactly),
		cmocka_unit_test(an_expiry_of_another_key_is_fetched_with_its_value),
		cmocka_unit_test(an_expiry_in_doubt_is_fetched_with_its_value),
		cmocka_unit_test(while_databases_are_listed_each_key_is_fetched),
		cmocka_unit_test(a_payload_is_used_if_it_is_whole),
		cmocka_unit_test(a_new_connection_begins_with_every_key_guarded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
