/* The plan of a switch-over, case by case: where it begins, what stops it, what a failure means. */
#include "ctl/switchover/plan.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A pair of which everything can be done: the old primary has term 4. */
static struct kw_switchover_facts healthy(void)
{
	return (struct kw_switchover_facts){
		.from = {.reached = true,
			.by_operator = true,
			.saves = true,
			.live = true,
			.primary = true,
			.term = 4,
			.last_term = 4,
			.identity = "aaaa",
			.run_id = "run-of-old",
			.why = ""},
		.to = {.reached = true,
			.by_operator = true,
			.saves = true,
			.identity = "bbbb",
			.run_id = "run-of-new",
			.why = ""},
		.agent = {.reached = true,
			.warm = true,
			.mode = KW_SWITCHOVER_COMMANDS,
			.term = 4,
			.proven_s = 60,
			.follows = "aaaa",
			.run_id = "run-of-new",
			.why = ""},
		.others = {{.reached = true,
				   .listed = true,
				   .follows = "aaaa",
				   .run_id = "",
				   .why = ""},
			{.reached = true,
				.saves = true,
				.follows = "aaaa",
				.run_id = "",
				.why = ""}},
		.other_count = 2,
		.addressed = true,
		.audit_age = -1,
	};
}

static const struct kw_switchover_check *first_stop(
	const struct kw_switchover_facts *facts, struct kw_switchover_start *start)
{
	static struct kw_switchover_check checks[KW_SWITCHOVER_CHECKS];

	kw_switchover_begin(facts, start);
	return kw_switchover_stop(checks, kw_switchover_check(facts, start, checks));
}

static void test_a_healthy_pair_begins_at_preflight(void **state)
{
	struct kw_switchover_facts facts = healthy();
	struct kw_switchover_start start;

	(void)state;
	assert_null(first_stop(&facts, &start));
	assert_int_equal(start.state, KW_SWITCHOVER_PREFLIGHT);
	assert_false(start.give_back);
	assert_int_equal(start.from, 4);
	assert_int_equal(start.to, 5);
}

/* The terms tell how far the run before came. */
static void test_the_terms_tell_where_a_run_begins(void **state)
{
	static const struct {
		uint64_t old, old_last, new, agent_term;
		bool agent, replica, promoted;
		enum kw_switchover_state begins;
		bool give_back;
		uint64_t to;
	} cases[] = {
		{4, 4, 0, 4, true, false, false, KW_SWITCHOVER_PREFLIGHT, false, 5},
		/* The agent knows a higher term: the new one is above it. */
		{4, 4, 0, 7, true, false, false, KW_SWITCHOVER_PREFLIGHT, false, 8},
		/* Deposed; the agent is still there. */
		{0, 4, 0, 4, true, false, false, KW_SWITCHOVER_PREFLIGHT, true, 5},
		{0, 4, 0, 4, true, true, false, KW_SWITCHOVER_PREFLIGHT, true, 5},
		/* … and the old proxy started anew since then: the cursor knows. */
		{0, 0, 0, 4, true, false, false, KW_SWITCHOVER_PREFLIGHT, true, 5},
		/* The agent let its server go. */
		{0, 4, 0, 0, false, false, false, KW_SWITCHOVER_PROMOTED, false, 5},
		{0, 4, 0, 4, true, true, true, KW_SWITCHOVER_PROMOTED, false, 5},
		/* In mode commands its server was a primary all the time: that proves nothing. */
		{0, 4, 0, 4, true, false, true, KW_SWITCHOVER_PREFLIGHT, true, 5},
		/* Nobody knows the last term. */
		{0, 0, 0, 0, false, false, false, KW_SWITCHOVER_REFUSED, false, 1},
		/* Confirmed: only the agents are left. */
		{0, 4, 5, 4, true, false, false, KW_SWITCHOVER_CONFIRMED, false, 5},
		{0, 0, 5, 0, false, false, true, KW_SWITCHOVER_CONFIRMED, false, 5},
		/* Two primaries. */
		{4, 4, 5, 4, true, false, true, KW_SWITCHOVER_REFUSED, false, 6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_switchover_facts facts = healthy();
		struct kw_switchover_start start;

		facts.from.term = cases[i].old;
		facts.from.last_term = cases[i].old_last;
		facts.to.term = cases[i].new;
		facts.to.primary = cases[i].promoted;
		facts.agent.reached = cases[i].agent;
		facts.agent.term = cases[i].agent_term;
		if (cases[i].replica)
			facts.agent.mode = KW_SWITCHOVER_REPLICA;
		kw_switchover_begin(&facts, &start);
		if (start.state != cases[i].begins || start.give_back != cases[i].give_back ||
			start.to != cases[i].to)
			fail_msg("case %zu: %s, give back %d, term %d", i,
				kw_switchover_name(start.state), start.give_back, (int)start.to);
		assert_int_equal(start.state == KW_SWITCHOVER_REFUSED, start.why[0] != '\0');
	}
}

static void test_a_proxy_that_is_away(void **state)
{
	struct kw_switchover_facts facts = healthy();
	struct kw_switchover_start start;

	(void)state;
	facts.from =
		(struct kw_switchover_proxy){.identity = "", .run_id = "", .why = "no such socket"};
	kw_switchover_begin(&facts, &start);
	assert_int_equal(start.state, KW_SWITCHOVER_REFUSED);
	assert_non_null(strstr(start.why, "no such socket"));
	/* With the new primary confirmed, the old one is not needed any more. */
	facts.to.term = 5;
	assert_null(first_stop(&facts, &start));
	assert_int_equal(start.state, KW_SWITCHOVER_CONFIRMED);
	facts = healthy();
	facts.to.reached = false;
	kw_switchover_begin(&facts, &start);
	assert_int_equal(start.state, KW_SWITCHOVER_REFUSED);
}

/* Each thing that stops it has a check of its own, and the sentence says the remedy. */
static void test_what_stops_it(void **state)
{
	static const char *const words[] = {"authority.by of the old", "authority.by of the new",
		"the old proxy cannot keep", "the new proxy cannot keep",
		"the old proxy is not live", "is not the one that the new proxy follows",
		"does not follow the old proxy", "`discard`", "is not warm", "last 10 s",
		"it is away", "--proxy ADDRESS", "cannot save another", "another data set"};

	(void)state;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		struct kw_switchover_facts facts = healthy();
		const struct kw_switchover_check *stop;
		struct kw_switchover_start start;

		switch (i) {
		case 0:
			facts.from.by_operator = false;
			break;
		case 1:
			facts.to.by_operator = false;
			break;
		case 2:
			facts.from.saves = false;
			break;
		case 3:
			facts.to.saves = false;
			break;
		case 4:
			facts.from.live = false;
			break;
		case 5:
			facts.agent.run_id = "another run";
			break;
		case 6:
			facts.agent.follows = "bbbb";
			break;
		case 7:
			facts.agent.mode = KW_SWITCHOVER_DISCARD;
			break;
		case 8:
			facts.agent.warm = false;
			break;
		case 9:
			facts.audit_age = 10;
			break;
		case 10:
			facts.others[0].reached = false;
			facts.others[0].why = "it is away";
			break;
		case 11:
			facts.addressed = false;
			break;
		case 12:
			facts.others[1].saves = false;
			break;
		case 13:
			facts.others[1].follows = "cccc";
			break;
		}
		stop = first_stop(&facts, &start);
		if (!stop || !strstr(stop->why, words[i]))
			fail_msg("%s: %s", words[i], stop ? stop->why : "nothing stops it");
		/* A busy moment explains these two. */
		assert_int_equal(stop->passing, i == 4 || i == 8);
	}
}

