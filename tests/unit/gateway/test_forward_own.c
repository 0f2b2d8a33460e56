/* A client reads its own writes; what is covered is proved by looks alone; barriers end. */
#include "gateway/forward/barrier.h"
#include "gateway/forward/horizon.h"
#include "gateway/forward/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Where a request goes. */

struct own_case {
	const char *what;
	struct kw_own own;
	struct kw_own_facts facts;
	enum kw_own_place place;
};

static const struct own_case cases[] = {
	{"a read of one who never wrote", {0}, {KW_OWN_READS_TABLE, 0, 3, 0}, KW_OWN_TABLE},
	{"a read during a write", {1, 1, 0, 0}, {KW_OWN_READS_TABLE, 0, 0, 99}, KW_OWN_PRIMARY},
	{"a read after a write that is not covered", {.wrote_us = 10},
		{KW_OWN_READS_TABLE, 0, 0, 9}, KW_OWN_PRIMARY},
	{"covered to the same moment is not enough", {.wrote_us = 10},
		{KW_OWN_READS_TABLE, 0, 0, 10}, KW_OWN_PRIMARY},
	{"a read after a write that is covered", {.wrote_us = 10}, {KW_OWN_READS_TABLE, 0, 0, 11},
		KW_OWN_TABLE},
	{"a read while a forwarded read is under way", {1, 0, 0, 0}, {KW_OWN_READS_TABLE, 0, 0, 0},
		KW_OWN_TABLE},
	{"a read on another line during a write", {1, 1, 0, 0}, {KW_OWN_READS_TABLE, 2, 0, 99},
		KW_OWN_WAIT},
	{"a write while a get is under way", {0}, {KW_OWN_WRITES, 0, 1, 0}, KW_OWN_WAIT},
	{"a write after a forwarded read", {1, 0, 0, 0}, {KW_OWN_WRITES, 0, 0, 0}, KW_OWN_PRIMARY},
	{"a write on another line", {1, 0, 0, 0}, {KW_OWN_WRITES, 1, 0, 0}, KW_OWN_WAIT},
	{"a write on another line when all is answered", {0, 0, 5, 3}, {KW_OWN_WRITES, 1, 0, 0},
		KW_OWN_PRIMARY},
	{"a forwarded read while a get is under way", {0}, {KW_OWN_READS_PRIMARY, 0, 1, 0},
		KW_OWN_PRIMARY},
	{"a forwarded read on another line", {2, 0, 1, 0}, {KW_OWN_READS_PRIMARY, 0, 0, 0},
		KW_OWN_WAIT},
	{"a barrier after requests without an answer", {1, 0, 0, 0}, {KW_OWN_BARRIER, 0, 0, 0},
		KW_OWN_WAIT},
	{"a barrier", {0}, {KW_OWN_BARRIER, 0, 1, 0}, KW_OWN_TABLE},
};

static void requests_take_effect_in_their_order(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (kw_own_judge(&cases[i].own, &cases[i].facts) != cases[i].place)
			fail_msg("%s", cases[i].what);
	}
}

static void a_write_is_remembered_until_it_is_covered(void **state)
{
	struct kw_own own = {0};
	struct kw_own_facts read = {.want = KW_OWN_READS_TABLE};

	kw_own_sent(&own, 2, true);
	kw_own_sent(&own, 2, false);
	kw_own_answered(&own, true, 70);
	assert_int_equal(own.forwarded, 1);
	kw_own_answered(&own, false, 80);
	read.covered_us = 70;
	assert_int_equal(kw_own_judge(&own, &read), KW_OWN_PRIMARY);
	read.covered_us = 71;
	assert_int_equal(kw_own_judge(&own, &read), KW_OWN_TABLE);
	/* One that was not executed is none. */
	kw_own_sent(&own, 2, true);
	kw_own_answered(&own, true, 0);
	assert_int_equal(kw_own_judge(&own, &read), KW_OWN_TABLE);
}

/* What is covered. */

