/* A full table is a named state, and nothing is lost on the way in and out of it. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test test;
static char value[2000];

static void set_random(int key)
{
	char name[32];
	struct kw_slice argv[3] = {kw_slice_text("SET"), {0}, kw_slice(value, sizeof value)};

	for (size_t i = 0; i < sizeof value; i++)
		value[i] = (char)random();
	snprintf(name, sizeof name, "key:%d", key);
	argv[1] = kw_slice_text(name);
	kw_redis_send(test.client, NULL, NULL, 3, argv);
}

static void fill(int from, int to)
{
	for (int i = from; i < to; i++)
		set_random(i);
	test_ask(&test, "PING");
}

static void a_table_that_fills_says_so_and_comes_back_by_itself(void **state)
{
	struct kw_table_stats stats;

	test_begin(&test, "", UINT64_C(16) << 20);
	fill(0, 1000);
	test_follow(&test);
	test_settle(&test);
	fill(1000, 12000); /* 24 MB */
	test_until_state(&test, KW_SOURCE_FULL);
	assert_non_null(strstr(kw_source_reason(test.source), "table.max_bytes"));
	test_run_ms(&test, 200);
	assert_true(test_stats(&test).full_waiting > 0);
	kw_table_stats(test.table, &stats);
	assert_true(stats.keys > 1000);
	/* Deletes go through, and make room. */
	for (int i = 0; i < 8000; i++)
		test_post(&test, "DEL key:%d", i);
	test_ask(&test, "PING");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).full_waiting, 0);
	assert_int_equal(test_stats(&test).reconciles, 0);
	test_end(&test);
}

static void a_first_scan_that_does_not_fit_is_not_complete(void **state)
{
	const struct kw_superblock *superblock;
	struct kw_error error;

	test_begin(&test, "", UINT64_C(16) << 20);
	superblock = (const struct kw_superblock *)test.memory;
	fill(0, 12000);
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_FULL);
	test_run_ms(&test, 500);
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_FULL);
	kw_table_publish(test.table, 1);
	assert_int_equal(superblock->complete, 0);
	assert_int_equal(superblock->source_state, KW_SOURCE_FULL);
	assert_int_equal(superblock->fresh_us, 0);
	assert_int_equal(kw_table_set_max(test.table, UINT64_C(64) << 20, &error), 0);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(superblock->complete, 1);
	test_end(&test);
}

static void a_reconcile_of_a_full_table_finds_what_went(void **state)
{
	test_begin(&test, "", UINT64_C(16) << 20);
	fill(0, 12000);
	test.options.max_missing = 1;
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_FULL);
	test_run_ms(&test, 500);
	test_ask(&test, "CONFIG SET notify-keyspace-events K");
	for (int i = 0; i < 9000; i++)
		test_post(&test, "DEL key:%d", i);
	test_ask(&test, "PING");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	assert_true(test_stats(&test).reconciles_flags >= 1);
	test_end(&test);
}

static bool one_is_too_large(struct test *t)
{
	return test_stats(t).too_large == 1 && kw_source_state(t->source) == KW_SOURCE_FULL;
}

static bool says_that_others_wait(struct test *t)
{
	return strstr(kw_source_reason(t->source), "wait for room") != NULL;
}

static bool is_complete(struct test *t)
{
	return test_stats(t).too_large == 0 && kw_source_state(t->source) != KW_SOURCE_FULL;
}

/* The table has no key of that database to empty. */
static void a_flush_of_a_database_whose_only_key_was_too_large_ends_it(void **state)
{
	test_begin(&test, "--rdbcompression no", UINT64_C(16) << 20);
	test_ask(&test,
		"EVAL for\ti=1,30\tdo\tredis.call('RPUSH',KEYS[1],string.rep(i,600000))end 1 "
		"giant");
	test_follow(&test);
	test_until(&test, one_is_too_large, "the giant");
	test_ask(&test, "FLUSHDB");
	test_until(&test, is_complete, "the flush");
	test_assert_same(&test);
	test_end(&test);
}

