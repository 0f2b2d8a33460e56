/* /events: what is told to those who listen, how many may, and what it costs when nobody does. */
#include "http_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- one who listens ---- */

static char heard[1 << 20];

/* Let the loop run until so many events have come over the connection. */
static void hear(int fd, int events)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;
	size_t length = 0;

	heard[0] = '\0';
	for (int seen = 0; seen < events;) {
		ssize_t got = read(fd, heard + length, sizeof heard - 1 - length);

		assert_true(got > 0 || (got < 0 && errno == EAGAIN));
		length += got > 0 ? (size_t)got : 0;
		heard[length] = '\0';
		seen = 0;
		for (const char *at = heard; (at = strstr(at, "\ndata: ")); at++)
			seen += strstr(at, "\n\n") != NULL;
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
		assert_true(kw_clock_us() < until);
	}
}

static int listen_with(const char *header)
{
	int fd = dial();

	send_text(fd, "GET /events HTTP/1.1\r\nHost: x\r\n");
	send_text(fd, header);
	send_text(fd, "\r\n");
	return fd;
}

static int listen_to(void)
{
	return listen_with("");
}

static void let_run(uint64_t for_us)
{
	uint64_t until = kw_clock_us() + for_us;

	while (kw_clock_us() < until) {
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
}

static void wait_for_sleep(void)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;

	while (uv_backend_timeout(&fixture->loop) != -1) {
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
		assert_true(kw_clock_us() < until);
	}
}

/* The last event, as JSON. */
static json_t *last_event(void)
{
	const char *at = heard, *data = NULL;
	json_t *event;

	while ((at = strstr(at, "\ndata: ")))
		data = at += strlen("\ndata: ");
	assert_non_null(data);
	event = json_loadb(data, strcspn(data, "\n"), 0, NULL);
	assert_non_null(event);
	return event;
}

/* ---- what is told ---- */

static void it_tells_all_that_the_page_shows_and_goes_on(void **state)
{
	json_t *event;
	int fd;

	start();
	kw_transitions_add(&fixture->transitions, 1, "lagging", "code", "paused");
	fd = listen_to();
	hear(fd, 1);
	assert_status(heard, "200");
	assert_has(heard, "Content-Type: text/event-stream\r\n");
	assert_has(heard, "Cache-Control: no-store\r\n");
	assert_has(heard, "retry: 1000\n");
	event = last_event();
	assert_string_equal(json_string_value(json_object_get(event, "daemon")), "agent");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(event, "status"), "state")),
		"warm");
	assert_int_equal(json_array_size(json_object_get(event, "transitions")), 1);
	assert_non_null(json_object_get(json_object_get(event, "status"), "quarantine"));
	json_decref(event);
	fixture->now.state = "failed";
	hear(fd, 1);
	event = last_event();
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(event, "status"), "state")),
		"failed");
	json_decref(event);
	close(fd);
	wait_for_sleep();
}

static void no_text_ends_an_event(void **state)
{
	json_t *event;
	int fd;

	start();
	kw_transitions_add(
		&fixture->transitions, 1, "failed", "code", "x\r\n\r\ndata: {}\n\nid: 7\xff");
	fd = listen_to();
	hear(fd, 1);
	assert_null(strstr(heard, "\ndata: {}"));
	assert_null(strstr(heard, "\nid:"));
	event = last_event();
	assert_int_equal(json_array_size(json_object_get(event, "transitions")), 1);
	json_decref(event);
	close(fd);
}

static void news_are_told_soon_and_not_too_often(void **state)
{
	int fd, asked;
	uint64_t begun;

	start();
	fd = listen_to();
	hear(fd, 1);
	let_run(3 * KW_HTTP_EVENT_LEAST_MS * 1000); /* longer than events are kept apart */
	asked = fixture->asked;
	kw_http_server_news(fixture->server);
	assert_int_equal(uv_backend_timeout(&fixture->loop), 0);
	hear(fd, 1);
	assert_int_equal(fixture->asked, asked + 1);
	begun = kw_clock_us();
	while (kw_clock_us() - begun < 300000 || fixture->asked - asked < 2) {
		kw_http_server_news(fixture->server);
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
	}
	assert_in_range(fixture->asked - asked, 2,
		2 + (kw_clock_us() - begun) / (KW_HTTP_EVENT_LEAST_MS * 1000));
	close(fd);
}

static void a_head_is_no_stream(void **state)
{
	start();
	assert_status(ask_with("HEAD /events", ""), "200");
	wait_for_sleep();
}

/* ---- what it costs ---- */

