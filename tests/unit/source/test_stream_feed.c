/* The feed of the replication stream, by a source that follows a real server. */
#include "fixture.h"

#include "source/latest.h"
#include "source/source_internal.h"
#include "source/swap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* A first attach is a full synchronisation, for which servers wait some seconds by default. */
#define AT_ONCE "--repl-diskless-sync-delay 0 "

static void begin_as(struct test *test, const char *words, enum kw_source_feed kind)
{
	test_begin(test, words, 0);
	test->options.watch_interval_ms = 50;
	test->options.kind = kind;
}

static void follow(struct test *test, const char *words)
{
	begin_as(test, words, KW_SOURCE_FEED_STREAM);
	test_follow(test);
	test_settle(test);
}

static void end_same(struct test *test)
{
	test_settle(test);
	test_assert_same(test);
	test_end(test);
}

static const char *const changes[] = {"SET string value", "APPEND string more", "INCRBY number 7",
	"SETRANGE string 3 xyz", "SET expiring v PX 1000000", "SET kept v EX 1000",
	"SET kept w KEEPTTL", "GETEX expiring PERSIST", "EXPIRE number 500", "PERSIST number",
	"PEXPIREAT string 4102444800123", "RPUSH list a b c", "LPOP list", "SADD set a b c",
	"SPOP set", "ZADD zset 1 a 2 b", "HSET hash f v", "HDEL hash f", "PFADD hll a b c",
	"PFCOUNT hll", "XADD stream 1-1 f v", "XGROUP CREATE stream g 0",
	"XREADGROUP GROUP g c STREAMS stream >", "XACK stream g 1-1", "MSET a 1 b 2 c 3",
	"RENAME a renamed", "COPY b copied", "COPY b copied DB 9", "MOVE c 9", "DEL b",
	"GETDEL copied", "SET gone v", "EXPIRE gone -1", "SORT list ALPHA STORE sorted",
	"SETEX old 1000 v", "GETSET old new", "BITOP NOT inverted old", "SMOVE set moved nothing",
	"EVAL redis.call('SET','by:lua','1')redis.call('SELECT',9)redis.call('SET','lua','9') 0",
	NULL};

static void every_change_arrives(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	for (int i = 0; changes[i]; i++)
		test_ask(&test, "%s", changes[i]);
	test_settle(&test);
	test_assert_same(&test);
	assert_true(test_has(&test, 9, "lua"));
	assert_true(test_has(&test, 9, "c"));
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_int_equal(test_stats(&test).feed, KW_SOURCE_FEED_STREAM);
	assert_int_equal(test_stats(&test).flags, KW_FEED_FLAGS_UNUSED);
	end_same(&test);
}

static void each_change_is_seen_by_itself(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	for (int i = 0; changes[i]; i++) {
		test_ask(&test, "%s", changes[i]);
		test_settle(&test);
		if (!test_same(&test, true))
			fail_msg("after %s", changes[i]);
	}
	end_same(&test);
}

static void the_settings_of_the_server_stay_as_they_are(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	assert_string_equal(test_ask(&test, "CONFIG GET notify-keyspace-events"), "");
	end_same(&test);
}

/* Of the data of the server, as it says now. */
static const char *replid_of(struct test *test)
{
	static char id[41];
	const char *at = strstr(test_ask(test, "INFO replication"), "master_replid:");

	assert_non_null(at);
	snprintf(id, sizeof id, "%s", at + strlen("master_replid:"));
	return id;
}

/* How often INFO was called there: four times a look. */
static long infos(struct test *test)
{
	const char *at = strstr(test_ask(test, "INFO commandstats"), "cmdstat_info:calls=");

	return at ? strtol(at + strlen("cmdstat_info:calls="), NULL, 10) : 0;
}

static void await_looks(struct test *test)
{
	long first = infos(test);

	for (int i = 0; infos(test) < first + 40 + i; i++) {
		assert_true(i < 1000);
		test_run_ms(test, 20);
	}
}

/* It does so when its first reader attaches: that is no other server. */
static void a_new_id_that_the_server_takes_for_its_backlog_is_no_doubt(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	assert_string_equal(kw_table_history(test.table)->replid, replid_of(&test));
	await_looks(&test);
	assert_string_equal(kw_table_history(test.table)->replid, replid_of(&test));
	assert_int_equal(test_stats(&test).reconciles, 0);
	end_same(&test);
}

