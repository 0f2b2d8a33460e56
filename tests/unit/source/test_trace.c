/* Changes on their way, as the dirty set shows them. */
#include "source/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct kw_dirty *dirty;
static struct kw_trace *trace;

static int make(void **state)
{
	dirty = kw_dirty_new(42);
	trace = malloc(sizeof *trace);
	kw_trace_init(trace, 7, 1000);
	return 0;
}

static int drop(void **state)
{
	kw_dirty_free(dirty);
	free(trace);
	return 0;
}

/* A key changes at that moment, and is followed. */
static void follow(const char *name, uint64_t arrived_us, uint64_t now_us)
{
	uint32_t number = kw_trace_free(trace);

	assert_true(number < KW_TRACE_CHANGES);
	kw_dirty_add(dirty, 0, kw_slice_text(name), KW_DIRTY_EVENT);
	assert_true(kw_dirty_watch(dirty, number, 0, kw_slice_text(name)));
	kw_trace_begin(trace, number, arrived_us, now_us);
}

static void look(uint64_t now_us)
{
	kw_trace_look(trace, dirty, true, now_us);
}

static struct kw_dirty_entry *take(void)
{
	return kw_dirty_take(dirty, UINT64_MAX - 1);
}

static uint64_t sum_of(enum kw_trace_stage stage)
{
	return trace->stages.of[stage].all.sum_us;
}

static uint64_t count_of(enum kw_trace_stage stage)
{
	return trace->stages.of[stage].all.count;
}

static void each_stage_gets_its_own_time(void **state)
{
	struct kw_dirty_entry *entry;

	follow("a", 1000, 1001);
	look(1003);
	entry = take();
	look(1021);
	look(1100);
	kw_dirty_done(dirty, entry);
	look(1321);
	look(1400);
	assert_int_equal(trace->followed, 1);
	kw_trace_published(trace, 5321);
	assert_int_equal(trace->followed, 0);
	assert_int_equal(sum_of(KW_TRACE_EVENTS), 1);
	assert_int_equal(sum_of(KW_TRACE_WAIT), 20);
	assert_int_equal(sum_of(KW_TRACE_FETCH), 300);
	assert_int_equal(sum_of(KW_TRACE_PUBLISH), 4000);
	for (int stage = KW_TRACE_EVENTS; stage < KW_TRACE_STAGES; stage++)
		assert_int_equal(count_of((enum kw_trace_stage)stage), 1);
}

/* A connection that broke, a value that rests: the time until the flight that counts is a wait. */
static void a_flight_that_brought_nothing_is_part_of_the_wait(void **state)
{
	struct kw_dirty_entry *entry;

	follow("a", 1000, 1000);
	entry = take();
	look(1010);
	kw_dirty_retry(dirty, entry, 0);
	look(2000);
	entry = take();
	look(3000);
	kw_dirty_done(dirty, entry);
	look(3007);
	assert_int_equal(sum_of(KW_TRACE_WAIT), 2000);
	assert_int_equal(sum_of(KW_TRACE_FETCH), 7);
}

/* Nothing is published for it: the next publication may be a heartbeat, long after. */
static void a_value_that_was_in_the_table_already_is_not_published(void **state)
{
	follow("a", 1000, 1000);
	kw_dirty_done(dirty, take());
	kw_trace_look(trace, dirty, false, 1050);
	assert_int_equal(trace->followed, 0);
	kw_trace_published(trace, 90000);
	assert_int_equal(count_of(KW_TRACE_PUBLISH), 0);
	assert_int_equal(sum_of(KW_TRACE_WAIT), 50);
	assert_int_equal(count_of(KW_TRACE_FETCH), 1);
}

static void a_key_without_room_is_not_counted(void **state)
{
	follow("a", 1000, 1000);
	kw_dirty_park(dirty, take(), 100);
	look(1050);
	assert_int_equal(trace->followed, 0);
	for (int stage = 0; stage < KW_TRACE_STAGES; stage++)
		assert_int_equal(count_of((enum kw_trace_stage)stage), 0);
}

static void a_feed_that_does_not_know_when_an_event_came_has_no_such_stage(void **state)
{
	follow("a", 0, 1000);
	kw_dirty_done(dirty, take());
	look(1050);
	assert_int_equal(count_of(KW_TRACE_EVENTS), 0);
	assert_int_equal(count_of(KW_TRACE_WAIT), 1);
}

/* However many changes there are, a turn begins with one, and no more are followed than fit. */
static void one_change_a_turn_is_followed_up_to_a_bound(void **state)
{
	char name[8];

	for (uint64_t i = 0; i < KW_TRACE_CHANGES; i++) {
		snprintf(name, sizeof name, "%u", (unsigned)i);
		follow(name, 1000 + i, 1000 + i);
		assert_int_equal(kw_trace_free(trace), KW_TRACE_CHANGES);
		kw_trace_next_turn(trace);
	}
	assert_int_equal(kw_trace_free(trace), KW_TRACE_CHANGES);
	kw_dirty_done(dirty, take());
	look(2000);
	assert_int_equal(trace->stored, 1);
	kw_trace_published(trace, 2010);
	assert_int_equal(kw_trace_free(trace), 0);
	for (uint64_t i = 1; i < KW_TRACE_CHANGES; i++)
		kw_dirty_done(dirty, take());
	look(3000);
	kw_trace_published(trace, 3010);
	assert_int_equal(trace->followed, 0);
	assert_int_equal(count_of(KW_TRACE_PUBLISH), KW_TRACE_CHANGES);
}

static void a_barrier_is_timed_unless_it_is_forgotten(void **state)
{
	kw_trace_passed(trace, 1000);
	kw_trace_asked(trace, 1000);
	kw_trace_forget(trace);
	kw_trace_passed(trace, 9000);
	assert_int_equal(count_of(KW_TRACE_PRIMARY), 0);
	kw_trace_asked(trace, 10000);
	kw_trace_passed(trace, 10250);
	kw_trace_passed(trace, 20000);
	assert_int_equal(count_of(KW_TRACE_PRIMARY), 1);
	assert_int_equal(sum_of(KW_TRACE_PRIMARY), 250);
}

/* A batch comes in the order of the events: always the first one would wait the least. */
static void any_key_of_a_batch_may_be_chosen(void **state)
{
	uint32_t chosen[64] = {0};

	for (int i = 0; i < 64 * 100; i++)
		chosen[kw_trace_choose(trace, 64)]++;
	for (int i = 0; i < 64; i++)
		assert_in_range(chosen[i], 50, 200);
	assert_int_equal(kw_trace_choose(trace, 1), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(each_stage_gets_its_own_time),
		TEST(a_flight_that_brought_nothing_is_part_of_the_wait),
		TEST(a_value_that_was_in_the_table_already_is_not_published),
		TEST(a_key_without_room_is_not_counted),
		TEST(a_feed_that_does_not_know_when_an_event_came_has_no_such_stage),
		TEST(one_change_a_turn_is_followed_up_to_a_bound),
		TEST(a_barrier_is_timed_unless_it_is_forgotten),
		TEST(any_key_of_a_batch_may_be_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
