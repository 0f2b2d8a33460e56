/* The control socket: its bounds, its file, its end. */
#include "base/clock.h"
#include "control/rpc/internal.h"
#include "rpc_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Who may connect, as root or as one of the users of keywake's daemons. */
static void the_other_daemons_are_refused_and_nobody_else(void **state)
{
	const struct rpc_others two = {{901, 902}, 2}, none = {{0}, 0};
	static const struct {
		uid_t peer, own;
		bool refused;
	} cases[] = {
		{901, 902, true}, {902, 901, true}, {901, 901, false}, /* itself */
		{0, 901, false}, {1000, 901, false},                   /* a person */
		{902, 0, true}, /* started by hand as root, beside installed units */
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(
			rpc_others_has(&two, cases[i].peer, cases[i].own), cases[i].refused);
		assert_false(rpc_others_has(&none, cases[i].peer, cases[i].own));
	}
}

/* An instance may have a user of its own, which can be made while we run. */
static void users_of_single_instances_are_other_daemons(void **state)
{
	static const struct {
		const char *user;
		bool daemon;
	} cases[] = {
		{"keywake-agent", true},
		{"keywake-agent-b", true},
		{"keywake-proxy-6379", true},
		{"keywake-gateway-x-y", true},
		{"keywake-agents", false},
		{"keywake-agent-", false},
		{"keywake", false},
		{"person", false},
		{"xkeywake-agent-b", false},
	};
	char text[1024] = "broken\n", path[] = "/tmp/kw-passwd-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text),
			"%s:x:%u:900::/run/keywake:/usr/sbin/nologin\n", cases[i].user, 500 + i);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(rpc_others_listed(path, 500 + i), cases[i].daemon);
	assert_false(rpc_others_listed(path, 499));
	assert_int_equal(unlink(path), 0);
	assert_false(rpc_others_listed(path, 500));
}

static void oversized_line_is_refused_once_and_skipped(void **state)
{
	size_t length = (size_t)3 << 20;
	char *line = kw_alloc(length + 2);
	int fd = open_raw(*state);
	json_t *message;

	memset(line, 'x', length);
	line[length] = '\0';
	expect_error(fd, line, -32700, "1 MiB");
	send_raw(fd, "{\"id\":2,\"method\":\"echo\",\"params\":{\"text\":\"on\"}}\n");
	message = receive_raw(fd);
	assert_string_equal(json_string_value(json_object_get(message, "result")), "on");
	json_decref(message);
	close(fd);
	free(line);
}

/* 64 in flight a connection: the rest waits in the socket, and nothing is lost. */
static void calls_in_flight_are_bounded(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	int fd = open_raw(*state);
	struct kw_buffer lines = {0};

	for (int i = 0; i < 100; i++)
		kw_buffer_printf(&lines, "{\"id\":%d,\"method\":\"hold\"}\n", i);
	kw_buffer_append(&lines, "", 1);
	send_raw(fd, (const char *)lines.data);
	wait_held(client, 64);
	usleep(20000);
	assert_int_equal(held_now(client), 64);
	assert_int_equal(call_text(client, "release", NULL, NULL), 0);
	wait_held(client, 36);
	assert_int_equal(call_text(client, "release", NULL, NULL), 0);
	for (int i = 0; i < 100; i++) {
		json_t *message = receive_raw(fd);

		assert_int_equal(json_integer_value(json_object_get(message, "id")), i);
		json_decref(message);
	}
	kw_buffer_close(&lines);
	kw_rpc_client_close(client);
	close(fd);
}

static void slow_reader_is_let_go(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	int fd = open_raw(*state);

	for (int i = 0; i < 8; i++)
		send_raw(fd, "{\"id\":1,\"method\":\"big\",\"params\":{\"bytes\":1000000}}\n");
	/* The others are served meanwhile. */
	assert_int_equal(held_now(client), 0);
	for (;;) {
		json_t *message = receive_raw(fd);

		json_decref(message);
		if (!message)
			break;
	}
	close(fd);
	kw_rpc_client_close(client);
}

static void answer_too_large_is_refused_not_cut(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *result;

	assert_int_equal(call_text(client, "big", json_pack("{s:i}", "bytes", 5 << 20), &result),
		KW_E_REFUSED);
	assert_non_null(strstr(error.text, "ask for less"));
	assert_int_equal(
		call_text(client, "big", json_pack("{s:i}", "bytes", 2 << 20), &result), 0);
	assert_int_equal(json_string_length(result), 2 << 20);
	json_decref(result);
	kw_rpc_client_close(client);
}

