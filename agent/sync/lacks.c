/* What the local data lack, when a reconcile brings it, and whether the data are level. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

struct kw_debt_counts kw_sync_counts(const struct kw_sync *sync)
{
	const struct kw_local_facts *facts = &sync->local->facts;

	/* With a filter, or other names here, others may write other keys, and the counts do not
	 * tell which keys. */
	return (struct kw_debt_counts){
		.evicted = facts->evicted,
		.foreign = kw_filter_is_everything(sync->filter) ? facts->writers.foreign : 0,
		.own = sync->local->sets.fresh,
		.resets = facts->resets,
	};
}

void kw_sync_looked(struct kw_sync *sync)
{
	const struct kw_local_facts *facts = &sync->local->facts;
	const struct kw_debt_counts counts = kw_sync_counts(sync);
	const struct kw_debt before = sync->debt;
	struct kw_debt_begun begun = kw_debt_count(&sync->debt, &counts, kw_clock_us());

	kw_sync_doubt_counts(sync, &before);
	if (begun.evicting)
		kw_log_warn("sync",
			"the local server evicts keys by itself (maxmemory-policy %s): a reconcile "
			"brings them once it has stopped",
			facts->policy);
	if (begun.writing)
		kw_log_warn("sync",
			"other clients write to the local server (%s): stop them; all keys are "
			"compared with the table, or read again",
			facts->writers.last);
}

enum kw_sync_equality kw_sync_equality(const struct kw_sync *sync, uint64_t now_us)
{
	uint64_t equal_us = sync->progress.equal_us;

	if (equal_us == 0 || now_us - equal_us > sync->warm_lag_us)
		return KW_SYNC_UNEQUAL;
	if (sync->settled || !kw_local_may_evict(&sync->local->facts) ||
		kw_debt_kept(&sync->debt, kw_local_looked(sync->local)))
		return KW_SYNC_EQUAL;
	return KW_SYNC_UNPROVEN;
}

/* Does the local server hold all that was handed on? */
static bool lacks_nothing(const struct kw_sync *sync)
{
	return kw_pair_progress(sync->pair)->owed == 0 &&
	       kw_pair_refusal(sync->pair)->kind == KW_SERVER_E_NONE &&
	       kw_pair_trouble(sync->pair)->kind == KW_TROUBLE_NONE &&
	       sync->debt.evicted.count == 0 && sync->debt.foreign.count == 0 &&
	       kw_quarantine_count(sync->quarantine) == 0;
}

void kw_sync_learn_level(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;

	if (sync->settled || kw_sync_phase(sync) != KW_SYNC_TAIL ||
		sync->intake != KW_SYNC_INTAKE_OPEN || sync->obstacle != KW_SYNC_FREE ||
		!kw_follow_up(sync->follow) || superblock->source_state != KW_SOURCE_LIVE ||
		kw_level_table(superblock, sync->warm_lag_us) != KW_TABLE_FRESH)
		return;
	sync->settled = lacks_nothing(sync) && kw_sync_equality(sync, now_us) == KW_SYNC_EQUAL;
	if (!sync->settled)
		return;
	kw_brake_forget(&sync->brake);
	/* The first snapshot of an empty server, or one that replaced all that was there. */
	if (sync->manner == KW_SYNC_FILLS_INDEX)
		kw_digests_complete(&sync->index);
}

/* The server's counts come once a second: the first warm after a snapshot does not wait so long. */
static void ask_whether_kept(struct kw_sync *sync)
{
	if (sync->debt.question > 0 || sync->settled || sync->progress.equal_us == 0 ||
		!kw_local_ready(sync->local) || !kw_local_may_evict(&sync->local->facts))
		return;
	kw_debt_ask(&sync->debt, kw_local_next_look(sync->local));
	kw_local_look(sync->local);
}

void kw_sync_mend(struct kw_sync *sync, uint64_t now_us)
{
	uint64_t owed = kw_pair_progress(sync->pair)->owed;

	assert(kw_sync_phase(sync) == KW_SYNC_TAIL);
	if (sync->settled && owed == 0)
		kw_debt_settled(&sync->debt);
	switch (kw_debt_due(&sync->debt, owed, kw_pair_is_level(sync->pair), now_us)) {
	case KW_DEBT_NONE:
		ask_whether_kept(sync);
		break;
	case KW_DEBT_MEMORY:
		kw_sync_restart(sync, "values did not fit into the local server's memory");
		break;
	case KW_DEBT_EVICTED:
		kw_sync_restart(sync, "the local server has evicted keys");
		break;
	case KW_DEBT_FOREIGN:
		kw_sync_restart(sync, "other clients have written to the local server");
		break;
	}
}
