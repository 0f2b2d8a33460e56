/* A whole agent before a table that has a mandate, loses it, and comes to another term. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DOMAIN 0x5e471e1

static struct kw_history history_of(enum kw_mandate_state mandate, uint64_t term)
{
	return (struct kw_history){
		.standing = KW_HISTORY_TOLD,
		.replid = "1111111111111111111111111111111111111111",
		.proxy = 1,
		.proxy_name = "ours",
		.mandate = mandate,
		.term = term,
		.domain = mandate == KW_MANDATE_NONE ? 0 : DOMAIN,
		.lease_ms = mandate == KW_MANDATE_NONE ? 0 : 900,
	};
}

static void tell_history(struct stage *stage, const struct kw_history *history)
{
	enum kw_mandate_state mandate = history->mandate;

	kw_table_set_history(stage->proxy.table, history);
	stage->proxy.facts.source_state =
		mandate == KW_MANDATE_CONFIRMED || mandate == KW_MANDATE_NONE
			? KW_SOURCE_LIVE
			: KW_SOURCE_UNCONFIRMED;
	test_proxy_publish(&stage->proxy);
}

/* The proxy publishes this mandate from now on. */
static void tell(struct stage *stage, enum kw_mandate_state mandate, uint64_t term)
{
	const struct kw_history history = history_of(mandate, term);

	tell_history(stage, &history);
}

/* A warm agent, whose table is confirmed for this term. */
static void open_confirmed(struct stage *stage, uint64_t term)
{
	stage_open(stage, "commands");
	kw_lease_owner_set(&stage->options.local.lease, 7, "stage", "host");
	tell(stage, KW_MANDATE_CONFIRMED, term);
	stage_fill(stage, 0, 1000);
	stage_start_agent(stage);
	stage_wait_warm(stage);
}

static bool cursor_says(struct stage *stage, uint64_t term)
{
	char text[64];

	snprintf(text, sizeof text, " term=%d@%016x ", (int)term, DOMAIN);
	return strstr(stage_cli(stage, "function list withcode"), text) != NULL;
}

/* Also term 0: Sentinel begins there. */
static void the_claim_says_the_term(void **state)
{
	struct stage stage;

	for (uint64_t term = 0; term < 7; term += 6) {
		open_confirmed(&stage, term);
		assert_true(cursor_says(&stage, term));
		assert_int_equal(stage.agent->local.term.term, term);
		assert_int_equal(stage.agent->local.term.domain, DOMAIN);
		stage_close(&stage);
	}
}

static void a_table_without_a_mandate_leaves_no_term(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 100);
	assert_null(strstr(stage_cli(&stage, "function list withcode"), "term="));
	stage_close(&stage);
}

/* What is written meanwhile might be lost in the failover: it is neither read nor called warm. */
static void a_table_that_lost_its_mandate_is_not_followed(void **state)
{
	struct stage stage;

	open_confirmed(&stage, 6);
	tell(&stage, KW_MANDATE_LOST, 6);
	test_proxy_put(&stage.proxy, 0, "late", "1");
	stage_wait_state(&stage, KW_AGENT_STALLED);
	assert_non_null(strstr(stage.agent->reason, "no longer confirmed"));
	assert_int_equal(kw_sync_phase(&stage.agent->sync), KW_SYNC_TAIL);
	assert_true(kw_sync_passed(&stage.agent->sync) != UINT64_MAX);
	test_run_ms(&stage.loop, 300);
	assert_string_equal(stage_cli(&stage, "exists late"), "0");
	/* The agent goes on from its position. */
	tell(&stage, KW_MANDATE_CONFIRMED, 6);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "exists late"), "1");
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage_close(&stage);
}

static bool is_raising(void *arg)
{
	const struct stage *stage = arg;

	return strstr(stage->agent->reason, "must say term 7") && stage->agent->sync.save.error[0];
}

static void the_cursor_says_a_term_before_its_first_record_is_applied(void **state)
{
	struct stage stage;

	open_confirmed(&stage, 6);
	stage_cli(&stage, "acl setuser default -function");
	tell(&stage, KW_MANDATE_CONFIRMED, 7);
	test_proxy_put(&stage.proxy, 0, "seventh", "1");
	test_proxy_publish(&stage.proxy);
	stage_wait(&stage, is_raising, "the cursor cannot be written");
	assert_int_equal(stage.agent->sm.state, KW_AGENT_LAGGING);
	test_run_ms(&stage.loop, 300);
	assert_string_equal(stage_cli(&stage, "exists seventh"), "0");
	stage_cli(&stage, "acl setuser default +function");
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "exists seventh"), "1");
	assert_true(cursor_says(&stage, 7));
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage_close(&stage);
}

