/* Following a real server: what it holds and every way it changes. */
#include "base/clock.h"
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void every_key_there_before_is_in_the_table(void **state)
{
	struct test test;
	char big[70000];
	struct kw_slice argv[3] = {
		kw_slice_text("SET"), kw_slice("\0b\r\nx\xff", 6), kw_slice("\0\r\n", 3)};

	test_begin(&test, "", 0);
	test_ask(&test, "SET string value");
	test_ask(&test, "SET number 12345");
	test_ask(&test, "SET expiring value PX 1000000");
	test_ask(&test, "RPUSH list a b c");
	test_ask(&test, "SADD set a b c");
	test_ask(&test, "SADD ints 1 2 3");
	test_ask(&test, "ZADD zset 1 a 2 b");
	test_ask(&test, "HSET hash f v g w");
	test_ask(&test, "XADD stream 1-1 f v");
	test_ask(&test, "PFADD hll a b c");
	test_ask(&test, "SETBIT bits 1000 1");
	test_ask(&test, "GEOADD geo 13.36 38.11 Palermo");
	test_send(&test, 3, argv);
	argv[1] = kw_slice("", 0);
	test_send(&test, 3, argv);
	memset(big, 'x', sizeof big);
	argv[1] = kw_slice_text("big");
	argv[2] = kw_slice(big, sizeof big);
	test_send(&test, 3, argv);
	test_ask(&test, "SELECT 9");
	test_ask(&test, "SET nine 9 EX 5000");
	test_ask(&test, "SELECT 10");
	test_ask(&test, "DEBUG POPULATE 5000 ten 50");
	test_ask(&test, "SELECT 15");
	test_ask(&test, "DEBUG POPULATE 20 fifteen 100000");
	test_ask(&test, "SELECT 0");
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_LIVE);
	assert_string_equal(test.states, "scanning live ");
	test_assert_same(&test);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).scanned, test_stats(&test).scan_total);
	test_end(&test);
}

static void an_empty_server_is_complete_at_once(void **state)
{
	const struct kw_superblock *superblock;
	struct test test;

	test_begin(&test, "", 0);
	test_follow(&test);
	test_settle(&test);
	superblock = (const struct kw_superblock *)test.memory;
	assert_int_equal(superblock->complete, 1);
	assert_true(superblock->rdb_version >=
		    9); /* known without a payload, by the server's version */
	assert_int_equal(superblock->source_state, KW_SOURCE_LIVE);
	assert_true(llabs(test_stats(&test).clock_skew_us) < 100000);
	test_assert_same(&test);
	test_end(&test);
}

static void every_change_arrives(void **state)
{
	struct test test;

	test_begin(&test, "", 0);
	test_ask(&test, "SET before 1");
	test_follow(&test);
	test_settle(&test);
	test_ask(&test, "SET string value");
	test_ask(&test, "APPEND string more");
	test_ask(&test, "SET lasting value PX 500000");
	test_ask(&test, "PERSIST lasting");
	test_ask(&test, "SET timed value");
	test_ask(&test, "PEXPIREAT timed 4102444800123");
	test_ask(&test, "SET getex v");
	test_ask(&test, "GETEX getex EX 5000");
	test_ask(&test, "RPUSH list c a b");
	test_ask(&test, "SORT list ALPHA STORE sorted");
	test_ask(&test, "COPY list copied");
	test_ask(&test, "COPY list copied DB 12");
	test_ask(&test, "HSET hash a 1");
	test_ask(&test, "HINCRBY hash a 5");
	test_ask(&test, "ZADD z 1 a");
	test_ask(&test, "ZINCRBY z 2 a");
	test_ask(&test, "XADD stream 1-1 a b");
	test_ask(&test, "XGROUP CREATE stream g 0");
	test_ask(&test, "SETRANGE string 3 xyz");
	test_ask(&test, "BITOP NOT bits string");
	test_ask(&test, "MULTI");
	test_ask(&test, "SET in-multi 1");
	test_ask(&test, "DEL before");
	test_ask(&test, "SELECT 7");
	test_ask(&test, "SET in-multi 7");
	test_ask(&test, "EXEC");
	test_ask(&test, "SELECT 0");
	test_ask(&test, "EVAL return{redis.call('SET','lua','1'),redis.call('INCR','lua')} 0");
	test_settle(&test);
	test_assert_same(&test);
	assert_true(test_has(&test, 7, "in-multi"));
	assert_true(test_has(&test, 12, "copied"));
	assert_false(test_has(&test, 0, "before"));
	assert_int_equal(test_stats(&test).reconciles, 0);
	test_end(&test);
}

