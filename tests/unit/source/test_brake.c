/* How much a sweep may delete by inference, case by case; and when a finding is looked at again. */
#include "source/brake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND_US UINT64_C(1000000)

static const struct {
	const char *what;
	struct kw_brake_count count; /* before, missing, explained */
	double share;
	bool beyond;
} cases[] = {
	{"nothing is missing", {100000, 0, 0}, 0.2, false},
	{"all are missing", {100000, 100000, 0}, 0.2, true},
	{"just the share is missing", {100000, 20000, 0}, 0.2, false},
	{"one more than the share", {100000, 20001, 0}, 0.2, true},
	{"all of a small table: the floor lets them go", {1000, 999, 0}, 0.2, false},
	{"as many as the floor", {1000, 1000, 0}, 0, false},
	{"one more than the floor", {1001, 1001, 0}, 0.2, true},
	{"a share of 0 leaves the floor", {1000000, 1001, 0}, 0, true},
	{"a share of 1 switches it off", {100000, 100000, 0}, 1, false},
	{"all have expired", {100000, 0, 100000}, 0.2, false},
	{"what expired does not dilute the share", {100000, 5000, 90000}, 0.2, true},
	{"… and does not add to it", {100000, 1500, 90000}, 0.2, false},
	{"keys that came and went during the sweep", {0, 5000, 0}, 0.2, true},
};

static void the_share_is_of_the_keys_that_should_be_there(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (kw_brake_is_beyond(&cases[i].count, cases[i].share) != cases[i].beyond)
			fail_msg("%s", cases[i].what);
}

/* One count of a table of 10000 keys that takes no time. */
static enum kw_brake_verdict count(struct kw_brake *brake, uint64_t missing, uint64_t now_us)
{
	kw_brake_begin(brake, 10000, now_us, now_us);
	brake->count.missing = missing;
	return kw_brake_judge(brake, now_us);
}

static void it_is_held_since_its_first_finding(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	assert_int_equal(count(&brake, 9000, 5), KW_BRAKE_HOLD);
	assert_int_equal(brake.held_us, 5);
	assert_int_equal(count(&brake, 8000, SECOND_US), KW_BRAKE_HOLD);
	assert_int_equal(brake.held_us, 5);
	kw_brake_release(&brake);
	assert_int_equal(count(&brake, 9000, 2 * SECOND_US), KW_BRAKE_HOLD);
	assert_int_equal(brake.held_us, 2 * SECOND_US);
}

static void an_approval_counts_for_this_finding_alone(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	assert_false(kw_brake_approve(&brake));
	assert_int_equal(count(&brake, 9000, 1), KW_BRAKE_HOLD);
	assert_true(kw_brake_is_on(&brake));
	assert_true(kw_brake_approve(&brake));
	assert_int_equal(kw_brake_due(&brake, 1, 2), KW_BRAKE_RECOUNT);
	assert_int_equal(count(&brake, 9000, 3), KW_BRAKE_PASS);
	kw_brake_release(&brake);
	assert_false(kw_brake_is_on(&brake));
	assert_int_equal(count(&brake, 9000, 4), KW_BRAKE_HOLD);
	assert_true(kw_brake_approve(&brake));
	assert_int_equal(count(&brake, 9001, 5), KW_BRAKE_HOLD); /* one more than was approved */
}

static void keys_that_come_back_release_it_once_no_more_of_them_come(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	assert_int_equal(count(&brake, 9000, 1), KW_BRAKE_HOLD);
	assert_int_equal(count(&brake, 5000, SECOND_US), KW_BRAKE_HOLD);
	assert_int_equal(count(&brake, 1500, 2 * SECOND_US), KW_BRAKE_HOLD); /* still falling */
	assert_int_equal(kw_brake_due(&brake, 2 * SECOND_US, 3 * SECOND_US), KW_BRAKE_RECOUNT);
	assert_int_equal(count(&brake, 1500, 3 * SECOND_US), KW_BRAKE_PASS);
	kw_brake_release(&brake);
	assert_int_equal(count(&brake, 9000, 4 * SECOND_US), KW_BRAKE_HOLD);
	assert_int_equal(count(&brake, 0, 5 * SECOND_US), KW_BRAKE_PASS); /* all are back */
}

static void a_held_sweep_counts_only_when_the_table_changed(void **state)
{
	struct kw_brake brake = {.share = 0.2};
	uint64_t version = 1, now_us = 1;

	assert_int_equal(count(&brake, 9000, now_us), KW_BRAKE_HOLD);
	assert_int_equal(kw_brake_due(&brake, version, 5 * SECOND_US), KW_BRAKE_NOTHING);
	assert_int_equal(kw_brake_due(&brake, version + 1, SECOND_US / 2), KW_BRAKE_NOTHING);
	assert_int_equal(kw_brake_due(&brake, version + 1, 5 * SECOND_US), KW_BRAKE_RECOUNT);
	assert_in_range(kw_brake_ready_us(&brake, version + 1), SECOND_US, 2 * SECOND_US);
	assert_true(kw_brake_ready_us(&brake, version) > 5 * SECOND_US);
}

