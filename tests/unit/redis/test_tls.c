/* A connection over TLS: what no poll of its socket shows. The server is a thread with a channel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../tls/certificates.h"
#include "fixture.h"
#include "tls/channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct kw_tls_terms terms = {
	.keys = "redis.tls", .peer = "it", .plain = "", .demand = "", .trust = ""};

static struct certificate ca, server;

struct fake {
	pthread_t thread;
	int listener, port;
	struct kw_tls_context *context;
	const char *reply; /* to the command after CLIENT SETNAME */
	size_t length;
};

static struct kw_tls_context *context_of(enum kw_tls_role role)
{
	bool shown = role == KW_TLS_SERVER;
	const struct kw_tls_options options = {
		.role = role,
		.ca = {"ca.pem", kw_slice_text(ca.pem)},
		.cert = {"s.pem", shown ? kw_slice_text(server.pem) : kw_slice(NULL, 0)},
		.key = {"s.key", shown ? kw_slice_text(server.key_pem) : kw_slice(NULL, 0)},
		.verify = !shown,
		.terms = &terms,
	};

	return kw_tls_context_new(&options, NULL);
}

/* The socket blocks, so each call is done when it returns. */
static bool hear_command(struct kw_tls_channel *channel, const char *last_word)
{
	char heard[4096];
	size_t total = 0, got;

	while (total + 1 < sizeof heard) {
		if (kw_tls_channel_read(channel, heard + total, 1, &got, NULL) != KW_TLS_MORE)
			return false;
		total += got;
		heard[total] = '\0';
		if (strstr(heard, last_word) && heard[total - 1] == '\n')
			return true;
	}
	return false;
}

static void say(struct kw_tls_channel *channel, const char *bytes, size_t length)
{
	size_t put;

	for (size_t sent = 0; sent < length; sent += put)
		if (kw_tls_channel_write(channel, bytes + sent, length - sent, &put, NULL) !=
			KW_TLS_MORE)
			return;
}

static void *serve(void *arg)
{
	struct fake *fake = arg;
	int fd = accept(fake->listener, NULL, NULL);
	struct kw_tls_channel *channel = kw_tls_channel_new(fake->context, fd, NULL, NULL, NULL);

	if (kw_tls_channel_shake(channel, NULL) == KW_TLS_DONE &&
		hear_command(channel, "the-client")) {
		say(channel, "+OK\r\n", 5);
		if (hear_command(channel, "the-key"))
			say(channel, fake->reply, fake->length);
		hear_command(channel, "never");
	}
	kw_tls_channel_free(channel);
	close(fd);
	return NULL;
}

static void start(struct fake *fake)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(fake->listener, 1), 0);
	getsockname(fake->listener, (struct sockaddr *)&address, &length);
	fake->port = ntohs(address.sin_port);
	fake->context = context_of(KW_TLS_SERVER);
	assert_non_null(fake->context);
	assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
}

static void stop(struct fake *fake)
{
	pthread_join(fake->thread, NULL);
	close(fake->listener);
	kw_tls_context_unref(fake->context);
}

struct counted {
	int replies;
	size_t bytes;
};

static void count(void *arg, const struct kw_reply *reply)
{
	struct counted *counted = arg;

	counted->replies++;
	counted->bytes = reply ? reply->text.length : 0;
}

/*
 * Replies of about the bytes after which an event leaves off. The last bytes are then in the
 * channel, the socket is empty, and the server says no more.
 */
static void the_last_bytes_of_a_long_reply_are_not_left_in_the_channel(void **state)
{
	static const size_t lengths[] = {
		1024 * 1024 - 100, 1024 * 1024 + 3000, 1024 * 1024 + 20000, 1100 * 1024 + 7};
	struct kw_tls_current current = {context_of(KW_TLS_CLIENT)};

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		char *reply = malloc(lengths[i] + 64);
		int head = sprintf(reply, "$%zu\r\n", lengths[i]);
		struct kw_redis_options options;
		struct test_client client;
		struct counted counted = {0};
		struct fake fake = {.reply = reply};
		char address[64];

		memset(reply + head, 'x', lengths[i]);
		memcpy(reply + head + lengths[i], "\r\n", 2);
		fake.length = (size_t)head + lengths[i] + 2;
		start(&fake);
		snprintf(address, sizeof address, "rediss://127.0.0.1:%d", fake.port);
		options = test_options(address);
		snprintf(options.client_name, sizeof options.client_name, "the-client");
		options.tls = &current;
		test_client_open(&client, &options);
		test_client_run(&client, &client.ready, 1);
		kw_redis_words(client.redis, count, &counted, "DUMP", "the-key", NULL);
		test_client_run(&client, &counted.replies, 1);
		assert_int_equal(counted.bytes, lengths[i]);
		test_client_stop(&client);
		stop(&fake);
		free(reply);
	}
	kw_tls_current_put(&current, NULL);
}

static void sum_up(void *arg, struct kw_slice bytes)
{
	((struct counted *)arg)->replies += (int)bytes.length;
}

/* The same bytes, taken over: all of them come, decrypted, although the server says no more. */
static void a_stream_that_is_taken_over_is_decrypted_to_its_last_byte(void **state)
{
	static const size_t lengths[] = {7, 70000, 1024 * 1024 + 3000};
	struct kw_tls_current current = {context_of(KW_TLS_CLIENT)};

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		char *reply = calloc(1, lengths[i]), address[64];
		struct fake fake = {.reply = reply, .length = lengths[i]};
		struct kw_redis_options options;
		struct test_client client;
		struct counted counted = {0};

		start(&fake);
		snprintf(address, sizeof address, "rediss://127.0.0.1:%d", fake.port);
		options = test_options(address);
		snprintf(options.client_name, sizeof options.client_name, "the-client");
		options.tls = &current;
		test_client_open(&client, &options);
		test_client_run(&client, &client.ready, 1);
		kw_redis_take_over(client.redis, sum_up, &counted);
		kw_redis_put(client.redis, kw_slice_text("give me the-key\r\n"));
		test_client_run(&client, &counted.replies, (int)lengths[i]);
		assert_int_equal(counted.replies, lengths[i]);
		test_client_stop(&client);
		stop(&fake);
		free(reply);
	}
	kw_tls_current_put(&current, NULL);
}

static void an_address_of_tls_without_certificates_is_refused(void **state)
{
	const struct kw_redis_handlers handlers = {0};
	struct kw_redis_options options = test_options("rediss://127.0.0.1:1");
	struct kw_redis *redis;
	struct kw_error error;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(kw_redis_open(&loop, &options, &handlers, &redis, &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "redis.tls"));
	uv_loop_close(&loop);
}

static int make(void **state)
{
	ca = certificate_make(&(struct certificate_plan){.cn = "a CA", .is_ca = true});
	server = certificate_make(
		&(struct certificate_plan){.cn = "server", .san = "IP:127.0.0.1", .issuer = &ca});
	return 0;
}

static int unmake(void **state)
{
	certificate_free(&ca);
	certificate_free(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_bytes_of_a_long_reply_are_not_left_in_the_channel),
		cmocka_unit_test(a_stream_that_is_taken_over_is_decrypted_to_its_last_byte),
		cmocka_unit_test(an_address_of_tls_without_certificates_is_refused),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
