/* Export: from a table in this process through a pipe; what real servers say: the integration
 * tests. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "inspect/export.h"
#include "remote/remote.h"

#define EPOCH 4711

static struct world {
	uv_loop_t loop;
	struct test_proxy proxy;
	struct kw_remote *remote;
	bool connected, away;
	struct kw_filter filter;
	struct kw_export *export;
	struct kw_export_result result;
	struct kw_error error;
	bool done, unwanted, reading;
	int told;          /* of progress */
	uv_timer_t reader; /* takes what comes out of the pipe */
	int pipe[2];
	struct kw_buffer bytes;
} world;

static void on_ready(void *arg, const struct kw_remote_info *info)
{
	world.connected = true;
}

static void on_remote_closed(void *arg, const struct kw_error *why)
{
	world.connected = false;
	kw_remote_free(world.remote);
	world.remote = NULL;
}

static bool is_connected(void *arg)
{
	return world.connected;
}

static bool is_disconnected(void *arg)
{
	return !world.remote;
}

static bool is_done(void *arg)
{
	return world.done;
}

static struct kw_remote *remote_of(void *arg)
{
	return world.connected && !world.away ? world.remote : NULL;
}

static void on_read_turn(uv_timer_t *timer)
{
	uint8_t *at = kw_buffer_reserve(&world.bytes, 1 << 20);
	ssize_t got = world.reading ? read(world.pipe[0], at, 1 << 20) : 0;

	if (got > 0)
		kw_buffer_filled(&world.bytes, (size_t)got);
}

static int set_up(void **state)
{
	const struct kw_remote_handlers handlers = {on_ready, on_remote_closed, NULL};
	struct kw_remote_options options = {.agent_name = "tester"};
	struct kw_address address;
	struct kw_error error;

	world = (struct world){.reading = true};
	signal(SIGPIPE, SIG_IGN); /* as the control socket's server does */
	uv_loop_init(&world.loop);
	test_proxy_start(&world.proxy, &world.loop, EPOCH, true);
	assert_int_equal(kw_address_parse(world.proxy.address, &address, &error), 0);
	assert_int_equal(
		kw_remote_open(&world.loop, &address, &options, &handlers, &world.remote, &error),
		0);
	test_run(&world.loop, is_connected, NULL, "connected");
	assert_int_equal(pipe2(world.pipe, O_CLOEXEC | O_NONBLOCK), 0);
	uv_timer_init(&world.loop, &world.reader);
	uv_timer_start(&world.reader, on_read_turn, 1, 1);
	return 0;
}

static int tear_down(void **state)
{
	if (world.remote)
		kw_remote_close(world.remote);
	test_run(&world.loop, is_disconnected, NULL, "disconnected");
	uv_close((uv_handle_t *)&world.reader, NULL);
	test_proxy_stop(&world.proxy);
	uv_run(&world.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world.loop), 0);
	close(world.pipe[0]);
	kw_buffer_close(&world.bytes);
	kw_filter_close(&world.filter);
	return 0;
}

static bool on_wanted(void *arg)
{
	return !world.unwanted;
}

static void on_progress(void *arg, const struct kw_export_result *so_far)
{
	assert_true(so_far->progress >= 0 && so_far->progress <= 1);
	world.told++;
}

static void on_done(void *arg, const struct kw_export_result *result, const struct kw_error *error)
{
	assert_false(world.done);
	world.done = true;
	world.export = NULL;
	world.result = *result;
	if (error)
		world.error = *error;
	on_read_turn(NULL); /* what is left in the pipe */
}

static void start(void)
{
	const struct kw_export_options options = {.loop = &world.loop,
		.remote = remote_of,
		.filter = &world.filter,
		.fd = world.pipe[1]};
	const struct kw_export_handlers handlers = {on_wanted, on_progress, on_done, NULL};
	struct kw_error error;

	if (kw_export_start(&options, &handlers, &world.export, &error))
		fail_msg("%s", error.text);
}

static void finish(void)
{
	test_run(&world.loop, is_done, NULL, "the export is done");
	if (world.error.code)
		print_message("%s\n", world.error.text);
}

