/* The phases: which move may follow which, and what must hold in each. */
#include "internal.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

/* clang-format off */
static const struct kw_sm_state phases[] = {
	[KW_SYNC_WAIT] = {"wait",
		KW_SM_TO(KW_SYNC_COUNT) | KW_SM_TO(KW_SYNC_SAMPLE) | KW_SM_TO(KW_SYNC_CLAIM) |
			KW_SM_TO(KW_SYNC_TAIL),
		KW_SM_INITIAL},
	[KW_SYNC_COUNT] = {"count", KW_SM_TO(KW_SYNC_WAIT)},
	[KW_SYNC_SAMPLE] = {"sample", KW_SM_TO(KW_SYNC_WAIT)},
	[KW_SYNC_CLAIM] = {"claim", KW_SM_TO(KW_SYNC_WAIT) | KW_SM_TO(KW_SYNC_SNAPSHOT)},
	[KW_SYNC_SNAPSHOT] = {"snapshot",
		KW_SM_TO(KW_SYNC_WAIT) | KW_SM_TO(KW_SYNC_SETTLE) | KW_SM_TO(KW_SYNC_TAIL)},
	[KW_SYNC_SETTLE] = {"settle",
		KW_SM_TO(KW_SYNC_WAIT) | KW_SM_TO(KW_SYNC_PRUNE) | KW_SM_TO(KW_SYNC_TAIL)},
	[KW_SYNC_PRUNE] = {"prune",
		KW_SM_TO(KW_SYNC_WAIT) | KW_SM_TO(KW_SYNC_SETTLE) | KW_SM_TO(KW_SYNC_HELD) |
			KW_SM_TO(KW_SYNC_TAIL)},
	[KW_SYNC_HELD] = {"held", KW_SM_TO(KW_SYNC_WAIT) | KW_SM_TO(KW_SYNC_SETTLE)},
	[KW_SYNC_TAIL] = {"tail", KW_SM_TO(KW_SYNC_WAIT)},
};
/* clang-format on */

static bool is_reading(const struct kw_sync *sync)
{
	return !kw_follow_idle(sync->follow);
}

static bool has_keys_noted(const struct kw_sync *sync)
{
	return sync->keyset.count > 0 || sync->keyset.capacity > 0;
}

/* No part of an earlier snapshot is under way: no reader, no walk, no sample, no keys noted. */
static bool is_at_rest(const struct kw_sync *sync)
{
	return !is_reading(sync) && !kw_prune_running(&sync->walk) &&
	       sync->sample.state == KW_SAMPLE_IDLE && !has_keys_noted(sync);
}

/* Keys are counted only to find out whether data of others may be replaced. */
static bool holds_in_count(const struct kw_sync *sync)
{
	return !is_reading(sync) && !kw_sync_positioned(sync) && kw_prune_running(&sync->walk) &&
	       sync->walk.plan.count_only && kw_filter_picks_keys(sync->filter) && !sync->consent &&
	       sync->data == KW_SYNC_DATA_FOREIGN;
}

/* Local keys are looked up in the table before it replaces all of them. */
static bool holds_in_sample(const struct kw_sync *sync)
{
	return !is_reading(sync) && !kw_sync_positioned(sync) && kw_prune_running(&sync->walk) &&
	       sync->walk.plan.count_only && kw_pair_replaces(sync->pair) &&
	       kw_sync_is_table_enough(sync);
}

bool kw_sync_is_table_enough(const struct kw_sync *sync)
{
	return (sync->purpose == KW_SYNC_BOOTSTRAP && !kw_pair_replaces(sync->pair)) ||
	       sync->follow->superblock.complete;
}

static bool holds_in_claim(const struct kw_sync *sync)
{
	return is_at_rest(sync) && !kw_sync_positioned(sync) && kw_sync_is_table_enough(sync) &&
	       (!kw_pair_replaces(sync->pair) || sync->consent) &&
	       sync->follow->superblock.epoch != 0;
}

