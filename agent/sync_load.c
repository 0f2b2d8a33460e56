/*
 * A server in the midst of a load reads its link and does nothing else until more comes: it answers
 * nobody. So it is never kept waiting for anything that may last.
 */
#include "sync.h"

#include "base/clock.h"

static bool is_loading(const struct kw_sync *sync)
{
	return sync->apply->whole && sync->phase == KW_SYNC_SNAPSHOT;
}

void kw_sync_end_load(struct kw_sync *sync, const char *why)
{
	if (is_loading(sync))
		kw_sync_restart(sync, why);
}

void kw_sync_watch_load(struct kw_sync *sync, uint64_t now_us)
{
	uint64_t bytes = kw_reader_stats(sync->follow->reader)->bytes;

	/* A server that takes its time is not kept waiting; nor is one while records are read that
	 * the filter leaves out. */
	if (!is_loading(sync) || bytes != sync->fed_bytes ||
		sync->apply->ops->room(sync->apply) == 0) {
		sync->fed_bytes = bytes;
		sync->fed_us = now_us;
	} else if (now_us - sync->fed_us > KW_SYNC_LOAD_IDLE_US) {
		kw_sync_end_load(sync, "nothing could be read for too long in the midst of the "
				       "snapshot");
	}
}
