/* Calls of silent commands between two looks at INFO commandstats. */
#include "feed/watch/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

static struct kw_slice stats(int infos, int swapdb, int xack, int vadd, int debug)
{
	static char text[256];

	snprintf(text, sizeof text,
		"cmdstat_info:calls=%d,usec=1\r\ncmdstat_swapdb:calls=%d,usec=1\r\n"
		"cmdstat_xack:calls=%d,usec=1\r\ncmdstat_VADD:calls=%d,usec=1\r\n"
		"cmdstat_debug:calls=%d,usec=1\r\n",
		infos, swapdb, xack, vadd, debug);
	return kw_slice_text(text);
}

/* The server counted so much before the first look, which finds nothing. */
static struct kw_calls first_look(void)
{
	struct kw_calls calls = {0};
	struct kw_calls_found found =
		kw_calls_look(&calls, stats(1, 5, 5, 5, 5), true, 0, true, 10);

	assert_true(found.first && !found.any && !found.reset && !found.swapped);
	return calls;
}

static void what_was_called_between_two_looks_is_found(void **state)
{
	struct kw_calls calls = first_look();
	struct kw_calls_found found;

	found = kw_calls_look(&calls, stats(2, 5, 5, 5, 5), false, 1, true, 20);
	assert_true(!found.first && !found.any && !found.reset);
	found = kw_calls_look(&calls, stats(3, 5, 6, 5, 5), false, 2, true, 30);
	assert_true(found.any && found.kinds[KW_SILENT_STREAM] && !found.kinds[KW_SILENT_VECTOR]);
	found = kw_calls_look(&calls, stats(4, 6, 6, 6, 5), false, 3, true, 40);
	assert_true(found.swapped && !found.may_have_been && found.kinds[KW_SILENT_VECTOR]);
	assert_false(found.kinds[KW_SILENT_STREAM]);
}

/* PFDEBUG GETREG makes a sparse HyperLogLog dense. */
static void debugging_a_hyperloglog_changes_it(void **state)
{
	const struct kw_slice once = kw_slice_text("cmdstat_info:calls=2,usec=1\r\n"
						   "cmdstat_pfdebug:calls=1,usec=1\r\n");
	struct kw_calls calls = first_look();
	struct kw_calls_found found = kw_calls_look(&calls, once, false, 1, true, 20);

	assert_true(found.kinds[KW_SILENT_HLL]);
}

static void a_server_without_vector_sets_is_not_searched_for_them(void **state)
{
	struct kw_calls calls = first_look();

	assert_false(kw_calls_look(&calls, stats(2, 5, 5, 6, 5), false, 1, false, 20)
			     .kinds[KW_SILENT_VECTOR]);
}

/* Fewer calls of INFO than we asked. */
static void wiped_counters_may_hide_a_call(void **state)
{
	struct kw_calls calls = first_look();
	struct kw_calls_found found =
		kw_calls_look(&calls, stats(1, 0, 0, 0, 0), false, 1, true, 20);

	assert_true(found.reset && found.any && found.may_have_been && !found.swapped);
	assert_true(found.kinds[KW_SILENT_STREAM]);
}

static void debug_is_remembered_for_a_while(void **state)
{
	struct kw_calls calls = first_look();

	assert_false(kw_calls_debugged(&calls, stats(2, 5, 5, 5, 5), 100, 20));
	assert_true(kw_calls_debugged(&calls, stats(2, 5, 5, 5, 6), 100, 20));
	kw_calls_look(&calls, stats(2, 5, 5, 5, 6), false, 1, true, 30);
	assert_true(kw_calls_debugged(&calls, stats(3, 5, 5, 5, 6), 100, 129));
	assert_false(kw_calls_debugged(&calls, stats(3, 5, 5, 5, 6), 100, 130));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_called_between_two_looks_is_found),
		cmocka_unit_test(debugging_a_hyperloglog_changes_it),
		cmocka_unit_test(a_server_without_vector_sets_is_not_searched_for_them),
		cmocka_unit_test(wiped_counters_may_hide_a_call),
		cmocka_unit_test(debug_is_remembered_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
