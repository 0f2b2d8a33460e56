#include "fixture.h"

#include <stdio.h>
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
	int written;
	char error[KW_ERROR_TEXT];
};

static void setup(struct world *world, enum kw_cursor_store store)
{
	memset(world, 0, sizeof *world);
	test_server_start(&world->server, NULL);
	uv_loop_init(&world->loop);
	test_local_open(&world->test, &world->loop, world->server.address, store);
}

static void teardown(struct world *world)
{
	test_local_stop(&world->test);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	test_server_stop(&world->server);
}

static void on_written(void *arg, const struct kw_failure *failure)
{
	struct world *world = arg;

	world->written++;
	snprintf(world->error, sizeof world->error, "%s", failure ? failure->text : "");
}

static bool is_written(void *arg)
{
	return ((struct world *)arg)->written > 0;
}

static void write_cursor(struct world *world, uint64_t version)
{
	const struct kw_cursor_progress progress = {0x1234, version, 2, KW_BOND_NONE};

	world->written = 0;
	kw_local_write_cursor(&world->test.local, &progress, on_written, world);
	test_run(&world->loop, is_written, world, "the cursor is written");
	assert_string_equal(world->error, "");
}

static bool is_assessed_twice(void *arg)
{
	return ((struct world *)arg)->test.assessed >= 2;
}

static void drop_connection(struct world *world)
{
	test_cli(&world->server, "client kill type normal skipme yes");
	test_run(&world->loop, is_assessed_twice, world, "the local server is assessed again");
}

static void reopen(struct world *world, enum kw_cursor_store store)
{
	test_local_stop(&world->test);
	memset(&world->test, 0, sizeof world->test);
	test_local_open(&world->test, &world->loop, world->server.address, store);
	test_local_wait_ready(&world->test);
}

static void the_cursor_lives_beside_the_keyspace_and_is_read_back(void **state)
{
	const struct kw_local_facts *facts;
	struct world world;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	facts = &world.test.local.facts;
	assert_int_equal(facts->cursor_kind, KW_CURSOR_NONE);
	assert_false(world.test.continuous);
	write_cursor(&world, 77);
	write_cursor(&world, 78);
	assert_string_equal(test_cli(&world.server, "dbsize"), "0");
	assert_non_null(strstr(test_cli(&world.server, "fcall keywake_cursor 0"), "version=78"));
	reopen(&world, KW_STORE_AUTO);
	assert_int_equal(facts->cursor_kind, KW_CURSOR_OURS);
	assert_int_equal(facts->cursor.version, 78);
	assert_int_equal(facts->cursor.epoch, 0x1234);
	assert_int_equal(facts->cursor.quarantined, 2);
	assert_string_equal(facts->cursor.run_id, facts->identity.run_id);
	teardown(&world);
}

static void the_cursor_can_be_a_key_that_is_not_counted_as_data(void **state)
{
	const struct kw_local_facts *facts;
	struct world world;

	setup(&world, KW_STORE_KEY);
	test_local_wait_ready(&world.test);
	facts = &world.test.local.facts;
	write_cursor(&world, 5);
	assert_non_null(strstr(test_cli(&world.server, "get keywake_cursor"), "version=5"));
	assert_true(kw_local_owns_key(&world.test.local, 0, kw_slice_text("keywake_cursor")));
	assert_false(kw_local_owns_key(&world.test.local, 1, kw_slice_text("keywake_cursor")));
	reopen(&world, KW_STORE_KEY);
	assert_int_equal(facts->cursor_kind, KW_CURSOR_OURS);
	assert_int_equal(facts->keys, 0);
	teardown(&world);
}

static bool is_refused(void *arg)
{
	return kw_local_state(&((struct test_local *)arg)->local) == KW_LOCAL_REFUSED;
}

static void a_library_of_somebody_else_is_not_overwritten(void **state)
{
	struct world world;

	setup(&world, KW_STORE_AUTO);
	test_cli(&world.server, "function load \"#!lua "
				"name=keywake_cursor\nredis.register_function('f', function() "
				"return 1 end)\"");
	test_run(&world.loop, is_refused, &world.test, "the local server is refused");
	assert_non_null(strstr(kw_local_why(&world.test.local), "apply.cursor_name"));
	test_cli(&world.server, "function flush");
	test_local_wait_ready(&world.test);
	teardown(&world);
}

/* It takes the keys of its own slots only: an agent would fail at the first other one. */
static void a_node_of_a_cluster_is_refused(void **state)
{
	char bus[8]; /* without a port of its own it takes 10000, beside other tests too */
	const char *const cluster[] = {
		"--cluster-enabled", "yes", "--bind", "127.0.0.1", "--cluster-port", bus, NULL};
	struct world world = {0};

	snprintf(bus, sizeof bus, "%d", test_free_port());
	test_server_start(&world.server, cluster);
	uv_loop_init(&world.loop);
	test_local_open(&world.test, &world.loop, world.server.address, KW_STORE_AUTO);
	test_run(&world.loop, is_refused, &world.test, "the local server is refused");
	assert_non_null(strstr(kw_local_why(&world.test.local), "cluster-enabled no"));
	teardown(&world);
}

static void a_new_connection_to_the_same_data_continues_it(void **state)
{
	struct world world;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	drop_connection(&world);
	assert_true(world.test.continuous);
	assert_int_equal(world.test.gone, 1);
	teardown(&world);
}

