/* A host's name over tcp and tcp+tls: its addresses are tried one after the other. */
#include "fixture.h"

#include "names.h"
#ifdef KW_HAVE_TLS
#include "tls_kit.h"
#endif

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#define ELSEWHERE "127.0.0.9"
#define FILLING 4

/* Something at the proxy's port of the other address. */
struct other {
	int listener;
	int filling[FILLING]; /* SWALLOWS: connections that wait in its queue */
	pthread_t thread;     /* ENDS */
};

static void other_listen(struct other *other, uint16_t port, int backlog)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int one = 1;

	other->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(other->listener >= 0);
	setsockopt(other->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	inet_pton(AF_INET, ELSEWHERE, &at.sin_addr);
	assert_int_equal(bind(other->listener, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(other->listener, backlog), 0);
}

/* The kernel drops what asks for a connection while the queue is full. */
static void other_swallows(struct other *other, uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};

	other_listen(other, port, 0);
	inet_pton(AF_INET, ELSEWHERE, &at.sin_addr);
	for (int i = 0; i < FILLING; i++) {
		other->filling[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(other->filling[i], (struct sockaddr *)&at, sizeof at);
	}
}

static void other_close(struct other *other)
{
	for (int i = 0; i < FILLING; i++)
		if (other->filling[i] > 0)
			close(other->filling[i]);
	close(other->listener);
	*other = (struct other){0};
}

static void *end_one(void *arg)
{
	struct other *other = arg;
	int fd = accept(other->listener, NULL, NULL);

	if (fd >= 0)
		close(fd);
	return NULL;
}

static void leave(struct fixture *fixture, struct client *client)
{
	client_close(fixture, client);
	WAIT(fixture, fixture->left == 1);
	fixture_close(fixture);
}

static void the_next_address_is_tried_if_nothing_listens_at_the_first(void **state)
{
	static const char *const names[] = {ELSEWHERE ",127.0.0.1", "127.0.0.1," ELSEWHERE};

	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture;
		struct client client;

		fixture_start(&fixture);
		names_set(&fixture.address, names[i]);
		client_connect(&fixture, &client);
		leave(&fixture, &client);
	}
}

/* `prepare` makes the other address one at which nothing ever answers. */
static void wait_past(void (*prepare)(struct other *other, uint16_t port))
{
	struct kw_remote_options options = plain_options();
	struct other other = {0};
	struct fixture fixture;
	struct client client;
	uint64_t begun_us;
	int before;

	fixture_start(&fixture);
	prepare(&other, fixture.address.port);
	names_set(&fixture.address, ELSEWHERE ",127.0.0.1");
	options.connect_timeout_ms = 4000;
	before = count_fds();
	begun_us = kw_clock_us();
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready || client.closed);
	/* The first one had its half, and the other half was enough for the second. */
	assert_int_equal(client.ready, 1);
	assert_true(kw_clock_us() - begun_us >= 2000000);
	client_close(&fixture, &client);
	WAIT(&fixture, fixture.left == 1);
	assert_true(count_fds() <= before);
	other_close(&other);
	fixture_close(&fixture);
}

static void an_address_that_swallows_packets_leaves_time_for_the_next(void **state)
{
	wait_past(other_swallows);
}

static void say_nothing(struct other *other, uint16_t port)
{
	other_listen(other, port, 5);
}

/* TLS or our own handshake is begun, and never answered. */
static void an_address_at_which_nobody_speaks_leaves_time_for_the_next(void **state)
{
	wait_past(say_nothing);
}

static void a_handshake_that_fails_leads_to_the_next_address_at_once(void **state)
{
	struct other other = {0};
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	other_listen(&other, fixture.address.port, 5);
	assert_int_equal(pthread_create(&other.thread, NULL, end_one, &other), 0);
	names_set(&fixture.address, ELSEWHERE ",127.0.0.1");
	client_connect(&fixture, &client);
	pthread_join(other.thread, NULL);
	other_close(&other);
	leave(&fixture, &client);
}

/* "give it the right key" must not be hidden by an address that leads nowhere. */
static void a_refusal_is_what_is_told_of_all_addresses(void **state)
{
	static const char *const names[] = {ELSEWHERE ",127.0.0.1", "127.0.0.1," ELSEWHERE};
	struct kw_remote_options options = plain_options();

	options.secret = kw_slice_text("not the secret of that proxy");
	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture;
		struct client client;

		fixture_start(&fixture);
		names_set(&fixture.address, names[i]);
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		WAIT(&fixture, client.closed);
		assert_int_equal(client.why.code, KW_E_REFUSED);
		assert_non_null(strstr(client.why.text, "127.0.0.1"));
		kw_remote_free(client.remote);
		fixture_close(&fixture);
	}
}

static void the_deadline_is_that_of_the_whole(void **state)
{
	struct kw_remote_options options = plain_options();
	struct other other = {0};
	struct fixture fixture;
	struct client client;
	uint64_t begun_us;

	fixture_start(&fixture);
	say_nothing(&other, fixture.address.port);
	names_set(&fixture.address, ELSEWHERE "," ELSEWHERE);
	options.connect_timeout_ms = 600;
	begun_us = kw_clock_us();
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.closed);
	assert_true(kw_clock_us() - begun_us >= 600000);
	assert_int_equal(client.why.code, KW_E_TIMEOUT);
	kw_remote_free(client.remote);
	other_close(&other);
	fixture_close(&fixture);
}

static int run_over(enum kw_carrier which)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_address_is_tried_if_nothing_listens_at_the_first),
		cmocka_unit_test(an_address_that_swallows_packets_leaves_time_for_the_next),
		cmocka_unit_test(an_address_at_which_nobody_speaks_leaves_time_for_the_next),
		cmocka_unit_test(a_handshake_that_fails_leads_to_the_next_address_at_once),
		cmocka_unit_test(a_refusal_is_what_is_told_of_all_addresses),
		cmocka_unit_test(the_deadline_is_that_of_the_whole),
	};

	carrier = which;
	return _cmocka_run_group_tests(
		kw_carrier_name(which), tests, sizeof tests / sizeof *tests, NULL, NULL);
}

int main(void)
{
	int failed = run_over(KW_CARRIER_TCP);

#ifdef KW_HAVE_TLS
	kit_make();
	server_tls = kit_server(&kit.ca, NULL);
	client_tls = kit_client(&kit.ca, &kit.edge);
	failed += run_over(KW_CARRIER_TLS);
	kw_tls_context_unref(server_tls);
	kw_tls_context_unref(client_tls);
	kit_free();
#endif
	return failed;
}
