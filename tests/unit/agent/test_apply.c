#include "load/pair.h"

#include "fixture.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WINDOW ((uint64_t)1 << 20)

struct world {
	struct test_server server;
	uv_loop_t loop;
	struct test_local test;
	struct kw_quarantine quarantine;
	struct kw_applier *apply;
	uv_timer_t timer;
};

static void on_progress(void *arg)
{
}

static void on_assessed(void *arg, bool continuous)
{
	struct kw_applier *apply = ((struct world *)arg)->apply;

	apply->ops->attach(apply, continuous);
}

static void on_gone(void *arg)
{
	struct kw_applier *apply = ((struct world *)arg)->apply;

	apply->ops->detach(apply);
}

static void on_selected(void *arg)
{
	struct kw_applier *apply = ((struct world *)arg)->apply;

	apply->ops->selected(apply);
}

static void on_tick(uv_timer_t *handle)
{
	struct kw_applier *apply = ((struct world *)handle->data)->apply;

	apply->ops->tick(apply, uv_hrtime() / 1000);
}

static void setup(struct world *world, const char *const *extra)
{
	struct kw_apply_options options = {
		.local = &world->test.local,
		.filter = &world->test.filter,
		.quarantine = &world->quarantine,
		.window_bytes = WINDOW,
		.handlers = {on_progress, world},
	};

	memset(world, 0, sizeof *world);
	test_server_start(&world->server, extra);
	uv_loop_init(&world->loop);
	world->apply = kw_applier_commands(&options);
	world->test.on_assessed = on_assessed;
	world->test.on_gone = on_gone;
	world->test.on_selected = on_selected;
	world->test.arg = world;
	test_local_open(&world->test, &world->loop, world->server.address, KW_STORE_AUTO);
	uv_timer_init(&world->loop, &world->timer);
	world->timer.data = world;
	uv_timer_start(&world->timer, on_tick, 10, 10);
	test_local_wait_ready(&world->test);
}

static void teardown(struct world *world)
{
	uv_close((uv_handle_t *)&world->timer, NULL);
	test_local_stop(&world->test);
	world->apply->ops->free(world->apply);
	kw_quarantine_close(&world->quarantine);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	test_server_stop(&world->server);
}

static void put(struct world *world, uint32_t database, const char *key, const char *value)
{
	uint8_t bytes[256];
	const struct kw_record_view record = {
		.kind = KW_RECORD_PUT,
		.database = database,
		.key = kw_slice_text(key),
		.value = test_payload(value, bytes),
	};

	world->apply->ops->records(world->apply, &record, 1);
}

static void put_bytes(struct world *world, const char *key, const char *bytes, size_t length)
{
	const struct kw_record_view record = {
		.kind = KW_RECORD_PUT,
		.key = kw_slice_text(key),
		.value = kw_slice(bytes, length),
	};

	world->apply->ops->records(world->apply, &record, 1);
}

static void delete_key(struct world *world, uint32_t database, const char *key)
{
	const struct kw_record_view record = {
		.kind = KW_RECORD_DELETE, .database = database, .key = kw_slice_text(key)};

	world->apply->ops->records(world->apply, &record, 1);
}

static void flush(struct world *world, uint32_t database)
{
	const struct kw_record_view record = {.kind = KW_RECORD_FLUSH, .database = database};

	world->apply->ops->records(world->apply, &record, 1);
}

static bool is_done(void *arg)
{
	const struct kw_applier *apply = ((struct world *)arg)->apply;

	return apply->progress.done == apply->progress.taken;
}

static void wait_done(struct world *world)
{
	test_run(&world->loop, is_done, world, "all is applied");
}

static bool is_blocked(void *arg)
{
	return ((struct world *)arg)->apply->refusal.kind != KW_SERVER_E_NONE;
}

static void changes_arrive_in_order_in_their_databases(void **state)
{
	static const uint32_t databases[] = {0, 9, 15, 9, 0};
	struct world world;
	char value[32];

	setup(&world, NULL);
	for (int i = 0; i < 5000; i++) {
		snprintf(value, sizeof value, "%d", i);
		put(&world, databases[i % 5], "key", value);
	}
	delete_key(&world, 15, "key");
	wait_done(&world);
	assert_string_equal(test_cli(&world.server, "get key"), "4999");
	assert_string_equal(test_cli(&world.server, "-n 9 get key"), "4998");
	assert_string_equal(test_cli(&world.server, "-n 15 exists key"), "0");
	assert_int_equal(world.apply->progress.applied, 5001);
	assert_int_equal(world.apply->progress.window_bytes, 0);
	teardown(&world);
}

