/* The handshake: who is let in, and what is said when an end is not. */
#include "pair.h"

#include <stdlib.h>
#include <unistd.h>

static void a_handshake_in_single_bytes_succeeds(void **state)
{
	struct pair pair = {.piece = 1};
	char heard[4] = "";

	pair_open(&pair);
	pair_say(&pair, pair.client, "abc", 3);
	pair_hear(&pair, pair.server, heard, 3);
	assert_string_equal(heard, "abc");
	pair_close(&pair);
}

static void a_certificate_that_does_not_fit_is_told(void **state)
{
	struct certificate foreign = certificate_make(&(struct certificate_plan){
		.cn = "x", .san = "DNS:db.example", .issuer = &stranger});
	const struct {
		const struct certificate *shown;
		const char *host, *words;
	} cases[] = {
		{&foreign, "db.example", "not signed by a CA of redis.tls.ca (ca.pem)"},
		{&stranger, "db.example", "not signed by a CA of redis.tls.ca (ca.pem)"},
		{&expired, "db.example", "its certificate expired on 20"},
		{&unborn, "db.example", "is not valid before 20"},
		{&elsewhere, "db.example",
			"for other.example, 10.0.0.9, not db.example: set redis.tls.server_name"},
		{&elsewhere, "127.0.0.1", "for other.example, 10.0.0.9, not 127.0.0.1"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pair pair = {0};

		pair_open_sockets(&pair);
		pair_open_client(&pair, client_options(NULL), cases[i].host, NULL);
		pair_open_server(&pair, server_options(cases[i].shown, false));
		pair_shake(&pair);
		assert_int_equal(pair.client_result, KW_TLS_FAIL);
		assert_int_equal(kw_tls_channel_state(pair.client), KW_TLS_FAILED);
		expect_words(&pair.client_error, KW_E_REFUSED, cases[i].words);
		pair_close(&pair);
	}
	certificate_free(&foreign);
}

static void a_name_is_looked_for_where_it_was_dialled(void **state)
{
	const struct {
		const char *host, *server_name;
	} good[] = {{"db.example", NULL}, {"127.0.0.1", NULL}, {"10.1.1.1", "db.example"}};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct kw_tls_options options = client_options(NULL);
		struct pair pair = {0};

		options.server_name = good[i].server_name;
		pair_open_sockets(&pair);
		pair_open_client(&pair, options, good[i].host, NULL);
		pair_open_server(&pair, server_options(&server, false));
		pair_shake(&pair);
		pair_expect_open(&pair);
		pair_close(&pair);
	}
}

static void without_a_name_nothing_is_verified_by_mistake(void **state)
{
	struct kw_tls_context *context = context_of(client_options(NULL));
	struct kw_error error;

	assert_null(kw_tls_channel_new(context, 0, "", NULL, &error));
	expect_words(&error, KW_E_ARGUMENT, "redis.tls.server_name");
	kw_tls_context_unref(context);
}

static void verification_can_be_turned_off(void **state)
{
	struct kw_tls_options options = client_options(NULL);
	struct pair pair = {0};

	options.verify = false;
	pair_open_sockets(&pair);
	pair_open_client(&pair, options, "wrong.example", NULL);
	pair_open_server(&pair, server_options(&stranger, false));
	pair_shake(&pair);
	pair_expect_open(&pair);
	pair_close(&pair);
}

/* In TLS 1.3 our handshake is finished before the server looks at our certificate. */
static void a_client_that_is_refused_learns_it_by_a_read(void **state)
{
	struct certificate foreign =
		certificate_make(&(struct certificate_plan){.cn = "web-9", .issuer = &stranger});
	const struct {
		const struct certificate *shown;
		const char *client, *server;
	} cases[] = {
		{NULL, "demands a client certificate: set redis.tls.cert and redis.tls.key",
			"the agent showed no certificate"},
		{&foreign, "does not accept the CA of our certificate (redis.tls.cert)",
			"not signed by a CA of tls.ca"},
		{&expired, "our certificate (redis.tls.cert) expired", "expired on 20"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pair pair = {0};
		enum kw_tls_result result;
		char heard[16];
		size_t got;

		pair_open_sockets(&pair);
		pair_open_client(&pair, client_options(cases[i].shown), "db.example", NULL);
		pair_open_server(&pair, server_options(&server, true));
		pair_shake(&pair);
		assert_int_equal(pair.client_result, KW_TLS_DONE);
		assert_int_equal(pair.server_result, KW_TLS_FAIL);
		expect_words(&pair.server_error, KW_E_REFUSED, cases[i].server);
		result = kw_tls_channel_read(
			pair.client, heard, sizeof heard, &got, &pair.client_error);
		assert_int_equal(result, KW_TLS_FAIL);
		expect_words(&pair.client_error, KW_E_REFUSED, cases[i].client);
		/* It stays so. */
		result = kw_tls_channel_read(
			pair.client, heard, sizeof heard, &got, &pair.client_error);
		assert_int_equal(result, KW_TLS_FAIL);
		pair_close(&pair);
	}
	certificate_free(&foreign);
}

static void a_revoked_certificate_is_refused(void **state)
{
	char *list = certificate_revoke(&ca, &client);
	struct kw_tls_options options = server_options(&server, true);
	struct pair pair = {0};

	options.crl = pem_of("list.pem", list);
	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(&client), "db.example", NULL);
	pair_open_server(&pair, options);
	pair_shake(&pair);
	assert_int_equal(pair.server_result, KW_TLS_FAIL);
	expect_words(&pair.server_error, KW_E_REFUSED, "revoked (tls.crl)");
	pair_close(&pair);
	free(list);
}

