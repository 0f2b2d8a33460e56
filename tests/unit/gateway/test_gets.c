/* Gets over a real table in shared memory, which is written to while the gateway does not look. */
#include "gateway/table/gets.h"

#include "base/clock.h"
#include "remote/memory.h"
#include "remote/server.h"
#include "table/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RESERVE (UINT64_C(64) << 20)
#define KEYS 40
#define VALUE 64

struct told {
	struct kw_question question;
	char key[16];
	enum kw_get_outcome outcome;
	char value[VALUE];
	bool done;
};

struct world {
	uv_loop_t loop;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_server *server;
	struct kw_gets *gets;
	enum kw_gateway_state state;
	uint64_t now_us; /* of the table */
	char folder[32];
	struct told told[KEYS];
};

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
	((struct world *)arg)->state = state;
}

static void on_gets_closed(void *arg)
{
	((struct world *)arg)->gets = NULL;
}

static void on_server_closed(void *arg)
{
	((struct world *)arg)->server = NULL;
}

static void publish(struct world *world, bool complete, uint64_t fresh_us)
{
	const struct kw_table_facts facts = {.source_state = KW_SOURCE_LIVE,
		.complete = complete,
		.fresh_us = fresh_us,
		.rdb_version = 10};

	kw_table_set_facts(world->table, &facts);
	kw_table_publish(world->table, kw_wall_us());
}

static void put(struct world *world, const char *key, const char *value, uint64_t expires_ms)
{
	char payload[VALUE + 1] = {0};

	/* As DUMP writes a string: its type, and here just the text. */
	memcpy(payload + 1, value, strlen(value));
	kw_table_put(world->table, 0, kw_slice_text(key), kw_slice(payload, strlen(value) + 1),
		expires_ms);
}

static void open_table(struct world *world)
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

static void world_open(struct world *world, uint32_t max_staleness_ms)
{
	const struct kw_server_handlers server = {.epoch = epoch_of,
		.joined = joined,
		.left = left,
		.rejected = rejected,
		.arg = world};
	const struct kw_gets_handlers handlers = {on_state, on_gets_closed, world};
	const struct kw_server_options serving = {0};
	struct kw_address address = {.carrier = KW_CARRIER_SHM};
	struct kw_gets_options options = {
		.depth = 16, .places = 1 << 12, .max_staleness_ms = max_staleness_ms};
	struct kw_error error;

	*world = (struct world){.folder = "/tmp/kw-gets-XXXXXX"};
	assert_int_equal(uv_loop_init(&world->loop), 0);
	open_table(world);
	assert_non_null(mkdtemp(world->folder));
	snprintf(address.path, sizeof address.path, "%s/s", world->folder);
	world->server = kw_server_new(&world->loop, &world->memory, &serving, &server);
	if (kw_server_listen(world->server, &address, &error))
		fail_msg("%s", error.text);
	options.loop = &world->loop;
	snprintf(options.proxy, sizeof options.proxy, "shm://%s/s", world->folder);
	strcpy(options.follow.remote.agent_name, "gets");
	assert_int_equal(kw_gets_new(&options, &handlers, &world->gets, &error), 0);
}

static void run_until_state(struct world *world, enum kw_gateway_state state)
{
	uint64_t ends_us = kw_clock_us() + 30000000;

	while (world->state != state) {
		assert_true(kw_clock_us() < ends_us);
		uv_run(&world->loop, UV_RUN_ONCE);
	}
}

static void on_got(void *arg, const struct kw_got *got)
{
	struct told *told = arg;

	assert_false(told->done);
	told->done = true;
	told->outcome = got->outcome;
	assert_int_equal(
		got->why == NULL, got->outcome == KW_GOT_VALUE || got->outcome == KW_GOT_MISSING);
	memset(told->value, 0, VALUE);
	if (got->outcome == KW_GOT_VALUE)
		memcpy(told->value, (const char *)got->payload.data + 1, got->payload.length - 1);
}

/* Ask for KEYS keys in one turn, and run until all are told. */
static void ask(struct world *world, const char *name)
{
	uint64_t ends_us = kw_clock_us() + 30000000;

	kw_gets_post(world->gets);     /* the end of the turn before */
	usleep(KW_GETS_LOOK_US + 200); /* what was looked at before does not count */
	for (int i = 0; i < KEYS; i++) {
		struct told *told = &world->told[i];

		snprintf(told->key, sizeof told->key, "%s-%d", name, i);
		told->done = false;
		told->question = (struct kw_question){
			.key = kw_slice_text(told->key), .fn = on_got, .arg = told};
		kw_gets_ask(world->gets, &told->question);
		assert_false(told->done);
	}
	kw_gets_post(world->gets);
	for (int i = 0; i < KEYS; i++)
		while (!world->told[i].done) {
			assert_true(kw_clock_us() < ends_us);
			uv_run(&world->loop, UV_RUN_ONCE);
		}
}

