/* A thread takes a stream's bytes while its loop is late: in order, bounded, and to the end. */
#include "redis/stream_drain.h"

#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MB ((size_t)1 << 20)
#define ROOM ((size_t)64 << 10)
#define PERIOD ((size_t)999983)
#define PATIENCE_US UINT64_C(60000000)

/* The server's end. It writes `bytes` bytes of the pattern as fast as they are taken. */
struct server {
	int fd;
	size_t bytes;
	_Atomic size_t written;
	uv_thread_t thread;
};

/* The reader's end, without a loop that runs by itself. */
struct reader {
	uv_loop_t loop;
	uv_async_t wake;
	int wakes;
	struct kw_redis_stream stream;
	size_t got;
};

/* What is sent, over and over. A byte that is lost or comes twice shifts all that follows. */
static uint8_t pattern[PERIOD + ROOM];

static int make_pattern(void **state)
{
	unsigned seed = 1;

	for (size_t i = 0; i < PERIOD; i++)
		pattern[i] = (uint8_t)(rand_r(&seed) >> 8);
	memcpy(pattern + PERIOD, pattern, ROOM);
	return 0;
}

static void serve(void *arg)
{
	struct server *server = arg;

	while (server->written < server->bytes) {
		size_t at = server->written, length = server->bytes - at;
		ssize_t put;

		put = send(server->fd, pattern + at % PERIOD, length < ROOM ? length : ROOM,
			MSG_NOSIGNAL);
		if (put < 0)
			return;
		server->written += (size_t)put;
	}
}

static void on_wake(uv_async_t *async)
{
	((struct reader *)async->data)->wakes++;
}

static void begin(struct reader *reader, struct server *server, size_t bytes)
{
	struct kw_error error;
	int fds[2];

	*reader = (struct reader){0};
	*server = (struct server){.bytes = bytes};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	server->fd = fds[0];
	assert_int_equal(uv_loop_init(&reader->loop), 0);
	assert_int_equal(uv_async_init(&reader->loop, &reader->wake, on_wake), 0);
	reader->wake.data = reader;
	reader->stream = (struct kw_redis_stream){.ops = &kw_redis_stream_plain, .fd = fds[1]};
	assert_int_equal(kw_redis_stream_drain(&reader->stream, &reader->wake, &error), KW_OK);
	assert_int_equal(uv_thread_create(&server->thread, serve, server), 0);
}

static void end(struct reader *reader, struct server *server)
{
	kw_redis_stream_close(&reader->stream);
	uv_thread_join(&server->thread);
	close(server->fd);
	uv_close((uv_handle_t *)&reader->wake, NULL);
	uv_run(&reader->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&reader->loop), 0);
}

static enum kw_redis_stream_result read_once(struct reader *reader, size_t room)
{
	static uint8_t bytes[ROOM];
	enum kw_redis_stream_result result;
	struct kw_error error;
	size_t got;

	result = kw_redis_stream_read(&reader->stream, bytes, room, &got, &error);
	if (memcmp(bytes, pattern + reader->got % PERIOD, got) != 0)
		fail_msg("the bytes from %zu on are not those that were sent", reader->got);
	reader->got += got;
	return result;
}

static void pause_us(unsigned us)
{
	usleep(us);
}

/* Until so many bytes were read, or the stream ended. */
static enum kw_redis_stream_result read_to(struct reader *reader, size_t bytes)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;
	enum kw_redis_stream_result result = KW_REDIS_STREAM_MORE;

	while (reader->got < bytes && kw_clock_us() < until_us) {
		result = read_once(reader, ROOM);
		if (result >= KW_REDIS_STREAM_ENDED)
			break;
		if (result == KW_REDIS_STREAM_AGAIN)
			pause_us(100);
	}
	return result;
}

/* Much comes: the thread is there, and watches. */
static void read_full(struct reader *reader, struct server *server)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;
	size_t before;

	do {
		while (server->written < reader->got + ROOM && kw_clock_us() < until_us)
			pause_us(100);
		before = reader->got;
		(void)read_once(reader, ROOM / 2);
	} while (reader->got - before < ROOM / 2 && kw_clock_us() < until_us);
	assert_int_equal(reader->got - before, ROOM / 2);
}

static void wait_for_bytes(const struct server *server, size_t bytes)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;

	while (server->written < bytes && kw_clock_us() < until_us)
		pause_us(1000);
	assert_int_equal(server->written, bytes);
}

static void wait_for_reserve(const struct reader *reader, size_t least)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;

	while (kw_redis_stream_reserve(&reader->stream) < least && kw_clock_us() < until_us)
		pause_us(1000);
	assert_true(kw_redis_stream_reserve(&reader->stream) >= least);
}

static void a_late_loop_does_not_keep_the_server_waiting(void **state)
{
	struct reader reader;
	struct server server;

	begin(&reader, &server, 64 * MB);
	read_full(&reader, &server);
	wait_for_bytes(&server, 64 * MB);
	wait_for_reserve(&reader, 60 * MB);
	assert_true(kw_redis_stream_pending(&reader.stream));
	(void)read_to(&reader, 64 * MB);
	assert_int_equal(reader.got, 64 * MB);
	assert_int_equal(kw_redis_stream_reserve(&reader.stream), 0);
	end(&reader, &server);
}

