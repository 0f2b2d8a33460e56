/*
 * Verify and get, over a real table in shared memory and real servers: "primary" wrote what is in
 * the table, "replica" has other limits and holds the same values, until a test changes something.
 */
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
#include <uv.h>

#include "../redis/payload_peer.h"
#include "base/clock.h"
#include "get.h"
#include "remote/memory.h"
#include "remote/server.h"
#include "table/table.h"
#include "verify.h"

#define RESERVE (UINT64_C(256) << 20)
#define WAIT_US UINT64_C(30000000)
#define FAR_FUTURE "1893456000123"

static struct peer primary, replica;

struct world {
	uv_loop_t loop;
	uv_timer_t tick;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_server *server;
	struct kw_remote *remote;
	bool connected;
	char folder[32];
	struct kw_filter filter;
	struct kw_verify_options options;
	struct kw_verify *verify;
	struct kw_verify_result result; /* without the names */
	char names[3][2][64];           /* the first two of each list */
	struct kw_error error;
	bool done;
	int closed;
	void (*on_tick)(struct world *world, int turn);
	int turn;
};

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

static struct kw_remote *remote_of(void *arg)
{
	struct world *world = arg;

	return world->connected ? world->remote : NULL;
}

static void run_until(struct world *world, const bool *flag)
{
	uint64_t until = kw_clock_us() + WAIT_US;

	while (!*flag && kw_clock_us() < until)
		uv_run(&world->loop, UV_RUN_ONCE);
	assert_true(*flag);
}

static void connect_remote(struct world *world)
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

static void world_open(struct world *world, bool complete)
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

static void world_close(struct world *world)
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

/* The primary's key goes into the table, and to the replica too if asked for. */
static void publish(struct world *world, uint32_t database, const char *key, bool replicate)
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

/* Strings by the hundred, and one value of every other type in two databases. */
static void fill(struct world *world, int strings)
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

#define FILLED 13 /* besides the strings */

static void note_names(struct world *world, int which, const struct kw_verify_list *list)
{
	assert_true(list->named ==
		    (list->count < KW_VERIFY_NAMES_MAX ? (int)list->count : KW_VERIFY_NAMES_MAX));
	for (int i = 0; i < 2; i++)
		if (i < list->named)
			snprintf(world->names[which][i], 64, "%u:%.*s", list->names[i].database,
				(int)list->names[i].key.length,
				(const char *)list->names[i].key.data);
}

static void on_verified(
	void *arg, const struct kw_verify_result *result, const struct kw_error *error)
{
	struct world *world = arg;

	world->done = true;
	world->verify = NULL;
	world->result = *result;
	note_names(world, 0, &result->different);
	note_names(world, 1, &result->missing);
	note_names(world, 2, &result->extra);
	world->error = error ? *error : (struct kw_error){0};
}

static void begin(struct world *world)
{
	struct kw_error error;

	world->done = false;
	memset(world->names, 0, sizeof world->names);
	if (kw_verify_start(&world->options, on_verified, world, &world->verify, &error))
		fail_msg("%s", error.text);
}

static void verify(struct world *world)
{
	begin(world);
	run_until(world, &world->done);
	if (world->error.code)
		fail_msg("%s", world->error.text);
}

static void assert_counts(const struct world *world, uint64_t checked, uint64_t different,
	uint64_t missing, uint64_t extra)
{
	const struct kw_verify_result *result = &world->result;

	assert_int_equal(result->checked, checked);
	assert_int_equal(result->different.count, different);
	assert_int_equal(result->missing.count, missing);
	assert_int_equal(result->extra.count, extra);
	assert_int_equal(result->unsettled, 0);
	assert_int_equal(result->equal, checked - different - missing);
}

static void an_equal_replica_is_called_equal_whatever_its_encodings(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 3000);
	verify(&world);
	assert_counts(&world, 3000 + FILLED, 0, 0, 0);
	assert_int_equal(world.result.scanned, 3000 + FILLED);
	assert_int_equal(world.result.rechecked, 0);
	world_close(&world);
}

