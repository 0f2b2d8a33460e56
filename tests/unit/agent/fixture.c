#include "fixture.h"

#include "base/clock.h"
#include "base/hash.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_US 20000000
#define TICK_MS 10
#define TABLE_BYTES ((uint64_t)64 << 20)

static void on_nudge(uv_timer_t *handle)
{
}

static void on_freed(uv_handle_t *handle)
{
	free(handle);
}

void test_run(uv_loop_t *loop, bool (*holds)(void *arg), void *arg, const char *what)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;
	uv_timer_t *nudge = kw_alloc(sizeof *nudge);

	/* So that uv_run returns even when nothing happens. */
	uv_timer_init(loop, nudge);
	uv_timer_start(nudge, on_nudge, TICK_MS, TICK_MS);
	while (!holds(arg)) {
		if (kw_clock_us() > until) {
			fprintf(stderr, "fixture: waited in vain until %s\n", what);
			abort();
		}
		uv_run(loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)nudge, on_freed);
}

static bool is_past(void *arg)
{
	return kw_clock_us() >= *(uint64_t *)arg;
}

void test_run_ms(uv_loop_t *loop, unsigned ms)
{
	uint64_t until = kw_clock_us() + (uint64_t)ms * 1000;

	test_run(loop, is_past, &until, "time passes");
}

const char *test_cli(const struct test_server *server, const char *format, ...)
{
	static char output[65536];
	char words[4096], command[4608];
	size_t length;
	va_list args;
	FILE *pipe;

	va_start(args, format);
	vsnprintf(words, sizeof words, format, args);
	va_end(args);
	snprintf(command, sizeof command, "redis-cli -s %s/s %s 2>&1", server->folder, words);
	pipe = popen(command, "r");
	if (!pipe)
		abort();
	length = fread(output, 1, sizeof output - 1, pipe);
	pclose(pipe);
	while (length > 0 && output[length - 1] == '\n')
		length--;
	output[length] = '\0';
	return output;
}

void test_server_restart(struct test_server *server, const char *const *extra)
{
	test_server_stop(server);
	test_server_start(server, extra);
}

/* ---- a local connection ---- */

static void on_tick(uv_timer_t *handle)
{
	struct test_local *test = handle->data;

	kw_local_tick(&test->local, kw_clock_us());
}

static void on_assessed(void *arg, bool continuous)
{
	struct test_local *test = arg;

	test->assessed++;
	test->continuous = continuous;
	if (test->on_assessed)
		test->on_assessed(test->arg, continuous);
}

static void on_gone(void *arg)
{
	struct test_local *test = arg;

	test->gone++;
	if (test->on_gone)
		test->on_gone(test->arg);
}

static void on_flushed(void *arg)
{
	((struct test_local *)arg)->flushed++;
}

static void on_selected(void *arg)
{
	struct test_local *test = arg;

	test->selected++;
	if (test->on_selected)
		test->on_selected(test->arg);
}

static void on_local_closed(void *arg)
{
	((struct test_local *)arg)->closed++;
}

void test_local_open(
	struct test_local *test, uv_loop_t *loop, const char *address, enum kw_cursor_store store)
{
	const struct kw_local_handlers handlers = {
		.assessed = on_assessed,
		.gone = on_gone,
		.flushed = on_flushed,
		.selected = on_selected,
		.closed = on_local_closed,
		.arg = test,
	};
	struct kw_local_options options = {
		.loop = loop,
		.filter = &test->filter,
		.cursor_name = "keywake_cursor",
		.store = store,
	};

	test->loop = loop;
	snprintf(options.redis.address, sizeof options.redis.address, "%s", address);
	kw_local_init(&test->local, &options, &handlers);
	uv_timer_init(loop, &test->timer);
	test->timer.data = test;
	uv_timer_start(&test->timer, on_tick, 0, TICK_MS);
}

static bool is_ready(void *arg)
{
	return kw_local_ready(&((struct test_local *)arg)->local);
}

void test_local_wait_ready(struct test_local *test)
{
	test_run(test->loop, is_ready, test, "the local server is ready");
}

static bool is_local_closed(void *arg)
{
	return ((struct test_local *)arg)->closed > 0;
}

void test_local_stop(struct test_local *test)
{
	uv_close((uv_handle_t *)&test->timer, NULL);
	kw_local_close(&test->local);
	test_run(test->loop, is_local_closed, test, "the local connection is closed");
	kw_filter_close(&test->filter);
}

/* ---- a proxy without a source ---- */

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	return kw_memory_extend(arg, extent, error);
}

static uint64_t epoch_of(void *arg)
{
	return ((struct test_proxy *)arg)->epoch;
}

