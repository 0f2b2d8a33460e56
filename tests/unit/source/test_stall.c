/* When the replication stream is taken for dead. */
#include "feed/stream/stall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HOUR_US UINT64_C(3600000000)

static void a_silence_before_the_first_write_is_no_stall(void **state)
{
	struct kw_stall stall = {0};

	assert_false(kw_stall_look(&stall, false, 1, HOUR_US));
	assert_false(kw_stall_look(&stall, true, 1, HOUR_US + 1));
	assert_false(kw_stall_look(&stall, true, 1, HOUR_US + KW_STALL_US));
	assert_true(kw_stall_look(&stall, true, 1, HOUR_US + 1 + KW_STALL_US));
}

static void bytes_that_come_are_no_stall(void **state)
{
	struct kw_stall stall = {0};

	assert_false(kw_stall_look(&stall, true, 1, 1));
	assert_false(kw_stall_look(&stall, true, HOUR_US, HOUR_US + 1));
	assert_true(kw_stall_look(&stall, true, HOUR_US, HOUR_US + KW_STALL_US));
}

static void what_was_reached_between_begins_anew(void **state)
{
	struct kw_stall stall = {0};

	assert_false(kw_stall_look(&stall, true, 1, 1));
	assert_false(kw_stall_look(&stall, false, 1, KW_STALL_US));
	assert_false(kw_stall_look(&stall, true, 1, 1 + KW_STALL_US));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silence_before_the_first_write_is_no_stall),
		cmocka_unit_test(bytes_that_come_are_no_stall),
		cmocka_unit_test(what_was_reached_between_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