static void what_differs_is_named_and_nothing_else(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 100);
	peer_words(&replica, NULL, "SET", "key-7", "other", NULL);
	peer_words(&replica, NULL, "DEL", "key-8", NULL);
	peer_words(&replica, NULL, "SET", "nobody knows me", "x", NULL);
	peer_words(&replica, NULL, "PEXPIREAT", "ttl", "1893456000124", NULL);
	verify(&world);
	assert_counts(&world, 100 + FILLED, 2, 1, 1);
	assert_string_equal(world.names[1][0], "0:key-8");
	assert_string_equal(world.names[2][0], "0:nobody knows me");
	assert_true(
		(!strcmp(world.names[0][0], "0:key-7") && !strcmp(world.names[0][1], "0:ttl")) ||
		(!strcmp(world.names[0][1], "0:key-7") && !strcmp(world.names[0][0], "0:ttl")));

	peer_words(&replica, NULL, "SELECT", "3", NULL);
	peer_words(&replica, NULL, "HINCRBY", "hash", "f", "1", NULL);
	peer_words(&replica, NULL, "SELECT", "0", NULL);
	peer_words(&replica, NULL, "PERSIST", "ttl", NULL);
	peer_words(&replica, NULL, "SET", "key-7", "key-7", NULL);
	verify(&world);
	assert_counts(&world, 100 + FILLED, 2, 1, 1);
	assert_true(!strcmp(world.names[0][0], "3:hash") || !strcmp(world.names[0][1], "3:hash"));
	world_close(&world);
}

/* 150 ms after the first look all is mended: before the second. */
static void mend(struct world *world, int turn)
{
	if (turn != 30)
		return;
	peer_words(&replica, NULL, "SET", "key-7", "key-7", NULL);
	peer_words(&replica, NULL, "SET", "key-8", "key-8", NULL);
	peer_words(&replica, NULL, "DEL", "extra", NULL);
}

static void what_catches_up_before_the_second_look_is_not_accused(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 100);
	peer_words(&replica, NULL, "SET", "key-7", "other", NULL);
	peer_words(&replica, NULL, "DEL", "key-8", NULL);
	peer_words(&replica, NULL, "SET", "extra", "x", NULL);
	world.on_tick = mend;
	verify(&world);
	assert_counts(&world, 100 + FILLED, 0, 0, 0);
	assert_true(world.result.rechecked >= 3);
	world_close(&world);
}

static void change_key_7(uv_idle_t *idle)
{
	struct world *world = idle->data;
	char value[32];

	snprintf(value, sizeof value, "not a payload %d", world->turn++);
	kw_table_put(world->table, 0, kw_slice_text("key-7"), kw_slice_text(value), 0);
}

static void a_key_that_never_holds_still_is_unsettled_not_accused(void **state)
{
	struct world world;
	uv_idle_t idle;

	world_open(&world, true);
	fill(&world, 10);
	peer_words(&replica, NULL, "SET", "key-7", "other", NULL);
	/* At every turn of the loop: so between the two lookups of every look. */
	uv_idle_init(&world.loop, &idle);
	idle.data = &world;
	uv_idle_start(&idle, change_key_7);
	verify(&world);
	uv_close((uv_handle_t *)&idle, NULL);
	assert_int_equal(world.result.unsettled, 1);
	assert_int_equal(world.result.checked, 10 + FILLED);
	assert_int_equal(world.result.equal, 10 + FILLED - 1);
	assert_int_equal(world.result.different.count, 0);
	world_close(&world);
}

static void an_expired_key_is_not_missed(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 10);
	kw_table_put(world.table, 0, kw_slice_text("gone"), kw_slice_text("some payload"),
		kw_wall_us() / 1000 - 1);
	kw_table_publish(world.table, kw_wall_us());
	verify(&world);
	assert_counts(&world, 10 + FILLED + 1, 0, 0, 0);
	world_close(&world);
}

static void filters_and_the_cursor_key_are_left_alone(void **state)
{
	struct world world;
	struct kw_error error;

	world_open(&world, true);
	fill(&world, 100);
	strcpy(world.options.cursor_key, "key-cursor");
	peer_words(&replica, NULL, "SET", "key-cursor", "ours", NULL);
	peer_words(&replica, NULL, "SET", "foreign", "x", NULL);
	peer_words(&replica, NULL, "DEL", "set", NULL);
	assert_int_equal(kw_filter_add_prefix(&world.filter, "key-", &error), 0);
	verify(&world);
	assert_counts(&world, 100, 0, 0, 0);
	assert_int_equal(world.result.scanned, 100);
	kw_filter_close(&world.filter);
	assert_int_equal(kw_filter_add_database(&world.filter, 3, &error), 0);
	verify(&world);
	assert_counts(&world, 6, 0, 0, 0);
	world_close(&world);
}