/* 20 MB of events for a subscriber that does not read: lost and counted, none twice. */
static void subscriber_that_does_not_read_loses_events_and_is_told(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	struct kw_rpc_client *subscriber = open_client(*state);
	json_int_t heard = 0, dropped = 0, next = 0;
	const int sent = 20000;
	json_t *event;

	assert_int_equal(call_text(subscriber, "events.subscribe", NULL, NULL), 0);
	assert_int_equal(call_text(client, "burst", json_pack("{s:i}", "count", sent), NULL), 0);
	while (heard + dropped < sent) {
		assert_int_equal(kw_rpc_client_event(subscriber, PATIENCE_MS, &event, &error), 0);
		if (strcmp(json_string_value(json_object_get(event, "kind")), "dropped") == 0) {
			dropped += json_integer_value(json_object_get(event, "count"));
			next = heard + dropped;
		} else {
			assert_int_equal(json_integer_value(json_object_get(event, "n")), next++);
			heard++;
		}
		json_decref(event);
	}
	assert_int_equal(heard + dropped, sent);
	assert_true(dropped > sent / 2);
	/* What comes after the gap arrives again. */
	assert_int_equal(call_text(client, "burst", json_pack("{s:i}", "count", 1), NULL), 0);
	assert_int_equal(kw_rpc_client_event(subscriber, PATIENCE_MS, &event, &error), 0);
	assert_int_equal(json_integer_value(json_object_get(event, "n")), 0);
	json_decref(event);
	kw_rpc_client_close(subscriber);
	kw_rpc_client_close(client);
}

/* Until the server has learned of the end of others: those that are too many it hangs up on. */
static void wait_served(struct fixture *fixture)
{
	static const char line[] = "{\"id\":1,\"method\":\"echo\",\"params\":{\"text\":\"\"}}\n";
	bool served = false;

	for (int i = 0; !served && i < PATIENCE_MS / 10; i++) {
		int fd = open_raw(fixture);
		json_t *message;

		usleep(10000);
		(void)!send(fd, line, strlen(line), MSG_NOSIGNAL);
		message = receive_raw(fd);
		served = message && json_object_get(message, "result");
		json_decref(message);
		close(fd);
	}
	assert_true(served);
}

/* All places are held by clients that say nothing: the one idle longest gives way to a new one. */
static void connections_are_bounded(void **state)
{
	static const char line[] = "{\"id\":1,\"method\":\"echo\",\"params\":{\"text\":\"\"}}\n";
	int fds[65];
	json_t *message;

	for (int i = 0; i < 65; i++)
		fds[i] = open_raw(*state);
	message = receive_raw(fds[0]);
	assert_non_null(message);
	assert_non_null(strstr(
		json_string_value(json_object_get(json_object_get(message, "error"), "message")),
		"closed for another client"));
	json_decref(message);
	assert_null(receive_raw(fds[0]));
	for (int i = 1; i < 65; i += 63) {
		assert_int_equal(
			send(fds[i], line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
		message = receive_raw(fds[i]);
		assert_non_null(json_object_get(message, "result"));
		json_decref(message);
	}
	for (int i = 0; i < 65; i++)
		close(fds[i]);
	wait_served(*state);
}

static int bind_at(const char *path)
{
	struct kw_rpc_server *server;
	uv_loop_t loop;
	int code;

	uv_loop_init(&loop);
	code = kw_rpc_server_new(&loop, path, fixture_methods, "second", NULL, &server, &error);
	assert_int_not_equal(code, 0);
	assert_int_equal(uv_loop_close(&loop), 0);
	return code;
}

static void socket_that_cannot_be_made_names_the_remedy(void **state)
{
	const struct fixture *fixture = *state;
	char path[200], long_path[300];
	struct stat info;
	FILE *file;

	assert_int_equal(stat(fixture->path, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0660);
	assert_int_equal(bind_at(fixture->path), KW_E_STATE);
	assert_non_null(strstr(error.text, "another process answers"));
	snprintf(path, sizeof path, "%s/missing/c.sock", fixture->directory);
	assert_int_equal(bind_at(path), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "mkdir -p"));
	memset(long_path, 'x', sizeof long_path);
	long_path[0] = '/';
	long_path[sizeof long_path - 1] = '\0';
	assert_int_equal(bind_at(long_path), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "at most 99 bytes"));
	snprintf(path, sizeof path, "%s/file", fixture->directory);
	file = fopen(path, "w");
	fclose(file);
	assert_int_equal(bind_at(path), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "not a socket"));
	unlink(path);
}

