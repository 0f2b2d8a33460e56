/*
 * The source's state as it is told outside, with the reason and the completeness. Pure: the source
 * hands in the facts once a loop turn, and this machine moves as kw_claim_judge says.
 *
 * The picture of the states is in source.h. The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_STATE_H
#define KW_PROXY_SOURCE_STATE_H

#include "base/error.h"
#include "base/log.h"
#include "base/sm.h"
#include "source/completeness.h"

#include <stdbool.h>

struct kw_state {
	struct kw_sm sm; /* enum kw_source_state */
	struct kw_facts facts;
	enum kw_claim_cause cause;
	enum kw_completeness completeness;
	char reason[KW_ERROR_TEXT]; /* a sentence, or "" */
};

void kw_state_init(struct kw_state *state);

/* True: state, reason or completeness changed. */
bool kw_state_update(
	struct kw_state *state, const struct kw_facts *facts, const struct kw_claim_words *words);

/* How a line of the log says that the source is in this state. */
enum kw_log_level kw_state_level(const struct kw_state *state);

const char *kw_state_name(enum kw_source_state state);

#endif