static uint64_t expiries_asked(struct test *test)
{
	const char *line =
		strstr(test_ask(test, "INFO commandstats"), "cmdstat_pexpiretime:calls=");

	return line ? strtoull(strchr(line, '=') + 1, NULL, 10) : 0;
}

/* The command, with the key's name in the place of its @. */
static void ask_way(struct test *test, const char *way, const char *name)
{
	const char *at = strchr(way, '@');

	test_ask(test, "%.*s%s%s", (int)(at - way), way, name, at + 1);
}

/* Every way to get, keep and lose an expiry, each on a key of its own that had none or one. */
static void expiries_are_right_and_hardly_asked_for(void **state)
{
	static const char *const ways[] = {"EXPIRE @ 5000", "SET @ v EX 6000", "APPEND @ more",
		"SET @ v KEEPTTL", "SET @ v", "GETEX @ PERSIST", "PERSIST @", "GETEX @ EX 7000",
		"COPY timed @ REPLACE", "COPY plain @ REPLACE", "DEL @", "PSETEX @ 9000000 v",
		"SETRANGE @ 3 x", "GETDEL @"};
	enum { WAYS = sizeof ways / sizeof *ways };
	uint64_t asked;
	struct test test;
	char name[16];

	test_begin(&test, "", 0);
	test_ask(&test, "SET plain 1");
	test_follow(&test);
	test_settle(&test);
	for (int i = 0; i < 200; i++)
		test_ask(&test, "SET key:%d %d", i, i);
	test_settle(&test);
	assert_int_equal(expiries_asked(&test), 1); /* the look at permissions, before the feed */
	test_ask(&test, "SET timed 1 PX 8000000");
	for (int i = 0; i < WAYS; i++) {
		for (int j = 0; j < WAYS; j++) {
			snprintf(name, sizeof name, "key:%d", WAYS * i + j);
			ask_way(&test, ways[i], name);
		}
	}
	test_settle(&test);
	test_assert_same(&test);
	for (int i = 0; i < WAYS * WAYS; i++) {
		snprintf(name, sizeof name, "key:%d", i);
		ask_way(&test, ways[i % WAYS], name);
	}
	test_settle(&test);
	test_assert_same(&test);
	asked = expiries_asked(&test);
	for (int i = 1000; i < 1200; i++)
		test_ask(&test, "SET key:%d %d", i, i);
	test_settle(&test);
	assert_true(expiries_asked(&test) <= asked + 1); /* the audit meets what has one */
	test_end(&test);
}

static bool it_has_expired(struct test *test)
{
	return !test_has(test, 0, "expire");
}

static void every_kind_of_removal_arrives(void **state)
{
	static const char *const names[] = {
		"del", "unlink", "expire", "past", "renamed", "moved", "list", "getdel", "copied"};
	struct test test;

	test_begin(&test, "", 0);
	for (int i = 0; i < 9; i++)
		test_ask(&test, strcmp(names[i], "list") ? "SET %s value" : "RPUSH %s value",
			names[i]);
	test_follow(&test);
	test_settle(&test);
	test_assert_same(&test);
	test_ask(&test, "DEL del");
	test_ask(&test, "UNLINK unlink");
	test_ask(&test, "PEXPIRE expire 20");
	test_ask(&test, "PEXPIREAT past 1000");
	test_ask(&test, "RENAME renamed renamed-to");
	test_ask(&test, "MOVE moved 10");
	test_ask(&test, "LPOP list");
	test_ask(&test, "GETDEL getdel");
	test_ask(&test, "COPY del copied REPLACE");
	test_ask(&test, "RENAME copied over");
	test_until(&test, it_has_expired, "the active expiry cycle");
	test_settle(&test);
	test_assert_same(&test);
	for (int i = 0; i < 9; i++)
		assert_false(test_has(&test, 0, names[i]));
	assert_true(test_has(&test, 0, "renamed-to"));
	assert_true(test_has(&test, 10, "moved"));
	assert_int_equal(test_stats(&test).reconciles, 0);
	test_end(&test);
}

