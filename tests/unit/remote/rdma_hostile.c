/* What a hostile agent gets over rdma: nothing, and the others do not notice. */
#include "rdma_raw.h"

#include "auth/keyring.h"

static void expect_nothing_came(const struct raw *raw)
{
	assert_int_equal(raw->reads, 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(kw_rdma_end_slot(&raw->end, 0)[i], 0);
}

void who_has_not_proved_itself_reads_nothing(void **state)
{
	const struct kw_server_options served = {.secret = kw_slice_text("a secret")};
	struct kw_rdma_private private;
	const struct kw_extent *extent;
	struct fixture fixture;
	struct raw raw;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	assert_int_equal(raw_dial(&fixture, &raw, &private), RDMA_CM_EVENT_CONNECT_RESPONSE);
	/* It even knows address and rkey. */
	extent = &fixture.memory.extents[0];
	assert_int_not_equal(extent->rkey, 0);
	raw_read_one(&fixture, &raw, extent->address, extent->rkey);
	expect_nothing_came(&raw);
	expect_text(raw.why.text, "refused access");
	WAIT(&fixture, fixture.rejected == 1);
	assert_int_equal(fixture.joined, 0);
	raw_close(&raw);
	fixture_close(&fixture);
}

void who_says_no_hello_is_let_go(void **state)
{
	const struct kw_server_options served = {.handshake_timeout_ms = 3000};
	struct kw_rdma_private private;
	struct fixture fixture;
	struct kw_error error;
	struct raw raw;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	raw_dial(&fixture, &raw, &private);
	WAIT(&fixture, fixture.rejected == 1);
	expect_text(fixture.why_rejected, "deadline of 3000 ms");
	raw_close(&raw);
	raw_dial(&fixture, &raw, &private);
	assert_int_equal(kw_rdma_end_send(&raw.end, "GET / HTTP/1.1\r\n", 16, &error), 0);
	WAIT(&fixture, fixture.rejected == 2);
	expect_text(fixture.why_rejected, "no handshake message");
	raw_close(&raw);
	fixture_close(&fixture);
}

void foreign_requests_are_rejected_with_a_code(void **state)
{
	struct kw_rdma_private private;
	struct fixture fixture;
	struct raw raw;

	fixture_start(&fixture);
	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	private.version = 9;
	assert_int_equal(raw_dial(&fixture, &raw, &private), RDMA_CM_EVENT_REJECTED);
	expect_text(raw.why.text, "version 1");
	raw_close(&raw);
	private.magic = 0;
	assert_int_equal(raw_dial(&fixture, &raw, &private), RDMA_CM_EVENT_REJECTED);
	expect_text(raw.why.text, "does not know this kind");
	raw_close(&raw);
	WAIT(&fixture, fixture.rejected == 2);
	fixture_close(&fixture);
}

void another_layout_is_refused_with_both_named(void **state)
{
	struct fixture fixture;
	char version[16], ours[32];
	struct raw raw;

	fixture_start(&fixture);
	snprintf(ours, sizeof ours, "layout version %d,", KW_LAYOUT_VERSION);
	snprintf(version, sizeof version, "%d", KW_LAYOUT_VERSION + 41);
	assert_int_equal(raw_greet(&fixture, &raw, KW_LAYOUT_VERSION + 41), KW_E_REFUSED);
	expect_text(raw.handshake.error.text, ours);
	expect_text(raw.handshake.error.text, version);
	WAIT(&fixture, fixture.rejected == 1);
	expect_text(fixture.why_rejected, version);
	assert_int_equal(fixture.joined, 0);
	raw_close(&raw);
	fixture_close(&fixture);
}

static void another_agents_pair(struct kw_channel *channel)
{
	channel->host.agent_pair ^= 1;
}

static void another_proxys_pair(struct kw_channel *channel)
{
	channel->host.proxy_pair ^= 1;
}

static void another_address(struct kw_channel *channel)
{
	channel->host.address[15] ^= 1;
}

static void another_port(struct kw_channel *channel)
{
	channel->host.port ^= 1;
}

static void over_tcp(struct kw_channel *channel)
{
	const struct kw_endpoint proxy = kw_endpoint_six(channel->host.address, channel->host.port);

	*channel = kw_channel_tcp(&proxy);
}

static void over_shm(struct kw_channel *channel)
{
	*channel = kw_channel_shm(1, 2);
}

/* One that has the secret, but says HELLO for a connection that it has elsewhere. */
void a_relayed_handshake_is_refused(void **state)
{
	static const struct {
		void (*lie)(struct kw_channel *channel);
		const char *log;
	} lies[] = {
		{another_agents_pair, "queue pairs"},
		{another_proxys_pair, "queue pairs"},
		{another_address, "auth.addresses"},
		{another_port, "auth.addresses"},
		{over_tcp, "dialled tcp"},
		{over_shm, "dialled shm"},
	};
	const struct kw_slice secret = kw_slice_text("a secret");
	const struct kw_server_options served = {.secret = secret};
	struct fixture fixture;
	struct raw raw;

	fixture_open(&fixture);
	fixture_serve(&fixture, &served);
	assert_int_equal(raw_greet_as(&fixture, &raw, secret, NULL), 0);
	WAIT(&fixture, fixture.joined == 1);
	raw_close(&raw);
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		assert_int_equal(raw_greet_as(&fixture, &raw, secret, lies[i].lie), KW_E_REFUSED);
		expect_text(raw.handshake.error.text, "relay");
		WAIT(&fixture, fixture.rejected == (int)i + 1);
		expect_text(fixture.why_rejected, lies[i].log);
		raw_close(&raw);
	}
	assert_int_equal(fixture.joined, 1);
	fixture_close(&fixture);
}

