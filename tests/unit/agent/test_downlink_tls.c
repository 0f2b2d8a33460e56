/* The link down to a local server that replicates over TLS: the server is played by this test. */
#include "../tls/certificates.h"
#include "fixture.h"
#include "primary/downlink.h"
#include "tls/channel.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define VALUES 100
#define PIECE ((size_t)777 * 13)
#define VALUE_BYTES ((size_t)100 * 1000)

static const char greeting[] = "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"
			       "*3\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n"
			       "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n";
static const char answers[] = "+PONG\r\n+OK\r\n+OK\r\n";

struct world {
	uv_loop_t loop;
	struct kw_downlink downlink;
	struct kw_tls_current shown;
	struct certificate ca, certificate;
	int fd;
	struct kw_tls_channel *server;
	int asked, closed;
	uint8_t *heard;
	size_t heard_bytes, wanted;
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
	fail_msg("lost: %s", why);
}

static void on_closed(void *arg)
{
	((struct world *)arg)->closed++;
}

static struct kw_tls_context *make_context(enum kw_tls_role role, const struct world *world)
{
	const struct kw_tls_options options = {
		.role = role,
		.ca = {"ca", kw_slice_text(world->ca.pem)},
		.cert = {"c", kw_slice_text(world->certificate.pem)},
		.key = {"k", kw_slice_text(world->certificate.key_pem)},
		.verify = role == KW_TLS_CLIENT,
		.terms = &kw_downlink_tls_terms,
	};
	struct kw_tls_context *context = kw_tls_context_new(&options, NULL);

	assert_non_null(context);
	return context;
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
	struct sockaddr_in to = {.sin_family = AF_INET};
	const int small = 65536;

