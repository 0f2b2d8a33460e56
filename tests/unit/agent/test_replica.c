/* Mode replica as a whole: what a table may hold and the local server must never see. */
#include "agent.h"
#include "base/hash.h"
#include "fixture.h"
#include "primary/replica.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EPOCH 0x2222

struct world {
	struct test_server server;
	uv_loop_t loop;
	struct test_proxy proxy;
	struct kw_agent *agent;
	int closed;
};

static void on_state(void *arg, const char *state, const char *reason)
{
}

static void on_closed(void *arg)
{
	((struct world *)arg)->closed++;
}

static void start_agent(struct world *world)
{
	const struct kw_agent_handlers handlers = {on_state, on_closed, world};
	struct kw_agent_options options = {
		.apply = kw_apply_find("replica"),
		.listen = "tcp://127.0.0.1:0",
		.window_bytes = 1 << 20,
		.consent = true,
		.warm_lag_ms = 1000,
		.follow = {.idle_us = 1000},
		.local = {.cursor_name = "keywake_cursor"},
	};
	struct kw_error error;

	snprintf(options.proxy, sizeof options.proxy, "%s", world->proxy.address);
	snprintf(options.follow.remote.agent_name, sizeof options.follow.remote.agent_name, "test");
	snprintf(options.local.redis.address, sizeof options.local.redis.address, "%s",
		world->server.address);
	assert_int_equal(
		kw_agent_new(&world->loop, &options, &handlers, &world->agent, &error), KW_OK);
}

static bool is_closed(void *arg)
{
	return ((struct world *)arg)->closed > 0;
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
	kw_agent_close(world->agent);
	test_run(&world->loop, is_closed, world, "the agent is closed");
	test_proxy_stop(&world->proxy);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	test_server_stop(&world->server);
}

static bool is_level(void *arg)
{
	const struct world *world = arg;
	struct kw_table_stats stats;

	kw_table_stats(world->proxy.table, &stats);
	return world->agent->apply->done == world->agent->apply->taken &&
	       world->agent->sync.progress.applied == stats.version;
}

static void wait_level(struct world *world)
{
	test_proxy_publish(&world->proxy);
	test_run(&world->loop, is_level, world, "all is applied");
}

static const char *cli(struct world *world, const char *words)
{
	return test_cli(&world->server, "%s", words);
}

static void put_payload(struct world *world, const char *key, struct kw_slice payload)
{
	kw_table_put(world->proxy.table, 0, kw_slice_text(key), payload, 0);
}

/* A record that verifies, with a payload that does not: of a broken primary, or of its memory. */
static void put_corrupt(struct world *world, const char *key)
{
	uint8_t bytes[256];
	struct kw_slice payload = test_payload("damaged", bytes);

	bytes[3] ^= 1;
	put_payload(world, key, payload);
}

/* A payload of any type and version, its CRC64 right. */
static void put_typed(struct world *world, const char *key, uint8_t type, uint8_t version)
{
	uint8_t bytes[256];
	struct kw_slice payload = test_payload("typed", bytes);
	uint64_t crc;

	bytes[0] = type;
	bytes[payload.length - 10] = version;
	crc = kw_crc64(0, bytes, payload.length - 8);
	memcpy(bytes + payload.length - 8, &crc, sizeof crc);
	put_payload(world, key, payload);
}

/* A string much larger than the window. */
#define LARGE_BYTES ((size_t)6 << 20)
#define LARGE_LENGTH (LARGE_BYTES - 6 - 10) /* less type, 4 bytes of length, version, CRC64 */

static void put_large(struct world *world, const char *key)
{
	static uint8_t bytes[LARGE_BYTES];
	const uint8_t head[] = {0, 0x80, (uint8_t)(LARGE_LENGTH >> 24),
		(uint8_t)(LARGE_LENGTH >> 16), (uint8_t)(LARGE_LENGTH >> 8), (uint8_t)LARGE_LENGTH};
	uint64_t crc;

	memset(bytes, 'x', sizeof bytes);
	memcpy(bytes, head, sizeof head);
	bytes[LARGE_BYTES - 10] = 10;
	bytes[LARGE_BYTES - 9] = 0;
	crc = kw_crc64(0, bytes, LARGE_BYTES - 8);
	memcpy(bytes + LARGE_BYTES - 8, &crc, sizeof crc);
	put_payload(world, key, kw_slice(bytes, LARGE_BYTES));
}

static const struct kw_apply_link *link_of(struct world *world)
{
	return &world->agent->apply->link;
}

static uint64_t quarantined(const struct world *world)
{
	return kw_quarantine_count(&world->agent->quarantine);
}

static void fill(struct world *world)
{
	char key[32];

	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		test_proxy_put(&world->proxy, (uint32_t)i % 2, key, "value");
	}
}

