#include "keys/keyset.h"
#include "local/prune.h"

#include "fixture.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct world {
	struct test_server server;
	uv_loop_t loop;
	struct test_local test;
	struct kw_prune prune;
	struct kw_keyset keep;
	int done, asked, removed;
	bool may;
	uint64_t deletions, keys; /* that it asked for */
	char error[KW_ERROR_TEXT];
};

static void on_selected(void *arg)
{
	kw_prune_selected(&((struct world *)arg)->prune);
}

static void setup(struct world *world)
{
	memset(world, 0, sizeof *world);
	test_server_start(&world->server, NULL);
	uv_loop_init(&world->loop);
	test_local_open(&world->test, &world->loop, world->server.address, KW_STORE_AUTO);
	world->test.on_selected = on_selected;
	world->test.arg = world;
	kw_prune_init(&world->prune, &world->test.local);
	test_local_wait_ready(&world->test);
}

static void teardown(struct world *world)
{
	kw_prune_stop(&world->prune);
	kw_keyset_close(&world->keep);
	test_local_stop(&world->test);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	test_server_stop(&world->server);
}

static void on_done(void *arg, const struct kw_failure *failure)
{
	struct world *world = arg;

	world->done++;
	snprintf(world->error, sizeof world->error, "%s", failure ? failure->text : "");
}

static bool is_done(void *arg)
{
	return ((struct world *)arg)->done > 0;
}

static bool keeps(void *arg, uint32_t database, struct kw_slice key)
{
	const struct world *world = arg;

	return kw_keyset_has(&world->keep, kw_keyset_hash(database, key));
}

static void walk(struct world *world, int64_t database, bool keep, bool count_only)
{
	const struct kw_prune_plan plan = {
		.filter = &world->test.filter,
		.keeps = keep ? keeps : NULL,
		.database = database,
		.count_only = count_only,
	};

	world->done = 0;
	kw_prune_start(&world->prune, &plan, on_done, world);
	test_run(&world->loop, is_done, world, "the walk is done");
	assert_string_equal(world->error, "");
}

static bool allows(void *arg, uint64_t deletions, uint64_t keys)
{
	struct world *world = arg;

	world->asked++;
	world->deletions = deletions;
	world->keys = keys;
	return world->may;
}

/* Walk and ask before anything is deleted. */
static void walk_asking(struct world *world, bool may)
{
	const struct kw_prune_plan plan = {
		.filter = &world->test.filter,
		.keeps = keeps,
		.database = -1,
		.allows = allows,
	};

	world->done = world->asked = 0;
	world->may = may;
	kw_prune_start(&world->prune, &plan, on_done, world);
	test_run(&world->loop, is_done, world, "the walk is done");
	assert_string_equal(world->error, "");
}

static void keep(struct world *world, uint32_t database, const char *key)
{
	kw_keyset_add(&world->keep, kw_keyset_hash(database, kw_slice_text(key)));
}

static void fill(struct world *world)
{
	char key[32];

	test_cli(&world->server, "debug populate 5000 key 10");
	test_cli(&world->server, "-n 9 set nine 9");
	test_cli(&world->server, "-n 9 set stale 9");
	for (int i = 0; i < 5000; i += 2) {
		snprintf(key, sizeof key, "key:%d", i);
		keep(world, 0, key);
	}
	keep(world, 9, "nine");
}

static void what_the_snapshot_did_not_have_is_deleted_in_every_database(void **state)
{
	struct world world;

	setup(&world);
	fill(&world);
	walk(&world, -1, true, false);
	assert_int_equal(world.prune.matched, 2501);
	assert_int_equal(world.prune.looked_at, 5002);
	assert_string_equal(test_cli(&world.server, "dbsize"), "2500");
	assert_string_equal(test_cli(&world.server, "exists key:0 key:1 key:4998"), "2");
	assert_string_equal(test_cli(&world.server, "-n 9 exists nine stale"), "1");
	teardown(&world);
}

static void what_the_filter_leaves_out_is_not_touched(void **state)
{
	struct world world;
	struct kw_error error;

	setup(&world);
	kw_filter_add_database(&world.test.filter, 0, &error);
	kw_filter_add_prefix(&world.test.filter, "key:1", &error);
	fill(&world);
	walk(&world, -1, true, false);
	assert_string_equal(test_cli(&world.server, "-n 9 dbsize"), "2");
	assert_string_equal(test_cli(&world.server, "exists key:1 key:11 key:111"), "0");
	assert_string_equal(test_cli(&world.server, "exists key:3 key:10 key:12"), "3");
	teardown(&world);
}

