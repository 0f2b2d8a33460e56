/*
 * What can go wrong over rdma, on the fake of its libraries: each end of a connection has its
 * sentence and its counter, no READ is told twice or forgotten, and nothing is left behind.
 */
#include "fixture.h"

#include "fake_verbs.h"
#include "rdma_raw.h"
#include "remote/rdma_counts.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

/*
 * A name server of our own, in libc's place: "first,second" has two addresses. The list is freed by
 * libc, whose own two lists it is made of.
 */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **addresses)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	char first[INET6_ADDRSTRLEN] = "";
	const char *comma = strchr(host, ',');
	int status;

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (!comma)
		return real(host, port, hints, addresses);
	memcpy(first, host, (size_t)(comma - host));
	status = real(first, port, hints, addresses);
	return status ? status : real(comma + 1, port, hints, &(*addresses)->ai_next);
}

static int begin(void **state)
{
	(void)state;
	carrier = KW_CARRIER_RDMA;
	fake_verbs_reset();
	return 0;
}

static int nothing_left(void **state)
{
	(void)state;
	if (fake_verbs_left() != 0)
		print_error("%d objects of the libraries were left behind\n", fake_verbs_left());
	return fake_verbs_left();
}

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
			/* The proxy serves on. */
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

static void name_it(struct fixture *fixture, const char *host)
{
	snprintf(fixture->address.host, sizeof fixture->address.host, "%s", host);
}

/* The fake's device knows IPv4 only, as an Ethernet port without an IPv6 address does. */
static void the_next_address_of_a_name_is_tried(void **state)
{
	static const char *const names[] = {"::1,127.0.0.1", "127.0.0.1,::1"};

	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture;
		struct client client;

		fixture_start(&fixture);
		name_it(&fixture, names[i]);
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
		name_it(&fixture, "127.0.0.1,127.0.0.1");
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
	name_it(&fixture, "127.0.0.1,127.0.0.1");
	options.connect_timeout_ms = 1000;
	fake_verbs.mute = true;
	begun_us = kw_clock_us();
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, kw_clock_us() - begun_us > 300000);
	fake_verbs.mute = false; /* too late for the first */
	WAIT(&fixture, client.ready || client.closed);
	assert_int_equal(client.ready, 1);
	assert_in_range(kw_clock_us() - begun_us, 500000, 1000000);
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
	name_it(&fixture, "127.0.0.1,::1");
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

/* What librdmacm says on a host that has no device at all. */
static void without_a_device_the_other_carriers_are_named(void **state)
{
	const struct kw_remote_options options = plain_options();
	const struct kw_server_options none = {0};
	const struct kw_server_handlers handlers = {0};
	struct fixture fixture;
	struct client client;
	struct kw_error error;

	fixture_start(&fixture);
	fake_verbs.fail_call = "rdma_create_event_channel";
	fake_verbs.fail_errno = ENODEV;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_IO, "no RDMA device");
	expect_text(client.why.text, "use shm:// or tcp://");
	fixture_stop_server(&fixture);
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &none, &handlers);
	assert_int_not_equal(kw_server_prepare(fixture.server, &fixture.address, &error), 0);
	expect_text(error.text, "no RDMA device");
	expect_text(error.text, "use shm:// or tcp://");
	fixture.closed = 0;
	fixture_close(&fixture);
}

static void listening_that_fails_is_a_sentence_too(void **state)
{
	static const char *const calls[] = {"rdma_create_event_channel", "rdma_create_id",
		"rdma_bind_addr", "ibv_query_device", "ibv_alloc_pd", "ibv_reg_mr", "rdma_listen"};
	const struct kw_server_options none = {0};
	const struct kw_server_options wide = {.allow_insecure = true};
	const struct kw_server_handlers handlers = {0};
	struct kw_address address;
	struct fixture fixture;
	struct kw_error error;

	fixture_open(&fixture);
	kw_address_parse("rdma://127.0.0.1:0", &address, &error);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		fake_verbs.fail_call = calls[i];
		fake_verbs.fail_errno = EIO;
		fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &none, &handlers);
		assert_int_not_equal(kw_server_listen(fixture.server, &address, &error), 0);
		expect_text(error.text, "listen on rdma://127.0.0.1:0");
		fixture.closed = 0;
		fixture_stop_server(&fixture);
		assert_int_equal(fake_verbs_left(), 0);
	}
	fake_verbs.fail_call = NULL;
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &none, &handlers);
	kw_address_parse("rdma://0.0.0.0:0", &address, &error);
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), KW_E_CONFIG);
	expect_text(error.text, "auth.secret_file");
	fixture.closed = 0;
	fixture_stop_server(&fixture);
	fixture.server = kw_server_new(&fixture.loop, &fixture.memory, &wide, &handlers);
	fake_verbs.devices = 0;
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), KW_E_CONFIG);
	expect_text(error.text, "no RDMA device");
	fake_verbs.devices = 2;
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), KW_E_CONFIG);
	expect_text(error.text, "2 RDMA devices");
	fake_verbs.devices = 1;
	assert_int_equal(kw_server_listen(fixture.server, &address, &error), 0);
	fixture.closed = 0;
	fixture_close(&fixture);
}

/* ---- the read path ---- */

static void few_doorbells_and_few_signals(void **state)
{
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	options.rdma.read_bytes = 4096;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, client.ready);
	try_init(&t, 3, 256 * 4096);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	assert_int_equal(fake_verbs_counts.reads, 256);
	assert_true(fake_verbs_counts.doorbells <= 256 / 8 + 1);
	assert_true(fake_verbs_counts.signalled <= 256 / 8 + 2);
	try_free(&t);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

