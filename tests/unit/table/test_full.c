#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LIMIT (UINT64_C(2) << 20)
#define VALUE_BYTES 200
#define TRIES_MAX 200000

/* Put new keys until the table is full; how many went in. */
static uint32_t fill(struct fixture *fixture)
{
	for (uint32_t number = 0; number < TRIES_MAX; number++) {
		enum kw_put_result result = fixture_put(fixture, number, number, VALUE_BYTES);

		if (number % 100 == 0)
			fixture_publish(fixture);
		if (result == KW_PUT_FULL)
			return number;
		assert_int_equal(result, KW_PUT_STORED);
		assert_true(
			fixture_stats(fixture).used_bytes <= fixture_stats(fixture).capacity_bytes);
	}
	fail_msg("a bounded table never got full");
	return 0;
}

static void assert_whole(const struct fixture *fixture, uint32_t from, uint32_t to)
{
	for (uint32_t number = from; number < to; number++)
		assert_true(fixture_has(fixture, number, number, VALUE_BYTES));
}

static void a_full_table_keeps_what_it_has(void **state)
{
	struct fixture fixture;
	uint32_t count;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = LIMIT});
	count = fill(&fixture);
	/* At least two thirds of the limit are payload, or the limit is no honest one. */
	assert_true((uint64_t)count * (VALUE_BYTES + 11) > LIMIT * 2 / 3);
	assert_int_equal(fixture_stats(&fixture).keys, count);
	assert_whole(&fixture, 0, count);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(fixture_put(&fixture, count + i, 1, VALUE_BYTES), KW_PUT_FULL);
	assert_false(kw_table_has_room(fixture.table, VALUE_BYTES + 11));
	assert_int_equal(fixture_stats(&fixture).keys, count);
	assert_whole(&fixture, 0, count);
	/* What is there already is still recognised. */
	assert_int_equal(fixture_put(&fixture, 0, 0, VALUE_BYTES), KW_PUT_UNCHANGED);
	fixture_close(&fixture);
}

static void deletes_still_go_through_and_lead_out_of_it(void **state)
{
	struct fixture fixture;
	uint32_t count, back = 0;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = LIMIT});
	count = fill(&fixture);
	for (uint32_t number = 0; number < count / 2; number++) {
		assert_int_equal(fixture_delete(&fixture, number), KW_PUT_STORED);
		assert_true(fixture_gone(&fixture, number));
	}
	fixture_publish(&fixture);
	fixture_advance(&fixture, 1000);
	assert_true(kw_table_has_room(fixture.table, VALUE_BYTES + 11));
	for (; back < count / 4; back++) {
		assert_int_equal(fixture_put(&fixture, back, back, VALUE_BYTES), KW_PUT_STORED);
		if (back % 50 == 0)
			fixture_publish(&fixture);
	}
	assert_whole(&fixture, 0, back);
	for (uint32_t number = back; number < count / 2; number++)
		assert_true(fixture_gone(&fixture, number));
	assert_whole(&fixture, count / 2, count);
	fixture_close(&fixture);
}

static void everything_can_be_deleted_from_a_full_table(void **state)
{
	struct fixture fixture;
	uint32_t count;

	/* Nobody has passed any delete yet: all tombstones must be kept. */
	fixture_open(&fixture,
		&(struct kw_table_options){.max_bytes = LIMIT, .retention_us = UINT64_C(1) << 40});
	kw_table_set_passed(fixture.table, 0);
	count = fill(&fixture);
	for (uint32_t number = 0; number < count; number++) {
		assert_int_equal(fixture_delete(&fixture, number), KW_PUT_STORED);
		if (number % 50 == 0)
			fixture_publish(&fixture);
	}
	assert_int_equal(fixture_stats(&fixture).keys, 0);
	assert_int_equal(fixture_stats(&fixture).payload_bytes, 0);
	assert_int_equal(fixture_stats(&fixture).tombstone_floor, 0);
	assert_int_equal(fixture_put(&fixture, 1, 1, VALUE_BYTES), KW_PUT_STORED);
	fixture_close(&fixture);
}

