/* A whole agent: how it fills its server, keeps it level, and goes on after a rest. */
#include "base/clock.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void an_empty_server_is_filled_and_kept_level(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 10000);
	assert_string_equal(stage_cli(&stage, "dbsize"), "5000");
	assert_string_equal(stage_cli(&stage, "-n 1 dbsize"), "5000");
	assert_true(stage.agent->sync.progress.fresh_us > 0);
	test_proxy_put(&stage.proxy, 0, "key:0", "changed");
	test_proxy_delete(&stage.proxy, 0, "key:2");
	kw_table_flush(stage.proxy.table, 1);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "get key:0"), "changed");
	assert_string_equal(stage_cli(&stage, "exists key:2"), "0");
	assert_string_equal(stage_cli(&stage, "-n 1 dbsize"), "0");
	assert_int_equal(stage.agent->sync.snapshots, 1);
	/* Our own FLUSHDB is no cause to reconcile. */
	test_run_ms(&stage.loop, 1200);
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage_close(&stage);
}

static void a_restart_resumes_and_reads_only_what_is_new(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 10000);
	stage_stop_agent(&stage);
	test_proxy_put(&stage.proxy, 0, "new", "1");
	test_proxy_delete(&stage.proxy, 0, "key:4");
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_int_equal(stage.agent->sync.snapshots, 0);
	assert_int_equal(kw_pair_progress(stage.agent->pair)->applied, 2);
	assert_string_equal(stage_cli(&stage, "exists new key:4"), "1");
	stage_close(&stage);
}

static bool has_reported(void *arg)
{
	const struct stage *stage = arg;

	return kw_follow_up(&stage->agent->follow) && stage->agent->reported.state[0];
}

/* It must keep them from the first report on, which comes before the agent has seen the table. */
static void a_proxy_that_is_back_keeps_the_deletes_that_are_not_known(void **state)
{
	char proxy[KW_PROXY_ADDRESS];
	struct kw_error error;
	struct stage stage;

	stage_open_warm(&stage, 100);
	snprintf(proxy, sizeof proxy, "%s", stage.agent->follow.proxy);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(kw_agent_retarget(stage.agent, proxy, &error), KW_OK);
		stage_wait(&stage, has_reported, "a report on the new connection");
		assert_true(stage.agent->reported.passed != UINT64_MAX);
		stage_wait_warm(&stage);
	}
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage_close(&stage);
}

static void a_cursor_in_a_key_resumes_as_well(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage.options.local.store = KW_STORE_KEY;
	stage_fill(&stage, 0, 100);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	/* A flush of the database that holds the cursor must not lose it. */
	kw_table_flush(stage.proxy.table, 0);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "1");
	stage_stop_agent(&stage);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_int_equal(stage.agent->sync.snapshots, 0);
	stage_close(&stage);
}

static void another_epoch_is_a_reconcile_that_prunes(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 1000);
	stage_stop_agent(&stage);
	stage_another_proxy(&stage, STAGE_EPOCH + 1, true);
	stage_fill(&stage, 500, 1500);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_int_equal(stage.agent->sync.pruned, 500);
	assert_string_equal(stage_cli(&stage, "exists key:498 key:500 key:1498"), "2");
	assert_string_equal(stage_cli(&stage, "dbsize"), "500");
	stage_close(&stage);
}

static bool is_waiting(void *arg)
{
	const struct stage *stage = arg;

	return kw_sync_phase(&stage->agent->sync) == KW_SYNC_WAIT && stage->agent->sync.why[0];
}

static void no_good_key_is_pruned_before_the_first_scan_is_complete(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 1000);
	stage_stop_agent(&stage);
	stage_another_proxy(&stage, STAGE_EPOCH + 1, false);
	stage_fill(&stage, 0, 100);
	stage_start_agent(&stage);
	stage_wait(&stage, is_waiting, "the agent waits");
	assert_int_equal(stage.agent->sm.state, KW_AGENT_RECONCILING);
	test_run_ms(&stage.loop, 200);
	assert_string_equal(stage_cli(&stage, "dbsize"), "500");
	assert_int_equal(stage.warm, 0);
	stage_fill(&stage, 100, 1000);
	stage.proxy.facts = (struct kw_table_facts){KW_SOURCE_LIVE, true, 10, 0};
	stage_wait_warm(&stage);
	assert_int_equal(stage.agent->sync.pruned, 0);
	assert_string_equal(stage_cli(&stage, "dbsize"), "500");
	stage_close(&stage);
}

