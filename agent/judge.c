#include "judge.h"

#include <assert.h>

/* Most reasons stand for one state whatever else is true. */
static const struct kw_verdict none = {KW_AGENT_WARM, KW_REASON_NONE};

static struct kw_verdict is(enum kw_agent_state state, enum kw_reason reason)
{
	return (struct kw_verdict){state, reason};
}

enum kw_log_level kw_agent_state_level(enum kw_agent_state state)
{
	if (state == KW_AGENT_FAILED)
		return KW_LOG_ERROR;
	return state == KW_AGENT_HELD || state == KW_AGENT_STALLED ? KW_LOG_WARN : KW_LOG_INFO;
}

/* The link to the proxy, for good. */
static struct kw_verdict judge_proxy(const struct kw_judge_facts *facts)
{
	switch (facts->proxy) {
	case KW_PROXY_REFUSES:
		return is(KW_AGENT_FAILED, KW_REASON_PROXY_REFUSES);
	case KW_PROXY_FOREIGN:
		return is(KW_AGENT_FAILED, KW_REASON_PROXY_FOREIGN);
	case KW_PROXY_MISCONFIGURED:
		return is(KW_AGENT_FAILED, KW_REASON_PROXY_MISCONFIGURED);
	default:
		return none;
	}
}

static struct kw_verdict judge_local(const struct kw_judge_facts *facts)
{
	if (facts->local == KW_LOCAL_PASSES || facts->unfit == KW_UNFIT_PASSES)
		return is(KW_AGENT_LAGGING, KW_REASON_LOCAL_WAITS);
	return is(KW_AGENT_FAILED, KW_REASON_LOCAL_REFUSES + (enum kw_reason)facts->unfit);
}

/* What only a person can mend in the data or the table. */
static struct kw_verdict judge_obstacle(enum kw_sync_obstacle obstacle)
{
	switch (obstacle) {
	case KW_SYNC_NEEDS_CONSENT:
		return is(KW_AGENT_FAILED, KW_REASON_NO_CONSENT);
	case KW_SYNC_NEEDS_LINK:
		return is(KW_AGENT_FAILED, KW_REASON_OTHER_DATA);
	case KW_SYNC_NEEDS_TERM:
		return is(KW_AGENT_FAILED, KW_REASON_DEPOSED);
	case KW_SYNC_NEEDS_MANDATE:
		return is(KW_AGENT_FAILED, KW_REASON_UNFENCED);
	case KW_SYNC_NEEDS_SERVER:
		return is(KW_AGENT_FAILED, KW_REASON_TABLE_UNFIT);
	case KW_SYNC_NEEDS_PERMISSION:
		return is(KW_AGENT_FAILED, KW_REASON_PRUNE_FORBIDDEN);
	case KW_SYNC_FREE:
	case KW_SYNC_WAITS:
		break;
	}
	return none;
}

/* What only a person can mend. */
static struct kw_verdict judge_failures(const struct kw_judge_facts *facts)
{
	struct kw_verdict verdict = judge_proxy(facts);

	if (verdict.reason != KW_REASON_NONE)
		return verdict;
	/* Why the agent let the server go says more than that it did. */
	if (facts->local == KW_LOCAL_IS_UNFIT && facts->unfit == KW_UNFIT_YIELDED)
		verdict = judge_obstacle(facts->obstacle);
	if (verdict.reason != KW_REASON_NONE)
		return verdict;
	if (facts->local == KW_LOCAL_PASSES || facts->local == KW_LOCAL_IS_UNFIT)
		return judge_local(facts);
	if (facts->damaged)
		return is(KW_AGENT_FAILED, KW_REASON_DAMAGED);
	verdict = judge_obstacle(facts->obstacle);
	if (verdict.reason != KW_REASON_NONE)
		return verdict;
	if (facts->writes == KW_WRITES_FAILED)
		return is(KW_AGENT_FAILED, KW_REASON_WRITES_FAILED);
	if (facts->writes == KW_WRITES_READONLY)
		return is(KW_AGENT_FAILED, KW_REASON_WRITES_READONLY);
	if (facts->writes == KW_WRITES_FORBIDDEN)
		return is(KW_AGENT_FAILED, KW_REASON_WRITES_FORBIDDEN);
	return none;
}

