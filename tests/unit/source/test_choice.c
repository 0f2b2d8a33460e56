/* When source.feed=auto changes its feed. */
#include "feed/choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct kw_choice choice;

static int begin(void **state)
{
	kw_choice_init(&choice);
	return 0;
}

/* The stream fails so often, with a stop after each. */
static void fail_times(int times, uint64_t now_us)
{
	for (int i = 0; i < times; i++) {
		assert_int_equal(choice.next, KW_CHOICE_STREAM);
		kw_choice_failed(&choice, false, now_us);
		kw_choice_stopped(&choice, false, now_us);
	}
}

static void a_refusal_is_enough(void **state)
{
	assert_true(kw_choice_failed(&choice, true, 1));
	kw_choice_stopped(&choice, false, 1);
	assert_int_equal(choice.next, KW_CHOICE_NOTIFICATIONS);
}

static void a_trouble_must_come_again_and_again(void **state)
{
	fail_times(KW_CHOICE_FAILURES - 1, 1);
	assert_int_equal(choice.next, KW_CHOICE_STREAM);
	kw_choice_followed(&choice, 2);
	fail_times(KW_CHOICE_FAILURES, 3);
	assert_int_equal(choice.next, KW_CHOICE_NOTIFICATIONS);
}

static void another_server_is_tried_at_once(void **state)
{
	kw_choice_failed(&choice, true, 1);
	kw_choice_stopped(&choice, false, 1);
	kw_choice_stopped(&choice, true, 2);
	assert_int_equal(choice.next, KW_CHOICE_STREAM);
}

static void after_a_trouble_the_stream_is_tried_again(void **state)
{
	fail_times(KW_CHOICE_FAILURES, 1);
	assert_false(kw_choice_is_due(&choice, KW_CHOICE_PAUSE_US));
	assert_true(kw_choice_is_due(&choice, 1 + KW_CHOICE_PAUSE_US));
	kw_choice_stopped(&choice, false, 1 + KW_CHOICE_PAUSE_US);
	assert_int_equal(choice.next, KW_CHOICE_STREAM);
	fail_times(1, 1 + KW_CHOICE_PAUSE_US); /* once is enough now, and the pause is longer */
	assert_int_equal(choice.next, KW_CHOICE_NOTIFICATIONS);
	assert_false(kw_choice_is_due(&choice, 3 * KW_CHOICE_PAUSE_US));
	assert_true(kw_choice_is_due(&choice, 1 + 3 * KW_CHOICE_PAUSE_US));
}

/* No connection is given up for what an operator must mend. */
static void after_a_refusal_the_next_connection_tries_it(void **state)
{
	kw_choice_failed(&choice, true, 1);
	kw_choice_stopped(&choice, false, 1);
	assert_false(kw_choice_is_due(&choice, UINT64_MAX));
	kw_choice_stopped(&choice, false, KW_CHOICE_PAUSE_US);
	assert_int_equal(choice.next, KW_CHOICE_NOTIFICATIONS);
	kw_choice_stopped(&choice, false, 1 + KW_CHOICE_PAUSE_US);
	assert_int_equal(choice.next, KW_CHOICE_STREAM);
}

static void the_pause_is_a_day_at_most_and_short_again_after_a_while(void **state)
{
	uint64_t now_us = 1;

	for (int i = 0; i < 30; i++) {
		kw_choice_failed(&choice, true, now_us);
		assert_true(choice.retry_us - now_us <= KW_CHOICE_PAUSE_MOST_US);
		now_us = choice.retry_us;
		kw_choice_stopped(&choice, false, now_us);
	}
	assert_int_equal(choice.pause_us, KW_CHOICE_PAUSE_MOST_US);
	kw_choice_followed(&choice, now_us);
	kw_choice_stopped(&choice, false, now_us + KW_CHOICE_PAUSE_US);
	assert_int_equal(choice.pause_us, KW_CHOICE_PAUSE_US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_refusal_is_enough, begin),
		cmocka_unit_test_setup(a_trouble_must_come_again_and_again, begin),
		cmocka_unit_test_setup(another_server_is_tried_at_once, begin),
		cmocka_unit_test_setup(after_a_trouble_the_stream_is_tried_again, begin),
		cmocka_unit_test_setup(after_a_refusal_the_next_connection_tries_it, begin),
		cmocka_unit_test_setup(
			the_pause_is_a_day_at_most_and_short_again_after_a_while, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
