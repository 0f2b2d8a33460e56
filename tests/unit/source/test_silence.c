/* When a primary that does not answer is told to hang. */
#include "source/silence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NEVER UINT64_MAX
#define TENTH_US UINT64_C(100000)
#define HOUR_US UINT64_C(3600000000)

/* Looks each tenth of a second, the last of them at `now`. */
static void listen_until(struct kw_silence *silence, uint64_t since_us, uint64_t now_us)
{
	while (silence->looked_us < now_us)
		kw_silence_look(silence, since_us, silence->looked_us + TENTH_US);
}

static void a_primary_that_owes_nothing_is_not_silent(void **state)
{
	struct kw_silence silence = {HOUR_US, 0};

	listen_until(&silence, NEVER, HOUR_US + 10 * KW_SILENCE_US);
	assert_int_equal(kw_silence_seconds(&silence), 0);
}

static void an_answer_that_takes_three_seconds_is_told(void **state)
{
	struct kw_silence silence = {HOUR_US, 0};

	listen_until(&silence, HOUR_US, HOUR_US + KW_SILENCE_US - TENTH_US);
	assert_int_equal(kw_silence_seconds(&silence), 0);
	listen_until(&silence, HOUR_US, HOUR_US + KW_SILENCE_US);
	assert_int_equal(kw_silence_seconds(&silence), 3);
	listen_until(&silence, HOUR_US, HOUR_US + 20 * TENTH_US + KW_SILENCE_US);
	assert_int_equal(kw_silence_seconds(&silence), 5);
}

static void the_first_answer_ends_it(void **state)
{
	struct kw_silence silence = {HOUR_US, 0};

	listen_until(&silence, HOUR_US, HOUR_US + 2 * KW_SILENCE_US);
	kw_silence_look(&silence, NEVER, silence.looked_us + 1);
	assert_int_equal(kw_silence_seconds(&silence), 0);
}

/* Each answer is followed by another question, so something is owed at each look. */
static void a_slow_primary_that_answers_is_not_silent(void **state)
{
	struct kw_silence silence = {HOUR_US, 0};

	for (int i = 0; i < 100; i++) {
		listen_until(&silence, silence.looked_us, silence.looked_us + 20 * TENTH_US);
		assert_int_equal(kw_silence_seconds(&silence), 0);
	}
}

static void time_in_which_the_proxy_itself_stood_still_does_not_count(void **state)
{
	struct kw_silence silence = {HOUR_US, 0};

	kw_silence_look(&silence, HOUR_US + 1, 2 * HOUR_US);
	assert_int_equal(kw_silence_seconds(&silence), 0);
	listen_until(&silence, HOUR_US + 1, 2 * HOUR_US + KW_SILENCE_US);
	assert_int_equal(kw_silence_seconds(&silence), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_primary_that_owes_nothing_is_not_silent),
		cmocka_unit_test(an_answer_that_takes_three_seconds_is_told),
		cmocka_unit_test(the_first_answer_ends_it),
		cmocka_unit_test(a_slow_primary_that_answers_is_not_silent),
		cmocka_unit_test(time_in_which_the_proxy_itself_stood_still_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