static void the_reserve_is_bounded(void **state)
{
	size_t all = KW_REDIS_DRAIN_MOST + 16 * MB;
	struct reader reader;
	struct server server;

	begin(&reader, &server, all);
	read_full(&reader, &server);
	wait_for_reserve(&reader, KW_REDIS_DRAIN_MOST - 4 * MB);
	pause_us(100000); /* in which it could take more */
	assert_true(kw_redis_stream_reserve(&reader.stream) <= KW_REDIS_DRAIN_MOST);
	assert_true(server.written < all);
	(void)read_to(&reader, all);
	assert_int_equal(reader.got, all);
	end(&reader, &server);
}

static void the_end_is_told_after_the_last_byte(void **state)
{
	enum kw_redis_stream_result result;
	struct reader reader;
	struct server server;

	begin(&reader, &server, 8 * MB);
	read_full(&reader, &server);
	wait_for_bytes(&server, 8 * MB);
	shutdown(server.fd, SHUT_WR);
	pause_us(100000); /* the thread meets the end */
	result = read_to(&reader, SIZE_MAX);
	assert_int_equal(result, KW_REDIS_STREAM_ENDED);
	assert_int_equal(reader.got, 8 * MB);
	assert_int_equal(read_once(&reader, ROOM), KW_REDIS_STREAM_ENDED);
	end(&reader, &server);
}

static void a_loop_that_keeps_up_reads_by_itself(void **state)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;
	struct reader reader;
	struct server server;

	/* No read is full, so there is no thread, and no wake. */
	begin(&reader, &server, ROOM / 2);
	while (reader.got < ROOM / 2 && kw_clock_us() < until_us)
		(void)read_once(&reader, ROOM);
	pause_us(3 * KW_REDIS_DRAIN_LATE_US);
	uv_run(&reader.loop, UV_RUN_NOWAIT);
	assert_int_equal(kw_redis_stream_reserve(&reader.stream), 0);
	assert_int_equal(reader.wakes, 0);
	assert_int_equal(kw_redis_stream_wants(&reader.stream, KW_REDIS_STREAM_READ), POLLIN);
	end(&reader, &server);
}

static void the_loop_is_woken_for_the_reserve_and_when_it_is_empty(void **state)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;
	struct reader reader;
	struct server server;

	begin(&reader, &server, 4 * MB);
	read_full(&reader, &server);
	while (reader.wakes == 0 && kw_clock_us() < until_us)
		uv_run(&reader.loop, UV_RUN_NOWAIT);
	assert_int_equal(kw_redis_stream_wants(&reader.stream, KW_REDIS_STREAM_READ), 0);
	wait_for_bytes(&server, 4 * MB);
	reader.wakes = 0;
	(void)read_to(&reader, 4 * MB);
	/* Wakes are merged, but the last one comes after the socket was given back. */
	while (kw_redis_stream_wants(&reader.stream, KW_REDIS_STREAM_READ) == 0 &&
		kw_clock_us() < until_us)
		pause_us(1000);
	while (reader.wakes == 0 && kw_clock_us() < until_us)
		uv_run(&reader.loop, UV_RUN_NOWAIT);
	assert_true(reader.wakes > 0);
	assert_int_equal(kw_redis_stream_wants(&reader.stream, KW_REDIS_STREAM_READ), POLLIN);
	end(&reader, &server);
}

static void what_is_written_passes_meanwhile(void **state)
{
	char ack[] = "REPLCONF ACK 0", heard[sizeof ack] = "";
	struct iovec vector = {ack, sizeof ack};
	struct reader reader;
	struct server server;
	struct kw_error error;
	size_t put;

	begin(&reader, &server, 16 * MB);
	read_full(&reader, &server);
	assert_int_equal(kw_redis_stream_write(&reader.stream, &vector, 1, &put, &error),
		KW_REDIS_STREAM_MORE);
	assert_int_equal(recv(server.fd, heard, sizeof heard, MSG_WAITALL), sizeof ack);
	assert_string_equal(heard, ack);
	(void)read_to(&reader, 16 * MB);
	assert_int_equal(reader.got, 16 * MB);
	end(&reader, &server);
}

static void it_can_be_closed_while_the_thread_reads(void **state)
{
	struct reader reader;
	struct server server;

	begin(&reader, &server, 512 * MB);
	read_full(&reader, &server);
	pause_us(30000);
	end(&reader, &server);
	assert_true(server.written < 512 * MB);
}

/* A loop that is late now and then, and reads as much as it likes. */
static void bytes_keep_their_order_whoever_reads_them(void **state)
{
	const char *given = getenv("KW_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)kw_clock_us();
	uint64_t until_us = kw_clock_us() + PATIENCE_US;
	struct reader reader;
	struct server server;

	printf("KW_SEED=%u\n", seed);
	begin(&reader, &server, 96 * MB);
	while (reader.got < 96 * MB && kw_clock_us() < until_us) {
		unsigned draw = (unsigned)rand_r(&seed);

		(void)read_once(&reader, 1 + draw % ROOM);
		if (draw % 1024 == 0)
			pause_us(KW_REDIS_DRAIN_LATE_US * 3);
	}
	assert_int_equal(reader.got, 96 * MB);
	end(&reader, &server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_loop_does_not_keep_the_server_waiting),
		cmocka_unit_test(the_reserve_is_bounded),
		cmocka_unit_test(the_end_is_told_after_the_last_byte),
		cmocka_unit_test(a_loop_that_keeps_up_reads_by_itself),
		cmocka_unit_test(the_loop_is_woken_for_the_reserve_and_when_it_is_empty),
		cmocka_unit_test(what_is_written_passes_meanwhile),
		cmocka_unit_test(it_can_be_closed_while_the_thread_reads),
		cmocka_unit_test(bytes_keep_their_order_whoever_reads_them),
	};

	return cmocka_run_group_tests(tests, make_pattern, NULL);
}
