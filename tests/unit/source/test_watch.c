/* What the watch makes of servers that tell less of themselves than Redis does. */
#include "base/clock.h"
#include "feed/watch/watch.h"
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_US 30000000

/* The server: it answers on one connection at a time. */
static int listener;
static char path[64];
static pthread_t thread;
static const char *server_section;
static int infos;
/* Calls as the server counts them; of some, how many failed. */
static int function_loads, function_deletes, function_restores;
static int function_flushes, function_flushes_failed;
static bool wiped; /* CONFIG RESETSTAT was called just now */

static uv_loop_t loop;
static struct kw_data_connection data;
static struct kw_watch *watch;
static bool closed;
static char failure[KW_ERROR_TEXT];
static int welcomes, doubts, looked, functions_told, flushes_told;
static enum kw_feed_server welcomed;

static void send_bulk(FILE *to, const char *text)
{
	fprintf(to, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void answer_info(FILE *to, const char *section)
{
	char counters[512];

	infos++;
	snprintf(counters, sizeof counters,
		"cmdstat_info:calls=%d,usec=1\r\ncmdstat_function|load:calls=%d,usec=1\r\n"
		"cmdstat_function|delete:calls=%d,usec=1\r\n"
		"cmdstat_function|restore:calls=%d,usec=1\r\n"
		"cmdstat_function|flush:calls=%d,usec=1,rejected_calls=0,failed_calls=%d\r\n",
		wiped ? 1 : infos, function_loads, function_deletes, function_restores,
		function_flushes, function_flushes_failed);
	if (strcmp(section, "commandstats") == 0)
		send_bulk(to, counters);
	else
		send_bulk(to, strcmp(section, "server") == 0 ? server_section : "");
}

static void answer(FILE *to, char argv[][WORD_BYTES])
{
	if (strcmp(argv[0], "CLIENT") == 0)
		fputs("+OK\r\n", to);
	else if (strcmp(argv[0], "TIME") == 0)
		fputs("*2\r\n$1\r\n1\r\n$1\r\n0\r\n", to);
	else if (strcmp(argv[0], "INFO") == 0)
		answer_info(to, argv[1]);
	else if (strcmp(argv[2], "databases") == 0)
		fputs("*2\r\n$9\r\ndatabases\r\n$2\r\n16\r\n", to);
	else
		fputs("*2\r\n$22\r\nnotify-keyspace-events\r\n$2\r\nAE\r\n", to);
	fflush(to);
}

static void *serve(void *arg)
{
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		FILE *from = fdopen(fd, "r"), *to = fdopen(dup(fd), "w");
		char argv[8][WORD_BYTES];

		while (read_command(from, argv) > 0)
			answer(to, argv);
		fclose(from);
		fclose(to);
	}
	return NULL;
}

static void on_ready(void *arg)
{
	kw_watch_begin(watch);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	closed = true;
}

static void on_failed(void *arg, const struct kw_error *why)
{
	snprintf(failure, sizeof failure, "%s", why->text);
}

static void on_welcome(void *arg, enum kw_feed_server server)
{
	welcomes++;
	welcomed = server;
}

static void on_doubt(void *arg, enum kw_doubt cause, const char *why)
{
	doubts++;
}

static void on_stir(void *arg, enum kw_silent_kind kind)
{
}

static void on_functions(void *arg, enum kw_feed_functions what)
{
	functions_told++;
	flushes_told += what == KW_FEED_FUNCTIONS_FLUSHED;
}

static void on_looked(void *arg)
{
	looked++;
}

static uint64_t events_heard(void *arg)
{
	return 0;
}

/* Until the connection has no reply pending: the look is over. */
static void run_look(void)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;

	while (kw_redis_pending(data.redis) > 0) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&loop, UV_RUN_ONCE);
	}
}

static void connect_to(const char *section)
{
	struct kw_redis_options options = {0};
	struct kw_redis_handlers handlers = {on_ready, on_closed, NULL, NULL};

	server_section = section;
	closed = false;
	snprintf(options.address, sizeof options.address, "unix://%s", path);
	assert_int_equal(kw_redis_open(&loop, &options, &handlers, &data.redis, NULL), 0);
	kw_data_open(&data, data.redis);
	run_look();
}

static void hang_up(void)
{
	kw_redis_close(data.redis);
	while (!closed)
		uv_run(&loop, UV_RUN_ONCE);
	data.state = KW_DATA_BROKEN;
	kw_data_closed(&data);
	kw_redis_free(data.redis);
	data.redis = NULL;
}