static void run_once_more(const char *path)
{
	struct fixture second = {0};
	struct kw_rpc_server *server;

	uv_loop_init(&second.loop);
	assert_int_equal(kw_rpc_server_new(&second.loop, path, fixture_methods, "second", &second,
				 &server, &error),
		0);
	kw_rpc_server_close(server, fixture_closed, &second);
	uv_run(&second.loop, UV_RUN_DEFAULT);
	assert_true(second.closed);
	assert_int_equal(uv_loop_close(&second.loop), 0);
}

static void stale_socket_is_replaced(void **state)
{
	const struct fixture *fixture = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct kw_rpc_client *client;
	uint64_t shortest = UINT64_MAX;

	snprintf(address.sun_path, sizeof address.sun_path, "%.90s/stale", fixture->directory);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	close(fd);
	assert_int_equal(kw_rpc_client_open(address.sun_path, &client, &error), KW_E_IO);
	assert_non_null(strstr(error.text, "nobody answers"));
	run_once_more(address.sun_path);
	/* An idle server does not wait for its drain time; this machine may be busy at times. */
	for (int i = 0; i < 5; i++) {
		uint64_t started = kw_clock_us();

		run_once_more(address.sun_path);
		if (kw_clock_us() - started < shortest)
			shortest = kw_clock_us() - started;
	}
	assert_true(shortest < 400000);
	assert_int_equal(access(address.sun_path, F_OK), -1);
	assert_int_equal(kw_rpc_client_open(address.sun_path, &client, &error), KW_E_IO);
	assert_non_null(strstr(error.text, "no such socket"));
}

/* It was stopped: for the tests behind this one. */
static void serve_again(struct fixture *fixture)
{
	assert_int_equal(pthread_create(&fixture->thread, NULL, fixture_serve, fixture), 0);
	fixture->held_count = 0;
	fixture->closed = false;
	pthread_barrier_wait(&fixture->started);
}

static void closing_the_server_ends_calls_and_connections(void **state)
{
	struct fixture *fixture = *state;
	struct kw_rpc_client *client = open_client(fixture);
	int holder = open_raw(fixture), reader = open_raw(fixture);
	json_t *result;

	send_raw(holder, "{\"id\":1,\"method\":\"hold\"}\n");
	wait_held(client, 1);
	/* An answer that this client never reads must not hold the server up for long. */
	send_raw(reader, "{\"id\":1,\"method\":\"big\",\"params\":{\"bytes\":3000000}}\n");
	assert_int_equal(call_text(client, "stop", NULL, &result), 0);
	json_decref(result);
	assert_null(receive_raw(holder));
	pthread_join(fixture->thread, NULL);
	/* The handler's late answer finds nobody, and does no harm. */
	kw_rpc_result(fixture->held[0], json_null());
	serve_again(fixture);
	close(holder);
	close(reader);
	kw_rpc_client_close(client);
}

/* Bytes that the other side takes until it hangs up; more than the limit is enough. */
static size_t pour(int fd, size_t limit)
{
	static const char blanks[65536];
	size_t taken = 0;

	for (;;) {
		ssize_t sent = send(fd, blanks, sizeof blanks, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0)
			taken += (size_t)sent;
		if ((sent < 0 && errno != EAGAIN) || taken > limit)
			return taken;
	}
}

/* While the last answers go out, what still comes is left in the socket, not in memory. */
static void a_server_that_closes_reads_no_more(void **state)
{
	const size_t limit = 4 << 20; /* far more than a socket holds */
	struct fixture *fixture = *state;
	struct kw_rpc_client *client = open_client(fixture);
	int reader = open_raw(fixture);
	json_t *result;

	send_raw(reader, "{\"id\":1,\"method\":\"big\",\"params\":{\"bytes\":3000000}}\n");
	assert_int_equal(held_now(client), 0);
	assert_int_equal(call_text(client, "stop", NULL, &result), 0);
	json_decref(result);
	assert_true(pour(reader, limit) < limit);
	pthread_join(fixture->thread, NULL);
	serve_again(fixture);
	close(reader);
	kw_rpc_client_close(client);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_daemons_are_refused_and_nobody_else),
		cmocka_unit_test(users_of_single_instances_are_other_daemons),
		TEST(oversized_line_is_refused_once_and_skipped),
		TEST(calls_in_flight_are_bounded),
		TEST(slow_reader_is_let_go),
		TEST(answer_too_large_is_refused_not_cut),
		TEST(subscriber_that_does_not_read_loses_events_and_is_told),
		TEST(connections_are_bounded),
		TEST(socket_that_cannot_be_made_names_the_remedy),
		TEST(stale_socket_is_replaced),
		TEST(closing_the_server_ends_calls_and_connections),
		TEST(a_server_that_closes_reads_no_more),
	};

	return cmocka_run_group_tests_name("rpc bounds", tests, NULL, NULL);
}
