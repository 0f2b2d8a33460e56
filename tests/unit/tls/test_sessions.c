/* Sessions that are resumed, and contexts that are replaced. */
#include "pair.h"
#include "tls/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Let the context believe in another day, so that a certificate can run out without a wait. */
static void set_day(struct kw_tls_context *context, long days)
{
	X509_VERIFY_PARAM *param = SSL_CTX_get0_param(context->ssl);

	if (days == 0)
		X509_VERIFY_PARAM_clear_flags(param, X509_V_FLAG_USE_CHECK_TIME);
	else
		X509_VERIFY_PARAM_set_time(param, time(NULL) + days * 86400);
}

static void a_session_spares_the_next_connection_the_certificates(void **state)
{
	struct kw_tls_context *dialling = context_of(client_options(&client));
	struct kw_tls_context *listening = context_of(server_options(&server, true));
	struct kw_tls_session *session = NULL;

	for (int round = 0; round < 2; round++) {
		struct pair pair = {0};
		char heard[8], id[KW_TLS_ID_MAX + 1];

		pair_open_sockets(&pair);
		pair.client =
			kw_tls_channel_new(dialling, pair.fds[0], "db.example", session, NULL);
		pair.server = kw_tls_channel_new(listening, pair.fds[3], NULL, NULL, NULL);
		pair_shake(&pair);
		pair_expect_open(&pair);
		pair_say(&pair, pair.server, "tickets", 7);
		pair_hear(&pair, pair.client, heard, 7);
		assert_int_equal(kw_tls_channel_resumed(pair.client), round > 0);
		assert_int_equal(kw_tls_channel_resumed(pair.server), round > 0);
		/* Whose it is stays known. */
		assert_int_equal(
			kw_tls_channel_peer_id(pair.server, KW_TLS_IDENTITY_AUTO, id, NULL), 0);
		assert_string_equal(id, "web-1");
		kw_tls_session_free(session);
		session = kw_tls_channel_take_session(pair.client);
		assert_non_null(session);
		pair_close(&pair);
	}
	kw_tls_session_free(session);
	kw_tls_context_unref(dialling);
	kw_tls_context_unref(listening);
}

static void a_session_ends_with_the_certificate(void **state)
{
	struct certificate old_ca = certificate_make(&(struct certificate_plan){
		.cn = "old", .is_ca = true, .from_days = -30, .to_days = 30});
	struct certificate shown = certificate_make(&(struct certificate_plan){
		.cn = "web-1", .from_days = -20, .to_days = -10, .issuer = &old_ca});
	struct kw_tls_options options = server_options(&server, true);
	struct kw_tls_context *dialling = context_of(client_options(&shown)), *listening;
	struct kw_tls_session *session = NULL;

	options.ca = pem_of("old.pem", old_ca.pem);
	listening = context_of(options);
	for (int round = 0; round < 2; round++) {
		struct pair pair = {0};
		char heard[8];

		set_day(listening, round == 0 ? -15 : 0);
		pair_open_sockets(&pair);
		pair.client =
			kw_tls_channel_new(dialling, pair.fds[0], "db.example", session, NULL);
		pair.server = kw_tls_channel_new(listening, pair.fds[3], NULL, NULL, NULL);
		pair_shake(&pair);
		if (round == 0) {
			pair_expect_open(&pair);
			pair_say(&pair, pair.server, "tickets", 7);
			pair_hear(&pair, pair.client, heard, 7);
			session = kw_tls_channel_take_session(pair.client);
			assert_non_null(session);
		} else {
			assert_int_equal(pair.server_result, KW_TLS_FAIL);
			expect_words(&pair.server_error, KW_E_REFUSED, "expired");
		}
		pair_close(&pair);
	}
	kw_tls_session_free(session);
	kw_tls_context_unref(dialling);
	kw_tls_context_unref(listening);
	certificate_free(&shown);
	certificate_free(&old_ca);
}

/* Those between a certificate and its CA are in no ticket: so it is judged with them each time. */
static void a_chain_of_certificates_is_shown_each_time(void **state)
{
	struct certificate between = certificate_make(
		&(struct certificate_plan){.cn = "between", .is_ca = true, .issuer = &ca});
	struct certificate shown =
		certificate_make(&(struct certificate_plan){.cn = "web-1", .issuer = &between});
	struct kw_tls_options options = client_options(&shown);
	struct kw_tls_context *listening = context_of(server_options(&server, true)), *dialling;
	struct kw_tls_session *session = NULL;
	char *both = malloc(strlen(shown.pem) + strlen(between.pem) + 1);

	strcat(strcpy(both, shown.pem), between.pem);
	options.cert = pem_of("c.pem", both);
	dialling = context_of(options);
	for (int round = 0; round < 2; round++) {
		struct pair pair = {0};
		struct kw_tls_peer *peer;
		char heard[8];

		pair_open_sockets(&pair);
		pair.client =
			kw_tls_channel_new(dialling, pair.fds[0], "db.example", session, NULL);
		pair.server = kw_tls_channel_new(listening, pair.fds[3], NULL, NULL, NULL);
		pair_shake(&pair);
		pair_expect_open(&pair);
		pair_say(&pair, pair.server, "tickets", 7);
		pair_hear(&pair, pair.client, heard, 7);
		peer = kw_tls_channel_peer(pair.server);
		assert_int_equal(kw_tls_peer_judge(peer, listening, NULL), 0);
		kw_tls_peer_free(peer);
		kw_tls_session_free(session);
		session = kw_tls_channel_take_session(pair.client);
		pair_close(&pair);
	}
	kw_tls_session_free(session);
	kw_tls_context_unref(dialling);
	kw_tls_context_unref(listening);
	certificate_free(&shown);
	certificate_free(&between);
	free(both);
}

static void connections_go_on_when_their_context_is_replaced(void **state)
{
	struct kw_tls_current current = {0};
	struct pair pair = {0};
	char heard[3] = "";

	kw_tls_current_put(&current, context_of(server_options(&server, true)));
	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(&client), "db.example", NULL);
	pair.server = kw_tls_channel_new(current.context, pair.fds[3], NULL, NULL, NULL);
	pair_shake(&pair);
	kw_tls_current_put(&current, context_of(server_options(&expired, true)));
	pair_say(&pair, pair.client, "on", 2);
	pair_hear(&pair, pair.server, heard, 2);
	assert_string_equal(heard, "on");
	kw_tls_current_put(&current, NULL);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_spares_the_next_connection_the_certificates),
		cmocka_unit_test(a_session_ends_with_the_certificate),
		cmocka_unit_test(a_chain_of_certificates_is_shown_each_time),
		cmocka_unit_test(connections_go_on_when_their_context_is_replaced),
	};

	return cmocka_run_group_tests_name(
		"tls sessions", tests, certificates_make, certificates_free);
}
