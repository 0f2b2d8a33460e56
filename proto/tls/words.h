/*
 * What went wrong with TLS, in a sentence with a remedy.
 *
 *   numbers of OpenSSL (X509_V_ERR_*, alert, SSL_R_*) ──▶ enum kw_tls_trouble ──▶ sentence
 *
 * The first step reads numbers alone, never OpenSSL's text. The second step takes the words that
 * differ between a Redis server and a proxy from struct kw_tls_terms. Pure; any thread.
 */
#ifndef KW_TLS_WORDS_H
#define KW_TLS_WORDS_H

#include "base/error.h"

#include <stdbool.h>

enum kw_tls_trouble {
	KW_TLS_OTHER,          /* none of these: the sentence shows OpenSSL's own words */
	KW_TLS_UNKNOWN_CA,     /* its certificate: not signed by a CA of ours */
	KW_TLS_EXPIRED,        /* its certificate */
	KW_TLS_NOT_YET_VALID,  /* its certificate */
	KW_TLS_WRONG_NAME,     /* its certificate */
	KW_TLS_REVOKED,        /* its certificate, by our list */
	KW_TLS_OLD_CRL,        /* our list is out of date, or is not of that CA */
	KW_TLS_WRONG_PURPOSE,  /* its certificate is not for this end of a connection */
	KW_TLS_WEAK,           /* its key or digest is too weak for this host's OpenSSL */
	KW_TLS_NO_CERTIFICATE, /* it shows none, and we demand one */
	KW_TLS_WE_ARE_NOBODY,  /* it demands a certificate of us */
	KW_TLS_OUR_CA_UNKNOWN, /* it does not accept the CA of our certificate */
	KW_TLS_WE_EXPIRED,     /* our certificate, it says */
	KW_TLS_WE_ARE_REVOKED, /* our certificate, it says */
	KW_TLS_OURS_REFUSED,   /* our certificate, it does not say why */
	KW_TLS_PLAIN,          /* what it sent is no TLS */
	KW_TLS_SILENT,         /* it has not answered our greeting at all */
	KW_TLS_SLOW,           /* it has not finished the handshake */
	KW_TLS_NOT_COMMON,     /* no version or cipher that both ends have */
	KW_TLS_CLOSED,         /* it closed the connection in the handshake */
};

/* Words of one use of TLS; static texts. */
struct kw_tls_terms {
	const char *keys;   /* our group of keys: "redis.tls" */
	const char *peer;   /* "the server" */
	const char *plain;  /* to do if the peer speaks no TLS: "use redis://, or its tls-port" */
	const char *demand; /* what turns its demand for certificates off: "tls-auth-clients no" */
	const char *trust;  /* its own list of CAs: "tls-ca-cert-file" */
	bool secrets;       /* passwords travel: what was read stays in no buffer */
};

/* What is known of this connection. A text that is not known is "". */
struct kw_tls_facts {
	const char *ca;     /* our file of CAs; "": the system's */
	const char *host;   /* the name that we wanted */
	const char *names;  /* the names in its certificate */
	const char *date;   /* when its certificate expired, or begins */
	const char *detail; /* OpenSSL's words */
	bool shown;         /* we have a certificate to show */
};

/* KW_TLS_OTHER for every number that is not in the table. */
enum kw_tls_trouble kw_tls_trouble_of_verify(int x509_error);
enum kw_tls_trouble kw_tls_trouble_of_reason(int ssl_reason); /* an SSL_R_* that is no alert */
/* What the peer's alert says about us; shown: as in the facts. */
enum kw_tls_trouble kw_tls_trouble_of_alert(int alert, bool shown);

/*
 * The sentence. Returns its code: KW_E_REFUSED if one end does not accept the other's certificate,
 * KW_E_TIMEOUT if the peer is silent or slow, else KW_E_IO.
 */
int kw_tls_say(enum kw_tls_trouble trouble, const struct kw_tls_terms *terms,
	const struct kw_tls_facts *facts, struct kw_error *error);

#endif
