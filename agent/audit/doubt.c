/* What the local server says at each look, and what follows from it: see cause.h. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

/* So long a cursor can say that the data are in doubt, before a reconcile ends its position. */
#define RECONCILE_US 1000000

static bool is_on(const struct kw_audit *audit)
{
	return audit->options.keys_per_second > 0;
}

const char *kw_audit_remedy(const struct kw_audit *audit)
{
	if (audit->refusal[0])
		return audit->refusal;
	return is_on(audit) ? "all keys are compared with the table"
			    : "all keys are read again, because the audit is off";
}

static void log_cause(const struct kw_audit *audit, enum kw_cause cause)
{
	kw_log_warn("audit", "%s: %s", kw_cause_text(cause), kw_audit_remedy(audit));
}

enum kw_cause kw_audit_cause(const struct kw_audit *audit)
{
	return audit->causes.present;
}

uint64_t kw_audit_doubted(const struct kw_audit *audit)
{
	return kw_audit_unmended(audit) + (kw_audit_cause(audit) != KW_CAUSE_NONE) +
	       kw_causes_wonder(&audit->causes);
}

bool kw_audit_urge(struct kw_audit *audit, enum kw_cause cause, uint64_t now_us)
{
	if (!is_on(audit))
		return false;
	kw_digests_tell(&audit->options.sync->index, KW_DIGESTS_SUSPECTED);
	if (audit->causes.present == KW_CAUSE_NONE)
		log_cause(audit, cause);
	kw_causes_tell(&audit->causes, cause, now_us);
	return true;
}

static void learn_snapshot(struct kw_audit *audit, uint64_t now_us)
{
	uint64_t snapshots = audit->options.sync->snapshots;

	if (audit->snapshots != snapshots)
		kw_causes_snapshot(&audit->causes, now_us);
	audit->snapshots = snapshots;
}

/*
 * Without an audit a reconcile brings what may be lost. The cause stays until it begins. A reset is
 * the only cause then.
 */
void kw_audit_doubt(struct kw_audit *audit, uint64_t now_us)
{
	struct kw_sync *sync = audit->options.sync;
	const struct kw_causes *causes = &audit->causes;

	learn_snapshot(audit, now_us);
	if (is_on(audit) || !kw_causes_due(causes, now_us) ||
		now_us - causes->resets.since_us < RECONCILE_US ||
		kw_sync_phase(sync) != KW_SYNC_TAIL || sync->intake != KW_SYNC_INTAKE_OPEN ||
		!kw_follow_up(sync->follow) || !kw_sync_may_follow(sync))
		return;
	kw_sync_restart(sync, kw_cause_text(causes->present));
}

/* Clocks, and expired keys. */
static void look(struct kw_audit *audit, uint64_t now_us)
{
	const struct kw_sync *sync = audit->options.sync;
	const struct kw_local *local = sync->local;
	const struct kw_cause_look look = {
		.asked_us = local->asked_us,
		.told_us = now_us,
		.server_us = local->facts.clock_us,
		.expired = local->facts.expired,
		.resets = local->facts.resets,
		.expires = local->facts.expires,
		.handed = kw_pair_progress(sync->pair)->taken,
		.level = kw_sync_phase(sync) == KW_SYNC_TAIL &&
			 kw_sync_equality(sync, now_us) == KW_SYNC_EQUAL,
	};
	enum kw_cause cause = kw_causes_look(&audit->causes, &look);

	if (cause == KW_CAUSE_NONE)
		return;
	kw_digests_tell(&audit->options.sync->index, KW_DIGESTS_SUSPECTED);
	log_cause(audit, cause);
}

void kw_audit_looked(struct kw_audit *audit)
{
	const struct kw_sync *sync = audit->options.sync;
	const struct kw_local_facts *facts = &sync->local->facts;
	uint64_t now_us = kw_clock_us();

	/* A snapshot that has begun does not bring what was lost after its first keys. */
	learn_snapshot(audit, now_us);
	if (kw_causes_counted(&audit->causes, facts->identity.run_id, facts->resets, now_us))
		log_cause(audit, KW_CAUSE_RESET);
	/* A replica expires nothing by itself. */
	if (kw_pair_is_led(sync->pair))
		kw_causes_forget(&audit->causes);
	else if (is_on(audit))
		look(audit, now_us);
}
