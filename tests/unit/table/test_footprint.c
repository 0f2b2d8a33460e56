#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KEYS 200000u
#define VALUE_BYTES 100
#define ROUNDS 10

/* The figure the project holds itself against: memory after overwriting everything ten times. */
static void memory_stays_within_135_percent_of_payload_and_64_bytes_a_key(void **state)
{
	struct kw_table_stats stats;
	struct fixture fixture;

	fixture_open(&fixture,
		&(struct kw_table_options){
			.max_bytes = 512 << 20, .segment_bytes = 1 << 20, .retention_us = 1000});
	for (uint64_t round = 0; round <= ROUNDS; round++) {
		for (uint32_t i = 0; i < KEYS; i++) {
			/* A stride through all keys, so that segments age unevenly. */
			uint32_t number = (uint32_t)((uint64_t)i * 77777 % KEYS);

			assert_int_equal(
				fixture_put(&fixture, number, round * KEYS + i + 1, VALUE_BYTES),
				KW_PUT_STORED);
			if (i % 512 == 0) {
				fixture_advance(&fixture, 500);
				fixture_publish(&fixture);
			}
		}
	}
	stats = fixture_stats(&fixture);
	assert_int_equal(stats.keys, KEYS);
	assert_int_equal(stats.payload_bytes, (uint64_t)KEYS * (VALUE_BYTES + 11));
	print_message(
		"used %.1f MB, payload %.1f MB, %.2f x payload + 64 bytes a key allowed 1.35; "
		"cleaner copied %.2f bytes per byte written\n",
		(double)stats.used_bytes / 1e6, (double)stats.payload_bytes / 1e6,
		(double)(stats.used_bytes - 64 * KEYS) / (double)stats.payload_bytes,
		(double)stats.cleaned_bytes / (double)stats.written_bytes);
	assert_true((double)stats.used_bytes <= 1.35 * (double)stats.payload_bytes + 64.0 * KEYS);
	fixture_close(&fixture);
}

static void statistics_add_up(void **state)
{
	struct kw_table_stats stats;
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = 8 << 20});
	for (uint32_t i = 0; i < 100000; i++) {
		fixture_put(&fixture, i % 5000, i, i % 300);
		if (i % 7 == 0)
			fixture_delete(&fixture, i * 3 % 5000);
		if (i % 100 == 0)
			fixture_publish(&fixture);
		if (i % 1000 != 0)
			continue;
		stats = fixture_stats(&fixture);
		assert_true(stats.payload_bytes < stats.live_bytes);
		assert_true(stats.live_bytes <= stats.used_bytes);
		assert_true(stats.used_bytes <= stats.capacity_bytes);
		assert_true(stats.keys + stats.tombstones <= 5000);
		assert_true(stats.index_slots >= stats.keys + stats.tombstones);
		assert_true(stats.segments > 0);
	}
	fixture_close(&fixture);
}

/* Growing is by need: a table with a large limit and little in it takes little. */
static void a_small_table_under_a_large_limit_stays_small(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = 1 << 30});
	for (uint32_t i = 0; i < 100000; i++) {
		assert_int_equal(fixture_put(&fixture, i % 100, i, 100), KW_PUT_STORED);
		if (i % 20 == 0)
			fixture_publish(&fixture);
	}
	assert_true(fixture_stats(&fixture).used_bytes < 1 << 20);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_stays_within_135_percent_of_payload_and_64_bytes_a_key),
		cmocka_unit_test(statistics_add_up),
		cmocka_unit_test(a_small_table_under_a_large_limit_stays_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