static void a_transaction_arrives_whole(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_post(&test, "MULTI");
	test_post(&test, "SET one 1");
	test_post(&test, "SELECT 3");
	test_post(&test, "SET two 2");
	test_post(&test, "SELECT 0");
	test_post(&test, "RENAME one three");
	test_ask(&test, "EXEC");
	test_settle(&test);
	assert_true(test_has(&test, 3, "two"));
	assert_true(test_has(&test, 0, "three"));
	assert_false(test_has(&test, 0, "one"));
	end_same(&test);
}

#define SETS_OF_ONE_TRANSACTION 1000 /* of 1 KiB: the socket brings it in many pieces */

/* Asked in each turn of the loop, as a reader would see it. */
static bool has_all_of_it(struct test *test)
{
	bool first = test_has(test, 0, "part:0"), last = test_has(test, 0, "part:999");

	if (first != last)
		fail_msg("the %s key of a transaction came alone", first ? "first" : "last");
	return last;
}

static void no_turn_of_the_loop_has_a_part_of_a_transaction(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	/* It is fetched: the offset is asked for from then on (order.h). */
	while (test_stats(&test).values == 0) {
		test_ask(&test, "SET first 1");
		test_settle(&test);
		test_run_ms(&test, 5);
	}
	test_post(&test, "MULTI");
	for (int i = 0; i < SETS_OF_ONE_TRANSACTION; i++)
		test_post(&test, "SET part:%d %01024d", i, i);
	test_post(&test, "EXEC");
	test_until(&test, has_all_of_it, "the transaction");
	end_same(&test);
}

static void an_empty_database_after_a_flush_costs_no_scan(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "MSET a 1 b 2");
	test_ask(&test, "SELECT 9");
	test_ask(&test, "MSET a 1 b 2");
	test_settle(&test);
	test_ask(&test, "FLUSHDB");
	test_settle(&test);
	assert_false(test_has(&test, 9, "a"));
	assert_true(test_has(&test, 0, "a"));
	test_ask(&test, "FLUSHALL");
	test_settle(&test);
	assert_false(test_has(&test, 0, "a"));
	assert_int_equal(test_stats(&test).reconciles, 0);
	end_same(&test);
}

static bool has_thousands(struct test *test)
{
	return kw_table_database_keys(test->table, 9) == 5000;
}

static bool is_audited(struct test *test)
{
	return test_stats(test).reconciles_audit > 1;
}

/* The audit's scan may find the keys gone before the flush is told. */
static void a_flush_in_the_midst_of_an_audit_is_no_loss(void **state)
{
	struct test test;

	begin_as(&test, AT_ONCE, KW_SOURCE_FEED_STREAM);
	test.options.audit_keys_per_second = 50000;
	test.options.max_missing = 0.2;
	test_follow(&test);
	test_settle(&test);
	for (int i = 0; i < 10; i++) {
		test_ask(&test, "SELECT 9");
		test_ask(&test, "EVAL for\ti=1,5000\tdo\tredis.call('SET','key:'..i,i)end 0");
		test_until(&test, has_thousands, "the keys");
		test_until(&test, is_audited, "an audit");
		test_ask(&test, "FLUSHDB");
		test_settle(&test);
		assert_int_equal(kw_table_database_keys(test.table, 9), 0);
	}
	assert_null(strstr(test.states, "held"));
	end_same(&test);
}

static bool is_counted(struct test *test)
{
	return test_stats(test).reconciles_flush > 0;
}

static void flush_and_write_again(struct test *test)
{
	test_post(test, "MULTI");
	test_post(test, "FLUSHDB");
	test_post(test, "SET new 1");
	test_post(test, "SET old:7 again");
	test_ask(test, "EXEC");
}

static bool is_renewed(struct test *test)
{
	bool old = test_has(test, 3, "old:8");

	if (old == test_has(test, 3, "new"))
		fail_msg("a part of a transaction with FLUSHDB came alone");
	return !old;
}

static void a_flush_in_a_transaction_is_seen_with_it(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "SELECT 3");
	for (int i = 0; i < 50; i++)
		test_ask(&test, "SET old:%d %d", i, i);
	test_settle(&test);
	flush_and_write_again(&test);
	test_until(&test, is_renewed, "the transaction");
	test_settle(&test);
	assert_int_equal(kw_table_database_keys(test.table, 3), 2);
	assert_int_equal(test_stats(&test).reconciles, 0);
	end_same(&test);
}

/* It is the first change that is told: what was scanned may be ahead of it. */
static void keys_of_both_sides_of_a_flush_are_a_doubt(void **state)
{
	struct test test;

	begin_as(&test, AT_ONCE, KW_SOURCE_FEED_STREAM);
	test_ask(&test, "SELECT 3");
	for (int i = 0; i < 50; i++)
		test_ask(&test, "SET old:%d %d", i, i);
	test_follow(&test);
	test_settle(&test);
	flush_and_write_again(&test);
	test_until(&test, is_counted, "the flush is no doubt");
	test_settle(&test);
	assert_int_equal(kw_table_database_keys(test.table, 3), 2);
	end_same(&test);
}