static void world_close(struct world *world)
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

static void all_were(const struct world *world, enum kw_get_outcome outcome)
{
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(world->told[i].outcome, outcome);
}

static void an_incomplete_table_an_old_one_and_none_are_told_apart(void **state)
{
	struct world world;

	world_open(&world, 1000);
	ask(&world, "key");
	all_were(&world, KW_GOT_LOST);
	publish(&world, false, 0);
	run_until_state(&world, KW_GATEWAY_LOADING);
	ask(&world, "key");
	all_were(&world, KW_GOT_LOADING);
	publish(&world, true, 0);
	ask(&world, "key");
	all_were(&world, KW_GOT_STALE);
	publish(&world, true, kw_wall_us() - 1500000);
	ask(&world, "key");
	all_were(&world, KW_GOT_STALE);
	publish(&world, true, kw_wall_us());
	ask(&world, "key");
	all_were(&world, KW_GOT_MISSING);
	kw_server_close(world.server, on_server_closed, &world);
	while (world.server)
		uv_run(&world.loop, UV_RUN_ONCE);
	run_until_state(&world, KW_GATEWAY_CONNECTING);
	ask(&world, "key");
	all_were(&world, KW_GOT_LOST);
	world_close(&world);
}

static void a_key_past_its_time_is_missing(void **state)
{
	struct world world;
	uint64_t now_ms = kw_wall_us() / 1000;
	char key[16];

	world_open(&world, 60000);
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		put(&world, key, "v", i % 2 ? now_ms - 1000 : now_ms + 100000);
	}
	publish(&world, true, kw_wall_us());
	run_until_state(&world, KW_GATEWAY_SERVING);
	ask(&world, "key");
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(world.told[i].outcome, i % 2 ? KW_GOT_MISSING : KW_GOT_VALUE);
	world_close(&world);
}

/*
 * A remembered place is as fresh as the newest look that the lookups were told of. A lookup that
 * began beside a look would count on what it shows, and find a copy that the cleaner left behind.
 */
static void an_answer_is_as_fresh_as_the_look_that_it_counts_on(void **state)
{
	struct world world;
	struct kw_gets_stats stats;
	char key[16], value[VALUE];

	world_open(&world, 60000);
	publish(&world, true, kw_wall_us());
	run_until_state(&world, KW_GATEWAY_SERVING);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 400; i++) {
			snprintf(key, sizeof key, "other-%d", i % 600);
			snprintf(value, sizeof value, "%d of %d and more of it", round, i);
			put(&world, key, value, 0);
		}
		world.now_us += 10000;
		kw_table_set_time(world.table, world.now_us);
		kw_table_tidy(world.table);
		for (int i = 0; i < KEYS; i++) {
			snprintf(key, sizeof key, "steady-%d", i);
			snprintf(value, sizeof value, "%d of %d", round, i);
			if (round % 7 == i % 7)
				put(&world, key, value, 0);
		}
		publish(&world, true, kw_wall_us());
		ask(&world, "steady");
		for (int i = 0; i < KEYS; i++) {
			struct kw_slice right;
			uint64_t expires_ms;

			if (!kw_table_get(world.table, 0, kw_slice_text(world.told[i].key), &right,
				    &expires_ms)) {
				assert_int_equal(world.told[i].outcome, KW_GOT_MISSING);
				continue;
			}
			assert_int_equal(world.told[i].outcome, KW_GOT_VALUE);
			assert_memory_equal(world.told[i].value, (const char *)right.data + 1,
				right.length - 1);
		}
	}
	kw_gets_stats(world.gets, &stats);
	print_message("%llu by place, %llu by slots\n", (unsigned long long)stats.by_place,
		(unsigned long long)stats.by_slots);
	assert_true(stats.by_place > 300);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_incomplete_table_an_old_one_and_none_are_told_apart),
		cmocka_unit_test(a_key_past_its_time_is_missing),
		cmocka_unit_test(an_answer_is_as_fresh_as_the_look_that_it_counts_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
