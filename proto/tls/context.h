/*
 * What connections of one kind have in common: certificate and key, the CAs and what is demanded of
 * the peer. TLS 1.2 and 1.3; no renegotiation, no compression, no early data.
 *
 *   files ──control/config/tls.h──▶ kw_tls_options ──▶ kw_tls_context ──▶ kw_tls_channel (many)
 *                                                          ▲
 *   struct kw_tls_current: the context for connections to come; a reload puts another in its place
 *
 * A context does not change. Each channel holds a reference to it, so connections that stand go on
 * with what they began with. Its certificate's session tickets end with it.
 *
 * This folder is the only one that includes OpenSSL. A build without it (-Dtls=disabled) has the
 * same functions, and kw_tls_context_new refuses.
 *
 * Contexts are made and replaced in one thread. Channels may be used in others, each in one at a
 * time. The process must ignore SIGPIPE: kw_tls_context_new sees to that.
 */
#ifndef KW_TLS_CONTEXT_H
#define KW_TLS_CONTEXT_H

#include "base/error.h"
#include "base/slice.h"
#include "tls/words.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_tls_role {
	KW_TLS_CLIENT, /* we dialled */
	KW_TLS_SERVER, /* we accepted */
};

/* The content of a PEM file; empty: there is none. file: its name, for sentences. */
struct kw_tls_pem {
	const char *file;
	struct kw_slice bytes;
};

struct kw_tls_options {
	enum kw_tls_role role;
	struct kw_tls_pem ca;   /* empty: the CAs of this system */
	struct kw_tls_pem cert; /* ours, then those between it and its CA; a server needs one */
	struct kw_tls_pem key;  /* with cert, and only with it */
	struct kw_tls_pem crl;  /* empty: nothing is revoked */
	/*
	 * Client: the server's certificate must be signed by a CA of ours and have the host's name.
	 * Server: each client must show a certificate that is signed by a CA of ours.
	 */
	bool verify;
	const char *server_name; /* client: the name in the certificate; "": the host dialled */
	bool wipe;               /* what was read stays in no buffer: it can have passwords in it */
	bool kernel;             /* let the kernel encrypt, if it can (kTLS) */
	const struct kw_tls_terms *terms; /* static */
};

struct kw_tls_context;

/* Can this build speak TLS? If not, kw_tls_context_new always refuses, and says so. */
bool kw_tls_is_built(void);

/*
 * NULL: KW_E_CONFIG, and the sentence names the key of the configuration, the file and the remedy
 * (no certificate in it, another key than the certificate's, a key with a passphrase). All is
 * copied. The context has one reference, the caller's.
 */
struct kw_tls_context *kw_tls_context_new(
	const struct kw_tls_options *options, struct kw_error *error);
struct kw_tls_context *kw_tls_context_ref(struct kw_tls_context *context);
void kw_tls_context_unref(struct kw_tls_context *context); /* NULL is accepted */

enum kw_tls_role kw_tls_context_role(const struct kw_tls_context *context);

/* As its options say: is the peer verified? */
bool kw_tls_context_verifies(const struct kw_tls_context *context);

/* terms->keys of its options. */
const char *kw_tls_context_keys(const struct kw_tls_context *context);

/* Seconds since 1970; 0: there is none, or it has no such date. The CAs of a system do not count.
 */
struct kw_tls_expiry {
	int64_t cert; /* the first of ours and of those between it and its CA */
	int64_t ca;   /* the last of the CAs: from then on nothing is verified */
	int64_t crl;  /* the first list is due again: from then on each peer is refused */
};
const struct kw_tls_expiry *kw_tls_context_expiry(const struct kw_tls_context *context);

/* Zeroed memory holds none. */
struct kw_tls_current {
	struct kw_tls_context *context;
};

/* From now on this one; takes the caller's reference over. NULL: none any more. */
void kw_tls_current_put(struct kw_tls_current *current, struct kw_tls_context *context);

#endif