static void look(struct kw_horizon *horizon, uint64_t begun_us, uint64_t publication,
	uint64_t heartbeat_us, uint64_t fresh_us)
{
	struct kw_horizon_look look = {begun_us, 1, publication, heartbeat_us, fresh_us};

	kw_horizon_look(horizon, &look);
}

static void fresh_must_pass_a_time_taken_after_the_look_began(void **state)
{
	struct kw_horizon horizon = {0};

	look(&horizon, 100, 5, 9000, 8990);
	assert_int_equal(horizon.covered_us, 0);
	/* Publication 6 came after the look began, but its time may be older. */
	look(&horizon, 200, 6, 9010, 9005);
	look(&horizon, 300, 6, 9010, 9005);
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 400, 7, 9020, 9015);
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 500, 8, 9030, 9019);
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 600, 9, 9040, 9020);
	assert_int_equal(horizon.covered_us, 100);
	look(&horizon, 700, 10, 9050, 9050);
	assert_int_equal(horizon.covered_us, 400);
}

static void without_publications_nothing_is_covered(void **state)
{
	struct kw_horizon horizon = {0};

	for (uint64_t t = 1; t < 1000; t++)
		look(&horizon, t, 5, 9000, 9000);
	assert_int_equal(horizon.covered_us, 0);
}

static void a_clock_that_was_set_back_proves_nothing(void **state)
{
	struct kw_horizon horizon = {0};

	look(&horizon, 100, 5, 9000, 8990);
	look(&horizon, 200, 7, 1000, 8990); /* set back: fresh_us is of the time before */
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 300, 8, 1010, 1005);
	assert_int_equal(horizon.covered_us, 100);
}

static void another_epoch_proves_itself_anew(void **state)
{
	struct kw_horizon horizon = {0};
	struct kw_horizon_look other = {300, 2, 9, 9050, 9050};

	look(&horizon, 100, 5, 9000, 8990);
	look(&horizon, 200, 7, 9020, 9020);
	assert_int_equal(horizon.covered_us, 100);
	kw_horizon_look(&horizon, &other);
	assert_int_equal(horizon.covered_us, 0);
	other = (struct kw_horizon_look){400, 2, 11, 9060, 9060};
	kw_horizon_look(&horizon, &other);
	assert_int_equal(horizon.covered_us, 300);
}

static void looks_out_of_order_do_no_harm(void **state)
{
	struct kw_horizon horizon = {0};

	look(&horizon, 200, 7, 9020, 9000);
	look(&horizon, 100, 5, 9000, 8990);
	look(&horizon, 150, 9, 9030, 9030); /* it began before the one that is remembered */
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 300, 9, 9040, 9040);
	assert_int_equal(horizon.covered_us, 200);
}

static void a_table_that_stays_behind_is_covered_at_last(void **state)
{
	struct kw_horizon horizon = {0};
	uint64_t publication = 1, t;

	for (t = 1; t < 10 * KW_HORIZON_MARKS; t++, publication += 2)
		look(&horizon, t, publication, 9000 + t, 8000);
	assert_int_equal(horizon.covered_us, 0);
	assert_int_equal(horizon.count, KW_HORIZON_MARKS);
	look(&horizon, t, publication, 20000, 19999);
	assert_true(horizon.covered_us > 0);
	look(&horizon, t + 1, publication + 2, 20001, 20000);
	assert_int_equal(horizon.covered_us, t - 1);
}

/* A model: a proxy that publishes, and looks at random moments. What is covered is never a lie. */
static void what_is_covered_was_asked_for_later(void **state)
{
	struct kw_horizon horizon = {0};
	uint64_t visible = 1, heartbeat = 1000000, taken, fresh = 0, asked_truth = 0,
		 fresh_truth = 0;
	uint64_t covered = 0;

	srand(7);
	for (uint64_t now = 1; now < 200000; now++) {
		/* The proxy's clock differs by a constant; a publication takes its time first. */
		switch (rand() % 8) {
		case 0: /* a barrier is asked for */
			asked_truth = now;
			break;
		case 1: /* … and passes */
			fresh_truth = asked_truth;
			fresh = asked_truth ? asked_truth + 1000000 : 0;
			break;
		case 2: /* a publication: time, then a delay, then visible */
			taken = now;
			now += (uint64_t)(rand() % 50);
			heartbeat = taken + 1000000;
			visible++;
			break;
		default: {
			uint64_t begun = now - (uint64_t)(rand() % 3);

			if (begun == 0)
				break;
			look(&horizon, begun, visible, heartbeat, fresh);
			assert_true(horizon.covered_us <= fresh_truth);
			covered = horizon.covered_us;
			break;
		}
		}
	}
	assert_true(covered > 199000);
}

