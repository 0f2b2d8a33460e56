/* What the agent's parts amount to, in one word and a sentence. */
#include "agent.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define REPORT_INTERVAL_US 100000
#define REPORT_AT_LEAST_US 1000000

#define ALL                                                                                        \
	(KW_SM_TO(KW_AGENT_CONNECTING) | KW_SM_TO(KW_AGENT_BOOTSTRAPPING) |                        \
		KW_SM_TO(KW_AGENT_LAGGING) | KW_SM_TO(KW_AGENT_RECONCILING) |                      \
		KW_SM_TO(KW_AGENT_STALLED) | KW_SM_TO(KW_AGENT_FAILED))

static const struct kw_sm_state states[] = {
	[KW_AGENT_CONNECTING] = {"connecting", ALL | KW_SM_TO(KW_AGENT_WARM), KW_SM_INITIAL},
	[KW_AGENT_BOOTSTRAPPING] = {"bootstrapping", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_WARM] = {"warm", ALL},
	[KW_AGENT_LAGGING] = {"lagging", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_RECONCILING] = {"reconciling", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_STALLED] = {"stalled", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_FAILED] = {"failed", ALL, KW_SM_FAILURE},
};

const struct kw_sm_conf kw_agent_machine = {"agent", states, KW_AGENT_FAILED + 1};

struct verdict {
	enum kw_agent_state state;
	char reason[KW_AGENT_REASON];
};