static bool has_500(void *arg)
{
	const struct stage *stage = arg;

	return kw_pair_progress(stage->agent->pair)->applied >= 500;
}

/* An empty server may be filled while the table still is: what is missing comes with the tail. */
static void a_bootstrap_may_begin_before_the_table_is_complete(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_another_proxy(&stage, STAGE_EPOCH, false);
	stage_fill(&stage, 0, 1000);
	stage_start_agent(&stage);
	stage_wait(&stage, has_500, "what is there is applied");
	test_run_ms(&stage.loop, 100);
	assert_int_equal(stage.agent->sm.state, KW_AGENT_BOOTSTRAPPING);
	assert_string_equal(stage_cli(&stage, "dbsize"), "500");
	stage_fill(&stage, 1000, 2000);
	stage.proxy.facts = (struct kw_table_facts){KW_SOURCE_LIVE, true, 10, 0};
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "1000");
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage_close(&stage);
}

static bool has_seen_1000(void *arg)
{
	const struct stage *stage = arg;

	return stage->agent->follow.superblock.version == 1000;
}

static const struct kw_history ours = {.standing = KW_HISTORY_TOLD,
	.replid = "1111111111111111111111111111111111111111",
	.proxy = 1,
	.proxy_name = "ours"};
static const struct kw_history foreign = {.standing = KW_HISTORY_TOLD,
	.replid = "2222222222222222222222222222222222222222",
	.proxy = 2,
	.proxy_name = "foreign"};

static bool is_in_snapshot(void *arg)
{
	const struct kw_sync *sync = &((struct stage *)arg)->agent->sync;

	return kw_sync_phase(sync) == KW_SYNC_SNAPSHOT && kw_pair_progress(sync->pair)->taken > 0;
}

static bool is_level(void *arg)
{
	return kw_pair_is_level(((struct stage *)arg)->agent->pair);
}

/* The snapshot's end is refused: it is not read, and the agent goes on waiting. */
static void a_foreign_table_in_the_midst_of_a_snapshot_is_refused(void **state)
{
	struct stage stage;
	struct kw_error error;

	stage_open(&stage, "commands");
	kw_table_set_history(stage.proxy.table, &ours);
	stage_fill(&stage, 0, 100000);
	test_proxy_publish(&stage.proxy);
	stage_start_agent(&stage);
	stage_wait(&stage, is_in_snapshot, "the snapshot");
	kw_agent_pause(stage.agent, true);
	stage_wait(&stage, is_level, "what was read is applied");
	assert_true(is_in_snapshot(&stage));
	stage_another_proxy(&stage, 0x2222, true);
	kw_table_set_history(stage.proxy.table, &foreign);
	test_proxy_publish(&stage.proxy);
	assert_int_equal(kw_agent_retarget(stage.agent, stage.proxy.address, &error), KW_OK);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "another data set"));
	stage_close(&stage);
}

static void a_paused_agent_is_not_warm_and_catches_up_when_resumed(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	kw_agent_pause(stage.agent, true);
	stage_fill(&stage, 0, 1000);
	test_proxy_publish(&stage.proxy);
	stage_wait(&stage, has_seen_1000, "the head is seen all the same");
	test_run_ms(&stage.loop, 100);
	assert_string_equal(stage_cli(&stage, "dbsize"), "0");
	assert_int_equal(stage.agent->sm.state, KW_AGENT_LAGGING);
	assert_string_equal(stage.agent->reason, "paused");
	kw_agent_pause(stage.agent, false);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "500");
	stage_close(&stage);
}

struct passing {
	const struct kw_reader_stats *stats;
	uint64_t wanted;
};

static bool has_passed(void *arg)
{
	const struct passing *passing = arg;

	return passing->stats->passes >= passing->wanted;
}

