/* The HTTP server on a loop: what it answers, what it bounds, and what it costs when nobody asks.
 */
#include "http_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

static void without_an_address_there_is_no_server(void **state)
{
	struct kw_error error;

	assert_int_equal(kw_http_server_new(&fixture->loop, fixture->config, &source,
				 &fixture->server, &error),
		0);
	assert_null(fixture->server);
	assert_int_equal(uv_loop_alive(&fixture->loop), 0);
}

static void health_needs_nothing_of_the_daemon(void **state)
{
	start();
	assert_status(ask("/healthz"), "200");
	assert_int_equal(fixture->asked, 0);
}

static void readiness_is_that_of_the_daemon(void **state)
{
	start();
	assert_status(ask("/readyz"), "200");
	assert_has(ask("/readyz"), "ready: warm, lag_ms 1.5\n");
	fixture->now = (struct kw_http_readiness){
		false, "lagging", "3 keys are in quarantine", KW_HTTP_LAG_UNKNOWN};
	assert_status(ask("/readyz"), "503");
	assert_has(ask("/readyz"), "not ready: lagging: 3 keys are in quarantine\n");
}

static void a_lag_can_be_asked_for(void **state)
{
	static const char *const wrong[] = {"", "-1", "1.5", "x", "10000000000"};
	char path[64];

	start();
	assert_status(ask("/readyz?max_lag_ms=2"), "200");
	assert_status(ask("/readyz?max_lag_ms=1"), "503");
	assert_has(ask("/readyz?max_lag_ms=1"), "not ready: warm, lag_ms 1.5");
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		snprintf(path, sizeof path, "/readyz?max_lag_ms=%s", wrong[i]);
		print_message("%s\n", path);
		assert_status(ask(path), "400");
	}
	fixture->now.lag_us = KW_HTTP_LAG_UNKNOWN;
	assert_status(ask("/readyz"), "200");
	assert_status(ask("/readyz?max_lag_ms=999999999"), "503");
}

static void status_is_json(void **state)
{
	const char *answer, *body;
	json_t *json;

	start();
	answer = ask("/status");
	assert_status(answer, "200");
	assert_has(answer, "Content-Type: application/json\r\n");
	body = strstr(answer, "\r\n\r\n") + 4;
	json = json_loads(body, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(json, "state")), "warm");
	assert_non_null(json_object_get(json, "quarantine"));
	json_decref(json);
}

static void metrics_have_the_type_that_prometheus_wants(void **state)
{
	const char *answer;

	start();
	answer = ask("/metrics");
	assert_status(answer, "200");
	assert_has(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	assert_has(answer, "\r\n\r\n# HELP x y\n# TYPE x gauge\nx 1\n");
}

static void another_page_names_those_that_there_are(void **state)
{
	start();
	assert_status(ask("/nothing"), "404");
	assert_has(ask("/nothing"), "/readyz");
	assert_status(ask("/../../etc/passwd"), "404");
	assert_status(ask("/%73tatus"), "200");
	assert_int_equal(fixture->asked, 1);
}

static void the_page_allows_its_own_script_alone(void **state)
{
	const char *answer;

	start();
	answer = ask("/");
	assert_status(answer, "200");
	assert_has(answer, "Content-Type: text/html; charset=utf-8\r\n");
	assert_has(answer, "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'; ");
	assert_has(answer, "script-src 'sha256-");
	assert_has(answer, "style-src 'sha256-");
	assert_lacks(answer, "unsafe");
	assert_lacks(answer, "innerHTML");
	assert_lacks(answer, "@SCRIPT@");
	assert_true(strlen(strstr(answer, "\r\n\r\n")) < 40 * 1024);
	assert_int_equal(fixture->asked, 0); /* it tells nothing: /events does */
}

static void no_other_site_reads_frames_or_keeps_an_answer(void **state)
{
	const char *answer;

	start();
	answer = ask_with("GET /status", "Origin: http://evil.example\r\n");
	assert_status(answer, "200");
	assert_lacks(answer, "Access-Control");
	assert_has(answer, "Cache-Control: no-store\r\n");
	assert_has(answer, "Cross-Origin-Resource-Policy: same-origin\r\n");
	assert_has(
		answer, "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n");
	assert_has(answer, "X-Content-Type-Options: nosniff\r\n");
	assert_status(ask_with("OPTIONS /status", "Origin: http://evil.example\r\n"), "405");
}

static void nothing_can_be_changed(void **state)
{
	static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"};
	char line[64];

	start();
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		snprintf(line, sizeof line, "%s /status", methods[i]);
		assert_status(ask_with(line, ""), "405");
		assert_status(ask_with(line, "Content-Length: 1000000000000\r\n"), "405");
	}
	assert_int_equal(fixture->asked, 0);
	assert_lacks(ask_with("HEAD /status", ""), "state");
	assert_int_equal(fixture->asked, 1);
}