static void assert_failed(enum kw_code code, const char *words)
{
	finish();
	assert_int_equal(world.error.code, code);
	assert_non_null(strstr(world.error.text, words));
	/* The pipe is closed: the other side need not wait for more. */
	assert_int_equal(read(world.pipe[0], &(char){0}, 1), 0);
}

#define assert_stream(text)                                                                        \
	do {                                                                                       \
		const uint8_t *bytes = kw_buffer_bytes(&world.bytes);                              \
		size_t length = kw_buffer_length(&world.bytes);                                    \
		uint64_t crc = kw_crc64(0, bytes, length - 8);                                     \
		assert_int_equal(length, sizeof(text) - 1 + 8);                                    \
		assert_memory_equal(bytes, text, sizeof(text) - 1);                                \
		assert_memory_equal(bytes + length - 8, &crc, 8);                                  \
		assert_int_equal(world.result.bytes, length);                                      \
	} while (0)

static void the_newest_of_each_key_is_in_it_once(void **state)
{
	test_proxy_put(&world.proxy, 3, "key", "old");
	test_proxy_put(&world.proxy, 3, "key", "new");
	test_proxy_put(&world.proxy, 3, "deleted", "value");
	test_proxy_delete(&world.proxy, 3, "deleted");
	test_proxy_publish(&world.proxy);
	start();
	finish();
	assert_int_equal(world.error.code, KW_OK);
	assert_stream("REDIS0010\xfe\x03\x00\x03key\x03new\xff");
	assert_int_equal(world.result.keys, 1);
	assert_int_equal(world.result.rdb_version, 10);
	assert_int_equal(world.result.epoch, EPOCH);
	assert_true(world.result.one_moment);
	assert_true(world.result.fresh_us > 0);
}

static void an_empty_table_is_a_whole_stream(void **state)
{
	world.proxy.facts.rdb_version = 0; /* nobody knows: what every server loads */
	test_proxy_publish(&world.proxy);
	start();
	finish();
	assert_int_equal(world.error.code, KW_OK);
	assert_stream("REDIS0009\xff");
}

static void the_first_payload_says_the_version_where_the_proxy_does_not(void **state)
{
	world.proxy.facts.rdb_version = 0;
	test_proxy_put(&world.proxy, 0, "k", "v");
	test_proxy_publish(&world.proxy);
	start();
	finish();
	assert_stream("REDIS0010\xfe\x00\x00\x01k\x01v\xff");
}

static void the_filter_holds(void **state)
{
	kw_filter_add_database(&world.filter, 1, NULL);
	kw_filter_add_prefix(&world.filter, "user:", NULL);
	test_proxy_put(&world.proxy, 0, "user:1", "v");
	test_proxy_put(&world.proxy, 1, "cart:1", "v");
	test_proxy_put(&world.proxy, 1, "user:1", "v");
	test_proxy_publish(&world.proxy);
	start();
	finish();
	assert_stream("REDIS0010\xfe\x01\x00\x06user:1\x01v\xff");
}

static void a_payload_that_would_stop_a_server_ends_it_and_is_named(void **state)
{
	uint8_t bytes[256];
	struct kw_slice payload = test_payload("value", bytes);

	bytes[4] ^= 1;
	kw_table_put(world.proxy.table, 7, kw_slice_text("broken"), payload, 0);
	test_proxy_publish(&world.proxy);
	start();
	assert_failed(KW_E_CORRUPT, "database 7, key \"broken\"");
}

static void a_payload_newer_than_the_stream_ends_it(void **state)
{
	world.proxy.facts.rdb_version = 9;
	test_proxy_put(&world.proxy, 0, "key", "value"); /* version 10 */
	test_proxy_publish(&world.proxy);
	start();
	assert_failed(KW_E_PROTOCOL, "version 10");
}

/* About 8 MB: more than the pipe and the window hold. */
static void fill_large(void)
{
	char key[16], value[51];

	memset(value, 'v', 50);
	value[50] = '\0';
	for (int i = 0; i < 150000; i++) {
		snprintf(key, sizeof key, "%d", i);
		test_proxy_put(&world.proxy, 0, key, value);
	}
	test_proxy_publish(&world.proxy);
}

