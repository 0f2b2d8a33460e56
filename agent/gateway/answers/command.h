/*
 * The commands that the gateway answers from the table: one line each in command.c.
 *
 *   client ──request.h──▶ kw_command_find ──▶ its keys are looked up ──▶ answer ──reply.h──▶ client
 *
 * A command that is not in the table is forwarded to the primary, or refused. The answers are pure:
 * the same request, value, time and random number give the same reply. Each is what the server
 * itself would say. A value that the server would refuse (WRONGTYPE) is refused in its words.
 *
 *   EACH    one key, or several that are answered one after the other in one array (MGET)
 *   SUM     several keys whose answers are added up (EXISTS)
 *   WHOLE   one key; the answer is all of the reply
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_ANSWERS_COMMAND_H
#define KW_AGENT_GATEWAY_ANSWERS_COMMAND_H

#include "base/slice.h"
#include "gateway/resp/reply.h"
#include "rdb/payload_visit.h"

#include <stddef.h>
#include <stdint.h>

/* What was found for one key of a request, and what is asked of it. */
struct kw_ask {
	const struct kw_slice *words; /* of the whole request; words[0] is the command's name */
	size_t count;
	struct kw_slice payload; /* DUMP payload; of a missing or expired key: no bytes */
	enum kw_value_kind kind; /* of the payload */
	uint64_t expires_ms;     /* of the key; 0: never */
	uint64_t now_ms;         /* the proxy's clock: what has expired by then is not there */
	uint64_t random;         /* another one each time, for commands that choose elements */
	const struct kw_reply_to *to;
	size_t begun; /* where this reply begins in the output; set by kw_command_answer */
};

static inline int kw_ask_is_missing(const struct kw_ask *ask)
{
	return ask->payload.length == 0;
}

enum kw_command_join {
	KW_COMMAND_WHOLE,
	KW_COMMAND_EACH,
	KW_COMMAND_SUM,
};

enum kw_command_refusal {
	KW_REFUSES_KIND,
	KW_REFUSES_WORDS,
	KW_REFUSES_BY_FORK, /* Redis looks at the kind first, Valkey at the words */
};

/* Writes one reply. */
typedef void (*kw_answer_fn)(const struct kw_ask *ask);

struct kw_command {
	const char *name; /* lower case */
	int arity;        /* words, the name included; negative: at least so many */
	enum kw_command_join join;
	int first_key, last_key; /* positions in the words; last_key negative: from the end */
	enum kw_value_kind kind; /* of the value; KW_VALUE_UNKNOWN: any */
	kw_answer_fn answer;
	enum kw_command_refusal
		refuses; /* first, if both the words and the value's kind are wrong */
};

size_t kw_command_count(void);

/* NULL: not answered from the table. The name in any case. */
const struct kw_command *kw_command_find(struct kw_slice name);

/* Does the number of words fit? */
int kw_command_fits(const struct kw_command *command, size_t words);

/* The error for a number of words that does not fit, as the server says it. */
void kw_command_refuse(const struct kw_command *command, const struct kw_reply_to *to);

/* How many keys a request that fits has, and which word each is: first_key + i. */
size_t kw_command_keys(const struct kw_command *command, size_t words);

/*
 * One key's part of the reply. WRONGTYPE if the value is of another kind; for EACH nil stands in
 * its place, as MGET does.
 */
void kw_command_answer(const struct kw_command *command, const struct kw_ask *ask);

#endif
