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

static uint32_t in_turn(uint64_t i)
{
	return (uint32_t)(i * 77777 % KEYS);
}

static uint32_t at_random(uint64_t i)
{
	uint64_t z = i * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)((z ^ (z >> 31)) % KEYS);
}

/* Nine of ten writes go to a tenth of the keys: old segments stay half alive. */
static uint32_t mostly_to_few(uint64_t i)
{
	return i % 10 ? at_random(i) / 10 : at_random(i);
}

/* The figure the project holds itself against: memory after overwriting everything ten times. */
static void assert_bounded(const char *name, uint32_t (*choose)(uint64_t i), double moved_most)
{
	struct kw_table_stats stats;
	struct fixture fixture;

	/* Some 150 segments, as a table of millions of keys has: a few more or less count little.
	 */
	fixture_open(&fixture,
		&(struct kw_table_options){
			.max_bytes = 512 << 20, .segment_bytes = 256 << 10, .retention_us = 1000});
	for (uint64_t i = 0; i < (uint64_t)(ROUNDS + 1) * KEYS; i++) {
		uint32_t number = i < KEYS ? (uint32_t)i : choose(i);

		assert_int_equal(fixture_put(&fixture, number, i, VALUE_BYTES), KW_PUT_STORED);
		if (i % 512 == 0) {
			/* 256 000 a second, as many as a proxy can take. */
			fixture_advance(&fixture, 2000);
			if (i % 25600 == 0) /* the proxy's ten times a second */
				kw_table_tidy(fixture.table);
			fixture_publish(&fixture);
		}
	}
	stats = fixture_stats(&fixture);
	assert_int_equal(stats.keys, KEYS);
	assert_int_equal(stats.payload_bytes, (uint64_t)KEYS * (VALUE_BYTES + 11));
	print_message("%s: %.1f MB in use for %.1f MB of payload: %.2f x + 48 bytes a key; "
		      "cleaner copied %.2f bytes per byte written\n",
		name, (double)stats.used_bytes / 1e6, (double)stats.payload_bytes / 1e6,
		((double)stats.used_bytes - 48.0 * KEYS) / (double)stats.payload_bytes,
		(double)stats.cleaned_bytes / (double)stats.written_bytes);
	assert_true((double)stats.used_bytes <= 1.30 * (double)stats.payload_bytes + 48.0 * KEYS);
	/* And what that costs: at 0.9 a cleaner that chose blindly would copy 8 bytes a byte. */
	assert_true((double)stats.cleaned_bytes < moved_most * (double)stats.written_bytes);
	fixture_close(&fixture);
}

static uint64_t clock_ns;

static uint64_t read_clock(void)
{
	return clock_ns += 5000; /* each look at it takes so long */
}

/* Begin and end of each cleaning are looked at, nothing else is. */
static void the_cleaner_s_cpu_time_is_counted(void **state)
{
	struct kw_table_options options = {.max_bytes = 8 << 20, .cpu_ns = read_clock};
	struct fixture fixture;
	uint64_t looks;

	clock_ns = 0;
	fixture_open(&fixture, &options);
	for (uint64_t i = 0; i < 50000; i++) {
		fixture_put(&fixture, mostly_to_few(i) % 20000, i, VALUE_BYTES);
		fixture_publish(&fixture);
	}
	looks = clock_ns / 5000;
	assert_true(fixture_stats(&fixture).cleaned_segments > 0);
	assert_true(looks > 0);
	assert_int_equal(fixture_stats(&fixture).cleaner_us, looks / 2 * 5);
	fixture_close(&fixture);
}

static void memory_stays_within_130_percent_of_payload_and_48_bytes_a_key(void **state)
{
	assert_bounded("overwritten in turn", in_turn, 0.5);
	assert_bounded("overwritten at random", at_random, 4);
	/* What is written often stands apart from what was moved. */
	assert_bounded("mostly a few", mostly_to_few, 2.5);
}

/* Live bytes above what the cleaner leaves, free memory, resting memory: some segments in all. */
static uint64_t beyond_live(const struct kw_table_stats *stats)
{
	uint64_t wanted = (uint64_t)((double)stats->live_bytes / 0.9) + stats->index_slots * 16;

	return stats->used_bytes > wanted ? stats->used_bytes - wanted : 0;
}

static void tidy(struct fixture *fixture, int times)
{
	while (times-- > 0) {
		fixture_advance(fixture, 200000);
		kw_table_tidy(fixture->table);
		fixture_publish(fixture);
	}
}