static bool is_swapped(struct test *test)
{
	return test_stats(test).reconciles_swapdb > 0;
}

static bool is_in_its_new_place(struct test *test)
{
	bool there = test_has(test, 0, "nine");

	if (there == test_has(test, 9, "nine") || there != test_has(test, 9, "a") ||
		there != test_has(test, 9, "after"))
		fail_msg("a part of a transaction with SWAPDB came alone");
	return there;
}

static void swapped_databases_are_swapped_in_the_table(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "MSET a 1 b 2 both 3");
	test_ask(&test, "HSET hash f v");
	test_ask(&test, "SELECT 9");
	test_ask(&test, "SET nine 9 PXAT 4102444800123");
	test_ask(&test, "SET both 10");
	test_settle(&test);
	test_post(&test, "MULTI");
	test_post(&test, "SWAPDB 0 9");
	test_post(&test, "SET after 1");
	test_ask(&test, "EXEC");
	test_until(&test, is_in_its_new_place, "the transaction");
	test_settle(&test);
	test_ask(&test, "SWAPDB 3 3");
	test_ask(&test, "SWAPDB 3 9"); /* database 3 has no key */
	test_settle(&test);
	assert_true(test_has(&test, 3, "hash"));
	assert_int_equal(kw_table_database_keys(test.table, 9), 0);
	assert_int_equal(test_stats(&test).reconciles, 0);
	end_same(&test);
}

/* A loop turn does no more than KW_SWAP_KEYS. */
static void large_databases_that_are_swapped_are_read_again(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "SELECT 9");
	test_ask(&test, "SET nine 9");
	test_ask(&test, "EVAL for\ti=1,%d\tdo\tredis.call('SET','key:'..i,i)end 0", KW_SWAP_KEYS);
	test_settle(&test);
	test_ask(&test, "SWAPDB 0 9");
	test_until(&test, is_swapped, "SWAPDB is no doubt");
	test_settle(&test);
	assert_true(test_has(&test, 0, "nine"));
	end_same(&test);
}

static bool is_cut(struct test *test)
{
	return strstr(test->states, "source_down") != NULL;
}

static void a_stream_that_was_cut_goes_on_without_a_scan(void **state)
{
	uint64_t scanned;
	struct test test;

	follow(&test, AT_ONCE);
	for (int i = 0; i < 50; i++)
		test_ask(&test, "SET key:%d %d", i, i);
	test_settle(&test);
	scanned = test_stats(&test).scanned;
	test_post(&test, "CLIENT KILL TYPE replica");
	for (int i = 0; i < 50; i++)
		test_post(&test, "SET key:%d again", i);
	test_ask(&test, "DEL key:7");
	test_until(&test, is_cut, "nobody noticed");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_int_equal(test_stats(&test).scanned, scanned);
	end_same(&test);
}

static void the_end_of_the_data_connection_costs_no_scan_either(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "SET key 1");
	test_settle(&test);
	test_post(&test, "CLIENT KILL TYPE normal SKIPME yes");
	test_post(&test, "SET key 2");
	test_ask(&test, "SET other 1");
	test_until(&test, is_cut, "nobody noticed");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	end_same(&test);
}

static bool is_reconciled(struct test *test)
{
	return test_stats(test).reconciles_connection > 0;
}

static long forks(struct test *test)
{
	const char *at = strstr(test_ask(test, "INFO stats"), "total_forks:");

	assert_non_null(at);
	return strtol(at + strlen("total_forks:"), NULL, 10);
}

/* The server has a backlog, so the stream goes on from now, without a fork. */
static void a_gap_beyond_the_backlog_is_a_reconcile(void **state)
{
	static char big[20000];
	const struct kw_slice argv[] = {
		kw_slice_text("SET"), kw_slice_text("big"), kw_slice(big, sizeof big)};
	struct test test;
	long before;

	follow(&test, AT_ONCE "--repl-backlog-size 16384");
	test_ask(&test, "SET key 1");
	test_settle(&test);
	before = forks(&test);
	test_post(&test, "MULTI");
	test_post(&test, "CLIENT KILL TYPE replica");
	for (int i = 0; i < 40; i++)
		test_send(&test, 3, argv);
	test_post(&test, "DEL key");
	test_post(&test, "EXEC");
	test_ask(&test, "SET behind 1"); /* the backlog is cut when something is added */
	test_until(&test, is_reconciled, "no reconcile after a gap");
	test_settle(&test);
	assert_int_equal(forks(&test), before);
	end_same(&test);
}

