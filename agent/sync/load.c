/*
 * A server in the midst of a load reads its link and does nothing else until more comes: it answers
 * nobody. So it is never kept waiting for anything that may last.
 */
#include "sync.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

static bool is_loading(const struct kw_sync *sync)
{
	return sync->apply->whole && kw_sync_phase(sync) == KW_SYNC_SNAPSHOT;
}

bool kw_sync_may_load(const struct kw_sync *sync, uint64_t now_us)
{
	return !sync->apply->whole || now_us < sync->follow->heartbeat_us + KW_FOLLOW_HEARTBEAT_US;
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
	sync->in.snapshot = (struct kw_sync_load_watch){
		.bytes = stats->bytes,
		.moved_us = now_us,
		.vanished = stats->vanished,
	};
}

static bool gives_up_torn(struct kw_sync *sync)
{
	if (!is_loading(sync) || sync->local->facts.keys == 0 || sync->torn == KW_SYNC_TORN_MAX)
		return false;
	sync->torn++;
	kw_sync_restart(sync, "a part of the table was cleaned away before the snapshot came to "
			      "it; the local server keeps its data of before");
	return true;
}

bool kw_sync_load_torn(struct kw_sync *sync, bool vanished)
{
	bool last = is_loading(sync) && sync->torn == KW_SYNC_TORN_MAX;

	if (vanished && gives_up_torn(sync))
		return true;
	if (vanished && last)
		kw_log_warn("sync",
			"%d snapshots in a row were overtaken by the primary's writes: the local "
			"server gets an incomplete one, and then what is missing (is it slower "
			"than they are? a larger table.max_bytes lets segments live longer)",
			KW_SYNC_TORN_MAX + 1);
	sync->torn = 0;
	return false;
}

void kw_sync_watch_load(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_reader_stats *stats = kw_reader_stats(sync->follow->reader);
	struct kw_sync_load_watch *watch = &sync->in.snapshot;

	if (!is_loading(sync) || (stats->vanished != watch->vanished && gives_up_torn(sync)))
		return;
	/* A server that takes its time is not kept waiting; nor is one while records are read that
	 * the filter leaves out. */
	if (stats->bytes != watch->bytes || sync->apply->ops->room(sync->apply) == 0) {
		watch->bytes = stats->bytes;
		watch->moved_us = now_us;
	} else if (now_us - watch->moved_us > KW_SYNC_LOAD_IDLE_US) {
		kw_sync_end_load(sync, "nothing could be read for too long in the midst of the "
				       "snapshot");
	}
}