/* Barriers. */

struct ended {
	struct kw_barrier barrier;
	struct kw_barriers *list;
	int passed, late;
	bool again;
};

static void on_ended(void *arg, enum kw_barrier_end end)
{
	struct ended *ended = arg;

	if (end == KW_BARRIER_PASSED)
		ended->passed++;
	else
		ended->late++;
	if (ended->again)
		kw_barrier_begin(ended->list, &ended->barrier, 100, 1);
	ended->again = false;
}

static void barriers_pass_or_are_too_late(void **state)
{
	struct kw_barriers list = {0};
	struct ended waits[3] = {0};

	for (int i = 0; i < 3; i++) {
		waits[i].list = &list;
		waits[i].barrier.ended = on_ended;
		waits[i].barrier.arg = &waits[i];
	}
	assert_int_equal(kw_barriers_next_us(&list), 0);
	kw_barrier_begin(&list, &waits[0].barrier, 10, 1);
	kw_barrier_begin(&list, &waits[1].barrier, 20, 2);
	kw_barrier_begin(&list, &waits[2].barrier, 30, 0);
	assert_int_equal(kw_barriers_next_us(&list), 30);
	kw_barriers_step(&list, 29, 10);
	assert_int_equal(list.count, 3);
	waits[0].again = true;
	kw_barriers_step(&list, 30, 11);
	assert_int_equal(waits[0].passed, 1);
	assert_int_equal(waits[2].late, 1);
	assert_int_equal(list.count, 2);
	assert_int_equal(kw_barriers_next_us(&list), 1100);
	kw_barrier_cancel(&list, &waits[1].barrier);
	kw_barrier_cancel(&list, &waits[1].barrier);
	kw_barriers_step(&list, 1100, 99);
	assert_int_equal(waits[0].late, 1);
	assert_int_equal(waits[1].passed + waits[1].late, 0);
	assert_int_equal(list.count, 0);
}

static void a_barriers_word_is_a_number_of_milliseconds(void **state)
{
	uint32_t ms = 7;

	assert_true(kw_barrier_parse(kw_slice_text("0"), &ms) && ms == 0);
	assert_true(kw_barrier_parse(kw_slice_text("60000"), &ms) && ms == 60000);
	assert_false(kw_barrier_parse(kw_slice_text("60001"), &ms));
	assert_false(kw_barrier_parse(kw_slice_text("99999999999999999999"), &ms));
	assert_false(kw_barrier_parse(kw_slice_text("-1"), &ms));
	assert_false(kw_barrier_parse(kw_slice_text("1s"), &ms));
	assert_false(kw_barrier_parse(kw_slice(NULL, 0), &ms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_take_effect_in_their_order),
		cmocka_unit_test(a_write_is_remembered_until_it_is_covered),
		cmocka_unit_test(fresh_must_pass_a_time_taken_after_the_look_began),
		cmocka_unit_test(without_publications_nothing_is_covered),
		cmocka_unit_test(a_clock_that_was_set_back_proves_nothing),
		cmocka_unit_test(another_epoch_proves_itself_anew),
		cmocka_unit_test(looks_out_of_order_do_no_harm),
		cmocka_unit_test(a_table_that_stays_behind_is_covered_at_last),
		cmocka_unit_test(what_is_covered_was_asked_for_later),
		cmocka_unit_test(barriers_pass_or_are_too_late),
		cmocka_unit_test(a_barriers_word_is_a_number_of_milliseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