/* One end is missing. */
static struct kw_verdict judge_connections(const struct kw_judge_facts *facts)
{
	if (facts->proxy == KW_PROXY_AWAY)
		return is(KW_AGENT_CONNECTING, KW_REASON_PROXY_AWAY);
	if (facts->proxy == KW_PROXY_UNREADABLE)
		return is(KW_AGENT_CONNECTING, KW_REASON_PROXY_UNREADABLE);
	if (facts->local == KW_LOCAL_IS_AWAY)
		return is(KW_AGENT_CONNECTING, KW_REASON_LOCAL_AWAY);
	if (facts->local == KW_LOCAL_IS_LOST)
		return is(KW_AGENT_CONNECTING, KW_REASON_LOCAL_LOST);
	return none;
}

/* A snapshot that is not the first, or that replaces what an earlier one brought. */
static bool is_repeated(const struct kw_judge_facts *facts)
{
	return facts->purpose == KW_SYNC_RECONCILE || facts->snapshots > 1 ||
	       (facts->data == KW_SYNC_DATA_CLAIMED && facts->phase < KW_SYNC_SNAPSHOT);
}

static enum kw_agent_state state_of_way(const struct kw_judge_facts *facts)
{
	return is_repeated(facts) ? KW_AGENT_RECONCILING : KW_AGENT_BOOTSTRAPPING;
}

/* In TAIL, after a snapshot or a cursor: the reason until the data are level. */
static enum kw_agent_state state_of_tail(const struct kw_judge_facts *facts)
{
	if (facts->settled)
		return KW_AGENT_LAGGING;
	return facts->snapshots == 1 ? KW_AGENT_BOOTSTRAPPING : KW_AGENT_RECONCILING;
}

static struct kw_verdict judge_flow(const struct kw_judge_facts *facts)
{
	if (facts->paused)
		return is(KW_AGENT_LAGGING, KW_REASON_PAUSED);
	if (facts->proxy == KW_PROXY_SILENT)
		return is(KW_AGENT_STALLED, KW_REASON_PROXY_SILENT);
	if (facts->permission == KW_PERMISSION_UNCONFIRMED ||
		facts->source == KW_SOURCE_UNCONFIRMED)
		return is(KW_AGENT_STALLED, KW_REASON_UNCONFIRMED);
	if (facts->source == KW_SOURCE_STALLED)
		return is(KW_AGENT_STALLED, KW_REASON_PRIMARY_SILENT);
	if (facts->source == KW_SOURCE_DOWN)
		return is(KW_AGENT_STALLED, KW_REASON_PRIMARY_DOWN);
	if (facts->source == KW_SOURCE_CONNECTING)
		return is(KW_AGENT_STALLED, KW_REASON_PRIMARY_NOT_REACHED);
	if (facts->permission == KW_PERMISSION_RAISING)
		return is(KW_AGENT_LAGGING, KW_REASON_RAISING);
	if (facts->writes == KW_WRITES_REFUSED)
		return is(KW_AGENT_LAGGING, KW_REASON_WRITES_REFUSED);
	if (facts->writes == KW_WRITES_DELAYED && facts->phase >= KW_SYNC_CLAIM)
		return is(facts->settled ? KW_AGENT_LAGGING : state_of_way(facts),
			KW_REASON_WRITES_DELAYED);
	if (facts->owed > 0)
		return is(KW_AGENT_LAGGING, KW_REASON_OWED);
	return none;
}

/* Not level since the last snapshot began, or before it. */
static struct kw_verdict judge_way(const struct kw_judge_facts *facts)
{
	enum kw_agent_state state = state_of_way(facts);

	if (facts->held)
		return is(KW_AGENT_HELD, KW_REASON_HELD);
	switch (facts->phase) {
	case KW_SYNC_WAIT:
	case KW_SYNC_COUNT:
	case KW_SYNC_SAMPLE:
	case KW_SYNC_CLAIM:
		return is(state, KW_REASON_WAITING);
	case KW_SYNC_SNAPSHOT:
		return is(state, facts->limited ? KW_REASON_LIMITED : KW_REASON_SNAPSHOT);
	case KW_SYNC_SETTLE:
		return is(state, KW_REASON_SETTLE);
	case KW_SYNC_PRUNE:
	case KW_SYNC_HELD:
		return is(state, KW_REASON_PRUNE);
	case KW_SYNC_TAIL:
		break;
	}
	return facts->table == KW_TABLE_INCOMPLETE ? is(state, KW_REASON_INCOMPLETE) : none;
}

