/* A whole agent: what it notices, says, and mends by itself. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_resynced(void *arg)
{
	const struct stage *stage = arg;

	return stage->agent->sync.resyncs > 0;
}

static void a_flush_behind_our_back_is_mended(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 1000);
	stage_cli(&stage, "flushdb");
	stage_wait(&stage, is_resynced, "the flush is noticed");
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "500");
	assert_int_equal(stage.agent->sync.resyncs, 1);
	stage_stop_agent(&stage);
	/* And while we were away. */
	stage_cli(&stage, "-n 1 flushdb");
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "-n 1 dbsize"), "500");
	stage_close(&stage);
}

static void a_hung_proxy_is_told_from_an_idle_one_by_its_heartbeat(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	stage.proxy.silent = true;
	stage_wait_state(&stage, KW_AGENT_STALLED);
	assert_non_null(strstr(stage.agent->reason, "heartbeat"));
	stage.proxy.silent = false;
	stage_wait_warm(&stage);
	stage.proxy.facts.source_state = KW_SOURCE_DOWN;
	stage_wait_state(&stage, KW_AGENT_STALLED);
	stage_close(&stage);
}

static void a_key_in_quarantine_keeps_the_agent_from_warm_also_after_a_restart(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	kw_table_put(
		stage.proxy.table, 0, kw_slice_text("bad"), kw_slice_text("no payload at all"), 0);
	test_proxy_publish(&stage.proxy);
	stage_wait_state(&stage, KW_AGENT_LAGGING);
	assert_non_null(strstr(stage.agent->reason, "quarantine"));
	test_run_ms(&stage.loop, 300);
	stage_stop_agent(&stage);
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_LAGGING);
	assert_int_equal(stage.warm, 0);
	test_proxy_put(&stage.proxy, 0, "bad", "good now");
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "get bad"), "good now");
	stage_close(&stage);
}

static void a_resync_repairs_what_somebody_wrote_locally(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 100);
	stage_cli(&stage, "mset key:0 wrong alien 1");
	stage_cli(&stage, "del key:2");
	kw_agent_resync(stage.agent, "asked for");
	assert_int_equal(kw_sync_phase(&stage.agent->sync), KW_SYNC_WAIT);
	test_run_ms(&stage.loop, 50);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "get key:0"), "value");
	assert_string_equal(stage_cli(&stage, "exists alien key:2"), "1");
	stage_close(&stage);
}

/* Another server in the place of the one that was stopped. */
static void serve_anew(struct stage *stage)
{
	test_server_start(&stage->server, NULL);
	snprintf(stage->agent->local.options.redis.address,
		sizeof stage->agent->local.options.redis.address, "%s", stage->server.address);
}

static void a_local_server_replaced_by_an_empty_one_is_filled_again(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 1000);
	test_server_stop(&stage.server);
	stage_wait_state(&stage, KW_AGENT_CONNECTING);
	serve_anew(&stage);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "500");
	stage_close(&stage);
}

/* What it refused before is no news of a server that is gone. */
static void a_server_that_refused_and_is_gone_is_said_to_be_gone(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage.options.consent = true;
	stage_cli(&stage, "set alien 1");
	stage_fill(&stage, 0, 10);
	stage_cli(&stage, "acl setuser default -scan");
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "+scan"));
	test_server_stop(&stage.server);
	stage_wait_state(&stage, KW_AGENT_CONNECTING);
	serve_anew(&stage);
	stage_wait_warm(&stage);
	stage_close(&stage);
}

static void a_proxy_that_comes_back_with_another_table_is_followed(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 1000);
	test_proxy_stop(&stage.proxy);
	stage_wait_state(&stage, KW_AGENT_CONNECTING);
	assert_true(stage.agent->reason[0]);
	test_proxy_start(&stage.proxy, &stage.loop, STAGE_EPOCH + 7, true);
	stage_fill(&stage, 0, 500);
	{
		struct kw_error error;

		assert_int_equal(kw_agent_retarget(stage.agent, "nonsense", &error), KW_E_CONFIG);
		assert_int_equal(
			kw_agent_retarget(stage.agent, stage.proxy.address, &error), KW_OK);
	}
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "250");
	stage_close(&stage);
}

static bool has_looked(void *arg)
{
	const struct stage *stage = arg;

	return kw_local_looked(&stage->agent->local) > stage->seen;
}

static bool has_written(void *arg)
{
	const struct stage *stage = arg;
	const struct kw_local_cursor *written = kw_local_written(&stage->agent->local);
	struct kw_table_stats stats;

	kw_table_stats(stage->proxy.table, &stats);
	return written && written->version == stats.version;
}

/* Made a replica of somebody, filled by him, and promoted: all between two looks of the agent. */
static void be_replica_for_a_moment(struct stage *stage, int port)
{
	char words[64];
	int tries = 0;

	snprintf(words, sizeof words, "replicaof 127.0.0.1 %d", port);
	stage_cli(stage, words);
	while (!strstr(stage_cli(stage, "info replication"), "link_status:up"))
		assert_true(tries++ < 1000);
	stage_cli(stage, "replicaof no one");
}

