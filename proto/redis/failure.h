/*
 * Why an exchange with a server did not succeed: a code and the class of the server's error for the
 * program, a sentence for the person. Program logic reads the first two and never the sentence.
 *
 *   the server answers with an error   code and answer from its first word
 *   it answers something else          KW_E_PROTOCOL, KW_SERVER_E_NONE
 *   the connection is lost             KW_E_IO,       KW_SERVER_E_NONE
 *   we refuse, or do not ask           the caller's code, KW_SERVER_E_NONE
 *
 * A zeroed struct is "nothing failed". Plain memory, owned by the one that declares it; a callback
 * that is given a pointer copies what it wants to keep. Any thread.
 */
#ifndef KW_REDIS_FAILURE_H
#define KW_REDIS_FAILURE_H

#include "base/error.h"
#include "redis/redis.h"
#include "redis/server.h"

#include <stdbool.h>

struct kw_failure {
	enum kw_code code;           /* KW_OK: nothing failed */
	enum kw_server_error answer; /* KW_SERVER_E_NONE: it did not answer with an error */
	char text[KW_ERROR_TEXT];    /* longer sentences are cut */
};

/* code is not KW_OK. */
void kw_failure_set(struct kw_failure *failure, enum kw_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * What the server answered, or that it did not (reply NULL: the connection is lost). The sentence
 * is the caller's.
 */
void kw_failure_answered(struct kw_failure *failure, const struct kw_reply *reply,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for an error reply that is gone; only its class was kept. */
void kw_failure_of_class(struct kw_failure *failure, enum kw_server_error answer,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

static inline bool kw_failed(const struct kw_failure *failure)
{
	return failure->code != KW_OK;
}

/* The server loads, runs a script, or has lost its primary: try again without any change. */
static inline bool kw_failure_passes(const struct kw_failure *failure)
{
	return kw_server_error_passes(failure->answer);
}

#endif
