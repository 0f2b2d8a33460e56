/*
 * What the local data are known to lack though all of it was handed on: puts that did not fit into
 * the server's memory, and keys that the server has evicted to make room. A reconcile brings them.
 */
#include "sync.h"

#include "base/log.h"

#include <inttypes.h>
#include <string.h>

#define OWED_LOWEST_MS 1000
#define OWED_HIGHEST_MS 60000

/* To read everything anew is dear, and of no use to a server that goes on evicting. */
#define EVICTED_LOWEST_MS 3000
#define EVICTED_HIGHEST_MS 600000
/* Who has evicted nothing for so long is no longer blamed for what it did before. */
#define EVICTED_FORGIVEN_US 1200000000

void kw_sync_debt_init(struct kw_sync *sync)
{
	kw_backoff_init(&sync->settle_debt, OWED_LOWEST_MS, OWED_HIGHEST_MS);
	kw_backoff_init(&sync->evicting, EVICTED_LOWEST_MS, EVICTED_HIGHEST_MS);
}

void kw_sync_debt_forget(struct kw_sync *sync)
{
	sync->owed_us = 0;
	sync->evicted = sync->kept_ask = 0;
}

void kw_sync_count_evicted(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_local_facts *facts = &sync->local->facts;
	uint64_t more = kw_counter_others(&sync->evictions, facts->evicted, facts->resets);

	if (more == 0)
		return;
	if (sync->evicted == 0) {
		if (now_us - sync->evicted_seen_us > EVICTED_FORGIVEN_US)
			kw_backoff_reset(&sync->evicting);
		sync->evicted_wait_us = kw_backoff_next_us(&sync->evicting);
		kw_log_warn("sync",
			"the local server evicts keys by itself (maxmemory-policy %s): a reconcile "
			"brings them once it has stopped",
			facts->policy);
	}
	sync->evicted += more;
	sync->evicted_ever += more;
	sync->evicted_seen_us = now_us;
}

/* Once all that came behind them is applied, deletes included; should memory still be short, again
 * later and later. */
static void settle_owed(struct kw_sync *sync, uint64_t now_us)
{
	if (sync->apply->owed == 0) {
		if (sync->settled)
			kw_backoff_reset(&sync->settle_debt);
		return;
	}
	if (sync->apply->done != sync->apply->taken)
		return;
	if (sync->owed_us == 0)
		sync->owed_us = now_us + kw_backoff_next_us(&sync->settle_debt);
	else if (now_us >= sync->owed_us)
		kw_sync_restart(sync, "values did not fit into the local server's memory");
}

/* Its counts come once a second: the first warm behind a snapshot is not said before they did. */
static void ask_whether_kept(struct kw_sync *sync)
{
	if (sync->kept_ask || sync->settled || sync->progress.equal_us == 0 ||
		!kw_local_ready(sync->local) || !kw_local_may_evict(&sync->local->facts))
		return;
	sync->kept_ask = sync->local->asks + 1;
	kw_local_look(sync->local);
}

bool kw_sync_kept(const struct kw_sync *sync)
{
	return sync->settled || !kw_local_may_evict(&sync->local->facts) ||
	       (sync->kept_ask && sync->local->looks >= sync->kept_ask);
}

void kw_sync_settle_debt(struct kw_sync *sync, uint64_t now_us)
{
	settle_owed(sync, now_us);
	ask_whether_kept(sync);
	if (kw_sync_phase(sync) == KW_SYNC_TAIL && sync->evicted > 0 &&
		now_us - sync->evicted_seen_us >= sync->evicted_wait_us)
		kw_sync_restart(sync, "the local server has evicted keys");
}