/* What we write behind it, the cursor too, stands in data that are not ours. */
static void data_of_another_primary_are_found_whatever_was_written_since(void **state)
{
	char port[16];
	const char *const extra[] = {"--port", port, "--repl-diskless-sync-delay", "0", NULL};
	struct test_server other;
	struct stage stage;
	int number = test_free_port();

	snprintf(port, sizeof port, "%d", number);
	test_server_start(&other, extra);
	test_cli(&other, "set theirs 1");
	stage_open(&stage, "commands");
	stage.options.consent = true; /* should it look before the cursor is written */
	stage_fill(&stage, 0, 1000);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	stage.seen = stage.agent->local.looks.sent;
	stage_wait(&stage, has_looked, "the agent has just looked");
	be_replica_for_a_moment(&stage, number);
	assert_string_equal(stage_cli(&stage, "dbsize"), "1");
	test_proxy_put(&stage.proxy, 0, "behind it", "1");
	test_proxy_publish(&stage.proxy);
	stage_wait(&stage, has_written, "the cursor is written");
	stage.seen = kw_local_next_look(&stage.agent->local);
	stage_wait(&stage, has_looked, "the agent has looked");
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "501");
	assert_string_equal(stage_cli(&stage, "-n 1 dbsize"), "500");
	stage_close(&stage);
	test_server_stop(&other);
}

static bool is_claiming(void *arg)
{
	return kw_sync_phase(&((struct stage *)arg)->agent->sync) == KW_SYNC_CLAIM;
}

static bool has_claimed(void *arg)
{
	return kw_sync_phase(&((struct stage *)arg)->agent->sync) != KW_SYNC_CLAIM;
}

static bool is_waiting_for_the_scan(void *arg)
{
	return strstr(((struct stage *)arg)->agent->reason, "first scan") != NULL;
}

/* The server takes its time to acknowledge the claim, and another proxy is there before it does. */
static void a_claim_counts_only_for_the_table_it_was_made_for(void **state)
{
	struct kw_error error;
	struct stage stage;

	stage_open_warm(&stage, 10);
	stage_cli(&stage, "client pause 1000 write");
	kw_agent_resync(stage.agent, "asked for");
	stage_wait(&stage, is_claiming, "the agent claims the server");
	stage_another_proxy(&stage, STAGE_EPOCH + 7, false);
	assert_int_equal(kw_agent_retarget(stage.agent, stage.proxy.address, &error), KW_OK);
	stage_wait(&stage, is_waiting_for_the_scan, "the agent waits for the first scan");
	test_run_ms(&stage.loop, 100);
	assert_string_equal(stage_cli(&stage, "dbsize"), "5");
	stage_fill(&stage, 0, 10);
	stage.proxy.facts.complete = true;
	stage.proxy.facts.source_state = KW_SOURCE_LIVE;
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "5");
	stage_close(&stage);
}

/* The drain waits for what was handed on, and the claim may be acknowledged meanwhile. */
static void no_snapshot_begins_while_the_agent_ends(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 10);
	stage_cli(&stage, "client pause 300 write");
	kw_agent_resync(stage.agent, "asked for");
	stage_wait(&stage, is_claiming, "the agent claims the server");
	stage.agent->pair->applier->progress.taken++; /* something is on its way */
	kw_agent_close(stage.agent);
	stage_wait(&stage, has_claimed, "the claim is answered");
	test_run_ms(&stage.loop, 300);
	assert_int_equal(kw_sync_phase(&stage.agent->sync), KW_SYNC_WAIT);
	assert_int_equal(stage.agent->sync.snapshots, 1);
	stage.agent->pair->applier->progress.taken--;
	stage_stop_agent(&stage);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "5");
	stage_close(&stage);
}

static bool is_rereading(void *arg)
{
	return ((struct stage *)arg)->agent->sync.reread.ever > 0;
}

/* A writer may be stopped in the midst of a superblock: that is no damage, and no reconcile. */
static void a_superblock_torn_for_a_while_is_waited_out(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 100);
	stage.proxy.silent = true;
	stage.proxy.memory.base[8] ^= 1;
	stage_wait(&stage, is_rereading, "the agent reads again");
	stage.proxy.memory.base[8] ^= 1;
	stage.proxy.silent = false;
	stage_fill(&stage, 100, 200);
	stage_wait_warm(&stage);
	assert_int_equal(stage.agent->sync.snapshots, 1);
	assert_int_equal(stage.agent->follow.reconnects, 1);
	assert_string_equal(stage_cli(&stage, "dbsize"), "100");
	stage_close(&stage);
}

static void a_table_that_stays_damaged_is_an_alarm_and_then_a_reconcile(void **state)
{
	struct stage stage;

	stage_open_warm(&stage, 100);
	stage.proxy.silent = true;
	stage.proxy.memory.base[8] ^= 1;
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "does not verify"));
	stage.proxy.memory.base[8] ^= 1;
	stage.proxy.silent = false;
	stage_wait_warm(&stage);
	assert_int_equal(stage.agent->sync.resyncs, 1);
	stage_close(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flush_behind_our_back_is_mended),
		cmocka_unit_test(a_hung_proxy_is_told_from_an_idle_one_by_its_heartbeat),
		cmocka_unit_test(
			a_key_in_quarantine_keeps_the_agent_from_warm_also_after_a_restart),
		cmocka_unit_test(a_resync_repairs_what_somebody_wrote_locally),
		cmocka_unit_test(a_local_server_replaced_by_an_empty_one_is_filled_again),
		cmocka_unit_test(a_server_that_refused_and_is_gone_is_said_to_be_gone),
		cmocka_unit_test(data_of_another_primary_are_found_whatever_was_written_since),
		cmocka_unit_test(a_proxy_that_comes_back_with_another_table_is_followed),
		cmocka_unit_test(a_claim_counts_only_for_the_table_it_was_made_for),
		cmocka_unit_test(no_snapshot_begins_while_the_agent_ends),
		cmocka_unit_test(a_superblock_torn_for_a_while_is_waited_out),
		cmocka_unit_test(a_table_that_stays_damaged_is_an_alarm_and_then_a_reconcile),
	};

	return cmocka_run_group_tests_name("agent-mending", tests, NULL, NULL);
}
