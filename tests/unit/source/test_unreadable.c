/* A key at which the connection breaks is found out, and named, and keeps no other waiting. */
#include "fixture.h"

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

static void one_among_many(void)
{
	test_begin(&test, LIMITED, UINT64_C(256) << 20);
	for (int i = 0; i < 3000; i++)
		test_post(&test, "SET key:%d %d", i, i);
	test_ask(&test, "SETRANGE giant 40000000 x");
	test_follow(&test);
	test_until(&test, one_is_unreadable, "the giant");
}

static void a_key_that_breaks_the_connection_keeps_no_other_waiting(void **state)
{
	uint64_t lost;

	one_among_many();
	assert_non_null(strstr(kw_source_reason(test.source), "client-output-buffer-limit"));
	assert_non_null(strstr(kw_source_reason(test.source), "1 keys"));
	test_until(&test, all_others_are_there, "the others");
	assert_false(test_has(&test, 0, "giant"));
	/* It is left alone from now on, until it is gone. */
	lost = test_stats(&test).reconciles_connection;
	test_ask(&test, "SETRANGE giant 0 y");
	test_ask(&test, "SET key:0 new");
	test_run_ms(&test, 300);
	assert_int_equal(test_stats(&test).dirty_keys, 0);
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

	one_among_many();
	test_send(&test, 4, argv);
	assert_string_equal(test.reply, "OK");
	kw_source_reconcile(test.source, "a test");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).unreadable, 0);
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
		cmocka_unit_test(connections_that_break_for_other_reasons_bar_no_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
