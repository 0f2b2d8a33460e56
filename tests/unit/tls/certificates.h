/* Certificates for tests: made in memory, with keys of P-256. */
#ifndef KW_TEST_TLS_CERTIFICATES_H
#define KW_TEST_TLS_CERTIFICATES_H

#include <openssl/x509.h>
#include <stdbool.h>

struct certificate {
	X509 *x509;
	EVP_PKEY *key;
	char *pem, *key_pem;
};

struct certificate_plan {
	const char *cn;
	int cn_length;                    /* 0: up to its end */
	const char *san;                  /* "DNS:db.example,IP:127.0.0.1"; NULL: none */
	long from_days, to_days;          /* from today; both 0: -1 and 30 */
	const struct certificate *issuer; /* NULL: self-signed */
	bool is_ca;
};

struct certificate certificate_make(const struct certificate_plan *plan);
void certificate_free(struct certificate *certificate);

/* A list of the CA in which the certificate is revoked; free() it. */
char *certificate_revoke(const struct certificate *ca, const struct certificate *revoked);

#endif
