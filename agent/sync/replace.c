/* Snapshots that replace all local data at once (kw_pair_replaces): when they are given up. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

static bool is_loading(const struct kw_sync *sync)
{
	return kw_pair_replaces(sync->pair) && kw_sync_phase(sync) == KW_SYNC_SNAPSHOT;
}

bool kw_sync_may_load(const struct kw_sync *sync, uint64_t now_us)
{
	return !kw_pair_replaces(sync->pair) ||
	       now_us < sync->follow->heartbeat_us + KW_FOLLOW_HEARTBEAT_US;
}

void kw_sync_end_load(struct kw_sync *sync, const char *why)
{
	if (is_loading(sync))
		kw_sync_restart(sync, why);
}

void kw_sync_load_begins(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_reader_stats *stats = kw_reader_stats(sync->follow->reader);

	assert(kw_sync_phase(sync) == KW_SYNC_SNAPSHOT);
	kw_load_begin(&sync->in.snapshot, stats->bytes, stats->vanished, now_us);
}

/* It has lost a segment. True: it was given up. */
static bool give_up_incomplete(struct kw_sync *sync)
{
	if (!is_loading(sync) || !kw_load_gives_up(sync->given_up, sync->local->facts.keys))
		return false;
	sync->given_up++;
	kw_sync_restart(sync, "a part of the table was cleaned away before the snapshot came to "
			      "it; the local server keeps its data of before");
	return true;
}

bool kw_sync_load_ends(struct kw_sync *sync, bool vanished)
{
	assert(kw_sync_phase(sync) == KW_SYNC_SNAPSHOT);
	if (vanished && give_up_incomplete(sync))
		return false;
	if (vanished && is_loading(sync) && sync->given_up == KW_LOAD_GIVEN_UP_MAX)
		kw_log_warn("sync",
			"%d snapshots in a row were overtaken by the primary's writes: the local "
			"server gets an incomplete one, and then what is missing (is it slower "
			"than they are? a larger table.max_bytes lets segments live longer)",
			KW_LOAD_GIVEN_UP_MAX + 1);
	sync->given_up = 0;
	return true;
}

void kw_sync_watch_load(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_reader_stats *stats = kw_reader_stats(sync->follow->reader);

	if (!is_loading(sync))
		return;
	if (kw_load_is_incomplete(&sync->in.snapshot, stats->vanished) && give_up_incomplete(sync))
		return;
	if (kw_load_is_stuck(&sync->in.snapshot, stats->bytes, kw_pair_room(sync->pair), now_us))
		kw_sync_restart(
			sync, "nothing could be read for too long in the midst of the snapshot");
}
