/* Who a certificate belongs to. */
#include "pair.h"

static void a_certificate_names_its_owner(void **state)
{
	static const struct {
		const char *cn, *san;
		enum kw_tls_identity identity;
		const char *id, *refused;
	} cases[] = {
		{"cn", "URI:keywake:web-1,DNS:a.example", KW_TLS_IDENTITY_AUTO, "web-1", NULL},
		{"cn", "DNS:a.example,URI:keywake:web-1", KW_TLS_IDENTITY_SAN, "web-1", NULL},
		{"cn", "DNS:a.example,DNS:b.example", KW_TLS_IDENTITY_AUTO, "a.example", NULL},
		{"cn", "URI:https://x,DNS:b.example", KW_TLS_IDENTITY_SAN, "b.example", NULL},
		{"cn", "DNS:a.example", KW_TLS_IDENTITY_CN, "cn", NULL},
		{"cn", NULL, KW_TLS_IDENTITY_AUTO, "cn", NULL},
		{"cn", NULL, KW_TLS_IDENTITY_SAN, NULL, "names nobody"},
		{"two words", NULL, KW_TLS_IDENTITY_CN, NULL, "other characters"},
		{"cn", "URI:keywake:a/b", KW_TLS_IDENTITY_AUTO, NULL, "other characters"},
		{"cn", "DNS:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
			KW_TLS_IDENTITY_AUTO, NULL, "has 64 bytes"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct certificate shown = certificate_make(&(struct certificate_plan){
			.cn = cases[i].cn, .san = cases[i].san, .issuer = &ca});
		struct pair pair = {0};
		struct kw_error error = {0};
		char id[KW_TLS_ID_MAX + 1];

		pair_open_sockets(&pair);
		pair_open_client(&pair, client_options(&shown), "db.example", NULL);
		pair_open_server(&pair, server_options(&server, true));
		pair_shake(&pair);
		pair_expect_open(&pair);
		kw_tls_channel_peer_id(pair.server, cases[i].identity, id, &error);
		assert_string_equal(id, cases[i].id ? cases[i].id : "");
		if (cases[i].refused)
			expect_words(&error, KW_E_REFUSED, cases[i].refused);
		pair_close(&pair);
		certificate_free(&shown);
	}
}

/* Cut at the zero it would be the name of another. */
static void a_common_name_with_a_zero_in_it_names_nobody(void **state)
{
	static const char cn[] = "web-1\0.attacker.example";
	struct certificate shown = certificate_make(
		&(struct certificate_plan){.cn = cn, .cn_length = sizeof cn - 1, .issuer = &ca});
	struct pair pair = {0};
	struct kw_error error = {0};
	char id[KW_TLS_ID_MAX + 1];

	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(&shown), "db.example", NULL);
	pair_open_server(&pair, server_options(&server, true));
	pair_shake(&pair);
	pair_expect_open(&pair);
	assert_int_equal(kw_tls_channel_peer_id(pair.server, KW_TLS_IDENTITY_AUTO, id, &error),
		KW_E_REFUSED);
	expect_words(&error, KW_E_REFUSED, "the CN of its certificate has other characters");
	assert_string_equal(id, "");
	pair_close(&pair);
	certificate_free(&shown);
}

static void one_who_shows_no_certificate_is_nobody(void **state)
{
	struct pair pair = {0};
	struct kw_error error;
	char id[KW_TLS_ID_MAX + 1];

	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(NULL), "db.example", NULL);
	pair_open_server(&pair, server_options(&server, false));
	pair_shake(&pair);
	pair_expect_open(&pair);
	assert_int_equal(kw_tls_channel_peer_id(pair.server, KW_TLS_IDENTITY_AUTO, id, &error),
		KW_E_REFUSED);
	expect_words(&error, KW_E_REFUSED, "the agent showed no certificate");
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_names_its_owner),
		cmocka_unit_test(a_common_name_with_a_zero_in_it_names_nobody),
		cmocka_unit_test(one_who_shows_no_certificate_is_nobody),
	};

	return cmocka_run_group_tests_name(
		"tls identity", tests, certificates_make, certificates_free);
}
