/* The state of the agent: the facts are gathered, judged, said in words, and told. */
#include "agent.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REPORT_INTERVAL_US 100000
#define REPORT_AT_LEAST_US 1000000

#define ALL                                                                                        \
	(KW_SM_TO(KW_AGENT_CONNECTING) | KW_SM_TO(KW_AGENT_BOOTSTRAPPING) |                        \
		KW_SM_TO(KW_AGENT_LAGGING) | KW_SM_TO(KW_AGENT_RECONCILING) |                      \
		KW_SM_TO(KW_AGENT_STALLED) | KW_SM_TO(KW_AGENT_FAILED) | KW_SM_TO(KW_AGENT_HELD))

static const struct kw_sm_state states[] = {
	[KW_AGENT_CONNECTING] = {"connecting", ALL | KW_SM_TO(KW_AGENT_WARM), KW_SM_INITIAL},
	[KW_AGENT_BOOTSTRAPPING] = {"bootstrapping", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_WARM] = {"warm", ALL},
	[KW_AGENT_LAGGING] = {"lagging", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_RECONCILING] = {"reconciling", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_STALLED] = {"stalled", ALL | KW_SM_TO(KW_AGENT_WARM)},
	[KW_AGENT_FAILED] = {"failed", ALL, KW_SM_FAILURE},
	[KW_AGENT_HELD] = {"held", ALL | KW_SM_TO(KW_AGENT_WARM)},
};

static enum kw_judge_audit audit_of(const struct kw_agent *agent)
{
	if (kw_audit_cause(agent->audit) != KW_CAUSE_NONE)
		return KW_AUDIT_DOUBTS;
	return kw_audit_unmended(agent->audit) > 0 ? KW_AUDIT_DIFFERS : KW_AUDIT_TRUSTS;
}

/* The state is never `warm` while the replica is known to be incomplete. */
static bool holds(const void *owner, int state)
{
	const struct kw_agent *agent = owner;
	const struct kw_sync *sync = &agent->sync;

	return state != KW_AGENT_WARM ||
	       (kw_sync_phase(sync) == KW_SYNC_TAIL && !kw_brake_holds(&sync->brake) &&
		       sync->progress.equal_us > 0 && sync->debt.evicted.count == 0 &&
		       sync->debt.foreign.count == 0 && kw_pair_progress(agent->pair)->owed == 0 &&
		       kw_quarantine_count(&agent->quarantine) == 0 &&
		       audit_of(agent) == KW_AUDIT_TRUSTS &&
		       kw_functions_fact(&agent->functions) == KW_FUNCTIONS_FINE &&
		       agent->follow.superblock.complete);
}

const struct kw_sm_conf kw_agent_machine = {"agent", states, KW_AGENT_HELD + 1, holds};

/* ---- the facts ---- */

static uint64_t silence_us(const struct kw_agent *agent, uint64_t now_us)
{
	const struct kw_follow *follow = &agent->follow;
	uint64_t heard_us =
		kw_follow_asks_mandate(follow) ? follow->heartbeat_begun_us : follow->heartbeat_us;

	return now_us > heard_us ? now_us - heard_us : 0;
}

/*
 * A proxy that is stopped cannot say that it lost its mandate. When it published last, the
 * confirmation was at most lease_ms old. So the silence is limited in such a way that both together
 * stay below one second and warm.lag_ms. A long warm.lag_ms makes it no longer than without a
 * mandate.
 */
static uint64_t silence_limit_us(const struct kw_agent *agent)
{
	uint64_t lag_us = agent->sync.warm_lag_us;

	if (!kw_follow_asks_mandate(&agent->follow) || lag_us > KW_FOLLOW_HEARTBEAT_US)
		return KW_FOLLOW_HEARTBEAT_US;
	return lag_us > KW_FOLLOW_MANDATE_LEAST_US ? lag_us : KW_FOLLOW_MANDATE_LEAST_US;
}

static enum kw_judge_proxy proxy_of(const struct kw_agent *agent, uint64_t now_us)
{
	const struct kw_follow *follow = &agent->follow;

	enum kw_code code;

	if (kw_follow_is_hopeless(follow, &code))
		return code == KW_E_REFUSED    ? KW_PROXY_REFUSES
		       : code == KW_E_PROTOCOL ? KW_PROXY_FOREIGN
					       : KW_PROXY_MISCONFIGURED;
	if (!kw_follow_up(follow))
		return KW_PROXY_AWAY;
	if (follow->superblock.epoch == 0)
		return KW_PROXY_UNREADABLE;
	return silence_us(agent, now_us) > silence_limit_us(agent) ? KW_PROXY_SILENT
								   : KW_PROXY_HEARD;
}