/* Fill in the verdict; returns true so that a check can end in `return decide(...)`. */
static bool decide(struct verdict *verdict, enum kw_agent_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool decide(struct verdict *verdict, enum kw_agent_state state, const char *format, ...)
{
	va_list args;

	verdict->state = state;
	va_start(args, format);
	vsnprintf(verdict->reason, sizeof verdict->reason, format, args);
	va_end(args);
	/* It quotes servers, whose words may be any bytes; JSON wants text. */
	for (char *c = verdict->reason; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
	return true;
}

/* What only a person can mend. */
static bool is_failed(const struct kw_agent *agent, struct verdict *verdict)
{
	const struct kw_apply *apply = agent->apply;
	const struct kw_follow *follow = &agent->follow;
	bool hopeless = follow->code == KW_E_REFUSED || follow->code == KW_E_PROTOCOL ||
			follow->code == KW_E_CONFIG;

	if (hopeless && !kw_follow_up(follow))
		return decide(verdict, KW_AGENT_FAILED, "%s", follow->why);
	if (apply->ops->needs_local && agent->local.state == KW_LOCAL_REFUSED)
		return decide(verdict, agent->local.passing ? KW_AGENT_LAGGING : KW_AGENT_FAILED,
			"%s", kw_local_why(&agent->local));
	if (kw_reread_is_damage(&agent->sync.reread))
		return decide(verdict, KW_AGENT_FAILED,
			"the proxy's table does not verify (%s): if this lasts, restart the proxy",
			agent->sync.reread.why);
	if (agent->sync.obstacle == KW_SYNC_NEEDS_PERSON)
		return decide(verdict, KW_AGENT_FAILED, "%s", agent->sync.why);
	if (apply->trouble == KW_TROUBLE_FAIL)
		return decide(verdict, KW_AGENT_FAILED, "%s", apply->trouble_why);
	if (apply->blocked && apply->blocked_kind == KW_SERVER_E_READONLY)
		return decide(verdict, KW_AGENT_FAILED,
			"the local server is a replica (\"%s\"): send it REPLICAOF NO ONE, or "
			"point redis.address at a server of its own",
			apply->blocked_why);
	if (apply->blocked && apply->blocked_kind == KW_SERVER_E_PERMISSION)
		return decide(verdict, KW_AGENT_FAILED,
			"the local server refuses: \"%s\": grant the agent's user +restore +unlink "
			"+flushdb +select +scan on all keys",
			apply->blocked_why);
	return false;
}

/* One end is missing. */
static bool is_unconnected(const struct kw_agent *agent, struct verdict *verdict)
{
	if (!kw_follow_up(&agent->follow))
		return decide(verdict, KW_AGENT_CONNECTING, "%s", agent->follow.why);
	if (agent->follow.superblock.epoch == 0)
		return decide(
			verdict, KW_AGENT_CONNECTING, "the proxy's table is not readable yet");
	if (!agent->apply->ops->needs_local)
		return false;
	if (!kw_local_ready(&agent->local))
		return decide(verdict, KW_AGENT_CONNECTING, "%s", kw_local_why(&agent->local));
	if (agent->local.redis && kw_redis_lost(agent->local.redis))
		return decide(verdict, KW_AGENT_CONNECTING, "local server: %s",
			kw_redis_lost(agent->local.redis));
	return false;
}

static bool is_stalled(const struct kw_agent *agent, struct verdict *verdict, uint64_t now_us)
{
	const struct kw_follow *follow = &agent->follow;
	uint64_t silence = now_us - follow->heartbeat_us;

	if (now_us > follow->heartbeat_us && silence > KW_FOLLOW_HEARTBEAT_US)
		return decide(verdict, KW_AGENT_STALLED,
			"the proxy's heartbeat stopped %" PRIu64 " s ago: it hangs",
			silence / 1000000);
	if (follow->superblock.source_state == KW_SOURCE_DOWN)
		return decide(verdict, KW_AGENT_STALLED, "the proxy cannot reach its primary");
	if (follow->superblock.source_state == KW_SOURCE_CONNECTING)
		return decide(
			verdict, KW_AGENT_STALLED, "the proxy has not reached its primary yet");
	return false;
}

/* How being not level is called. */
static enum kw_agent_state state_of_way(const struct kw_agent *agent)
{
	const struct kw_sync *sync = &agent->sync;
	bool repeated =
		sync->purpose == KW_SYNC_RECONCILE || sync->snapshots > 1 ||
		(sync->data == KW_SYNC_DATA_CLAIMED && kw_sync_phase(sync) < KW_SYNC_SNAPSHOT);

	return repeated ? KW_AGENT_RECONCILING : KW_AGENT_BOOTSTRAPPING;
}

/* Not level since the last snapshot began, or before it. */
static bool is_on_the_way(const struct kw_agent *agent, struct verdict *verdict)
{
	const struct kw_sync *sync = &agent->sync;
	enum kw_agent_state state = state_of_way(agent);

	switch (kw_sync_phase(sync)) {
	case KW_SYNC_WAIT:
	case KW_SYNC_COUNT:
	case KW_SYNC_CLAIM:
		return decide(verdict, state, "%s", sync->why);
	case KW_SYNC_SNAPSHOT:
		return decide(verdict, state, "reading the snapshot");
	case KW_SYNC_SETTLE:
		return decide(
			verdict, state, "%s", sync->why[0] ? sync->why : "applying the snapshot");
	case KW_SYNC_PRUNE:
		return decide(verdict, state, "%s",
			sync->why[0] ? sync->why
				     : "deleting local keys that the table does not have");
	case KW_SYNC_TAIL:
		break;
	}
	if (!agent->follow.superblock.complete)
		return decide(verdict, state, "the proxy's first scan is not complete yet");
	return false;
}

static bool is_behind(const struct kw_agent *agent, struct verdict *verdict, uint64_t now_us)
{
	const struct kw_sync *sync = &agent->sync;
	uint64_t quarantined = kw_quarantine_count(&agent->quarantine);
	uint64_t equal_us = sync->progress.equal_us;
	bool bootstrapping = !sync->settled && sync->snapshots == 1;

	if (quarantined > 0)
		return decide(verdict, KW_AGENT_LAGGING,
			"%" PRIu64 " keys in quarantine, refused by the local server: \"%s\"",
			quarantined,
			agent->quarantine.listed ? agent->quarantine.keys[0].reason
						 : "see the log");
	switch ((enum kw_source_state)agent->follow.superblock.source_state) {
	case KW_SOURCE_RECONCILING:
	case KW_SOURCE_SCANNING:
		return decide(verdict, KW_AGENT_LAGGING,
			"the proxy reconciles its table with the primary");
	case KW_SOURCE_FULL:
		return decide(verdict, KW_AGENT_LAGGING,
			"the proxy lacks keys (its table is full, or they cannot be fetched): see "
			"its status");
	case KW_SOURCE_LIVE:
	case KW_SOURCE_CONNECTING:
	case KW_SOURCE_DOWN:
		break;
	}
	if (agent->follow.superblock.fresh_us == 0)
		return decide(verdict,
			!sync->settled
				? (bootstrapping ? KW_AGENT_BOOTSTRAPPING : KW_AGENT_RECONCILING)
				: KW_AGENT_LAGGING,
			"the proxy fetches what changed while it scanned");
	if (kw_level_source_lag_us(&agent->follow.superblock) > agent->sync.warm_lag_us)
		return decide(verdict, KW_AGENT_LAGGING,
			"the proxy's table is %" PRIu64 " ms behind the primary: keys change there "
			"faster than they are fetched (see pace and dirty_keys of the proxy)",
			kw_level_source_lag_us(&agent->follow.superblock) / 1000);
	switch (kw_sync_equality(sync, now_us)) {
	case KW_SYNC_EQUAL:
		return false;
	case KW_SYNC_UNPROVEN:
		return decide(verdict, state_of_way(agent),
			"asking the local server whether it evicted any of it");
	case KW_SYNC_UNEQUAL:
		break;
	}
	if (!sync->settled)
		return decide(verdict,
			bootstrapping ? KW_AGENT_BOOTSTRAPPING : KW_AGENT_RECONCILING,
			"catching up with what changed meanwhile");
	return decide(verdict, KW_AGENT_LAGGING, "%" PRIu64 " ms behind the proxy",
		equal_us ? (now_us - equal_us) / 1000 : 0);
}

/* A server that makes room by itself does not hold what it was given. */
static bool has_evicted(const struct kw_agent *agent, struct verdict *verdict)
{
	const struct kw_sync *sync = &agent->sync;

	if (sync->debt.evicted == 0)
		return false;
	return decide(verdict, KW_AGENT_LAGGING,
		"the local server evicted %" PRIu64 " keys by itself (maxmemory-policy %s): raise "
		"its maxmemory, or set noeviction; a reconcile follows once it has stopped",
		sync->debt.evicted, agent->local.facts.policy);
}

static void judge(const struct kw_agent *agent, struct verdict *verdict, uint64_t now_us)
{
	const struct kw_apply *apply = agent->apply;

	if (is_failed(agent, verdict) || is_unconnected(agent, verdict))
		return;
	if (agent->sync.paused) {
		decide(verdict, KW_AGENT_LAGGING, "paused");
		return;
	}
	if (is_stalled(agent, verdict, now_us))
		return;
	if (apply->blocked) {
		decide(verdict, KW_AGENT_LAGGING, "the local server refuses writes: \"%s\"",
			apply->blocked_why);
		return;
	}
	if (apply->trouble == KW_TROUBLE_WAIT && kw_sync_phase(&agent->sync) >= KW_SYNC_CLAIM) {
		decide(verdict, agent->sync.settled ? KW_AGENT_LAGGING : state_of_way(agent), "%s",
			apply->trouble_why);
		return;
	}
	if (apply->owed > 0) {
		decide(verdict, KW_AGENT_LAGGING,
			"%" PRIu64 " values did not fit into the local server's memory: raise its "
			"maxmemory; a reconcile follows",
			apply->owed);
		return;
	}
	if (is_on_the_way(agent, verdict) || has_evicted(agent, verdict) ||
		is_behind(agent, verdict, now_us))
		return;
	decide(verdict, KW_AGENT_WARM, "%s", agent->sync.save.error);
}

static void report(struct kw_agent *agent, uint64_t now_us)
{
	struct kw_remote_progress progress = {
		.passed = agent->sync.passed,
		.applied = agent->sync.progress.applied,
		.lag_us = kw_agent_lag_us(agent, now_us),
		.reads = kw_reader_stats(agent->follow.reader)->reads,
		.bytes = kw_reader_stats(agent->follow.reader)->bytes,
	};
	uint64_t since = now_us - agent->reported_us;

	snprintf(progress.state, sizeof progress.state, "%s", kw_sm_name(&agent->sm));
	if (since < REPORT_INTERVAL_US)
		return;
	if (since < REPORT_AT_LEAST_US && progress.passed == agent->reported.passed &&
		progress.applied == agent->reported.applied &&
		strcmp(progress.state, agent->reported.state) == 0)
		return;
	agent->reported = progress;
	agent->reported_us = now_us;
	kw_follow_report(&agent->follow, &progress);
}

void kw_agent_evaluate(struct kw_agent *agent, uint64_t now_us)
{
	struct verdict verdict;

	judge(agent, &verdict, now_us);
	if (verdict.state == KW_AGENT_WARM && agent->sm.state == KW_AGENT_FAILED)
		decide(&verdict, KW_AGENT_LAGGING, "recovering");
	if ((int)verdict.state != agent->sm.state || strcmp(verdict.reason, agent->reason) != 0) {
		bool told = (int)verdict.state != agent->sm.state;

		kw_sm_move(&agent->sm, (int)verdict.state, verdict.reason);
		memcpy(agent->reason, verdict.reason, sizeof agent->reason);
		if (told)
			kw_log_info("agent", "%s%s%s", kw_sm_name(&agent->sm),
				agent->reason[0] ? ": " : "", agent->reason);
		agent->handlers.state(agent->handlers.arg, kw_sm_name(&agent->sm), agent->reason);
	}
	report(agent, now_us);
}

void kw_agent_doubt(struct kw_agent *agent, uint64_t now_us)
{
	if (agent->ending == KW_ENDING_NOT && agent->sm.state == KW_AGENT_WARM)
		kw_agent_evaluate(agent, now_us);
}

uint64_t kw_agent_lag_us(const struct kw_agent *agent, uint64_t now_us)
{
	uint64_t since = kw_progress_waiting_since(&agent->sync.progress);

	if (since == 0 || (agent->sync.head_since_us && agent->sync.head_since_us < since))
		since = agent->sync.head_since_us;
	return (since && now_us > since ? now_us - since : 0) +
	       kw_level_source_lag_us(&agent->follow.superblock);
}

double kw_agent_progress(const struct kw_agent *agent)
{
	const struct kw_reader_stats *stats = kw_reader_stats(agent->follow.reader);
	double share;

	switch (kw_sync_phase(&agent->sync)) {
	case KW_SYNC_WAIT:
	case KW_SYNC_COUNT:
	case KW_SYNC_CLAIM:
		return 0.0;
	case KW_SYNC_SNAPSHOT:
		share = stats->snapshot_bytes
				? (double)stats->snapshot_done / (double)stats->snapshot_bytes
				: 0.0;
		return share < 0.99 ? share : 0.99;
	case KW_SYNC_SETTLE:
	case KW_SYNC_PRUNE:
		return 0.99;
	case KW_SYNC_TAIL:
		break;
	}
	return agent->sync.settled ? 1.0 : 0.99;
}
