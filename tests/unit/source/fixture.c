#include "fixture.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdb/payload.h"
#include "redis/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 40
#define RESERVE_BYTES (UINT64_C(1) << 30)

/* The server. */

static void wait_for_socket(const struct test_server *server)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	snprintf(name.sun_path, sizeof name.sun_path, "%s/s", server->folder);
	for (int i = 0; i < 1000; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int result = connect(fd, (struct sockaddr *)&name, sizeof name);

		close(fd);
		if (result == 0)
			return;
		usleep(10000);
	}
	fail_msg("the server does not come up in %s", server->folder);
}

void test_server_again(struct test_server *server, const char *words)
{
	char copy[1024], socket_path[96];
	const char *argv[WORDS_MAX] = {"redis-server", "--port", "0", "--dir", server->folder,
		"--unixsocket", socket_path, "--save", "", "--enable-debug-command", "yes"};
	int argc = 11, log;

	snprintf(socket_path, sizeof socket_path, "%s/s", server->folder);
	snprintf(copy, sizeof copy, "%s", words);
	for (char *word = strtok(copy, " "); word && argc < WORDS_MAX - 1; word = strtok(NULL, " "))
		argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
	server->pid = fork();
	assert_true(server->pid >= 0);
	if (server->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		log = open("/dev/null", O_WRONLY);
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	wait_for_socket(server);
}

void test_server_start(struct test_server *server, const char *words)
{
	strcpy(server->folder, "/tmp/kw-source-XXXXXX");
	assert_non_null(mkdtemp(server->folder));
	snprintf(server->address, sizeof server->address, "unix://%s/s", server->folder);
	test_server_again(server, words);
}

void test_server_kill(struct test_server *server)
{
	if (server->pid <= 0)
		return;
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

void test_server_stop(struct test_server *server)
{
	char command[128];

	test_server_kill(server);
	snprintf(command, sizeof command, "rm -rf '%s'", server->folder);
	assert_int_equal(system(command), 0);
}

/* The loop. */

static void on_publish(uv_prepare_t *handle)
{
	struct test *test = handle->data;

	if (test->table && kw_table_unpublished(test->table))
		kw_table_publish(test->table, kw_wall_us());
}

static void on_tick(uv_timer_t *timer)
{
}

void test_until(struct test *test, bool (*done)(struct test *test), const char *what)
{
	uint64_t until_us = kw_clock_us() + TEST_PATIENCE_MS * UINT64_C(1000);

	while (!done(test)) {
		if (kw_clock_us() > until_us)
			fail_msg("waited in vain for: %s (state %s: %s)", what,
				test->source ? kw_source_state_name(kw_source_state(test->source))
					     : "none",
				test->source ? kw_source_reason(test->source) : "");
		uv_run(&test->loop, UV_RUN_ONCE);
	}
}

void test_run_ms(struct test *test, uint64_t ms)
{
	uint64_t until_us = kw_clock_us() + ms * 1000;

	do {
		uv_run(&test->loop, UV_RUN_ONCE);
	} while (kw_clock_us() < until_us);
}

/* The client. */

static void on_ready(void *arg)
{
	((struct test *)arg)->client_ready = true;
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct test *test = arg;

	kw_redis_free(test->client);
	test->client = NULL;
	test->client_closed = true;
}

static bool client_is_ready(struct test *test)
{
	return test->client_ready;
}

static bool client_is_closed(struct test *test)
{
	return test->client_closed;
}

static void open_client(struct test *test)
{
	struct kw_redis_options options = {0};
	struct kw_redis_handlers handlers = {on_ready, on_closed, NULL, test};
	struct kw_error error;

	snprintf(options.address, sizeof options.address, "%s", test->server.address);
	test->client_ready = test->client_closed = false;
	assert_int_equal(kw_redis_open(&test->loop, &options, &handlers, &test->client, &error), 0);
	test_until(test, client_is_ready, "the test's own connection");
}

static void close_client(struct test *test)
{
	if (test->client)
		kw_redis_close(test->client);
	test_until(test, client_is_closed, "the end of the test's own connection");
}

void test_reconnect(struct test *test)
{
	close_client(test);
	open_client(test);
}

static void on_reply(void *arg, const struct kw_reply *reply)
{
	struct test *test = arg;

	test->replied = true;
	test->reply[0] = '\0';
	test->integer = 0;
	test->refused = reply && reply->type == KW_REPLY_ERROR;
	if (!reply) {
		strcpy(test->reply, "lost");
		return;
	}
	if (reply->type == KW_REPLY_ARRAY && reply->count > 0)
		reply = &reply->elements[reply->count - 1];
	test->integer = reply->integer;
	if (reply->type == KW_REPLY_INTEGER)
		snprintf(test->reply, sizeof test->reply, "%lld", (long long)reply->integer);
	else
		snprintf(test->reply, sizeof test->reply, "%s%.*s",
			reply->type == KW_REPLY_ERROR ? "-" : "",
			(int)(reply->text.length < 4000 ? reply->text.length : 4000),
			reply->text.data ? (const char *)reply->text.data : "");
}

static bool has_replied(struct test *test)
{
	return test->replied;
}

static int split(char *text, struct kw_slice *argv)
{
	int argc = 0;

	for (char *word = strtok(text, " "); word && argc < WORDS_MAX; word = strtok(NULL, " "))
		argv[argc++] = strcmp(word, "''") == 0 ? kw_slice("", 0) : kw_slice_text(word);
	return argc;
}

void test_send(struct test *test, int argc, const struct kw_slice *argv)
{
	test->replied = false;
	kw_redis_send(test->client, on_reply, test, argc, argv);
	test_until(test, has_replied, "a reply");
}

const char *test_try(struct test *test, const char *format, ...)
{
	struct kw_slice argv[WORDS_MAX];
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	test_send(test, split(text, argv), argv);
	return test->reply;
}

const char *test_ask(struct test *test, const char *format, ...)
{
	struct kw_slice argv[WORDS_MAX];
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	test_send(test, split(text, argv), argv);
	if (test->refused)
		fail_msg("%s: %s", format, test->reply);
	return test->reply;
}

void test_post(struct test *test, const char *format, ...)
{
	struct kw_slice argv[WORDS_MAX];
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	kw_redis_send(test->client, NULL, NULL, split(text, argv), argv);
}

/* The table and the source. */

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	return 0; /* all of it is there already */
}

static void make_table(struct test *test, uint64_t bytes)
{
	struct kw_table_memory memory = {.extend = extend};
	struct kw_table_options options = {
		.max_bytes = bytes,
		.retention_us = 1000000,
		.grace_us = 1000,
		.epoch = 7,
		.hash_seed = 11,
		.same_value = kw_source_same_value,
		.functions = test->options.functions,
	};
	struct kw_error error = {0};

	test->reserve_bytes = RESERVE_BYTES;
	test->memory = mmap(NULL, RESERVE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(test->memory != MAP_FAILED);
	memory.base = test->memory;
	memory.reserve_bytes = test->reserve_bytes;
	test->table = kw_table_new(&options, &memory, kw_clock_us(), &error);
	if (!test->table)
		fail_msg("table: %s", error.text);
}

void test_carry_functions(struct test *test)
{
	struct kw_table_stats stats;

	kw_table_stats(test->table, &stats);
	kw_table_free(test->table);
	munmap(test->memory, test->reserve_bytes);
	test->options.functions = true;
	make_table(test, stats.capacity_bytes);
}

void test_begin(struct test *test, const char *server_words, uint64_t table_bytes)
{
	memset(test, 0, sizeof *test);
	if (getenv("KW_TEST_LOG"))
		kw_log_set_level((enum kw_log_level)kw_log_level_parse(getenv("KW_TEST_LOG")));
	else
		kw_log_set_level(KW_LOG_ERROR);
	test_server_start(&test->server, server_words);
	assert_int_equal(uv_loop_init(&test->loop), 0);
	uv_prepare_init(&test->loop, &test->publish);
	test->publish.data = test;
	uv_prepare_start(&test->publish, on_publish);
	uv_timer_init(&test->loop, &test->tick);
	uv_timer_start(&test->tick, on_tick, 5, 5);
	make_table(test, table_bytes ? table_bytes : UINT64_C(256) << 20);
	open_client(test);
	snprintf(test->options.redis.address, sizeof test->options.redis.address, "%s",
		test->server.address);
	test->options.cursor_name = "keywake:cursor";
	test->options.watch_interval_ms = 100;
	test->options.max_missing = 0.2;
	test->options.fresh_interval_ms = 10;
}

static void on_state(void *arg, enum kw_source_state state, const char *reason)
{
	struct test *test = arg;
	size_t used = strlen(test->states);

	assert_true(strcmp(reason, kw_source_reason(test->source)) == 0);
	snprintf(test->states + used, sizeof test->states - used, "%s ",
		kw_source_state_name(state));
}

void test_follow(struct test *test)
{
	struct kw_source_handlers handlers = {on_state, NULL, test};
	struct kw_error error = {0};

	if (kw_source_new(
		    &test->loop, &test->options, test->table, &handlers, &test->source, &error))
		fail_msg("source: %s", error.text);
	kw_source_start(test->source);
}

static void on_source_closed(void *arg)
{
	((struct test *)arg)->source_closed = true;
}

static bool source_is_closed(struct test *test)
{
	return test->source_closed;
}

void test_leave(struct test *test)
{
	if (!test->source)
		return;
	test->source_closed = false;
	kw_source_close(test->source, on_source_closed, test);
	test->source = NULL;
	test_until(test, source_is_closed, "the end of the source");
}

void test_end(struct test *test)
{
	test_leave(test);
	close_client(test);
	uv_close((uv_handle_t *)&test->publish, NULL);
	uv_close((uv_handle_t *)&test->tick, NULL);
	uv_run(&test->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&test->loop), 0);
	kw_table_free(test->table);
	munmap(test->memory, test->reserve_bytes);
	test_server_stop(&test->server);
}

struct kw_source_stats test_stats(const struct test *test)
{
	struct kw_source_stats stats;

	kw_source_stats(test->source, &stats);
	return stats;
}

bool test_has(struct test *test, uint32_t database, const char *key)
{
	struct kw_slice value;
	uint64_t expires_ms;

	return kw_table_get(test->table, database, kw_slice_text(key), &value, &expires_ms);
}

bool test_is_live(struct test *test)
{
	return kw_source_state(test->source) == KW_SOURCE_LIVE;
}

void test_until_state(struct test *test, enum kw_source_state state)
{
	uint64_t until_us = kw_clock_us() + TEST_PATIENCE_MS * UINT64_C(1000);

	while (kw_source_state(test->source) != state) {
		if (kw_clock_us() > until_us)
			fail_msg("waited in vain for state %s, it is %s: %s (so far: %s)",
				kw_source_state_name(state),
				kw_source_state_name(kw_source_state(test->source)),
				kw_source_reason(test->source), test->states);
		uv_run(&test->loop, UV_RUN_ONCE);
	}
}

static uint64_t settle_from_us;

static bool is_fresh(struct test *test)
{
	const struct kw_superblock *superblock = (const struct kw_superblock *)test->memory;

	return test_is_live(test) && superblock->fresh_us > settle_from_us;
}

void test_settle(struct test *test)
{
	settle_from_us = kw_wall_us();
	test_until(test, is_fresh, "freshness");
	if (kw_table_unpublished(test->table))
		kw_table_publish(test->table, kw_wall_us());
}

/* Comparing. */

struct comparing {
	struct test *test;
	uint32_t database;
	uint64_t wrong;
	uint64_t total;   /* keys on the server, by INFO keyspace */
	uint64_t cursors; /* of them an agent's cursor */
	bool loud;
	struct kw_buffer names; /* of the present SCAN step: length, bytes */
	char cursor[24];
	bool stepped;
	uint64_t asked, answered;
	int64_t expires_ms;
	struct kw_slice *keys;
	uint32_t databases[64];
	int database_count;
};

static bool equal_values(struct kw_slice a, struct kw_slice b)
{
	struct kw_hash128 one, other;

	if (kw_slice_equal(a, b))
		return true;
	return kw_payload_digest(a, &one, NULL) == 0 && kw_payload_digest(b, &other, NULL) == 0 &&
	       one.low == other.low && one.high == other.high;
}

static void compare_expiry(void *arg, const struct kw_reply *reply)
{
	struct comparing *c = arg;

	assert_non_null(reply);
	c->expires_ms = reply->integer < 0 ? 0 : reply->integer;
}

static void compare_value(void *arg, const struct kw_reply *reply)
{
	struct comparing *c = arg;
	struct kw_slice key = c->keys[c->answered++], value = {0};
	uint64_t expires_ms = 0;
	bool here = kw_table_get(c->test->table, c->database, key, &value, &expires_ms);
	bool there = reply && reply->type == KW_REPLY_STRING;
	bool cursor = c->database == 0 && kw_slice_equal(key, kw_slice_text("keywake:cursor"));

	c->cursors += cursor && there;
	if (cursor ? !here
		   : here == there && (!here || (equal_values(value, reply->text) &&
							expires_ms == (uint64_t)c->expires_ms)))
		return;
	c->wrong++;
	if (c->loud && c->wrong < 10)
		print_error("database %u, key '%.*s': server %s, table %s, expires %lld and %llu\n",
			c->database, (int)key.length, (const char *)key.data,
			there ? "has it" : "lacks it", here ? "has it" : "lacks it",
			(long long)c->expires_ms, (unsigned long long)expires_ms);
}

static void take_step(void *arg, const struct kw_reply *reply)
{
	struct comparing *c = arg;

	assert_non_null(reply);
	assert_int_equal(reply->type, KW_REPLY_ARRAY);
	snprintf(c->cursor, sizeof c->cursor, "%.*s", (int)reply->elements[0].text.length,
		(const char *)reply->elements[0].text.data);
	for (size_t i = 0; i < reply->elements[1].count; i++) {
		struct kw_slice key = reply->elements[1].elements[i].text;

		kw_buffer_append(&c->names, &key.length, sizeof key.length);
		kw_buffer_append(&c->names, key.data, key.length);
	}
	c->stepped = true;
}

static void compare_step(struct comparing *c)
{
	size_t at = 0, length = kw_buffer_length(&c->names), count = 0;
	const uint8_t *bytes = kw_buffer_bytes(&c->names);

	c->keys = kw_realloc(c->keys, (length / sizeof(size_t) + 1) * sizeof *c->keys);
	while (at < length) {
		memcpy(&c->keys[count].length, bytes + at, sizeof(size_t));
		c->keys[count].data = bytes + at + sizeof(size_t);
		at += sizeof(size_t) + c->keys[count++].length;
	}
	c->answered = 0;
	for (size_t i = 0; i < count; i++) {
		struct kw_slice argv[2] = {kw_slice_text("PEXPIRETIME"), c->keys[i]};

		kw_redis_send(c->test->client, compare_expiry, c, 2, argv);
		argv[0] = kw_slice_text("DUMP");
		kw_redis_send(c->test->client, compare_value, c, 2, argv);
	}
	while (c->answered < count)
		uv_run(&c->test->loop, UV_RUN_ONCE);
	kw_buffer_clear(&c->names);
}

static bool followed(const struct test *test, uint32_t database)
{
	for (size_t i = 0; i < test->options.database_count; i++)
		if (test->options.databases[i] == database)
			return true;
	return test->options.database_count == 0;
}

static void list_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	struct comparing *c = arg;

	if (!followed(c->test, database))
		return;
	assert_true(c->database_count < 64);
	c->databases[c->database_count++] = database;
	c->total += keys;
}

