/*
 * An agent that follows a table over rdma while the proxy registers its memory anew: a reader that
 * has no room for long, as in a slow snapshot, goes on over the same connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../remote/fake_verbs.h"
#include "auth/keyring.h"
#include "base/clock.h"
#include "follow/follow.h"
#include "remote/memory.h"
#include "remote/server.h"
#include "table/table.h"

#include <stdio.h>
#include <string.h>

#define TABLE_BYTES (UINT64_C(32) << 20)
#define EPOCH 77
#define KEYS 100
#define SECRET kw_slice_text("the secret without an id")
#define WAIT_US 20000000

struct world {
	uv_loop_t loop;
	uv_timer_t tick;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_server *server;
	struct kw_follow follow;
	bool has_room;
	int rotated, closed, records, snapshots, passes;
};

/* ---- the proxy ---- */

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	return kw_memory_extend(arg, extent, error);
}

static uint64_t epoch_of(void *arg)
{
	(void)arg;
	return EPOCH;
}

static void on_session(void *arg, const struct kw_session_info *session)
{
}

static void on_left(void *arg, const struct kw_session_info *session, const char *why)
{
}

static void on_rejected(void *arg, const char *why)
{
	fail_msg("%s", why);
}

static void publish(struct world *world)
{
	kw_table_set_time(world->table, kw_clock_us());
	kw_table_publish(world->table, kw_wall_us());
}

static void on_placed(void *arg)
{
	struct world *world = arg;

	kw_table_set_places(
		world->table, world->memory.extents, atomic_load(&world->memory.extent_count));
	publish(world);
}

static void on_rotated(void *arg, const struct kw_rotation *rotation)
{
	((struct world *)arg)->rotated++;
}

static void make_table(struct world *world)
{
	const struct kw_table_options options = {.max_bytes = TABLE_BYTES,
		.segment_bytes = 256 << 10,
		.retention_us = 60000000,
		.grace_us = 1000000,
		.epoch = EPOCH,
		.hash_seed = 7};
	struct kw_table_memory memory = {.extend = extend, .arg = &world->memory};
	struct kw_error error;
	char key[32];

	assert_int_equal(kw_memory_init(&world->memory, TABLE_BYTES * 2, &error), 0);
	memory.base = world->memory.base;
	memory.reserve_bytes = world->memory.reserve_bytes;
	world->table = kw_table_new(&options, &memory, kw_clock_us(), &error);
	assert_non_null(world->table);
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		kw_table_put(world->table, 0, kw_slice_text(key), kw_slice_text("value"), 0);
	}
}

static void serve(struct world *world, struct kw_address *address)
{
	const struct kw_server_handlers handlers = {.epoch = epoch_of,
		.joined = on_session,
		.left = on_left,
		.rejected = on_rejected,
		.placed = on_placed,
		.rotated = on_rotated,
		.arg = world};
	struct kw_error error;
	struct kw_server_options options = {
		.keyring = kw_keyring_new(SECRET,
			kw_slice_text("key gone 00112233445566778899aabbccddeeff\n"), &error)};

	assert_non_null(options.keyring);
	world->server = kw_server_new(&world->loop, &world->memory, &options, &handlers);
	kw_keyring_release(options.keyring);
	assert_int_equal(kw_address_parse("rdma://127.0.0.1:0", address, &error), 0);
	if (kw_server_listen(world->server, address, &error) != 0)
		fail_msg("%s", error.text);
	publish(world);
}

/* ---- the agent ---- */

static void on_begin(void *arg, uint64_t epoch, uint64_t version)
{
	((struct world *)arg)->snapshots++;
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	((struct world *)arg)->records += (int)count;
}

static uint64_t room(void *arg)
{
	return ((struct world *)arg)->has_room ? UINT64_C(1) << 20 : 0;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
}

static void on_pass(void *arg, const struct kw_reader_pass *pass)
{
	((struct world *)arg)->passes++;
}

static void on_look(void *arg, bool found)
{
}

static void on_lapsed(void *arg, const char *why)
{
	fail_msg("%s", why);
}

static void on_failed(void *arg, const struct kw_error *error)
{
	print_message("%s\n", error->text);
}

static void on_link(void *arg, bool up)
{
	struct world *world = arg;

	if (up)
		kw_follow_start(&world->follow, NULL);
}

