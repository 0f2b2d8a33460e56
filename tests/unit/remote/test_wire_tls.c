/*
 * What tcp+tls adds to tcp: who may connect, as whom, bound to which session, and for how long. A
 * relay that the test drives stands between the two ends where the bytes matter.
 */
#include "fixture.h"
#include "relay.h"

#include "remote/socket.h"
#include "remote/tcp/wire_tls.h"
#include "tls/internal.h"
#include "tls_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#define EDGE_SECRET "30313233343536373839616263646566"  /* 0123456789abcdef */
#define OTHER_SECRET "66656463626139383736353433323130" /* fedcba9876543210 */

static struct kw_slice edge_secret(void)
{
	return kw_slice_text("0123456789abcdef");
}

static int make_kit(void **state)
{
	(void)state;
	carrier = KW_CARRIER_TLS;
	kit_make();
	return 0;
}

static int free_kit(void **state)
{
	(void)state;
	kit_free();
	return 0;
}

/* The next server and the next clients have these; the fixture holds no reference. */
static void use(struct kw_tls_context *server, struct kw_tls_context *client)
{
	kw_tls_context_unref(server_tls);
	kw_tls_context_unref(client_tls);
	server_tls = server;
	client_tls = client;
}

static void begin(struct fixture *fixture, const char *keys)
{
	struct kw_server_options options = {0};
	struct kw_error error;

	fixture_open(fixture);
	if (keys) {
		options.keyring = kw_keyring_new((struct kw_slice){0}, kw_slice_text(keys), &error);
		assert_non_null(options.keyring);
	}
	fixture_serve(fixture, &options);
	kw_keyring_release(options.keyring);
}

static void end(struct fixture *fixture)
{
	fixture_close(fixture);
	use(NULL, NULL);
}

/* The client is refused or fails; why is in its sentence. */
static void expect_closed(struct fixture *fixture, const struct kw_remote_options *options,
	const char *at_agent, const char *at_proxy)
{
	int rejected = fixture->rejected;
	struct client client;

	assert_int_equal(client_open(fixture, &client, options), 0);
	WAIT(fixture, client.closed);
	if (!strstr(client.why.text, at_agent))
		fail_msg("the agent says: %s", client.why.text);
	kw_remote_free(client.remote);
	if (!at_proxy)
		return;
	WAIT(fixture, fixture->rejected > rejected);
	if (!strstr(fixture->why_rejected, at_proxy))
		fail_msg("the proxy says: %s", fixture->why_rejected);
}

static void read_some(struct fixture *fixture, struct client *client)
{
	struct try t;

	try_init(&t, 100, 40000);
	try_read(client, &t);
	WAIT(fixture, t.told);
	try_check(&t);
	try_free(&t);
}

/* ---- who it is ---- */

static void a_certificate_is_proof_enough_and_names_the_agent(void **state)
{
	struct fixture fixture;
	struct client client;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, "key edge-9 " EDGE_SECRET);
	client_connect(&fixture, &client);
	WAIT(&fixture, fixture.joined == 1);
	assert_int_equal(fixture.session.identity.proved, KW_PROVED_CERTIFICATE);
	assert_string_equal(kw_identity_principal(&fixture.session.identity), "edge-1");
	/* This kernel may or may not have kTLS: either is told. */
	assert_true(strcmp(fixture.session.tls, "software") == 0 ||
		    strcmp(fixture.session.tls, "kernel") == 0);
	read_some(&fixture, &client);
	client_close(&fixture, &client);
	end(&fixture);
}

static void certificate_and_key_must_name_the_same(void **state)
{
	struct kw_remote_options options;
	struct fixture fixture;
	struct client client;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, "key edge-1 " EDGE_SECRET "\nkey edge-2 " OTHER_SECRET "\n");
	options = plain_options();
	options.secret = kw_slice_text("fedcba9876543210");
	strcpy(options.key_id, "edge-2");
	expect_closed(&fixture, &options, "both must name the same",
		"its certificate names edge-1 and its key edge-2");
	options.secret = edge_secret();
	strcpy(options.key_id, "edge-1");
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, fixture.joined == 1);
	assert_int_equal(fixture.session.identity.proved, KW_PROVED_KEY);
	client_close(&fixture, &client);
	end(&fixture);
}

