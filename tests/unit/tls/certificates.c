#include "certificates.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static char *text_of(BIO *bio)
{
	char *bytes, *text;
	long length = BIO_get_mem_data(bio, &bytes);

	text = strndup(bytes, (size_t)length);
	BIO_free(bio);
	return text;
}

static void add_extension(X509 *x509, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	assert(extension);
	X509_add_ext(x509, extension, -1);
	X509_EXTENSION_free(extension);
}

struct certificate certificate_make(const struct certificate_plan *plan)
{
	static long serial = 1;
	bool dated = plan->from_days || plan->to_days;
	struct certificate made = {.x509 = X509_new(), .key = EVP_EC_gen("P-256")};
	const struct certificate *issuer = plan->issuer ? plan->issuer : &made;
	X509_NAME *name = X509_get_subject_name(made.x509);
	BIO *bio;

	X509_set_version(made.x509, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(made.x509), serial++);
	X509_time_adj_ex(
		X509_getm_notBefore(made.x509), dated ? (int)plan->from_days : -1, 0, NULL);
	X509_time_adj_ex(X509_getm_notAfter(made.x509), dated ? (int)plan->to_days : 30, 0, NULL);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)plan->cn,
		plan->cn_length ? plan->cn_length : -1, -1, 0);
	X509_set_issuer_name(made.x509, X509_get_subject_name(issuer->x509));
	X509_set_pubkey(made.x509, made.key);
	add_extension(made.x509, issuer->x509, NID_basic_constraints,
		plan->is_ca ? "critical,CA:TRUE" : "CA:FALSE");
	if (plan->san)
		add_extension(made.x509, issuer->x509, NID_subject_alt_name, plan->san);
	X509_sign(made.x509, issuer->key, EVP_sha256());
	bio = BIO_new(BIO_s_mem());
	PEM_write_bio_X509(bio, made.x509);
	made.pem = text_of(bio);
	bio = BIO_new(BIO_s_mem());
	PEM_write_bio_PrivateKey(bio, made.key, NULL, NULL, 0, NULL, NULL);
	made.key_pem = text_of(bio);
	return made;
}

void certificate_free(struct certificate *certificate)
{
	X509_free(certificate->x509);
	EVP_PKEY_free(certificate->key);
	free(certificate->pem);
	free(certificate->key_pem);
}

char *certificate_revoke(const struct certificate *ca, const struct certificate *revoked)
{
	X509_CRL *crl = X509_CRL_new();
	X509_REVOKED *entry = X509_REVOKED_new();
	ASN1_TIME *now = X509_gmtime_adj(NULL, -60), *next = X509_gmtime_adj(NULL, 86400);
	BIO *bio = BIO_new(BIO_s_mem());

	X509_CRL_set_version(crl, 1);
	X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca->x509));
	X509_CRL_set1_lastUpdate(crl, now);
	X509_CRL_set1_nextUpdate(crl, next);
	X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->x509));
	X509_REVOKED_set_revocationDate(entry, now);
	X509_CRL_add0_revoked(crl, entry);
	X509_CRL_sign(crl, ca->key, EVP_sha256());
	PEM_write_bio_X509_CRL(bio, crl);
	ASN1_TIME_free(now);
	ASN1_TIME_free(next);
	X509_CRL_free(crl);
	return text_of(bio);
}