static void overwriting_in_a_full_table_goes_on_as_long_as_it_fits(void **state)
{
	struct fixture fixture;
	struct kw_table_stats stats;
	uint32_t count;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = LIMIT});
	count = fill(&fixture) * 8 / 10;
	for (uint32_t number = count; !fixture_gone(&fixture, number); number++)
		assert_int_equal(fixture_delete(&fixture, number), KW_PUT_STORED);
	for (uint32_t round = 1; round < 6; round++)
		for (uint32_t number = 0; number < count; number++) {
			assert_int_equal(fixture_put(&fixture, number, round * TRIES_MAX + number,
						 VALUE_BYTES),
				KW_PUT_STORED);
			if (number % 64 == 0)
				fixture_publish(&fixture);
		}
	for (uint32_t number = 0; number < count; number++)
		assert_true(fixture_has(&fixture, number, 5 * TRIES_MAX + number, VALUE_BYTES));
	stats = fixture_stats(&fixture);
	assert_true(stats.used_bytes <= stats.capacity_bytes);
	assert_true(stats.cleaned_segments > 0);
	fixture_close(&fixture);
}

static void raising_the_limit_makes_room(void **state)
{
	struct fixture fixture;
	struct kw_error error;
	uint32_t count;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = LIMIT});
	count = fill(&fixture);
	assert_int_equal(kw_table_set_max(fixture.table, 2 * LIMIT, &error), KW_OK);
	assert_int_equal(fixture_stats(&fixture).capacity_bytes, 2 * LIMIT);
	assert_true(kw_table_has_room(fixture.table, VALUE_BYTES + 11));
	for (uint32_t number = count; number < count * 3 / 2; number++)
		assert_int_equal(fixture_put(&fixture, number, number, VALUE_BYTES), KW_PUT_STORED);
	assert_whole(&fixture, 0, count * 3 / 2);
	fixture_close(&fixture);
}

static void a_limit_below_what_is_used_only_stops_growth(void **state)
{
	struct fixture fixture;
	struct kw_error error;
	uint64_t used;
	uint32_t count;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = 4 * LIMIT});
	kw_table_set_passed(fixture.table, 0);
	count = fill(&fixture);
	used = fixture_stats(&fixture).used_bytes;
	assert_int_equal(kw_table_set_max(fixture.table, 2 * LIMIT, &error), KW_OK);
	assert_int_equal(fixture_put(&fixture, count, 1, VALUE_BYTES), KW_PUT_FULL);
	/* Deletes go through, even though far more is live than the limit allows. */
	for (uint32_t number = 0; number < count; number++) {
		assert_int_equal(fixture_delete(&fixture, number), KW_PUT_STORED);
		if (number % 50 == 0)
			fixture_publish(&fixture);
	}
	assert_true(fixture_stats(&fixture).used_bytes <= used + used / 100);
	fixture_publish(&fixture);
	assert_int_equal(fixture_put(&fixture, 1, 1, VALUE_BYTES), KW_PUT_STORED);
	fixture_close(&fixture);
}

static void a_limit_beyond_the_reservation_is_refused(void **state)
{
	struct kw_error error = {0};
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = LIMIT});
	assert_int_equal(kw_table_set_max(fixture.table, fixture.memory.reserve_bytes + 1, &error),
		KW_E_ARGUMENT);
	assert_true(strlen(error.text) > 10);
	assert_int_equal(fixture_stats(&fixture).capacity_bytes, LIMIT);
	assert_int_equal(kw_table_set_max(fixture.table, 1, &error), KW_E_ARGUMENT);
	assert_int_equal(fixture_stats(&fixture).capacity_bytes, LIMIT);
	fixture_close(&fixture);
}