static void rules_of_a_key_hold_for_a_certificate_of_its_name(void **state)
{
	struct kw_remote_options options;
	struct fixture fixture;
	struct client client;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, "key edge-1 " EDGE_SECRET " sessions=1");
	client_connect(&fixture, &client);
	options = plain_options();
	strcpy(options.agent_name, "second");
	expect_closed(&fixture, &options, "sessions of this key", "sessions of its key");
	client_close(&fixture, &client);
	end(&fixture);
	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, "key edge-1 " EDGE_SECRET " carriers=shm");
	options = plain_options();
	expect_closed(&fixture, &options, "does not allow this carrier", NULL);
	end(&fixture);
}

/* With the secret that has no id, too: it has no rules of its own. */
static void no_other_secret_leads_around_the_rules_of_a_name(void **state)
{
	struct kw_server_options served = {0};
	struct kw_remote_options options;
	struct fixture fixture;
	struct kw_error error;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	fixture_open(&fixture);
	served.keyring = kw_keyring_new(
		edge_secret(), kw_slice_text("key edge-1 " OTHER_SECRET " role=gateway"), &error);
	assert_non_null(served.keyring);
	fixture_serve(&fixture, &served);
	kw_keyring_release(served.keyring);
	options = plain_options();
	options.secret = edge_secret();
	expect_closed(&fixture, &options, "does not allow", NULL);
	assert_int_equal(fixture.joined, 0);
	end(&fixture);
}

static uint32_t reload_keys(struct fixture *fixture, const char *text)
{
	struct kw_keyring *ring = kw_keyring_new((struct kw_slice){0}, kw_slice_text(text), NULL);
	uint32_t ended = kw_server_set_keyring(fixture->server, ring);

	kw_keyring_release(ring);
	return ended;
}

/* The secret without an id is the same: what the certificate may see is not. */
static void rules_that_change_reach_a_certificate_beside_the_secret_without_an_id(void **state)
{
	struct kw_server_options served = {0};
	struct kw_remote_options options;
	struct kw_keyring *narrower;
	struct fixture fixture;
	struct client client;
	struct kw_error error;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	options = plain_options();
	fixture_open(&fixture);
	served.keyring = kw_keyring_new(
		edge_secret(), kw_slice_text("key edge-1 " OTHER_SECRET " sessions=2"), &error);
	narrower = kw_keyring_new(edge_secret(),
		kw_slice_text("key edge-1 " OTHER_SECRET " sessions=2 prefix=a:"), &error);
	assert_true(served.keyring && narrower);
	fixture_serve(&fixture, &served);
	options.secret = edge_secret();
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	WAIT(&fixture, fixture.joined == 1);
	assert_int_equal(fixture.session.identity.proved, KW_PROVED_KEY);
	assert_int_equal(kw_server_set_keyring(fixture.server, served.keyring), 0);
	assert_int_equal(kw_server_set_keyring(fixture.server, narrower), 1);
	WAIT(&fixture, client.closed);
	WAIT(&fixture, fixture.left == 1);
	assert_non_null(strstr(fixture.why_left, "the key edge-1 has other rules now"));
	kw_remote_free(client.remote);
	kw_keyring_release(served.keyring);
	kw_keyring_release(narrower);
	end(&fixture);
}

/* Its key goes all the same. A certificate of that name would see everything without the rules. */
static void a_name_that_finds_no_place_among_the_revoked_keeps_its_rules(void **state)
{
	struct kw_remote_options options;
	struct fixture fixture;
	struct kw_error error;
	struct kw_revocation done;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	options = plain_options();
	begin(&fixture, "key edge-1 " EDGE_SECRET " carriers=shm");
	for (int i = 0; i < KW_REVOKED_MAX; i++) {
		char id[16];

		snprintf(id, sizeof id, "gone-%d", i);
		assert_int_equal(kw_server_revoke(fixture.server, id, &done, &error), 0);
	}
	assert_int_equal(kw_server_revoke(fixture.server, "edge-1", &done, &error), KW_E_STATE);
	assert_int_equal(done.keys, 1);
	assert_non_null(strstr(error.text, "its key is refused now"));
	assert_int_equal(kw_server_revoke(fixture.server, "edge-2", &done, &error), KW_E_STATE);
	assert_int_equal(done.keys, 0);
	assert_non_null(strstr(error.text, "this one is not"));
	expect_closed(&fixture, &options, "does not allow this carrier", NULL);
	end(&fixture);
}