/* What expires explains itself, though no event comes and the table stays as it is. */
static void keys_that_expire_meanwhile_release_it(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	kw_brake_begin(&brake, 10000, 1, SECOND_US);
	brake.count.missing = 9000;
	kw_brake_note_expiry(&brake.count, 500000 + 6000, 500000);
	kw_brake_note_expiry(&brake.count, 500000 + 5000, 500000);
	kw_brake_note_expiry(&brake.count, 500000 + 8000, 500000);
	assert_int_equal(kw_brake_judge(&brake, SECOND_US), KW_BRAKE_HOLD);
	assert_int_equal(kw_brake_due(&brake, 1, 6 * SECOND_US - 1), KW_BRAKE_NOTHING);
	assert_int_equal(kw_brake_ready_us(&brake, 1), 6 * SECOND_US);
	assert_int_equal(kw_brake_due(&brake, 1, 6 * SECOND_US), KW_BRAKE_RECOUNT);
	kw_brake_begin(&brake, 10000, 1, 6 * SECOND_US);
	brake.count.missing = 900;
	brake.count.explained = 8100;
	assert_int_equal(kw_brake_judge(&brake, 6 * SECOND_US), KW_BRAKE_PASS);
}

/* Of a million keys with many expiries, one count in a while is enough. */
static void expiries_do_not_make_it_count_without_a_pause(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	kw_brake_begin(&brake, 10000, 1, 0);
	brake.count.missing = 9000;
	kw_brake_note_expiry(&brake.count, 1001, 1000);
	assert_int_equal(kw_brake_judge(&brake, SECOND_US / 10), KW_BRAKE_HOLD);
	assert_int_equal(kw_brake_due(&brake, 1, SECOND_US), KW_BRAKE_NOTHING);
	assert_in_range(kw_brake_ready_us(&brake, 1), 2 * SECOND_US, 3 * SECOND_US);
}

/* However far away it is. */
static void an_expiry_that_never_comes_does_no_harm(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	kw_brake_begin(&brake, 10000, 1, SECOND_US);
	brake.count.missing = 9000;
	kw_brake_note_expiry(&brake.count, INT64_MAX, 1000);
	assert_int_equal(kw_brake_judge(&brake, SECOND_US), KW_BRAKE_HOLD);
	assert_int_equal(kw_brake_due(&brake, 1, 5 * SECOND_US), KW_BRAKE_NOTHING);
	assert_int_equal(kw_brake_ready_us(&brake, 1), SECOND_US + KW_BRAKE_RESCAN_FIRST_US);
}

static void a_long_count_is_repeated_seldom(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	kw_brake_begin(&brake, 10000, 1, 0);
	brake.count.missing = 9000;
	assert_int_equal(kw_brake_judge(&brake, SECOND_US), KW_BRAKE_HOLD);
	assert_true(kw_brake_ready_us(&brake, 2) >= 10 * SECOND_US);
}

static void the_primary_is_scanned_again_at_growing_pauses(void **state)
{
	struct kw_brake brake = {.share = 0.2};
	uint64_t now_us = 1, pause_us = 0, scans = 0;

	assert_int_equal(count(&brake, 9000, now_us), KW_BRAKE_HOLD);
	while (now_us < 86400 * SECOND_US) {
		uint64_t next_us = kw_brake_ready_us(&brake, now_us);

		assert_true(next_us - now_us >= pause_us && next_us - now_us <= 3600 * SECOND_US);
		pause_us = next_us - now_us;
		now_us = next_us;
		assert_int_equal(kw_brake_due(&brake, brake.version, now_us), KW_BRAKE_RESCAN);
		assert_int_equal(count(&brake, 9000, now_us), KW_BRAKE_HOLD);
		scans++;
	}
	assert_in_range(scans, 24, 40);
}

static void another_share_is_judged_at_once(void **state)
{
	struct kw_brake brake = {.share = 0.2};

	assert_int_equal(count(&brake, 9000, 1), KW_BRAKE_HOLD);
	kw_brake_set_share(&brake, 0.95);
	assert_int_equal(kw_brake_due(&brake, 1, 2), KW_BRAKE_RECOUNT);
	assert_int_equal(count(&brake, 9000, 3), KW_BRAKE_PASS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_share_is_of_the_keys_that_should_be_there),
		cmocka_unit_test(it_is_held_since_its_first_finding),
		cmocka_unit_test(an_approval_counts_for_this_finding_alone),
		cmocka_unit_test(keys_that_come_back_release_it_once_no_more_of_them_come),
		cmocka_unit_test(a_held_sweep_counts_only_when_the_table_changed),
		cmocka_unit_test(keys_that_expire_meanwhile_release_it),
		cmocka_unit_test(expiries_do_not_make_it_count_without_a_pause),
		cmocka_unit_test(an_expiry_that_never_comes_does_no_harm),
		cmocka_unit_test(a_long_count_is_repeated_seldom),
		cmocka_unit_test(the_primary_is_scanned_again_at_growing_pauses),
		cmocka_unit_test(another_share_is_judged_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
