/* tcp+tls and those who mean harm: bytes that were changed on the way, and many handshakes. */
#include "fixture.h"
#include "relay.h"
#include "tls_kit.h"

#include "remote/socket.h"
#include "remote/tcp/wire_tls.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CROWD 40
#define SHAKES 8 /* of listen_stream.c: steps of handshakes in one turn */

static int make_kit(void **state)
{
	(void)state;
	carrier = KW_CARRIER_TLS;
	kit_make();
	server_tls = kit_server(&kit.ca, NULL);
	client_tls = kit_client(&kit.ca, &kit.edge);
	return 0;
}

static int free_kit(void **state)
{
	(void)state;
	kw_tls_context_unref(server_tls);
	kw_tls_context_unref(client_tls);
	kit_free();
	return 0;
}

static void connect_through(struct relay *relay, struct client *client)
{
	struct kw_remote_options options = plain_options();
	struct kw_address direct = relay->fixture->address;

	options.read_timeout_ms = WAIT_MS;
	relay->fixture->address = relay->address;
	assert_int_equal(client_open(relay->fixture, client, &options), 0);
	relay->fixture->address = direct;
	WAIT(relay->fixture, (relay_turn(relay), client->ready || client->closed));
	if (client->closed)
		fail_msg("%s", client->why.text);
}

/* A bit of an answer, or of a question: neither end believes any of it. */
static void a_bit_that_was_changed_on_the_way_ends_the_connection(void **state)
{
	for (int of_proxy = 0; of_proxy < 2; of_proxy++) {
		struct fixture fixture;
		struct client client;
		struct relay relay;
		struct try t;

		fixture_start(&fixture);
		relay = relay_open(&fixture, 4096);
		connect_through(&relay, &client);
		WAIT(&fixture, (relay_turn(&relay), fixture.joined == 1));
		relay.flip_from = of_proxy ? relay.proxy : relay.agent;
		try_init(&t, 10, 100000);
		try_read(&client, &t);
		WAIT(&fixture, (relay_turn(&relay), relay_end(&relay), t.told && client.closed));
		assert_true(t.failed);
		assert_int_equal(relay.flip_from, -1);
		/* What came before is right, and nothing else is there. */
		for (uint64_t i = 0; i < t.read.length; i++)
			assert_true(t.read.buffer[i] == pattern(t.read.offset + i) ||
				    t.read.buffer[i] == 0xEE);
		try_free(&t);
		kw_remote_free(client.remote);
		relay_close(&relay);
		WAIT(&fixture, fixture.left == 1);
		fixture_close(&fixture);
	}
}

static int answered(struct kw_wire *crowd)
{
	int count = 0;
	char byte;

	for (int i = 0; i < CROWD; i++)
		count += recv(crowd[i].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
	return count;
}

/* All greet at the same moment, and an answer takes a signature. */
static void many_handshakes_take_turns(void **state)
{
	struct kw_wire crowd[CROWD];
	struct fixture fixture;
	struct kw_error error;
	int before = 0, turns = 0;

	fixture_start(&fixture);
	for (int i = 0; i < CROWD; i++) {
		int fd = raw_socket(&fixture.address);

		assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(
			kw_wire_tls(&crowd[i], fd, client_tls, "127.0.0.1", NULL, &error), 0);
	}
	/* All are accepted before the first of them says a word. */
	for (int i = 0; i < 20; i++)
		uv_run(&fixture.loop, UV_RUN_ONCE);
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(kw_wire_shake(&crowd[i], &error), KW_WIRE_READ);
	while (before < CROWD) {
		int now;

		uv_run(&fixture.loop, UV_RUN_ONCE);
		now = answered(crowd);
		assert_in_range(now - before, 0, SHAKES);
		before = now;
		assert_true(++turns < 10000);
	}
	for (int i = 0; i < CROWD; i++)
		kw_wire_close(&crowd[i]);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bit_that_was_changed_on_the_way_ends_the_connection),
		cmocka_unit_test(many_handshakes_take_turns),
	};

	return cmocka_run_group_tests(tests, make_kit, free_kit);
}
