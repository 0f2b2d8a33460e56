/* What came from a primary since nobody confirms it, case by case. */
#include "source/late.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void what_came_since_the_mandate_was_lost(void **state)
{
	static const struct {
		struct kw_late_counts lost, now;
		uint64_t events, losses;
	} cases[] = {
		{{7, 1, true}, {7, 1, true}, 0, 0},
		{{7, 1, true}, {9, 1, true}, 2, 0},
		/* The connection is away, or was: what came before that is not forgotten. */
		{{7, 1, true}, {9, 1, false}, 2, 1},
		{{7, 1, true}, {9, 2, true}, 2, 1},
		{{7, 1, true}, {9, 4, true}, 2, 3},
		{{7, 3, true}, {7, 3, true}, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_late late = {0};

		kw_late_begin(&late, &cases[i].lost);
		assert_int_equal(kw_late_events(&late, &cases[i].now), cases[i].events);
		assert_int_equal(kw_late_losses(&late, &cases[i].now), cases[i].losses);
	}
}

static void a_proxy_that_started_anew_knows_nothing(void **state)
{
	const struct kw_late_counts now = {0, 1, true};
	const struct kw_late late = {0};

	(void)state;
	assert_int_equal(kw_late_losses(&late, &now), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_came_since_the_mandate_was_lost),
		cmocka_unit_test(a_proxy_that_started_anew_knows_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