/* As kw_server_set_tls says: its names are forgotten then, and the keys of the ring are not. */
static void a_key_that_stays_revoked_leaves_a_certificate_its_rules(void **state)
{
	struct kw_remote_options options;
	struct kw_tls_context *renewed = kit_server(&kit.ca, NULL);
	struct fixture fixture;
	struct kw_error error;
	struct kw_revocation done;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	options = plain_options();
	begin(&fixture, "key edge-1 " EDGE_SECRET " carriers=shm");
	assert_int_equal(kw_server_revoke(fixture.server, "edge-1", &done, &error), 0);
	expect_closed(&fixture, &options, "revoked", NULL);
	kw_server_set_tls(fixture.server, renewed, KW_TLS_IDENTITY_AUTO);
	expect_closed(&fixture, &options, "does not allow this carrier", NULL);
	kw_tls_context_unref(renewed);
	end(&fixture);
}

/* Another secret of that key is nothing to a session that did not prove it. */
static void a_certificate_whose_name_gets_other_rules_comes_back_under_these(void **state)
{
	struct kw_remote_options options;
	struct fixture fixture;
	struct client client;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, "key edge-1 " EDGE_SECRET " sessions=2");
	client_connect(&fixture, &client);
	WAIT(&fixture, fixture.joined == 1);
	assert_int_equal(reload_keys(&fixture, "key edge-1 " OTHER_SECRET " sessions=2"), 0);
	read_some(&fixture, &client);
	assert_int_equal(reload_keys(&fixture, "key edge-1 " EDGE_SECRET " carriers=shm"), 1);
	WAIT(&fixture, client.closed);
	WAIT(&fixture, fixture.left == 1);
	assert_non_null(strstr(fixture.why_left, "the key edge-1 has other rules now"));
	kw_remote_free(client.remote);
	options = plain_options();
	expect_closed(&fixture, &options, "does not allow this carrier", NULL);
	end(&fixture);
}

static void bad_certificates_are_refused_by_a_sentence(void **state)
{
	const struct {
		const struct certificate *shown;
		const char *at_agent, *at_proxy;
	} cases[] = {
		{NULL, "demands a client certificate", "showed no certificate"},
		{&kit.expired, "expired", "its certificate expired on"},
		{&kit.stranger, "does not accept the CA", "not signed by a CA of tls.ca"},
	};
	struct kw_remote_options options;
	struct fixture fixture;

	use(kit_server(&kit.ca, NULL), NULL);
	begin(&fixture, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		kw_tls_context_unref(client_tls);
		client_tls = kit_client(&kit.ca, cases[i].shown);
		options = plain_options();
		expect_closed(&fixture, &options, cases[i].at_agent, cases[i].at_proxy);
	}
	/* The proxy's, by a CA that the agent does not have. */
	kw_tls_context_unref(client_tls);
	client_tls = kit_client(&kit.other_ca, &kit.edge);
	options = plain_options();
	expect_closed(&fixture, &options, "not signed by a CA of tls.ca", NULL);
	end(&fixture);
}

static void a_plain_end_and_an_end_of_tls_tell_each_other(void **state)
{
	struct kw_remote_options options;
	struct fixture fixture;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	options = plain_options();
	begin(&fixture, NULL);
	fixture.address.carrier = KW_CARRIER_TCP;
	expect_closed(&fixture, &options, "tcp+tls:// there, use that", "speaks no TLS");
	fixture_close(&fixture);
	carrier = KW_CARRIER_TCP;
	begin(&fixture, NULL);
	fixture.address.carrier = KW_CARRIER_TLS;
	expect_closed(&fixture, &options, "speaks no TLS: use tcp://", "a greeting of TLS");
	end(&fixture);
	carrier = KW_CARRIER_TLS;
}

/* ---- revocation and reload ---- */

static void a_revoked_name_is_refused_until_the_next_reload(void **state)
{
	struct kw_remote_options options;
	struct client client, other;
	struct fixture fixture;
	struct kw_error error;
	struct kw_revocation done;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, NULL);
	client_connect(&fixture, &client);
	use(kw_tls_context_ref(server_tls), kit_client(&kit.ca, &kit.other_edge));
	client_connect(&fixture, &other);
	WAIT(&fixture, fixture.joined == 2);
	assert_int_equal(kw_server_revoke(fixture.server, "edge-1", &done, &error), 0);
	assert_int_equal(done.keys, 0);
	assert_int_equal(done.sessions, 1);
	assert_int_equal(done.names, 1);
	WAIT(&fixture, client.closed);
	WAIT(&fixture, fixture.left == 1);
	assert_non_null(strstr(fixture.why_left, "edge-1 was revoked"));
	kw_remote_free(client.remote);
	read_some(&fixture, &other);
	use(kw_tls_context_ref(server_tls), kit_client(&kit.ca, &kit.edge));
	options = plain_options();
	expect_closed(&fixture, &options, "is revoked", "edge-1 is revoked");
	assert_int_equal(kw_server_set_tls(fixture.server, server_tls, KW_TLS_IDENTITY_AUTO), 0);
	client_connect(&fixture, &client);
	client_close(&fixture, &client);
	client_close(&fixture, &other);
	end(&fixture);
}