/* Once the old primary is deposed nothing is undone: the checks are for what is left to do. */
static void test_only_what_is_left_is_checked(void **state)
{
	struct kw_switchover_facts facts = healthy();
	struct kw_switchover_start start;

	(void)state;
	facts.from.term = 0;
	facts.from.live = false;
	facts.agent =
		(struct kw_switchover_agent){.follows = "", .run_id = "", .why = "it has ended"};
	assert_null(first_stop(&facts, &start));
	assert_int_equal(start.state, KW_SWITCHOVER_PROMOTED);
	/* What is given back first is not live, and its agent is not warm. */
	facts = healthy();
	facts.from.term = 0;
	facts.from.live = facts.agent.warm = false;
	facts.audit_age = 10;
	assert_null(first_stop(&facts, &start));
	assert_true(start.give_back);
}

static void test_each_step_that_fails(void **state)
{
	(void)state;
	for (int at = KW_SWITCHOVER_PREFLIGHT; at < KW_SWITCHOVER_RETARGETED; at++) {
		const struct kw_switchover_start start = {
			.state = KW_SWITCHOVER_PREFLIGHT, .from = 4, .to = 5};
		enum kw_switchover_state reached = (enum kw_switchover_state)at;
		bool deposed = reached >= KW_SWITCHOVER_DEPOSED;
		const struct kw_switchover_step *step =
			kw_switchover_step((enum kw_switchover_state)(at + 1));
		struct kw_sm sm;
		char text[KW_ERROR_TEXT];

		assert_int_equal(kw_switchover_failed(reached),
			deposed ? KW_SWITCHOVER_STOPPED : KW_SWITCHOVER_UNDONE);
		assert_true(*step->asks && *step->stops);
		/* The step to DEPOSED can fail in the middle, so it is undone as well. */
		assert_int_equal(*step->undo == '\0', deposed);
		kw_switchover_by_hand(reached, &start, text, sizeof text);
		assert_int_equal(strstr(text, "again") != NULL, deposed);
		/* The machine takes each of these ends. */
		kw_switchover_init(&sm, &start);
		for (int step_to = 1; step_to <= at; step_to++)
			kw_sm_move(&sm, step_to, "");
		kw_sm_move(&sm, (int)kw_switchover_failed(reached), "");
		assert_true(kw_sm_failed(&sm) && kw_sm_ended(&sm));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_healthy_pair_begins_at_preflight),
		cmocka_unit_test(test_the_terms_tell_where_a_run_begins),
		cmocka_unit_test(test_a_proxy_that_is_away),
		cmocka_unit_test(test_what_stops_it),
		cmocka_unit_test(test_only_what_is_left_is_checked),
		cmocka_unit_test(test_each_step_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