/* By the table: database 0 with key:1 to key:3, of which one goes. Here they are other: of 9. */
static void only_the_local_names_of_keys_are_deleted(void **state)
{
	struct world world;
	struct kw_error error;

	setup(&world);
	kw_filter_add_database(&world.test.filter, 0, &error);
	kw_filter_add_prefix(&world.test.filter, "key:", &error);
	kw_filter_map_database(&world.test.filter, "0=9", &error);
	kw_filter_rewrite_prefix(&world.test.filter, "key:=other:", &error);
	assert_int_equal(kw_filter_check_names(&world.test.filter, &error), KW_OK);
	test_cli(&world.server, "mset key:1 mine key:4 mine other:4 mine");
	test_cli(&world.server, "-n 9 mset other:1 1 other:2 2 other:3 3 key:1 mine key:4 mine");
	keep(&world, 0, "key:1");
	keep(&world, 0, "key:2");
	/* Names that lead nowhere: were they asked for, the wrong keys would stay. */
	keep(&world, 9, "other:3");
	keep(&world, 0, "other:3");
	walk_asking(&world, true);
	assert_int_equal(world.deletions, 1);
	assert_int_equal(world.keys, 3);
	assert_string_equal(
		test_cli(&world.server, "-n 9 exists other:1 other:2 key:1 key:4"), "4");
	assert_string_equal(test_cli(&world.server, "-n 9 dbsize"), "4");
	/* A flush of the table's database 0. */
	walk(&world, 9, false, false);
	assert_string_equal(test_cli(&world.server, "-n 9 exists key:1 key:4"), "2");
	assert_string_equal(test_cli(&world.server, "-n 9 dbsize"), "2");
	walk(&world, 0, false, false);
	assert_int_equal(world.prune.looked_at, 0);
	assert_string_equal(test_cli(&world.server, "dbsize"), "3");
	teardown(&world);
}

static void one_database_can_be_emptied_of_its_prefixes(void **state)
{
	struct world world;
	struct kw_error error;

	setup(&world);
	kw_filter_add_prefix(&world.test.filter, "nine", &error);
	kw_filter_add_prefix(&world.test.filter, "key:", &error);
	fill(&world);
	walk(&world, 9, false, false);
	assert_string_equal(test_cli(&world.server, "-n 9 exists nine stale"), "1");
	assert_string_equal(test_cli(&world.server, "dbsize"), "5000");
	walk(&world, 3, false, false);
	assert_int_equal(world.prune.looked_at, 0);
	teardown(&world);
}

static void counting_deletes_nothing(void **state)
{
	struct world world;
	struct kw_error error;

	setup(&world);
	kw_filter_add_prefix(&world.test.filter, "key:", &error);
	fill(&world);
	walk(&world, -1, false, true);
	assert_int_equal(world.prune.matched, 5000);
	assert_string_equal(test_cli(&world.server, "dbsize"), "5000");
	teardown(&world);
}

/* Answers of a walk given up must not be taken for those of the next one. */
static void a_walk_that_was_given_up_does_not_disturb_the_next(void **state)
{
	const struct kw_prune_plan plan = {.database = -1, .count_only = true};
	struct world world;

	setup(&world);
	fill(&world);
	for (int i = 0; i < 5; i++) {
		struct kw_prune_plan given_up = plan;

		given_up.filter = &world.test.filter;
		kw_prune_start(&world.prune, &given_up, on_done, &world);
		if (i % 2)
			test_run_ms(&world.loop, 1);
		if (kw_prune_running(&world.prune))
			kw_prune_stop(&world.prune);
	}
	walk(&world, -1, true, false);
	assert_int_equal(world.prune.looked_at, 5002);
	assert_int_equal(world.prune.owed, 0);
	assert_int_equal(world.prune.ignored, 0);
	teardown(&world);
}

static bool is_done_among_others(void *arg)
{
	struct world *world = arg;

	/* As the cursor that is a key, and is written in the midst of a walk. */
	kw_local_use(&world->test.local, 0);
	return is_done(arg);
}

static void note_removal(void *arg, uint32_t database, struct kw_slice key)
{
	struct world *world = arg;

	assert_false(keeps(world, database, key));
	world->removed++;
}

static bool waits_for_removals(void *arg)
{
	const struct world *world = arg;

	return world->prune.removing > 0 && world->prune.owed == 0;
}

