#include "level.h"

/*
 * The proxy's barrier shows that often that the table is fresh. Twice that between two of them is
 * no lag.
 */
#define BARRIER_US 200000

uint64_t kw_level_source_lag_us(const struct kw_superblock *superblock)
{
	uint64_t known_us = superblock->fresh_us + BARRIER_US;

	/* Both moments are of the proxy's clock, so skew and steps of ours do not matter. */
	if (superblock->source_state != KW_SOURCE_LIVE || superblock->fresh_us == 0)
		return 0;
	return superblock->heartbeat_us > known_us ? superblock->heartbeat_us - known_us : 0;
}

enum kw_level_table kw_level_table(const struct kw_superblock *superblock, uint64_t warm_lag_us)
{
	if (!superblock->complete)
		return KW_TABLE_INCOMPLETE;
	if (superblock->fresh_us == 0)
		return KW_TABLE_UNFRESH;
	return kw_level_source_lag_us(superblock) > warm_lag_us ? KW_TABLE_BEHIND : KW_TABLE_FRESH;
}
