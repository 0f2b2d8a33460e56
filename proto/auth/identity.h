/*
 * Who is at the other end of a connection, and what proved it.
 *
 * A handshake yields one identity at the proxy's end. Sessions, limits, revocation and scopes ask
 * the identity, and nothing else. Its principal is the name that they go by: of the certificate, if
 * one was shown over TLS, else the id of the key. An agent that proves both must be the same by
 * both; the key without an id belongs to any certificate.
 *
 * Pure; any thread.
 */
#ifndef KW_AUTH_IDENTITY_H
#define KW_AUTH_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_KEY_ID_MAX 32
#define KW_KEY_DIGEST_BYTES 32
#define KW_CERTIFICATE_ID_MAX 63

/* What a connection is for, as its agent says in HELLO. Numbers are part of the protocol. */
enum kw_role {
	KW_ROLE_AGENT = 1,
	KW_ROLE_GATEWAY = 2,
	KW_ROLE_INSPECTOR = 3, /* reserved: a connection that only looks */
};

enum kw_proved {
	KW_PROVED_NOTHING,     /* the proxy asked for no proof */
	KW_PROVED_USER,        /* the kernel names its user, and that user is listed (shm) */
	KW_PROVED_KEY,         /* it holds the key of key_id */
	KW_PROVED_CERTIFICATE, /* its certificate alone; with a key, too, it is KW_PROVED_KEY */
};

struct kw_identity {
	enum kw_proved proved;
	enum kw_role role;
	char key_id[KW_KEY_ID_MAX + 1];          /* "": the unnamed key, or no key */
	uint8_t key_digest[KW_KEY_DIGEST_BYTES]; /* of the key that was proved. Zero: none */
	/* Of the rules for the certificate's name, if the key has none of its own. Zero: none. */
	uint8_t rules_digest[KW_KEY_DIGEST_BYTES];
	/* Whom its certificate names; "": it showed none. */
	char certificate[KW_CERTIFICATE_ID_MAX + 1];
};

/* Is it 1 to KW_KEY_ID_MAX of [A-Za-z0-9._-]? */
bool kw_key_id_valid(const char *id, size_t length);

/* Is it 1 to KW_CERTIFICATE_ID_MAX of [A-Za-z0-9._*@-]? Every id of a key is one, too. */
bool kw_principal_valid(const char *id);

/* Who it is; "": of no name. */
const char *kw_identity_principal(const struct kw_identity *identity);

/* Is it the same by certificate and key? True unless both name somebody. */
bool kw_identity_agrees(const struct kw_identity *identity);

/* "agent", "gateway", "inspector"; "unknown" for any other number. */
const char *kw_role_name(enum kw_role role);

#endif
