#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RETENTION_US UINT64_C(1000000)
#define NEVER_US (UINT64_C(1) << 50)

/* Overwrite what lies between the tombstones until the cleaner has been over everything. */
static void churn(struct fixture *fixture, int rounds)
{
	for (int round = 0; round < rounds; round++)
		for (uint32_t number = 1000; number < 3000; number++) {
			assert_int_equal(
				fixture_put(fixture, number, fixture_stats(fixture).version, 100),
				KW_PUT_STORED);
			if (number % 50 == 0) {
				fixture_publish(fixture);
				fixture_advance(fixture, 1000);
			}
		}
}

/* Versions 1 … 1000 are puts; then each delete is followed by three puts, so the k-th is 997 + 4 k.
 */
#define FIRST_DELETE 1001
#define DELETE_VERSION(k) (FIRST_DELETE + 4 * ((k)-1))
#define DELETES 500

static void prepare(struct fixture *fixture, uint64_t retention_us)
{
	uint32_t other = 1000;

	fixture_open(fixture,
		&(struct kw_table_options){
			.max_bytes = 2 << 20, .segment_bytes = 4096, .retention_us = retention_us});
	for (uint32_t number = 0; number < 1000; number++)
		assert_int_equal(fixture_put(fixture, number, number, 100), KW_PUT_STORED);
	for (uint32_t number = 0; number < 2 * DELETES; number += 2) {
		assert_int_equal(fixture_delete(fixture, number), KW_PUT_STORED);
		for (int i = 0; i < 3; i++)
			assert_int_equal(fixture_put(fixture, other++, 1, 100), KW_PUT_STORED);
	}
	fixture_publish(fixture);
	assert_int_equal(fixture_stats(fixture).tombstones, DELETES);
	assert_int_equal(fixture_stats(fixture).version, DELETE_VERSION(DELETES) + 3);
}

static void tombstones_are_kept_for_the_retention_time(void **state)
{
	struct fixture fixture;

	prepare(&fixture, NEVER_US);
	churn(&fixture, 20);
	assert_true(fixture_stats(&fixture).cleaned_segments > 100);
	assert_int_equal(fixture_stats(&fixture).tombstones, DELETES);
	assert_int_equal(fixture_stats(&fixture).tombstone_floor, 0);
	assert_int_equal(fixture_superblock(&fixture)->tombstone_floor, 0);
	fixture_close(&fixture);
}

static void tombstones_are_kept_until_every_agent_has_passed(void **state)
{
	struct fixture fixture;

	prepare(&fixture, RETENTION_US);
	kw_table_set_passed(fixture.table, FIRST_DELETE - 1);
	fixture_advance(&fixture, 10 * RETENTION_US);
	churn(&fixture, 20);
	assert_int_equal(fixture_stats(&fixture).tombstones, DELETES);
	assert_int_equal(fixture_stats(&fixture).tombstone_floor, 0);
	/* It moves on to between two deletes: those before it may go, those behind it not. */
	kw_table_set_passed(fixture.table, DELETE_VERSION(250));
	churn(&fixture, 20);
	assert_in_range(fixture_stats(&fixture).tombstones, DELETES - 250, DELETES - 1);
	assert_in_range(fixture_stats(&fixture).tombstone_floor, FIRST_DELETE, DELETE_VERSION(250));
	fixture_close(&fixture);
}

static void dropping_a_tombstone_raises_the_floor_to_it(void **state)
{
	struct fixture fixture;
	struct kw_table_stats stats;

	prepare(&fixture, RETENTION_US);
	fixture_advance(&fixture, 10 * RETENTION_US);
	fixture_publish(&fixture);
	churn(&fixture, 40);
	stats = fixture_stats(&fixture);
	assert_true(stats.tombstones < DELETES);
	assert_in_range(stats.tombstone_floor, FIRST_DELETE, DELETE_VERSION(DELETES));
	fixture_publish(&fixture);
	assert_int_equal(fixture_superblock(&fixture)->tombstone_floor, stats.tombstone_floor);
	/* What was deleted stays deleted, whether the tombstone is there or not. */
	for (uint32_t number = 0; number < 1000; number++)
		assert_int_equal(fixture_gone(&fixture, number), number % 2 == 0);
	fixture_close(&fixture);
}

