/* When what a context was made of runs out. */
#include "tls/context.h"

#include "tls/internal.h"

#include <openssl/x509.h>

/* Seconds since 1970; 0: it has no date that can be read. */
static int64_t seconds_of(const ASN1_TIME *date)
{
	ASN1_TIME *zero = ASN1_TIME_set(NULL, 0);
	int days = 0, seconds = 0;
	bool known = date && zero && ASN1_TIME_diff(&days, &seconds, zero, date);

	ASN1_TIME_free(zero);
	return known ? (int64_t)days * 86400 + seconds : 0;
}

static int64_t first_of(int64_t a, int64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

static int64_t last_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t own(SSL_CTX *ssl)
{
	int64_t first = seconds_of(X509_get0_notAfter(SSL_CTX_get0_certificate(ssl)));
	STACK_OF(X509) *chain = NULL;

	SSL_CTX_get0_chain_certs(ssl, &chain);
	for (int i = 0; i < sk_X509_num(chain); i++)
		first = first_of(first, seconds_of(X509_get0_notAfter(sk_X509_value(chain, i))));
	return first;
}

void kw_tls_read_expiry(SSL_CTX *ssl, bool shown, struct kw_tls_expiry *expiry)
{
	STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(ssl));

	*expiry = (struct kw_tls_expiry){.cert = shown ? own(ssl) : 0};
	for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
		X509_OBJECT *object = sk_X509_OBJECT_value(objects, i);
		const X509 *ca = X509_OBJECT_get0_X509(object);
		X509_CRL *crl = X509_OBJECT_get0_X509_CRL(object);

		if (ca)
			expiry->ca = last_of(expiry->ca, seconds_of(X509_get0_notAfter(ca)));
		if (crl)
			expiry->crl =
				first_of(expiry->crl, seconds_of(X509_CRL_get0_nextUpdate(crl)));
	}
}

const struct kw_tls_expiry *kw_tls_context_expiry(const struct kw_tls_context *context)
{
	return &context->expiry;
}

const char *kw_tls_context_keys(const struct kw_tls_context *context)
{
	return context->terms->keys;
}