static void a_value_larger_than_the_window_goes_alone(void **state)
{
	struct world world;
	static char value[4 << 20];
	struct kw_record_view record = {.kind = KW_RECORD_PUT, .key = kw_slice_text("large")};
	uint64_t crc;
	size_t length = sizeof value - 16;

	setup(&world, NULL);
	assert_int_equal(world.apply->ops->room(world.apply), WINDOW);
	/* 32-bit length, big-endian, behind its mark. */
	value[1] = (char)0x80;
	value[2] = (char)(length >> 24), value[3] = (char)(length >> 16);
	value[4] = (char)(length >> 8), value[5] = (char)length;
	memset(value + 6, 'x', length);
	value[6 + length] = 10;
	crc = kw_crc64(0, value, length + 8);
	memcpy(value + 8 + length, &crc, 8);
	record.value = kw_slice(value, length + 16);
	world.apply->ops->records(world.apply, &record, 1);
	put(&world, 0, "small", "1");
	assert_int_equal(world.apply->ops->room(world.apply), 0);
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 0);
	assert_int_equal(world.apply->ops->room(world.apply), WINDOW);
	assert_string_equal(test_cli(&world.server, "strlen large"), "4194288");
	teardown(&world);
}

static void over_maxmemory_is_waited_out_and_nothing_is_lost_or_reordered(void **state)
{
	struct world world;
	char key[32];

	setup(&world, NULL);
	test_cli(&world.server, "config set maxmemory 1");
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		put(&world, 0, key, "old");
		put(&world, 0, key, "new");
	}
	delete_key(&world, 0, "key:7");
	test_run(&world.loop, is_blocked, &world, "the server refuses");
	assert_int_equal(world.apply->refusal.kind, KW_SERVER_E_OOM);
	assert_non_null(strstr(world.apply->refusal.words, "maxmemory"));
	test_run_ms(&world.loop, 300);
	assert_int_equal(world.apply->progress.done, 0);
	test_cli(&world.server, "config set maxmemory 0");
	wait_done(&world);
	assert_int_equal(world.apply->refusal.kind, KW_SERVER_E_NONE);
	assert_true(world.apply->progress.retries > 0);
	assert_string_equal(test_cli(&world.server, "dbsize"), "99");
	for (int i = 0; i < 100; i += 9)
		assert_string_equal(test_cli(&world.server, "get key:%d", i), i == 7 ? "" : "new");
	assert_int_equal(kw_quarantine_count(&world.quarantine), 0);
	teardown(&world);
}

static void permission_taken_away_is_waited_out(void **state)
{
	struct world world;

	setup(&world, NULL);
	test_cli(&world.server, "acl setuser default -restore");
	put(&world, 0, "a", "1");
	delete_key(&world, 0, "a");
	put(&world, 0, "b", "1");
	test_run(&world.loop, is_blocked, &world, "the server refuses");
	assert_int_equal(world.apply->refusal.kind, KW_SERVER_E_PERMISSION);
	test_cli(&world.server, "acl setuser default +restore");
	wait_done(&world);
	assert_string_equal(test_cli(&world.server, "exists a b"), "1");
	teardown(&world);
}

static void a_payload_the_server_cannot_load_is_quarantined_and_all_else_goes_on(void **state)
{
	struct world world;

	setup(&world, NULL);
	put(&world, 0, "before", "1");
	put_bytes(&world, "bad", "garbage garbage", 15);
	put(&world, 0, "after", "1");
	wait_done(&world);
	assert_string_equal(test_cli(&world.server, "exists before after bad"), "2");
	assert_int_equal(kw_quarantine_count(&world.quarantine), 1);
	assert_memory_equal(world.quarantine.keys[0].key, "bad", 3);
	assert_non_null(strstr(world.quarantine.keys[0].reason, "payload"));
	put(&world, 0, "bad", "good now");
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 0);
	put_bytes(&world, "bad", "garbage garbage", 15);
	delete_key(&world, 0, "bad");
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 0);
	teardown(&world);
}

