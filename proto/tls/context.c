/* From the content of files to an SSL_CTX. */
#include "tls/context.h"

#include "base/buffer.h"
#include "tls/internal.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* What OpenSSL reads of a socket at once: of a table or a snapshot, some records. */
#define READ_BUFFER_BYTES 65536

/* Of one call, of what brings its caller no byte (channel.h): 32 records, or what 4 reads hold. */
#define VAIN_RECORDS 32
#define VAIN_BUFFERS 4

/* Certificates of one file; more is not the right file. */
#define CERTIFICATES_MAX 1000

bool kw_tls_is_built(void)
{
	return true;
}

/* OpenSSL writes to the socket by write(2), which raises SIGPIPE when the peer is gone. */
static void ignore_sigpipe(void)
{
	struct sigaction action;

	if (sigaction(SIGPIPE, NULL, &action) || action.sa_handler != SIG_DFL)
		return;
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

static bool is_given(const struct kw_tls_pem *pem)
{
	return pem->bytes.length > 0;
}

static int refuse(const struct kw_tls_options *options, const char *key,
	const struct kw_tls_pem *pem, const char *what, struct kw_error *error)
{
	char reason[160] = "";
	unsigned long last = ERR_peek_last_error();

	if (last && ERR_reason_error_string(last))
		snprintf(reason, sizeof reason, " (%s)", ERR_reason_error_string(last));
	return kw_error_set(error, KW_E_CONFIG, "%s.%s: the file %s %s%s", options->terms->keys,
		key, pem->file, what, reason);
}

static BIO *open_pem(const struct kw_tls_pem *pem)
{
	BIO *bio = BIO_new_mem_buf(pem->bytes.data, (int)pem->bytes.length);

	if (!bio)
		kw_out_of_memory(pem->bytes.length);
	return bio;
}

/* The end of a PEM file, rather than something broken in it? */
static bool at_end(void)
{
	unsigned long last = ERR_peek_last_error();

	return ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
}

/* Each certificate of a file goes to `take`, which owns it. Returns how many; -1: broken. */
static int each_certificate(
	const struct kw_tls_pem *pem, void (*take)(SSL_CTX *, X509 *, int), SSL_CTX *ssl)
{
	BIO *bio = open_pem(pem);
	X509 *certificate;
	int count = 0;
	bool whole;

	ERR_clear_error();
	while (count < CERTIFICATES_MAX && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
		take(ssl, certificate, count++);
	whole = count < CERTIFICATES_MAX && at_end();
	if (whole)
		ERR_clear_error();
	BIO_free(bio);
	return whole ? count : -1;
}

static void take_ca(SSL_CTX *ssl, X509 *certificate, int index)
{
	X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), certificate);
	/* Clients are told which CAs are accepted. */
	SSL_CTX_add_client_CA(ssl, certificate);
	X509_free(certificate);
}

static int load_ca(SSL_CTX *ssl, const struct kw_tls_options *options, struct kw_error *error)
{
	int count;

	if (!is_given(&options->ca)) {
		SSL_CTX_set_default_verify_paths(ssl);
		return KW_OK;
	}
	count = each_certificate(&options->ca, take_ca, ssl);
	if (count > 0)
		return KW_OK;
	return refuse(options, "ca", &options->ca,
		count < 0 ? "is not a PEM file of certificates"
			  : "holds no certificate: put the CA's into it, from its BEGIN line to "
			    "its END line",
		error);
}

static void take_own(SSL_CTX *ssl, X509 *certificate, int index)
{
	if (index == 0) {
		SSL_CTX_use_certificate(ssl, certificate);
		X509_free(certificate);
	} else if (!SSL_CTX_add0_chain_cert(ssl, certificate)) {
		X509_free(certificate);
	}
}

/* A passphrase would be asked for on the terminal, which a daemon has not. */
static int no_passphrase(char *buffer, int size, int writing, void *arg)
{
	*(bool *)arg = true;
	return -1;
}

static int load_key(SSL_CTX *ssl, const struct kw_tls_options *options, struct kw_error *error)
{
	BIO *bio = open_pem(&options->key);
	bool asked = false;
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &asked);
	int code = KW_OK;

	BIO_free(bio);
	if (asked)
		ERR_clear_error();
	if (!key)
		return refuse(options, "key", &options->key,
			asked ? "has a passphrase, which cannot be asked for: take it off by "
				"openssl pkey, and protect the file by its mode"
			      : "holds no private key in PEM",
			error);
	if (!SSL_CTX_use_PrivateKey(ssl, key) || !SSL_CTX_check_private_key(ssl))
		code = refuse(options, "key", &options->key,
			"is not the key of the certificate in the file for .cert: give the two "
			"that were made together",
			error);
	EVP_PKEY_free(key);
	return code;
}

static int load_own(SSL_CTX *ssl, const struct kw_tls_options *options, struct kw_error *error)
{
	const char *keys = options->terms->keys;
	int count;

	if (is_given(&options->cert) != is_given(&options->key))
		return kw_error_set(error, KW_E_CONFIG,
			"%s.cert and %s.key: only one is given; set both, or none", keys, keys);
	if (!is_given(&options->cert))
		return options->role == KW_TLS_CLIENT
			       ? KW_OK
			       : kw_error_set(error, KW_E_CONFIG,
					 "%s.cert and %s.key: a listener of TLS must show a "
					 "certificate: set both",
					 keys, keys);
	count = each_certificate(&options->cert, take_own, ssl);
	if (count <= 0)
		return refuse(options, "cert", &options->cert,
			count < 0 ? "is not a PEM file of certificates" : "holds no certificate",
			error);
	if (!SSL_CTX_get0_certificate(ssl))
		return refuse(options, "cert", &options->cert,
			"has a certificate that this host's OpenSSL does not take", error);
	return load_key(ssl, options, error);
}

