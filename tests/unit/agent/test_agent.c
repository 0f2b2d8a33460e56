/* A whole agent between a table of our own making and a real local server. */
#include "agent.h"

#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EPOCH 0x1111

struct world {
	struct test_server server;
	uv_loop_t loop;
	struct test_proxy proxy;
	struct kw_filter filter; /* of the next agent */
	struct kw_agent *agent;
	bool consent;
	enum kw_cursor_store store;
	int closed;
	int warm; /* times the state became warm */
};

static void on_state(void *arg, const char *state, const char *reason)
{
	struct world *world = arg;

	if (strcmp(state, "warm") == 0)
		world->warm++;
}

static void on_closed(void *arg)
{
	((struct world *)arg)->closed++;
}

static void start_agent(struct world *world)
{
	const struct kw_agent_handlers handlers = {on_state, on_closed, world};
	struct kw_agent_options options = {
		.apply = kw_apply_find("commands"),
		.window_bytes = 4 << 20,
		.consent = world->consent,
		.warm_lag_ms = 1000,
		.filter = world->filter,
		.follow = {.idle_us = 1000},
		.local = {.cursor_name = "keywake_cursor", .store = world->store},
	};
	struct kw_error error;

	snprintf(options.proxy, sizeof options.proxy, "%s", world->proxy.address);
	snprintf(options.follow.remote.agent_name, sizeof options.follow.remote.agent_name, "test");
	snprintf(options.local.redis.address, sizeof options.local.redis.address, "%s",
		world->server.address);
	world->filter = (struct kw_filter){0};
	world->warm = 0;
	assert_int_equal(
		kw_agent_new(&world->loop, &options, &handlers, &world->agent, &error), KW_OK);
}

static bool is_closed(void *arg)
{
	return ((struct world *)arg)->closed > 0;
}

static void stop_agent(struct world *world)
{
	world->closed = 0;
	kw_agent_close(world->agent);
	test_run(&world->loop, is_closed, world, "the agent is closed");
	world->agent = NULL;
}

static void setup(struct world *world)
{
	memset(world, 0, sizeof *world);
	test_server_start(&world->server, NULL);
	uv_loop_init(&world->loop);
	test_proxy_start(&world->proxy, &world->loop, EPOCH, true);
}

static void teardown(struct world *world)
{
	if (world->agent)
		stop_agent(world);
	test_proxy_stop(&world->proxy);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	test_server_stop(&world->server);
}

static bool is_level(void *arg)
{
	const struct world *world = arg;
	const struct kw_agent *agent = world->agent;
	struct kw_table_stats stats;

	kw_table_stats(world->proxy.table, &stats);
	return agent->sm.state == KW_AGENT_WARM && agent->sync.progress.applied == stats.version;
}

static void wait_level(struct world *world)
{
	test_proxy_publish(&world->proxy);
	test_run(&world->loop, is_level, world, "the agent is warm and level");
}

static bool is_failed(void *arg)
{
	return ((struct world *)arg)->agent->sm.state == KW_AGENT_FAILED;
}

static bool is_waiting(void *arg)
{
	const struct world *world = arg;

	return world->agent->sync.phase == KW_SYNC_WAIT && world->agent->sync.why[0];
}

static void fill(struct world *world, int first, int last)
{
	char key[32];

	for (int i = first; i < last; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		test_proxy_put(&world->proxy, (uint32_t)i % 2, key, "value");
	}
}

static const char *cli(struct world *world, const char *words)
{
	return test_cli(&world->server, "%s", words);
}

static void an_empty_server_is_filled_and_kept_level(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 10000);
	start_agent(&world);
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "5000");
	assert_string_equal(cli(&world, "-n 1 dbsize"), "5000");
	assert_true(world.agent->sync.progress.fresh_us > 0);
	test_proxy_put(&world.proxy, 0, "key:0", "changed");
	test_proxy_delete(&world.proxy, 0, "key:2");
	kw_table_flush(world.proxy.table, 1);
	wait_level(&world);
	assert_string_equal(cli(&world, "get key:0"), "changed");
	assert_string_equal(cli(&world, "exists key:2"), "0");
	assert_string_equal(cli(&world, "-n 1 dbsize"), "0");
	assert_int_equal(world.agent->sync.snapshots, 1);
	/* Our own FLUSHDB is no cause to reconcile. */
	test_run_ms(&world.loop, 1200);
	assert_int_equal(world.agent->sync.snapshots, 1);
	teardown(&world);
}