static void plain_bytes_to_an_end_of_tls_are_told(void **state)
{
	static const char answer[] = "-ERR Protocol error: unbalanced quotes in request\r\n";
	static const char command[] = "*1\r\n$4\r\nPING\r\n";
	struct pair pair = {0};

	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(NULL), "db.example", NULL);
	pair_open_server(&pair, server_options(&server, false));
	assert_int_equal(kw_tls_channel_shake(pair.client, &pair.client_error), KW_TLS_AGAIN);
	assert_true(write(pair.fds[1], answer, sizeof answer - 1) > 0);
	assert_int_equal(kw_tls_channel_shake(pair.client, &pair.client_error), KW_TLS_FAIL);
	expect_words(&pair.client_error, KW_E_IO, "the server speaks no TLS: use redis://");
	assert_true(write(pair.fds[2], command, sizeof command - 1) > 0);
	assert_int_equal(kw_tls_channel_shake(pair.server, &pair.server_error), KW_TLS_FAIL);
	expect_words(&pair.server_error, KW_E_IO, "the agent speaks no TLS: give it tcp+tls://");
	pair_close(&pair);
}

static void a_peer_that_says_nothing_is_told_from_a_slow_one(void **state)
{
	struct pair pair = {0};

	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(NULL), "db.example", NULL);
	pair_open_server(&pair, server_options(&server, false));
	assert_int_equal(kw_tls_channel_shake(pair.client, NULL), KW_TLS_AGAIN);
	assert_int_equal(kw_tls_channel_read_wants(pair.client), KW_TLS_WANTS_READ);
	assert_int_equal(kw_tls_channel_late(pair.client, &pair.client_error), KW_E_TIMEOUT);
	expect_words(&pair.client_error, KW_E_TIMEOUT, "no answer to the TLS greeting");
	pair_relay(&pair);
	kw_tls_channel_shake(pair.server, NULL);
	pair.piece = 7;
	pair_relay(&pair);
	assert_int_equal(kw_tls_channel_shake(pair.client, NULL), KW_TLS_AGAIN);
	assert_int_equal(kw_tls_channel_late(pair.client, &pair.client_error), KW_E_TIMEOUT);
	expect_words(&pair.client_error, KW_E_TIMEOUT, "did not finish it in time");
	pair_close(&pair);
}

static void an_end_in_the_handshake_is_told(void **state)
{
	struct pair pair = {0};

	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(NULL), "db.example", NULL);
	assert_int_equal(kw_tls_channel_shake(pair.client, NULL), KW_TLS_AGAIN);
	pair_pass(pair.fds[1], pair.fds[2], 65536);
	close(pair.fds[1]);
	pair.fds[1] = -1;
	assert_int_equal(kw_tls_channel_shake(pair.client, &pair.client_error), KW_TLS_FAIL);
	expect_words(&pair.client_error, KW_E_IO, "closed the connection in the TLS handshake");
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handshake_in_single_bytes_succeeds),
		cmocka_unit_test(a_certificate_that_does_not_fit_is_told),
		cmocka_unit_test(a_name_is_looked_for_where_it_was_dialled),
		cmocka_unit_test(without_a_name_nothing_is_verified_by_mistake),
		cmocka_unit_test(verification_can_be_turned_off),
		cmocka_unit_test(a_client_that_is_refused_learns_it_by_a_read),
		cmocka_unit_test(a_revoked_certificate_is_refused),
		cmocka_unit_test(plain_bytes_to_an_end_of_tls_are_told),
		cmocka_unit_test(a_peer_that_says_nothing_is_told_from_a_slow_one),
		cmocka_unit_test(an_end_in_the_handshake_is_told),
	};

	return cmocka_run_group_tests_name(
		"tls handshake", tests, certificates_make, certificates_free);
}
