#include "source/state.h"

#include <assert.h>
#include <string.h>

static bool holds(const void *owner, int value)
{
	const struct kw_state *state = owner;
	const struct kw_facts *facts = &state->facts;
	bool up = facts->reach == KW_REACH_UP;
	bool mending = facts->mending == KW_MENDING_UNDER_WAY;

	if (up && facts->script == KW_SCRIPT_BUSY)
		return value == KW_SOURCE_DOWN;
	if (up && facts->silent_s > 0)
		return value == KW_SOURCE_STALLED;
	if (up && facts->chain != KW_CHAIN_WHOLE)
		return value == KW_SOURCE_DOWN;
	if (up && !kw_mandate_holds(facts->mandate))
		return value == KW_SOURCE_UNCONFIRMED;
	switch (value) {
	case KW_SOURCE_SCANNING:
		return up && mending && facts->sweeps_ended == 0;
	case KW_SOURCE_RECONCILING:
		return up && mending && facts->sweeps_ended > 0;
	case KW_SOURCE_LIVE:
		return up && !mending && facts->beyond == 0 && facts->waiting == 0 &&
		       facts->missing == 0 && state->completeness == KW_COMPLETENESS_COMPLETE;
	case KW_SOURCE_HELD:
		return up && mending && facts->missing > 0;
	case KW_SOURCE_FULL:
		return up;
	default:
		return !up && !mending;
	}
}

/* Nothing is passed through on the way: each may follow each, but the first, which never returns.
 */
#define ANY_OTHER                                                                                  \
	(KW_SM_TO(KW_SOURCE_LIVE) | KW_SM_TO(KW_SOURCE_RECONCILING) | KW_SM_TO(KW_SOURCE_FULL) |   \
		KW_SM_TO(KW_SOURCE_DOWN) | KW_SM_TO(KW_SOURCE_HELD) |                              \
		KW_SM_TO(KW_SOURCE_UNCONFIRMED) | KW_SM_TO(KW_SOURCE_STALLED))

static const struct kw_sm_state states[] = {
	[KW_SOURCE_CONNECTING] = {"connecting",
		KW_SM_TO(KW_SOURCE_SCANNING) | KW_SM_TO(KW_SOURCE_DOWN) |
			KW_SM_TO(KW_SOURCE_UNCONFIRMED) | KW_SM_TO(KW_SOURCE_STALLED) |
			KW_SM_TO(KW_SOURCE_RECONCILING), /* the table was kept */
		KW_SM_INITIAL},
	[KW_SOURCE_SCANNING] = {"scanning", ANY_OTHER},
	[KW_SOURCE_LIVE] = {"live", ANY_OTHER},
	[KW_SOURCE_RECONCILING] = {"reconciling", ANY_OTHER},
	[KW_SOURCE_FULL] = {"table_full", ANY_OTHER | KW_SM_TO(KW_SOURCE_SCANNING)},
	[KW_SOURCE_DOWN] = {"source_down", ANY_OTHER | KW_SM_TO(KW_SOURCE_SCANNING), KW_SM_FAILURE},
	[KW_SOURCE_HELD] = {"held", ANY_OTHER | KW_SM_TO(KW_SOURCE_SCANNING)},
	[KW_SOURCE_UNCONFIRMED] = {"unconfirmed", ANY_OTHER | KW_SM_TO(KW_SOURCE_SCANNING)},
	[KW_SOURCE_STALLED] = {"stalled", ANY_OTHER | KW_SM_TO(KW_SOURCE_SCANNING)},
};

static const struct kw_sm_conf machine = {"source", states, KW_SOURCE_STATES, holds};

void kw_state_init(struct kw_state *state)
{
	*state = (struct kw_state){.cause = KW_CLAIM_NOT_CONNECTED};
	kw_sm_init(&state->sm, &machine, state, KW_SOURCE_CONNECTING);
}

bool kw_state_update(
	struct kw_state *state, const struct kw_facts *facts, const struct kw_claim_words *words)
{
	struct kw_claim claim = kw_claim_judge(facts, state->completeness);
	char reason[KW_ERROR_TEXT];

	state->facts = *facts;
	kw_claim_explain(claim.cause, facts, words, reason, sizeof reason);
	if ((int)claim.state == state->sm.state && claim.cause == state->cause &&
		claim.completeness == state->completeness && strcmp(reason, state->reason) == 0)
		return false;
	assert(claim.completeness >= state->completeness);
	state->completeness = claim.completeness;
	state->cause = claim.cause;
	kw_sm_move(&state->sm, claim.state, reason);
	memcpy(state->reason, reason, sizeof reason);
	return true;
}

enum kw_log_level kw_state_level(const struct kw_state *state)
{
	switch ((enum kw_source_state)state->sm.state) {
	case KW_SOURCE_DOWN:
	case KW_SOURCE_FULL:
	case KW_SOURCE_HELD:
	case KW_SOURCE_STALLED:
		return KW_LOG_WARN;
	case KW_SOURCE_UNCONFIRMED:
		return state->cause == KW_CLAIM_STANDBY ? KW_LOG_INFO : KW_LOG_WARN;
	case KW_SOURCE_CONNECTING:
	case KW_SOURCE_SCANNING:
	case KW_SOURCE_LIVE:
	case KW_SOURCE_RECONCILING:
		break;
	}
	return KW_LOG_INFO;
}

const char *kw_state_name(enum kw_source_state state)
{
	return (unsigned)state < KW_SOURCE_STATES ? states[state].name : "unknown";
}
