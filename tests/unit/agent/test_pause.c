/* When to look at the table again: single steps, then whole days of changes and looks. */
#include "follow/pause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define IDLE_US 1500

/* One look that found something or not, a second after the last one. */
static uint32_t next_us(uint32_t last_us, bool moved, uint32_t idle_us, uint64_t behind_us)
{
	struct kw_pause pause = {.us = last_us};

	return kw_pause_next_us(&pause, moved, 1000000, idle_us, behind_us);
}

static void data_that_flow_are_read_back_to_back(void **state)
{
	assert_int_equal(next_us(0, true, IDLE_US, 0), 0);
	assert_int_equal(next_us(IDLE_US, true, IDLE_US, 0), 0);
	assert_int_equal(next_us(IDLE_US, true, IDLE_US, KW_PAUSE_BEHIND_US), 0);
}

static void pauses_double_up_to_the_configured_one(void **state)
{
	static const uint32_t expected[] = {50, 100, 200, 400, 800, 1500, 1500};
	uint32_t pause_us = 0;

	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		pause_us = next_us(pause_us, false, IDLE_US, 0);
		assert_int_equal(pause_us, expected[i]);
	}
	assert_int_equal(next_us(0, false, 20, 0), 20);
	assert_int_equal(next_us(UINT32_MAX, false, UINT32_MAX, 0), UINT32_MAX);
}

/* The proxy proves its freshness every tenth of a second: that much is no sign of anything. */
static void a_table_as_fresh_as_can_be_is_not_waited_for(void **state)
{
	assert_int_equal(next_us(0, false, IDLE_US, 200000), 50);
	assert_int_equal(next_us(50, false, IDLE_US, KW_PAUSE_BEHIND_US), 100);
}

static void a_table_far_behind_is_looked_at_less_often_moved_or_not(void **state)
{
	uint64_t behind_us = KW_PAUSE_BEHIND_US + 1000000;

	assert_int_equal(next_us(0, true, IDLE_US, behind_us), 1000000 / 256);
	assert_int_equal(next_us(0, false, IDLE_US, behind_us), 1000000 / 256);
	assert_int_equal(next_us(0, true, IDLE_US, UINT64_MAX), KW_PAUSE_BEHIND_MOST_US);
	assert_int_equal(next_us(0, false, IDLE_US, 3600000000), KW_PAUSE_BEHIND_MOST_US);
}

static void who_configured_short_pauses_gets_no_long_ones(void **state)
{
	assert_int_equal(next_us(0, true, 10, UINT64_MAX), 10 * KW_PAUSE_BEHIND_TIMES);
	assert_int_equal(next_us(0, true, 0, UINT64_MAX), 0);
}

static void who_wants_no_pause_gets_none_whatever_was_learnt(void **state)
{
	struct kw_pause pause = {0};
	uint64_t now_us = 1;

	for (int i = 0; i < 100; i++, now_us += 1000) {
		assert_int_equal(kw_pause_next_us(&pause, true, now_us, 0, 0), 0);
		assert_int_equal(kw_pause_next_us(&pause, false, now_us + 500, 0, 0), 0);
	}
	assert_int_equal(kw_pause_next_us(&pause, false, now_us, IDLE_US, 0), KW_PAUSE_FIRST_US);
}

static void what_comes_soon_after_a_change_is_one_burst_with_it(void **state)
{
	struct kw_pause pause = {0};

	for (uint64_t burst_us = 10000; burst_us < 1000000; burst_us += 1200)
		for (uint64_t part = 0; part < 4; part++)
			kw_pause_next_us(&pause, true, burst_us + 60 * part, IDLE_US, 0);
	assert_int_equal(pause.distance_us, 1200);
}

/*
 * Days. A look takes 10 µs, and a sleep 5 µs more than it was asked for. A change is seen when the
 * first look is over that began after it was published.
 */
#define LOOK_US 10
#define WAKE_US 5
#define SECONDS 4
#define CHANGES_MOST 250000

struct day {
	uint64_t changes_us[CHANGES_MOST];
	size_t count;
	uint32_t lags_us[CHANGES_MOST];
	uint64_t begun_us, ended_us;
};

struct found {
	uint32_t looks;              /* a second */
	uint32_t median_us, late_us; /* 99th percentile */
};

static struct day day;

static uint64_t noise;

static uint64_t draw(uint64_t most)
{
	noise = noise * 6364136223846793005 + 1442695040888963407;
	return (noise >> 33) % (most + 1);
}

static void begin_day(void)
{
	noise = 1;
	day.count = 0;
	day.begun_us = 1000000;
	day.ended_us = day.begun_us + (uint64_t)SECONDS * 1000000;
}

/* At random: each moment is as likely as any other, so distances are of all lengths. */
static void fill_at_random(uint32_t a_second)
{
	uint64_t at_us = day.begun_us, mean_us = 1000000 / a_second;

	while (at_us < day.ended_us) {
		day.changes_us[day.count++] = at_us;
		/* Of a geometric distribution: one chance in mean_us a microsecond. */
		for (at_us++; draw(mean_us - 1) > 0; at_us++)
			continue;
	}
}