/* While it was too large the table knew nothing of it, its expiry neither. */
static void a_key_that_shrinks_into_the_table_has_its_expiry(void **state)
{
	test_begin(&test, "--rdbcompression no", UINT64_C(16) << 20);
	test_ask(&test, "RPUSH giant small");
	test_ask(&test, "EXPIRE giant 5000");
	test_follow(&test);
	test_settle(&test);
	test_ask(&test,
		"EVAL for\ti=1,30\tdo\tredis.call('RPUSH',KEYS[1],string.rep(i,600000))end 1 "
		"giant");
	test_until(&test, one_is_too_large, "the giant");
	test_ask(&test, "LTRIM giant 0 0");
	test_settle(&test);
	assert_int_equal(test_stats(&test).too_large, 0);
	test_assert_same(&test);
	test_end(&test);
}

static bool says_that_one_is_larger(struct test *t)
{
	return strstr(kw_source_reason(t->source), "larger") != NULL;
}

/* Room came back, and one key is too large still: that is another reason, and complete all the
 * same. */
static void the_reason_is_right_when_room_comes_back_beside_a_large_key(void **state)
{
	const struct kw_superblock *superblock;

	test_begin(&test, "--rdbcompression no", UINT64_C(16) << 20);
	superblock = (const struct kw_superblock *)test.memory;
	fill(0, 12000);
	test_ask(&test, "SETRANGE giant 30000000 x");
	test_follow(&test);
	test_until(&test, one_is_too_large, "the giant");
	test_until(&test, says_that_others_wait, "the table to be full");
	for (int i = 0; i < 9000; i++)
		test_post(&test, "DEL key:%d", i);
	test_ask(&test, "PING");
	test_until(&test, says_that_one_is_larger, "the other reason");
	kw_table_publish(test.table, 1);
	assert_int_equal(superblock->complete, 1);
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_FULL);
	test_end(&test);
}

static void begin_with_a_giant(void)
{
	test_begin(&test, "--rdbcompression no", UINT64_C(16) << 20);
	test_ask(&test, "SET giant small");
	test_ask(&test, "SET other 1");
	test_follow(&test);
	test_settle(&test);
	test_ask(&test, "SETRANGE giant 30000000 x");
	test_until(&test, one_is_too_large, "the giant");
}

static void a_key_larger_than_the_table_is_counted_and_named(void **state)
{
	begin_with_a_giant();
	/* No replica can be equal: the state must not let an agent be warm. */
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_FULL);
	assert_non_null(strstr(kw_source_reason(test.source), "larger"));
	assert_false(test_has(&test, 0, "giant")); /* rather nothing than something old */
	assert_true(test_has(&test, 0, "other"));
	test_ask(&test, "APPEND giant x");
	test_run_ms(&test, 1200);
	assert_int_equal(test_stats(&test).too_large, 1);
	test_ask(&test, "SET giant small");
	test_settle(&test);
	assert_int_equal(test_stats(&test).too_large, 0);
	assert_string_equal(kw_source_reason(test.source), "");
	test_assert_same(&test);
	test_end(&test);
}

static void a_large_key_that_went_while_nobody_heard_is_forgotten(void **state)
{
	begin_with_a_giant();
	test_post(&test, "CLIENT KILL TYPE pubsub");
	test_ask(&test, "DEL giant");
	test_until_state(&test, KW_SOURCE_LIVE);
	assert_int_equal(test_stats(&test).too_large, 0);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void writes_around_the_limit_end_equal(void **state)
{
	test_begin(&test, "", UINT64_C(16) << 20);
	test_follow(&test);
	test_settle(&test);
	for (int i = 0; i < 30000; i++) {
		int key = rand() % 9000;

		if (rand() % 3 == 0)
			test_post(&test, "DEL key:%d", key);
		else
			set_random(key);
		if (i % 100 == 0)
			test_try(&test, "PING");
	}
	for (int i = 3000; i < 9000; i++)
		test_post(&test, "DEL key:%d", i);
	test_ask(&test, "PING");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_that_fills_says_so_and_comes_back_by_itself),
		cmocka_unit_test(a_first_scan_that_does_not_fit_is_not_complete),
		cmocka_unit_test(a_reconcile_of_a_full_table_finds_what_went),
		cmocka_unit_test(a_flush_of_a_database_whose_only_key_was_too_large_ends_it),
		cmocka_unit_test(a_key_that_shrinks_into_the_table_has_its_expiry),
		cmocka_unit_test(the_reason_is_right_when_room_comes_back_beside_a_large_key),
		cmocka_unit_test(a_key_larger_than_the_table_is_counted_and_named),
		cmocka_unit_test(a_large_key_that_went_while_nobody_heard_is_forgotten),
		cmocka_unit_test(writes_around_the_limit_end_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