static void a_restart_resumes_and_reads_only_what_is_new(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 10000);
	start_agent(&world);
	wait_level(&world);
	stop_agent(&world);
	test_proxy_put(&world.proxy, 0, "new", "1");
	test_proxy_delete(&world.proxy, 0, "key:4");
	start_agent(&world);
	wait_level(&world);
	assert_int_equal(world.agent->sync.snapshots, 0);
	assert_int_equal(world.agent->apply->applied, 2);
	assert_string_equal(cli(&world, "exists new key:4"), "1");
	teardown(&world);
}

static void a_cursor_in_a_key_resumes_as_well(void **state)
{
	struct world world;

	setup(&world);
	world.store = KW_STORE_KEY;
	fill(&world, 0, 100);
	start_agent(&world);
	wait_level(&world);
	/* A flush of the database that holds the cursor must not lose it. */
	kw_table_flush(world.proxy.table, 0);
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "1");
	stop_agent(&world);
	start_agent(&world);
	wait_level(&world);
	assert_int_equal(world.agent->sync.snapshots, 0);
	teardown(&world);
}

static void another_epoch_is_a_reconcile_that_prunes(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 1000);
	start_agent(&world);
	wait_level(&world);
	stop_agent(&world);
	test_proxy_stop(&world.proxy);
	test_proxy_start(&world.proxy, &world.loop, EPOCH + 1, true);
	fill(&world, 500, 1500);
	start_agent(&world);
	wait_level(&world);
	assert_int_equal(world.agent->sync.pruned, 500);
	assert_string_equal(cli(&world, "exists key:498 key:500 key:1498"), "2");
	assert_string_equal(cli(&world, "dbsize"), "500");
	teardown(&world);
}

static void no_good_key_is_pruned_before_the_first_scan_is_complete(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 1000);
	start_agent(&world);
	wait_level(&world);
	stop_agent(&world);
	test_proxy_stop(&world.proxy);
	test_proxy_start(&world.proxy, &world.loop, EPOCH + 1, false);
	fill(&world, 0, 100);
	start_agent(&world);
	test_run(&world.loop, is_waiting, &world, "the agent waits");
	assert_int_equal(world.agent->sm.state, KW_AGENT_RECONCILING);
	test_run_ms(&world.loop, 200);
	assert_string_equal(cli(&world, "dbsize"), "500");
	assert_int_equal(world.warm, 0);
	fill(&world, 100, 1000);
	world.proxy.facts = (struct kw_table_facts){KW_SOURCE_LIVE, true, 10, 0};
	wait_level(&world);
	assert_int_equal(world.agent->sync.pruned, 0);
	assert_string_equal(cli(&world, "dbsize"), "500");
	teardown(&world);
}

/* An empty server may be filled while the table still is: what is missing comes with the tail. */
static void a_bootstrap_may_begin_before_the_table_is_complete(void **state)
{
	struct world world;

	setup(&world);
	test_proxy_stop(&world.proxy);
	test_proxy_start(&world.proxy, &world.loop, EPOCH, false);
	fill(&world, 0, 1000);
	start_agent(&world);
	test_run_ms(&world.loop, 300);
	assert_int_equal(world.agent->sm.state, KW_AGENT_BOOTSTRAPPING);
	assert_string_equal(cli(&world, "dbsize"), "500");
	fill(&world, 1000, 2000);
	world.proxy.facts = (struct kw_table_facts){KW_SOURCE_LIVE, true, 10, 0};
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "1000");
	assert_int_equal(world.agent->sync.snapshots, 1);
	teardown(&world);
}

static void keys_of_somebody_else_are_not_touched_without_consent(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 10);
	cli(&world, "mset theirs 1 other 2");
	start_agent(&world);
	test_run(&world.loop, is_failed, &world, "the agent refuses");
	assert_non_null(strstr(world.agent->reason, "2 keys"));
	assert_non_null(strstr(world.agent->reason, "apply.consent=true"));
	assert_string_equal(cli(&world, "dbsize"), "2");
	/* The other remedy is noticed by itself. */
	cli(&world, "flushall");
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "5");
	teardown(&world);
}

