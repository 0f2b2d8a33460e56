/*
 * The end of a reconcile: when all of it is acknowledged, keys that it did not bring are deleted.
 */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>

static void prune_again(struct kw_sync *sync, const struct kw_failure *failure)
{
	bool permission = failure->answer == KW_SERVER_E_PERMISSION;

	kw_sync_enter(sync, KW_SYNC_SETTLE, failure->text);
	sync->in.settle.retry_us = kw_clock_us() + KW_SYNC_RETRY_US;
	kw_sync_set_why(sync, permission ? KW_SYNC_NEEDS_PERSON : KW_SYNC_WAITS,
		"local keys that the table does not have cannot be deleted: %.300s%s",
		failure->text,
		permission ? ": grant the agent's user +scan +unlink +select on all keys" : "");
	kw_sync_log_why(sync);
}

/* Only keys that the table has are left. */
static void finish(struct kw_sync *sync, const char *why)
{
	kw_brake_release(&sync->brake);
	kw_keyset_close(&sync->keyset);
	kw_digests_complete(&sync->index);
	kw_sync_rollback_end(sync);
	sync->purpose = KW_SYNC_BOOTSTRAP;
	sync->logged[0] = '\0';
	kw_sync_clear_why(sync);
	kw_sync_enter(sync, KW_SYNC_TAIL, why);
}

static void on_pruned(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	sync->pruned += sync->walk.deleted;
	kw_sync_rollback_pruned(sync, sync->walk.deleted);
	if (failure) {
		prune_again(sync, failure);
		return;
	}
	if (kw_prune_denied(&sync->walk)) {
		kw_sync_hold_prune(sync, kw_clock_us());
		return;
	}
	kw_log_info("sync",
		"pruned %" PRIu64 " of %" PRIu64 " local keys that the table does not have",
		sync->walk.deleted, sync->walk.looked_at);
	finish(sync, "pruned");
}

/* Not while the proxy is away: it can come back with keys that this snapshot lacked. */
static bool is_table_there(const struct kw_sync *sync)
{
	return kw_follow_up(sync->follow) && sync->follow->superblock.epoch != 0 &&
	       kw_sync_may_follow(sync);
}

static void prune(struct kw_sync *sync)
{
	const struct kw_prune_plan plan = {
		.filter = sync->filter,
		.keeps = kw_sync_keeps,
		.database = -1,
		.allows = sync->brake.share < 1.0 ? kw_sync_may_prune : NULL,
	};

	kw_prune_start(&sync->walk, &plan, on_pruned, sync);
	kw_sync_enter(sync, KW_SYNC_PRUNE, "all of the snapshot is acknowledged");
}

void kw_sync_settle(struct kw_sync *sync, uint64_t now_us)
{
	if (!kw_sync_positioned(sync) || !kw_pair_is_level(sync->pair) ||
		!kw_local_ready(sync->local) || now_us < sync->in.settle.retry_us ||
		sync->intake != KW_SYNC_INTAKE_OPEN || !is_table_there(sync))
		return;
	if (sync->follow->superblock.epoch != sync->position.epoch) {
		kw_sync_lapse(sync, "the proxy's table is another one now");
		return;
	}
	/* Not again while the question below is out: nothing is read meanwhile. */
	if (sync->in.settle.question == 0)
		kw_sync_sweep(sync);
	switch (kw_sync_leftover(sync)) {
	case KW_SYNC_LEFTOVER_POSSIBLE:
		prune(sync);
		break;
	case KW_SYNC_LEFTOVER_ASKED:
		break;
	case KW_SYNC_LEFTOVER_NONE:
		kw_log_info("sync",
			"the table has each of the %" PRIu64 " keys: none needs to be pruned",
			sync->index.keys);
		finish(sync, "no key is too many");
		break;
	}
}