/* Each in so many pieces, as the proxy publishes what came in one read. */
static void fill_with_bursts(uint32_t a_second, uint32_t pieces)
{
	uint64_t distance_us = 1000000 / a_second;

	for (uint64_t at_us = day.begun_us; at_us < day.ended_us; at_us += distance_us) {
		uint64_t late_us = draw(distance_us / 20);

		for (uint32_t i = 0; i < pieces; i++)
			day.changes_us[day.count++] = at_us + late_us + (uint64_t)40 * i;
	}
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static struct found follow(struct kw_pause *pause)
{
	uint64_t now_us = day.begun_us;
	uint32_t looks = 0;
	size_t seen = 0;

	while (now_us < day.ended_us) {
		uint64_t look_us = now_us;
		size_t before = seen;
		uint32_t pause_us;

		now_us += LOOK_US;
		looks++;
		for (; seen < day.count && day.changes_us[seen] <= look_us; seen++)
			day.lags_us[seen] = (uint32_t)(now_us - day.changes_us[seen]);
		pause_us = kw_pause_next_us(pause, seen > before, look_us, IDLE_US, 0);
		now_us += pause_us ? pause_us + WAKE_US : 0;
	}
	qsort(day.lags_us, seen, sizeof *day.lags_us, by_size);
	return (struct found){looks / SECONDS, seen ? day.lags_us[seen / 2] : 0,
		seen ? day.lags_us[seen - 1 - seen / 100] : 0};
}

static struct found follow_day(void)
{
	struct kw_pause pause = {0};

	return follow(&pause);
}

static void assert_found(struct found found, struct found most)
{
	print_message("%u looks a second, lag %u µs, 99th percentile %u µs\n", found.looks,
		found.median_us, found.late_us);
	assert_true(found.looks <= most.looks);
	assert_true(found.median_us <= most.median_us);
	assert_true(found.late_us <= most.late_us);
}

/* As peer-lag writes: ten or fifty keys each millisecond. Doubling alone: 5300, 177 and 812. */
static void bursts_are_found_within_a_sixth_of_their_distance(void **state)
{
	begin_day();
	fill_with_bursts(1000, 3);
	assert_found(follow_day(), (struct found){9500, 100, 220});
}

/* Doubling alone: 3700, 250 and 1460. */
static void a_thousand_a_second_at_random(void **state)
{
	begin_day();
	fill_at_random(1000);
	assert_found(follow_day(), (struct found){7500, 130, 600});
}

/* Doubling alone: 15600, 54 and 353. */
static void ten_thousand_a_second_at_random(void **state)
{
	begin_day();
	fill_at_random(10000);
	assert_found(follow_day(), (struct found){22000, 50, 120});
}

static void fifty_thousand_a_second_at_random(void **state)
{
	begin_day();
	fill_at_random(50000);
	assert_found(follow_day(), (struct found){33000, 40, 130});
}

/* Changes that are far apart are no reason to look more often than configured. */
static void few_changes_cost_few_looks(void **state)
{
	begin_day();
	fill_with_bursts(20, 1);
	assert_found(follow_day(), (struct found){800, 1000, 1600});
}

static void silence_costs_no_more_looks_than_configured(void **state)
{
	struct kw_pause pause = {0};

	begin_day();
	fill_at_random(10000);
	follow(&pause);
	begin_day();
	assert_true(follow(&pause).looks <= 1000000 / IDLE_US + 20);
}

/* After a silence the first changes wait no longer than by doubling, and the next no longer at all.
 */
static void a_load_after_silence_is_followed_at_once(void **state)
{
	struct kw_pause pause = {0};

	begin_day();
	follow(&pause);
	begin_day();
	day.ended_us = day.begun_us + 100000;
	fill_with_bursts(1000, 3);
	follow(&pause);
	assert_true(day.lags_us[day.count / 2] < 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_that_flow_are_read_back_to_back),
		cmocka_unit_test(pauses_double_up_to_the_configured_one),
		cmocka_unit_test(a_table_as_fresh_as_can_be_is_not_waited_for),
		cmocka_unit_test(a_table_far_behind_is_looked_at_less_often_moved_or_not),
		cmocka_unit_test(who_configured_short_pauses_gets_no_long_ones),
		cmocka_unit_test(who_wants_no_pause_gets_none_whatever_was_learnt),
		cmocka_unit_test(what_comes_soon_after_a_change_is_one_burst_with_it),
		cmocka_unit_test(bursts_are_found_within_a_sixth_of_their_distance),
		cmocka_unit_test(a_thousand_a_second_at_random),
		cmocka_unit_test(ten_thousand_a_second_at_random),
		cmocka_unit_test(fifty_thousand_a_second_at_random),
		cmocka_unit_test(few_changes_cost_few_looks),
		cmocka_unit_test(silence_costs_no_more_looks_than_configured),
		cmocka_unit_test(a_load_after_silence_is_followed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
