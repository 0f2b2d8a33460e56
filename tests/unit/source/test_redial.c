/* When a link is dialled anew that leads to another run than the one that is named. */
#include "source/redial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS UINT64_C(1000)
#define BEGIN (UINT64_C(1000000) * MS)

/* How long this finding lasts until it is dialled; 0: never, within ten minutes. */
static uint64_t wait_ms(struct kw_redial *redial, enum kw_redial_finding finding, uint64_t *now_us)
{
	for (uint64_t ms = 0; ms < 600000; ms += 100, *now_us += 100 * MS)
		if (kw_redial_judge(redial, finding, *now_us))
			return ms + 1;
	return 0;
}

static void it_is_dialled_after_some_seconds_and_then_more_rarely(void **state)
{
	static const uint64_t most[] = {4000, 8000, 16000, 32000, 60000, 60000, 60000};
	struct kw_redial redial;
	uint64_t now_us = BEGIN;

	kw_redial_init(&redial);
	for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
		uint64_t waited = wait_ms(&redial, KW_REDIAL_ELSEWHERE, &now_us);

		assert_in_range(waited, most[i] / 2 - 100, most[i] + 200);
		/* The link is down for a moment: that is no success. */
		assert_false(kw_redial_judge(&redial, KW_REDIAL_UNKNOWN, now_us));
	}
	assert_false(kw_redial_judge(&redial, KW_REDIAL_REACHED, now_us));
	assert_in_range(wait_ms(&redial, KW_REDIAL_ELSEWHERE, &now_us), 1900, 4200);
}

static void it_is_not_dialled_while_nothing_else_is_named(void **state)
{
	struct kw_redial redial;
	uint64_t now_us = BEGIN;

	kw_redial_init(&redial);
	assert_int_equal(wait_ms(&redial, KW_REDIAL_UNKNOWN, &now_us), 0);
	assert_int_equal(wait_ms(&redial, KW_REDIAL_REACHED, &now_us), 0);
}

/* A run that is named again in time: the wait begins anew the next time. */
static void what_passes_by_itself_costs_nothing(void **state)
{
	struct kw_redial redial;

	kw_redial_init(&redial);
	for (int i = 0; i < 10; i++) {
		uint64_t now_us = BEGIN + (uint64_t)i * 60000 * MS;

		assert_false(kw_redial_judge(&redial, KW_REDIAL_ELSEWHERE, now_us));
		assert_false(kw_redial_judge(&redial, KW_REDIAL_ELSEWHERE, now_us + 1900 * MS));
		assert_false(kw_redial_judge(&redial, KW_REDIAL_REACHED, now_us + 5000 * MS));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_dialled_after_some_seconds_and_then_more_rarely),
		cmocka_unit_test(it_is_not_dialled_while_nothing_else_is_named),
		cmocka_unit_test(what_passes_by_itself_costs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
