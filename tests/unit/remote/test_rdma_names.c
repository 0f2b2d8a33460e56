/* A host's name over rdma: its addresses are tried one after the other. */
#include "rdma_kit.h"

#include "fake_verbs.h"
#include "names.h"
#include "rdma_raw.h"

#include <errno.h>

/* The fake's device knows IPv4 only, as an Ethernet port without an IPv6 address does. */
static void the_next_address_of_a_name_is_tried(void **state)
{
	static const char *const names[] = {"::1,127.0.0.1", "127.0.0.1,::1"};

	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture;
		struct client client;

		fixture_start(&fixture);
		names_set(&fixture.address, names[i]);
		client_connect(&fixture, &client);
		client_close(&fixture, &client);
		WAIT(&fixture, fixture.left == 1);
		fixture_close(&fixture);
	}
}

/* Wherever on its way an address fails, what was made for it is let go of before the next. */
static void an_address_that_fails_leaves_nothing_to_the_next(void **state)
{
	static const char *const calls[] = {"rdma_create_id", "rdma_resolve_addr",
		"rdma_resolve_route", "ibv_query_device", "ibv_alloc_pd", "ibv_create_cq",
		"ibv_create_qp", "rdma_connect"};

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		const struct kw_remote_options options = plain_options();
		struct fixture fixture;
		struct client client;

		fixture_start(&fixture);
		names_set(&fixture.address, "127.0.0.1,127.0.0.1");
		fake_verbs.fail_call = calls[i];
		fake_verbs.fail_errno = EPERM;
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		WAIT(&fixture, client.closed);
		expect_closed(&fixture, &client, client.why.code, "127.0.0.1");
		fake_verbs.fail_call = NULL;
		fixture_close(&fixture);
	}
}

static void one_address_that_never_answers_leaves_time_for_the_next(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	uint64_t begun_us;

	fixture_start(&fixture);
	names_set(&fixture.address, "127.0.0.1,127.0.0.1");
	options.connect_timeout_ms = 4000;
	fake_verbs.mute = true;
	begun_us = kw_clock_us();
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, kw_clock_us() - begun_us > 300000);
	fake_verbs.mute = false; /* too late for the first */
	WAIT(&fixture, client.ready || client.closed);
	/* The other half was enough for the second. */
	assert_int_equal(client.ready, 1);
	assert_true(kw_clock_us() - begun_us >= 2000000);
	client_close(&fixture, &client);
	WAIT(&fixture, fixture.left == 1);
	fixture_close(&fixture);
}

/* "upgrade the older of the two" must not be hidden by an address that leads nowhere. */
static void a_refusal_is_what_is_told_of_all_addresses(void **state)
{
	const struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	names_set(&fixture.address, "127.0.0.1,::1");
	fake_verbs.instead = RDMA_CM_EVENT_REJECTED;
	fake_verbs.instead_status = 28;
	fake_verbs.instead_set = true;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_REFUSED, "rejected without a reason");
	fake_verbs.instead_status = 8;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.closed);
	expect_closed(&fixture, &client, client.why.code, "[::1]");
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RDMA_TEST(the_next_address_of_a_name_is_tried),
		RDMA_TEST(an_address_that_fails_leaves_nothing_to_the_next),
		RDMA_TEST(one_address_that_never_answers_leaves_time_for_the_next),
		RDMA_TEST(a_refusal_is_what_is_told_of_all_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