/* What the local data or the table are known to lack. */
static struct kw_verdict judge_lacks(const struct kw_judge_facts *facts)
{
	if (facts->evicted > 0)
		return is(KW_AGENT_LAGGING, KW_REASON_EVICTED);
	if (facts->foreign > 0)
		return is(KW_AGENT_LAGGING, KW_REASON_FOREIGN);
	if (facts->quarantined > 0)
		return is(KW_AGENT_LAGGING, KW_REASON_QUARANTINED);
	if (facts->audit == KW_AUDIT_DOUBTS)
		return is(KW_AGENT_LAGGING, KW_REASON_DOUBTED);
	if (facts->audit == KW_AUDIT_DIFFERS)
		return is(KW_AGENT_LAGGING, KW_REASON_DIFFERS);
	if (facts->functions == KW_FUNCTIONS_ARE_REFUSED)
		return is(KW_AGENT_LAGGING, KW_REASON_FUNCTIONS_REFUSED);
	if (facts->functions == KW_FUNCTIONS_ARE_HELD)
		return is(KW_AGENT_LAGGING, KW_REASON_FUNCTIONS_HELD);
	if (facts->source == KW_SOURCE_RECONCILING || facts->source == KW_SOURCE_SCANNING)
		return is(KW_AGENT_LAGGING, KW_REASON_TABLE_RECONCILES);
	if (facts->source == KW_SOURCE_FULL)
		return is(KW_AGENT_LAGGING, KW_REASON_TABLE_LACKS);
	if (facts->source == KW_SOURCE_HELD)
		return is(KW_AGENT_LAGGING, KW_REASON_TABLE_HELD);
	if (facts->source != KW_SOURCE_LIVE)
		return is(KW_AGENT_LAGGING, KW_REASON_TABLE_UNKNOWN);
	return none;
}

static struct kw_verdict judge_lag(const struct kw_judge_facts *facts)
{
	if (facts->table == KW_TABLE_UNFRESH)
		return is(state_of_tail(facts), KW_REASON_TABLE_UNFRESH);
	if (facts->table == KW_TABLE_BEHIND)
		return is(KW_AGENT_LAGGING, KW_REASON_TABLE_BEHIND);
	if (facts->equality == KW_SYNC_UNPROVEN)
		return is(state_of_way(facts), KW_REASON_UNPROVEN);
	if (facts->equality == KW_SYNC_UNEQUAL && facts->limited)
		return is(state_of_tail(facts), KW_REASON_LIMITED);
	if (facts->equality == KW_SYNC_UNEQUAL)
		return is(state_of_tail(facts),
			facts->settled ? KW_REASON_BEHIND : KW_REASON_CATCHING_UP);
	if (facts->functions == KW_FUNCTIONS_LATE)
		return is(state_of_tail(facts), KW_REASON_FUNCTIONS_LATE);
	return none;
}

struct kw_verdict kw_judge(const struct kw_judge_facts *facts, enum kw_agent_state before)
{
	static struct kw_verdict (*const judges[])(const struct kw_judge_facts *) = {
		judge_failures, judge_connections, judge_flow, judge_way, judge_lacks, judge_lag};

	for (size_t i = 0; i < sizeof judges / sizeof *judges; i++) {
		struct kw_verdict verdict = judges[i](facts);

		assert((verdict.state == KW_AGENT_WARM) == (verdict.reason == KW_REASON_NONE));
		if (verdict.reason != KW_REASON_NONE)
			return verdict;
	}
	assert(facts->phase == KW_SYNC_TAIL && facts->table == KW_TABLE_FRESH);
	if (before == KW_AGENT_FAILED)
		return is(KW_AGENT_LAGGING, KW_REASON_RECOVERING);
	return facts->unsaved ? is(KW_AGENT_WARM, KW_REASON_UNSAVED) : none;
}
