/* Which differences that an audit finds are none that the feed is about to tell. */
#include "source/found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define S UINT64_C(1000000)
#define NOW (1000 * S)
#define LATER (NOW + KW_FOUND_WAIT_US)

static struct kw_found found;
static char last[KW_FOUND_NAME + 1];

static int make(void **state)
{
	kw_found_init(&found, 42);
	last[0] = '\0';
	return 0;
}

static int end(void **state)
{
	kw_found_close(&found);
	return 0;
}

static void suspect(const char *key)
{
	kw_found_suspect(&found, 3, kw_slice_text(key), 7, NOW);
}

static void note(void *arg, uint32_t database, struct kw_slice name)
{
	assert_int_equal(database, 3);
	snprintf(last, sizeof last, "%.*s", (int)name.length, (const char *)name.data);
}

static uint64_t differences(uint64_t barriers, uint64_t now_us)
{
	kw_found_passed(&found, barriers, now_us, note, NULL);
	return found.differences;
}

static void one_of_which_nothing_is_told_counts(void **state)
{
	suspect("key");
	assert_int_equal(differences(8, LATER), 1);
	assert_string_equal(last, "key");
	assert_int_equal(differences(9, LATER + 60 * S), 1); /* once */
}

static void what_is_told_later_is_none(void **state)
{
	suspect("key");
	suspect("other");
	kw_found_told(&found, 3, kw_slice_text("key"));
	kw_found_told(&found, 4, kw_slice_text("other")); /* of another database */
	assert_int_equal(differences(8, LATER), 1);
	assert_string_equal(last, "other");
}

static void a_barrier_and_time_are_waited_for(void **state)
{
	suspect("key");
	assert_int_equal(differences(8, LATER - 1), 0);
	assert_int_equal(differences(7, LATER + 60 * S), 0); /* it was asked for before */
	assert_int_equal(differences(8, LATER + 120 * S), 1);
}

/* So late a look at silent commands may find the change. */
static void a_look_at_silent_commands_is_waited_for(void **state)
{
	found.watch_us = 60 * S;
	suspect("key");
	suspect("other");
	assert_int_equal(differences(8, LATER + 60 * S - 1), 0);
	kw_found_told(&found, 3, kw_slice_text("other"));
	assert_int_equal(differences(8, LATER + 61 * S), 1);
}

static void a_doubt_explains_all(void **state)
{
	suspect("key");
	kw_found_forget(&found);
	assert_int_equal(differences(8, LATER), 0);
	suspect("key");
	assert_int_equal(differences(8, LATER + 60 * S), 1);
}

static void the_same_key_counts_once(void **state)
{
	suspect("key");
	suspect("key");
	assert_int_equal(differences(8, LATER), 1);
}

static void a_long_name_is_cut_in_the_log_alone(void **state)
{
	char name[200];

	memset(name, 'x', sizeof name);
	kw_found_suspect(&found, 3, kw_slice(name, sizeof name), 7, NOW);
	kw_found_told(&found, 3, kw_slice(name, sizeof name - 1));
	assert_int_equal(differences(8, LATER), 1);
	assert_int_equal(strlen(last), KW_FOUND_NAME);
}

/* Each is counted, or left out and said to be. */
static void many_are_bounded(void **state)
{
	uint64_t many = (uint64_t)KW_FOUND_BUCKETS * KW_FOUND_PLACES * 2;
	char name[32];

	for (uint64_t i = 0; i < many; i++) {
		snprintf(name, sizeof name, "key:%d", (int)i);
		suspect(name);
	}
	assert_int_equal(found.suspected + found.left_out, many);
	assert_true(found.left_out > 0 && found.suspected > many / 4);
	assert_int_equal(differences(8, LATER) + found.left_out, many);
	assert_int_equal(found.suspected, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_of_which_nothing_is_told_counts, make, end),
		cmocka_unit_test_setup_teardown(what_is_told_later_is_none, make, end),
		cmocka_unit_test_setup_teardown(a_barrier_and_time_are_waited_for, make, end),
		cmocka_unit_test_setup_teardown(a_look_at_silent_commands_is_waited_for, make, end),
		cmocka_unit_test_setup_teardown(a_doubt_explains_all, make, end),
		cmocka_unit_test_setup_teardown(the_same_key_counts_once, make, end),
		cmocka_unit_test_setup_teardown(a_long_name_is_cut_in_the_log_alone, make, end),
		cmocka_unit_test_setup_teardown(many_are_bounded, make, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