/* A replica takes no UNLINK of a client: so the owner deletes, a few keys at a time. */
static void what_another_way_deletes_is_waited_for(void **state)
{
	struct world world;
	const struct kw_prune_plan plan = {
		.filter = &world.test.filter,
		.keeps = keeps,
		.database = -1,
		.allows = allows,
		.remove = note_removal,
	};
	int rounds = 0, before = 0;

	setup(&world);
	fill(&world);
	world.may = true;
	kw_prune_start(&world.prune, &plan, on_done, &world);
	while (world.removed < 2501 || world.prune.removing > 0) {
		test_run(&world.loop, waits_for_removals, &world, "keys were given");
		assert_int_equal(world.done, 0);
		assert_in_range(world.removed - before, 1, KW_PRUNE_BATCH);
		before = world.removed;
		kw_prune_removed(&world.prune);
		rounds++;
	}
	assert_int_equal(world.done, 1);
	assert_string_equal(world.error, "");
	assert_true(rounds >= 2501 / KW_PRUNE_BATCH);
	assert_int_equal(world.prune.deleted, 2501);
	assert_string_equal(test_cli(&world.server, "dbsize"), "5000"); /* it sent no UNLINK */
	kw_prune_removed(&world.prune);                                 /* harmless */
	/* One that is given up in the midst of it is forgotten. */
	kw_prune_start(&world.prune, &plan, on_done, &world);
	test_run(&world.loop, waits_for_removals, &world, "keys were given");
	kw_prune_stop(&world.prune);
	kw_prune_removed(&world.prune);
	walk(&world, -1, true, false);
	assert_string_equal(test_cli(&world.server, "dbsize"), "2500");
	teardown(&world);
}

static void others_may_use_another_database_meanwhile(void **state)
{
	const struct kw_prune_plan plan = {.database = 9};
	struct world world;
	struct kw_prune_plan own = plan;

	setup(&world);
	test_cli(&world.server, "debug populate 5000 key 10");
	test_cli(&world.server, "-n 9 debug populate 5000 key 10");
	own.filter = &world.test.filter;
	kw_prune_start(&world.prune, &own, on_done, &world);
	test_run(&world.loop, is_done_among_others, &world, "the walk is done");
	assert_string_equal(world.error, "");
	assert_string_equal(test_cli(&world.server, "-n 9 dbsize"), "0");
	assert_string_equal(test_cli(&world.server, "dbsize"), "5000");
	teardown(&world);
}

static void refuse_select(struct world *world, int64_t database)
{
	struct kw_databases *databases = &world->test.local.databases;

	databases->database = -1;
	databases->delay = (struct kw_databases_delay){
		.database = database,
		.retry_us = kw_clock_us() + 100000,
		.class = KW_SERVER_E_LOADING,
		.words = "BUSY so they say",
	};
	kw_sm_move(&databases->sm, KW_DATABASES_PUT_OFF, "as the test wants it");
}

static void only_a_select_of_its_own_ends_a_walk(void **state)
{
	const struct kw_prune_plan plan = {.database = 9};
	struct world world;
	struct kw_prune_plan own = plan;

	setup(&world);
	test_cli(&world.server, "-n 9 set nine 9");
	own.filter = &world.test.filter;
	refuse_select(&world, 3);
	walk(&world, 9, false, false);
	test_cli(&world.server, "-n 9 set nine 9");
	refuse_select(&world, -1);
	walk(&world, 9, false, false);
	assert_string_equal(test_cli(&world.server, "-n 9 dbsize"), "0");
	test_cli(&world.server, "-n 9 set nine 9");
	refuse_select(&world, 9);
	world.done = 0;
	kw_prune_start(&world.prune, &own, on_done, &world);
	test_run(&world.loop, is_done, &world, "the walk is done");
	assert_non_null(strstr(world.error, "BUSY so they say"));
	teardown(&world);
}

static void an_error_is_told_once_and_the_walk_can_begin_again(void **state)
{
	const struct kw_prune_plan plan = {.database = -1};
	struct world world;
	struct kw_prune_plan own = plan;

	setup(&world);
	fill(&world);
	own.filter = &world.test.filter;
	own.keeps = keeps;
	test_cli(&world.server, "acl setuser default -unlink");
	kw_prune_start(&world.prune, &own, on_done, &world);
	test_run(&world.loop, is_done, &world, "the walk is done");
	assert_non_null(strstr(world.error, "NOPERM"));
	assert_int_equal(world.done, 1);
	assert_string_equal(test_cli(&world.server, "dbsize"), "5000");
	test_cli(&world.server, "acl setuser default +unlink");
	walk(&world, -1, true, false);
	assert_string_equal(test_cli(&world.server, "dbsize"), "2500");
	teardown(&world);
}

static void nothing_is_deleted_that_is_not_allowed(void **state)
{
	struct world world;

	setup(&world);
	fill(&world);
	walk_asking(&world, false);
	assert_int_equal(world.asked, 1);
	assert_int_equal(world.deletions, 2501);
	assert_int_equal(world.keys, 5002);
	assert_true(kw_prune_denied(&world.prune));
	assert_int_equal(world.prune.deleted, 0);
	assert_string_equal(test_cli(&world.server, "dbsize"), "5000");
	assert_string_equal(test_cli(&world.server, "-n 9 dbsize"), "2");
	teardown(&world);
}