static void a_sample_compares_about_so_many_keys(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 4000);
	peer_words(&replica, NULL, "SET", "extra", "x", NULL);
	world.options.sample = 400;
	verify(&world);
	assert_true(world.result.sampled);
	assert_in_range(world.result.checked, 300, 500);
	assert_int_equal(world.result.equal, world.result.checked);
	assert_int_equal(world.result.scanned, 0);
	world.options.sample = 1000000;
	verify(&world);
	assert_int_equal(world.result.checked, 4000 + FILLED);
	world_close(&world);
}

static void an_empty_replica_of_a_large_table_is_counted_to_the_last_key(void **state)
{
	const uint64_t keys = KW_VERIFY_SUSPECTS_MAX + 2000;
	struct world world;
	char key[32];

	world_open(&world, true);
	for (uint64_t i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
		kw_table_put(world.table, 0, kw_slice_text(key), kw_slice_text("payload"), 0);
	}
	kw_table_publish(world.table, kw_wall_us());
	verify(&world);
	assert_counts(&world, keys, 0, keys, 0);
	world_close(&world);
}

static void an_incomplete_table_is_not_compared(void **state)
{
	struct world world;

	world_open(&world, false);
	begin(&world);
	run_until(&world, &world.done);
	assert_int_equal(world.error.code, KW_E_STATE);
	assert_non_null(strstr(world.error.text, "not complete"));
	world_close(&world);
}

static void drop_link(struct world *world, int turn)
{
	if (turn == 5 && world->remote)
		kw_remote_close(world->remote);
}

static void a_lost_proxy_ends_it_with_a_sentence(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 100);
	peer_words(&replica, NULL, "SET", "extra", "x", NULL); /* keeps it busy for a while */
	world.on_tick = drop_link;
	begin(&world);
	run_until(&world, &world.done);
	assert_int_equal(world.error.code, KW_E_IO);
	world_close(&world);
}

static void a_cancelled_verify_ends_and_leaves_nothing(void **state)
{
	struct world world;

	for (int turns = 0; turns < 40; turns++) {
		world_open(&world, true);
		if (turns == 0 || turns > 37)
			fill(&world, 500);
		peer_words(&replica, NULL, "SET", "extra", "x", NULL);
		begin(&world);
		for (int i = 0; i < turns && !world.done; i++)
			uv_run(&world.loop, UV_RUN_ONCE);
		if (!world.done) {
			kw_verify_cancel(world.verify, "enough");
			assert_false(world.done);
			run_until(&world, &world.done);
			assert_int_equal(world.error.code, KW_E_STATE);
			assert_string_equal(world.error.text, "verify: enough");
		}
		world_close(&world);
	}
}

static void a_server_that_cannot_be_reached_is_said(void **state)
{
	struct world world;
	struct kw_error error;

	world_open(&world, true);
	strcpy(world.options.redis.address, "unix:///nowhere/at/all");
	begin(&world);
	run_until(&world, &world.done);
	assert_int_not_equal(world.error.code, KW_OK);
	assert_non_null(strstr(world.error.text, "verify: the local server"));
	strcpy(world.options.redis.address, "nonsense");
	assert_int_equal(
		kw_verify_start(&world.options, on_verified, &world, &world.verify, &error),
		KW_E_CONFIG);
	world_close(&world);
}

/* ---- get ---- */

struct asked {
	bool done;
	struct kw_get_result result;
	struct kw_error error;
	char type[16], text[64];
};

static void on_got(void *arg, const struct kw_get_result *result, const struct kw_error *error)
{
	struct asked *asked = arg;

	asked->done = true;
	asked->error = error ? *error : (struct kw_error){0};
	if (error)
		return;
	asked->result = *result;
	if (result->found)
		snprintf(asked->type, sizeof asked->type, "%s", result->type);
	if (result->text.data)
		snprintf(asked->text, sizeof asked->text, "%.*s", (int)result->text.length,
			(const char *)result->text.data);
}

static void ask(struct world *world, struct kw_get *get, uint32_t database, const char *key,
	struct asked *asked)
{
	*asked = (struct asked){0};
	assert_int_equal(kw_get_ask(get, database, kw_slice_text(key), on_got, asked, NULL), KW_OK);
	assert_false(asked->done);
	run_until(world, &asked->done);
}

static void set_flag(void *arg)
{
	*(bool *)arg = true;
}

