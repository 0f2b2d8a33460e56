/* How often a primary may be made to fork. */
#include "feed/stream/forks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define DAY_US UINT64_C(86400000000)

/* Attached whenever that is allowed, and cut at once: a server whose backlog is too small. */
static uint32_t forks_of_a_day(uint64_t reach)
{
	struct kw_forks forks = {0};
	uint32_t count = 0;

	for (uint64_t now_us = 1; now_us < DAY_US; now_us += 1000000) {
		if (kw_forks_wait_us(&forks, reach, now_us) > 0)
			continue;
		kw_forks_note(&forks, now_us);
		kw_forks_followed(&forks, 1000000);
		count++;
	}
	return count;
}

static void forks_are_rare_however_often_the_stream_is_cut(void **state)
{
	assert_in_range(forks_of_a_day(0), KW_FORKS_FREE, 40);
	/* Also where the backlog seems to reach far back, and does not. */
	assert_in_range(forks_of_a_day(KW_FORKS_REACH), KW_FORKS_FREE, 40);
	assert_in_range(forks_of_a_day(KW_FORKS_REACH << 10), KW_FORKS_FREE, 60);
}

static void the_first_ones_are_free(void **state)
{
	struct kw_forks forks = {0};

	for (int i = 0; i < KW_FORKS_FREE; i++) {
		assert_int_equal(kw_forks_wait_us(&forks, 0, 1), 0);
		kw_forks_note(&forks, 1);
	}
	assert_int_equal(kw_forks_wait_us(&forks, 0, 1), KW_FORKS_PAUSE_US);
	assert_int_equal(kw_forks_wait_us(&forks, 0, 1 + KW_FORKS_PAUSE_US), 0);
}

static void a_stream_that_can_go_on_need_not_wait(void **state)
{
	struct kw_forks forks = {0};

	for (int i = 0; i < KW_FORKS_FREE; i++)
		kw_forks_note(&forks, 1);
	assert_int_not_equal(kw_forks_wait_us(&forks, KW_FORKS_REACH - 1, 1), 0);
	assert_int_equal(kw_forks_wait_us(&forks, KW_FORKS_REACH, 1), 0);
	kw_forks_note(&forks, 1); /* it did not go on */
	assert_int_not_equal(kw_forks_wait_us(&forks, KW_FORKS_REACH, 1), 0);
	assert_int_equal(kw_forks_wait_us(&forks, 2 * KW_FORKS_REACH, 1), 0);
}

static void a_stream_that_was_followed_for_long_begins_anew(void **state)
{
	struct kw_forks forks = {0};

	for (int i = 0; i < 10; i++)
		kw_forks_note(&forks, 1);
	kw_forks_followed(&forks, KW_FORKS_WELL_US - 1);
	assert_int_not_equal(kw_forks_wait_us(&forks, 0, 1), 0);
	kw_forks_followed(&forks, KW_FORKS_WELL_US);
	assert_int_equal(kw_forks_wait_us(&forks, 0, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forks_are_rare_however_often_the_stream_is_cut),
		cmocka_unit_test(the_first_ones_are_free),
		cmocka_unit_test(a_stream_that_can_go_on_need_not_wait),
		cmocka_unit_test(a_stream_that_was_followed_for_long_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
