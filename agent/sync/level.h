/*
 * How far the table lags its primary. Pure; any thread.
 */
#ifndef KW_AGENT_SYNC_LEVEL_H
#define KW_AGENT_SYNC_LEVEL_H

#include "table/layout.h"

#include <stdint.h>

/*
 * Only what exceeds the interval of the proxy's own freshness barrier counts. 0 while the proxy
 * keeps up, and in a state that itself says that it does not.
 */
uint64_t kw_level_source_lag_us(const struct kw_superblock *superblock);

/* How fresh the table is, for a replica whose lag must be at most warm_lag_us. */
enum kw_level_table {
	KW_TABLE_INCOMPLETE, /* the proxy's first scan is not complete */
	KW_TABLE_UNFRESH,    /* the proxy fetches what changed while it scanned */
	KW_TABLE_BEHIND,     /* by more than warm_lag_us */
	KW_TABLE_FRESH,
};

enum kw_level_table kw_level_table(const struct kw_superblock *superblock, uint64_t warm_lag_us);

#endif