static void evicted_keys_go(void **state)
{
	struct test test;

	test_begin(&test, "--maxmemory 8mb --maxmemory-policy allkeys-random", 0);
	test_follow(&test);
	test_settle(&test);
	for (int i = 0; i < 20000; i++)
		test_post(&test, "SET key:%d %0500d", i, i);
	test_ask(&test, "CONFIG SET maxmemory 0"); /* comparing must not evict any more */
	assert_true(strtol(strstr(test_ask(&test, "INFO stats"), "evicted_keys:") + 13, NULL, 10) >
		    1000);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void only_the_databases_asked_for_are_followed(void **state)
{
	static const int64_t databases[] = {1, 10};
	struct test test;

	test_begin(&test, "", 0);
	test.options.databases = databases;
	test.options.database_count = 2;
	for (int round = 0; round < 2; round++) {
		for (int db = 0; db < 12; db++) {
			test_ask(&test, "SELECT %d", db);
			test_ask(&test, "SET key:%d v", round);
		}
		if (round == 0)
			test_follow(&test);
		test_settle(&test);
		test_assert_same(&test);
		assert_true(test_has(&test, 1, round ? "key:1" : "key:0"));
		assert_true(test_has(&test, 10, "key:0"));
		assert_false(test_has(&test, 0, "key:0"));
		assert_false(test_has(&test, 11, "key:0"));
	}
	assert_int_equal(test_stats(&test).events, 2);
	test_ask(&test, "FLUSHALL");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static bool all_heard(struct test *test)
{
	return test_stats(test).events == 9;
}

/* Events of one channel after another, of channels in turn, and of none. */
static void an_event_is_heard_whatever_came_before(void **state)
{
	struct test test;
	char name[201];

	memset(name, 'n', 200);
	name[200] = '\0';
	test_begin(&test, "", 0);
	test_follow(&test);
	test_settle(&test);
	for (int db = 0; db < 2; db++) {
		test_ask(&test, "SELECT %d", db);
		test_ask(&test, "SET key v");
		test_ask(&test, "SET key w");
	}
	test_ask(&test, "PEXPIREAT key 99999999999999");
	/* As a module may call its own: too long to be remembered, and with no name at all. */
	for (int i = 0; i < 2; i++) {
		test_ask(&test, "PUBLISH __keyevent@0__:%s long", name);
		test_ask(&test, "PUBLISH __keyevent@0__: short");
	}
	test_ask(&test, "PUBLISH __keyed@0__:set none");
	test_ask(&test, "PUBLISH __keyevent@-1__:set none");
	test_until(&test, all_heard, "nine events");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).events, 9);
	test_end(&test);
}

static void an_agents_cursor_is_never_in_the_table(void **state)
{
	struct test test;

	test_begin(&test, "", 0);
	test_ask(&test, "SET keywake:cursor 1");
	test_ask(&test, "SET other 1");
	test_follow(&test);
	test_settle(&test);
	test_ask(&test, "SET keywake:cursor 2");
	test_ask(&test, "SELECT 3");
	test_ask(&test, "SET keywake:cursor 3");
	test_settle(&test);
	test_assert_same(&test);
	assert_false(test_has(&test, 0, "keywake:cursor"));
	assert_true(test_has(&test, 3, "keywake:cursor"));
	test_end(&test);
}