#define FILL "EVAL for\ti=1,3000\tdo\tredis.call('SET','key:'..i,i)end 0"
#define TAKE "EVAL for\ti=1,2000\tdo\tredis.call('DEL','key:'..i)end 0"

/* Two thirds of the keys of database 0 go, in a gap that the backlog does not bridge. */
static void lose_keys(struct test *test, const char *flush)
{
	test_ask(test, "SELECT 0");
	test_post(test, "MULTI");
	test_post(test, "CLIENT KILL TYPE replica");
	test_post(test, "%s", TAKE);
	if (flush)
		test_post(test, "%s", flush);
	test_post(test, "EXEC");
	test_ask(test, "SET behind 1");
}

/* Each database is a step of an audit at least, also if it is empty by then. */
static void write_to_others(struct test *test)
{
	for (int db = 1; db < 16; db++) {
		test_ask(test, "SELECT %d", db);
		test_ask(test, "SET key 1");
	}
}

static void follow_many(struct test *test)
{
	follow(test, AT_ONCE "--repl-backlog-size 16384");
	test_ask(test, FILL);
	write_to_others(test);
	test_settle(test);
}

/* The brake is on: promise 8. */
static void a_flush_that_was_told_explains_no_later_loss(void **state)
{
	struct test test;

	follow_many(&test);
	test_ask(&test, "FLUSHDB");
	test_settle(&test);
	await_looks(&test);
	lose_keys(&test, NULL);
	test_until_state(&test, KW_SOURCE_HELD);
	assert_true(test_has(&test, 0, "key:1"));
	test_end(&test);
}

static bool is_audit_scanning(struct test *test)
{
	const struct kw_sweep *sweep = &test->source->sweep;

	return sweep->kind == KW_SWEEP_AUDIT && sweep->sm.state == KW_SWEEP_SCANNING &&
	       sweep->scanned > 0;
}

/*
 * An audit takes hours, and keeps what explains the absence of keys until it ends. This one asks
 * for a key a second, of database 0 first.
 */
static void flush_during_an_audit(struct test *test, const char *flush)
{
	kw_source_set_limits(test->source, 0, 0, 1);
	test_until(test, is_audit_scanning, "the first step of the audit");
	test_ask(test, "%s", flush);
	test_settle(test);
	test_ask(test, "SELECT 9"); /* the stream tells its database, if it did not yet */
	test_ask(test, "SET key 2");
	test_ask(test, "SELECT 0");
	test_ask(test, FILL);
	test_settle(test);
	await_looks(test);
	/* Its end would end the explanation, too. */
	assert_int_equal(test->source->sweep.kind, KW_SWEEP_AUDIT);
	assert_int_equal(test_stats(test).reconciles_audit, 1);
	assert_int_equal(test_stats(test).reconciles, 0);
}

static void assert_a_loss_is_held(struct test *test)
{
	lose_keys(test, NULL);
	test_until_state(test, KW_SOURCE_HELD);
	assert_true(test_has(test, 0, "key:1"));
	test_end(test);
}

static void a_flush_during_an_audit_explains_no_later_loss(void **state)
{
	struct test test;

	follow_many(&test);
	test_ask(&test, "SELECT 0");
	flush_during_an_audit(&test, "FLUSHDB");
	assert_a_loss_is_held(&test);
}

/* INFO keyspace is asked about the first change of all: the order of the stream is not known. */
static void the_first_change_during_an_audit(struct test *test, int database, const char *flush)
{
	begin_as(test, AT_ONCE "--repl-backlog-size 16384", KW_SOURCE_FEED_STREAM);
	write_to_others(test);
	test_ask(test, "SELECT %d", database);
	test_ask(test, FILL);
	test_ask(test, "SELECT 0");
	test_follow(test);
	test_settle(test);
	flush_during_an_audit(test, flush);
	assert_a_loss_is_held(test);
}

static void a_flush_that_was_asked_about_explains_no_later_loss(void **state)
{
	struct test test;

	the_first_change_during_an_audit(&test, 0, "FLUSHDB");
	the_first_change_during_an_audit(&test, 0, "FLUSHALL");
}

static void a_flush_of_what_the_table_has_not_explains_no_later_loss(void **state)
{
	struct test test;

	the_first_change_during_an_audit(&test, 9, "FLUSHDB");
}

static void a_flush_in_a_gap_explains_what_is_missing(void **state)
{
	struct test test;

	follow_many(&test);
	lose_keys(&test, "FLUSHDB");
	test_until(&test, is_reconciled, "no reconcile after a gap");
	test_settle(&test);
	assert_null(strstr(test.states, "held"));
	end_same(&test);
}

