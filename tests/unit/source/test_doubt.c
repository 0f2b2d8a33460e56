/* Whatever may have cost an event is found, mended and counted. */
#include "base/clock.h"
#include "fixture.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct test test;

static void begin(const char *words)
{
	test_begin(&test, words, 0);
	for (int db = 0; db < 3; db++) {
		test_ask(&test, "SELECT %d", db);
		test_ask(&test, "DEBUG POPULATE 500 key 50");
		test_ask(&test, "SET expiring v EX 10000");
		test_ask(&test, "RPUSH list a b c");
	}
	test_ask(&test, "SELECT 0");
	test_follow(&test);
	test_settle(&test);
	test_assert_same(&test);
	test.states[0] = '\0';
}

static bool has_reconciled(struct test *t)
{
	return test_stats(t).reconciles > 0 && test_is_live(t);
}

static void expect_reconcile(void)
{
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
	assert_non_null(strstr(test.states, "reconciling"));
}

static void a_flush_of_one_database_spares_the_others(void **state)
{
	begin("");
	test_ask(&test, "SELECT 1");
	test_ask(&test, "FLUSHDB");
	test_settle(&test);
	test_run_ms(&test, 50);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_string_equal(test.states, "");
	test_end(&test);
}

static void a_flush_of_everything_empties_the_table(void **state)
{
	begin("");
	test_ask(&test, "FLUSHALL");
	test_run_ms(&test, 50);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	test_ask(&test, "SET new 1");
	test_ask(&test, "FLUSHALL ASYNC");
	test_ask(&test, "SET newer 1");
	test_run_ms(&test, 50);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_flush_of_nothing_costs_nothing(void **state)
{
	uint64_t fetches;

	begin("");
	fetches = test_stats(&test).fetches;
	test_ask(&test, "SELECT 9");
	for (int i = 0; i < 100; i++)
		test_ask(&test, "FLUSHDB");
	test_run_ms(&test, 50);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_int_equal(test_stats(&test).fetches, fetches);
	test_end(&test);
}

/* Both leave a database empty, and one FLUSHDB alone would not explain two. */
static void a_flush_beside_a_swap_is_no_loss(void **state)
{
	begin("");
	test_post(&test, "MULTI");
	test_post(&test, "SWAPDB 0 5");
	test_post(&test, "SELECT 1");
	test_post(&test, "FLUSHDB");
	test_ask(&test, "EXEC");
	expect_reconcile();
	assert_int_equal(test_stats(&test).reconciles_swapdb, 1);
	assert_int_equal(test_stats(&test).reconciles_flush, 0);
	test_end(&test);
}

static void a_database_flushed_and_filled_again_is_reconciled(void **state)
{
	begin("");
	test_ask(&test, "SELECT 2");
	/* At once: Redis 8 lets others in between FLUSHDB and what the same client sent behind it.
	 */
	test_post(&test, "MULTI");
	test_post(&test, "FLUSHDB");
	for (int i = 0; i < 2000; i += 2)
		test_post(&test, "MSET key:%d new key:%d new", i, i + 1);
	test_post(&test, "DEL key:7");
	test_ask(&test, "EXEC");
	expect_reconcile();
	assert_int_equal(test_stats(&test).reconciles_flush, 1);
	test_end(&test);
}

static void flushes_under_load_end_equal(void **state)
{
	begin("");
	for (int i = 0; i < 40000; i++) {
		if (i % 97 == 0)
			test_post(&test, "SELECT %d", rand() % 4);
		if (rand() % 500 == 0)
			test_post(&test, "FLUSHDB");
		else if (rand() % 3000 == 0)
			test_post(&test, "FLUSHALL");
		else
			test_post(&test, rand() % 4 ? "SET key:%d %d" : "DEL key:%d", rand() % 3000,
				i);
		if (i % 100 == 0)
			test_try(&test, "PING");
	}
	test_ask(&test, "PING");
	test_run_ms(&test, 100);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_flush_during_the_scan_leaves_nothing_behind(void **state)
{
	for (int round = 0; round < 5; round++) {
		test_begin(&test, "", 0);
		test_ask(&test, "DEBUG POPULATE 20000 old 50");
		test_ask(&test, "SELECT 1");
		test_ask(&test, "DEBUG POPULATE 20000 other 50");
		test_ask(&test, "SELECT 0");
		test_follow(&test);
		test_until_state(&test, KW_SOURCE_SCANNING);
		test_run_ms(&test, (uint64_t)round * 5);
		test_post(&test, round % 2 ? "FLUSHALL" : "FLUSHDB");
		for (int i = 0; i < 3000; i++)
			test_post(&test, "SET new:%d v", i);
		test_ask(&test, "PING");
		test_run_ms(&test, 50);
		test_settle(&test);
		test_assert_same(&test);
		test_end(&test);
	}
}

static void swapdb_is_found(void **state)
{
	begin("");
	test_ask(&test, "SWAPDB 0 5");
	test_ask(&test, "SWAPDB 1 2");
	expect_reconcile();
	assert_true(test_stats(&test).reconciles_swapdb >= 1);
	test_end(&test);
}

static void reset_counters_are_not_trusted(void **state)
{
	begin("");
	test_ask(&test, "SWAPDB 0 5");
	test_ask(&test, "CONFIG RESETSTAT");
	expect_reconcile();
	assert_true(test_stats(&test).reconciles_swapdb >= 1);
	test_end(&test);
}

static bool swapdb_is_in_doubt_again(struct test *t)
{
	return test_stats(t).reconciles_swapdb >= 2;
}

/* Behind the first reset we ask INFO ourselves, often: that must not look like an old counter. */
static void counters_reset_twice_are_not_trusted_either(void **state)
{
	begin("");
	kw_source_set_limits(test.source, 1500, 0, 0); /* the reconcile lasts, and is paced */
	test_ask(&test, "CONFIG RESETSTAT");
	test_until_state(&test, KW_SOURCE_RECONCILING);
	test_run_ms(&test, 120);
	test_ask(&test, "SWAPDB 0 5");
	test_ask(&test, "CONFIG RESETSTAT");
	test_until(&test, swapdb_is_in_doubt_again, "the second reset");
	kw_source_set_limits(test.source, 0, 0, 0);
	expect_reconcile();
	test_end(&test);
}

static void debug_reload_is_found(void **state)
{
	begin("");
	test_ask(&test, "SAVE");
	test_ask(&test, "SET key:1 changed");
	test_ask(&test, "SET another 1");
	test_settle(&test);
	test_ask(&test, "DEBUG RELOAD NOSAVE"); /* back to what was saved, under the same names */
	expect_reconcile();
	assert_int_equal(test_stats(&test).reconciles_flush, 1);
	test_end(&test);
}

static void flags_switched_off_are_found(void **state)
{
	begin("");
	test_ask(&test, "CONFIG SET notify-keyspace-events Km");
	test_ask(&test, "SET unheard 1");
	test_ask(&test, "DEL list");
	expect_reconcile();
	assert_int_equal(test_stats(&test).reconciles_flags, 1);
	assert_string_equal(test_ask(&test, "CONFIG GET notify-keyspace-events"), "AKEm");
	test_end(&test);
}

/* Off, written to, and on again: no look at the flags shows it, only the counter of CONFIG SET. */
static void flags_put_back_between_two_looks_are_found(void **state)
{
	begin("");
	test_ask(&test, "MULTI");
	test_ask(&test, "CONFIG SET notify-keyspace-events Km");
	test_ask(&test, "SET unheard 1");
	test_ask(&test, "DEL list");
	test_ask(&test, "CONFIG SET notify-keyspace-events AKE");
	test_ask(&test, "EXEC");
	expect_reconcile();
	assert_int_equal(test_stats(&test).reconciles_flags, 1);
	test_run_ms(&test, 500); /* counted once */
	assert_int_equal(test_stats(&test).reconciles_flags, 1);
	test_end(&test);
}

/* How often somebody looked at the settings. */
static long looks(void)
{
	static const char name[] = "cmdstat_config|get:calls=";
	const char *found = strstr(test_ask(&test, "INFO commandstats"), name);

	assert_non_null(found);
	return strtol(found + strlen(name), NULL, 10);
}

/* Taking flags away and putting them back takes two. */
static void a_single_config_set_costs_nothing(void **state)
{
	begin("");
	for (int i = 0; i < 4; i++) {
		test_ask(&test, "CONFIG SET maxmemory-samples %d", 5 + i);
		test_ask(&test, "CONFIG GET *");
		for (long before = looks(); looks() < before + 2;)
			test_run_ms(&test, 20);
	}
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_string_equal(test.states, "");
	test_end(&test);
}

/* Somebody calls CONFIG SET all the time: each reconcile is finished before the next one begins. */
static void many_config_sets_do_not_keep_a_reconcile_from_its_end(void **state)
{
	uint64_t began_us;

	begin("");
	kw_source_set_limits(test.source, 1500, 0, 0); /* a reconcile takes a second */
	began_us = kw_clock_us();
	for (int i = 0; i < 150; i++) {
		test_ask(&test, "CONFIG SET maxmemory-samples %d", 5 + i % 2);
		test_run_ms(&test, 20);
	}
	assert_in_range(
		test_stats(&test).reconciles_flags, 2, 2 + (kw_clock_us() - began_us) / 1000000);
	kw_source_set_limits(test.source, 0, 0, 0);
	expect_reconcile();
	test_end(&test);
}

/* … and the first scan too, behind which it is made up for. */
static void many_config_sets_do_not_disturb_the_first_scan(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 2000 key 50");
	test.options.keys_per_second = 2000;
	test_follow(&test);
	for (int i = 0; i < 60; i++) {
		test_ask(&test, "CONFIG SET maxmemory-samples %d", 5 + i % 2);
		test_run_ms(&test, 20);
	}
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
	assert_non_null(strstr(test.states, "scanning"));
	test_end(&test);
}

/* Neither do counters reset all the time, nor a database that is flushed and filled. */
static void a_doubt_every_moment_does_not_keep_the_first_scan_from_its_end(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 3000 key 50");
	test.options.keys_per_second = 3000;
	test_follow(&test);
	for (int i = 0; i < 200 && !strstr(test.states, "reconciling"); i++) {
		test_ask(&test, "CONFIG RESETSTAT");
		test_ask(&test, "SELECT 1");
		test_ask(&test, "FLUSHDB");
		test_ask(&test, "SET a %d", i);
		test_run_ms(&test, 40);
	}
	assert_non_null(strstr(test.states, "reconciling"));
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static const struct kw_superblock *published(const struct test *t)
{
	return (const struct kw_superblock *)t->memory;
}

static bool says_reconciling(struct test *t)
{
	return published(t)->source_state == KW_SOURCE_RECONCILING;
}

static bool says_live(struct test *t)
{
	return published(t)->source_state == KW_SOURCE_LIVE;
}

/* Whoever replaces or prunes by the table must not do so by one that is known to be mixed up. */
static void a_table_in_doubt_behind_the_first_scan_is_not_complete(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 3000 key 50");
	test.options.keys_per_second = 100;
	test.options.watch_interval_ms = 20;
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_SCANNING);
	for (int i = 0; i < 20; i++) {
		test_ask(&test, "CONFIG RESETSTAT");
		test_run_ms(&test, 30);
	}
	kw_source_set_limits(test.source, 3000, 0, 0);
	test_until(&test, says_reconciling, "the scan behind the first");
	assert_int_equal(published(&test)->complete, 0);
	/* No reset began the first one anew. */
	assert_int_equal(test_stats(&test).reconciles, 1);
	kw_source_set_limits(test.source, 0, 0, 0);
	test_until(&test, says_live, "live");
	assert_int_equal(published(&test)->complete, 1);
	test_end(&test);
}

static bool sweeps_follow_each_other(struct test *t)
{
	static uint64_t posted_us;

	/* Often enough that each sweep has a reset. */
	if (kw_clock_us() - posted_us > 5000) {
		posted_us = kw_clock_us();
		test_post(t, "CONFIG RESETSTAT");
	}
	return strstr(kw_source_reason(t->source), "4 scans in a row") != NULL;
}

static bool says_complete(struct test *t)
{
	return published(t)->complete;
}

/* … but where doubt never ends, agents do not wait for ever, and the state says why it is so. */
static void doubt_without_end_is_named_and_lets_agents_begin(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 600 key 50");
	test.options.keys_per_second = 1500;
	test.options.watch_interval_ms = 20;
	test_follow(&test);
	test_until(&test, sweeps_follow_each_other, "the fourth scan");
	assert_non_null(strstr(kw_source_reason(test.source), "who calls"));
	test_until(&test, says_complete, "the table to be complete");
	kw_source_set_limits(test.source, 0, 0, 0);
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_killed_connection_is_found(void **state)
{
	static const char *const types[] = {"pubsub", "normal"};

	for (int i = 0; i < 2; i++) {
		begin("");
		test_ask(&test, "MULTI");
		test_ask(&test, "CLIENT KILL TYPE %s", types[i]);
		test_ask(&test, "SET unheard 1");
		test_ask(&test, "DEL list");
		test_ask(&test, "EXEC");
		expect_reconcile();
		assert_int_equal(test_stats(&test).reconciles_connection, 1);
		assert_non_null(strstr(test.states, "source_down reconciling live"));
		test_end(&test);
	}
}

static void an_overrun_output_buffer_is_found(void **state)
{
	begin("--client-output-buffer-limit pubsub 100k 0 0");
	/* Nobody reads meanwhile: the loop does not run while this client writes by itself. */
	test_ask(&test, "EVAL for\ti=1,20000\tdo\tredis.call('SET','new:'..i,i)\tend 0");
	expect_reconcile();
	assert_true(test_stats(&test).reconciles_connection >= 1);
	test_end(&test);
}

static void a_restarted_server_is_found(void **state)
{
	begin("");
	test_ask(&test, "SET not-saved 1");
	test_settle(&test);
	test_ask(&test, "DEL not-saved key:1 key:2");
	test_ask(&test, "SAVE");
	test_ask(&test, "SET not-saved 1");
	test_settle(&test);
	test_server_kill(&test.server);
	test_until_state(&test, KW_SOURCE_DOWN);
	assert_non_null(strstr(kw_source_reason(test.source), test.server.address));
	assert_true(test_has(&test, 0, "not-saved")); /* what is known stays meanwhile */
	test_server_again(&test.server, "");
	test_reconnect(&test);
	expect_reconcile();
	assert_false(test_has(&test, 0, "not-saved"));
	assert_int_equal(test_stats(&test).reconciles_identity, 1);
	test_end(&test);
}

static void a_server_that_dies_as_a_scan_begins_is_found(void **state)
{
	begin("");
	kw_source_set_max_missing(test.source, 1); /* it comes back empty */
	/* What the scan asks first is never answered. */
	assert_int_equal(kill(test.server.pid, SIGSTOP), 0);
	kw_source_reconcile(test.source, "a test");
	test_run_ms(&test, 50);
	test_server_kill(&test.server);
	test_run_ms(&test, 50);
	test_server_again(&test.server, "");
	test_reconnect(&test);
	test_ask(&test, "SET new 1");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_server_that_comes_later_is_followed(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "SET a 1");
	test_ask(&test, "SAVE");
	test_server_kill(&test.server);
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_DOWN);
	test_run_ms(&test, 300);
	test_server_again(&test.server, "");
	test_reconnect(&test);
	test_settle(&test);
	test_assert_same(&test);
	assert_true(test_has(&test, 0, "a"));
	assert_int_equal(test_stats(&test).reconciles, 0);
	test_end(&test);
}

static void a_changed_role_is_found(void **state)
{
	struct test_server primary;
	int port = test_free_port();
	uint64_t reconciles;
	char words[96];

	snprintf(words, sizeof words, "--port %d --bind 127.0.0.1 --repl-diskless-sync-delay 0",
		port);
	begin("");
	kw_source_set_max_missing(test.source, 1); /* the other one is empty */
	test_server_start(&primary, words);
	test_ask(&test, "REPLICAOF 127.0.0.1 %d", port);
	test_until(&test, has_reconciled, "a reconcile");
	for (int i = 0; i < 200 && !strstr(test_ask(&test, "INFO replication"), "link_status:up");
		i++)
		test_run_ms(&test, 50);
	test_run_ms(&test, 300);
	test_settle(&test);
	test_assert_same(&test);
	reconciles = test_stats(&test).reconciles_identity;
	assert_true(reconciles >= 1);
	/* A promotion goes on with the data, and is none. */
	test_ask(&test, "REPLICAOF NO ONE");
	test_run_ms(&test, 300);
	test_ask(&test, "SET own 1");
	test_settle(&test);
	test_assert_same(&test);
	assert_true(test_has(&test, 0, "own"));
	assert_int_equal(test_stats(&test).reconciles_identity, reconciles);
	test_server_stop(&primary);
	test_end(&test);
}

static void the_operator_may_ask_for_a_reconcile(void **state)
{
	begin("");
	test_ask(&test, "SET old:1 v");
	test_settle(&test);
	/* Behind everybody's back. */
	kw_table_delete(test.table, 1, kw_slice_text("key:3"));
	kw_table_put(test.table, 1, kw_slice_text("ghost"), kw_slice_text("payload"), 0);
	kw_source_reconcile(test.source, "asked by the test");
	assert_string_equal(test.states, "");
	test_until_state(&test, KW_SOURCE_RECONCILING);
	assert_string_equal(kw_source_reason(test.source), "asked by the test");
	expect_reconcile();
	assert_string_equal(test.states, "reconciling live ");
	assert_int_equal(test_stats(&test).reconciles_asked, 1);
	test_end(&test);
}

static void doubt_during_a_reconcile_begins_it_again(void **state)
{
	begin("");
	for (int i = 0; i < 20; i++) {
		kw_source_reconcile(test.source, "asked by the test");
		test_run_ms(&test, 1);
		test_post(&test, "SET key:%d changed", i);
	}
	expect_reconcile();
	assert_int_equal(test_stats(&test).reconciles_asked, 20);
	test_end(&test);
}

static bool ghost_is_gone(struct test *t)
{
	return !test_has(t, 1, "ghost") && test_has(t, 1, "key:3");
}

static void the_audit_mends_without_leaving_live(void **state)
{
	test.options.audit_keys_per_second = 0;
	begin("");
	kw_source_set_limits(test.source, 0, 0, 5000);
	kw_table_delete(test.table, 1, kw_slice_text("key:3"));
	kw_table_put(test.table, 1, kw_slice_text("ghost"), kw_slice_text("payload"), 0);
	test_until(&test, ghost_is_gone, "the audit");
	test_settle(&test);
	test_assert_same(&test);
	assert_string_equal(test.states, "");
	assert_true(test_stats(&test).reconciles_audit >= 1);
	kw_source_reconcile(test.source, "pre-empts an audit");
	test_until_state(&test, KW_SOURCE_RECONCILING);
	expect_reconcile();
	test_end(&test);
}

static bool an_audit_reconciled(struct test *t)
{
	return test_stats(t).reconciles_audit >= 1;
}

/* 100 keys a second would be 100 MB a second of these, for ever. */
static void the_audit_counts_the_bytes_of_large_values(void **state)
{
	uint64_t before;

	test.options.audit_keys_per_second = 0;
	begin("--rdbcompression no");
	for (int i = 0; i < 20; i++)
		test_ask(&test, "SETRANGE large:%d 1000000 x", i);
	test_settle(&test);
	before = test_stats(&test).fetched_bytes;
	kw_source_set_limits(test.source, 0, 0, 100);
	test_run_ms(&test, 2000);
	test_until(&test, an_audit_reconciled, "an audit");
	assert_in_range(test_stats(&test).fetched_bytes - before, 0, 8000000);
	test_end(&test);
}

static void freshness_is_not_claimed_while_in_doubt(void **state)
{
	const struct kw_superblock *superblock;

	begin("");
	superblock = (const struct kw_superblock *)test.memory;
	assert_true(superblock->fresh_us > 0);
	test_ask(&test, "SWAPDB 0 1");
	test_until_state(&test, KW_SOURCE_RECONCILING);
	test_run_ms(&test, 1);
	kw_table_publish(test.table, 1);
	assert_true(superblock->fresh_us == 0 || test_is_live(&test));
	expect_reconcile();
	test_end(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flush_of_one_database_spares_the_others),
		cmocka_unit_test(a_flush_of_everything_empties_the_table),
		cmocka_unit_test(a_flush_of_nothing_costs_nothing),
		cmocka_unit_test(a_flush_beside_a_swap_is_no_loss),
		cmocka_unit_test(a_database_flushed_and_filled_again_is_reconciled),
		cmocka_unit_test(flushes_under_load_end_equal),
		cmocka_unit_test(a_flush_during_the_scan_leaves_nothing_behind),
		cmocka_unit_test(swapdb_is_found),
		cmocka_unit_test(reset_counters_are_not_trusted),
		cmocka_unit_test(counters_reset_twice_are_not_trusted_either),
		cmocka_unit_test(debug_reload_is_found),
		cmocka_unit_test(flags_switched_off_are_found),
		cmocka_unit_test(flags_put_back_between_two_looks_are_found),
		cmocka_unit_test(a_single_config_set_costs_nothing),
		cmocka_unit_test(many_config_sets_do_not_keep_a_reconcile_from_its_end),
		cmocka_unit_test(many_config_sets_do_not_disturb_the_first_scan),
		cmocka_unit_test(a_doubt_every_moment_does_not_keep_the_first_scan_from_its_end),
		cmocka_unit_test(a_table_in_doubt_behind_the_first_scan_is_not_complete),
		cmocka_unit_test(doubt_without_end_is_named_and_lets_agents_begin),
		cmocka_unit_test(a_killed_connection_is_found),
		cmocka_unit_test(an_overrun_output_buffer_is_found),
		cmocka_unit_test(a_restarted_server_is_found),
		cmocka_unit_test(a_server_that_dies_as_a_scan_begins_is_found),
		cmocka_unit_test(a_server_that_comes_later_is_followed),
		cmocka_unit_test(a_changed_role_is_found),
		cmocka_unit_test(the_operator_may_ask_for_a_reconcile),
		cmocka_unit_test(doubt_during_a_reconcile_begins_it_again),
		cmocka_unit_test(the_audit_mends_without_leaving_live),
		cmocka_unit_test(the_audit_counts_the_bytes_of_large_values),
		cmocka_unit_test(freshness_is_not_claimed_while_in_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