/* A good agent beside the hostile one: it reads on when that is over. */
static void reads_on(struct fixture *fixture, struct client *client)
{
	struct try t;

	try_init(&t, 5, 100000);
	try_read(client, &t);
	WAIT(fixture, t.told);
	try_check(&t);
	try_free(&t);
}

/* It has proved itself, and now reads what nobody offered it. */
static void expect_lie_to_fail(uint64_t shift, uint32_t wrong_rkey)
{
	const struct kw_extent *extent;
	struct fixture fixture;
	struct client client;
	struct raw raw;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	WAIT(&fixture, fixture.joined == 1);
	assert_int_equal(raw_greet(&fixture, &raw, KW_LAYOUT_VERSION), 0);
	WAIT(&fixture, fixture.joined == 2);
	extent = &fixture.memory.extents[0];
	raw_read_one(&fixture, &raw, extent->address + shift, extent->rkey ^ wrong_rkey);
	expect_nothing_came(&raw);
	expect_text(raw.why.text, "refused access");
	/* The queue pair is gone with it, whether this end notices or not. */
	WAIT(&fixture, fixture.left == 1);
	assert_string_equal(fixture.session.name, "raw");
	reads_on(&fixture, &client);
	raw_close(&raw);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void a_read_beyond_what_is_registered_ends_that_session_only(void **state)
{
	expect_lie_to_fail(EXTENT - 63, 0);      /* one byte too many */
	expect_lie_to_fail(EXTENT, 0);           /* reserved, not yet an extent */
	expect_lie_to_fail(UINT64_C(0) - 64, 0); /* before it */
}

void another_proxys_key_opens_nothing(void **state)
{
	expect_lie_to_fail(0, 0x100);
}

void garbage_messages_end_the_session(void **state)
{
	struct fixture fixture;
	struct client client;
	struct kw_error error;
	struct raw raw;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	assert_int_equal(raw_greet(&fixture, &raw, KW_LAYOUT_VERSION), 0);
	WAIT(&fixture, fixture.joined == 2);
	assert_int_equal(kw_rdma_end_send(&raw.end, "GET / HTTP/1.1\r\n", 16, &error), 0);
	WAIT(&fixture, (kw_rdma_end_poll(&raw.end), fixture.left == 1));
	expect_text(fixture.why_left, "it sent");
	reads_on(&fixture, &client);
	raw_close(&raw);
	client_close(&fixture, &client);
	fixture_close(&fixture);
}

void revoked_means_that_the_next_read_fails(void **state)
{
	struct fixture fixture;
	struct client client;
	struct try t;

	fixture_start(&fixture);
	client_connect(&fixture, &client);
	WAIT(&fixture, fixture.joined == 1);
	assert_true(kw_server_disconnect(fixture.server, fixture.session.id, "by the test"));
	/* In the same turn: the agent has heard of nothing. */
	try_init(&t, 0, 100);
	try_read(&client, &t);
	WAIT(&fixture, t.told);
	assert_true(t.failed);
	assert_int_equal(t.error.code, KW_E_REFUSED);
	for (uint64_t i = 0; i < t.read.length; i++)
		assert_int_equal(t.read.buffer[i], 0xEE);
	try_free(&t);
	expect_closed(&fixture, &client, KW_E_REFUSED, "");
	WAIT(&fixture, fixture.left == 1);
	assert_string_equal(fixture.why_left, "by the test");
	fixture_close(&fixture);
}

/* A queue pair that may read, and what it gets with this address and this rkey. */
static void read_as_another(struct fixture *fixture, const struct kw_extent *extent, bool opens)
{
	struct raw raw;

	assert_int_equal(raw_greet_as(fixture, &raw, kw_slice_text("a secret"), NULL), 0);
	raw_read_one(fixture, &raw, extent->address, extent->rkey);
	assert_int_equal(raw.reads, opens);
	if (!opens)
		expect_text(raw.why.text, "refused access");
	raw_close(&raw);
}

void an_rkey_told_to_a_revoked_agent_opens_nothing_for_another(void **state)
{
	const struct kw_slice keys = kw_slice_text("key gone 00112233445566778899aabbccddeeff\n");
	struct kw_extent rest = {.offset = EXTENT, .length = RESERVE - EXTENT}, told;
	struct kw_error error;
	struct kw_server_options served = {
		.keyring = kw_keyring_new(kw_slice_text("a secret"), keys, &error),
		.rdma.rotate_ms = 100};
	struct fixture fixture;
	struct kw_revocation done;

	fixture_open(&fixture);
	assert_int_equal(kw_memory_extend(&fixture.memory, &rest, &error), 0);
	fixture_serve(&fixture, &served);
	kw_keyring_release(served.keyring);
	told = fixture.memory.extents[0];
	read_as_another(&fixture, &told, true);
	assert_int_equal(kw_server_revoke(fixture.server, "gone", &done, &error), 0);
	WAIT(&fixture, fixture.rotated == 1);
	assert_int_equal(fixture.rotation.outcome, KW_ROTATION_SMOOTH);
	assert_int_equal(fixture.rotation.bytes, RESERVE);
	assert_int_equal(fixture.placed, 2);
	print_message("%u MiB were registered anew in %.2f ms\n", (unsigned)(RESERVE >> 20),
		(double)fixture.rotation.took_us / 1000);
	read_as_another(&fixture, &told, false);
	read_as_another(&fixture, &fixture.memory.extents[0], true);
	fixture_close(&fixture);
}