/* The backlog goes on without a SELECT, and PUBLISH cannot tell which database it is. */
static void follow_unlocated(struct test *test)
{
	follow(test, AT_ONCE "--user default on nopass ~* &* +@all -publish");
	test_ask(test, "SELECT 9");
	test_ask(test, "SET key 1");
	test_ask(test, "SELECT 0");
	test_ask(test, FILL);
	test_settle(test);
	test_leave(test);
	test->states[0] = '\0';
	test_follow(test);
	test_settle(test);
}

/* The backlog goes on without a SELECT, and no other database is written to. */
static void assert_values_are_taken(struct test *test)
{
	uint64_t before = test_stats(test).values;

	for (int i = 0; i < 20; i++) {
		test_ask(test, "SET key %d", i);
		test_run_ms(test, 20);
	}
	test_settle(test);
	assert_true(test_stats(test).values >= before + 10);
	assert_int_equal(test_stats(test).reconciles_connection, 0);
}

static void follow_again(struct test *test)
{
	test_leave(test);
	test_follow(test);
	test_settle(test);
}

static void the_one_database_that_is_followed_is_found(void **state)
{
	static const int64_t databases[] = {0};
	struct test test;

	begin_as(&test, AT_ONCE, KW_SOURCE_FEED_STREAM);
	test.options.databases = databases;
	test.options.database_count = 1;
	test_follow(&test);
	test_ask(&test, "SET key 1");
	test_settle(&test);
	follow_again(&test);
	assert_values_are_taken(&test);
	end_same(&test);
}

/* Nothing has to be published for that. */
static void the_one_database_of_a_server_is_known(void **state)
{
	struct test test;

	follow(&test, AT_ONCE "--databases 1 --user default on nopass ~* &* +@all -publish");
	test_ask(&test, "SET key 1");
	test_settle(&test);
	follow_again(&test);
	assert_values_are_taken(&test);
	end_same(&test);
}

/* It is named in a warning, and the others are followed. */
static void a_database_beyond_all_that_are_followed_breaks_nothing(void **state)
{
	static const int64_t databases[] = {0};
	struct test test;

	begin_as(&test, AT_ONCE "--databases 70000", KW_SOURCE_FEED_STREAM);
	test.options.databases = databases;
	test.options.database_count = 1;
	test_follow(&test);
	test_settle(&test);
	for (int i = 0; i < 5; i++) {
		test_ask(&test, "SELECT 66000");
		test_ask(&test, "SET beyond %d", i);
		test_ask(&test, "SELECT 0");
		test_ask(&test, "SET other:%d 1", i);
		test_ask(&test, "MOVE other:%d 66000", i);
		test_ask(&test, "SET key %d", i);
	}
	test_settle(&test);
	assert_values_are_taken(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	end_same(&test);
}

static void a_flush_of_a_database_that_is_not_known_explains_no_later_loss(void **state)
{
	struct test test;

	follow(&test, AT_ONCE "--repl-backlog-size 16384 "
			      "--user default on nopass ~* &* +@all -publish");
	test_ask(&test, FILL);
	test_settle(&test);
	follow_again(&test);
	flush_during_an_audit(&test, "FLUSHDB");
	assert_a_loss_is_held(&test);
}

static void a_flush_of_a_database_that_is_not_known_empties_it(void **state)
{
	struct test test;

	follow_unlocated(&test);
	test_ask(&test, "FLUSHDB");
	test_settle(&test);
	assert_int_equal(kw_table_database_keys(test.table, 0), 0);
	assert_true(test_has(&test, 9, "key"));
	assert_null(strstr(test.states, "held"));
	end_same(&test);
}

static void keys_after_a_flush_of_a_database_that_is_not_known_are_a_doubt(void **state)
{
	struct test test;

	follow_unlocated(&test);
	test_post(&test, "MULTI");
	test_post(&test, "FLUSHDB");
	test_post(&test, "SET new 1");
	test_ask(&test, "EXEC");
	test_until(&test, is_counted, "the flush is no doubt");
	test_settle(&test);
	assert_int_equal(kw_table_database_keys(test.table, 0), 1);
	assert_null(strstr(test.states, "held"));
	end_same(&test);
}

static bool takes_a_value(struct test *test)
{
	uint64_t values = test_stats(test).values;

	test_ask(test, "SET key:1 again");
	test_settle(test);
	return test_stats(test).values > values;
}

/* PUBLISH cannot tell. Each change is looked for in all databases, and soon that costs more than a
 * fork. */
static void after_some_changes_a_synchronisation_tells_the_database(void **state)
{
	struct test test;
	uint64_t fetches;
	long before;

	follow_unlocated(&test);
	before = forks(&test);
	test_ask(&test, "SET key:1 first");
	test_settle(&test);
	assert_int_equal(forks(&test), before);
	for (int i = 0; i < 300; i++)
		test_ask(&test, "SET key:%d %d", i, i);
	test_until(&test, takes_a_value, "its database is not found out");
	test_settle(&test);
	fetches = test_stats(&test).fetches;
	for (int i = 0; i < 300; i++)
		test_ask(&test, "SET key:%d again", i);
	test_settle(&test);
	assert_int_equal(test_stats(&test).fetches, fetches);
	assert_int_equal(forks(&test), before + 1);
	assert_int_equal(test_stats(&test).reconciles, 0);
	end_same(&test);
}

/* More than a transaction may keep. */
static void a_script_that_deletes_most_keys_is_no_loss(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "EVAL for\ti=1,400000\tdo\tredis.call('SET',i,i)end 0");
	test_settle(&test);
	test_ask(&test, "EVAL for\ti=1,300000\tdo\tredis.call('DEL',i)end 0");
	test_settle(&test);
	assert_int_equal(kw_table_database_keys(test.table, 0), 100000);
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_null(strstr(test.states, "held"));
	test_end(&test);
}

