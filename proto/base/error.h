/*
 * Two channels for what went wrong: a code for the program, a sentence for the person.
 *
 * A function that can fail returns int: 0, or the same enum kw_code it stored in *error. The
 * function that knows the failure best writes the sentence. Callers that know what was being tried
 * put their part before it: "agent: shm:///run/kw.sock: handshake: the proxy refused: unknown
 * secret". Library code never logs; the daemons do, once.
 *
 * struct kw_error is plain memory owned by the caller; nothing in it is allocated. Passing NULL for
 * the error is allowed everywhere and means that the code is enough. Any thread.
 */
#ifndef KW_BASE_ERROR_H
#define KW_BASE_ERROR_H

#define KW_ERROR_TEXT 512

enum kw_code {
	KW_OK = 0,
	KW_E_ARGUMENT, /* the caller passed something that can never work */
	KW_E_CONFIG,   /* configuration: the sentence names the key and the remedy */
	KW_E_IO,       /* a system call or a connection failed */
	KW_E_TIMEOUT,  /* a deadline of our own passed */
	KW_E_REFUSED,  /* the other side said no: secret, version, permission */
	KW_E_PROTOCOL, /* the other side broke the protocol */
	KW_E_CORRUPT,  /* bytes read remotely do not verify */
	KW_E_FULL,     /* a configured bound was reached */
	KW_E_NOMEM,    /* the system has no memory left */
	KW_E_STATE,    /* not now: the call does not fit the present state */
	KW_E_GONE,     /* what was asked for is not there (any more) */
};

struct kw_error {
	enum kw_code code;
	char text[KW_ERROR_TEXT];
};

/* The short name of a code, e.g. "timeout"; never NULL. */
const char *kw_code_name(enum kw_code code);

/* Store code and sentence; returns code, so that `return kw_error_set(...)` reads well. */
int kw_error_set(struct kw_error *error, enum kw_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As kw_error_set, with ": strerror(errnum)" added after the sentence. */
int kw_error_errno(struct kw_error *error, int errnum, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "format: " before the sentence already there; keeps and returns its code. */
int kw_error_wrap(struct kw_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