/* However far apart polls are, being equal must not be known four or sixteen of them late. */
static void slow_polls_read_the_superblock_each_time(void **state)
{
	const struct kw_reader_stats *stats;
	uint64_t looks, begun_us;
	struct passing passing;
	struct stage stage;

	stage_open_warm(&stage, 100);
	stats = kw_reader_stats(stage.agent->follow.reader);
	test_run_ms(&stage.loop, 300);
	assert_true(stats->looks > 0);
	kw_follow_set_pace(&stage.agent->follow, 100000, false);
	test_run_ms(&stage.loop, 400); /* until it looks as seldom as that */
	looks = stats->looks;
	passing = (struct passing){stats, stats->passes + 2};
	begun_us = kw_clock_us();
	test_run_ms(&stage.loop, 1000);
	test_run(&stage.loop, has_passed, &passing, "two passes are over");
	assert_int_equal(stats->looks, looks);
	assert_in_range(stats->passes - passing.wanted, 0, (kw_clock_us() - begun_us) / 100000 - 1);
	stage_close(&stage);
}

static bool has_looked(void *arg)
{
	const struct passing *passing = arg;

	return passing->stats->looks >= passing->wanted;
}

/* Only a ticket ends the wait for a token, and such a proxy has none. */
static void a_token_costs_no_superblocks_with_a_proxy_without_tickets(void **state)
{
	const struct kw_reader_stats *stats;
	struct passing passing;
	struct stage stage;

	stage_open_warm(&stage, 100);
	stats = kw_reader_stats(stage.agent->follow.reader);
	assert_int_equal(stage.agent->follow.superblock.ticket, 0);
	kw_token_issue(&stage.agent->sync.tokens, kw_clock_us());
	passing = (struct passing){stats, stats->passes + 2};
	test_run(&stage.loop, has_passed, &passing, "the token is seen");
	passing.wanted = stats->looks + 50;
	test_run(&stage.loop, has_looked, &passing, "the tail alone is looked at");
	assert_true(kw_tokens_wait(&stage.agent->sync.tokens));
	stage_close(&stage);
}

static void changes_at_full_speed_end_equal_and_within_a_small_window(void **state)
{
	struct stage stage;
	char key[32], value[32];

	stage_open(&stage, "commands");
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	for (int i = 0; i < 200000; i++) {
		snprintf(key, sizeof key, "key:%d", i % 997);
		snprintf(value, sizeof value, "%d", i);
		if (i % 7 == 3)
			test_proxy_delete(&stage.proxy, 0, key);
		else
			test_proxy_put(&stage.proxy, 0, key, value);
		if (i % 50 == 0) {
			test_proxy_publish(&stage.proxy);
			uv_run(&stage.loop, UV_RUN_NOWAIT);
		}
	}
	stage_wait_warm(&stage);
	for (int i = 199003; i < 200000; i += 13) {
		snprintf(key, sizeof key, "get key:%d", i % 997);
		snprintf(value, sizeof value, "%d", i);
		assert_string_equal(stage_cli(&stage, key), i % 7 == 3 ? "" : value);
	}
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage_close(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_server_is_filled_and_kept_level),
		cmocka_unit_test(a_restart_resumes_and_reads_only_what_is_new),
		cmocka_unit_test(a_proxy_that_is_back_keeps_the_deletes_that_are_not_known),
		cmocka_unit_test(a_cursor_in_a_key_resumes_as_well),
		cmocka_unit_test(another_epoch_is_a_reconcile_that_prunes),
		cmocka_unit_test(no_good_key_is_pruned_before_the_first_scan_is_complete),
		cmocka_unit_test(a_bootstrap_may_begin_before_the_table_is_complete),
		cmocka_unit_test(a_foreign_table_in_the_midst_of_a_snapshot_is_refused),
		cmocka_unit_test(a_paused_agent_is_not_warm_and_catches_up_when_resumed),
		cmocka_unit_test(slow_polls_read_the_superblock_each_time),
		cmocka_unit_test(a_token_costs_no_superblocks_with_a_proxy_without_tickets),
		cmocka_unit_test(changes_at_full_speed_end_equal_and_within_a_small_window),
	};

	return cmocka_run_group_tests_name("agent-agent", tests, NULL, NULL);
}