static int begin(void **state)
{
	const struct kw_watch_handlers handlers = {
		on_welcome, on_doubt, on_stir, on_functions, on_looked, events_heard, NULL};
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(path, sizeof path, "/tmp/kw-test-watch-%d", getpid());
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0)
		return -1;
	listen(listener, 1);
	pthread_create(&thread, NULL, serve, NULL);
	uv_loop_init(&loop);
	data = (struct kw_data_connection){.failed = on_failed};
	watch = kw_watch_new(&data, KW_SOURCE_FLAGS_SET, &handlers);
	welcomes = doubts = functions_told = flushes_told = 0;
	failure[0] = '\0';
	return 0;
}

static int end(void **state)
{
	hang_up();
	shutdown(listener, SHUT_RDWR);
	close(listener);
	pthread_join(thread, NULL);
	unlink(path);
	kw_watch_free(watch);
	return uv_loop_close(&loop);
}

static void a_server_without_a_run_id_is_followed(void **state)
{
	connect_to("redis_version:7.2.0\r\nrole:master\r\n");
	assert_string_equal(failure, "");
	assert_int_equal(welcomes, 1);
	assert_int_equal(welcomed, KW_FEED_SAME_SERVER);
	kw_watch_look(watch);
	run_look();
	assert_string_equal(failure, "");
	assert_int_equal(doubts, 0);
}

static void another_history_is_seen_without_a_run_id(void **state)
{
	connect_to("redis_version:7.2.0\r\nrole:master\r\nmaster_replid:one\r\n");
	hang_up();
	connect_to("redis_version:7.2.0\r\nrole:master\r\nmaster_replid:two\r\n");
	assert_string_equal(failure, "");
	assert_int_equal(welcomes, 2);
	assert_int_equal(welcomed, KW_FEED_ANOTHER_SERVER);
}

static int told_by_a_look(void)
{
	int before = functions_told;

	kw_watch_look(watch);
	run_look();
	assert_string_equal(failure, "");
	return functions_told - before;
}

/* Function libraries are changed without an event. The count tells it, also if it began anew. */
static void commands_that_change_functions_are_told(void **state)
{
	function_loads = 3;
	connect_to("redis_version:7.2.0\r\nrole:master\r\n");
	assert_int_equal(functions_told, 0); /* the source asks after each connection anyway */
	assert_int_equal(told_by_a_look(), 0);
	function_loads = 5;
	assert_int_equal(told_by_a_look(), 1);
	assert_int_equal(told_by_a_look(), 0);
	assert_int_equal(flushes_told, 0); /* by FUNCTION LOAD no library is gone */
	function_flushes = 1;
	assert_int_equal(told_by_a_look(), 1);
	assert_int_equal(flushes_told, 1);
	/* CONFIG RESETSTAT, and as many loads as before since then. */
	function_flushes = 0;
	wiped = true;
	assert_int_equal(told_by_a_look(), 1);
	assert_int_equal(flushes_told, 1);
	wiped = false;
	infos = 1;
}

/* A server that lost its libraries counts failed calls, and deletions of an agent's cursor. */
static void only_a_flush_that_was_carried_out_says_that_none_is_meant(void **state)
{
	infos = function_loads = function_flushes = 0;
	connect_to("redis_version:7.2.0\r\nrole:master\r\n");
	function_deletes = 1;
	assert_int_equal(told_by_a_look(), 1);
	function_restores = 1;
	assert_int_equal(told_by_a_look(), 1);
	function_flushes = function_flushes_failed = 1;
	assert_int_equal(told_by_a_look(), 0);
	assert_int_equal(flushes_told, 0);
	function_flushes = 2;
	assert_int_equal(told_by_a_look(), 1);
	assert_int_equal(flushes_told, 1);
	/* CONFIG RESETSTAT: since then a flush failed, and a library was deleted. */
	infos = 100;
	assert_int_equal(told_by_a_look(), 0);
	wiped = true;
	function_flushes = 1;
	assert_int_equal(told_by_a_look(), 1);
	assert_int_equal(flushes_told, 1);
	wiped = false;
	function_deletes = function_restores = function_flushes = function_flushes_failed = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_server_without_a_run_id_is_followed, begin, end),
		cmocka_unit_test_setup_teardown(
			another_history_is_seen_without_a_run_id, begin, end),
		cmocka_unit_test_setup_teardown(
			commands_that_change_functions_are_told, begin, end),
		cmocka_unit_test_setup_teardown(
			only_a_flush_that_was_carried_out_says_that_none_is_meant, begin, end),
	};

	signal(SIGPIPE, SIG_IGN); /* the server answers one who is gone */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
