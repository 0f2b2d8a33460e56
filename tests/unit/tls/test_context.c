/* Files that a context is made of. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void files_that_do_not_fit_are_refused(void **state)
{
	static const char garbage[] = "not PEM at all\n";
	static const char broken[] =
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
	const struct {
		const char *ca, *cert, *key, *crl, *words;
	} cases[] = {
		{garbage, NULL, NULL, NULL, "redis.tls.ca: the file ca.pem holds no certificate"},
		{broken, NULL, NULL, NULL, "redis.tls.ca: the file ca.pem is not a PEM file"},
		{ca.key_pem, NULL, NULL, NULL, "redis.tls.ca: the file ca.pem holds no cert"},
		{ca.pem, client.pem, NULL, NULL, "only one is given"},
		{ca.pem, NULL, client.key_pem, NULL, "only one is given"},
		{ca.pem, client.pem, server.key_pem, NULL, "redis.tls.key: the file c.key is not"},
		{ca.pem, garbage, client.key_pem, NULL, "redis.tls.cert: the file c.pem holds no"},
		{ca.pem, client.pem, garbage, NULL, "redis.tls.key: the file c.key holds no"},
		{ca.pem, NULL, NULL, garbage, "redis.tls.crl: the file list.pem is not"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_tls_options options = {
			.role = KW_TLS_CLIENT,
			.ca = pem_of("ca.pem", cases[i].ca),
			.cert = pem_of("c.pem", cases[i].cert),
			.key = pem_of("c.key", cases[i].key),
			.crl = pem_of("list.pem", cases[i].crl),
			.terms = &pair_client_terms,
		};
		struct kw_error error = {0};

		assert_null(kw_tls_context_new(&options, &error));
		expect_words(&error, KW_E_CONFIG, cases[i].words);
	}
}

static void a_listener_needs_a_certificate(void **state)
{
	struct kw_tls_options options = server_options(&server, false);
	struct kw_error error;

	options.cert = options.key = pem_of("", NULL);
	assert_null(kw_tls_context_new(&options, &error));
	expect_words(&error, KW_E_CONFIG, "a listener of TLS must show a certificate");
}

static int64_t in_days(long days)
{
	return (int64_t)time(NULL) + days * 86400;
}

static void assert_near(int64_t at, int64_t wanted)
{
	assert_in_range(at, wanted - 3600, wanted + 3600);
}

static void it_knows_when_its_files_run_out(void **state)
{
	const struct certificate_plan soon = {
		.cn = "soon", .from_days = -9, .to_days = 3, .issuer = &ca};
	const struct certificate_plan old = {
		.cn = "old ca", .from_days = -9, .to_days = 5, .is_ca = true};
	struct certificate between = certificate_make(&soon), other = certificate_make(&old);
	char *crl = certificate_revoke(&ca, &client), chain[8192], authorities[8192];
	struct kw_tls_options options = server_options(&server, true);
	const struct kw_tls_expiry *expiry;
	struct kw_tls_context *context;

	snprintf(chain, sizeof chain, "%s%s", server.pem, between.pem);
	snprintf(authorities, sizeof authorities, "%s%s", ca.pem, other.pem);
	options.cert = pem_of("chain.pem", chain);
	options.ca = pem_of("ca.pem", authorities);
	options.crl = pem_of("crl.pem", crl);
	context = context_of(options);
	expiry = kw_tls_context_expiry(context);
	assert_near(expiry->cert, in_days(3)); /* the first */
	assert_near(expiry->ca, in_days(30));  /* the last */
	assert_near(expiry->crl, in_days(1));
	assert_string_equal(kw_tls_context_keys(context), options.terms->keys);
	kw_tls_context_unref(context);
	context = context_of(client_options(NULL));
	assert_int_equal(kw_tls_context_expiry(context)->cert, 0);
	assert_int_equal(kw_tls_context_expiry(context)->crl, 0);
	kw_tls_context_unref(context);
	free(crl);
	certificate_free(&between);
	certificate_free(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_do_not_fit_are_refused),
		cmocka_unit_test(a_listener_needs_a_certificate),
		cmocka_unit_test(it_knows_when_its_files_run_out),
	};

	return cmocka_run_group_tests_name(
		"tls context", tests, certificates_make, certificates_free);
}
