/* A key at which the connection breaks is found out, and named, and keeps no other waiting. */
#include "fixture.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static struct test test;

#define LIMITED "--rdbcompression no --client-output-buffer-limit normal 20mb 20mb 0"

static bool one_is_unreadable(struct test *t)
{
	return test_stats(t).unreadable == 1 && kw_source_state(t->source) == KW_SOURCE_FULL;
}

static bool all_others_are_there(struct test *t)
{
	struct kw_table_stats stats;

	kw_table_stats(t->table, &stats);
	return stats.keys == 3000;
}

static bool nothing_is_dirty(struct test *t)
{
	return test_stats(t).dirty_keys == 0;
}

static bool it_is_down(struct test *t)
{
	return kw_source_state(t->source) == KW_SOURCE_DOWN;
}

static bool it_is_not_down(struct test *t)
{
	return !it_is_down(t);
}

static bool it_is_down_or_full(struct test *t)
{
	return it_is_down(t) || (one_is_unreadable(t) && all_others_are_there(t));
}

static void one_among_many(uint32_t pause_ms)
{
	test_begin(&test, LIMITED, UINT64_C(256) << 20);
	test.options.unreadable_pause_ms = pause_ms;
	for (int i = 0; i < 3000; i++)
		test_post(&test, "SET key:%d %d", i, i);
	test_ask(&test, "SETRANGE giant 40000000 x");
	test_follow(&test);
	test_until(&test, one_is_unreadable, "the giant");
}

static void a_key_that_breaks_the_connection_keeps_no_other_waiting(void **state)
{
	uint64_t lost;

	one_among_many(0);
	assert_non_null(strstr(kw_source_reason(test.source), "client-output-buffer-limit"));
	assert_non_null(strstr(kw_source_reason(test.source), "1 keys"));
	test_until(&test, all_others_are_there, "the others");
	assert_false(test_has(&test, 0, "giant"));
	/* It is left alone from now on, until it is gone. */
	lost = test_stats(&test).reconciles_connection;
	test_ask(&test, "SETRANGE giant 0 y");
	test_ask(&test, "SET key:0 new");
	test_run_ms(&test, 300);
	test_until(&test, nothing_is_dirty, "all to be fetched");
	assert_true(one_is_unreadable(&test));
	assert_int_equal(test_stats(&test).reconciles_connection, lost);
	test_ask(&test, "DEL giant");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void what_broke_the_connection_is_tried_again_when_asked(void **state)
{
	const struct kw_slice argv[] = {kw_slice_text("CONFIG"), kw_slice_text("SET"),
		kw_slice_text("client-output-buffer-limit"), kw_slice_text("normal 0 0 0")};

	one_among_many(0);
	test_send(&test, 4, argv);
	assert_string_equal(test.reply, "OK");
	kw_source_forgive(test.source);
	kw_source_reconcile(test.source, "a test");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).unreadable, 0);
	test_end(&test);
}

/* … and keeps its mark when somebody else asks for a reconcile. */
static void a_reconcile_alone_forgives_nothing(void **state)
{
	uint64_t lost;

	one_among_many(0);
	lost = test_stats(&test).reconciles_connection;
	kw_source_reconcile(test.source, "a test");
	test_until_state(&test, KW_SOURCE_RECONCILING);
	test_until_state(&test, KW_SOURCE_FULL);
	assert_int_equal(test_stats(&test).unreadable, 1);
	assert_int_equal(test_stats(&test).reconciles_connection, lost);
	test_end(&test);
}

static void a_value_that_shrank_is_replicated_by_itself(void **state)
{
	one_among_many(1500);
	test_ask(&test, "SET giant small");
	/* So soon after it broke, it is only known to have changed. */
	test_run_ms(&test, 100);
	test_until(&test, nothing_is_dirty, "the event");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).unreadable, 0);
	test_end(&test);
}

/* The scan does not see it, and the table has nothing of it that the walk could find. */
static void what_went_while_nobody_heard_is_forgotten(void **state)
{
	one_among_many(0);
	test_post(&test, "CLIENT KILL TYPE pubsub");
	test_ask(&test, "DEL giant");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

/* Each try costs a connection: they get fewer, and there are none where nothing changed. */
static void a_value_that_stays_is_tried_ever_less(void **state)
{
	uint64_t lost, most = 1, since_us;

	one_among_many(400);
	lost = test_stats(&test).reconciles_connection;
	test_run_ms(&test, 1000);
	assert_int_equal(test_stats(&test).reconciles_connection, lost);
	since_us = kw_clock_us();
	for (int i = 0; i < 24; i++) {
		test_ask(&test, "SETRANGE giant 0 y");
		test_run_ms(&test, 100);
	}
	test_until(&test, it_is_down_or_full, "the last try");
	lost = test_stats(&test).reconciles_connection - lost;
	/* The first at once, others after 800, 1600, … ms more. */
	while (((UINT64_C(1) << most) - 1) * 800000 <= kw_clock_us() - since_us)
		most++;
	assert_in_range(lost, 1, most);
	assert_int_equal(test_stats(&test).unreadable, 1);
	test_end(&test);
}

/* The server dies whenever the giant is fetched: here by hand, when the connection broke. */
static void a_value_at_which_the_server_dies_is_left_alone(void **state)
{
	int deaths = 0;
	uint64_t lost;

	test_begin(&test, LIMITED, UINT64_C(256) << 20);
	test.options.unreadable_pause_ms = 100;
	for (int i = 0; i < 3000; i++)
		test_post(&test, "SET key:%d %d", i, i);
	test_ask(&test, "SETRANGE giant 40000000 x");
	test_ask(&test, "SAVE");
	test_follow(&test);
	for (test_until(&test, it_is_down_or_full, "the giant"); it_is_down(&test);
		test_until(&test, it_is_down_or_full, "the giant again")) {
		test_server_kill(&test.server);
		test_server_again(&test.server, LIMITED);
		test_reconnect(&test);
		test_until(&test, it_is_not_down, "the server");
		assert_in_range(++deaths, 1, 4);
	}
	assert_int_equal(deaths, 4);
	/* However old the mark gets, and although it changes. */
	lost = test_stats(&test).reconciles_connection + test_stats(&test).reconciles_identity;
	test_ask(&test, "SETRANGE giant 0 y");
	test_run_ms(&test, 500);
	assert_int_equal(
		test_stats(&test).reconciles_connection + test_stats(&test).reconciles_identity,
		lost);
	assert_true(one_is_unreadable(&test));
	test_end(&test);
}

static void connections_that_break_for_other_reasons_bar_no_key(void **state)
{
	test_begin(&test, "", UINT64_C(64) << 20);
	test_ask(&test, "DEBUG POPULATE 5000 key 100");
	test.options.keys_per_second = 4000;
	test_follow(&test);
	for (int i = 0; i < 8; i++) {
		test_run_ms(&test, 250);
		test_ask(&test, "CLIENT KILL TYPE normal");
	}
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).unreadable, 0);
	test_end(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_that_breaks_the_connection_keeps_no_other_waiting),
		cmocka_unit_test(what_broke_the_connection_is_tried_again_when_asked),
		cmocka_unit_test(a_reconcile_alone_forgives_nothing),
		cmocka_unit_test(a_value_that_shrank_is_replicated_by_itself),
		cmocka_unit_test(what_went_while_nobody_heard_is_forgotten),
		cmocka_unit_test(a_value_that_stays_is_tried_ever_less),
		cmocka_unit_test(a_value_at_which_the_server_dies_is_left_alone),
		cmocka_unit_test(connections_that_break_for_other_reasons_bar_no_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