	memset(world, 0, sizeof *world);
	world->ca = certificate_make(&(struct certificate_plan){.cn = "a CA", .is_ca = true});
	world->certificate = certificate_make(&(struct certificate_plan){
		.cn = "agent", .san = "IP:127.0.0.1", .issuer = &world->ca});
	kw_tls_current_put(&world->shown, make_context(KW_TLS_SERVER, world));
	uv_loop_init(&world->loop);
	kw_downlink_init(&world->downlink, &world->loop, "tcp://127.0.0.1:0", &handlers);
	world->downlink.certificates = &world->shown;
	snprintf(world->downlink.login.password, sizeof world->downlink.login.password, "secret");
	assert_int_equal(kw_downlink_listen(&world->downlink, NULL), KW_OK);
	to.sin_port = htons(world->downlink.port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	world->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(world->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	assert_int_equal(connect(world->fd, (struct sockaddr *)&to, sizeof to), 0);
	fcntl(world->fd, F_SETFL, O_NONBLOCK);
}

static void open_tls(struct world *world)
{
	struct kw_tls_context *context = make_context(KW_TLS_CLIENT, world);

	world->server = kw_tls_channel_new(context, world->fd, "127.0.0.1", NULL, NULL);
	assert_non_null(world->server);
	kw_tls_context_unref(context);
}

static void teardown(struct world *world)
{
	kw_downlink_close(&world->downlink);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(world->closed, 1);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	kw_tls_channel_free(world->server);
	close(world->fd);
	kw_tls_current_put(&world->shown, NULL);
	certificate_free(&world->certificate);
	certificate_free(&world->ca);
	free(world->heard);
}

static bool has_shaken(void *arg)
{
	enum kw_tls_result result = kw_tls_channel_shake(((struct world *)arg)->server, NULL);

	assert_int_not_equal(result, KW_TLS_FAIL);
	return result == KW_TLS_DONE;
}

static bool is_asked(void *arg)
{
	return ((struct world *)arg)->asked > 0;
}

/* In pieces that have nothing to do with records. */
static bool has_heard(void *arg)
{
	struct world *world = arg;
	enum kw_tls_result result = KW_TLS_MORE;
	size_t got;

	while (world->heard_bytes < world->wanted && result == KW_TLS_MORE) {
		size_t room = world->wanted - world->heard_bytes;

		result = kw_tls_channel_read(world->server, world->heard + world->heard_bytes,
			room < PIECE ? room : PIECE, &got, NULL);
		assert_int_not_equal(result, KW_TLS_FAIL);
		world->heard_bytes += got;
	}
	return world->heard_bytes == world->wanted;
}

static void greet(struct world *world)
{
	size_t put;

	test_run(&world->loop, has_shaken, world, "the handshake is done");
	assert_int_equal(
		kw_tls_channel_write(world->server, greeting, sizeof greeting - 1, &put, NULL),
		KW_TLS_MORE);
	test_run(&world->loop, is_asked, world, "the server has asked");
	assert_string_not_equal(kw_downlink_cipherer(&world->downlink), "");
}

static uint8_t byte_of(size_t value, size_t at)
{
	return (uint8_t)(value * 31 + at * 7 + (at >> 10));
}

static void send_values(struct world *world)
{
	uint8_t *value = malloc(VALUE_BYTES);

	for (size_t i = 0; i < VALUES; i++) {
		for (size_t at = 0; at < VALUE_BYTES; at++)
			value[at] = byte_of(i, at);
		kw_downlink_value(&world->downlink, kw_slice(value, VALUE_BYTES));
		/* Its memory is somebody else's from here on. */
		memset(value, 0xee, VALUE_BYTES);
	}
	free(value);
}

/* More than sockets hold: parts of values wait, and records are begun that must go on. */
static void values_arrive_whole_though_the_socket_is_full(void **state)
{
	struct world world;
	size_t skip = sizeof answers - 1;

	setup(&world);
	open_tls(&world);
	kw_downlink_speak(&world.downlink, KW_DOWNLINK_TLS);
	greet(&world);
	world.wanted = skip + VALUES * VALUE_BYTES;
	world.heard = malloc(world.wanted);
	send_values(&world);
	test_run_ms(&world.loop, 20);
	assert_true(world.downlink.blocked);
	test_run(&world.loop, has_heard, &world, "all was heard");
	assert_memory_equal(world.heard, answers, skip);
	for (size_t i = 0; i < VALUES; i++)
		for (size_t at = 0; at < VALUE_BYTES; at++)
			if (world.heard[skip + i * VALUE_BYTES + at] != byte_of(i, at))
				fail_msg("value %zu differs at %zu", i, at);
	teardown(&world);
}

static bool is_refused(void *arg)
{
	return ((struct world *)arg)->downlink.refusal[0] != '\0';
}

/* A server comes before it is known what it speaks: it waits, and is not refused. */
static void one_that_comes_early_waits(void **state)
{
	struct world world;

	setup(&world);
	open_tls(&world);
	assert_int_equal(kw_tls_channel_shake(world.server, NULL), KW_TLS_AGAIN);
	test_run_ms(&world.loop, 20);
	assert_int_equal(kw_tls_channel_shake(world.server, NULL), KW_TLS_AGAIN);
	kw_downlink_speak(&world.downlink, KW_DOWNLINK_TLS);
	greet(&world);
	assert_false(is_refused(&world));
	teardown(&world);
}

static void the_wrong_speech_is_told(void **state)
{
	struct world world;

	setup(&world);
	open_tls(&world);
	assert_int_equal(kw_tls_channel_shake(world.server, NULL), KW_TLS_AGAIN);
	kw_downlink_speak(&world.downlink, KW_DOWNLINK_PLAIN);
	test_run(&world.loop, is_refused, &world, "TLS at a plain link is refused");
	assert_non_null(strstr(world.downlink.refusal, "use apply.replica.tls=follow"));
	teardown(&world);
	setup(&world);
	assert_true(write(world.fd, greeting, sizeof greeting - 1) > 0);
	kw_downlink_speak(&world.downlink, KW_DOWNLINK_TLS);
	test_run(&world.loop, is_refused, &world, "a plain server is refused");
	assert_non_null(strstr(world.downlink.refusal, "speaks no TLS"));
	teardown(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_arrive_whole_though_the_socket_is_full),
		cmocka_unit_test(one_that_comes_early_waits),
		cmocka_unit_test(the_wrong_speech_is_told),
	};

	return cmocka_run_group_tests_name("agent-downlink-tls", tests, NULL, NULL);
}