static uint64_t scans(struct world *world)
{
	const char *line = test_cli(&world->server, "info commandstats");

	line = strstr(line, "cmdstat_scan:calls=");
	return line ? strtoull(line + strlen("cmdstat_scan:calls="), NULL, 10) : 0;
}

/* Few keys are remembered, so that nothing is walked twice. */
static void what_is_allowed_is_deleted_without_a_second_walk(void **state)
{
	struct world world;
	uint64_t before;

	setup(&world);
	fill(&world);
	test_cli(&world.server, "config resetstat");
	walk_asking(&world, false);
	before = scans(&world);
	test_cli(&world.server, "config resetstat");
	walk_asking(&world, true);
	assert_int_equal(scans(&world), before);
	assert_false(kw_prune_denied(&world.prune));
	assert_int_equal(world.prune.deleted, 2501);
	assert_string_equal(test_cli(&world.server, "dbsize"), "2500");
	assert_string_equal(test_cli(&world.server, "exists key:0 key:1 key:4998"), "2");
	assert_string_equal(test_cli(&world.server, "-n 9 exists nine stale"), "1");
	walk_asking(&world, false);
	assert_int_equal(world.asked, 0); /* there is nothing to ask for */
	assert_false(kw_prune_denied(&world.prune));
	teardown(&world);
}

/* Names that are too long to be remembered: they are found again. */
static void many_long_names_are_deleted_by_a_second_walk(void **state)
{
	struct world world;

	setup(&world);
	test_cli(&world.server,
		"eval "
		"\"for i=1,3000 do redis.call('set', string.rep('x',1000)..i, 1) end\" 0");
	test_cli(&world.server, "-n 9 set stale 9");
	walk_asking(&world, true);
	assert_int_equal(world.deletions, 3001);
	assert_true(kw_buffer_length(&world.prune.found) == 0);
	assert_int_equal(world.prune.deleted, 3001);
	assert_string_equal(test_cli(&world.server, "dbsize"), "0");
	assert_string_equal(test_cli(&world.server, "-n 9 dbsize"), "0");
	teardown(&world);
}

static uint64_t remembered_of(struct kw_buffer *found, uint32_t database)
{
	struct kw_prune_key key;
	uint64_t keys = 0;

	while (kw_prune_next_key(found, &key)) {
		keys += key.database == database;
		kw_prune_drop_key(found);
	}
	return keys;
}

static void sample(struct world *world, uint64_t keys)
{
	const struct kw_prune_plan plan = {
		.filter = &world->test.filter,
		.database = -1,
		.count_only = true,
		.sample = keys,
	};

	world->done = 0;
	kw_prune_start(&world->prune, &plan, on_done, world);
	test_run(&world->loop, is_done, world, "the sample is taken");
	assert_string_equal(world->error, "");
}

static void a_sample_has_its_part_of_each_database(void **state)
{
	struct world world;
	uint64_t first;

	setup(&world);
	test_cli(&world.server, "debug populate 40000 key 10");
	test_cli(&world.server,
		"-n 9 eval \"for i=1,10000 do redis.call('set', 'nine:'..i, 1) end\" 0");
	sample(&world, 1000);
	assert_int_equal(world.prune.left_out, 2);
	assert_int_equal(world.prune.remembered, world.prune.matched);
	first = world.prune.remembered;
	assert_true(first >= 1000 && first <= 1002);
	assert_true(remembered_of(&world.prune.found, 9) <= 201);
	/* A sample of more keys than there are has all of them. */
	sample(&world, 60000);
	assert_int_equal(world.prune.left_out, 0);
	assert_int_equal(world.prune.matched, 50000);
	assert_string_equal(test_cli(&world.server, "dbsize"), "40000");
	teardown(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_deleted_that_is_not_allowed),
		cmocka_unit_test(what_is_allowed_is_deleted_without_a_second_walk),
		cmocka_unit_test(many_long_names_are_deleted_by_a_second_walk),
		cmocka_unit_test(a_sample_has_its_part_of_each_database),
		cmocka_unit_test(what_the_snapshot_did_not_have_is_deleted_in_every_database),
		cmocka_unit_test(what_the_filter_leaves_out_is_not_touched),
		cmocka_unit_test(only_the_local_names_of_keys_are_deleted),
		cmocka_unit_test(one_database_can_be_emptied_of_its_prefixes),
		cmocka_unit_test(counting_deletes_nothing),
		cmocka_unit_test(a_walk_that_was_given_up_does_not_disturb_the_next),
		cmocka_unit_test(what_another_way_deletes_is_waited_for),
		cmocka_unit_test(others_may_use_another_database_meanwhile),
		cmocka_unit_test(only_a_select_of_its_own_ends_a_walk),
		cmocka_unit_test(an_error_is_told_once_and_the_walk_can_begin_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
