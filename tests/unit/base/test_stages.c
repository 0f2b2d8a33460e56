#include "base/stages.h"

#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WINDOW KW_STAGES_WINDOW_US
#define BEGIN UINT64_C(1000000000000)

static struct kw_stages *stages_new(uint64_t now_us)
{
	struct kw_stages *stages = malloc(sizeof *stages);

	kw_stages_init(stages, now_us);
	return stages;
}

static uint64_t recent_count(struct kw_stages *stages, int stage, uint64_t now_us)
{
	struct kw_lag *recent = malloc(sizeof *recent);
	uint64_t count;

	kw_stages_recent(stages, stage, now_us, recent);
	count = recent->count;
	free(recent);
	return count;
}

static uint64_t recent_us(struct kw_stages *stages, uint64_t now_us)
{
	struct kw_lag *recent = malloc(sizeof *recent);
	uint64_t us = kw_stages_recent(stages, 0, now_us, recent);

	free(recent);
	return us;
}

static void each_stage_has_its_own_figures(void **state)
{
	struct kw_stages *stages = stages_new(BEGIN);

	for (int i = 0; i < KW_STAGES_MOST; i++)
		for (int n = 0; n <= i; n++)
			kw_stages_add(stages, i, 5, BEGIN);
	for (int i = 0; i < KW_STAGES_MOST; i++)
		assert_int_equal(recent_count(stages, i, BEGIN + 1), i + 1);
	free(stages);
}

/* One a second for ten minutes: the recent past is never shorter than one window, nor than two. */
static void what_is_older_than_two_windows_is_no_part_of_the_recent_past(void **state)
{
	struct kw_stages *stages = stages_new(BEGIN);

	for (uint64_t second = 1; second <= 600; second++) {
		uint64_t now_us = BEGIN + second * 1000000, count, us;

		kw_stages_add(stages, 0, 7, now_us);
		count = recent_count(stages, 0, now_us);
		us = recent_us(stages, now_us);
		assert_true(us <= 2 * WINDOW);
		assert_true(second < 60 || us >= WINDOW);
		assert_in_range(count, us / 1000000, us / 1000000 + 1);
	}
	assert_int_equal(stages->of[0].all.count, 600);
	free(stages);
}

static void after_a_long_rest_there_is_nothing_recent(void **state)
{
	struct kw_stages *stages = stages_new(BEGIN);

	kw_stages_add(stages, 0, 7, BEGIN);
	assert_int_equal(recent_count(stages, 0, BEGIN + 10 * WINDOW), 0);
	assert_int_equal(recent_us(stages, BEGIN + 10 * WINDOW), WINDOW);
	kw_stages_add(stages, 0, 7, BEGIN + 20 * WINDOW);
	assert_int_equal(recent_count(stages, 0, BEGIN + 20 * WINDOW), 1);
	free(stages);
}

static void a_reset_ends_the_recent_past_alone(void **state)
{
	struct kw_stages *stages = stages_new(BEGIN);

	kw_stages_add(stages, 1, 7, BEGIN + 1);
	kw_stages_reset(stages, BEGIN + 2);
	assert_int_equal(recent_count(stages, 1, BEGIN + 3), 0);
	assert_int_equal(recent_us(stages, BEGIN + 3), 1);
	assert_int_equal(stages->of[1].all.count, 1);
	free(stages);
}

static void a_clock_that_steps_back_does_no_harm(void **state)
{
	struct kw_stages *stages = stages_new(BEGIN);

	kw_stages_add(stages, 0, 7, BEGIN + 1);
	kw_stages_add(stages, 0, 7, BEGIN - 10 * WINDOW);
	assert_int_equal(recent_count(stages, 0, BEGIN - 10 * WINDOW), 1);
	assert_int_equal(recent_us(stages, BEGIN - 10 * WINDOW + 5), 5);
	free(stages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_stage_has_its_own_figures),
		cmocka_unit_test(what_is_older_than_two_windows_is_no_part_of_the_recent_past),
		cmocka_unit_test(after_a_long_rest_there_is_nothing_recent),
		cmocka_unit_test(a_reset_ends_the_recent_past_alone),
		cmocka_unit_test(a_clock_that_steps_back_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
