#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "world.h"

#define RESERVE (UINT64_C(256) << 20)
#define WAIT_US UINT64_C(30000000)
#define FAR_FUTURE "1893456000123"

struct peer primary, replica;

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	return kw_memory_extend(arg, extent, error);
}

static uint64_t epoch_of(void *arg)
{
	return 4711;
}

static void nothing(void *arg, const struct kw_session_info *session)
{
}

static void left(void *arg, const struct kw_session_info *session, const char *why)
{
}

static void rejected(void *arg, const char *why)
{
	fail_msg("%s", why);
}

static void on_tick(uv_timer_t *timer)
{
	struct world *world = timer->data;

	kw_table_set_time(world->table, kw_clock_us());
	if (world->on_tick)
		world->on_tick(world, world->turn++);
	kw_table_publish(world->table, kw_wall_us());
}

static void on_link_ready(void *arg, const struct kw_remote_info *info)
{
	((struct world *)arg)->connected = true;
}

static void on_link_closed(void *arg, const struct kw_error *why)
{
	struct world *world = arg;

	world->connected = false;
	kw_remote_free(world->remote);
	world->remote = NULL;
}

struct kw_remote *remote_of(void *arg)
{
	struct world *world = arg;

	return world->connected ? world->remote : NULL;
}

void run_until(struct world *world, const bool *flag)
{
	uint64_t until = kw_clock_us() + WAIT_US;

	while (!*flag && kw_clock_us() < until)
		uv_run(&world->loop, UV_RUN_ONCE);
	assert_true(*flag);
}

void connect_remote(struct world *world)
{
	const struct kw_remote_handlers handlers = {on_link_ready, on_link_closed, world};
	struct kw_remote_options options = {.agent_name = "tester"};
	struct kw_address address = {.carrier = KW_CARRIER_SHM};
	struct kw_error error;

	snprintf(address.path, sizeof address.path, "%s/s", world->folder);
	if (kw_remote_open(&world->loop, &address, &options, &handlers, &world->remote, &error))
		fail_msg("%s", error.text);
	run_until(world, &world->connected);
}

static void serve(struct world *world)
{
	const struct kw_server_handlers handlers = {.epoch = epoch_of,
		.joined = nothing,
		.left = left,
		.rejected = rejected,
		.arg = world};
	const struct kw_server_options options = {0};
	struct kw_address address = {.carrier = KW_CARRIER_SHM};
	struct kw_error error;

	strcpy(world->folder, "/tmp/kw-verify-XXXXXX");
	assert_non_null(mkdtemp(world->folder));
	snprintf(address.path, sizeof address.path, "%s/s", world->folder);
	world->server = kw_server_new(&world->loop, &world->memory, &options, &handlers);
	if (kw_server_listen(world->server, &address, &error))
		fail_msg("%s", error.text);
}

void world_open(struct world *world, bool complete)
{
	const struct kw_table_facts facts = {
		.source_state = KW_SOURCE_LIVE, .complete = complete, .rdb_version = 10};
	struct kw_table_memory memory = {.extend = extend};
	struct kw_table_options options = {.max_bytes = RESERVE / 2,
		.epoch = 4711,
		.hash_seed = 99,
		.grace_us = 1000000,
		.retention_us = 1000000};
	struct kw_error error;

	*world = (struct world){0};
	peer_words(&replica, NULL, "FLUSHALL", NULL);
	peer_words(&primary, NULL, "FLUSHALL", NULL);
	assert_int_equal(uv_loop_init(&world->loop), 0);
	assert_int_equal(kw_memory_init(&world->memory, RESERVE, &error), 0);
	memory.base = world->memory.base;
	memory.reserve_bytes = RESERVE;
	memory.arg = &world->memory;
	world->table = kw_table_new(&options, &memory, kw_clock_us(), &error);
	if (!world->table)
		fail_msg("%s", error.text);
	kw_table_set_facts(world->table, &facts);
	kw_table_publish(world->table, kw_wall_us());
	uv_timer_init(&world->loop, &world->tick);
	world->tick.data = world;
	uv_timer_start(&world->tick, on_tick, 5, 5);
	serve(world);
	connect_remote(world);
	world->options = (struct kw_verify_options){.loop = &world->loop,
		.remote = remote_of,
		.remote_arg = world,
		.redis = {.client_name = "verify"},
		.pexpiretime = true,
		.filter = &world->filter};
	snprintf(world->options.redis.address, sizeof world->options.redis.address,
		"unix://%s/socket", replica.folder);
}