/*
 * The claim comes before the first record. The server can save its data at any moment, and then the
 * cursor in them must say that their position is not known.
 */
static bool holds_in_snapshot(const struct kw_sync *sync)
{
	return is_reading(sync) && !kw_sync_positioned(sync) && !kw_prune_running(&sync->walk) &&
	       !has_keys_noted(sync) && sync->data == KW_SYNC_DATA_CLAIMED &&
	       kw_sync_is_table_enough(sync) &&
	       !(kw_pair_replaces(sync->pair) && sync->purpose == KW_SYNC_RECONCILE);
}

static bool holds_in_settle(const struct kw_sync *sync)
{
	return sync->purpose == KW_SYNC_RECONCILE && sync->data == KW_SYNC_DATA_CLAIMED &&
	       !kw_prune_running(&sync->walk);
}

/* An index that lost its entries would have every local key deleted. */
static bool is_noted_in_index(const struct kw_sync *sync)
{
	return kw_digests_state(&sync->index) != KW_DIGESTS_OFF &&
	       kw_digests_state(&sync->index) != KW_DIGESTS_EMPTY;
}

/*
 * A position means that a pass was consistent: until then, the keys of a segment that vanished can
 * be missing from the set. The acknowledgements mean that the server refused none of them.
 */
static bool holds_in_prune(const struct kw_sync *sync)
{
	return sync->purpose == KW_SYNC_RECONCILE && sync->data == KW_SYNC_DATA_CLAIMED &&
	       kw_sync_positioned(sync) && kw_pair_is_level(sync->pair) &&
	       kw_prune_running(&sync->walk) && !sync->walk.plan.count_only &&
	       sync->walk.plan.keeps == kw_sync_keeps &&
	       (sync->manner == KW_SYNC_NOTES_KEYS || is_noted_in_index(sync));
}

/* Changes go on. The keys noted say which local keys may stay, so new ones are noted as well. */
static bool holds_in_held(const struct kw_sync *sync)
{
	return sync->purpose == KW_SYNC_RECONCILE && sync->data == KW_SYNC_DATA_CLAIMED &&
	       kw_sync_positioned(sync) && !kw_prune_running(&sync->walk) &&
	       kw_brake_holds(&sync->brake);
}

/* The reader is on its way to a position, or there is one. No key is left to be pruned. */
static bool holds_in_tail(const struct kw_sync *sync)
{
	return !kw_brake_holds(&sync->brake) && (kw_sync_positioned(sync) || is_reading(sync)) &&
	       !kw_prune_running(&sync->walk) && !has_keys_noted(sync) &&
	       sync->purpose == KW_SYNC_BOOTSTRAP;
}

static bool holds(const void *owner, int phase)
{
	const struct kw_sync *sync = owner;

	switch ((enum kw_sync_phase)phase) {
	case KW_SYNC_WAIT:
		return is_at_rest(sync);
	case KW_SYNC_COUNT:
		return holds_in_count(sync);
	case KW_SYNC_SAMPLE:
		return holds_in_sample(sync);
	case KW_SYNC_CLAIM:
		return holds_in_claim(sync);
	case KW_SYNC_SNAPSHOT:
		return holds_in_snapshot(sync);
	case KW_SYNC_SETTLE:
		return holds_in_settle(sync);
	case KW_SYNC_PRUNE:
		return holds_in_prune(sync);
	case KW_SYNC_HELD:
		return holds_in_held(sync);
	case KW_SYNC_TAIL:
		return holds_in_tail(sync);
	}
	return false;
}

const struct kw_sm_conf kw_sync_machine = {"sync", phases, KW_SYNC_TAIL + 1, holds};

void kw_sync_enter(struct kw_sync *sync, enum kw_sync_phase phase, const char *reason)
{
	if (phase != kw_sync_phase(sync))
		memset(&sync->in, 0, sizeof sync->in);
	kw_sm_move(&sync->sm, (int)phase, reason);
}
