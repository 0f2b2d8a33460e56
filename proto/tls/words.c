#include "tls/words.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stddef.h>

struct row {
	int number;
	enum kw_tls_trouble trouble;
};

static enum kw_tls_trouble find(const struct row *rows, size_t count, int number)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].number == number)
			return rows[i].trouble;
	return KW_TLS_OTHER;
}

enum kw_tls_trouble kw_tls_trouble_of_verify(int x509_error)
{
	static const struct row rows[] = {
		{X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, KW_TLS_UNKNOWN_CA},
		{X509_V_ERR_CERT_SIGNATURE_FAILURE, KW_TLS_UNKNOWN_CA},
		{X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, KW_TLS_UNKNOWN_CA},
		{X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, KW_TLS_UNKNOWN_CA},
		{X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, KW_TLS_UNKNOWN_CA},
		{X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, KW_TLS_UNKNOWN_CA},
		{X509_V_ERR_INVALID_CA, KW_TLS_UNKNOWN_CA},
		{X509_V_ERR_CERT_NOT_YET_VALID, KW_TLS_NOT_YET_VALID},
		{X509_V_ERR_CERT_HAS_EXPIRED, KW_TLS_EXPIRED},
		{X509_V_ERR_HOSTNAME_MISMATCH, KW_TLS_WRONG_NAME},
		{X509_V_ERR_IP_ADDRESS_MISMATCH, KW_TLS_WRONG_NAME},
		{X509_V_ERR_CERT_REVOKED, KW_TLS_REVOKED},
		{X509_V_ERR_UNABLE_TO_GET_CRL, KW_TLS_OLD_CRL},
		{X509_V_ERR_CRL_HAS_EXPIRED, KW_TLS_OLD_CRL},
		{X509_V_ERR_CRL_NOT_YET_VALID, KW_TLS_OLD_CRL},
		{X509_V_ERR_CRL_SIGNATURE_FAILURE, KW_TLS_OLD_CRL},
		{X509_V_ERR_INVALID_PURPOSE, KW_TLS_WRONG_PURPOSE},
		{X509_V_ERR_EE_KEY_TOO_SMALL, KW_TLS_WEAK},
		{X509_V_ERR_CA_KEY_TOO_SMALL, KW_TLS_WEAK},
		{X509_V_ERR_CA_MD_TOO_WEAK, KW_TLS_WEAK},
	};

	return find(rows, sizeof rows / sizeof *rows, x509_error);
}

enum kw_tls_trouble kw_tls_trouble_of_reason(int ssl_reason)
{
	static const struct row rows[] = {
		{SSL_R_WRONG_VERSION_NUMBER, KW_TLS_PLAIN},
		{SSL_R_HTTP_REQUEST, KW_TLS_PLAIN},
		{SSL_R_HTTPS_PROXY_REQUEST, KW_TLS_PLAIN},
		{SSL_R_UNKNOWN_PROTOCOL, KW_TLS_PLAIN},
		{SSL_R_RECORD_TOO_SMALL, KW_TLS_PLAIN},
		{SSL_R_BAD_RECORD_TYPE, KW_TLS_PLAIN},
		{SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, KW_TLS_NO_CERTIFICATE},
		{SSL_R_UNSUPPORTED_PROTOCOL, KW_TLS_NOT_COMMON},
		{SSL_R_WRONG_SSL_VERSION, KW_TLS_NOT_COMMON},
		{SSL_R_VERSION_TOO_LOW, KW_TLS_NOT_COMMON},
		{SSL_R_NO_SHARED_CIPHER, KW_TLS_NOT_COMMON},
		{SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, KW_TLS_NOT_COMMON},
		{SSL_R_UNEXPECTED_EOF_WHILE_READING, KW_TLS_CLOSED},
	};

	return find(rows, sizeof rows / sizeof *rows, ssl_reason);
}

enum kw_tls_trouble kw_tls_trouble_of_alert(int alert, bool shown)
{
	/* What an alert means depends on whether the peer has seen a certificate. */
	static const struct row nobody[] = {
		{SSL_AD_HANDSHAKE_FAILURE, KW_TLS_WE_ARE_NOBODY}, /* TLS 1.2 */
		{SSL_AD_BAD_CERTIFICATE, KW_TLS_WE_ARE_NOBODY},
		{SSL_AD_CERTIFICATE_UNKNOWN, KW_TLS_WE_ARE_NOBODY},
		{SSL_AD_CERTIFICATE_REQUIRED, KW_TLS_WE_ARE_NOBODY}, /* TLS 1.3 */
		{SSL_AD_PROTOCOL_VERSION, KW_TLS_NOT_COMMON},
	};
	static const struct row somebody[] = {
		{SSL_AD_HANDSHAKE_FAILURE, KW_TLS_NOT_COMMON},
		{SSL_AD_BAD_CERTIFICATE, KW_TLS_OURS_REFUSED},
		{SSL_AD_UNSUPPORTED_CERTIFICATE, KW_TLS_OURS_REFUSED},
		{SSL_AD_CERTIFICATE_UNKNOWN, KW_TLS_OURS_REFUSED},
		{SSL_AD_CERTIFICATE_REQUIRED, KW_TLS_WE_ARE_NOBODY},
		{SSL_AD_DECRYPT_ERROR, KW_TLS_OURS_REFUSED},
		{SSL_AD_CERTIFICATE_REVOKED, KW_TLS_WE_ARE_REVOKED},
		{SSL_AD_CERTIFICATE_EXPIRED, KW_TLS_WE_EXPIRED},
		{SSL_AD_UNKNOWN_CA, KW_TLS_OUR_CA_UNKNOWN},
		{SSL_AD_PROTOCOL_VERSION, KW_TLS_NOT_COMMON},
	};

	return shown ? find(somebody, sizeof somebody / sizeof *somebody, alert)
		     : find(nobody, sizeof nobody / sizeof *nobody, alert);
}
