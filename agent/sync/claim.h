/*
 * May the local data be claimed, and replaced? Data of others need the operator's consent.
 * Pure; any thread.
 */
#ifndef KW_AGENT_SYNC_CLAIM_H
#define KW_AGENT_SYNC_CLAIM_H

#include "phases.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the snapshot would replace. */
enum kw_claim_scope {
	KW_CLAIM_DATABASES,  /* the keys of the databases that are followed */
	KW_CLAIM_SOME_KEYS,  /* of them only those that the filter picks */
	KW_CLAIM_EVERYTHING, /* all that the server holds, by loading an RDB */
};

#define KW_CLAIM_NOT_COUNTED UINT64_MAX

struct kw_claim_facts {
	enum kw_claim_scope scope;
	enum kw_sync_data data;
	bool consent;     /* apply.consent */
	uint64_t keys;    /* in the databases that are followed; without our cursor */
	uint64_t counted; /* SOME_KEYS: those of them that the filter picks, by a walk */
};

enum kw_claim {
	KW_CLAIM_OURS,      /* yes: the data carry our cursor */
	KW_CLAIM_CONSENTED, /* yes: the operator has agreed */
	KW_CLAIM_EMPTY,     /* yes: there is nothing to be replaced */
	KW_CLAIM_UNKNOWN,   /* not yet: INFO counts other keys too, so the keys must be walked */
	KW_CLAIM_REFUSED,   /* no: there are data of others */
};

enum kw_claim kw_claim_judge(const struct kw_claim_facts *facts);

static inline bool kw_claim_granted(enum kw_claim claim)
{
	return claim == KW_CLAIM_OURS || claim == KW_CLAIM_CONSENTED || claim == KW_CLAIM_EMPTY;
}

/* The sentence for REFUSED, with its remedy. counted_most: a walk counts no further than this. */
void kw_claim_refusal(const struct kw_claim_facts *facts, const char *mode, uint64_t counted_most,
	char *text, size_t room);

#endif