static int load_crl(SSL_CTX *ssl, const struct kw_tls_options *options, struct kw_error *error)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ssl);
	X509_CRL *crl;
	BIO *bio;
	int count = 0;
	bool whole;

	if (!is_given(&options->crl))
		return KW_OK;
	bio = open_pem(&options->crl);
	ERR_clear_error();
	while (count < CERTIFICATES_MAX && (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL))) {
		X509_STORE_add_crl(store, crl);
		X509_CRL_free(crl);
		count++;
	}
	whole = at_end();
	BIO_free(bio);
	if (count == 0 || !whole)
		return refuse(options, "crl", &options->crl,
			"is not a PEM file of lists of revoked certificates", error);
	ERR_clear_error();
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	return KW_OK;
}

/*
 * A ticket holds the client's own certificate alone. If others stand between it and its CA, it
 * could not be judged again after a reload: it is marked, and they are shown again.
 */
static int on_new_ticket(SSL *ssl, void *arg)
{
	STACK_OF(X509) *chain = SSL_get_peer_cert_chain(ssl);

	/* A root is of no use there, and is sent all the same. */
	for (int i = 0; i < sk_X509_num(chain); i++)
		if (!(X509_get_extension_flags(sk_X509_value(chain, i)) & EXFLAG_SI))
			SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), "chain", 5);
	return 1;
}

static bool is_marked(SSL_SESSION *session)
{
	void *mark;
	size_t length = 0;

	return SSL_SESSION_get0_ticket_appdata(session, &mark, &length) == 1 && length > 0;
}

/*
 * A session spares its client the certificates, and OpenSSL their dates. One whose certificate has
 * run out meanwhile shows it again, and is refused by the words for that.
 */
static SSL_TICKET_RETURN on_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
	size_t name_length, SSL_TICKET_STATUS status, void *arg)
{
	if (status == SSL_TICKET_EMPTY || status == SSL_TICKET_NO_DECRYPT)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
		return SSL_TICKET_RETURN_ABORT;
	if (is_marked(session) || !kw_tls_session_in_date(session))
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

static void set_rules(SSL_CTX *ssl, const struct kw_tls_options *options)
{
	static const unsigned char id[] = "keywake";
	bool server = options->role == KW_TLS_SERVER;

	SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
	SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (options->wipe)
		SSL_CTX_set_options(ssl, SSL_OP_CLEANSE_PLAINTEXT);
	if (options->kernel) {
		SSL_CTX_set_options(ssl, SSL_OP_ENABLE_KTLS);
	} else if (!server) {
		SSL_CTX_set_read_ahead(ssl, 1);
		SSL_CTX_set_default_read_buffer_len(ssl, READ_BUFFER_BYTES);
	}
	SSL_CTX_set_verify(ssl,
		!options->verify ? SSL_VERIFY_NONE
		: server         ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
				 : SSL_VERIFY_PEER,
		kw_tls_on_verify);
	if (server) {
		SSL_CTX_set_session_id_context(ssl, id, sizeof id - 1);
		SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_session_ticket_cb(ssl, on_new_ticket, on_ticket, NULL);
	} else {
		SSL_CTX_set_session_cache_mode(
			ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(ssl, kw_tls_on_session);
	}
}

struct kw_tls_context *kw_tls_context_new(
	const struct kw_tls_options *options, struct kw_error *error)
{
	SSL_CTX *ssl = SSL_CTX_new(
		options->role == KW_TLS_SERVER ? TLS_server_method() : TLS_client_method());
	struct kw_tls_context *context;

	assert(options->terms);
	if (!ssl) {
		kw_error_set(error, KW_E_NOMEM,
			"%s: OpenSSL does not start: see openssl version -a", options->terms->keys);
		return NULL;
	}
	ignore_sigpipe();
	set_rules(ssl, options);
	if (load_ca(ssl, options, error) || load_own(ssl, options, error) ||
		load_crl(ssl, options, error)) {
		ERR_clear_error();
		SSL_CTX_free(ssl);
		return NULL;
	}
	context = kw_zalloc(sizeof *context);
	atomic_init(&context->references, 1);
	context->role = options->role;
	context->ssl = ssl;
	context->verify = options->verify;
	context->shown = is_given(&options->cert);
	context->vain_max = SSL_CTX_get_read_ahead(ssl) ? VAIN_BUFFERS : 2 * VAIN_RECORDS;
	context->terms = options->terms;
	kw_tls_read_expiry(ssl, context->shown, &context->expiry);
	if (!is_given(&options->ca))
		context->expiry.ca = 0; /* those of the system: OpenSSL reads some at once */
	if (is_given(&options->ca))
		snprintf(context->ca, sizeof context->ca, "%s", options->ca.file);
	if (options->server_name)
		snprintf(context->server_name, sizeof context->server_name, "%s",
			options->server_name);
	return context;
}

struct kw_tls_context *kw_tls_context_ref(struct kw_tls_context *context)
{
	atomic_fetch_add(&context->references, 1);
	return context;
}

void kw_tls_context_unref(struct kw_tls_context *context)
{
	if (!context || atomic_fetch_sub(&context->references, 1) > 1)
		return;
	SSL_CTX_free(context->ssl);
	free(context);
}

enum kw_tls_role kw_tls_context_role(const struct kw_tls_context *context)
{
	return context->role;
}

bool kw_tls_context_verifies(const struct kw_tls_context *context)
{
	return context->verify;
}

void kw_tls_current_put(struct kw_tls_current *current, struct kw_tls_context *context)
{
	kw_tls_context_unref(current->context);
	current->context = context;
}