static enum kw_judge_local local_of(const struct kw_agent *agent)
{
	const struct kw_local *local = &agent->local;

	if (!kw_pair_needs_local(agent->pair))
		return KW_LOCAL_IS_READY;
	if (kw_local_waits(local))
		return KW_LOCAL_PASSES;
	if (kw_local_is_refused(local))
		return KW_LOCAL_IS_UNFIT;
	if (!kw_local_ready(local))
		return KW_LOCAL_IS_AWAY;
	return local->redis && kw_redis_lost(local->redis) ? KW_LOCAL_IS_LOST : KW_LOCAL_IS_READY;
}

static enum kw_judge_writes writes_of(struct kw_pair *pair)
{
	enum kw_trouble_kind trouble = kw_pair_trouble(pair)->kind;

	if (trouble == KW_TROUBLE_FAIL)
		return KW_WRITES_FAILED;
	switch (kw_pair_refusal(pair)->kind) {
	case KW_SERVER_E_NONE:
		return trouble == KW_TROUBLE_WAIT ? KW_WRITES_DELAYED : KW_WRITES_TAKEN;
	case KW_SERVER_E_READONLY:
		return KW_WRITES_READONLY;
	case KW_SERVER_E_PERMISSION:
		return KW_WRITES_FORBIDDEN;
	default:
		return KW_WRITES_REFUSED;
	}
}

static struct kw_judge_facts gather(const struct kw_agent *agent, uint64_t now_us)
{
	const struct kw_sync *sync = &agent->sync;
	const struct kw_superblock *superblock = &agent->follow.superblock;

	return (struct kw_judge_facts){
		.proxy = proxy_of(agent, now_us),
		.local = local_of(agent),
		.unfit = agent->local.unfit,
		.writes = writes_of(agent->pair),
		.source = (enum kw_source_state)superblock->source_state,
		.permission = sync->authority.permission,
		.table = kw_level_table(superblock, sync->warm_lag_us),
		.unsaved = sync->save.error[0] != '\0',
		.damaged = kw_reread_is_damage(&sync->reread),
		.phase = kw_sync_phase(sync),
		.obstacle = sync->obstacle,
		.purpose = sync->purpose,
		.data = sync->data,
		.equality = kw_sync_equality(sync, now_us),
		.audit = audit_of(agent),
		.functions = kw_functions_fact(&agent->functions),
		.paused = sync->intake == KW_SYNC_INTAKE_PAUSED,
		.limited = kw_limit_holds(&agent->pair->limit, now_us),
		.held = kw_brake_holds(&sync->brake),
		.settled = sync->settled,
		.snapshots = sync->snapshots,
		.owed = kw_pair_progress(agent->pair)->owed,
		.evicted = sync->debt.evicted.count,
		.foreign = sync->debt.foreign.count,
		.quarantined = kw_quarantine_count(&agent->quarantine),
	};
}

/* ---- the words ---- */

struct words {
	char text[KW_AGENT_REASON];
};

