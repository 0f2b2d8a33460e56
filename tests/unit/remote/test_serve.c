/* The thread that serves READs over tcp, without a listener: its beginning, its end and its calls.
 */
#include "remote/tcp/serve.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROUNDS 4000
#define SPINS 4000
#define PATIENCE_MS 30000

static void wake(void *arg)
{
	(void)arg;
}

/* Some nanoseconds each: the moment of the stop moves over the thread's whole turn. */
static void spin(unsigned turns)
{
	for (volatile unsigned i = 0; i < turns * 4; i++)
		continue;
}

/*
 * A connection is added, which wakes the thread, and in the same moment it is told to stop. If it
 * missed that, kw_tcp_serve_stop would never return.
 */
static void a_thread_that_is_told_to_stop_while_it_wakes_ends(void **state)
{
	const struct kw_tcp_client client = {.depth = 1};
	const struct kw_memory memory = {.fd = -1, .readonly_fd = -1};

	for (int i = 0; i < ROUNDS; i++) {
		struct kw_error error;
		struct kw_tcp_serve *serve = kw_tcp_serve_new(&memory, wake, NULL, &error);
		struct kw_tcp_conn *conn;
		int ends[2];

		assert_non_null(serve);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
		assert_non_null(kw_tcp_serve_add(serve, kw_wire_plain(ends[0]), &client, &error));
		spin((unsigned)i % SPINS);
		kw_tcp_serve_stop(serve);
		while ((conn = kw_tcp_serve_ended(serve)))
			kw_tcp_conn_free(conn);
		kw_tcp_serve_free(serve);
		close(ends[1]);
	}
}

/* Counts calls of the owner. */
static void count(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void report(int end, uint16_t ticket)
{
	const struct kw_remote_progress progress = {.ticket = ticket, .state = "warm"};
	struct kw_frame_report frame;

	kw_frame_encode_report(&frame, &progress);
	assert_int_equal(write(end, &frame, sizeof frame), sizeof frame);
}

static void await(atomic_uint *calls, unsigned wanted)
{
	for (int i = 0; i < PATIENCE_MS && atomic_load(calls) < wanted; i++)
		usleep(1000);
	assert_int_equal(atomic_load(calls), wanted);
}

/* One connection, whose other end is *end. */
static struct kw_tcp_serve *serve_one(atomic_uint *calls, int *end)
{
	const struct kw_tcp_client client = {.depth = 1};
	const struct kw_memory memory = {.fd = -1, .readonly_fd = -1};
	struct kw_error error;
	struct kw_tcp_serve *serve = kw_tcp_serve_new(&memory, count, calls, &error);
	int ends[2];

	assert_non_null(serve);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	assert_non_null(kw_tcp_serve_add(serve, kw_wire_plain(ends[0]), &client, &error));
	*end = ends[1];
	return serve;
}

/* The owner begins tickets, and must not find them only by looking now and then. */
static void an_agent_that_waits_for_another_ticket_calls_the_owner(void **state)
{
	atomic_uint calls = 0;
	struct kw_tcp_conn *conn;
	int end;
	struct kw_tcp_serve *serve = serve_one(&calls, &end);

	report(end, 4);
	await(&calls, 1);
	report(end, 4); /* a sign of life */
	report(end, 6);
	await(&calls, 2);
	kw_tcp_serve_stop(serve);
	while ((conn = kw_tcp_serve_ended(serve)))
		kw_tcp_conn_free(conn);
	kw_tcp_serve_free(serve);
	close(end);
}

/* The owner is called for ends, too: only a wish makes it look at all sessions. */
static void what_the_owner_is_called_for_is_told(void **state)
{
	atomic_uint calls = 0;
	struct kw_tcp_conn *conn;
	int end;
	struct kw_tcp_serve *serve = serve_one(&calls, &end);

	assert_false(kw_tcp_serve_wished(serve));
	report(end, 4);
	await(&calls, 1);
	assert_true(kw_tcp_serve_wished(serve));
	assert_false(kw_tcp_serve_wished(serve)); /* it is taken */
	close(end);
	await(&calls, 2);
	assert_false(kw_tcp_serve_wished(serve));
	conn = kw_tcp_serve_ended(serve);
	assert_non_null(conn);
	kw_tcp_conn_free(conn);
	kw_tcp_serve_stop(serve);
	kw_tcp_serve_free(serve);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_is_told_to_stop_while_it_wakes_ends),
		cmocka_unit_test(an_agent_that_waits_for_another_ticket_calls_the_owner),
		cmocka_unit_test(what_the_owner_is_called_for_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