static void another_run_of_the_server_is_looked_at_anew(void **state)
{
	struct world world;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	test_cli(&world.server, "set a 1");
	write_cursor(&world, 5);
	test_server_stop(&world.server);
	test_server_start(&world.server, NULL);
	snprintf(world.test.local.options.redis.address,
		sizeof world.test.local.options.redis.address, "%s", world.server.address);
	test_run(&world.loop, is_assessed_twice, &world, "the new server is assessed");
	assert_false(world.test.continuous);
	assert_int_equal(world.test.local.facts.cursor_kind, KW_CURSOR_NONE);
	teardown(&world);
}

static bool is_flushed(void *arg)
{
	return ((struct world *)arg)->test.flushed > 0;
}

static void a_flush_by_somebody_else_is_noticed(void **state)
{
	struct world world;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	test_cli(&world.server, "flushall");
	test_run(&world.loop, is_flushed, &world, "the flush is noticed");
	world.test.flushed = 0;
	test_cli(&world.server, "swapdb 0 1");
	test_run(&world.loop, is_flushed, &world, "the swap is noticed");
	teardown(&world);
}

static void a_flush_while_the_connection_was_down_breaks_continuity(void **state)
{
	struct world world;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	test_cli(&world.server, "flushdb");
	drop_connection(&world);
	assert_false(world.test.continuous);
	teardown(&world);
}

static void a_replica_is_refused_and_taken_once_it_is_none(void **state)
{
	struct world world;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	test_cli(&world.server, "replicaof 127.0.0.1 1");
	test_run(&world.loop, is_refused, &world.test, "the replica is refused");
	assert_non_null(strstr(kw_local_why(&world.test.local), "REPLICAOF NO ONE"));
	assert_int_equal(world.test.gone, 1);
	test_cli(&world.server, "replicaof no one");
	test_local_wait_ready(&world.test);
	/* Its data may have been replaced meanwhile, and no cursor says otherwise. */
	assert_false(world.test.continuous);
	teardown(&world);
}

static bool has_selected(void *arg)
{
	const struct world *world = arg;

	return world->test.selected > 0;
}

static bool is_99_answered(void *arg)
{
	struct world *world = arg;

	return kw_local_use(&world->test.local, 99) != KW_USE_WAIT;
}

static void a_database_must_be_confirmed_before_anything_is_sent_to_it(void **state)
{
	struct world world;
	struct kw_local *local = &world.test.local;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	assert_int_equal(kw_local_use(local, 0), KW_USE_OK);
	assert_int_equal(kw_local_use(local, 9), KW_USE_WAIT);
	assert_int_equal(kw_local_use(local, 9), KW_USE_WAIT);
	test_run(&world.loop, has_selected, &world, "the server has answered");
	assert_int_equal(world.test.selected, 1);
	assert_int_equal(kw_local_use(local, 9), KW_USE_OK);
	assert_int_equal(kw_local_use(local, 0), KW_USE_OK);
	assert_int_equal(kw_local_use(local, 99), KW_USE_WAIT);
	test_run(&world.loop, is_99_answered, &world, "the server has answered");
	assert_int_equal(kw_local_use(local, 99), KW_USE_REFUSED);
	assert_int_equal(kw_local_use(local, 9), KW_USE_OK);
	teardown(&world);
}

/* Nobody can make a script end between two commands that are read at once: so it is played. */
static void what_went_through_behind_a_refused_select_is_a_doubt(void **state)
{
	const struct kw_reply busy = {.type = KW_REPLY_ERROR, .text = kw_slice_text("BUSY")};
	const struct kw_reply done = {.type = KW_REPLY_STATUS, .text = kw_slice_text("OK")};
	struct world world;
	struct kw_local *local = &world.test.local;

	setup(&world, KW_STORE_AUTO);
	test_local_wait_ready(&world.test);
	assert_true(kw_local_in_place(local, &done));
	local->databases.strayed_at = ++local->databases.answers;
	assert_true(kw_local_in_place(local, NULL));
	assert_true(kw_local_in_place(local, &busy));
	assert_false(kw_local_spoiled(local));
	assert_false(kw_local_in_place(local, &done));
	assert_true(kw_local_spoiled(local));
	test_run(&world.loop, is_assessed_twice, &world, "the local server is assessed again");
	assert_false(world.test.continuous);
	assert_true(kw_local_in_place(local, &done));
	teardown(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cursor_lives_beside_the_keyspace_and_is_read_back),
		cmocka_unit_test(the_cursor_can_be_a_key_that_is_not_counted_as_data),
		cmocka_unit_test(a_library_of_somebody_else_is_not_overwritten),
		cmocka_unit_test(a_new_connection_to_the_same_data_continues_it),
		cmocka_unit_test(another_run_of_the_server_is_looked_at_anew),
		cmocka_unit_test(a_flush_by_somebody_else_is_noticed),
		cmocka_unit_test(a_flush_while_the_connection_was_down_breaks_continuity),
		cmocka_unit_test(a_replica_is_refused_and_taken_once_it_is_none),
		cmocka_unit_test(a_node_of_a_cluster_is_refused),
		cmocka_unit_test(a_database_must_be_confirmed_before_anything_is_sent_to_it),
		cmocka_unit_test(what_went_through_behind_a_refused_select_is_a_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