static void on_joined(void *arg, const struct kw_session_info *session)
{
	((struct test_proxy *)arg)->joined++;
}

static void on_left(void *arg, const struct kw_session_info *session, const char *why)
{
}

static void on_rejected(void *arg, const char *why)
{
	fprintf(stderr, "fixture: rejected: %s\n", why);
}

void test_proxy_publish(struct test_proxy *proxy)
{
	proxy->facts.fresh_us = kw_wall_us();
	kw_table_set_time(proxy->table, kw_clock_us());
	kw_table_set_facts(proxy->table, &proxy->facts);
	kw_table_publish(proxy->table, kw_wall_us());
}

static void on_heartbeat(uv_timer_t *handle)
{
	struct test_proxy *proxy = handle->data;

	kw_table_set_passed(proxy->table, kw_server_lowest_passed(proxy->server));
	if (!proxy->silent)
		test_proxy_publish(proxy);
}

static void make_table(struct test_proxy *proxy)
{
	const struct kw_table_options options = {
		.max_bytes = TABLE_BYTES,
		.segment_bytes = 256 << 10,
		.retention_us = 60000000,
		.grace_us = 1000000,
		.epoch = proxy->epoch,
		.hash_seed = 7,
		.functions = true,
	};
	struct kw_table_memory memory = {.extend = extend, .arg = &proxy->memory};
	struct kw_error error;

	if (kw_memory_init(&proxy->memory, TABLE_BYTES * 2, &error))
		abort();
	memory.base = proxy->memory.base;
	memory.reserve_bytes = proxy->memory.reserve_bytes;
	proxy->table = kw_table_new(&options, &memory, kw_clock_us(), &error);
	if (!proxy->table)
		abort();
}

void test_proxy_start(struct test_proxy *proxy, uv_loop_t *loop, uint64_t epoch, bool complete)
{
	const struct kw_server_handlers handlers = {
		.epoch = epoch_of,
		.joined = on_joined,
		.left = on_left,
		.rejected = on_rejected,
		.arg = proxy,
	};
	const struct kw_server_options options = {0};
	struct kw_address address;
	struct kw_error error;

	*proxy = (struct test_proxy){
		.loop = loop,
		.epoch = epoch,
		.facts = {complete ? KW_SOURCE_LIVE : KW_SOURCE_SCANNING, complete, 10, 0},
		.folder = "/tmp/kw-agent-XXXXXX",
	};
	if (!mkdtemp(proxy->folder))
		abort();
	make_table(proxy);
	snprintf(proxy->address, sizeof proxy->address, "shm://%s/x", proxy->folder);
	proxy->server = kw_server_new(loop, &proxy->memory, &options, &handlers);
	if (kw_address_parse(proxy->address, &address, &error) ||
		kw_server_listen(proxy->server, &address, &error)) {
		fprintf(stderr, "fixture: %s\n", error.text);
		abort();
	}
	test_proxy_publish(proxy);
	uv_timer_init(loop, &proxy->timer);
	proxy->timer.data = proxy;
	uv_timer_start(&proxy->timer, on_heartbeat, TICK_MS, TICK_MS);
}

static void on_server_closed(void *arg)
{
	((struct test_proxy *)arg)->closed++;
}

static bool is_proxy_closed(void *arg)
{
	return ((struct test_proxy *)arg)->closed > 0;
}

void test_proxy_stop(struct test_proxy *proxy)
{
	uv_close((uv_handle_t *)&proxy->timer, NULL);
	kw_server_close(proxy->server, on_server_closed, proxy);
	test_run(proxy->loop, is_proxy_closed, proxy, "the proxy's server is closed");
	kw_table_free(proxy->table);
	kw_memory_close(&proxy->memory);
	rmdir(proxy->folder);
}

struct kw_slice test_payload(const char *value, uint8_t bytes[static 256])
{
	size_t length = strlen(value);
	uint64_t crc;

	bytes[0] = 0;               /* a string */
	bytes[1] = (uint8_t)length; /* below 64: one byte of length */
	memcpy(bytes + 2, value, length);
	bytes[length + 2] = 10;
	bytes[length + 3] = 0;
	crc = kw_crc64(0, bytes, length + 4);
	memcpy(bytes + length + 4, &crc, sizeof crc);
	return kw_slice(bytes, length + 12);
}

void test_proxy_put(struct test_proxy *proxy, uint32_t database, const char *key, const char *value)
{
	uint8_t bytes[256];

	kw_table_put(proxy->table, database, kw_slice_text(key), test_payload(value, bytes), 0);
}

void test_proxy_delete(struct test_proxy *proxy, uint32_t database, const char *key)
{
	kw_table_delete(proxy->table, database, kw_slice_text(key));
}