/* A key that comes and goes for ever leaves one tombstone at the most. */
static void a_key_has_one_tombstone_however_often_it_dies(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture,
		&(struct kw_table_options){.max_bytes = 1 << 20, .retention_us = NEVER_US});
	for (int i = 0; i < 50000; i++) {
		assert_int_equal(fixture_put(&fixture, 1, (uint64_t)i, 100), KW_PUT_STORED);
		assert_int_equal(fixture_delete(&fixture, 1), KW_PUT_STORED);
		assert_int_equal(fixture_stats(&fixture).tombstones, 1);
		if (i % 100 == 0)
			fixture_publish(&fixture);
	}
	assert_int_equal(fixture_put(&fixture, 1, 1, 100), KW_PUT_STORED);
	assert_int_equal(fixture_stats(&fixture).tombstones, 0);
	fixture_close(&fixture);
}

/* Sessions, jobs, caches: each key lives once. What is left of them must not fill the table. */
static void keys_that_come_and_go_for_ever_do_not_fill_the_table(void **state)
{
	struct kw_table_stats stats;
	struct fixture fixture;

	fixture_open(
		&fixture, &(struct kw_table_options){.max_bytes = 2 << 20, .retention_us = 10000});
	for (uint32_t number = 0; number < 200000; number++) {
		assert_int_equal(fixture_put(&fixture, number, number, 100), KW_PUT_STORED);
		if (number >= 100)
			assert_int_equal(fixture_delete(&fixture, number - 100), KW_PUT_STORED);
		if (number % 20 == 0) {
			fixture_advance(&fixture, 1000);
			fixture_publish(&fixture);
		}
	}
	stats = fixture_stats(&fixture);
	assert_int_equal(stats.keys, 100);
	assert_true(stats.tombstone_floor > 100000);
	print_message("%llu tombstones of %u deletes are left, %llu bytes in use\n",
		(unsigned long long)stats.tombstones, 200000u,
		(unsigned long long)stats.used_bytes);
	fixture_close(&fixture);
}

/* The same in bursts: whole segments hold nothing but tombstones that nobody needs any more. */
static void mass_deletes_do_not_fill_the_table_either(void **state)
{
	struct fixture fixture;
	uint32_t number = 0;

	fixture_open(
		&fixture, &(struct kw_table_options){.max_bytes = 2 << 20, .retention_us = 10000});
	for (int round = 0; round < 60; round++) {
		for (uint32_t i = 0; i < 3000; i++)
			assert_int_equal(fixture_put(&fixture, number + i, i, 100), KW_PUT_STORED);
		fixture_publish(&fixture);
		for (uint32_t i = 0; i < 3000; i++) {
			assert_int_equal(fixture_delete(&fixture, number + i), KW_PUT_STORED);
			if (i % 100 == 0)
				fixture_publish(&fixture);
		}
		number += 3000;
		/* Long after everybody has seen them. */
		for (int i = 0; i < 50; i++) {
			fixture_advance(&fixture, 1000);
			fixture_publish(&fixture);
		}
	}
	assert_int_equal(fixture_stats(&fixture).keys, 0);
	fixture_close(&fixture);
}

#define HELD_BYTES (UINT64_C(2) << 20)
#define HELD_MOST (HELD_BYTES / 8) /* of tombstones that only an agent still needs */

/* Keys that come and go, long after the agents; `passed` is what the slowest one reports. */
static struct kw_table_stats come_and_go(struct fixture *fixture, uint64_t passed, uint32_t rounds)
{
	struct kw_table_stats stats = {0};
	uint64_t most = 0;