static void a_list_of_revoked_ones_ends_them_and_no_other(void **state)
{
	struct kw_remote_options options;
	struct client client, other;
	struct kw_tls_context *strict;
	struct fixture fixture;
	char *crl;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, NULL);
	client_connect(&fixture, &client);
	use(kw_tls_context_ref(server_tls), kit_client(&kit.ca, &kit.other_edge));
	client_connect(&fixture, &other);
	WAIT(&fixture, fixture.joined == 2);
	crl = certificate_revoke(&kit.ca, &kit.edge);
	strict = kit_server(&kit.ca, crl);
	assert_int_equal(kw_server_set_tls(fixture.server, strict, KW_TLS_IDENTITY_AUTO), 1);
	WAIT(&fixture, client.closed);
	WAIT(&fixture, fixture.left == 1);
	assert_non_null(strstr(fixture.why_left, "is revoked (tls.crl)"));
	kw_remote_free(client.remote);
	/* The other one goes on over the connection that it has. */
	read_some(&fixture, &other);
	assert_int_equal(other.closed, 0);
	use(kw_tls_context_ref(server_tls), kit_client(&kit.ca, &kit.edge));
	options = plain_options();
	expect_closed(&fixture, &options, "is revoked", "is revoked (tls.crl)");
	client_close(&fixture, &other);
	kw_tls_context_unref(strict);
	free(crl);
	end(&fixture);
}

static void an_agent_goes_on_reading_while_certificates_are_renewed(void **state)
{
	struct kw_tls_context *renewed;
	struct fixture fixture;
	struct client client;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, NULL);
	client_connect(&fixture, &client);
	WAIT(&fixture, fixture.joined == 1);
	for (int i = 0; i < 5; i++) {
		read_some(&fixture, &client);
		renewed = kit_server(&kit.ca, NULL);
		assert_int_equal(
			kw_server_set_tls(fixture.server, renewed, KW_TLS_IDENTITY_AUTO), 0);
		kw_tls_context_unref(renewed);
	}
	read_some(&fixture, &client);
	assert_int_equal(fixture.joined, 1);
	client_close(&fixture, &client);
	end(&fixture);
}

/* ---- between the ends ---- */

/* A relay that passes TLS through changes nothing, however it cuts the records. */
static void records_cut_at_each_byte_are_put_together(void **state)
{
	static const size_t pieces[] = {1, 2, 3, 5, 7, 4096};
	struct fixture fixture;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, NULL);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		struct relay relay = relay_open(&fixture, pieces[i]);
		struct kw_remote_options options = plain_options();
		struct kw_address direct = fixture.address;
		struct client client;
		struct try t;

		/* A few bytes in each turn of the loop, on a machine that can be busy. */
		options.read_timeout_ms = WAIT_MS;
		fixture.address = relay.address;
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		fixture.address = direct;
		WAIT(&fixture, (relay_turn(&relay), client.ready || client.closed));
		if (client.closed)
			fail_msg("%s", client.why.text);
		try_init(&t, 10, pieces[i] < 10 ? 600 : 300000);
		try_read(&client, &t);
		WAIT(&fixture, (relay_turn(&relay), t.told));
		try_check(&t);
		try_free(&t);
		client_close(&fixture, &client);
		relay_close(&relay);
	}
	end(&fixture);
}

/* Its certificate is the proxy's own, and its agent's part is of another agent. */
struct thief {
	struct fixture *fixture;
	struct relay relay;
	struct kw_wire agent, proxy;
	bool up;
};

static bool shaken(struct kw_wire *wire)
{
	struct kw_error error = {0};

	return kw_wire_shake(wire, &error) == KW_WIRE_OPEN;
}

