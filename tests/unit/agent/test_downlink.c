/* The link down to a local server, played by this test. */
#include "base/clock.h"
#include "fixture.h"
#include "primary/downlink.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SILENCE_US ((uint64_t)KW_DOWNLINK_SILENCE_MS * 1000)

struct world {
	uv_loop_t loop;
	struct kw_downlink downlink;
	struct kw_feed feed;
	int fd;
	int asked, lost, closed;
};

static void on_psync(void *arg, const char *replid, int64_t offset)
{
	((struct world *)arg)->asked++;
}

static void on_ack(void *arg, uint64_t offset)
{
}

static void on_nothing(void *arg)
{
}

static void on_lost(void *arg, const char *why)
{
	((struct world *)arg)->lost++;
}

static void on_closed(void *arg)
{
	((struct world *)arg)->closed++;
}

static bool is_asked(void *arg)
{
	return ((struct world *)arg)->asked > 0;
}

static bool is_closed(void *arg)
{
	return ((struct world *)arg)->closed > 0;
}

static bool all_left(void *arg)
{
	struct world *world = arg;

	return kw_buffer_length(kw_downlink_output(&world->downlink)) == 0;
}

static void connect_server(struct world *world)
{
	static const char words[] = "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"
				    "*3\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n"
				    "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n";
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(world->downlink.port)};

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	world->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(world->fd, (struct sockaddr *)&to, sizeof to), 0);
	assert_int_equal(write(world->fd, words, sizeof words - 1), sizeof words - 1);
	test_run(&world->loop, is_asked, world, "the server has asked");
}

static void setup(struct world *world)
{
	const struct kw_downlink_handlers handlers = {
		.psync = on_psync,
		.ack = on_ack,
		.filling = on_nothing,
		.room = on_nothing,
		.lost = on_lost,
		.closed = on_closed,
		.arg = world,
	};
	struct kw_error error;

	memset(world, 0, sizeof *world);
	uv_loop_init(&world->loop);
	kw_downlink_init(&world->downlink, &world->loop, "tcp://127.0.0.1:0", &handlers);
	snprintf(world->downlink.login.password, sizeof world->downlink.login.password, "secret");
	kw_downlink_speak(&world->downlink, KW_DOWNLINK_PLAIN);
	assert_int_equal(kw_downlink_listen(&world->downlink, &error), KW_OK);
	connect_server(world);
}

static void teardown(struct world *world)
{
	kw_downlink_close(&world->downlink);
	test_run(&world->loop, is_closed, world, "the link is closed");
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	kw_feed_close(&world->feed);
	close(world->fd);
}

/* Some time after the server has spoken last, bytes leave; the clock between the two. */
static uint64_t send_later(struct world *world)
{
	uint64_t between;

	test_run_ms(&world->loop, 30);
	between = kw_clock_us();
	test_run_ms(&world->loop, 30);
	kw_buffer_append(kw_downlink_output(&world->downlink), "part of a snapshot", 18);
	kw_downlink_appended(&world->downlink);
	test_run(&world->loop, all_left, world, "the bytes have left");
	return between;
}

static void a_server_that_takes_a_snapshot_may_be_silent(void **state)
{
	struct world world;
	uint64_t between;

	setup(&world);
	between = send_later(&world);
	kw_downlink_tick(&world.downlink, between + SILENCE_US);
	assert_int_equal(world.lost, 0);
	/* Not for ever: nothing leaves any more. */
	kw_downlink_tick(&world.downlink, kw_clock_us() + SILENCE_US);
	assert_int_equal(world.lost, 1);
	teardown(&world);
}

static void one_that_follows_must_speak(void **state)
{
	struct world world;
	uint64_t between;

	setup(&world);
	kw_feed_reset(&world.feed, 0);
	kw_downlink_attach(&world.downlink, &world.feed);
	between = send_later(&world);
	kw_downlink_tick(&world.downlink, between + SILENCE_US);
	assert_int_equal(world.lost, 1);
	teardown(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_takes_a_snapshot_may_be_silent),
		cmocka_unit_test(one_that_follows_must_speak),
	};

	return cmocka_run_group_tests_name("agent-downlink", tests, NULL, NULL);
}