	fixture_open(fixture,
		&(struct kw_table_options){
			.max_bytes = HELD_BYTES, .segment_bytes = 4096, .retention_us = 10000});
	for (uint32_t number = 0; number < rounds; number++) {
		kw_table_set_passed(fixture->table, passed);
		assert_int_equal(fixture_put(fixture, number, number, 100), KW_PUT_STORED);
		if (number >= 100)
			assert_int_equal(fixture_delete(fixture, number - 100), KW_PUT_STORED);
		if (number % 20 != 0)
			continue;
		fixture_advance(fixture, 1000);
		fixture_publish(fixture);
		if (number % 200 == 0)
			kw_table_tidy(fixture->table);
		stats = fixture_stats(fixture);
		most = stats.live_bytes > most ? stats.live_bytes : most;
	}
	stats.live_bytes = most;
	return stats;
}

/* One that reports the same old version for ever must not cost the others their memory. */
static void an_agent_holds_tombstones_back_in_an_eighth_of_the_memory(void **state)
{
	struct fixture fixture;
	struct kw_table_stats stats = come_and_go(&fixture, 1, 60000);

	print_message("%llu bytes were live at most, %llu tombstones are left\n",
		(unsigned long long)stats.live_bytes, (unsigned long long)stats.tombstones);
	/* Some segments that are half done, and what is younger than the retention time. */
	assert_in_range(stats.live_bytes, HELD_MOST * 6 / 8, HELD_MOST * 10 / 8);
	/* The oldest went: an agent that follows is above the floor. */
	assert_in_range(stats.tombstone_floor, 50000, stats.version - 2000);
	fixture_close(&fixture);
}

static void within_that_share_none_goes_that_an_agent_needs(void **state)
{
	struct fixture fixture;
	struct kw_table_stats stats = come_and_go(&fixture, 1, 5000);

	assert_int_equal(stats.tombstones, 4981 - 100);
	assert_int_equal(stats.tombstone_floor, 0);
	assert_in_range(stats.live_bytes, HELD_MOST / 2, HELD_MOST);
	fixture_close(&fixture);
}

static void a_reader_below_the_floor_lapses_and_one_above_goes_on(void **state)
{
	struct follower follower;
	struct kw_cursor cursor;
	struct fixture fixture;
	uint64_t floor;

	prepare(&fixture, RETENTION_US);
	fixture_advance(&fixture, 10 * RETENTION_US);
	fixture_publish(&fixture);
	churn(&fixture, 40);
	fixture_publish(&fixture);
	floor = fixture_superblock(&fixture)->tombstone_floor;
	assert_true(floor > 0);
	follower_open(&follower, &fixture, &(struct kw_reader_options){0});
	cursor = (struct kw_cursor){4711, floor - 1};
	follower_start(&follower, &cursor);
	assert_int_equal(follower.lapses, 1);
	assert_int_equal(follower.records, 0);
	assert_non_null(strstr(follower.why, "floor"));
	cursor.version = floor;
	follower_start(&follower, &cursor);
	assert_int_equal(follower.lapses, 1);
	assert_int_equal(follower.passes, 1);
	assert_true(follower.pass.consistent == fixture_stats(&fixture).version);
	follower_close(&follower);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tombstones_are_kept_for_the_retention_time),
		cmocka_unit_test(tombstones_are_kept_until_every_agent_has_passed),
		cmocka_unit_test(dropping_a_tombstone_raises_the_floor_to_it),
		cmocka_unit_test(a_key_has_one_tombstone_however_often_it_dies),
		cmocka_unit_test(keys_that_come_and_go_for_ever_do_not_fill_the_table),
		cmocka_unit_test(mass_deletes_do_not_fill_the_table_either),
		cmocka_unit_test(an_agent_holds_tombstones_back_in_an_eighth_of_the_memory),
		cmocka_unit_test(within_that_share_none_goes_that_an_agent_needs),
		cmocka_unit_test(a_reader_below_the_floor_lapses_and_one_above_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