static void carry(struct kw_wire *from, struct kw_wire *to)
{
	uint8_t bytes[512];
	ssize_t got = kw_wire_receive_bytes(from, bytes, sizeof bytes);

	if (got > 0)
		(void)kw_wire_send_bytes(to, bytes, (size_t)got);
}

static void thief_turn(struct thief *thief)
{
	struct kw_error error;
	int agent, proxy;

	if (!kw_wire_is_open(&thief->agent)) {
		agent = accept4(thief->relay.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (agent < 0)
			return;
		proxy = raw_socket(&thief->fixture->address);
		(void)fcntl(proxy, F_SETFL, O_NONBLOCK);
		assert_int_equal(
			kw_wire_tls(&thief->agent, agent, server_tls, NULL, NULL, &error), 0);
		assert_int_equal(
			kw_wire_tls(&thief->proxy, proxy, client_tls, "127.0.0.1", NULL, &error),
			0);
	}
	if (shaken(&thief->agent) && shaken(&thief->proxy)) {
		carry(&thief->agent, &thief->proxy);
		carry(&thief->proxy, &thief->agent);
	}
}

static void a_relay_between_two_sessions_of_tls_is_refused(void **state)
{
	struct kw_remote_options options;
	struct fixture fixture;
	struct client client;
	struct kw_address direct;
	struct thief thief;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, "key edge-1 " EDGE_SECRET);
	thief = (struct thief){.fixture = &fixture,
		.relay = relay_open(&fixture, 1),
		.agent = {.fd = -1},
		.proxy = {.fd = -1}};
	options = plain_options();
	options.secret = edge_secret();
	strcpy(options.key_id, "edge-1");
	direct = fixture.address;
	fixture.address = thief.relay.address;
	assert_int_equal(client_open(&fixture, &client, &options), 0);
	fixture.address = direct;
	WAIT(&fixture, (thief_turn(&thief), client.closed));
	assert_non_null(strstr(client.why.text, "TLS does not end at the proxy"));
	assert_non_null(strstr(fixture.why_rejected, "its TLS does not end here"));
	assert_int_equal(fixture.joined, 0);
	kw_remote_free(client.remote);
	kw_wire_close(&thief.agent);
	kw_wire_close(&thief.proxy);
	relay_close(&thief.relay);
	end(&fixture);
}

/* Pass on what the agent sends until it has done so `most` times, and all that the proxy sends. */
static void pass_some(struct relay *relay, int *sent, int most)
{
	uint64_t before = relay->passed;

	if (relay->agent < 0 || relay->proxy < 0) {
		relay_turn(relay);
		*sent += relay->passed > before;
		return;
	}
	if (*sent < most)
		relay_pass(relay, relay->agent, relay->proxy);
	*sent += relay->passed > before;
	relay_pass(relay, relay->proxy, relay->agent);
}

/* Wherever in its handshake the list comes. */
static void one_that_is_revoked_in_its_handshake_does_not_join(void **state)
{
	char *crl = certificate_revoke(&kit.ca, &kit.edge);
	bool joined = false;

	for (int most = 1; !joined; most++) {
		struct kw_tls_context *strict = kit_server(&kit.ca, crl);
		struct fixture fixture;
		struct kw_remote_options options;
		struct kw_address direct;
		struct client client;
		struct relay relay;
		int sent = 0;

		assert_true(most < 20);
		use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
		begin(&fixture, NULL);
		options = plain_options();
		relay = relay_open(&fixture, 4096);
		direct = fixture.address;
		fixture.address = relay.address;
		assert_int_equal(client_open(&fixture, &client, &options), 0);
		fixture.address = direct;
		WAIT(&fixture, (pass_some(&relay, &sent, most), sent == most || client.ready));
		joined = fixture.joined > 0 || client.ready;
		kw_server_set_tls(fixture.server, strict, KW_TLS_IDENTITY_AUTO);
		WAIT(&fixture, (relay_turn(&relay), relay_end(&relay), client.closed));
		assert_int_equal(fixture.joined, joined);
		kw_remote_free(client.remote);
		relay_close(&relay);
		kw_tls_context_unref(strict);
		end(&fixture);
	}
	free(crl);
}