static bool is_ended(struct test *test)
{
	if (waitpid(test->server.pid, NULL, WNOHANG) != test->server.pid)
		return false;
	test->server.pid = 0;
	return true;
}

static void a_shutdown_does_not_wait_for_a_reader(void **state)
{
	struct test test;

	follow(&test, AT_ONCE "--shutdown-timeout 3600");
	test_ask(&test, "SET key 1");
	test_settle(&test);
	test_post(&test, "SHUTDOWN NOSAVE");
	test_until(&test, is_ended, "the server waits for its reader");
	test_end(&test);
}

static bool is_another(struct test *test)
{
	return test_stats(test).reconciles_identity > 0;
}

static void another_run_of_the_server_is_a_reconcile(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "SET key 1");
	test_settle(&test);
	test_server_kill(&test.server);
	test_server_again(&test.server, AT_ONCE);
	test_reconnect(&test);
	test_ask(&test, "SET new 1");
	test_until(&test, is_another, "another run was not noticed");
	end_same(&test);
}

/* The first had written more than 32 MiB: a stream that is so far behind sheds values. */
static void offsets_of_another_run_are_not_compared(void **state)
{
	struct test test;
	uint64_t shed;

	follow(&test, AT_ONCE);
	test_ask(&test,
		"EVAL for\ti=1,40\tdo\tredis.call('SET','large',string.rep('x',1000000))end 0");
	test_settle(&test);
	shed = test_stats(&test).values_shed;
	test_server_kill(&test.server);
	test_server_again(&test.server, AT_ONCE);
	test_reconnect(&test);
	test_ask(&test, "SET key:1 1");
	test_until(&test, is_another, "another run was not noticed");
	test_settle(&test);
	test_until(&test, takes_a_value, "values are shed");
	assert_int_equal(test_stats(&test).values_shed, shed);
	assert_int_equal(test_stats(&test).behind_bytes, 0);
	end_same(&test);
}

static void it_is_no_replica_that_wait_counts(void **state)
{
	struct test test;

	follow(&test, AT_ONCE);
	test_ask(&test, "SET key 1");
	test_settle(&test);
	test_ask(&test, "WAIT 1 50");
	assert_int_equal(test.integer, 0);
	end_same(&test);
}

static bool is_refused(struct test *test)
{
	return strstr(kw_source_reason(test->source), "min-replicas-to-write") != NULL;
}

/* Before it follows, and while it does. */
static void a_server_that_counts_its_replicas_is_refused(void **state)
{
	struct test test;

	begin_as(&test, AT_ONCE "--min-replicas-to-write 1", KW_SOURCE_FEED_STREAM);
	test_follow(&test);
	test_until(&test, is_refused, "min-replicas-to-write was ignored");
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_DOWN);
	test_ask(&test, "CONFIG SET min-replicas-to-write 0");
	test_settle(&test);
	test_ask(&test, "CONFIG SET min-replicas-to-write 1");
	test_until(&test, is_refused, "min-replicas-to-write was ignored");
	test_end(&test);
}

