/* Did others flush? The server's count, our own flushes, and counts that begin anew. */
#include "local/flushes.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* At the last look 10 were counted; since then: */
struct look_case {
	const char *what;
	uint64_t acknowledged, late; /* ours, before INFO was sent, and until its answer came */
	uint64_t sent, unsure;       /* ours, when the answer came */
	uint64_t resets;
	uint64_t counted; /* by the answer */
	uint64_t keys;    /* in database 0; 100 before */
	bool others;
	uint64_t accounted; /* after it */
};

static const struct look_case look_cases[] = {
	{"nothing", 0, 0, 0, 0, 0, 10, 100, false, 10},
	{"others flushed", 0, 0, 0, 0, 0, 11, 100, true, 11},
	{"one of ours", 1, 0, 0, 0, 0, 11, 0, false, 11},
	{"one of ours, and one of others", 1, 0, 0, 0, 0, 12, 0, true, 12},
	{"ours is on the link, and counted", 0, 0, 1, 0, 0, 11, 0, false, 10},
	{"ours is on the link, and not counted", 0, 0, 1, 0, 0, 10, 100, false, 10},
	{"ours came between, and is counted", 0, 1, 0, 0, 0, 11, 0, false, 11},
	{"ours came between, and is not counted", 0, 1, 0, 0, 0, 10, 100, false, 11},
	{"the link ended, and ours is counted", 0, 0, 0, 1, 0, 11, 0, false, 11},
	{"the link ended, and ours is not counted", 0, 0, 0, 1, 0, 10, 100, false, 10},
	{"the link ended, and others flushed", 0, 0, 0, 1, 0, 12, 0, true, 12},
	{"reset", 0, 0, 0, 0, 1, 0, 100, false, 0},
	{"reset, and others flushed after it", 0, 0, 0, 0, 1, 1, 100, true, 1},
	{"reset, and others flushed before it", 0, 0, 0, 0, 1, 0, 0, true, 0},
	{"reset, and ours after it", 1, 0, 0, 0, 1, 1, 100, false, 1},
	{"reset, and it caught up", 0, 0, 0, 0, 1, 10, 100, true, 10},
	{"fewer, and nobody saw a reset", 0, 0, 0, 0, 0, 4, 100, true, 4},
	{"none, and nobody saw a reset", 0, 0, 0, 0, 0, 0, 100, false, 0},
};

static void each_case_finds_what_others_did(void **state)
{
	const uint64_t then[KW_KEY_COUNTS_DATABASES] = {100};
	struct kw_key_counts before;

	kw_key_counts_set(&before, then);
	for (size_t i = 0; i < sizeof look_cases / sizeof *look_cases; i++) {
		const struct look_case *c = &look_cases[i];
		struct kw_local_facts facts = {.flushes = 10};
		struct kw_flushes flushes = {0};

		kw_flushes_begin(&flushes, &facts);
		for (uint64_t n = 0; n < c->acknowledged; n++)
			kw_flushes_acknowledged(&flushes);
		kw_flushes_asked(&flushes);
		for (uint64_t n = 0; n < c->late; n++)
			kw_flushes_acknowledged(&flushes);
		kw_flushes_link_ended(&flushes, c->unsure);
		kw_flushes_sent(&flushes, c->sent);
		facts.flushes = c->counted;
		facts.resets = c->resets;
		facts.database_keys[0] = c->keys;
		if (kw_flushes_look(&flushes, &facts, &before) != c->others ||
			flushes.accounted != c->accounted)
			fail_msg("%s: %llu are accounted for", c->what,
				(unsigned long long)flushes.accounted);
		/* It is not found a second time. */
		facts.flushes = c->counted > flushes.accounted ? c->counted : flushes.accounted;
		assert_false(kw_flushes_look(&flushes, &facts, &before));
	}
}

static void only_our_own_flushes_explain_a_count(void **state)
{
	struct kw_local_facts facts = {.flushes = 10, .resets = 2};
	struct kw_flushes flushes = {0};

	kw_flushes_begin(&flushes, &facts);
	assert_true(kw_flushes_explain(&flushes, &facts));
	facts.flushes = 11;
	assert_false(kw_flushes_explain(&flushes, &facts));
	kw_flushes_sent(&flushes, 1);
	assert_true(kw_flushes_explain(&flushes, &facts));
	kw_flushes_link_ended(&flushes, 1);
	assert_true(kw_flushes_explain(&flushes, &facts));
	kw_flushes_forget_link(&flushes);
	assert_false(kw_flushes_explain(&flushes, &facts));
	facts.flushes = 9;
	assert_false(kw_flushes_explain(&flushes, &facts));
	facts.flushes = 10;
	facts.resets = 3;
	assert_false(kw_flushes_explain(&flushes, &facts));
}

/* The answer to INFO came, and then the acknowledgement, before the cursor was read. */
static void an_acknowledgement_while_a_connection_begins_is_explained(void **state)
{
	struct kw_local_facts facts = {.flushes = 10};
	struct kw_flushes flushes = {0};

	kw_flushes_begin(&flushes, &facts);
	kw_flushes_sent(&flushes, 1);
	facts.flushes = 11;
	kw_flushes_acknowledged(&flushes);
	kw_flushes_sent(&flushes, 0);
	assert_true(kw_flushes_explain(&flushes, &facts));
	kw_flushes_continue(&flushes, &facts);
	assert_int_equal(flushes.accounted, 11);
}

static void nor_does_it_break_continuity_if_info_was_answered_before_it(void **state)
{
	struct kw_local_facts facts = {.flushes = 10};
	struct kw_flushes flushes = {0};

	kw_flushes_begin(&flushes, &facts);
	kw_flushes_sent(&flushes, 1);
	kw_flushes_asked(&flushes);
	kw_flushes_acknowledged(&flushes);
	kw_flushes_sent(&flushes, 0);
	assert_true(kw_flushes_explain(&flushes, &facts));
	/* What was accounted for when INFO was sent must be in its answer. */
	kw_flushes_asked(&flushes);
	assert_false(kw_flushes_explain(&flushes, &facts));
}

static void any_number_can_be_a_count(void **state)
{
	struct kw_local_facts facts = {.flushes = UINT64_MAX};
	struct kw_flushes flushes = {0};
	const struct kw_key_counts before = {0};

	kw_flushes_begin(&flushes, &facts);
	kw_flushes_acknowledged(&flushes);
	kw_flushes_asked(&flushes);
	kw_flushes_acknowledged(&flushes);
	assert_true(kw_flushes_explain(&flushes, &facts));
	assert_false(kw_flushes_look(&flushes, &facts, &before));
	assert_int_equal(flushes.accounted, UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_finds_what_others_did),
		cmocka_unit_test(only_our_own_flushes_explain_a_count),
		cmocka_unit_test(an_acknowledgement_while_a_connection_begins_is_explained),
		cmocka_unit_test(nor_does_it_break_continuity_if_info_was_answered_before_it),
		cmocka_unit_test(any_number_can_be_a_count),
	};

	return cmocka_run_group_tests_name("agent-flushes", tests, NULL, NULL);
}
