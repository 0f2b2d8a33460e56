#include "source/doubts.h"

#include <assert.h>

/*
 * Other clients can change settings, reset counters, flush or swap a database every second for
 * ever. If the scan began anew each time, it would never end: so it is finished first. A flush or a
 * swap begins it anew once, because the rest of it is likely to be in vain. A held sweep has no end
 * of its own, and every doubt begins it anew.
 */
bool kw_doubt_waits(const struct kw_sweep *sweep, enum kw_doubt cause)
{
	if (!kw_sweep_is_mending(sweep) || sweep->sm.state == KW_SWEEP_HELD)
		return false;
	if (cause == KW_DOUBT_FLUSH || cause == KW_DOUBT_LOADED || cause == KW_DOUBT_SWAPDB)
		return sweep->renewals > 0;
	return cause == KW_DOUBT_FLAGS || cause == KW_DOUBT_RESET || cause == KW_DOUBT_COMMAND;
}

bool kw_doubt_revokes(enum kw_doubt cause)
{
	return cause != KW_DOUBT_CONNECTION && cause != KW_DOUBT_ASKED;
}

void kw_doubts_count(struct kw_doubts *doubts, enum kw_doubt cause)
{
	assert(cause < KW_DOUBTS && cause != KW_DOUBT_AUDIT);
	doubts->reconciles++;
	doubts->by_cause[cause]++;
}

void kw_doubts_stats(const struct kw_doubts *doubts, struct kw_source_stats *stats)
{
	const uint64_t *by_cause = doubts->by_cause;

	stats->reconciles = doubts->reconciles;
	stats->reconciles_connection = by_cause[KW_DOUBT_CONNECTION];
	stats->reconciles_flags = by_cause[KW_DOUBT_FLAGS];
	stats->reconciles_flush = by_cause[KW_DOUBT_FLUSH] + by_cause[KW_DOUBT_LOADED];
	stats->reconciles_swapdb = by_cause[KW_DOUBT_SWAPDB] + by_cause[KW_DOUBT_RESET];
	stats->reconciles_identity = by_cause[KW_DOUBT_IDENTITY];
	stats->reconciles_command = by_cause[KW_DOUBT_COMMAND];
	stats->reconciles_asked = by_cause[KW_DOUBT_ASKED];
}