static void auto_takes_notifications_if_the_stream_is_refused(void **state)
{
	struct test test;

	begin_as(&test, AT_ONCE "--min-replicas-to-write 1 --min-replicas-max-lag 10",
		KW_SOURCE_FEED_AUTO);
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_LIVE);
	assert_int_equal(test_stats(&test).feed, KW_SOURCE_FEED_NOTIFICATIONS);
	assert_non_null(strstr(test_stats(&test).feed_why, "min-replicas-to-write"));
	test_ask(&test, "CONFIG SET min-replicas-to-write 0");
	test_ask(&test, "SET key 1");
	test_settle(&test);
	assert_true(test_has(&test, 0, "key"));
	end_same(&test);
}

/* What one feed told stands, and the other one reads all again. */
static void auto_changes_its_feed_while_it_follows(void **state)
{
	struct test test;

	begin_as(&test, AT_ONCE, KW_SOURCE_FEED_AUTO);
	test_follow(&test);
	test_settle(&test);
	assert_int_equal(test_stats(&test).feed, KW_SOURCE_FEED_STREAM);
	test_ask(&test, "SET key 1");
	test_settle(&test);
	test_ask(&test, "CONFIG SET min-replicas-to-write 1");
	test_until(&test, is_reconciled, "the feed was not changed");
	test_ask(&test, "CONFIG SET min-replicas-to-write 0");
	test_ask(&test, "SET key 2");
	test_settle(&test);
	assert_int_equal(test_stats(&test).feed, KW_SOURCE_FEED_NOTIFICATIONS);
	end_same(&test);
}

static void auto_takes_the_stream_if_it_is_allowed(void **state)
{
	struct test test;

	begin_as(&test, AT_ONCE, KW_SOURCE_FEED_AUTO);
	test_follow(&test);
	test_settle(&test);
	test_ask(&test, "SET key 1");
	test_settle(&test);
	assert_int_equal(test_stats(&test).feed, KW_SOURCE_FEED_STREAM);
	assert_true(test_has(&test, 0, "key"));
	end_same(&test);
}

/* A key of a few. */
static const char *one_of(uint64_t *random)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

	*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return names[*random >> 61];
}

static void post_any(struct test *test, uint64_t *random)
{
	const char *key = one_of(random), *to = one_of(random);

	one_of(random);
	if ((*random >> 40) % 500 == 0)
		test_post(test, "FLUSHDB");
	if ((*random >> 42) % 500 == 0)
		test_post(test, "SWAPDB 0 9");
	switch ((*random >> 33) % 17) {
	case 0:
	case 1:
	case 2:
		test_post(test, "SET %s %d PX 10000000", key, (int)(*random >> 58));
		break;
	case 3:
	case 4:
		test_post(test, "SET %s %d", key, (int)(*random >> 58));
		break;
	case 5:
		test_post(test, "SET %s %d KEEPTTL", key, (int)(*random >> 58));
		break;
	case 6:
		test_post(test, "SETBIT %s 5 1", key); /* the stream does not tell the value */
		break;
	case 7:
	case 8:
	case 9:
		test_post(test, "COPY %s %s REPLACE", key, to);
		break;
	case 10:
		test_post(test, "RENAME %s %s", key, to);
		break;
	case 11:
		test_post(test, "DEL %s", key);
		break;
	case 12:
		test_post(test, "PERSIST %s", key);
		break;
	case 13:
		test_post(test, "APPEND %s 1", key);
		break;
	default:
		test_post(test, "INCR %s", key);
		break;
	}
}