static void on_due(void *arg)
{
}

static void on_closed(void *arg)
{
	((struct world *)arg)->closed++;
}

static void follow_proxy(struct world *world)
{
	const struct kw_follow_options options = {.loop = &world->loop,
		.idle_us = 1000,
		.remote = {.agent_name = "test", .secret = SECRET}};
	const struct kw_follow_handlers handlers = {on_link, on_due, on_closed, world};
	const struct kw_reader_sink sink = {.snapshot_begin = on_begin,
		.records = on_records,
		.room = room,
		.superblock = on_superblock,
		.pass_done = on_pass,
		.look_done = on_look,
		.lapsed = on_lapsed,
		.failed = on_failed,
		.arg = world};
	struct kw_error error;
	char address[64];

	snprintf(address, sizeof address, "rdma://127.0.0.1:%u", kw_server_port(world->server, 0));
	assert_int_equal(
		kw_follow_init(&world->follow, address, &options, &handlers, &sink, &error), 0);
	kw_follow_set_polling(&world->follow, true);
}

/* ---- both ---- */

static void on_tick(uv_timer_t *timer)
{
	struct world *world = timer->data;

	if (world->follow.sm.state < KW_FOLLOW_CLOSING)
		kw_follow_tick(&world->follow, kw_clock_us());
}

#define WAIT(world, condition)                                                                     \
	do {                                                                                       \
		uint64_t end_ = kw_clock_us() + WAIT_US;                                           \
		while (!(condition) && kw_clock_us() < end_)                                       \
			uv_run(&(world)->loop, UV_RUN_ONCE);                                       \
		assert_true(condition);                                                            \
	} while (0)

static void open_world(struct world *world)
{
	struct kw_address address;

	fake_verbs_reset();
	*world = (struct world){0};
	uv_loop_init(&world->loop);
	make_table(world);
	serve(world, &address);
	follow_proxy(world);
	uv_timer_init(&world->loop, &world->tick);
	world->tick.data = world;
	uv_timer_start(&world->tick, on_tick, 5, 5);
}

static void on_server_closed(void *arg)
{
	((struct world *)arg)->server = NULL;
}

static void close_world(struct world *world)
{
	kw_server_close(world->server, on_server_closed, world);
	WAIT(world, !world->server);
	kw_follow_close(&world->follow);
	WAIT(world, world->closed == 1);
	uv_close((uv_handle_t *)&world->tick, NULL);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	kw_table_free(world->table);
	kw_memory_close(&world->memory);
	assert_int_equal(fake_verbs_left(), 0);
}

static void withdraw_the_other_key(struct world *world)
{
	struct kw_error error;
	struct kw_revocation done;

	assert_int_equal(kw_server_revoke(world->server, "gone", &done, &error), 0);
	assert_int_equal(done.keys, 1);
	assert_int_equal(done.sessions, 0);
}

static void a_long_snapshot_goes_on_while_memory_is_registered_anew(void **state)
{
	struct world world;

	open_world(&world);
	WAIT(&world, world.snapshots == 1);
	withdraw_the_other_key(&world);
	WAIT(&world, world.rotated == 1);
	assert_int_equal(world.passes, 0);
	world.has_room = true;
	kw_follow_resume(&world.follow);
	WAIT(&world, world.passes >= 1);
	assert_int_equal(world.records, KEYS);
	assert_int_equal(world.snapshots, 1);
	assert_int_equal(world.follow.reconnects, 1);
	assert_int_equal(fake_verbs_counts.denied, 0);
	close_world(&world);
}

static void so_does_an_agent_that_reads_nothing_but_superblocks(void **state)
{
	struct world world;
	uint64_t seen;

	open_world(&world);
	WAIT(&world, world.snapshots == 1);
	kw_follow_stop(&world.follow);
	withdraw_the_other_key(&world);
	WAIT(&world, world.rotated == 1);
	publish(&world);
	seen = world.follow.superblock.publication;
	WAIT(&world, world.follow.superblock.publication > seen);
	assert_int_equal(world.follow.reconnects, 1);
	assert_int_equal(fake_verbs_counts.denied, 0);
	close_world(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_snapshot_goes_on_while_memory_is_registered_anew),
		cmocka_unit_test(so_does_an_agent_that_reads_nothing_but_superblocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
