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

	/* Of a replica the keys need not be listed: it loads, and the numbers of keys are weighed.
	 */
	if (kw_pair_is_led(sync->pair) && !kw_failure_passes(failure)) {
		kw_sync_restart(sync, failure->text);
		return;
	}
	kw_sync_enter(sync, KW_SYNC_SETTLE, failure->text);
	sync->in.settle.retry_us = kw_clock_us() + KW_SYNC_RETRY_US;
	kw_sync_set_why(sync, permission ? KW_SYNC_NEEDS_PERMISSION : KW_SYNC_WAITS,
		"local keys that the table does not have cannot be deleted: %s",
		permission ? kw_local_grant(sync->local,
				     "grant the agent's user +scan +unlink +select on all keys")
			   : failure->text);
	if (!permission) /* the local server's part says so, with all that is lacking */
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

/*
 * A replica lists no key whose time is over, and does not delete it by itself. The deletion of such
 * a key came with the log of before, if the agent did not read it to its end. Nobody can read the
 * key, and it goes when the server is promoted or loads. Some of them may stay: a primary whose
 * keys expire all the time leaves a few at each handover.
 */
#define OVERDUE_BORNE 1000
#define OVERDUE_BORNE_OF 100 /* … and one of so many keys */

static void count_rest(struct kw_sync *sync)
{
	kw_sync_enter(sync, KW_SYNC_SETTLE, "pruned over the link");
	sync->in.settle.step = KW_SETTLE_COUNTS;
}

static void settle_counts(struct kw_sync *sync)
{
	uint64_t borne = OVERDUE_BORNE + sync->index.keys / OVERDUE_BORNE_OF;

	switch (kw_sync_counts_tell(sync, borne)) {
	case KW_SYNC_LEFTOVER_ASKED:
		break;
	case KW_SYNC_LEFTOVER_NONE:
		finish(sync, "pruned");
		break;
	case KW_SYNC_LEFTOVER_POSSIBLE:
		kw_sync_restart(sync,
			"the replica holds too many keys whose time is over, and that "
			"no log deletes: it loads all");
		break;
	}
}

static void on_pruned(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	sync->pruned += sync->walk.deleted;
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
	if (kw_pair_is_led(sync->pair))
		count_rest(sync);
	else
		finish(sync, "pruned");
}

/* Not while the proxy is away: it can come back with keys that this snapshot lacked. */
static bool is_table_there(const struct kw_sync *sync)
{
	return kw_follow_up(sync->follow) && sync->follow->superblock.epoch != 0 &&
	       kw_sync_may_follow(sync);
}

/* By the link: a replica refuses a client's UNLINK. A name here is one of the table: see pair.c. */
static void remove_by_link(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_sync *sync = arg;
	const struct kw_record_view record = {
		.kind = KW_RECORD_DELETE,
		.database = database,
		.key = key,
	};

	assert(kw_naming_is_identity(&sync->filter->names));
	kw_pair_records(sync->pair, &record, 1);
}

static void prune(struct kw_sync *sync)
{
	const struct kw_prune_plan plan = {
		.filter = sync->filter,
		.keeps = kw_sync_keeps,
		.database = -1,
		.remove = kw_pair_is_led(sync->pair) ? remove_by_link : NULL,
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
	if (sync->in.settle.step == KW_SETTLE_COUNTS) {
		settle_counts(sync);
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