static void with_consent_foreign_keys_are_replaced(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 10);
	cli(&world, "set theirs 1");
	world.consent = true;
	start_agent(&world);
	wait_level(&world);
	assert_string_equal(cli(&world, "exists theirs"), "0");
	assert_string_equal(cli(&world, "dbsize"), "5");
	teardown(&world);
}

static void keys_beyond_the_prefixes_need_no_consent_and_stay(void **state)
{
	struct world world;
	struct kw_error error;

	setup(&world);
	fill(&world, 0, 10);
	test_proxy_put(&world.proxy, 0, "other:1", "not followed");
	cli(&world, "set theirs 1");
	kw_filter_add_prefix(&world.filter, "key:", &error);
	start_agent(&world);
	wait_level(&world);
	assert_string_equal(cli(&world, "exists theirs other:1"), "1");
	assert_string_equal(cli(&world, "dbsize"), "6");
	assert_true(world.agent->sync.filtered > 0);
	stop_agent(&world);
	cli(&world, "function flush");
	kw_filter_add_prefix(&world.filter, "key:", &error);
	start_agent(&world);
	test_run(&world.loop, is_failed, &world, "the agent refuses");
	assert_non_null(strstr(world.agent->reason, "holds 10 keys"));
	teardown(&world);
}

static void a_flush_behind_our_back_is_mended(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 1000);
	start_agent(&world);
	wait_level(&world);
	cli(&world, "flushdb");
	test_run_ms(&world.loop, 1300);
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "500");
	assert_int_equal(world.agent->sync.resyncs, 1);
	stop_agent(&world);
	/* And while we were away. */
	cli(&world, "-n 1 flushdb");
	start_agent(&world);
	wait_level(&world);
	assert_string_equal(cli(&world, "-n 1 dbsize"), "500");
	teardown(&world);
}

static void a_paused_agent_is_not_warm_and_catches_up_when_resumed(void **state)
{
	struct world world;

	setup(&world);
	start_agent(&world);
	wait_level(&world);
	kw_agent_pause(world.agent, true);
	fill(&world, 0, 1000);
	test_proxy_publish(&world.proxy);
	test_run_ms(&world.loop, 300);
	assert_string_equal(cli(&world, "dbsize"), "0");
	assert_int_equal(world.agent->sm.state, KW_AGENT_LAGGING);
	assert_string_equal(world.agent->reason, "paused");
	assert_int_equal(world.agent->follow.superblock.version, 1000);
	kw_agent_pause(world.agent, false);
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "500");
	teardown(&world);
}

static bool is_stalled(void *arg)
{
	return ((struct world *)arg)->agent->sm.state == KW_AGENT_STALLED;
}

static void a_hung_proxy_is_told_from_an_idle_one_by_its_heartbeat(void **state)
{
	struct world world;

	setup(&world);
	start_agent(&world);
	wait_level(&world);
	world.proxy.silent = true;
	test_run(&world.loop, is_stalled, &world, "the agent is stalled");
	assert_non_null(strstr(world.agent->reason, "heartbeat"));
	world.proxy.silent = false;
	wait_level(&world);
	world.proxy.facts.source_state = KW_SOURCE_DOWN;
	test_run(&world.loop, is_stalled, &world, "the agent is stalled");
	teardown(&world);
}

static void a_payload_version_beyond_the_local_server_is_named_and_nothing_written(void **state)
{
	struct world world;

	setup(&world);
	world.proxy.facts.rdb_version = 12;
	fill(&world, 0, 10);
	test_proxy_publish(&world.proxy);
	start_agent(&world);
	test_run(&world.loop, is_failed, &world, "the agent refuses");
	assert_non_null(strstr(world.agent->reason, "version 12"));
	assert_non_null(strstr(world.agent->reason, "version 10"));
	assert_string_equal(cli(&world, "dbsize"), "0");
	assert_string_equal(cli(&world, "function list"), "");
	teardown(&world);
}