static void take_keyspace(void *arg, const struct kw_reply *reply)
{
	struct comparing *c = arg;

	kw_info_keyspace(reply->text, list_database, c);
	c->stepped = true;
}

static void run_step(struct comparing *c)
{
	for (c->stepped = false; !c->stepped;)
		uv_run(&c->test->loop, UV_RUN_ONCE);
}

bool test_same(struct test *test, bool loud)
{
	struct comparing c = {.test = test, .loud = loud};
	struct kw_table_stats stats;
	char number[16];

	kw_redis_words(test->client, take_keyspace, &c, "INFO", "keyspace", NULL);
	run_step(&c);
	for (int i = 0; i < c.database_count; i++) {
		c.database = c.databases[i];
		snprintf(number, sizeof number, "%u", c.database);
		kw_redis_words(test->client, NULL, NULL, "SELECT", number, NULL);
		strcpy(c.cursor, "0");
		do {
			kw_redis_words(test->client, take_step, &c, "SCAN", c.cursor, "COUNT",
				"1000", NULL);
			run_step(&c);
			compare_step(&c);
		} while (strcmp(c.cursor, "0") != 0);
	}
	kw_redis_words(test->client, NULL, NULL, "SELECT", "0", NULL);
	c.database_count = 0;
	c.total = 0;
	kw_redis_words(test->client, take_keyspace, &c, "INFO", "keyspace", NULL);
	run_step(&c);
	kw_table_stats(test->table, &stats);
	if (stats.keys + c.cursors != c.total) {
		c.wrong++;
		if (loud)
			print_error("%llu keys in the table, %llu on the server\n",
				(unsigned long long)stats.keys,
				(unsigned long long)(c.total - c.cursors));
	}
	kw_buffer_close(&c.names);
	free(c.keys);
	return c.wrong == 0;
}

void test_assert_same(struct test *test)
{
	assert_true(test_same(test, true));
}
