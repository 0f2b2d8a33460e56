/*
 * Asking the local server for a key's value and expiry, over a connection that only asks. Questions
 * are pipelined, and their answers come in order. Loop thread only.
 */
#ifndef KW_AGENT_COMPARE_ASK_H
#define KW_AGENT_COMPARE_ASK_H

#include "compare.h"
#include "keys/naming.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_ask {
	struct kw_redis *redis;        /* its owner's */
	const struct kw_naming *names; /* of keys in that server; outlives the questions */
	bool pexpiretime; /* it knows PEXPIRETIME (7.0); otherwise PTTL, made absolute */
	/*
	 * The server answered this command with something else than it should. No answer that
	 * follows can be believed: the owner closes the connection.
	 */
	void (*failed)(void *arg, const char *command, const struct kw_reply *reply);
	void *arg;
	int64_t database;       /* selected by what was queued last; -1: none */
	struct kw_found answer; /* of the question that is being answered */
	struct kw_buffer name;  /* of the key that is asked for */
};

void kw_ask_close(struct kw_ask *ask);

/* Commands queued from now on are for this database, by its number there. */
void kw_ask_select(struct kw_ask *ask, uint32_t database);

/*
 * Ask for a key, by its name in the table. fn gets the value's reply, the second of two;
 * kw_ask_answered completes ask->answer from it.
 */
void kw_ask_key(
	struct kw_ask *ask, uint32_t database, struct kw_slice key, kw_reply_fn fn, void *arg);

/* False: there is no answer. The connection is lost, or `failed` was called. */
bool kw_ask_answered(struct kw_ask *ask, const struct kw_reply *reply);

/* For messages: the words of a reply that is an error or a status; at most 300 bytes. */
struct kw_slice kw_ask_words(const struct kw_reply *reply);

#endif