static void the_primary_itself_is_refused_as_local_server(void **state)
{
	struct kw_server_identity identity = {0};
	struct world world;

	setup(&world);
	snprintf(identity.run_id, sizeof identity.run_id, "%.40s",
		strstr(cli(&world, "info server"), "run_id:") + 7);
	world.proxy.facts.source_id = kw_server_id(&identity);
	fill(&world, 0, 10);
	test_proxy_publish(&world.proxy);
	start_agent(&world);
	test_run(&world.loop, is_failed, &world, "the agent refuses");
	assert_non_null(strstr(world.agent->reason, "is the primary"));
	assert_string_equal(cli(&world, "dbsize"), "0");
	world.proxy.facts.source_id++; /* another server, as after a failover */
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "5"); /* the other half is in another database */
	teardown(&world);
}

static bool is_lagging(void *arg)
{
	return ((struct world *)arg)->agent->sm.state == KW_AGENT_LAGGING;
}

static void a_key_in_quarantine_keeps_the_agent_from_warm_also_after_a_restart(void **state)
{
	struct world world;

	setup(&world);
	start_agent(&world);
	wait_level(&world);
	kw_table_put(
		world.proxy.table, 0, kw_slice_text("bad"), kw_slice_text("no payload at all"), 0);
	test_proxy_publish(&world.proxy);
	test_run(&world.loop, is_lagging, &world, "the agent lags");
	assert_non_null(strstr(world.agent->reason, "quarantine"));
	test_run_ms(&world.loop, 300);
	stop_agent(&world);
	start_agent(&world);
	test_run(&world.loop, is_lagging, &world, "the agent lags");
	assert_int_equal(world.warm, 0);
	test_proxy_put(&world.proxy, 0, "bad", "good now");
	wait_level(&world);
	assert_string_equal(cli(&world, "get bad"), "good now");
	teardown(&world);
}

static void a_resync_repairs_what_somebody_wrote_locally(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 100);
	start_agent(&world);
	wait_level(&world);
	cli(&world, "mset key:0 wrong alien 1");
	cli(&world, "del key:2");
	kw_agent_resync(world.agent, "asked for");
	assert_int_equal(world.agent->sync.phase, KW_SYNC_WAIT);
	test_run_ms(&world.loop, 50);
	wait_level(&world);
	assert_string_equal(cli(&world, "get key:0"), "value");
	assert_string_equal(cli(&world, "exists alien key:2"), "1");
	teardown(&world);
}

static bool is_connecting(void *arg)
{
	return ((struct world *)arg)->agent->sm.state == KW_AGENT_CONNECTING;
}

static void a_local_server_replaced_by_an_empty_one_is_filled_again(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 1000);
	start_agent(&world);
	wait_level(&world);
	test_server_stop(&world.server);
	test_run(&world.loop, is_connecting, &world, "the agent has lost it");
	test_server_start(&world.server, NULL);
	snprintf(world.agent->local.options.redis.address,
		sizeof world.agent->local.options.redis.address, "%s", world.server.address);
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "500");
	teardown(&world);
}

static void a_proxy_that_comes_back_with_another_table_is_followed(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 1000);
	start_agent(&world);
	wait_level(&world);
	test_proxy_stop(&world.proxy);
	test_run(&world.loop, is_connecting, &world, "the agent has lost the proxy");
	assert_true(world.agent->reason[0]);
	test_proxy_start(&world.proxy, &world.loop, EPOCH + 7, true);
	fill(&world, 0, 500);
	{
		struct kw_error error;

		assert_int_equal(kw_agent_retarget(world.agent, "nonsense", &error), KW_E_CONFIG);
		assert_int_equal(
			kw_agent_retarget(world.agent, world.proxy.address, &error), KW_OK);
	}
	wait_level(&world);
	assert_string_equal(cli(&world, "dbsize"), "250");
	teardown(&world);
}

static bool is_rereading(void *arg)
{
	return ((struct world *)arg)->agent->sync.corruptions > 0;
}

