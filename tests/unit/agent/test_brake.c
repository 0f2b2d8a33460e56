/* How many keys may be deleted because a snapshot does not have them. */
#include "sync/brake.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
	double share;
	uint64_t keys, bound;
} bounds[] = {
	{0.2, 0, 1000},
	{0.2, 5000, 1000},
	{0.2, 5004, 1000},
	{0.2, 10000, 2000},
	{0.2, UINT64_C(1000000000000), UINT64_C(200000000000)},
	{0.0, 10000, 1000},
	{0.5, 10000, 5000},
	{0.999, 10000, 9990},
	{1.0, 10, 10},
	{1.0, UINT64_MAX, UINT64_MAX},
};

static void the_bound_is_a_share_of_the_keys_and_never_below_the_floor(void **state)
{
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		assert_int_equal(kw_brake_bound(bounds[i].share, bounds[i].keys), bounds[i].bound);
}

static const struct {
	const char *what;
	double share;
	struct kw_brake_finding finding; /* epoch, deletions, keys */
	bool allowed;
} cases[] = {
	{"nothing", 0.2, {7, 0, 0, false, 0}, true},
	{"a whole small server", 0.2, {7, 1000, 1000, false, 0}, true},
	{"one more than the floor", 0.2, {7, 1001, 1001, false, 0}, false},
	{"the share", 0.2, {7, 20000, 100000, false, 0}, true},
	{"one more than the share", 0.2, {7, 20001, 100000, true, 0}, false},
	{"all", 0.2, {7, 100000, 100000, false, 0}, false},
	{"all, and the brake is off", 1.0, {7, 100000, 100000, false, 0}, true},
	{"the floor, with a share of nothing", 0.0, {7, 1000, 100000, false, 0}, true},
	{"one more, with a share of nothing", 0.0, {7, 1001, 100000, false, 0}, false},
};

static void deletions_beyond_the_bound_are_not_allowed(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_brake brake;

		kw_brake_init(&brake, cases[i].share);
		if (kw_brake_allows(&brake, &cases[i].finding) != cases[i].allowed)
			fail_msg("%s", cases[i].what);
		/* What need not be counted is allowed. */
		if (!kw_brake_must_count(&brake, 7, cases[i].finding.keys))
			assert_true(cases[i].allowed);
	}
}

static const struct kw_brake_finding all = {7, 50000, 50000, false, 0};

static void an_approval_is_for_the_finding_and_no_other(void **state)
{
	struct kw_brake brake;
	struct kw_brake_finding other = all;

	kw_brake_init(&brake, 0.2);
	assert_true(kw_brake_hold(&brake, &all, 1));
	kw_brake_approve(&brake);
	assert_false(kw_brake_holds(&brake));
	assert_true(kw_brake_allows(&brake, &all));
	other.deletions = 55000;
	other.keys = 55000;
	assert_true(kw_brake_allows(&brake, &other)); /* it grew a little before it was used */
	other.deletions = 55001;
	assert_false(kw_brake_allows(&brake, &other));
	other = all;
	other.epoch = 8;
	assert_false(kw_brake_allows(&brake, &other));
	kw_brake_forget(&brake);
	assert_false(kw_brake_allows(&brake, &all));
}

static void consent_covers_all_of_one_table(void **state)
{
	struct kw_brake brake;
	struct kw_brake_finding other = all;

	kw_brake_init(&brake, 0.0);
	kw_brake_consent(&brake, 7);
	assert_true(kw_brake_allows(&brake, &all));
	assert_false(kw_brake_must_count(&brake, 7, UINT64_MAX));
	other.epoch = 8;
	assert_false(kw_brake_allows(&brake, &other));
}

static void it_begins_to_hold_once_and_looks_less_and_less_often(void **state)
{
	struct kw_brake brake;
	uint64_t first, now = 1000000;

	kw_brake_init(&brake, 0.2);
	assert_true(kw_brake_hold(&brake, &all, now));
	first = brake.look_us - now;
	for (int i = 0; i < 10; i++) {
		now = brake.look_us;
		assert_false(kw_brake_hold(&brake, &all, now));
	}
	assert_true(brake.look_us - now > 4 * first);
	assert_true(brake.look_us - now <= KW_BRAKE_LOOK_MOST_MS * 1000);
	assert_int_equal(brake.holds, 1);
	kw_brake_release(&brake);
	assert_true(kw_brake_hold(&brake, &all, now));
	assert_true(brake.look_us - now <= KW_BRAKE_LOOK_LEAST_MS * 1000);
	assert_int_equal(brake.holds, 2);
}

