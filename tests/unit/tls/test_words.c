/* Numbers of OpenSSL become a trouble, and a trouble a sentence with a remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tls/words.h"

#include <openssl/ssl.h>
#include <string.h>

static const struct kw_tls_terms terms = {
	.keys = "redis.tls",
	.peer = "the server",
	.plain = "use redis://",
	.demand = "tls-auth-clients no",
	.trust = "tls-ca-cert-file",
};

static void every_number_has_its_trouble(void **state)
{
	static const struct {
		int number;
		enum kw_tls_trouble trouble;
	} verify[] = {{18, KW_TLS_UNKNOWN_CA}, {19, KW_TLS_UNKNOWN_CA}, {20, KW_TLS_UNKNOWN_CA},
		{21, KW_TLS_UNKNOWN_CA}, {10, KW_TLS_EXPIRED}, {9, KW_TLS_NOT_YET_VALID},
		{62, KW_TLS_WRONG_NAME}, {64, KW_TLS_WRONG_NAME}, {23, KW_TLS_REVOKED},
		{3, KW_TLS_OLD_CRL}, {12, KW_TLS_OLD_CRL}, {26, KW_TLS_WRONG_PURPOSE},
		{66, KW_TLS_WEAK}, {68, KW_TLS_WEAK}, {0, KW_TLS_OTHER}, {-1, KW_TLS_OTHER},
		{100000, KW_TLS_OTHER}};
	static const struct {
		int alert;
		enum kw_tls_trouble nobody, somebody;
	} alerts[] = {
		{116, KW_TLS_WE_ARE_NOBODY, KW_TLS_WE_ARE_NOBODY},
		{42, KW_TLS_WE_ARE_NOBODY, KW_TLS_OURS_REFUSED},
		{46, KW_TLS_WE_ARE_NOBODY, KW_TLS_OURS_REFUSED},
		{40, KW_TLS_WE_ARE_NOBODY, KW_TLS_NOT_COMMON},
		{48, KW_TLS_OTHER, KW_TLS_OUR_CA_UNKNOWN},
		{45, KW_TLS_OTHER, KW_TLS_WE_EXPIRED},
		{44, KW_TLS_OTHER, KW_TLS_WE_ARE_REVOKED},
		{70, KW_TLS_NOT_COMMON, KW_TLS_NOT_COMMON},
		{255, KW_TLS_OTHER, KW_TLS_OTHER},
	};

	for (size_t i = 0; i < sizeof verify / sizeof *verify; i++)
		assert_int_equal(kw_tls_trouble_of_verify(verify[i].number), verify[i].trouble);
	for (size_t i = 0; i < sizeof alerts / sizeof *alerts; i++) {
		assert_int_equal(kw_tls_trouble_of_alert(alerts[i].alert, false), alerts[i].nobody);
		assert_int_equal(
			kw_tls_trouble_of_alert(alerts[i].alert, true), alerts[i].somebody);
	}
	assert_int_equal(kw_tls_trouble_of_reason(SSL_R_WRONG_VERSION_NUMBER), KW_TLS_PLAIN);
	assert_int_equal(kw_tls_trouble_of_reason(SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE),
		KW_TLS_NO_CERTIFICATE);
	assert_int_equal(kw_tls_trouble_of_reason(0), KW_TLS_OTHER);
}

static void every_trouble_has_a_code_and_a_remedy(void **state)
{
	static const struct kw_tls_facts facts = {
		.ca = "/etc/ca.pem",
		.host = "db.example",
		.names = "other.example",
		.date = "2026-01-02 03:04:05 UTC",
		.detail = "in OpenSSL's words",
		.shown = true,
	};
	static const struct {
		enum kw_tls_trouble trouble;
		enum kw_code code;
		const char *words;
	} cases[] = {
		{KW_TLS_UNKNOWN_CA, KW_E_REFUSED, "of redis.tls.ca (/etc/ca.pem): give the CA"},
		{KW_TLS_EXPIRED, KW_E_REFUSED, "expired on 2026-01-02 03:04:05 UTC: renew it"},
		{KW_TLS_NOT_YET_VALID, KW_E_REFUSED, "not valid before 2026-01-02 03:04:05 UTC"},
		{KW_TLS_WRONG_NAME, KW_E_REFUSED,
			"for other.example, not db.example: set redis.tls.server_name"},
		{KW_TLS_REVOKED, KW_E_REFUSED, "revoked (redis.tls.crl)"},
		{KW_TLS_OLD_CRL, KW_E_REFUSED, "in redis.tls.crl"},
		{KW_TLS_WRONG_PURPOSE, KW_E_REFUSED, "extendedKeyUsage"},
		{KW_TLS_WEAK, KW_E_REFUSED, "too weak"},
		{KW_TLS_NO_CERTIFICATE, KW_E_REFUSED, "showed no certificate"},
		{KW_TLS_WE_ARE_NOBODY, KW_E_REFUSED,
			"set redis.tls.cert and redis.tls.key (or tls-auth-clients no there)"},
		{KW_TLS_OUR_CA_UNKNOWN, KW_E_REFUSED, "add it to tls-ca-cert-file there"},
		{KW_TLS_WE_EXPIRED, KW_E_REFUSED, "our certificate (redis.tls.cert) expired"},
		{KW_TLS_WE_ARE_REVOKED, KW_E_REFUSED, "is revoked"},
		{KW_TLS_OURS_REFUSED, KW_E_REFUSED, "refused our certificate"},
		{KW_TLS_PLAIN, KW_E_IO, "speaks no TLS: use redis://"},
		{KW_TLS_SILENT, KW_E_TIMEOUT, "no answer to the TLS greeting"},
		{KW_TLS_SLOW, KW_E_TIMEOUT, "did not finish it in time"},
		{KW_TLS_NOT_COMMON, KW_E_REFUSED, "TLS 1.2 or 1.3"},
		{KW_TLS_CLOSED, KW_E_IO, "closed the connection in the TLS handshake"},
		{KW_TLS_OTHER, KW_E_IO, "in OpenSSL's words"},
	};
	const struct kw_tls_facts nothing = {0};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_error error = {0};

		assert_int_equal(
			kw_tls_say(cases[i].trouble, &terms, &facts, &error), cases[i].code);
		assert_int_equal(error.code, cases[i].code);
		if (!strstr(error.text, cases[i].words))
			fail_msg("\"%s\" has not \"%s\"", error.text, cases[i].words);
		/* A fact that is not known leaves no hole. */
		kw_tls_say(cases[i].trouble, &terms, &nothing, &error);
		assert_null(strstr(error.text, "(null)"));
		assert_null(strstr(error.text, "  "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_has_its_trouble),
		cmocka_unit_test(every_trouble_has_a_code_and_a_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