static bool is_in_snapshot(void *arg)
{
	const struct kw_sync *sync = &((struct stage *)arg)->agent->sync;

	return kw_sync_phase(sync) == KW_SYNC_SNAPSHOT && kw_pair_progress(sync->pair)->taken > 0;
}

/* The claim of the first snapshot says the term of before: another one is begun. */
static void a_term_that_begins_in_a_snapshot_is_claimed(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	tell(&stage, KW_MANDATE_CONFIRMED, 6);
	stage_fill(&stage, 0, 100000);
	stage_start_agent(&stage);
	stage_wait(&stage, is_in_snapshot, "the snapshot");
	tell(&stage, KW_MANDATE_CONFIRMED, 7);
	stage_wait_warm(&stage);
	assert_true(cursor_says(&stage, 7));
	assert_string_equal(stage_cli(&stage, "dbsize"), "50000");
	stage_close(&stage);
}

/* Also by an agent that was started since: its cursor knows. */
static void a_deposed_table_touches_nothing_until_it_is_approved(void **state)
{
	char finding[KW_SYNC_WHY];
	struct kw_error error;
	struct stage stage;

	open_confirmed(&stage, 7);
	stage_stop_agent(&stage);
	stage_another_proxy(&stage, STAGE_EPOCH + 1, true);
	tell(&stage, KW_MANDATE_CONFIRMED, 6);
	stage_fill(&stage, 0, 1000);
	test_proxy_put(&stage.proxy, 0, "sixth", "1");
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "of term 6"));
	assert_non_null(strstr(stage.agent->reason, "have term 7"));
	test_run_ms(&stage.loop, 300);
	assert_string_equal(stage_cli(&stage, "exists sixth"), "0");
	assert_true(cursor_says(&stage, 7));
	assert_int_equal(kw_agent_approve(stage.agent, finding, &error), KW_OK);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "exists sixth"), "1");
	assert_true(cursor_says(&stage, 6));
	stage_close(&stage);
}

/* No id links the data of term 0 with those of term 2, and the proxy is another one of the list. */
static void two_failovers_from_term_0_that_were_missed_are_followed(void **state)
{
	struct kw_history second = history_of(KW_MANDATE_CONFIRMED, 2);
	struct stage stage;

	open_confirmed(&stage, 0);
	stage_stop_agent(&stage);
	stage_another_proxy(&stage, STAGE_EPOCH + 1, true);
	memset(second.replid, '3', KW_HISTORY_ID);
	memset(second.replid2, '2', KW_HISTORY_ID);
	second.second_offset = 1;
	second.proxy = 2;
	tell_history(&stage, &second);
	stage_fill(&stage, 0, 1000);
	test_proxy_put(&stage.proxy, 0, "second", "1");
	test_proxy_publish(&stage.proxy);
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_int_equal(stage.agent->cause, KW_REASON_OTHER_DATA);
	stage.agent->sync.listed = true;
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "exists second"), "1");
	assert_true(cursor_says(&stage, 2));
	stage_close(&stage);
}

static bool has_yielded(void *arg)
{
	return kw_local_is_refused(&((struct stage *)arg)->agent->local);
}

/* It let another agent have the server meanwhile, so it must claim that before it writes. */
static void an_agent_that_was_refused_says_a_higher_term_too(void **state)
{
	struct stage stage;

	open_confirmed(&stage, 6);
	tell(&stage, KW_MANDATE_CONFIRMED, 5);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	stage_wait(&stage, has_yielded, "the server is let go");
	tell(&stage, KW_MANDATE_CONFIRMED, 7);
	stage_wait_warm(&stage);
	assert_true(cursor_says(&stage, 7));
	stage_close(&stage);
}

/* The proxy was started without authority.by. A server that was deposed could be behind it. */
static void a_table_whose_proxy_asks_nobody_any_more_is_not_followed(void **state)
{
	char finding[KW_SYNC_WHY];
	struct kw_error error;
	struct stage stage;

	open_confirmed(&stage, 6);
	tell(&stage, KW_MANDATE_NONE, 0);
	test_proxy_put(&stage.proxy, 0, "late", "1");
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_int_equal(stage.agent->cause, KW_REASON_UNFENCED);
	assert_non_null(strstr(stage.agent->reason, "authority.by"));
	test_run_ms(&stage.loop, 300);
	assert_string_equal(stage_cli(&stage, "exists late"), "0");
	assert_true(cursor_says(&stage, 6));
	/* The line is back: the agent goes on from its position. */
	tell(&stage, KW_MANDATE_CONFIRMED, 6);
	stage_wait_warm(&stage);
	assert_int_equal(stage.agent->sync.snapshots, 1);

	/* Nobody shall be asked any more. A person says so once, and that lasts. */
	tell(&stage, KW_MANDATE_NONE, 0);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	stage_wait(&stage, has_yielded, "the server is let go");
	assert_int_equal(kw_agent_approve(stage.agent, finding, &error), KW_OK);
	stage_wait_warm(&stage);
	assert_int_equal(kw_brake_approved(&stage.agent->sync.brake, STAGE_EPOCH), 0);
	assert_null(strstr(stage_cli(&stage, "function list withcode"), "term="));
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage_stop_agent(&stage);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	stage_close(&stage);
}

