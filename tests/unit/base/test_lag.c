#include "base/lag.h"

#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void quantiles_are_within_a_sixteenth(void **state)
{
	struct kw_lag *lag = calloc(1, sizeof *lag);

	for (uint64_t i = 1; i <= 100000; i++)
		kw_lag_add(lag, i);
	assert_in_range(kw_lag_quantile_us(lag, 0.5), 50000, 53125);
	assert_in_range(kw_lag_quantile_us(lag, 0.99), 99000, 100000);
	assert_int_equal(kw_lag_quantile_us(lag, 1.0), 100000);
	assert_int_equal(lag->max_us, 100000);
	for (uint64_t limit = 16; limit <= 65536; limit *= 2)
		assert_int_equal(kw_lag_count_below(lag, limit), limit - 1);
	assert_int_equal(kw_lag_count_below(lag, 131072), 100000);
	assert_int_equal(kw_lag_count_below(lag, 0), 0);
	kw_lag_reset(lag);
	assert_int_equal(kw_lag_quantile_us(lag, 0.5), 0);
	kw_lag_add(lag, UINT64_MAX);
	assert_true(kw_lag_quantile_us(lag, 0.5) == UINT64_MAX);
	kw_lag_add(lag, 0);
	assert_int_equal(kw_lag_quantile_us(lag, 0.1), 0);
	free(lag);
}

/* Each end of a bucket, and its neighbours, at every power of two. */
static void a_value_is_never_shown_too_low_nor_a_sixteenth_too_high(void **state)
{
	struct kw_lag *lag = malloc(sizeof *lag);

	for (int power = 0; power < 64; power++)
		for (uint64_t part = 0; part < 16; part++)
			for (int near = -1; near <= 1; near++) {
				uint64_t base = UINT64_C(1) << power;
				uint64_t value = base + base / 16 * part + (uint64_t)near;
				uint64_t shown;

				kw_lag_reset(lag);
				kw_lag_add(
					lag, UINT64_MAX); /* so that the largest does not cap it */
				kw_lag_add(lag, value);
				shown = kw_lag_quantile_us(lag, 0.5);
				assert_true(shown >= value);
				assert_true(shown - value <= value / 16);
			}
	free(lag);
}

static void what_came_since_a_copy_is_what_was_added(void **state)
{
	struct kw_lag *lag = calloc(1, sizeof *lag), *before = calloc(1, sizeof *lag);
	struct kw_lag *since = calloc(1, sizeof *lag);

	for (uint64_t i = 0; i < 1000; i++)
		kw_lag_add(lag, 1000000);
	*before = *lag;
	kw_lag_since(lag, before, since);
	assert_int_equal(since->count, 0);
	assert_int_equal(kw_lag_quantile_us(since, 0.99), 0);
	for (uint64_t i = 1; i <= 100; i++)
		kw_lag_add(lag, i);
	kw_lag_since(lag, before, since);
	assert_int_equal(since->count, 100);
	assert_int_equal(since->sum_us, 5050);
	assert_in_range(kw_lag_quantile_us(since, 0.5), 50, 53);
	assert_in_range(kw_lag_quantile_us(since, 0.99), 99, 105);
	assert_in_range(since->max_us, 100, 106);
	free(lag);
	free(before);
	free(since);
}

/* Counts of two histograms add up to those of one that got both. */
static void all_is_what_was_before_and_what_came_since(void **state)
{
	struct kw_lag *lag = calloc(1, sizeof *lag), *before = calloc(1, sizeof *lag);
	struct kw_lag *since = calloc(1, sizeof *lag);

	for (uint64_t i = 0; i < 5000; i++) {
		if (i == 2000)
			*before = *lag;
		kw_lag_add(lag, i * i);
	}
	kw_lag_since(lag, before, since);
	for (uint64_t limit = 16; limit < UINT64_C(1) << 40; limit *= 2)
		assert_int_equal(
			kw_lag_count_below(before, limit) + kw_lag_count_below(since, limit),
			kw_lag_count_below(lag, limit));
	free(lag);
	free(before);
	free(since);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_within_a_sixteenth),
		cmocka_unit_test(a_value_is_never_shown_too_low_nor_a_sixteenth_too_high),
		cmocka_unit_test(what_came_since_a_copy_is_what_was_added),
		cmocka_unit_test(all_is_what_was_before_and_what_came_since),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
