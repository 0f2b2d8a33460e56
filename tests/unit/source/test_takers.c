/* Flushes and SWAPDBs that the server counted: which of them were told. */
#include "feed/watch/takers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

/* INFO commandstats with so many calls. */
static struct kw_slice stats(int flushall, int flushdb, int swapdb)
{
	static char text[256];

	snprintf(text, sizeof text,
		"cmdstat_flushall:calls=%d,usec=1\r\ncmdstat_flushdb:calls=%d,usec=1\r\n"
		"cmdstat_swapdb:calls=%d,usec=1\r\n",
		flushall, flushdb, swapdb);
	return kw_slice_text(text);
}

static struct kw_takers greeted(struct kw_slice commandstats)
{
	struct kw_takers takers = {0};

	kw_takers_init(&takers);
	assert_false(kw_takers_greet(&takers, commandstats, 10));
	return takers;
}

static uint64_t flushes(const struct kw_takers *takers)
{
	return kw_takers_untold(takers, KW_TAKER_FLUSHALL) +
	       kw_takers_untold(takers, KW_TAKER_FLUSHDB);
}

static void what_was_called_between_two_connections_is_found(void **state)
{
	struct kw_takers takers = greeted(stats(3, 4, 5));

	assert_int_equal(flushes(&takers), 0);
	assert_false(kw_takers_greet(&takers, stats(3, 4, 5), 20));
	assert_true(kw_takers_greet(&takers, stats(3, 5, 5), 30));
	assert_true(kw_takers_greet(&takers, stats(3, 5, 6), 40));
	assert_int_equal(flushes(&takers), 0);
}

static void a_flush_is_told_by_the_feed_and_swapdb_by_the_look(void **state)
{
	struct kw_takers takers = greeted(stats(0, 0, 0));

	kw_takers_look(&takers, stats(1, 1, 1), UINT64_MAX, 20);
	assert_int_equal(flushes(&takers), 2);
	assert_int_equal(kw_takers_untold(&takers, KW_TAKER_SWAPDB), 0);
	assert_int_equal(takers.even_us, 10);
	kw_takers_told(&takers);
	assert_int_equal(flushes(&takers), 0);
	assert_int_equal(takers.even_us, 20);
}

static void counters_that_fell_begin_anew(void **state)
{
	struct kw_takers takers = greeted(stats(7, 7, 0));

	kw_takers_see(&takers, stats(0, 2, 0), 20);
	assert_int_equal(kw_takers_untold(&takers, KW_TAKER_FLUSHALL), 0);
	assert_int_equal(kw_takers_untold(&takers, KW_TAKER_FLUSHDB), 2);
}

/* Counted by one look, and told beyond the offset of the next one. */
static void a_stream_tells_flushes_by_its_offset(void **state)
{
	struct kw_takers takers = greeted(stats(0, 0, 0));

	kw_takers_look(&takers, stats(0, 1, 0), 100, 20);
	kw_takers_told_up_to(&takers, 500);
	assert_int_equal(flushes(&takers), 1); /* what was counted before offset 100 was none */
	kw_takers_look(&takers, stats(0, 2, 0), 600, 30);
	kw_takers_told_up_to(&takers, 599);
	assert_int_equal(flushes(&takers), 2);
	kw_takers_look(&takers, stats(0, 3, 0), 900, 40); /* 600 stays until it was passed */
	kw_takers_told_up_to(&takers, 600);
	assert_int_equal(flushes(&takers), 2);
	assert_int_equal(takers.even_us, 20);
}

static void another_connection_forgets_the_offset(void **state)
{
	struct kw_takers takers = greeted(stats(0, 0, 0));

	kw_takers_look(&takers, stats(0, 1, 0), 100, 20);
	kw_takers_greet(&takers, stats(0, 1, 0), 30);
	kw_takers_see(&takers, stats(0, 2, 0), 40);
	kw_takers_told_up_to(&takers, UINT64_MAX - 1);
	assert_int_equal(flushes(&takers), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_called_between_two_connections_is_found),
		cmocka_unit_test(a_flush_is_told_by_the_feed_and_swapdb_by_the_look),
		cmocka_unit_test(counters_that_fell_begin_anew),
		cmocka_unit_test(a_stream_tells_flushes_by_its_offset),
		cmocka_unit_test(another_connection_forgets_the_offset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
