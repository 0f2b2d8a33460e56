/* Which client of the control socket gives way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/rpc/crowd.h"

#define NOW UINT64_C(10000000)
#define OLD UINT64_C(1000000)
#define YOUNG (NOW - 1000)

static int victim(const struct kw_crowd_client *clients, size_t count, bool operator)
{
	return kw_crowd_victim(clients, count, operator, NOW);
}

static void the_one_that_is_idle_longest_goes(void **state)
{
	const struct kw_crowd_client clients[] = {
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 3},
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 1},
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 2},
	};

	assert_int_equal(victim(clients, 3, false), 1);
	assert_int_equal(victim(clients, 3, true), 1);
	assert_int_equal(victim(clients, 0, true), -1);
}

static void it_is_one_of_the_user_with_most_connections(void **state)
{
	const struct kw_crowd_client clients[] = {
		{.uid = 2, .since_us = OLD, .heard_us = OLD},
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 8},
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 9},
	};

	assert_int_equal(victim(clients, 3, false), 1);
}

static void who_is_busy_new_or_subscribed_goes_last(void **state)
{
	const struct kw_crowd_client busy[] = {
		{.uid = 1, .since_us = OLD, .heard_us = OLD, .calls = true},
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 9},
	};
	const struct kw_crowd_client young[] = {
		{.uid = 1, .since_us = YOUNG, .heard_us = YOUNG},
		{.uid = 1, .since_us = OLD, .heard_us = NOW},
	};
	const struct kw_crowd_client subscribed[] = {
		{.uid = 1, .since_us = OLD, .heard_us = OLD, .subscribed = true},
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 9},
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 1, .subscribed = true},
	};

	assert_int_equal(victim(busy, 2, false), 1);
	assert_int_equal(victim(young, 2, false), 1);
	assert_int_equal(victim(subscribed, 3, false), 1);
	/* All of them are subscribed: then one of these. */
	assert_int_equal(victim(subscribed, 1, false), 0);
}

static void an_operator_always_gets_in(void **state)
{
	const struct kw_crowd_client clients[] = {
		{.uid = 1, .since_us = OLD, .heard_us = OLD + 1, .calls = true},
		{.uid = 1, .since_us = YOUNG, .heard_us = YOUNG},
		{.uid = 2, .since_us = OLD, .heard_us = OLD, .calls = true},
	};

	assert_int_equal(victim(clients, 3, false), -1);
	assert_int_equal(victim(clients, 3, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_one_that_is_idle_longest_goes),
		cmocka_unit_test(it_is_one_of_the_user_with_most_connections),
		cmocka_unit_test(who_is_busy_new_or_subscribed_goes_last),
		cmocka_unit_test(an_operator_always_gets_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