/* The limit is what may be, but the system may not give it: that is full too, and passes. */
static void memory_that_cannot_be_registered_is_full_not_fatal(void **state)
{
	struct fixture fixture;
	uint32_t count = 0;

	fixture_open(&fixture,
		&(struct kw_table_options){.max_bytes = 256 << 20, .segment_bytes = 65536});
	fixture.refuse_extents = true;
	while (fixture_put(&fixture, count, count, VALUE_BYTES) == KW_PUT_STORED) {
		assert_in_range(++count, 0, 4 * TRIES_MAX);
		if (count % 100 == 0)
			fixture_publish(&fixture);
	}
	assert_int_equal(fixture_put(&fixture, count, count, VALUE_BYTES), KW_PUT_FULL);
	assert_whole(&fixture, 0, count);
	/* And nobody is told to raise a limit that is not the reason. */
	assert_non_null(kw_table_refused(fixture.table));
	assert_non_null(strstr(kw_table_refused(fixture.table)->text, "no memory to register"));
	/* Tried again once something was deleted. */
	fixture.refuse_extents = false;
	for (uint32_t number = 0; number < 10; number++)
		assert_int_equal(fixture_delete(&fixture, number), KW_PUT_STORED);
	for (uint32_t number = count; number < count + 1000; number++)
		assert_int_equal(fixture_put(&fixture, number, number, VALUE_BYTES), KW_PUT_STORED);
	fixture_close(&fixture);
}

static void a_table_that_cannot_begin_says_why(void **state)
{
	struct fixture fixture;
	int needed;

	fixture_open(&fixture, &(struct kw_table_options){0});
	assert_null(kw_table_refused(fixture.table));
	needed = fixture.extents;
	for (int granted = 0; granted < needed; granted++) {
		struct kw_error error;

		fixture.refuse_extents = granted == 0;
		fixture.extents_most = fixture.extents + granted;
		assert_null(kw_table_new(&fixture.options, &fixture.memory, 0, &error));
		assert_int_equal(error.code, KW_E_NOMEM);
		assert_non_null(strstr(error.text, "no memory to register"));
	}
	fixture_close(&fixture);
}

static void what_can_never_fit_is_told_apart(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = 1 << 20});
	assert_int_equal(fixture_put(&fixture, 1, 1, 1 << 20), KW_PUT_TOO_LARGE);
	assert_int_equal(fixture_put(&fixture, 1, 1, 300 << 10), KW_PUT_STORED);
	assert_int_equal(fixture_put(&fixture, 1, 1, 1 << 20), KW_PUT_TOO_LARGE);
	assert_true(fixture_has(&fixture, 1, 1, 300 << 10));
	fixture_close(&fixture);
}

/*
 * Values of every size up to an eighth of a segment leave holes of a granule or two, and nothing
 * may be dropped. So the cleaner gets a destination that is smaller than the value a write waits
 * with.
 */
static void cleaning_into_a_small_hole_moves_no_more_than_fits(void **state)
{
	const struct kw_table_options options = {
		.max_bytes = LIMIT, .segment_bytes = 128 << 10, .retention_us = UINT64_C(1) << 40};

	for (uint64_t round = 0; round < 8; round++) {
		uint64_t random = round * 2654435761u + 1, full = 0;
		struct fixture fixture;

		fixture_open(&fixture, &options);
		kw_table_set_passed(fixture.table, 0);
		for (uint32_t step = 0; step < 6000; step++) {
			uint32_t high, number, length;

			random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
			high = (uint32_t)(random >> 33);
			number = high % 400;
			length = (uint32_t)(random >> 20) % 17000;
			if (high / 400 % 10 == 0)
				fixture_delete(&fixture, number);
			else if (fixture_put(&fixture, number, step, length) == KW_PUT_FULL)
				full++;
			if (step % 10 == 0)
				fixture_publish(&fixture);
			fixture_advance(&fixture, 1000);
		}
		assert_true(full > 0);
		fixture_close(&fixture);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_table_keeps_what_it_has),
		cmocka_unit_test(deletes_still_go_through_and_lead_out_of_it),
		cmocka_unit_test(everything_can_be_deleted_from_a_full_table),
		cmocka_unit_test(overwriting_in_a_full_table_goes_on_as_long_as_it_fits),
		cmocka_unit_test(raising_the_limit_makes_room),
		cmocka_unit_test(a_limit_below_what_is_used_only_stops_growth),
		cmocka_unit_test(a_limit_beyond_the_reservation_is_refused),
		cmocka_unit_test(memory_that_cannot_be_registered_is_full_not_fatal),
		cmocka_unit_test(a_table_that_cannot_begin_says_why),
		cmocka_unit_test(what_can_never_fit_is_told_apart),
		cmocka_unit_test(cleaning_into_a_small_hole_moves_no_more_than_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
