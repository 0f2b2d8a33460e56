/* A subscriber whose messages come in a stream looks for them now and then, and loses none. */
#include "fixture.h"

#include "base/clock.h"
#include "redis/connection.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MESSAGES 40000
/* Twelve to twenty KiB a millisecond: a rate that is paced. On a busy machine it is less for once.
 */
#define BURST 100
#define PAUSE_US 500
#define PAD "0123456789012345678901234567890123456789012345678901234567890123456789"

static struct test_server server;

struct subscriber {
	struct test_client client;
	struct kw_redis *redis;
	int confirmed, pushes, paced, closed;
};

static bool is_paced(const struct subscriber *s)
{
	return s->redis->reading == KW_REDIS_READ_PACED;
}

static void on_push(void *arg, const struct kw_reply *message)
{
	struct subscriber *s = arg;
	char wanted[128];

	snprintf(wanted, sizeof wanted, "%06d" PAD, s->pushes % MESSAGES);
	assert_true(kw_slice_equal(message->elements[2].text, kw_slice_text(wanted)));
	s->pushes++;
	s->paced += is_paced(s);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	((struct subscriber *)arg)->closed++;
}

static void on_confirmed(void *arg, const struct kw_reply *reply)
{
	((struct subscriber *)arg)->confirmed++;
}

static void on_tick(uv_timer_t *tick)
{
	/* Only to let uv_run return. */
}

static void subscribe(struct subscriber *s, bool by_timer)
{
	struct kw_redis_options options = test_options(server.address);
	struct kw_redis_handlers handlers = {.closed = on_closed, .push = on_push, .arg = s};

	*s = (struct subscriber){0};
	uv_loop_init(&s->client.loop);
	uv_timer_init(&s->client.loop, &s->client.tick);
	uv_timer_start(&s->client.tick, on_tick, 10, 10);
	assert_int_equal(kw_redis_open(&s->client.loop, &options, &handlers, &s->redis, NULL), 0);
	kw_redis_read_by_timer(s->redis, by_timer);
	kw_redis_subscribe(s->redis, false, "s", on_confirmed, s);
	test_client_run(&s->client, &s->confirmed, 1);
}

static void stop(struct subscriber *s)
{
	kw_redis_close(s->redis);
	test_client_run(&s->client, &s->closed, 1);
	kw_redis_free(s->redis);
	uv_close((uv_handle_t *)&s->client.tick, NULL);
	uv_run(&s->client.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&s->client.loop), 0);
}

static int publisher(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s",
		server.address + strlen("unix://"));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

static void publish(int fd, int from, int count)
{
	struct kw_buffer wire = {0};

	for (int i = from; i < from + count; i++)
		kw_buffer_printf(
			&wire, "*3\r\n$7\r\nPUBLISH\r\n$1\r\ns\r\n$76\r\n%06d" PAD "\r\n", i);
	assert_int_equal(send(fd, kw_buffer_bytes(&wire), kw_buffer_length(&wire), 0),
		kw_buffer_length(&wire));
	kw_buffer_close(&wire);
}

