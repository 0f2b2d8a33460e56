/*
 * How far the table lags its primary. Pure; any thread.
 */
#ifndef KW_AGENT_SYNC_LEVEL_H
#define KW_AGENT_SYNC_LEVEL_H

#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_LEVEL_LAG_UNKNOWN UINT64_MAX

/*
 * As of now, whatever the source's state is: it grows while the primary or the proxy is gone.
 * silent_us: so long ago the proxy's heartbeat moved last, by our clock. The intervals of the
 * proxy's freshness barrier and of its heartbeats do not count, so it is 0 while the proxy keeps
 * up. KW_LEVEL_LAG_UNKNOWN: the proxy does not know how fresh its table is.
 */
uint64_t kw_level_source_lag_us(const struct kw_superblock *superblock, uint64_t silent_us);

/*
 * The same of what is applied, which lacks more. waited_us: since a change of the table was first
 * seen that is not applied. applied_us: the table was fresh as of then, by the proxy's clock, when
 * all that it had was applied; 0: not known. Both say how much is lacking at most, so the lesser
 * counts.
 */
uint64_t kw_level_lag_us(const struct kw_superblock *superblock, uint64_t silent_us,
	uint64_t waited_us, uint64_t applied_us);

/* How fresh the table is, for a replica whose lag must be at most warm_lag_us. */
enum kw_level_table {
	KW_TABLE_INCOMPLETE, /* the proxy's first scan is not complete */
	KW_TABLE_UNFRESH,    /* the proxy fetches what changed while it scanned */
	KW_TABLE_BEHIND,     /* by more than warm_lag_us */
	KW_TABLE_FRESH,
};

/* As of the superblock. */
enum kw_level_table kw_level_table(const struct kw_superblock *superblock, uint64_t warm_lag_us);

/*
 * Of a table that is behind: did changes come long after the moment up to which it is fresh? Then
 * keys change faster than the proxy fetches them. Otherwise nothing comes from the primary.
 */
bool kw_level_moves(const struct kw_superblock *superblock);

#endif