static void test_what_would_stop_a_server_is_kept_from_its_snapshot(void **state)
{
	struct world world;

	setup(&world);
	fill(&world);
	put_corrupt(&world, "corrupt");
	put_typed(&world, "of a module", 7, 10);
	put_typed(&world, "an opcode", 254, 10);
	put_typed(&world, "of no known type", 100, 10);
	put_typed(&world, "too new", 0, 12);
	put_payload(&world, "too short", kw_slice("\0x", 2));
	put_payload(&world, "empty", kw_slice("", 0));
	start_agent(&world);
	wait_level(&world);
	assert_int_equal(quarantined(&world), 7);
	assert_string_equal(cli(&world, "-n 0 DBSIZE"), "500");
	assert_string_equal(cli(&world, "-n 1 DBSIZE"), "500");
	/* Never warm with keys that are wrong. */
	assert_int_not_equal(world.agent->sm.state, KW_AGENT_WARM);
	/* Mended at the source, they leave. */
	test_proxy_put(&world.proxy, 0, "corrupt", "whole");
	test_proxy_delete(&world.proxy, 0, "too new");
	wait_level(&world);
	assert_int_equal(quarantined(&world), 5);
	assert_string_equal(cli(&world, "GET corrupt"), "whole");
	teardown(&world);
}

static void test_what_would_be_refused_is_kept_from_the_link(void **state)
{
	struct world world;

	setup(&world);
	fill(&world);
	start_agent(&world);
	wait_level(&world);
	put_corrupt(&world, "corrupt");
	put_typed(&world, "of a module", 6, 10);
	put_typed(&world, "too new", 0, 12);
	kw_table_put(world.proxy.table, 77, kw_slice_text("far"), kw_slice("", 0), 0);
	kw_table_delete(world.proxy.table, 77, kw_slice_text("far"));
	test_proxy_put(&world.proxy, 0, "behind", "them");
	wait_level(&world);
	assert_int_equal(quarantined(&world), 3);
	assert_string_equal(cli(&world, "-n 0 GET behind"), "them");
	assert_string_equal(cli(&world, "-n 0 DBSIZE"), "501");
	assert_non_null(strstr(cli(&world, "INFO stats"), "unexpected_error_replies:0"));
	assert_int_equal(link_of(&world)->full_syncs, 1);
	teardown(&world);
}

static bool is_reading(void *arg)
{
	return ((struct kw_replica *)((struct world *)arg)->agent->apply)->reading;
}

/* The reader promises that it does not happen; a server would stop at it. */
static void test_a_key_that_comes_twice_dooms_the_snapshot(void **state)
{
	struct world world;
	uint8_t bytes[256];
	const struct kw_record_view twice = {
		.kind = KW_RECORD_PUT,
		.key = kw_slice_text("twice"),
		.value = test_payload("value", bytes),
		.version = 3,
	};

	setup(&world);
	fill(&world);
	/* So that it takes several turns of the loop. */
	for (int i = 0; i < 4; i++) {
		char key[16];

		snprintf(key, sizeof key, "large:%d", i);
		put_large(&world, key);
	}
	test_proxy_publish(&world.proxy);
	start_agent(&world);
	test_run(&world.loop, is_reading, &world, "the snapshot is being read");
	world.agent->apply->ops->record(world.agent->apply, &twice);
	world.agent->apply->ops->record(world.agent->apply, &twice);
	wait_level(&world);
	assert_int_equal(link_of(&world)->full_syncs, 2);
	assert_string_equal(cli(&world, "-n 0 DBSIZE"), "504");
	assert_string_equal(cli(&world, "EXISTS twice"), "0");
	teardown(&world);
}

static void test_values_larger_than_the_window_arrive(void **state)
{
	struct world world;

	setup(&world);
	put_large(&world, "large");
	put_large(&world, "another");
	start_agent(&world);
	wait_level(&world);
	put_large(&world, "later");
	wait_level(&world);
	assert_int_equal(atoi(cli(&world, "STRLEN large")), (int)LARGE_LENGTH);
	assert_int_equal(atoi(cli(&world, "STRLEN another")), (int)LARGE_LENGTH);
	assert_int_equal(atoi(cli(&world, "STRLEN later")), (int)LARGE_LENGTH);
	assert_int_equal(quarantined(&world), 0);
	teardown(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_would_stop_a_server_is_kept_from_its_snapshot),
		cmocka_unit_test(test_what_would_be_refused_is_kept_from_the_link),
		cmocka_unit_test(test_a_key_that_comes_twice_dooms_the_snapshot),
		cmocka_unit_test(test_values_larger_than_the_window_arrive),
	};

	return cmocka_run_group_tests_name("agent-replica", tests, NULL, NULL);
}