static void a_database_the_server_does_not_have_never_lands_in_another(void **state)
{
	static const char *const few[] = {"--databases", "2", NULL};
	struct world world;

	setup(&world, few);
	put(&world, 1, "one", "1");
	put(&world, 5, "five", "1");
	put(&world, 5, "six", "1");
	delete_key(&world, 5, "seven");
	put(&world, 0, "zero", "1");
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 2);
	assert_non_null(strstr(world.quarantine.keys[0].reason, "database 5"));
	assert_string_equal(test_cli(&world.server, "dbsize"), "1");
	assert_string_equal(test_cli(&world.server, "-n 1 dbsize"), "1");
	flush(&world, 5);
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 0);
	teardown(&world);
}

/* A script that does not end by itself: nearly everything is answered BUSY. */
static void begin_script(struct world *world)
{
	test_cli(&world->server, "config set busy-reply-threshold 1");
	test_cli(&world->server, "eval 'while true do end' 0 >/dev/null 2>&1 &");
	while (!strstr(test_cli(&world->server, "ping"), "BUSY"))
		test_run_ms(&world->loop, 5);
}

static void end_script(struct world *world)
{
	test_cli(&world->server, "script kill");
}

static void a_database_found_missing_behind_a_script_blocks_nothing(void **state)
{
	static const char *const few[] = {"--databases", "4", NULL};
	struct world world;

	setup(&world, few);
	begin_script(&world);
	put(&world, 9, "nine", "1");
	test_run(&world.loop, is_blocked, &world, "the server refuses");
	end_script(&world);
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 1);
	assert_int_equal(world.apply->refusal.kind, KW_SERVER_E_NONE);
	delete_key(&world, 9, "nine");
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 0);
	assert_int_equal(world.apply->refusal.kind, KW_SERVER_E_NONE);
	teardown(&world);
}

/* Those behind the first are pipelined behind a SELECT each, all of them answered BUSY. */
static void a_script_amid_changes_to_two_databases_costs_nothing(void **state)
{
	struct world world;
	char key[32];

	setup(&world, NULL);
	for (int round = 0; round < 6; round++) {
		/* Both databases are confirmed, and either is the present one. */
		put(&world, 1, "first", "1");
		put(&world, 0, "first", "1");
		if (round % 2)
			put(&world, 1, "first", "2");
		wait_done(&world);
		begin_script(&world);
		for (int i = 0; i < 200; i++) {
			snprintf(key, sizeof key, "key:%d:%d", round, i);
			put(&world, (uint32_t)i % 2, key, "value");
		}
		test_run(&world.loop, is_blocked, &world, "the server refuses");
		test_run_ms(&world.loop, 30 + 50 * (unsigned)round);
		end_script(&world);
		wait_done(&world);
		assert_int_equal(world.apply->refusal.kind, KW_SERVER_E_NONE);
	}
	assert_string_equal(test_cli(&world.server, "dbsize"), "601");
	assert_string_equal(test_cli(&world.server, "-n 1 dbsize"), "601");
	assert_string_equal(test_cli(&world.server, "-n 1 exists key:0:0 key:0:1 key:5:199"), "2");
	assert_int_equal(world.test.assessed, 1);
	assert_int_equal(world.test.gone, 0);
	assert_false(kw_local_spoiled(&world.test.local));
	teardown(&world);
}

static void a_payload_given_up_behind_a_script_blocks_nothing(void **state)
{
	struct world world;

	setup(&world, NULL);
	begin_script(&world);
	put_bytes(&world, "bad", "garbage garbage", 15);
	test_run(&world.loop, is_blocked, &world, "the server refuses");
	end_script(&world);
	wait_done(&world);
	assert_int_equal(kw_quarantine_count(&world.quarantine), 1);
	assert_int_equal(world.apply->refusal.kind, KW_SERVER_E_NONE);
	teardown(&world);
}

static void a_lost_connection_loses_nothing(void **state)
{
	struct world world;
	char key[32];

	setup(&world, NULL);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 2000; i++) {
			snprintf(key, sizeof key, "key:%d", i);
			put(&world, (uint32_t)i % 3, key, round == 9 ? "last" : "early");
		}
		uv_run(&world.loop, UV_RUN_NOWAIT);
		test_cli(&world.server, "client kill type normal skipme yes");
	}
	wait_done(&world);
	assert_true(world.test.gone > 0);
	assert_true(world.test.continuous);
	assert_string_equal(test_cli(&world.server, "dbsize"), "667");
	assert_string_equal(test_cli(&world.server, "get key:0"), "last");
	assert_string_equal(test_cli(&world.server, "-n 1 get key:1999"), "last");
	teardown(&world);
}

