/* The inside of proto/tls, shared by its files. */
#ifndef KW_TLS_INTERNAL_H
#define KW_TLS_INTERNAL_H

#include "base/sm.h"
#include "tls/channel.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

#define KW_TLS_FILE_TEXT 512
#define KW_TLS_NAMES_TEXT 160

struct kw_tls_context {
	atomic_uint references;
	enum kw_tls_role role;
	SSL_CTX *ssl;
	bool verify, shown; /* shown: it has a certificate of ours */
	unsigned vain_max;  /* see channel.c */
	char ca[KW_TLS_FILE_TEXT];
	char server_name[256];
	const struct kw_tls_terms *terms;
	struct kw_tls_expiry expiry;
};

struct kw_tls_channel {
	struct kw_sm sm; /* enum kw_tls_state */
	SSL *ssl;
	struct kw_tls_context *context;
	enum kw_tls_wants read_wants, write_wants;
	size_t begun;        /* bytes of the record whose write must go on; 0: none */
	unsigned vain;       /* reads of the socket in this call that brought its caller no byte */
	char host[256];      /* client: the name that was verified */
	struct kw_error why; /* FAILED */
	SSL_SESSION *session;
	char cipher[80];
	/* What the verification of the peer's certificate found, if it refused it. */
	int verify_error; /* X509_V_OK: nothing */
	char names[KW_TLS_NAMES_TEXT], date[64];
};

/* expiry.c; shown: it has a certificate of ours. */
void kw_tls_read_expiry(SSL_CTX *ssl, bool shown, struct kw_tls_expiry *expiry);
/* peer.c: what the callback of the verification calls. It fills the last lines of the channel. */
int kw_tls_on_verify(int ok, X509_STORE_CTX *store);
/* channel.c: a session came. */
int kw_tls_on_session(SSL *ssl, SSL_SESSION *session);
/* peer.c: is the certificate in it, if there is one, not out of date? */
bool kw_tls_session_in_date(const SSL_SESSION *session);
/* peer.c: the names in a certificate, for a sentence. */
void kw_tls_names_of(X509 *certificate, char names[KW_TLS_NAMES_TEXT]);

#endif