static void get_tells_what_the_table_holds(void **state)
{
	struct world world;
	struct kw_get *get;
	struct asked asked;
	bool closed = false;

	world_open(&world, true);
	fill(&world, 10);
	get = kw_get_new(&world.loop, remote_of, &world);
	ask(&world, get, 0, "ttl", &asked);
	assert_true(asked.result.found);
	assert_string_equal(asked.type, "string");
	assert_string_equal(asked.text, "v");
	assert_int_equal(asked.result.expires_ms, 1893456000123);
	assert_int_equal(strlen(asked.result.digest), 32);
	assert_int_equal(asked.result.rdb_version, 10);
	assert_true(asked.result.version > 0);
	ask(&world, get, 3, "hash", &asked);
	assert_true(asked.result.found);
	assert_string_equal(asked.type, "hash");
	assert_null(asked.result.text.data);
	ask(&world, get, 1, "hash", &asked);
	assert_int_equal(asked.error.code, KW_OK);
	assert_false(asked.result.found);
	kw_get_close(get, set_flag, &closed);
	run_until(&world, &closed);
	world_close(&world);
}

static void get_survives_a_lost_connection(void **state)
{
	struct world world;
	struct kw_get *get;
	struct asked asked;
	bool closed = false;

	world_open(&world, true);
	fill(&world, 10);
	get = kw_get_new(&world.loop, remote_of, &world);
	ask(&world, get, 0, "key-1", &asked);
	assert_true(asked.result.found);
	kw_remote_close(world.remote);
	while (world.remote)
		uv_run(&world.loop, UV_RUN_ONCE);
	kw_get_lost(get);
	ask(&world, get, 0, "key-1", &asked);
	assert_int_equal(asked.error.code, KW_E_IO);
	connect_remote(&world);
	ask(&world, get, 0, "key-1", &asked);
	assert_int_equal(asked.error.code, KW_OK);
	assert_true(asked.result.found);
	kw_get_close(get, set_flag, &closed);
	run_until(&world, &closed);
	world_close(&world);
}

static void get_refuses_too_many_and_tells_all_at_the_end(void **state)
{
	struct asked asked[KW_GET_WAITING_MAX + 1] = {0};
	struct world world;
	struct kw_error error;
	struct kw_get *get;
	bool closed = false;

	world_open(&world, true);
	get = kw_get_new(&world.loop, remote_of, &world);
	for (int i = 0; i < KW_GET_WAITING_MAX; i++)
		assert_int_equal(
			kw_get_ask(get, 0, kw_slice_text("k"), on_got, &asked[i], NULL), KW_OK);
	assert_int_equal(
		kw_get_ask(get, 0, kw_slice_text("k"), on_got, &asked[KW_GET_WAITING_MAX], &error),
		KW_E_FULL);
	kw_get_close(get, set_flag, &closed);
	run_until(&world, &closed);
	for (int i = 0; i < KW_GET_WAITING_MAX; i++)
		assert_true(asked[i].done && asked[i].error.code == KW_E_STATE);
	world_close(&world);
}

static int start_servers(void **state)
{
	static const char *const limits[] = {"--hash-max-listpack-entries", "0",
		"--zset-max-listpack-entries", "0", "--set-max-intset-entries", "0",
		"--rdbcompression", "no", NULL};

	signal(SIGPIPE, SIG_IGN);
	peer_start(&primary, "/usr/bin/redis-server", NULL);
	peer_start(&replica, "/usr/bin/redis-server", limits);
	return 0;
}

static int stop_servers(void **state)
{
	peer_stop(&primary);
	peer_stop(&replica);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_equal_replica_is_called_equal_whatever_its_encodings),
		cmocka_unit_test(what_differs_is_named_and_nothing_else),
		cmocka_unit_test(what_catches_up_before_the_second_look_is_not_accused),
		cmocka_unit_test(a_key_that_never_holds_still_is_unsettled_not_accused),
		cmocka_unit_test(an_expired_key_is_not_missed),
		cmocka_unit_test(filters_and_the_cursor_key_are_left_alone),
		cmocka_unit_test(a_sample_compares_about_so_many_keys),
		cmocka_unit_test(an_empty_replica_of_a_large_table_is_counted_to_the_last_key),
		cmocka_unit_test(an_incomplete_table_is_not_compared),
		cmocka_unit_test(a_lost_proxy_ends_it_with_a_sentence),
		cmocka_unit_test(a_cancelled_verify_ends_and_leaves_nothing),
		cmocka_unit_test(a_server_that_cannot_be_reached_is_said),
		cmocka_unit_test(get_tells_what_the_table_holds),
		cmocka_unit_test(get_survives_a_lost_connection),
		cmocka_unit_test(get_refuses_too_many_and_tells_all_at_the_end),
	};

	return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