static void with_a_secret_strangers_are_told_a_word(void **state)
{
	const char *answer;

	write_secret(SECRET);
	set("http.secret_file", fixture->secret);
	start();
	fixture->now = (struct kw_http_readiness){false, "failed", "tcp://10.0.0.7 refused", 7};
	answer = ask("/readyz");
	assert_status(answer, "503");
	assert_has(answer, "not ready: failed\n");
	assert_status(ask("/healthz"), "200");
	fixture->asked = 0;
	answer = ask("/status");
	assert_status(answer, "401");
	assert_has(answer, "WWW-Authenticate: Basic realm=\"keywake\"");
	assert_status(ask("/no-such-page"), "401");
	assert_status(
		ask_with("GET /status", "Authorization: Bearer another secret of 16\r\n"), "401");
	assert_int_equal(fixture->asked, 0);
	assert_status(ask_with("GET /status", "Authorization: Bearer " SECRET "\r\n"), "200");
	assert_has(ask_with("GET /readyz", "Authorization: Bearer " SECRET "\r\n"), "10.0.0.7");
}

static void two_proofs_are_none(void **state)
{
	write_secret(SECRET);
	set("http.secret_file", fixture->secret);
	start();
	assert_status(ask_with("GET /status", "Authorization: Bearer x\r\n"
					      "Authorization: Bearer " SECRET "\r\n"),
		"401");
}

static void a_secret_is_read_again_and_a_bad_file_changes_nothing(void **state)
{
	struct kw_http_guard *guard;
	struct kw_error error;

	write_secret(SECRET);
	set("http.secret_file", fixture->secret);
	start();
	chmod(fixture->secret, 0644);
	assert_int_equal(kw_http_server_reread(fixture->server, fixture->config, &guard, &error),
		KW_E_CONFIG);
	assert_non_null(strstr(error.text, "chmod o-rwx"));
	assert_status(ask_with("GET /status", "Authorization: Bearer " SECRET "\r\n"), "200");
	write_secret("another secret of sixteen");
	assert_int_equal(
		kw_http_server_reread(fixture->server, fixture->config, &guard, &error), 0);
	kw_http_server_put(fixture->server, guard);
	assert_status(ask_with("GET /status", "Authorization: Bearer " SECRET "\r\n"), "401");
	assert_status(
		ask_with("GET /status", "Authorization: Bearer another secret of sixteen\r\n"),
		"200");
}

static void a_secret_in_other_hands_is_refused(void **state)
{
	struct kw_error error;
	char address[128];

	write_secret("too short");
	set("http.secret_file", fixture->secret);
	snprintf(address, sizeof address, "unix://%s", fixture->path);
	set("http.listen", address);
	assert_int_equal(kw_http_server_new(&fixture->loop, fixture->config, &source,
				 &fixture->server, &error),
		KW_E_CONFIG);
	assert_non_null(strstr(error.text, "http.secret_file: "));
	assert_null(fixture->server);
}

static void a_request_is_bounded(void **state)
{
	char *large = malloc(2 * KW_HTTP_REQUEST_MAX);
	int fd;

	start();
	memset(large, 'a', 2 * KW_HTTP_REQUEST_MAX - 1);
	large[2 * KW_HTTP_REQUEST_MAX - 1] = '\0';
	memcpy(large, "GET /status HTTP/1.1\r\nX: ", 25);
	fd = dial();
	send_text(fd, large);
	assert_status(read_all(fd), "4");
	memcpy(large, "GET /", 5);
	memset(large + 5, 'b', 40);
	fd = dial();
	send_text(fd, large);
	assert_status(read_all(fd), "4");
	assert_int_equal(fixture->asked, 0);
	free(large);
}

static void bytes_that_are_no_request_are_refused(void **state)
{
	static const char *const texts[] = {"\r\n\r\n\r\n\r\nx\r\n\r\n", "GET\r\n\r\n",
		"*1\r\n$4\r\nPING\r\n\r\n", "GET /status HTTP/9.9\r\n\r\n"};

	start();
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		int fd = dial();

		send_text(fd, texts[i]);
		shutdown(fd, SHUT_WR);
		assert_null(strstr(read_all(fd), " 200 "));
	}
	assert_status(ask("/healthz"), "200");
}

static void who_sends_nothing_does_not_keep_others_out(void **state)
{
	int slow[3 * KW_HTTP_CONNECTIONS_MAX];
	const size_t count = sizeof slow / sizeof *slow;

	start();
	for (size_t i = 0; i < count; i++) {
		slow[i] = dial();
		send_text(slow[i], "GET /st");
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
	}
	assert_status(ask("/healthz"), "200");
	assert_string_equal(read_all(slow[0]), ""); /* the first gave way */
	for (size_t i = 1; i < count; i++)
		close(slow[i]);
	assert_status(ask("/healthz"), "200");
}

static void on_bell(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
}

/* Turns of the loop, each with something to do, in this time. */
static int turns_in(uint64_t ms)
{
	bool rung = false;
	uv_timer_t bell = {.data = &rung};
	int turns = 0;

	uv_timer_init(&fixture->loop, &bell);
	uv_timer_start(&bell, on_bell, ms, 0);
	for (; !rung; turns++)
		uv_run(&fixture->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&bell, NULL);
	uv_run(&fixture->loop, UV_RUN_NOWAIT);
	return turns;
}

