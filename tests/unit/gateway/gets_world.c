#include "gets_world.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RESERVE (UINT64_C(64) << 20)

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	return kw_memory_extend(arg, extent, error);
}

static uint64_t epoch_of(void *arg)
{
	return 4711;
}

static void joined(void *arg, const struct kw_session_info *session)
{
}

static void left(void *arg, const struct kw_session_info *session, const char *why)
{
}

static void rejected(void *arg, const char *why)
{
	fail_msg("%s", why);
}

static void on_state(void *arg, enum kw_gateway_state state, const char *why)
{
	((struct gets_world *)arg)->state = state;
}

static void on_gets_closed(void *arg)
{
	((struct gets_world *)arg)->gets = NULL;
}

static void on_server_closed(void *arg)
{
	((struct gets_world *)arg)->server = NULL;
}

void gets_publish(struct gets_world *world, bool complete, uint64_t fresh_us)
{
	const struct kw_table_facts facts = {.source_state = KW_SOURCE_LIVE,
		.complete = complete,
		.fresh_us = fresh_us,
		.rdb_version = 10};

	kw_table_set_facts(world->table, &facts);
	kw_table_publish(world->table, kw_wall_us());
}

void gets_put(struct gets_world *world, const char *key, const char *value, uint64_t expires_ms)
{
	char payload[GETS_VALUE + 1] = {0};

	/* As DUMP writes a string: its type, and here just the text. */
	memcpy(payload + 1, value, strlen(value));
	kw_table_put(world->table, 0, kw_slice_text(key), kw_slice(payload, strlen(value) + 1),
		expires_ms);
}

static void open_table(struct gets_world *world)
{
	struct kw_table_memory memory = {.extend = extend, .arg = &world->memory};
	const struct kw_table_options options = {.max_bytes = 8 << 20,
		.segment_bytes = 16 << 10,
		.epoch = 4711,
		.hash_seed = 99,
		.grace_us = 1000,
		.retention_us = 1000};
	struct kw_error error;

	assert_int_equal(kw_memory_init(&world->memory, RESERVE, &error), 0);
	memory.base = world->memory.base;
	memory.reserve_bytes = RESERVE;
	world->now_us = 1000000;
	world->table = kw_table_new(&options, &memory, world->now_us, &error);
	if (!world->table)
		fail_msg("%s", error.text);
}

void gets_world_open(struct gets_world *world, const struct kw_gets_options *wanted)
{
	const struct kw_server_handlers server = {.epoch = epoch_of,
		.joined = joined,
		.left = left,
		.rejected = rejected,
		.arg = world};
	const struct kw_gets_handlers handlers = {on_state, on_gets_closed, world};
	const struct kw_server_options serving = {0};
	struct kw_address address = {.carrier = KW_CARRIER_SHM};
	struct kw_gets_options options = *wanted;
	struct kw_error error;

	*world = (struct gets_world){.folder = "/tmp/kw-gets-XXXXXX"};
	assert_int_equal(uv_loop_init(&world->loop), 0);
	open_table(world);
	assert_non_null(mkdtemp(world->folder));
	snprintf(address.path, sizeof address.path, "%s/s", world->folder);
	world->server = kw_server_new(&world->loop, &world->memory, &serving, &server);
	if (kw_server_listen(world->server, &address, &error))
		fail_msg("%s", error.text);
	options.loop = &world->loop;
	options.proxies.count = 1;
	snprintf(options.proxies.address[0], KW_PROXY_ADDRESS, "shm://%s/s", world->folder);
	strcpy(options.follow.remote.agent_name, "gets");
	assert_int_equal(kw_gets_new(&options, &handlers, &world->gets, &error), 0);
}

void gets_run_until_state(struct gets_world *world, enum kw_gateway_state state)
{
	uint64_t ends_us = kw_clock_us() + 30000000;

	while (world->state != state) {
		assert_true(kw_clock_us() < ends_us);
		uv_run(&world->loop, UV_RUN_ONCE);
	}
}

void gets_world_close(struct gets_world *world)
{
	char path[64];

	if (world->gets)
		kw_gets_close(world->gets);
	if (world->server)
		kw_server_close(world->server, on_server_closed, world);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_null(world->gets);
	assert_null(world->server);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	kw_table_free(world->table);
	kw_memory_close(&world->memory);
	snprintf(path, sizeof path, "%s/s", world->folder);
	(void)unlink(path);
	assert_int_equal(rmdir(world->folder), 0);
}

void gets_stop_server(struct gets_world *world)
{
	kw_server_close(world->server, on_server_closed, world);
	while (world->server)
		uv_run(&world->loop, UV_RUN_ONCE);
}