static void news_cost_nothing_while_nobody_listens(void **state)
{
	int fd;

	start();
	uv_run(&fixture->loop, UV_RUN_NOWAIT);
	kw_http_server_news(NULL);
	kw_http_server_news(fixture->server);
	assert_int_equal(uv_backend_timeout(&fixture->loop), -1);
	assert_int_equal(fixture->asked, 0);
	fd = listen_to();
	hear(fd, 1);
	close(fd);
	wait_for_sleep();
	kw_http_server_news(fixture->server);
	assert_int_equal(uv_backend_timeout(&fixture->loop), -1);
}

static void between_two_events_the_loop_sleeps(void **state)
{
	int fd, turns = 0;
	uint64_t until;

	start();
	fd = listen_to();
	hear(fd, 2);
	until = kw_clock_us() + 500000;
	while (kw_clock_us() < until) {
		if (uv_backend_timeout(&fixture->loop) == 0)
			turns++;
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	assert_in_range(turns, 0, 20);
	close(fd);
}

/* ---- bounds ---- */

static void more_than_may_listen_are_refused(void **state)
{
	int streams[KW_HTTP_STREAMS_MAX], slow[2 * KW_HTTP_CONNECTIONS_MAX];

	start();
	for (int i = 0; i < KW_HTTP_STREAMS_MAX; i++) {
		streams[i] = listen_to();
		hear(streams[i], 1);
	}
	assert_status(ask("/events"), "503");
	assert_has(ask("/events"), "8 clients listen already");
	for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
		slow[i] = dial();
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
	}
	assert_status(ask("/healthz"), "200");
	for (int i = 0; i < KW_HTTP_STREAMS_MAX; i++)
		hear(streams[i], 1); /* none gave way */
	close(streams[3]);
	let_run(3 * KW_HTTP_EVENT_MS * 1000); /* the next events find out that it has gone */
	streams[3] = listen_to();
	hear(streams[3], 1);
	for (int i = 0; i < KW_HTTP_STREAMS_MAX; i++)
		close(streams[i]);
	for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
		close(slow[i]);
}

static json_t *get_much(void *arg)
{
	char *text = calloc(1, 1 << 20);
	json_t *json;

	memset(text, 'x', (1 << 20) - 1);
	json = json_pack("{s:s}", "state", text);
	free(text);
	return json;
}

/* It keeps one event in memory, and not its place for ever. */
static void who_does_not_read_is_let_go(void **state)
{
	uint64_t begun = kw_clock_us();
	int fd;

	source.status = get_much;
	start();
	fd = listen_to();
	do {
		uv_run(&fixture->loop, UV_RUN_ONCE);
		assert_true(kw_clock_us() - begun < 2 * PATIENCE_US);
	} while (uv_backend_timeout(&fixture->loop) != -1);
	assert_true(kw_clock_us() - begun >= UINT64_C(1000) * KW_HTTP_SLOW_MS);
	close(fd);
}

static void a_new_secret_ends_the_streams(void **state)
{
	struct kw_http_guard *guard;
	struct kw_error error;
	int fd;

	write_secret(SECRET);
	set("http.secret_file", fixture->secret);
	start();
	assert_status(ask("/events"), "401");
	fd = listen_with("Authorization: Bearer " SECRET "\r\n");
	hear(fd, 1);
	write_secret("another secret of sixteen");
	assert_int_equal(
		kw_http_server_reread(fixture->server, fixture->config, &guard, &error), 0);
	kw_http_server_put(fixture->server, guard);
	(void)read_all(fd); /* it ends */
	assert_status(ask("/events"), "401");
}

static void the_end_does_not_wait_for_streams(void **state)
{
	int waiting, sending;

	start();
	waiting = listen_to();
	hear(waiting, 1);
	sending = listen_to();
	uv_run(&fixture->loop, UV_RUN_NOWAIT);
	kw_http_server_close(fixture->server);
	fixture->server = NULL;
	(void)read_all(waiting);
	(void)read_all(sending);
}

static int setup_status(void **state)
{
	static json_t *(*plain)(void *);

	if (!plain)
		plain = source.status;
	source.status = plain;
	return setup(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_status, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_tells_all_that_the_page_shows_and_goes_on),
		TEST(no_text_ends_an_event),
		TEST(news_are_told_soon_and_not_too_often),
		TEST(a_head_is_no_stream),
		TEST(news_cost_nothing_while_nobody_listens),
		TEST(between_two_events_the_loop_sleeps),
		TEST(more_than_may_listen_are_refused),
		TEST(who_does_not_read_is_let_go),
		TEST(a_new_secret_ends_the_streams),
		TEST(the_end_does_not_wait_for_streams),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