static void keys_that_change_while_they_are_scanned_end_equal(void **state)
{
	struct test test;

	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 30000 key 100");
	test_follow(&test);
	for (int i = 0; i < 60000; i++) {
		int key = rand() % 40000;

		switch (rand() % 4) {
		case 0:
			test_post(&test, "DEL key:%d", key);
			break;
		case 1:
			test_post(&test, "SET key:%d %d EX 5000", key, i);
			break;
		case 2:
			test_post(&test, "APPEND key:%d %d", key, i);
			break;
		default:
			test_post(&test, "RENAME key:%d key:%d", key, rand() % 40000);
		}
		if (i % 200 == 0)
			test_try(&test, "PING");
	}
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

/* What a rate allows in the time that really passed, a third more for the burst. */
static uint64_t allowed(uint64_t a_second, uint64_t since_us)
{
	return a_second * (kw_clock_us() - since_us) / 750000;
}

static uint64_t wanted_fetches, wanted_bytes; /* counts that are waited for */

static bool has_fetched_them(struct test *test)
{
	const struct kw_source_stats stats = test_stats(test);

	return stats.fetches >= wanted_fetches && stats.fetched_bytes >= wanted_bytes;
}

static void the_rate_limit_holds(void **state)
{
	struct test test;
	struct kw_source_stats stats;
	uint64_t start_us;

	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 3000 key 100");
	test.options.keys_per_second = 2000;
	test.options.window = 64; /* in flight when the bytes are used up: it comes all the same */
	start_us = kw_clock_us();
	test_follow(&test);
	test_run_ms(&test, 600);
	wanted_fetches = 500, wanted_bytes = 0; /* on a busy machine it takes longer */
	test_until(&test, has_fetched_them, "some of the keys");
	stats = test_stats(&test);
	assert_in_range(stats.fetches, 500, allowed(2000, start_us));
	kw_source_set_limits(test.source, 0, 100000, 0);
	start_us = kw_clock_us();
	test_run_ms(&test, 300);
	wanted_bytes = stats.fetched_bytes + 5000;
	test_until(&test, has_fetched_them, "some of the bytes");
	assert_in_range(test_stats(&test).fetched_bytes - stats.fetched_bytes, 5000,
		allowed(100000, start_us) + 20000);
	kw_source_set_limits(test.source, 0, 0, 0);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_large_hot_key_is_not_fetched_all_the_time(void **state)
{
	struct test test;
	uint64_t fetches, began_us;
	char *value = malloc(5000000);
	struct kw_slice argv[3] = {
		kw_slice_text("SET"), kw_slice_text("hot"), kw_slice(value, 5000000)};

	for (int i = 0; i < 5000000; i++)
		value[i] = (char)random(); /* it must not compress */
	test_begin(&test, "", 0);
	test_send(&test, 3, argv);
	free(value);
	test_follow(&test);
	test_settle(&test);
	fetches = test_stats(&test).fetches;
	began_us = kw_clock_us();
	for (int i = 0; i < 300; i++) {
		test_ask(&test, "SETRANGE hot %d y", i);
		test_run_ms(&test, 1);
	}
	/* A rest of 100 ms each: 5 MB / 50 bytes a µs */
	assert_in_range(
		test_stats(&test).fetches - fetches, 1, (kw_clock_us() - began_us) / 100000 + 3);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void an_idle_source_costs_nearly_nothing(void **state)
{
	struct test test;
	uint64_t began_us;
	long before, after;

	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 1000 key 100");
	test_follow(&test);
	test_settle(&test);
	began_us = kw_clock_us();
	before =
		strtol(strstr(test_ask(&test, "INFO stats"), "commands_processed:") + 19, NULL, 10);
	do {
		test_run_ms(&test, 1000);
		after = strtol(strstr(test_ask(&test, "INFO stats"), "commands_processed:") + 19,
			NULL, 10);
		assert_true(kw_clock_us() - began_us < TEST_PATIENCE_MS * UINT64_C(1000));
	} while (after - before < 50); /* on a busy machine it takes longer */
	/* At the tests' intervals, a second: 100 PINGs and 10 looks of five commands. */
	assert_in_range(after - before, 50, 200 * (kw_clock_us() - began_us) / 1000000);
	test_end(&test);
}

static void on_ended(void *arg)
{
	++*(int *)arg;
}

/* Some turns after it began; with `lost`, its connections are lost at the same time. */
static void close_after(struct test *test, int turns, bool lost)
{
	uint64_t until_us = kw_clock_us() + TEST_PATIENCE_MS * UINT64_C(1000);
	int ends = 0;

	test_follow(test);
	for (int i = 0; i < turns; i++)
		uv_run(&test->loop, UV_RUN_ONCE);
	if (lost)
		test_post(test, "CLIENT KILL TYPE normal SKIPME yes");
	kw_source_close(test->source, on_ended, &ends);
	while (ends == 0) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&test->loop, UV_RUN_ONCE);
	}
	test->source = NULL;
	test_ask(test, "PING");
	assert_int_equal(ends, 1);
}

static void a_source_ends_once_in_whatever_phase_it_is_closed(void **state)
{
	struct test test;

	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 3000 key 100");
	for (int turns = 0; turns < 24; turns++) {
		close_after(&test, turns, false);
		close_after(&test, turns, true);
	}
	test_end(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_there_before_is_in_the_table),
		cmocka_unit_test(an_empty_server_is_complete_at_once),
		cmocka_unit_test(every_change_arrives),
		cmocka_unit_test(expiries_are_right_and_hardly_asked_for),
		cmocka_unit_test(every_kind_of_removal_arrives),
		cmocka_unit_test(evicted_keys_go),
		cmocka_unit_test(only_the_databases_asked_for_are_followed),
		cmocka_unit_test(an_event_is_heard_whatever_came_before),
		cmocka_unit_test(an_agents_cursor_is_never_in_the_table),
		cmocka_unit_test(keys_that_change_while_they_are_scanned_end_equal),
		cmocka_unit_test(the_rate_limit_holds),
		cmocka_unit_test(a_large_hot_key_is_not_fetched_all_the_time),
		cmocka_unit_test(an_idle_source_costs_nearly_nothing),
		cmocka_unit_test(a_source_ends_once_in_whatever_phase_it_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