static void a_table_that_was_weighed_passes_for_a_while(void **state)
{
	struct kw_brake brake;

	kw_brake_init(&brake, 0.2);
	assert_false(kw_brake_has_passed(&brake, 0, 0));
	kw_brake_let_pass(&brake, 7, 1000);
	assert_true(kw_brake_has_passed(&brake, 7, 1000 + KW_BRAKE_PASS_US - 1));
	assert_false(kw_brake_has_passed(&brake, 7, 1000 + KW_BRAKE_PASS_US));
	assert_false(kw_brake_has_passed(&brake, 8, 1000));
	kw_brake_forget(&brake);
	assert_false(kw_brake_has_passed(&brake, 7, 1000));
}

/* A walk is not worth its cost while at least as many keys are missing. */
static void it_looks_only_when_keys_can_have_come_back(void **state)
{
	struct kw_brake brake;

	kw_brake_init(&brake, 0.2);
	kw_brake_hold(&brake, &all, 1);
	assert_false(kw_brake_must_look(&brake, 50000, 0));
	assert_false(kw_brake_must_look(&brake, 50000, 39999));
	assert_true(kw_brake_must_look(&brake, 50000, 40000));
	assert_true(kw_brake_must_look(&brake, 50000, 90000));
	assert_true(kw_brake_must_look(&brake, 0, 0));
	brake.share = 1.0;
	assert_true(kw_brake_must_look(&brake, 50000, 0));
}

/*
 * The operator reads the finding, and an approval is as large. So it is counted anew when far fewer
 * keys can be missing than when it was counted, and not before.
 */
static void it_counts_again_when_far_fewer_can_be_missing(void **state)
{
	struct kw_brake brake;
	struct kw_brake_finding counted = all;

	kw_brake_init(&brake, 0.2);
	counted.least = 48000; /* of 50000: some keys of the table have expired here */
	kw_brake_hold(&brake, &counted, 1);
	assert_false(kw_brake_must_look(&brake, 50000, 2000));
	assert_false(kw_brake_must_look(&brake, 50000, 6363));
	assert_true(kw_brake_must_look(&brake, 50000, 6364));
	counted.least = 20000;
	kw_brake_hold(&brake, &counted, 2);
	assert_false(kw_brake_must_look(&brake, 50000, 30000));
	assert_false(kw_brake_must_look(&brake, 50000, 31818));
	assert_true(kw_brake_must_look(&brake, 50000, 31819));
}

/* A thousand keys are no other finding, and never less: an approval allows as many more. */
static void a_few_keys_that_come_back_are_not_counted_anew(void **state)
{
	struct kw_brake brake;
	const struct kw_brake_finding small = {7, 3000, 3000, false, 3000};

	kw_brake_init(&brake, 0.0);
	kw_brake_hold(&brake, &small, 1);
	assert_false(kw_brake_must_look(&brake, 3000, 1000));
	assert_true(kw_brake_must_look(&brake, 3000, 1001));
}

static void its_words_have_the_numbers_and_the_remedy(void **state)
{
	struct kw_brake brake;
	struct kw_brake_finding sampled = all;
	char text[512];

	kw_brake_init(&brake, 0.2);
	kw_brake_hold(&brake, &all, 1);
	kw_brake_words(&brake, text, sizeof text);
	assert_non_null(strstr(text, "lacks 50000 of 50000 local keys"));
	assert_non_null(strstr(text, "apply.max_prune=0.2 lets 10000 go"));
	assert_non_null(strstr(text, "keywakectl approve"));
	sampled.estimated = true;
	kw_brake_hold(&brake, &sampled, 1);
	kw_brake_words(&brake, text, sizeof text);
	assert_non_null(strstr(text, "lacks about 50000 of 50000"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bound_is_a_share_of_the_keys_and_never_below_the_floor),
		cmocka_unit_test(deletions_beyond_the_bound_are_not_allowed),
		cmocka_unit_test(an_approval_is_for_the_finding_and_no_other),
		cmocka_unit_test(consent_covers_all_of_one_table),
		cmocka_unit_test(it_begins_to_hold_once_and_looks_less_and_less_often),
		cmocka_unit_test(a_table_that_was_weighed_passes_for_a_while),
		cmocka_unit_test(it_looks_only_when_keys_can_have_come_back),
		cmocka_unit_test(it_counts_again_when_far_fewer_can_be_missing),
		cmocka_unit_test(a_few_keys_that_come_back_are_not_counted_anew),
		cmocka_unit_test(its_words_have_the_numbers_and_the_remedy),
	};

	return cmocka_run_group_tests_name("agent-brake", tests, NULL, NULL);
}
