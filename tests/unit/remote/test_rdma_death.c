/*
 * How connections end over rdma, on the fake of its libraries: each end has its sentence and its
 * counter, no READ is told twice or forgotten, and nothing is left behind.
 */
#include "rdma_kit.h"

#include "fake_verbs.h"
#include "rdma_raw.h"
#include "remote/rdma/counts.h"

#include <errno.h>

static void each_answer_to_a_request_is_a_sentence_and_a_count(void **state)
{
	static const struct {
		enum rdma_cm_event_type event;
		int status;
		enum kw_rdma_count count;
		enum kw_code code;
		const char *text;
	} cases[] = {
		{RDMA_CM_EVENT_REJECTED, 8, KW_RDMA_NOBODY, KW_E_IO, "nobody listens"},
		{RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, KW_RDMA_NOBODY, KW_E_IO, "nobody listens"},
		{RDMA_CM_EVENT_REJECTED, 10, KW_RDMA_STALE, KW_E_IO, "stale connection"},
		{RDMA_CM_EVENT_REJECTED, 28, KW_RDMA_REJECTED, KW_E_REFUSED, "without a reason"},
		{RDMA_CM_EVENT_REJECTED, 3, KW_RDMA_REJECTED, KW_E_IO, "reason 3"},
		{RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, KW_RDMA_UNREACHABLE, KW_E_IO,
			"unreachable"},
		{RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM, KW_RDMA_CONNECT_ERROR, KW_E_NOMEM,
			"could not be made"},
		{RDMA_CM_EVENT_DEVICE_REMOVAL, 0, KW_RDMA_DEVICE_REMOVED, KW_E_IO, "was removed"},
		{RDMA_CM_EVENT_ADDR_CHANGE, 0, KW_RDMA_ADDRESS_CHANGED, KW_E_IO, "moved"},
		{RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH, KW_RDMA_ADDRESS, KW_E_IO, "no path"},
		{RDMA_CM_EVENT_CONNECT_RESPONSE, 0, KW_RDMA_COUNTS, KW_E_PROTOCOL,
			"no keywake-proxy"},
	};
	const struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool counted = cases[i].count != KW_RDMA_COUNTS;
		uint64_t before = counted ? kw_rdma_counted(cases[i].count) : 0;

		fake_verbs.instead = cases[i].event;
		fake_verbs.instead_status = cases[i].status;
		fake_verbs.instead_set = true;
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		/* errno's own code is kw_error_errno's business. */
		WAIT(&fixture, client.closed);
		expect_closed(&fixture, &client,
			cases[i].code == KW_E_NOMEM ? client.why.code : cases[i].code,
			cases[i].text);
		if (counted)
			assert_int_equal(kw_rdma_counted(cases[i].count), before + 1);
	}
	fake_verbs.instead_set = false;
	fake_verbs.devices = 0;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_IO, "no RDMA device leads to that address");
	fixture_close(&fixture);
}

static void each_event_of_a_connection_ends_it_with_its_sentence(void **state)
{
	static const struct {
		bool async;
		int event;
		enum kw_rdma_count count;
		const char *text;
	} cases[] = {
		{false, RDMA_CM_EVENT_DEVICE_REMOVAL, KW_RDMA_DEVICE_REMOVED, "was removed"},
		{false, RDMA_CM_EVENT_ADDR_CHANGE, KW_RDMA_ADDRESS_CHANGED, "moved to another"},
		{false, RDMA_CM_EVENT_DISCONNECTED, KW_RDMA_DISCONNECTED, "closed the connection"},
		{true, IBV_EVENT_PORT_ERR, KW_RDMA_PORT_DOWN, "port of RDMA device fake0"},
		{true, IBV_EVENT_DEVICE_FATAL, KW_RDMA_DEVICE_REMOVED, "failed or was removed"},
	};

	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			uint64_t before = kw_rdma_counted(cases[i].count);
			struct fixture fixture;
			struct client client;

			fixture_start(&fixture);
			client_connect(&fixture, &client);
			WAIT(&fixture, fixture.joined == 1);
			if (cases[i].async)
				fake_verbs_async((enum ibv_event_type)cases[i].event, 1);
			else
				fake_verbs_tell(
					side == 0, (enum rdma_cm_event_type)cases[i].event, 0);
			WAIT(&fixture, client.closed && fixture.left == 1);
			assert_true(kw_rdma_counted(cases[i].count) > before);
			if (side == 0)
				expect_text(client.why.text, cases[i].text);
			else
				expect_text(fixture.why_left, cases[i].text);
			kw_remote_free(client.remote);
			/* The proxy serves on, or again. */
			WAIT(&fixture, !fixture.listener.waiting);
			client_connect(&fixture, &client);
			client_close(&fixture, &client);
			fixture_close(&fixture);
		}
}