static void say(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct words *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(words->text, sizeof words->text, format, args);
	va_end(args);
	/* It quotes servers, which can send any bytes; JSON wants text. */
	for (char *c = words->text; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
}

/* The reasons whose words are the same each time. */
static const char *const sentences[KW_REASON_NONE + 1] = {
	[KW_REASON_PROXY_UNREADABLE] = "the proxy's table is not readable yet",
	[KW_REASON_PAUSED] = "paused",
	[KW_REASON_UNCONFIRMED] =
		"the proxy's server is not confirmed as the primary: see the proxy's status",
	[KW_REASON_RAISING] = "the cursor must say the table's term first",
	[KW_REASON_PRIMARY_SILENT] =
		"the proxy's primary does not answer: it hangs, or a long command runs there (see "
		"the proxy's status)",
	[KW_REASON_PRIMARY_DOWN] = "the proxy cannot reach its primary",
	[KW_REASON_PRIMARY_NOT_REACHED] = "the proxy has not reached its primary yet",
	[KW_REASON_SNAPSHOT] = "reading the snapshot",
	[KW_REASON_SETTLE] = "applying the snapshot",
	[KW_REASON_PRUNE] = "deleting local keys that the table does not have",
	[KW_REASON_INCOMPLETE] = "the proxy's first scan is not complete yet",
	[KW_REASON_TABLE_RECONCILES] = "the proxy reconciles its table with the primary",
	[KW_REASON_TABLE_LACKS] =
		"the proxy lacks keys (its table is full, or they cannot be fetched): see its "
		"status",
	[KW_REASON_TABLE_HELD] =
		"the proxy's primary lacks so many keys that the proxy holds their deletion back: "
		"see its status",
	[KW_REASON_TABLE_UNKNOWN] = "the proxy is in a state that this agent does not know, so the "
				    "proxy is of a later version: upgrade this agent",
	[KW_REASON_TABLE_UNFRESH] = "the proxy fetches what changed while it scanned",
	[KW_REASON_UNPROVEN] = "asking the local server whether it evicted any of it",
	[KW_REASON_CATCHING_UP] = "catching up with what changed meanwhile",
	[KW_REASON_FUNCTIONS_LATE] = "loading the primary's function libraries",
	[KW_REASON_RECOVERING] = "recovering",
	[KW_REASON_NONE] = "",
};

/* The sentence of the part that knows why. NULL: there is none. */
static const char *words_of_part(const struct kw_agent *agent, enum kw_reason reason)
{
	switch (reason) {
	case KW_REASON_PROXY_REFUSES:
	case KW_REASON_PROXY_FOREIGN:
	case KW_REASON_PROXY_MISCONFIGURED:
	case KW_REASON_PROXY_AWAY:
		return agent->follow.why;
	case KW_REASON_LOCAL_WAITS:
	case KW_REASON_LOCAL_REFUSES:
	case KW_REASON_LOCAL_TAKEN:
	case KW_REASON_LOCAL_YIELDED:
	case KW_REASON_LOCAL_REPLICA:
	case KW_REASON_LOCAL_UNSUPPORTED:
	case KW_REASON_LOCAL_FORBIDS:
	case KW_REASON_LOCAL_CURSOR:
	case KW_REASON_LOCAL_AWAY:
		return kw_local_why(&agent->local);
	case KW_REASON_NO_CONSENT:
	case KW_REASON_OTHER_DATA:
	case KW_REASON_DEPOSED:
	case KW_REASON_UNFENCED:
	case KW_REASON_TABLE_UNFIT:
	case KW_REASON_PRUNE_FORBIDDEN:
	case KW_REASON_WAITING:
		return agent->sync.why;
	case KW_REASON_UNCONFIRMED:
		return agent->sync.authority.permission == KW_PERMISSION_UNCONFIRMED
			       ? agent->sync.why
			       : NULL;
	case KW_REASON_SETTLE:
	case KW_REASON_PRUNE:
	case KW_REASON_RAISING:
		return agent->sync.why[0] ? agent->sync.why : NULL;
	case KW_REASON_WRITES_FAILED:
	case KW_REASON_WRITES_DELAYED:
		return kw_pair_trouble(agent->pair)->why;
	case KW_REASON_FUNCTIONS_REFUSED:
	case KW_REASON_FUNCTIONS_HELD:
		return agent->functions.why;
	case KW_REASON_UNSAVED:
		return agent->sync.save.error;
	default:
		return NULL;
	}
}

static void say_silent(struct words *words, const struct kw_agent *agent, uint64_t now_us)
{
	uint64_t seconds = silence_us(agent, now_us) / 1000000;

	if (kw_follow_asks_mandate(&agent->follow) && seconds < 2)
		say(words, "the proxy's heartbeat stopped: its server can have lost its mandate");
	else
		say(words, "the proxy's heartbeat stopped %" PRIu64 " s ago: it hangs", seconds);
}

/* Reasons on the side of the proxy, with their figures. */
static void say_proxy(
	struct words *words, const struct kw_agent *agent, enum kw_reason reason, uint64_t now_us)
{
	const struct kw_superblock *superblock = &agent->follow.superblock;
	uint64_t equal_us = agent->sync.progress.equal_us;

	if (reason == KW_REASON_DAMAGED)
		say(words,
			"the proxy's table does not verify (%s): if this lasts, restart the proxy",
			agent->sync.reread.why);
	if (reason == KW_REASON_PROXY_SILENT)
		say_silent(words, agent, now_us);
	if (reason == KW_REASON_TABLE_BEHIND)
		say(words, "the proxy's table is %" PRIu64 " ms behind the primary: %s",
			kw_level_source_lag_us(superblock, 0) / 1000,
			kw_level_moves(superblock)
				? "keys change there faster than they are fetched (see pace and "
				  "dirty_keys of the proxy)"
				: "nothing has come from there since (see the proxy's status)");
	if (reason == KW_REASON_BEHIND)
		say(words, "%" PRIu64 " ms behind the proxy",
			equal_us ? (now_us - equal_us) / 1000 : 0);
}

/* Reasons why the local server does not take what is handed on. */
static void say_refusal(struct words *words, const struct kw_agent *agent, enum kw_reason reason)
{
	const char *why = kw_pair_refusal(agent->pair)->words;

	if (reason == KW_REASON_WRITES_READONLY)
		say(words,
			"the local server is a replica (\"%s\"): send it REPLICAOF NO ONE, or "
			"point redis.address at a server of its own",
			why);
	if (reason == KW_REASON_WRITES_FORBIDDEN)
		say(words, "the local server refuses: \"%.120s\": %s", why,
			kw_local_grant(&agent->local,
				"grant the agent's user +restore +unlink +flushdb +select +scan on "
				"all keys"));
	if (reason == KW_REASON_WRITES_REFUSED)
		say(words, "the local server refuses writes: \"%s\"", why);
	if (reason == KW_REASON_LOCAL_LOST)
		say(words, "local server: %s", kw_redis_lost(agent->local.redis));
	if (reason == KW_REASON_LIMITED)
		say(words,
			"apply.bytes_per_second=%" PRIu64
			" holds back what goes into the local server",
			agent->pair->limit.bucket.per_second);
}

/* Deletions that wait for approval. */
static void say_held(struct words *words, const struct kw_agent *agent, enum kw_reason reason)
{
	char text[KW_SYNC_WHY];

	if (reason != KW_REASON_HELD)
		return;
	kw_brake_words(&agent->sync.brake, text, sizeof text);
	say(words, "%s", text);
}

/* Reasons of what the local data lack. */
static void say_lack(struct words *words, const struct kw_agent *agent, enum kw_reason reason)
{
	const struct kw_quarantine *quarantine = &agent->quarantine;

	if (reason == KW_REASON_OWED)
		say(words,
			"%" PRIu64 " values did not fit into the local server's memory: raise its "
			"maxmemory; a reconcile follows",
			kw_pair_progress(agent->pair)->owed);
	if (reason == KW_REASON_EVICTED)
		say(words,
			"the local server evicted %" PRIu64
			" keys by itself (maxmemory-policy %s): "
			"raise its maxmemory, or set noeviction; a reconcile follows once it has "
			"stopped",
			agent->sync.debt.evicted.count, agent->local.facts.policy);
	if (reason == KW_REASON_FOREIGN)
		say(words,
			"other clients wrote to the local server (%" PRIu64
			" calls, the last of them %s): stop them; %s",
			agent->sync.debt.foreign.count, agent->local.facts.writers.last,
			agent->sync.debt.foreign.audited
				? kw_audit_remedy(agent->audit)
				: "a reconcile follows once they have stopped");
	if (reason == KW_REASON_QUARANTINED)
		say(words, "%" PRIu64 " keys in quarantine, refused by the local server: \"%s\"",
			kw_quarantine_count(quarantine),
			quarantine->listed ? quarantine->keys[0].reason : "see the log");
	if (reason == KW_REASON_DIFFERS)
		say(words,
			"%" PRIu64 " keys differ from the table: they are being mended (see "
			"the log)",
			kw_audit_unmended(agent->audit));
	if (reason == KW_REASON_DOUBTED)
		say(words, "%s: %s", kw_cause_text(kw_audit_cause(agent->audit)),
			kw_audit_remedy(agent->audit));
}

static void describe(
	struct words *words, const struct kw_agent *agent, enum kw_reason reason, uint64_t now_us)
{
	const char *given = words_of_part(agent, reason);

	words->text[0] = '\0';
	if (!given)
		given = sentences[reason];
	if (given) {
		say(words, "%s", given);
		return;
	}
	say_proxy(words, agent, reason, now_us);
	say_refusal(words, agent, reason);
	say_held(words, agent, reason);
	say_lack(words, agent, reason);
	assert(words->text[0]);
}

/* ---- telling ---- */

static void report(struct kw_agent *agent, uint64_t now_us)
{
	struct kw_remote_progress progress = {
		.passed = kw_sync_passed(&agent->sync),
		.applied = agent->sync.progress.applied,
		.lag_us = kw_agent_lag_us(agent, now_us),
		.reads = kw_reader_stats(agent->follow.reader)->reads,
		.bytes = kw_reader_stats(agent->follow.reader)->bytes,
		.ticket = agent->sync.tokens.ticket,
	};
	uint64_t since = now_us - agent->reported_us;

	snprintf(progress.state, sizeof progress.state, "%s", kw_sm_name(&agent->sm));
	if (since < REPORT_INTERVAL_US && progress.ticket == agent->reported.ticket)
		return;
	if (since < REPORT_AT_LEAST_US && progress.ticket == agent->reported.ticket &&
		progress.passed == agent->reported.passed &&
		progress.applied == agent->reported.applied &&
		strcmp(progress.state, agent->reported.state) == 0)
		return;
	agent->reported = progress;
	agent->reported_us = now_us;
	kw_follow_report(&agent->follow, &progress);
}

/* Also when the trouble is another one: the state alone would not show it. */
static void log_state(const struct kw_agent *agent, bool moved, bool other_cause)
{
	enum kw_log_level level = kw_agent_state_level((enum kw_agent_state)agent->sm.state);

	if (moved || (other_cause && level <= KW_LOG_WARN))
		kw_log_state(level, "agent", kw_sm_name(&agent->sm),
			kw_agent_reason_row(agent->cause)->code, agent->reason);
}

void kw_agent_evaluate(struct kw_agent *agent, uint64_t now_us)
{
	const struct kw_judge_facts facts = gather(agent, now_us);
	struct kw_verdict verdict = kw_judge(&facts, (enum kw_agent_state)agent->sm.state);
	bool moves = (int)verdict.state != agent->sm.state, other = verdict.reason != agent->cause;
	struct words words;

	assert(kw_agent_runs(agent));
	describe(&words, agent, verdict.reason, now_us);
	if (moves || other || strcmp(words.text, agent->reason) != 0) {
		kw_sm_move(&agent->sm, (int)verdict.state, words.text);
		memcpy(agent->reason, words.text, sizeof agent->reason);
		agent->cause = verdict.reason;
		log_state(agent, moves, other);
		agent->handlers.state(agent->handlers.arg, kw_sm_name(&agent->sm), agent->reason);
	}
	report(agent, now_us);
}

void kw_agent_doubt(struct kw_agent *agent, uint64_t now_us)
{
	if (kw_agent_runs(agent) && agent->sm.state == KW_AGENT_WARM)
		kw_agent_evaluate(agent, now_us);
}

static uint64_t silent_us(const struct kw_agent *agent, uint64_t now_us)
{
	uint64_t heard_us = agent->follow.heartbeat_us;

	return now_us > heard_us ? now_us - heard_us : 0;
}

uint64_t kw_agent_source_lag_us(const struct kw_agent *agent, uint64_t now_us)
{
	return kw_level_source_lag_us(&agent->follow.superblock, silent_us(agent, now_us));
}

uint64_t kw_agent_lag_us(const struct kw_agent *agent, uint64_t now_us)
{
	const struct kw_progress *progress = &agent->sync.progress;
	const struct kw_superblock *superblock = &agent->follow.superblock;
	uint64_t since = kw_progress_waiting_since(progress);

	if (since == 0 || (agent->sync.head_since_us && agent->sync.head_since_us < since))
		since = agent->sync.head_since_us;
	return kw_level_lag_us(superblock, silent_us(agent, now_us),
		since && now_us > since ? now_us - since : 0,
		progress->epoch == superblock->epoch ? progress->fresh_us : 0);
}

double kw_agent_progress(const struct kw_agent *agent)
{
	const struct kw_reader_stats *stats = kw_reader_stats(agent->follow.reader);
	double share;

	switch (kw_sync_phase(&agent->sync)) {
	case KW_SYNC_WAIT:
	case KW_SYNC_COUNT:
	case KW_SYNC_SAMPLE:
	case KW_SYNC_CLAIM:
		return 0.0;
	case KW_SYNC_SNAPSHOT:
		share = stats->snapshot_bytes
				? (double)stats->snapshot_done / (double)stats->snapshot_bytes
				: 0.0;
		return share < 0.99 ? share : 0.99;
	case KW_SYNC_SETTLE:
	case KW_SYNC_PRUNE:
	case KW_SYNC_HELD:
		return 0.99;
	case KW_SYNC_TAIL:
		break;
	}
	return agent->sync.settled ? 1.0 : 0.99;
}