/* It was started anew since, and knows by its cursor alone. */
static void an_agent_that_starts_refuses_it_too_until_it_is_approved(void **state)
{
	char finding[KW_SYNC_WHY];
	struct kw_error error;
	struct stage stage;

	open_confirmed(&stage, 0);
	stage_stop_agent(&stage);
	stage_another_proxy(&stage, STAGE_EPOCH + 1, true);
	tell(&stage, KW_MANDATE_NONE, 0);
	stage_fill(&stage, 0, 1000);
	test_proxy_put(&stage.proxy, 0, "late", "1");
	test_proxy_publish(&stage.proxy);
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_int_equal(stage.agent->cause, KW_REASON_UNFENCED);
	test_run_ms(&stage.loop, 300);
	assert_string_equal(stage_cli(&stage, "exists late"), "0");
	assert_int_equal(kw_agent_approve(stage.agent, finding, &error), KW_OK);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "exists late"), "1");
	assert_null(strstr(stage_cli(&stage, "function list withcode"), "term="));
	stage_close(&stage);
}

/* A proxy that is stopped cannot say that its mandate is over. Others have two seconds. */
static void silence_ends_warm_sooner_with_a_mandate(void **state)
{
	struct stage stage;
	uint64_t heard_us;

	for (int with = 0; with < 2; with++) {
		stage_open(&stage, "commands");
		if (with)
			tell(&stage, KW_MANDATE_CONFIRMED, 6);
		stage_start_agent(&stage);
		stage_wait_warm(&stage);
		heard_us = stage.agent->follow.heartbeat_us;
		if (heard_us < stage.agent->sync.progress.equal_us)
			heard_us = stage.agent->sync.progress.equal_us;
		kw_agent_evaluate(stage.agent, heard_us + 1000000 + 1);
		assert_int_equal(stage.agent->sm.state, with ? KW_AGENT_STALLED : KW_AGENT_LAGGING);
		/* The limit is warm.lag_ms, or 200 ms if that is less. */
		kw_agent_set_warm_lag(stage.agent, 1);
		heard_us = stage.agent->follow.heartbeat_begun_us;
		kw_agent_evaluate(stage.agent, heard_us + 200000);
		assert_int_not_equal(stage.agent->sm.state, KW_AGENT_STALLED);
		stage_close(&stage);
	}
}

/* Nor does it make silence last longer than it does without one. */
static void a_long_warm_lag_hides_no_proxy_that_hangs(void **state)
{
	struct stage stage;

	for (int with = 0; with < 2; with++) {
		stage_open(&stage, "commands");
		if (with)
			tell(&stage, KW_MANDATE_CONFIRMED, 6);
		stage_start_agent(&stage);
		stage_wait_warm(&stage);
		kw_agent_set_warm_lag(stage.agent, 30000);
		kw_agent_evaluate(stage.agent, stage.agent->follow.heartbeat_begun_us + 1900000);
		assert_int_equal(stage.agent->sm.state, KW_AGENT_WARM);
		kw_agent_evaluate(stage.agent, stage.agent->follow.heartbeat_us + 2000001);
		assert_int_equal(stage.agent->sm.state, KW_AGENT_STALLED);
		assert_int_equal(stage.agent->cause, KW_REASON_PROXY_SILENT);
		stage_close(&stage);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_claim_says_the_term),
		cmocka_unit_test(a_table_without_a_mandate_leaves_no_term),
		cmocka_unit_test(a_table_that_lost_its_mandate_is_not_followed),
		cmocka_unit_test(the_cursor_says_a_term_before_its_first_record_is_applied),
		cmocka_unit_test(a_term_that_begins_in_a_snapshot_is_claimed),
		cmocka_unit_test(a_deposed_table_touches_nothing_until_it_is_approved),
		cmocka_unit_test(an_agent_that_was_refused_says_a_higher_term_too),
		cmocka_unit_test(two_failovers_from_term_0_that_were_missed_are_followed),
		cmocka_unit_test(a_table_whose_proxy_asks_nobody_any_more_is_not_followed),
		cmocka_unit_test(an_agent_that_starts_refuses_it_too_until_it_is_approved),
		cmocka_unit_test(silence_ends_warm_sooner_with_a_mandate),
		cmocka_unit_test(a_long_warm_lag_hides_no_proxy_that_hangs),
	};

	return cmocka_run_group_tests_name("agent-fence", tests, NULL, NULL);
}