static void another_port_going_down_is_nothing(void **state)
{
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	fake_verbs_async(IBV_EVENT_PORT_ERR, 2);
	fake_verbs_async(IBV_EVENT_PORT_ACTIVE, 1);
	try_init(&t, 1, 100);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	try_free(&t);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

#define OUT 40

static void a_bad_completion_is_the_death_notice(void **state)
{
	static const struct {
		enum ibv_wc_status status;
		enum kw_rdma_count count;
		enum kw_code code;
	} cases[] = {
		{IBV_WC_RETRY_EXC_ERR, KW_RDMA_RETRIES, KW_E_IO},
		{IBV_WC_REM_ACCESS_ERR, KW_RDMA_ACCESS, KW_E_REFUSED},
		{IBV_WC_WR_FLUSH_ERR, KW_RDMA_BAD_COMPLETION, KW_E_IO},
		{IBV_WC_GENERAL_ERR, KW_RDMA_BAD_COMPLETION, KW_E_IO},
	};
	static struct try tries[OUT];

	for (int after = 1; after < 120; after += 17)
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			uint64_t before = kw_rdma_counted(cases[i].count);
			struct fixture fixture;
			struct client client;
			int failed = 0;

			fixture_start(&fixture);
			client_connect(&fixture, &client);
			fake_verbs.fail_status = cases[i].status;
			fake_verbs.fail_read_after = after;
			for (int k = 0; k < OUT; k++) {
				try_init(&tries[k], (uint64_t)k, 200000);
				try_read(&client, &tries[k]);
			}
			WAIT(&fixture, client.closed);
			for (int k = 0; k < OUT; k++) {
				assert_int_equal(tries[k].told, 1);
				if (!tries[k].failed)
					try_check(&tries[k]);
				failed += tries[k].failed;
				try_free(&tries[k]);
			}
			assert_true(failed > 0);
			assert_int_equal(client.why.code, cases[i].code);
			assert_int_equal(kw_rdma_counted(cases[i].count), before + 1);
			kw_remote_free(client.remote);
			WAIT(&fixture, fixture.left == 1);
			fixture_close(&fixture);
		}
}

static void a_black_hole_is_a_passed_deadline(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	options.read_timeout_ms = 80;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	fake_verbs.hold = true;
	try_init(&t, 0, 100);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	assert_true(t.failed);
	try_free(&t);
	expect_closed(&fixture, &client, KW_E_TIMEOUT, "deadline of 80 ms");
	/* While connecting: nobody answers, or nobody greets. */
	options.connect_timeout_ms = 80;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_TIMEOUT, "connect: deadline of 80 ms");
	fake_verbs.hold = false;
	fake_verbs.mute = true;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_TIMEOUT, "connect: deadline of 80 ms");
	fixture_close(&fixture);
}

static void a_dead_host_shows_in_the_next_read(void **state)
{
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	fake_verbs_kill(true);
	try_init(&t, 0, 100);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	assert_true(t.failed);
	try_free(&t);
	expect_closed(&fixture, &client, KW_E_IO, "transport retries exceeded");
	fixture_close(&fixture);
}

static void a_silent_agent_is_looked_for(void **state)
{
	const struct kw_server_options served = {.rdma = {.probe_ms = 20}};
	uint64_t until = kw_clock_us() + 500000;
	struct fixture fixture;
	struct client client;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	client_connect(&fixture, &client);
	/* It is here, and takes more probes than it has receives. */
	while (kw_clock_us() < until)
		uv_run(&fixture.loop, UV_RUN_ONCE);
	assert_int_equal(fixture.left, 0);
	assert_int_equal(client.closed, 0);
	fake_verbs_kill(false);
	WAIT(&fixture, fixture.left == 1);
	expect_text(fixture.why_left, "does not answer");
	WAIT(&fixture, client.closed);
	kw_remote_free(client.remote);
	fixture_close(&fixture);
}

/* Every function of the libraries fails at its first, second, … call. */
static void whatever_fails_is_a_sentence_and_leaves_nothing(void **state)
{
	static const char *const calls[] = {"rdma_create_event_channel", "rdma_create_id",
		"rdma_resolve_addr", "rdma_resolve_route", "rdma_connect", "rdma_accept",
		"rdma_establish", "ibv_query_device", "ibv_alloc_pd", "ibv_reg_mr",
		"ibv_create_comp_channel", "ibv_create_cq", "ibv_create_qp", "ibv_modify_qp"};

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		for (int skip = 0; skip < 7; skip++) {
			struct kw_remote_options options = plain_options();
			struct fixture fixture;
			struct client client;

			fixture_start(&fixture);
			options.connect_timeout_ms = 500;
			fake_verbs.fail_call = calls[i];
			fake_verbs.fail_errno = EIO;
			fake_verbs.fail_skip = skip;
			assert_int_equal(client_open(&fixture, &client, &options), 0);
			WAIT(&fixture, client.ready || client.closed);
			fake_verbs.fail_call = NULL;
			if (skip == 0)
				assert_int_equal(client.closed, 1);
			if (client.closed) {
				assert_true(client.why.code != KW_OK);
				kw_remote_free(client.remote);
			} else {
				client_close(&fixture, &client);
			}
			client_connect(&fixture, &client);
			client_close(&fixture, &client);
			fixture_close(&fixture);
			assert_int_equal(fake_verbs_left(), 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RDMA_TEST(each_answer_to_a_request_is_a_sentence_and_a_count),
		RDMA_TEST(each_event_of_a_connection_ends_it_with_its_sentence),
		RDMA_TEST(another_port_going_down_is_nothing),
		RDMA_TEST(a_bad_completion_is_the_death_notice),
		RDMA_TEST(a_black_hole_is_a_passed_deadline),
		RDMA_TEST(a_dead_host_shows_in_the_next_read),
		RDMA_TEST(a_silent_agent_is_looked_for),
		RDMA_TEST(whatever_fails_is_a_sentence_and_leaves_nothing),
		RDMA_HOSTILE_TESTS(RDMA_TEST),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