/* LZF rests after so many that it cannot pack. The server packs what comes then. */
static void a_string_that_was_told_plain_is_not_stored_again(void **state)
{
	char text[128];
	struct test test;
	uint64_t version;

	follow(&test, AT_ONCE);
	for (int i = 0; i < 2 * KW_LATEST_VAIN; i++)
		test_ask(&test, "SET plain:%d 0123456789abcdefghijklmnopqrstuvwxyz", i);
	memset(text, 'a', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	for (int i = 0; i < 3; i++)
		test_ask(&test, "SET packed:%d %s", i, text);
	test_settle(&test);
	version = kw_table_version(test.table);
	kw_source_reconcile(test.source, "asked");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_settle(&test);
	assert_int_equal(kw_table_version(test.table), version);
	end_same(&test);
}

/* One command, so that its stream is there at once: 160 MB, of 50 keys. */
#define FLOOD_KEYS "for\ti=1,5000\tdo\tredis.call('SET','k'..i%%50,i..string.rep('x',32768))end"
#define FLOOD "EVAL " FLOOD_KEYS " 0"

static void a_stream_that_is_far_behind_tells_keys_and_no_values(void **state)
{
	struct test test;
	struct kw_source_stats stats;

	follow(&test, AT_ONCE "--client-output-buffer-limit replica 0 0 0");
	test_ask(&test, FLOOD);
	test_settle(&test);
	stats = test_stats(&test);
	assert_true(stats.values_shed > 0);
	assert_true(stats.values + stats.values_shed <= 5000);
	assert_int_equal(stats.reconciles, 0);
	end_same(&test);
}

static void values_that_are_not_followed_are_not_shed(void **state)
{
	static const int64_t databases[] = {0};
	struct test test;

	begin_as(
		&test, AT_ONCE "--client-output-buffer-limit replica 0 0 0", KW_SOURCE_FEED_STREAM);
	test.options.databases = databases;
	test.options.database_count = 1;
	test_follow(&test);
	test_settle(&test);
	test_ask(&test, "EVAL redis.call('SELECT',3)" FLOOD_KEYS " 0");
	test_ask(&test, "SET followed value");
	test_settle(&test);
	assert_int_equal(test_stats(&test).values_shed, 0);
	end_same(&test);
}

/* All changes of a few keys, faster than they can be fetched. */
static void a_storm_of_changes_arrives(void **state)
{
	uint64_t random = 1;
	struct test test;

	follow(&test, AT_ONCE);
	for (int round = 0; round < 120; round++) {
		for (int i = 0; i < 200 << (round % 6); i++)
			post_any(&test, &random);
		test_ask(&test, "PING");
		test_settle(&test);
		if (!test_same(&test, true))
			fail_msg("after %d rounds", round + 1);
	}
	end_same(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_storm_of_changes_arrives),
		cmocka_unit_test(every_change_arrives),
		cmocka_unit_test(each_change_is_seen_by_itself),
		cmocka_unit_test(the_settings_of_the_server_stay_as_they_are),
		cmocka_unit_test(a_new_id_that_the_server_takes_for_its_backlog_is_no_doubt),
		cmocka_unit_test(a_transaction_arrives_whole),
		cmocka_unit_test(no_turn_of_the_loop_has_a_part_of_a_transaction),
		cmocka_unit_test(an_empty_database_after_a_flush_costs_no_scan),
		cmocka_unit_test(a_flush_in_the_midst_of_an_audit_is_no_loss),
		cmocka_unit_test(a_flush_in_a_transaction_is_seen_with_it),
		cmocka_unit_test(keys_of_both_sides_of_a_flush_are_a_doubt),
		cmocka_unit_test(swapped_databases_are_swapped_in_the_table),
		cmocka_unit_test(large_databases_that_are_swapped_are_read_again),
		cmocka_unit_test(a_stream_that_was_cut_goes_on_without_a_scan),
		cmocka_unit_test(the_end_of_the_data_connection_costs_no_scan_either),
		cmocka_unit_test(a_gap_beyond_the_backlog_is_a_reconcile),
		cmocka_unit_test(a_flush_that_was_told_explains_no_later_loss),
		cmocka_unit_test(a_flush_during_an_audit_explains_no_later_loss),
		cmocka_unit_test(a_flush_that_was_asked_about_explains_no_later_loss),
		cmocka_unit_test(a_flush_of_what_the_table_has_not_explains_no_later_loss),
		cmocka_unit_test(a_flush_in_a_gap_explains_what_is_missing),
		cmocka_unit_test(the_one_database_that_is_followed_is_found),
		cmocka_unit_test(the_one_database_of_a_server_is_known),
		cmocka_unit_test(a_database_beyond_all_that_are_followed_breaks_nothing),
		cmocka_unit_test(a_flush_of_a_database_that_is_not_known_explains_no_later_loss),
		cmocka_unit_test(a_flush_of_a_database_that_is_not_known_empties_it),
		cmocka_unit_test(keys_after_a_flush_of_a_database_that_is_not_known_are_a_doubt),
		cmocka_unit_test(after_some_changes_a_synchronisation_tells_the_database),
		cmocka_unit_test(a_script_that_deletes_most_keys_is_no_loss),
		cmocka_unit_test(a_string_that_was_told_plain_is_not_stored_again),
		cmocka_unit_test(a_stream_that_is_far_behind_tells_keys_and_no_values),
		cmocka_unit_test(values_that_are_not_followed_are_not_shed),
		cmocka_unit_test(a_shutdown_does_not_wait_for_a_reader),
		cmocka_unit_test(another_run_of_the_server_is_a_reconcile),
		cmocka_unit_test(offsets_of_another_run_are_not_compared),
		cmocka_unit_test(it_is_no_replica_that_wait_counts),
		cmocka_unit_test(a_server_that_counts_its_replicas_is_refused),
		cmocka_unit_test(auto_takes_notifications_if_the_stream_is_refused),
		cmocka_unit_test(auto_changes_its_feed_while_it_follows),
		cmocka_unit_test(auto_takes_the_stream_if_it_is_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