/* A writer may be stopped in the midst of a superblock: that is no damage, and no reconcile. */
static void a_superblock_torn_for_a_while_is_waited_out(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 100);
	start_agent(&world);
	wait_level(&world);
	world.proxy.silent = true;
	world.proxy.memory.base[8] ^= 1;
	test_run(&world.loop, is_rereading, &world, "the agent reads again");
	world.proxy.memory.base[8] ^= 1;
	world.proxy.silent = false;
	fill(&world, 100, 200);
	wait_level(&world);
	assert_int_equal(world.agent->sync.snapshots, 1);
	assert_int_equal(world.agent->follow.reconnects, 1);
	assert_string_equal(cli(&world, "dbsize"), "100");
	teardown(&world);
}

static void a_table_that_stays_damaged_is_an_alarm_and_then_a_reconcile(void **state)
{
	struct world world;

	setup(&world);
	fill(&world, 0, 100);
	start_agent(&world);
	wait_level(&world);
	world.proxy.silent = true;
	world.proxy.memory.base[8] ^= 1;
	test_run(&world.loop, is_failed, &world, "the agent raises the alarm");
	assert_non_null(strstr(world.agent->reason, "does not verify"));
	world.proxy.memory.base[8] ^= 1;
	world.proxy.silent = false;
	wait_level(&world);
	assert_int_equal(world.agent->sync.resyncs, 1);
	teardown(&world);
}

static void changes_at_full_speed_end_equal_and_within_a_small_window(void **state)
{
	struct world world;
	char key[32], value[32];

	setup(&world);
	start_agent(&world);
	wait_level(&world);
	for (int i = 0; i < 200000; i++) {
		snprintf(key, sizeof key, "key:%d", i % 997);
		snprintf(value, sizeof value, "%d", i);
		if (i % 7 == 3)
			test_proxy_delete(&world.proxy, 0, key);
		else
			test_proxy_put(&world.proxy, 0, key, value);
		if (i % 50 == 0) {
			test_proxy_publish(&world.proxy);
			uv_run(&world.loop, UV_RUN_NOWAIT);
		}
	}
	wait_level(&world);
	for (int i = 199003; i < 200000; i += 13) {
		snprintf(key, sizeof key, "get key:%d", i % 997);
		snprintf(value, sizeof value, "%d", i);
		assert_string_equal(cli(&world, key), i % 7 == 3 ? "" : value);
	}
	assert_int_equal(world.agent->sync.snapshots, 1);
	teardown(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_server_is_filled_and_kept_level),
		cmocka_unit_test(a_restart_resumes_and_reads_only_what_is_new),
		cmocka_unit_test(a_cursor_in_a_key_resumes_as_well),
		cmocka_unit_test(another_epoch_is_a_reconcile_that_prunes),
		cmocka_unit_test(no_good_key_is_pruned_before_the_first_scan_is_complete),
		cmocka_unit_test(a_bootstrap_may_begin_before_the_table_is_complete),
		cmocka_unit_test(keys_of_somebody_else_are_not_touched_without_consent),
		cmocka_unit_test(with_consent_foreign_keys_are_replaced),
		cmocka_unit_test(keys_beyond_the_prefixes_need_no_consent_and_stay),
		cmocka_unit_test(a_flush_behind_our_back_is_mended),
		cmocka_unit_test(a_paused_agent_is_not_warm_and_catches_up_when_resumed),
		cmocka_unit_test(a_hung_proxy_is_told_from_an_idle_one_by_its_heartbeat),
		cmocka_unit_test(
			a_payload_version_beyond_the_local_server_is_named_and_nothing_written),
		cmocka_unit_test(the_primary_itself_is_refused_as_local_server),
		cmocka_unit_test(
			a_key_in_quarantine_keeps_the_agent_from_warm_also_after_a_restart),
		cmocka_unit_test(a_resync_repairs_what_somebody_wrote_locally),
		cmocka_unit_test(a_local_server_replaced_by_an_empty_one_is_filled_again),
		cmocka_unit_test(a_proxy_that_comes_back_with_another_table_is_followed),
		cmocka_unit_test(a_superblock_torn_for_a_while_is_waited_out),
		cmocka_unit_test(a_table_that_stays_damaged_is_an_alarm_and_then_a_reconcile),
		cmocka_unit_test(changes_at_full_speed_end_equal_and_within_a_small_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
