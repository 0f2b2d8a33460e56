#include "level.h"

/*
 * The proxy's barrier shows that often that the table is fresh. Twice that between two of them is
 * no lag.
 */
#define BARRIER_US 200000
/* The same of its heartbeats, which a busy host can delay. */
#define HEARTBEAT_US 300000

static uint64_t beyond(uint64_t us, uint64_t limit_us)
{
	return us > limit_us ? us - limit_us : 0;
}

/* Both moments are of the proxy's clock, so skew and steps of ours do not matter. */
static uint64_t age_us(const struct kw_superblock *superblock)
{
	return beyond(superblock->heartbeat_us, superblock->fresh_us);
}

/* A hostile proxy can tell any moments. */
static uint64_t sum(uint64_t a, uint64_t b)
{
	return a < KW_LEVEL_LAG_UNKNOWN - 1 - b ? a + b : KW_LEVEL_LAG_UNKNOWN - 1;
}

/* Of data that are as of a moment of the proxy's clock. */
static uint64_t lag_us(
	const struct kw_superblock *superblock, uint64_t silent_us, uint64_t fresh_us)
{
	return sum(beyond(beyond(superblock->heartbeat_us, fresh_us), BARRIER_US),
		beyond(silent_us, HEARTBEAT_US));
}

uint64_t kw_level_source_lag_us(const struct kw_superblock *superblock, uint64_t silent_us)
{
	if (superblock->fresh_us == 0)
		return KW_LEVEL_LAG_UNKNOWN;
	return lag_us(superblock, silent_us, superblock->fresh_us);
}

uint64_t kw_level_lag_us(const struct kw_superblock *superblock, uint64_t silent_us,
	uint64_t waited_us, uint64_t applied_us)
{
	uint64_t source_us = kw_level_source_lag_us(superblock, silent_us), most_us, known_us;

	if (source_us == KW_LEVEL_LAG_UNKNOWN)
		return KW_LEVEL_LAG_UNKNOWN;
	most_us = sum(waited_us, source_us);
	if (applied_us == 0 || applied_us > superblock->fresh_us)
		return most_us;
	known_us = lag_us(superblock, silent_us, applied_us);
	return known_us < most_us ? known_us : most_us;
}

enum kw_level_table kw_level_table(const struct kw_superblock *superblock, uint64_t warm_lag_us)
{
	if (!superblock->complete)
		return KW_TABLE_INCOMPLETE;
	if (superblock->fresh_us == 0)
		return KW_TABLE_UNFRESH;
	return kw_level_source_lag_us(superblock, 0) > warm_lag_us ? KW_TABLE_BEHIND
								   : KW_TABLE_FRESH;
}

bool kw_level_moves(const struct kw_superblock *superblock)
{
	return beyond(superblock->published_us, superblock->fresh_us) > age_us(superblock) / 2;
}
