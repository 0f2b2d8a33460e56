/*
 * A certificate that is withdrawn takes the rkeys with it: its agent read the directory, which
 * tells them, over tcp+tls. The proxy listens to rdma and to tcp+tls, and agents come over the
 * latter.
 */
#include "fake_verbs.h"
#include "rdma_kit.h"
#include "tls_kit.h"

#define GRACE_MS 100

static int make_kit(void **state)
{
	(void)state;
	kit_make();
	return 0;
}

static int free_kit(void **state)
{
	(void)state;
	kit_free();
	return 0;
}

static void serve_both(struct fixture *fixture)
{
	const struct kw_server_options options = {.rdma.rotate_ms = GRACE_MS};
	struct kw_error error;

	server_tls = kit_server(&kit.ca, NULL);
	fixture_open(fixture);
	fixture_serve(fixture, &options);
	fixture->address = (struct kw_address){.carrier = KW_CARRIER_TLS, .host = "127.0.0.1"};
	if (kw_server_listen(fixture->server, &fixture->address, &error) != 0)
		fail_msg("%s", error.text);
	fixture->address.port = kw_server_port(fixture->server, 1);
}

static void connect_with(
	struct fixture *fixture, struct client *client, const struct certificate *shown)
{
	int joined = fixture->joined;

	kw_tls_context_unref(client_tls);
	client_tls = kit_client(&kit.ca, shown);
	client_connect(fixture, client);
	WAIT(fixture, fixture->joined == joined + 1);
}

static void end(struct fixture *fixture)
{
	fixture_close(fixture);
	kw_tls_context_unref(server_tls);
	kw_tls_context_unref(client_tls);
	server_tls = client_tls = NULL;
}

static uint32_t rkey(const struct fixture *fixture)
{
	return fixture->memory.extents[0].rkey;
}

static void set_tls(struct fixture *fixture, const char *crl, uint32_t ended)
{
	struct kw_tls_context *tls = kit_server(&kit.ca, crl);

	assert_int_equal(kw_server_set_tls(fixture->server, tls, KW_TLS_IDENTITY_AUTO), ended);
	kw_tls_context_unref(tls);
}

/* Renewed certificates change nothing: no session ends by them. */
static void a_list_that_ends_a_session_takes_the_rkeys_with_it(void **state)
{
	struct client revoked, stays;
	struct fixture fixture;
	uint32_t before;
	char *crl;

	serve_both(&fixture);
	connect_with(&fixture, &revoked, &kit.edge);
	connect_with(&fixture, &stays, &kit.other_edge);
	before = rkey(&fixture);
	set_tls(&fixture, NULL, 0);
	for (int turn = 0; turn < 20; turn++)
		uv_run(&fixture.loop, UV_RUN_ONCE);
	assert_int_equal(fixture.rotated, 0);
	assert_int_equal(rkey(&fixture), before);
	crl = certificate_revoke(&kit.ca, &kit.edge);
	set_tls(&fixture, crl, 1);
	WAIT(&fixture, fixture.rotated == 1);
	assert_int_not_equal(rkey(&fixture), before);
	WAIT(&fixture, revoked.closed);
	kw_remote_free(revoked.remote);
	client_close(&fixture, &stays);
	free(crl);
	end(&fixture);
}

/* No line of the keys has its name, and its agent may be away. */
static void a_name_of_a_certificate_that_is_revoked_takes_the_rkeys_with_it(void **state)
{
	struct fixture fixture;
	struct kw_error error;
	struct kw_revocation done;
	uint32_t before;

	serve_both(&fixture);
	before = rkey(&fixture);
	if (kw_server_revoke(fixture.server, "edge-1", &done, &error) != 0)
		fail_msg("%s", error.text);
	assert_int_equal(done.sessions, 0);
	WAIT(&fixture, fixture.rotated == 1);
	assert_int_not_equal(rkey(&fixture), before);
	end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RDMA_TEST(a_list_that_ends_a_session_takes_the_rkeys_with_it),
		RDMA_TEST(a_name_of_a_certificate_that_is_revoked_takes_the_rkeys_with_it),
	};

	return cmocka_run_group_tests(tests, make_kit, free_kit);
}