/* A client waits that cannot be accepted: the poll tells that again and again. */
static void without_a_descriptor_the_loop_does_not_spin(void **state)
{
	struct rlimit before, none;
	int fd;

	start();
	fd = dial();
	send_text(fd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), -1);
	assert_in_range(turns_in(500), 1, 50);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_status(read_all(fd), "200");
}

static void nobody_asking_costs_nothing(void **state)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;
	int fd;

	start();
	uv_run(&fixture->loop, UV_RUN_NOWAIT);
	assert_int_equal(uv_backend_timeout(&fixture->loop), -1); /* no timer: it sleeps */
	fd = dial();
	uv_run(&fixture->loop, UV_RUN_NOWAIT);
	assert_true(uv_backend_timeout(&fixture->loop) > 0);
	close(fd);
	assert_status(ask("/status"), "200");
	while (uv_backend_timeout(&fixture->loop) != -1) {
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
		assert_true(kw_clock_us() < until);
	}
}

static void the_end_does_not_wait_for_clients(void **state)
{
	int fd;

	start();
	fd = dial();
	send_text(fd, "GET /st");
	uv_run(&fixture->loop, UV_RUN_NOWAIT);
	kw_http_server_close(fixture->server);
	fixture->server = NULL;
	assert_string_equal(read_all(fd), "");
	assert_int_equal(access(fixture->path, F_OK), -1);
}

#define LIFE_US (UINT64_C(1000) * KW_HTTP_LIFE_MS)

static bool is_shut(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void a_connection_has_its_time_and_no_more(void **state)
{
	struct http_connections connections = {0};
	struct http_connection *first, *second;
	int one[2], two[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, one);
	socketpair(AF_UNIX, SOCK_STREAM, 0, two);
	assert_true(http_connections_sweep(&connections, 5) == HTTP_NEVER);
	first = http_connections_add(&connections, one[0], 1000);
	second = http_connections_add(&connections, two[0], 3000);
	assert_int_equal(http_connections_sweep(&connections, 4000), LIFE_US - 3000);
	assert_int_equal(http_connections_sweep(&connections, 1000 + LIFE_US), 2000);
	assert_true(is_shut(one[1]) && !is_shut(two[1]));
	assert_true(http_connections_sweep(&connections, 3000 + LIFE_US) == HTTP_NEVER);
	assert_true(is_shut(two[1]));
	assert_int_equal(connections.count, 0);
	http_connections_remove(&connections, second);
	http_connections_remove(&connections, first);
	assert_null(connections.oldest);
	assert_null(connections.newest);
	close(one[0]), close(one[1]), close(two[0]), close(two[1]);
}

static void who_listens_has_no_limit_of_time_and_never_gives_way(void **state)
{
	struct http_connections connections = {0};
	struct http_connection *listens, *asks[KW_HTTP_CONNECTIONS_MAX];
	int pair[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	listens = http_connections_add(&connections, pair[0], 0);
	http_connections_listen(&connections, listens);
	assert_true(http_connections_sweep(&connections, 9 * LIFE_US) == HTTP_NEVER);
	for (int i = 0; i < KW_HTTP_CONNECTIONS_MAX; i++)
		asks[i] = http_connections_add(&connections, -1, 9 * LIFE_US);
	assert_int_equal(connections.count, KW_HTTP_CONNECTIONS_MAX);
	assert_int_equal(recv(pair[1], pair, 1, MSG_DONTWAIT), -1);
	for (int i = 0; i < KW_HTTP_CONNECTIONS_MAX; i++)
		http_connections_remove(&connections, asks[i]);
	http_connections_remove(&connections, listens);
	assert_null(connections.oldest);
	assert_int_equal(connections.count, 0);
	close(pair[0]), close(pair[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_an_address_there_is_no_server),
		TEST(health_needs_nothing_of_the_daemon),
		TEST(readiness_is_that_of_the_daemon),
		TEST(a_lag_can_be_asked_for),
		TEST(status_is_json),
		TEST(metrics_have_the_type_that_prometheus_wants),
		TEST(another_page_names_those_that_there_are),
		TEST(the_page_allows_its_own_script_alone),
		TEST(no_other_site_reads_frames_or_keeps_an_answer),
		TEST(nothing_can_be_changed),
		TEST(with_a_secret_strangers_are_told_a_word),
		TEST(two_proofs_are_none),
		TEST(a_secret_is_read_again_and_a_bad_file_changes_nothing),
		TEST(a_secret_in_other_hands_is_refused),
		TEST(a_request_is_bounded),
		TEST(bytes_that_are_no_request_are_refused),
		TEST(who_sends_nothing_does_not_keep_others_out),
		TEST(without_a_descriptor_the_loop_does_not_spin),
		TEST(nobody_asking_costs_nothing),
		TEST(the_end_does_not_wait_for_clients),
		cmocka_unit_test(a_connection_has_its_time_and_no_more),
		cmocka_unit_test(who_listens_has_no_limit_of_time_and_never_gives_way),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