static void a_flush_empties_its_database_in_its_place(void **state)
{
	struct world world;

	setup(&world, NULL);
	put(&world, 1, "before", "1");
	put(&world, 2, "other", "1");
	flush(&world, 1);
	put(&world, 1, "after", "1");
	wait_done(&world);
	assert_string_equal(test_cli(&world.server, "-n 1 exists before"), "0");
	assert_string_equal(test_cli(&world.server, "-n 1 exists after"), "1");
	assert_string_equal(test_cli(&world.server, "-n 2 exists other"), "1");
	/* Our own flush is no cause for doubt. */
	test_run_ms(&world.loop, 1500);
	assert_int_equal(world.test.flushed, 0);
	teardown(&world);
}

static void with_prefixes_a_flush_takes_only_what_is_followed(void **state)
{
	struct world world;
	struct kw_error error;

	setup(&world, NULL);
	kw_filter_add_prefix(&world.test.filter, "ours:", &error);
	test_cli(&world.server, "-n 1 set theirs:1 1");
	for (int i = 0; i < 3000; i++) {
		char key[32];

		snprintf(key, sizeof key, "ours:%d", i);
		put(&world, 1, key, "old");
	}
	flush(&world, 1);
	put(&world, 1, "ours:1", "new");
	wait_done(&world);
	assert_string_equal(test_cli(&world.server, "-n 1 dbsize"), "2");
	assert_string_equal(test_cli(&world.server, "-n 1 get ours:1"), "new");
	assert_string_equal(test_cli(&world.server, "-n 1 get theirs:1"), "1");
	teardown(&world);
}

static void an_expiry_in_the_past_deletes(void **state)
{
	uint8_t bytes[256];
	struct world world;
	struct kw_record_view record = {
		.kind = KW_RECORD_PUT,
		.key = kw_slice_text("key"),
		.value = test_payload("1", bytes),
		.expires_ms = 4102444800000,
	};

	setup(&world, NULL);
	world.apply->ops->records(world.apply, &record, 1);
	wait_done(&world);
	assert_string_equal(test_cli(&world.server, "pexpiretime key"), "4102444800000");
	record.expires_ms = 1000;
	world.apply->ops->records(world.apply, &record, 1);
	wait_done(&world);
	assert_string_equal(test_cli(&world.server, "exists key"), "0");
	assert_int_equal(kw_quarantine_count(&world.quarantine), 0);
	teardown(&world);
}

static void discard_is_done_at_once(void **state)
{
	const struct kw_apply_options options = {0};
	const struct kw_record_view record = {.kind = KW_RECORD_PUT};
	struct kw_applier *apply = kw_applier_none(&options);

	apply->ops->records(apply, &record, 1);
	assert_int_equal(apply->progress.taken, 1);
	assert_int_equal(apply->progress.done, 1);
	assert_true(apply->ops->room(apply) > 0);
	apply->ops->free(apply);
	assert_null(kw_mode_find("unheard of"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_arrive_in_order_in_their_databases),
		cmocka_unit_test(a_value_larger_than_the_window_goes_alone),
		cmocka_unit_test(over_maxmemory_is_waited_out_and_nothing_is_lost_or_reordered),
		cmocka_unit_test(permission_taken_away_is_waited_out),
		cmocka_unit_test(
			a_payload_the_server_cannot_load_is_quarantined_and_all_else_goes_on),
		cmocka_unit_test(a_database_the_server_does_not_have_never_lands_in_another),
		cmocka_unit_test(a_database_found_missing_behind_a_script_blocks_nothing),
		cmocka_unit_test(a_payload_given_up_behind_a_script_blocks_nothing),
		cmocka_unit_test(a_script_amid_changes_to_two_databases_costs_nothing),
		cmocka_unit_test(a_lost_connection_loses_nothing),
		cmocka_unit_test(a_flush_empties_its_database_in_its_place),
		cmocka_unit_test(with_prefixes_a_flush_takes_only_what_is_followed),
		cmocka_unit_test(an_expiry_in_the_past_deletes),
		cmocka_unit_test(discard_is_done_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