static void memory_of_a_peak_goes_back_to_the_system(void **state)
{
	const uint32_t shapes[] = {500, 100, 300, 20};
	struct kw_table_stats stats;
	struct fixture fixture;
	uint64_t peak;

	fixture_open(&fixture,
		&(struct kw_table_options){.max_bytes = 256 << 20, .segment_bytes = 64 << 10});
	for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
		for (uint32_t i = 0; i < 40000; i++)
			fixture_put(&fixture, i, i + shape * 1000000, shapes[shape]);
		fixture_publish(&fixture);
		peak = fixture_stats(&fixture).used_bytes;
		tidy(&fixture, 300);
		stats = fixture_stats(&fixture);
		assert_in_range(beyond_live(&stats), 0, 8 * (64 << 10));
		assert_true(stats.used_bytes <= peak);
		for (uint32_t i = 0; i < 40000; i += 97)
			assert_true(fixture_has(&fixture, i, i + shape * 1000000, shapes[shape]));
	}
	assert_true(stats.given_back_bytes > 20 * 1000 * 1000);
	/* And when everything is gone, nearly all of it. */
	kw_table_flush(fixture.table, 0);
	fixture_publish(&fixture);
	tidy(&fixture, 100);
	stats = fixture_stats(&fixture);
	assert_in_range(beyond_live(&stats), 0, 8 * (64 << 10));
	assert_int_equal(stats.tombstones, 0);
	/* What was given back is taken again when it is needed. */
	for (uint32_t i = 0; i < 40000; i++)
		assert_int_equal(fixture_put(&fixture, i, i, 500), KW_PUT_STORED);
	for (uint32_t i = 0; i < 40000; i++)
		assert_true(fixture_has(&fixture, i, i, 500));
	assert_true(fixture_stats(&fixture).given_back_bytes < stats.given_back_bytes);
	fixture_close(&fixture);
}

/* Each 4 KiB given back and taken again a moment later would be a page fault. */
static void memory_that_is_wanted_again_is_not_given_back(void **state)
{
	struct kw_table_stats stats;
	struct fixture fixture;
	uint64_t given_back = 0;

	fixture_open(&fixture,
		&(struct kw_table_options){.max_bytes = 256 << 20, .segment_bytes = 64 << 10});
	for (uint64_t i = 0; i < 800000; i++) {
		fixture_put(&fixture, i < 40000 ? (uint32_t)i : at_random(i) % 40000, i, 100);
		if (i % 100 == 0) {
			fixture_advance(&fixture, 2000);
			fixture_publish(&fixture);
		}
		if (i % 5000 == 0)
			kw_table_tidy(fixture.table);
		if (i == 400000)
			given_back = fixture.given_back;
	}
	stats = fixture_stats(&fixture);
	assert_in_range(fixture.given_back - given_back, 0, stats.written_bytes / 100);
	/* Once nobody writes it goes. */
	tidy(&fixture, 100);
	stats = fixture_stats(&fixture);
	assert_in_range(beyond_live(&stats), 0, 16 * (64 << 10));
	fixture_close(&fixture);
}

/* Records of a quarter of a segment: hardly any that is moved leaves room for another. */
static void a_table_at_rest_comes_to_rest(void **state)
{
	const uint32_t sizes[] = {100, 900, 3500, 9000};
	struct fixture fixture;
	uint64_t cleaned;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		fixture_open(&fixture,
			&(struct kw_table_options){.max_bytes = 1 << 30, .retention_us = 1000});
		for (uint32_t tag = 0; tag < 20000; tag++) {
			fixture_put(&fixture, at_random(tag) % 2000, tag,
				sizes[i] / 2 + tag * 37 % sizes[i]);
			if (tag % 5 == 0)
				fixture_delete(&fixture, at_random(tag + 7) % 2000);
			if (tag % 100 == 0)
				fixture_publish(&fixture);
		}
		tidy(&fixture, 300);
		cleaned = fixture_stats(&fixture).cleaned_bytes;
		tidy(&fixture, 300);
		assert_int_equal(fixture_stats(&fixture).cleaned_bytes, cleaned);
		fixture_close(&fixture);
	}
}

static void pinned_memory_is_kept(void **state)
{
	struct kw_table_stats stats;
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){.segment_bytes = 64 << 10});
	fixture.pinned = true;
	for (uint32_t i = 0; i < 40000; i++)
		fixture_put(&fixture, i, i, 500);
	kw_table_flush(fixture.table, 0);
	fixture_publish(&fixture);
	tidy(&fixture, 100);
	stats = fixture_stats(&fixture);
	assert_int_equal(stats.given_back_bytes, 0);
	assert_true(stats.used_bytes > 20 * 1000 * 1000);
	fixture_close(&fixture);
}

/* A device pins an extent for half a second: what will be needed is spoken of before it is. */
static void memory_that_will_be_needed_is_announced(void **state)
{
	struct fixture fixture;
	int at_first;

	fixture_open(&fixture, &(struct kw_table_options){.max_bytes = 256 << 20});
	assert_int_equal(fixture_put(&fixture, 0, 0, 1000), KW_PUT_STORED);
	tidy(&fixture, 1);
	at_first = fixture.extents;
	for (uint32_t i = 1; i < 100000; i++) {
		assert_int_equal(fixture_put(&fixture, i, i, 1000), KW_PUT_STORED);
		if (i % 100 == 0)
			tidy(&fixture, 1);
	}
	assert_true(fixture.extents > at_first + 8);
	/* The index begins with an extent that the first tidying comes too late for. */
	assert_in_range(fixture.surprises, at_first, at_first + 1);
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
		cmocka_unit_test(memory_stays_within_130_percent_of_payload_and_48_bytes_a_key),
		cmocka_unit_test(memory_of_a_peak_goes_back_to_the_system),
		cmocka_unit_test(memory_that_is_wanted_again_is_not_given_back),
		cmocka_unit_test(a_table_at_rest_comes_to_rest),
		cmocka_unit_test(pinned_memory_is_kept),
		cmocka_unit_test(the_cleaner_s_cpu_time_is_counted),
		cmocka_unit_test(memory_that_will_be_needed_is_announced),
		cmocka_unit_test(statistics_add_up),
		cmocka_unit_test(a_small_table_under_a_large_limit_stays_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
