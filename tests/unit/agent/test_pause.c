/* When to look at the table again. */
#include "follow/pause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define IDLE_US 1500

static void data_that_flow_are_read_back_to_back(void **state)
{
	assert_int_equal(kw_pause_next_us(0, true, IDLE_US, 0), 0);
	assert_int_equal(kw_pause_next_us(IDLE_US, true, IDLE_US, 0), 0);
	assert_int_equal(kw_pause_next_us(IDLE_US, true, IDLE_US, KW_PAUSE_BEHIND_US), 0);
}

static void pauses_double_up_to_the_configured_one(void **state)
{
	static const uint32_t expected[] = {50, 100, 200, 400, 800, 1500, 1500};
	uint32_t pause_us = 0;

	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		pause_us = kw_pause_next_us(pause_us, false, IDLE_US, 0);
		assert_int_equal(pause_us, expected[i]);
	}
	assert_int_equal(kw_pause_next_us(0, false, 20, 0), 20);
	assert_int_equal(kw_pause_next_us(UINT32_MAX, false, UINT32_MAX, 0), UINT32_MAX);
}

/* The proxy proves its freshness every tenth of a second: that much is no sign of anything. */
static void a_table_as_fresh_as_can_be_is_not_waited_for(void **state)
{
	assert_int_equal(kw_pause_next_us(0, false, IDLE_US, 200000), 50);
	assert_int_equal(kw_pause_next_us(50, false, IDLE_US, KW_PAUSE_BEHIND_US), 100);
}

static void a_table_far_behind_is_looked_at_less_often_moved_or_not(void **state)
{
	uint64_t behind_us = KW_PAUSE_BEHIND_US + 1000000;

	assert_int_equal(kw_pause_next_us(0, true, IDLE_US, behind_us), 1000000 / 256);
	assert_int_equal(kw_pause_next_us(0, false, IDLE_US, behind_us), 1000000 / 256);
	assert_int_equal(kw_pause_next_us(0, true, IDLE_US, UINT64_MAX), KW_PAUSE_BEHIND_MOST_US);
	assert_int_equal(kw_pause_next_us(0, false, IDLE_US, 3600000000), KW_PAUSE_BEHIND_MOST_US);
}

static void who_configured_short_pauses_gets_no_long_ones(void **state)
{
	assert_int_equal(kw_pause_next_us(0, true, 10, UINT64_MAX), 10 * KW_PAUSE_BEHIND_TIMES);
	assert_int_equal(kw_pause_next_us(0, true, 0, UINT64_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_that_flow_are_read_back_to_back),
		cmocka_unit_test(pauses_double_up_to_the_configured_one),
		cmocka_unit_test(a_table_as_fresh_as_can_be_is_not_waited_for),
		cmocka_unit_test(a_table_far_behind_is_looked_at_less_often_moved_or_not),
		cmocka_unit_test(who_configured_short_pauses_gets_no_long_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