/* A certificate that was accepted is looked at again by a reload, and not because others leave. */
static void a_certificate_is_judged_once_by_each_context(void **state)
{
	struct client client, other;
	struct kw_tls_context *renewed;
	struct fixture fixture;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, NULL);
	client_connect(&fixture, &client);
	client_connect(&fixture, &other);
	WAIT(&fixture, fixture.joined == 2);
	renewed = kit_server(&kit.ca, NULL);
	assert_int_equal(kw_server_set_tls(fixture.server, renewed, KW_TLS_IDENTITY_AUTO), 0);
	/* By this clock it would not be accepted again. */
	X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(SSL_CTX_get_cert_store(renewed->ssl)),
		time(NULL) + 1000 * 86400L);
	client_close(&fixture, &other);
	WAIT(&fixture, fixture.left == 1);
	read_some(&fixture, &client);
	assert_int_equal(fixture.left, 1);
	client_close(&fixture, &client);
	kw_tls_context_unref(renewed);
	end(&fixture);
}

/* The next connection of one agent shows no certificate again, and is the same agent. */
static void a_session_of_tls_is_resumed_until_a_reload(void **state)
{
	struct kw_tls_context *renewed;
	struct fixture fixture;
	struct client client;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, NULL);
	for (int i = 0; i < 4; i++) {
		client_connect(&fixture, &client);
		read_some(&fixture, &client); /* tickets come with the first bytes */
		WAIT(&fixture, fixture.joined == i + 1);
		assert_string_equal(kw_identity_principal(&fixture.session.identity), "edge-1");
		assert_int_equal(fixture.session.resumed, i == 1 || i == 2);
		client_close(&fixture, &client);
		WAIT(&fixture, fixture.left == i + 1);
		if (i == 2) {
			renewed = kit_server(&kit.ca, NULL);
			(void)kw_server_set_tls(fixture.server, renewed, KW_TLS_IDENTITY_AUTO);
			kw_tls_context_unref(renewed);
		}
	}
	end(&fixture);
}

static void garbage_at_a_listener_of_tls_costs_nothing(void **state)
{
	static const char *const garbage[] = {"\x16\x03\x01\x40\x00", "\x16\x03\x01\xff\xff",
		"GET / HTTP/1.1\r\n\r\n", "\x15\x03\x03\x00\x02\x02\x28", "\x17\x03\x03\x00\x01x",
		""};
	struct fixture fixture;
	struct client client;

	use(kit_server(&kit.ca, NULL), kit_client(&kit.ca, &kit.edge));
	begin(&fixture, NULL);
	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		int fd = raw_socket(&fixture.address);
		int rejected = fixture.rejected;

		(void)!send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL);
		(void)shutdown(fd, SHUT_WR);
		WAIT(&fixture, fixture.rejected > rejected);
		close(fd);
	}
	client_connect(&fixture, &client);
	read_some(&fixture, &client);
	client_close(&fixture, &client);
	end(&fixture);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_is_proof_enough_and_names_the_agent),
		cmocka_unit_test(certificate_and_key_must_name_the_same),
		cmocka_unit_test(rules_of_a_key_hold_for_a_certificate_of_its_name),
		cmocka_unit_test(no_other_secret_leads_around_the_rules_of_a_name),
		cmocka_unit_test(a_certificate_whose_name_gets_other_rules_comes_back_under_these),
		cmocka_unit_test(
			rules_that_change_reach_a_certificate_beside_the_secret_without_an_id),
		cmocka_unit_test(a_name_that_finds_no_place_among_the_revoked_keeps_its_rules),
		cmocka_unit_test(a_key_that_stays_revoked_leaves_a_certificate_its_rules),
		cmocka_unit_test(bad_certificates_are_refused_by_a_sentence),
		cmocka_unit_test(a_plain_end_and_an_end_of_tls_tell_each_other),
		cmocka_unit_test(a_revoked_name_is_refused_until_the_next_reload),
		cmocka_unit_test(a_list_of_revoked_ones_ends_them_and_no_other),
		cmocka_unit_test(an_agent_goes_on_reading_while_certificates_are_renewed),
		cmocka_unit_test(records_cut_at_each_byte_are_put_together),
		cmocka_unit_test(a_relay_between_two_sessions_of_tls_is_refused),
		cmocka_unit_test(one_that_is_revoked_in_its_handshake_does_not_join),
		cmocka_unit_test(a_certificate_is_judged_once_by_each_context),
		cmocka_unit_test(a_session_of_tls_is_resumed_until_a_reload),
		cmocka_unit_test(garbage_at_a_listener_of_tls_costs_nothing),
	};

	return cmocka_run_group_tests(tests, make_kit, free_kit);
}