static bool is_window_full(void *arg)
{
	return kw_export_result(world.export)->bytes >= KW_EXPORT_WINDOW_BYTES && world.told > 0;
}

static void who_reads_slowly_holds_up_the_reader_alone(void **state)
{
	fill_large();
	world.reading = false;
	start();
	test_run(&world.loop, is_window_full, NULL, "the window is full");
	test_run_ms(&world.loop, 500);
	assert_false(world.done);
	/* The window, what its last READs brought, and nothing more. */
	assert_in_range(kw_export_result(world.export)->bytes, KW_EXPORT_WINDOW_BYTES,
		KW_EXPORT_WINDOW_BYTES + (UINT64_C(1) << 20) + (64 << 10));
	world.reading = true;
	finish();
	assert_int_equal(world.error.code, KW_OK);
	assert_int_equal(world.result.keys, 150000);
	assert_int_equal(kw_buffer_length(&world.bytes), world.result.bytes);
}

static void who_reads_no_more_ends_it(void **state)
{
	fill_large();
	world.reading = false;
	start();
	test_run_ms(&world.loop, 50);
	close(world.pipe[0]);
	finish();
	world.pipe[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(world.error.code, KW_E_IO);
}

static void who_asked_and_left_ends_it(void **state)
{
	fill_large();
	world.reading = false;
	start();
	test_run_ms(&world.loop, 50);
	world.unwanted = true;
	finish();
	assert_int_equal(world.error.code, KW_E_STATE);
}

static void a_lost_connection_ends_it(void **state)
{
	fill_large();
	world.reading = false;
	start();
	test_run_ms(&world.loop, 50);
	kw_remote_close(world.remote);
	test_run(&world.loop, is_disconnected, NULL, "disconnected");
	world.reading = true;
	assert_failed(KW_E_IO, "the proxy's table");
}

static void without_a_connection_it_ends_by_itself(void **state)
{
	world.away = true;
	start();
	assert_failed(KW_E_IO, "no connection to the proxy");
}

static void an_incomplete_table_is_refused(void **state)
{
	world.proxy.facts.complete = false;
	test_proxy_publish(&world.proxy);
	start();
	assert_failed(KW_E_STATE, "not complete");
}

static void cancelled_it_ends_with_that_sentence(void **state)
{
	fill_large();
	world.reading = false;
	start();
	test_run_ms(&world.loop, 20);
	kw_export_cancel(world.export, "for a good reason");
	kw_export_cancel(world.export, "and once more");
	world.reading = true;
	finish();
	assert_int_equal(world.error.code, KW_E_STATE);
	assert_non_null(strstr(world.error.text, "for a good reason"));
}

static void only_pipes_and_sockets_are_taken(void **state)
{
	const struct kw_export_handlers handlers = {on_wanted, on_progress, on_done, NULL};
	struct kw_export_options options = {
		.loop = &world.loop, .remote = remote_of, .filter = &world.filter, .fd = -1};
	struct kw_error error;

	assert_int_equal(kw_export_start(&options, &handlers, &world.export, &error), KW_E_IO);
	options.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(
		kw_export_start(&options, &handlers, &world.export, &error), KW_E_ARGUMENT);
	close(options.fd);
	close(world.pipe[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(the_newest_of_each_key_is_in_it_once),
		TEST(an_empty_table_is_a_whole_stream),
		TEST(the_first_payload_says_the_version_where_the_proxy_does_not),
		TEST(the_filter_holds),
		TEST(a_payload_that_would_stop_a_server_ends_it_and_is_named),
		TEST(a_payload_newer_than_the_stream_ends_it),
		TEST(who_reads_slowly_holds_up_the_reader_alone),
		TEST(who_reads_no_more_ends_it),
		TEST(who_asked_and_left_ends_it),
		TEST(a_lost_connection_ends_it),
		TEST(without_a_connection_it_ends_by_itself),
		TEST(an_incomplete_table_is_refused),
		TEST(cancelled_it_ends_with_that_sentence),
		TEST(only_pipes_and_sockets_are_taken),
	};

	return cmocka_run_group_tests_name("export", tests, NULL, NULL);
}
