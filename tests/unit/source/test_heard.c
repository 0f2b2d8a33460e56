/* When a replica heard of its own primary last. */
#include "source/heard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#define S UINT64_C(1000000)
#define BEGIN (1000 * S)

static struct kw_heard heard;

static void answer(uint64_t asked_us, const char *seconds, uint64_t offset)
{
	char info[128];

	snprintf(info, sizeof info,
		"role:slave\r\nmaster_last_io_seconds_ago:%s\r\nslave_repl_offset:%llu\r\n",
		seconds, (unsigned long long)offset);
	kw_heard_take(&heard, kw_slice_text(info), asked_us);
}

static int setup(void **state)
{
	kw_heard_init(&heard, NULL, NULL, NULL);
	return 0;
}

static void at_first_the_seconds_tell(void **state)
{
	answer(BEGIN, "7", 100);
	assert_int_equal(heard.us, BEGIN - 8 * S); /* 7.9 s are told as 7 */
}

static void an_offset_that_grows_tells_more(void **state)
{
	answer(BEGIN, "0", 100);
	answer(BEGIN + S / 10, "0", 114);
	assert_int_equal(heard.us, BEGIN);
	answer(BEGIN + 2 * S / 10, "0", 128);
	assert_int_equal(heard.us, BEGIN + S / 10);
}

static void a_silence_moves_nothing(void **state)
{
	answer(BEGIN, "0", 100);
	answer(BEGIN + S / 10, "0", 114);
	for (uint64_t i = 2; i < 60; i++) {
		char seconds[8];

		snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)i / 10);
		answer(BEGIN + i * S / 10, seconds, 114);
		assert_int_equal(heard.us, BEGIN);
	}
}

/* So it is while the pieces of a large command come in. */
static void later_seconds_without_an_offset_tell_nothing(void **state)
{
	answer(BEGIN, "0", 100);
	answer(BEGIN + 5 * S, "0", 100);
	assert_int_equal(heard.us, BEGIN - S);
	answer(BEGIN + 6 * S, "0", 900);
	assert_int_equal(heard.us, BEGIN + 5 * S);
}

/* A full synchronisation brings other data, whose offset can be less. */
static void another_offset_is_a_sign_of_life(void **state)
{
	answer(BEGIN, "3", 100);
	answer(BEGIN + S, "0", 10);
	assert_int_equal(heard.us, BEGIN);
}

static void a_link_that_is_down_tells_nothing(void **state)
{
	answer(BEGIN, "0", 100);
	answer(BEGIN + 5 * S, "-1", 100);
	assert_int_equal(heard.us, BEGIN - S);
}

static void after_a_reset_nothing_is_known(void **state)
{
	answer(BEGIN, "0", 100);
	answer(BEGIN + S, "0", 200);
	kw_heard_reset(&heard);
	assert_int_equal(heard.us, 0);
	answer(BEGIN + 2 * S, "4", 300);
	assert_int_equal(heard.us, BEGIN - 3 * S);
}

static void seconds_that_cannot_be_are_passed_over(void **state)
{
	answer(BEGIN, "18446744073709551615", 100);
	assert_int_equal(heard.us, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(at_first_the_seconds_tell, setup),
		cmocka_unit_test_setup(an_offset_that_grows_tells_more, setup),
		cmocka_unit_test_setup(a_silence_moves_nothing, setup),
		cmocka_unit_test_setup(later_seconds_without_an_offset_tell_nothing, setup),
		cmocka_unit_test_setup(another_offset_is_a_sign_of_life, setup),
		cmocka_unit_test_setup(a_link_that_is_down_tells_nothing, setup),
		cmocka_unit_test_setup(after_a_reset_nothing_is_known, setup),
		cmocka_unit_test_setup(seconds_that_cannot_be_are_passed_over, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
