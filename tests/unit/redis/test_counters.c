/* How many since the last look: by table, with resets and calls of our own between. */
#include "redis/counters.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#define ALL UINT64_MAX

/* One look at a counter that was `last`, with `resets` more resets known than then. */
static void a_look_tells_what_others_did(void **state)
{
	static const struct {
		const char *name;
		uint64_t last, now;
		uint64_t resets;
		struct kw_counter_ours ours;
		enum kw_counter_found found;
		uint64_t others;
	} cases[] = {
		{"nothing happened", 7, 7, 0, {0, 0}, KW_COUNTER_SAME, 0},
		{"nothing ever happened", 0, 0, 0, {0, 0}, KW_COUNTER_SAME, 0},
		{"others called", 7, 9, 0, {0, 0}, KW_COUNTER_MORE, 2},
		{"it fell", 7, 3, 0, {0, 0}, KW_COUNTER_ANEW, 3},
		{"it fell to none", 7, 0, 0, {0, 0}, KW_COUNTER_ANEW, 0},
		{"reset, and came as far", 7, 7, 1, {0, 0}, KW_COUNTER_ANEW, 7},
		{"reset, and came further", 7, 9, 1, {0, 0}, KW_COUNTER_ANEW, 9},
		{"reset before any call", 0, 0, 2, {0, 0}, KW_COUNTER_ANEW, 0},

		{"our own", 7, 9, 0, {2, 2}, KW_COUNTER_SAME, 0},
		{"our own and others'", 7, 12, 0, {2, 2}, KW_COUNTER_MORE, 3},
		{"our own are missing", 7, 8, 0, {2, 2}, KW_COUNTER_ANEW, 6},
		{"our own, after a reset", 7, 2, 1, {2, 2}, KW_COUNTER_ANEW, 0},
		{"our own before a reset", 7, 1, 1, {2, 2}, KW_COUNTER_ANEW, 0},
		{"our own and others', after a reset", 7, 5, 1, {2, 2}, KW_COUNTER_ANEW, 3},

		{"ours on their way, not counted yet", 7, 7, 0, {0, 3}, KW_COUNTER_SAME, 0},
		{"ours on their way, counted", 7, 10, 0, {0, 3}, KW_COUNTER_SAME, 0},
		{"more than ours on their way", 7, 11, 0, {0, 3}, KW_COUNTER_MORE, 1},
		{"fewer than was acknowledged", 7, 8, 0, {2, 5}, KW_COUNTER_ANEW, 3},
		{"reset, ours on their way", 7, 3, 1, {0, 3}, KW_COUNTER_ANEW, 0},
		{"reset, more than ours", 7, 4, 1, {0, 3}, KW_COUNTER_ANEW, 1},

		{"as large as numbers are", ALL - 1, ALL, 0, {1, 1}, KW_COUNTER_SAME, 0},
		{"it cannot have grown so much", ALL - 1, ALL, 0, {2, 2}, KW_COUNTER_ANEW, ALL - 2},
		{"a server that tells nonsense", ALL, 0, 0, {ALL, ALL}, KW_COUNTER_ANEW, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_counter counter;
		enum kw_counter_found found;

		kw_counter_begin(&counter, cases[i].last, 5);
		found = kw_counter_look(&counter, cases[i].now, 5 + cases[i].resets, cases[i].ours);
		if (found != cases[i].found || counter.others != cases[i].others)
			fail_msg("%s: found %d, others %llu", cases[i].name, found,
				(unsigned long long)counter.others);
		assert_int_equal(counter.last, cases[i].now);
		assert_int_equal(counter.resets, 5 + cases[i].resets);
	}
}

static void the_first_look_compares_with_nothing(void **state)
{
	struct kw_counter counter = {0};

	assert_int_equal(
		kw_counter_look(&counter, 42, 3, (struct kw_counter_ours){1, 1}), KW_COUNTER_FIRST);
	assert_int_equal(counter.others, 0);
	assert_int_equal(kw_counter_others(&counter, 44, 3), 2);
	assert_int_equal(kw_counter_others(&counter, 44, 3), 0);
}

static void another_server_begins_anew(void **state)
{
	struct kw_counter counter = {0};

	kw_counter_others(&counter, 1000, 0);
	kw_counter_begin(&counter, 10, 4);
	assert_int_equal(counter.others, 0);
	assert_int_equal(kw_counter_others(&counter, 11, 4), 1);
}

/* One INFO of ours in each look, as the agent's; the server counts it after answering. */
static void our_own_calls_show_a_reset(void **state)
{
	static const struct {
		uint64_t infos, ours, resets;
	} looks[] = {
		{0, 1, 0}, /* the first */
		{1, 1, 0},
		{2, 1, 0},
		{9, 1, 0}, /* others ask, too */
		{9, 1, 1}, /* as many as before, although we asked once */
		{0, 1, 2},
		{1, 1, 2},
		{5, 4, 2}, /* four of ours in one look */
		{8, 4, 3},
	};
	struct kw_counter infos = {0};
	uint64_t resets = 0;

	for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
		resets = kw_counter_resets(&infos, looks[i].infos, resets, looks[i].ours);
		assert_int_equal(resets, looks[i].resets);
	}
}

/* The sum of all looks is what others did, whatever resets did between two of them. */
static void nothing_is_counted_twice(void **state)
{
	struct kw_counter counter = {0};
	uint64_t value = 0, resets = 0, made = 0, found = 0, dice = 12345;

	kw_counter_begin(&counter, 0, 0);
	for (int i = 0; i < 10000; i++) {
		uint64_t before;

		dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407u;
		before = dice >> 60 & 3;
		if ((dice >> 40) % 7 == 0) {
			/* Looked at just before the reset: nothing is lost. */
			found += kw_counter_others(&counter, value, resets);
			value = 0;
			resets++;
		}
		value += before;
		made += before;
		found += kw_counter_others(&counter, value, resets);
	}
	assert_int_equal(found, made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_look_tells_what_others_did),
		cmocka_unit_test(the_first_look_compares_with_nothing),
		cmocka_unit_test(another_server_begins_anew),
		cmocka_unit_test(our_own_calls_show_a_reset),
		cmocka_unit_test(nothing_is_counted_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