/* Two small READs started by one call: one doorbell, one completion; with a fence, two. */
static void two_small_reads_are_one_posting(void **state)
{
	for (int fenced = 0; fenced < 2; fenced++) {
		struct fixture fixture;
		struct client client;
		struct try tries[2];
		struct kw_remote_read *reads[2];

		fixture_start(&fixture);
		client_connect(&fixture, &client);
		memset(&fake_verbs_counts, 0, sizeof fake_verbs_counts);
		for (int i = 0; i < 2; i++) {
			try_init(&tries[i], (uint64_t)i * 999, i ? 4096 : 128);
			tries[i].read.fenced = i == 1 && fenced;
			reads[i] = &tries[i].read;
		}
		kw_remote_read(client.remote, reads, 2);
		WAIT(&fixture, tries[1].told);
		assert_int_equal(fake_verbs_counts.reads, 2);
		assert_int_equal(fake_verbs_counts.doorbells, 1);
		assert_int_equal(fake_verbs_counts.signalled, 1 + fenced);
		assert_int_equal(fake_verbs_counts.fenced, fenced);
		for (int i = 0; i < 2; i++) {
			try_check(&tries[i]);
			try_free(&tries[i]);
		}
		client_close(&fixture, &client);
		fixture_close(&fixture);
	}
}

static void reads_of_everything_by(const struct kw_remote_options *options)
{
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	assert_int_equal(client_open(&fixture, &client, options), 0);
	WAIT(&fixture, client.ready);
	try_init(&t, 0, EXTENT);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	try_check(&t);
	try_free(&t);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

static void devices_and_options_of_all_kinds_do(void **state)
{
	struct kw_remote_options options = plain_options();

	fake_verbs.iwarp = true;
	reads_of_everything_by(&options);
	fake_verbs.iwarp = false;
	fake_verbs.software = true;
	reads_of_everything_by(&options);
	fake_verbs.depth = 1;
	reads_of_everything_by(&options);
	fake_verbs.software = false;
	reads_of_everything_by(&options);
	fake_verbs.depth = 300;
	options.depth = 1000;
	reads_of_everything_by(&options);
	options.depth = 3;
	reads_of_everything_by(&options);
	fake_verbs.depth = 16;
	options.rdma.busy = true;
	options.rdma.traffic_class = 96;
	strcpy(options.rdma.device, "fake0");
	options.rdma.port = 1;
	options.rdma.read_bytes = 1 << 20;
	reads_of_everything_by(&options);
}

static void senseless_options_are_refused(void **state)
{
	static const struct {
		struct kw_rdma_options rdma;
		const char *text;
	} cases[] = {
		{{.retry_count = 7}, "for ever"},
		{{.ack_timeout = 32}, "ack timeout"},
		{{.read_bytes = 17}, "READs of 17 bytes"},
	};
	struct kw_remote_options options = plain_options();
	struct fixture fixture;
	struct client client;

	fixture_start(&fixture);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		options.rdma = cases[i].rdma;
		assert_int_equal(client_open(&fixture, &client, &options), KW_E_CONFIG);
		expect_text(client.why.text, cases[i].text);
	}
	options.rdma = (struct kw_rdma_options){.device = "mlx5_9"};
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_CONFIG, "mlx5_9 is configured");
	options.rdma = (struct kw_rdma_options){.port = 2};
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	expect_closed(&fixture, &client, KW_E_CONFIG, "port 1 of RDMA device fake0");
	fixture_close(&fixture);
}

static void locked_memory_is_counted_before_it_is_asked_for(void **state)
{
	struct kw_error error;

	assert_int_equal(kw_rdma_memlock_check(1 << 30, 1 << 20, UINT64_MAX, &error), 0);
	assert_int_equal(kw_rdma_memlock_check(100, 900, 1000, &error), 0);
	assert_int_equal(kw_rdma_memlock_check(101, 900, 1000, &error), KW_E_CONFIG);
	expect_text(error.text, "needs 1001 bytes");
	expect_text(error.text, "1000 are allowed");
	expect_text(error.text, "LimitMEMLOCK=infinity");
	assert_int_equal(kw_rdma_memlock_check(1, 2000, 1000, &error), KW_E_CONFIG);
	assert_int_equal(kw_rdma_memlock_check(UINT64_MAX - 1, 5, 1000, &error), KW_E_CONFIG);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, nothing_left)
	const struct CMUnitTest tests[] = {
		T(each_answer_to_a_request_is_a_sentence_and_a_count),
		T(each_event_of_a_connection_ends_it_with_its_sentence),
		T(another_port_going_down_is_nothing),
		T(a_bad_completion_is_the_death_notice),
		T(a_black_hole_is_a_passed_deadline),
		T(the_next_address_of_a_name_is_tried),
		T(an_address_that_fails_leaves_nothing_to_the_next),
		T(one_address_that_never_answers_leaves_time_for_the_next),
		T(a_refusal_is_what_is_told_of_all_addresses),
		T(a_dead_host_shows_in_the_next_read),
		T(a_silent_agent_is_looked_for),
		T(whatever_fails_is_a_sentence_and_leaves_nothing),
		T(without_a_device_the_other_carriers_are_named),
		T(listening_that_fails_is_a_sentence_too),
		RDMA_HOSTILE_TESTS(T),
		T(few_doorbells_and_few_signals),
		T(two_small_reads_are_one_posting),
		T(devices_and_options_of_all_kinds_do),
		T(senseless_options_are_refused),
		T(locked_memory_is_counted_before_it_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