/* All, once or again and again, from a process of its own, so that nobody waits for the other. */
static pid_t publish_all(bool again)
{
	pid_t child = fork();

	if (child == 0) {
		int fd = publisher();

		do {
			for (int i = 0; i < MESSAGES; i += BURST) {
				publish(fd, i, BURST);
				usleep(PAUSE_US);
				while (recv(fd, (char[4096]){0}, 4096, MSG_DONTWAIT) > 0)
					continue;
			}
		} while (again);
		while (recv(fd, (char[4096]){0}, 4096, MSG_DONTWAIT) != 0)
			usleep(1000); /* until it is killed */
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void every_message_of_a_stream_comes_once_in_order(void **state)
{
	struct subscriber s;
	pid_t child;
	int fd, turns = 0;

	subscribe(&s, true);
	do {
		child = publish_all(false);
		test_client_run(&s.client, &s.pushes, (turns + 1) * MESSAGES);
		end_child(child);
	} while (s.paced == 0 && ++turns < 10);
	assert_true(s.paced > 0);
	test_client_idle(&s.client, 100);
	assert_false(is_paced(&s));
	/* A single one wakes it again. */
	fd = publisher();
	publish(fd, 0, 1);
	test_client_run(&s.client, &s.pushes, (turns + 1) * MESSAGES + 1);
	assert_false(is_paced(&s));
	close(fd);
	stop(&s);
}

/* As if so much had come in the last five milliseconds: again, if this took long meanwhile. */
static void came(struct subscriber *s, size_t bytes)
{
	uint64_t now;

	do {
		now = kw_clock_us();
		s->redis->measured_us = now - 5000;
		s->redis->measured_bytes = 0;
		kw_redis_pace_reads(s->redis, bytes);
	} while (kw_clock_us() - now > 1000);
}

static void much_a_millisecond_is_paced_and_half_as_little_is_not(void **state)
{
	struct subscriber s;

	subscribe(&s, true);
	came(&s, 15000);
	assert_false(is_paced(&s));
	came(&s, 60000);
	assert_true(is_paced(&s));
	came(&s, 15000);
	assert_true(is_paced(&s));
	came(&s, 1000);
	assert_false(is_paced(&s));
	stop(&s);
}

/* Then the server would wait for the timer, and keep what it could not send. */
static void a_socket_that_might_be_full_is_read_as_it_fills(void **state)
{
	struct subscriber s;

	subscribe(&s, true);
	came(&s, 60000);
	assert_true(is_paced(&s));
	came(&s, 70000);
	assert_false(is_paced(&s));
	came(&s, 200000);
	assert_false(is_paced(&s));
	came(&s, 60000);
	assert_true(is_paced(&s));
	stop(&s);
}

/* The owner says that the server has time to spare, and later that it has not. */
static void it_is_paced_only_while_the_owner_lets_it(void **state)
{
	struct subscriber s;
	pid_t child;
	int told;

	subscribe(&s, true);
	child = publish_all(true);
	test_client_run(&s.client, &s.paced, 1);
	kw_redis_read_by_timer(s.redis, false);
	assert_false(is_paced(&s));
	told = s.paced;
	test_client_run(&s.client, &s.pushes, s.pushes + MESSAGES);
	assert_int_equal(s.paced, told);
	came(&s, 60000);
	assert_false(is_paced(&s));
	kw_redis_read_by_timer(s.redis, true);
	assert_false(is_paced(&s));
	test_client_run(&s.client, &s.paced, told + 1);
	kw_redis_read_by_timer(s.redis, true); /* said again, it changes nothing */
	assert_true(is_paced(&s));
	stop(&s);
	end_child(child);
}

static void a_connection_that_closes_is_left_alone(void **state)
{
	struct subscriber s;

	subscribe(&s, true);
	came(&s, 60000);
	assert_true(is_paced(&s));
	kw_redis_close(s.redis);
	kw_redis_read_by_timer(s.redis, false);
	stop(&s);
}

static void who_did_not_ask_for_it_is_woken_each_time(void **state)
{
	struct subscriber s;
	pid_t child;

	subscribe(&s, false);
	child = publish_all(false);
	test_client_run(&s.client, &s.pushes, MESSAGES);
	assert_int_equal(s.paced, 0);
	end_child(child);
	stop(&s);
}

static void the_end_of_the_connection_is_noticed_meanwhile(void **state)
{
	struct subscriber s;
	int wanted = 1;
	pid_t child;
	int fd;

	subscribe(&s, true);
	child = publish_all(true);
	test_client_run(&s.client, &s.paced, wanted);
	fd = publisher();
	send(fd, "CLIENT KILL TYPE pubsub\r\n", 25, 0);
	test_client_run(&s.client, &s.closed, 1);
	end_child(child);
	close(fd);
	kw_redis_free(s.redis);
	uv_close((uv_handle_t *)&s.client.tick, NULL);
	uv_run(&s.client.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&s.client.loop), 0);
}

static void closing_meanwhile_is_safe(void **state)
{
	struct subscriber s;
	pid_t child;

	subscribe(&s, true);
	child = publish_all(true);
	test_client_run(&s.client, &s.paced, 1);
	stop(&s);
	end_child(child);
}

static int start_server(void **state)
{
	test_server_start(&server, NULL);
	return 0;
}

static int stop_server(void **state)
{
	test_server_stop(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_of_a_stream_comes_once_in_order),
		cmocka_unit_test(much_a_millisecond_is_paced_and_half_as_little_is_not),
		cmocka_unit_test(a_socket_that_might_be_full_is_read_as_it_fills),
		cmocka_unit_test(it_is_paced_only_while_the_owner_lets_it),
		cmocka_unit_test(a_connection_that_closes_is_left_alone),
		cmocka_unit_test(who_did_not_ask_for_it_is_woken_each_time),
		cmocka_unit_test(the_end_of_the_connection_is_noticed_meanwhile),
		cmocka_unit_test(closing_meanwhile_is_safe),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