static void on_server_closed(void *arg)
{
	((struct world *)arg)->server = NULL;
}

void world_close(struct world *world)
{
	char path[64];

	world->on_tick = NULL;
	if (world->remote)
		kw_remote_close(world->remote);
	kw_server_close(world->server, on_server_closed, world);
	while (world->remote || world->server)
		uv_run(&world->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&world->tick, NULL);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	kw_table_free(world->table);
	kw_memory_close(&world->memory);
	kw_filter_close(&world->filter);
	snprintf(path, sizeof path, "%s/s", world->folder);
	(void)unlink(path);
	assert_int_equal(rmdir(world->folder), 0);
}

void publish(struct world *world, uint32_t database, const char *key, bool replicate)
{
	struct kw_buffer payload = {0}, expiry = {0};
	char number[16];
	struct kw_slice words[] = {kw_slice_text("RESTORE"), kw_slice_text(key), kw_slice_text("0"),
		{0}, kw_slice_text("REPLACE"), kw_slice_text("ABSTTL")};
	long long expires;

	snprintf(number, sizeof number, "%u", database);
	peer_words(&primary, NULL, "SELECT", number, NULL);
	peer_words(&primary, &payload, "DUMP", key, NULL);
	peer_words(&primary, &expiry, "PEXPIRETIME", key, NULL);
	kw_buffer_append(&expiry, "", 1);
	expires = strtoll((const char *)kw_buffer_bytes(&expiry), NULL, 10);
	words[3] = kw_slice(kw_buffer_bytes(&payload), kw_buffer_length(&payload));
	kw_table_put(world->table, database, kw_slice_text(key), words[3],
		expires > 0 ? (uint64_t)expires : 0);
	if (replicate) {
		peer_words(&replica, NULL, "SELECT", number, NULL);
		if (expires > 0)
			words[2] = kw_slice_text((const char *)kw_buffer_bytes(&expiry));
		assert_int_equal(peer_command(&replica, NULL, 6, words), '+');
	}
	kw_buffer_close(&payload);
	kw_buffer_close(&expiry);
}

void fill(struct world *world, int strings)
{
	static const char *const keys[] = {"list", "set", "ints", "zset", "hash", "stream"};
	char key[32];

	for (uint32_t database = 0; database <= 3; database += 3) {
		peer_words(&primary, NULL, "SELECT", database ? "3" : "0", NULL);
		peer_words(&primary, NULL, "RPUSH", "list", "a", "b", "12", "c", NULL);
		peer_words(&primary, NULL, "SADD", "set", "x", "y", "z", "1", NULL);
		peer_words(&primary, NULL, "SADD", "ints", "3", "2", "1", NULL);
		peer_words(&primary, NULL, "ZADD", "zset", "1", "a", "1.5", "b", NULL);
		peer_words(&primary, NULL, "HSET", "hash", "f", "1", "g", "2", "h", "3", NULL);
		peer_words(&primary, NULL, "XADD", "stream", "1-1", "a", "b", NULL);
		for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
			publish(world, database, keys[i], true);
	}
	peer_words(&primary, NULL, "SELECT", "0", NULL);
	peer_words(&primary, NULL, "SET", "ttl", "v", "PXAT", FAR_FUTURE, NULL);
	publish(world, 0, "ttl", true);
	for (int i = 0; i < strings; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		peer_words(&primary, NULL, "SET", key, key, NULL);
		publish(world, 0, key, true);
	}
	peer_words(&replica, NULL, "SELECT", "0", NULL);
	kw_table_publish(world->table, kw_wall_us());
}

int start_servers(void **state)
{
	static const char *const limits[] = {"--hash-max-listpack-entries", "0",
		"--zset-max-listpack-entries", "0", "--set-max-intset-entries", "0",
		"--rdbcompression", "no", NULL};

	signal(SIGPIPE, SIG_IGN);
	peer_start(&primary, "/usr/bin/redis-server", NULL);
	peer_start(&replica, "/usr/bin/redis-server", limits);
	return 0;
}

int stop_servers(void **state)
{
	peer_stop(&primary);
	peer_stop(&replica);
	return 0;
}
