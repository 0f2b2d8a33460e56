/*
 * Commands that take keys away and raise no event for any of them: FLUSHALL, FLUSHDB, SWAPDB. INFO
 * commandstats counts their calls. Which of these calls were told?
 *
 *   seen    as of the last INFO commandstats
 *   told    up to this number; what is between both explains why keys are missing
 *
 * A feed of notifications says itself which calls it told. The replication stream tells a flush at
 * an offset: what one look counted came before the offset that the next look tells. So it was told
 * once the stream is beyond that (*passing*). One offset is kept until it was passed, so that a
 * stream that is always behind passes it some time.
 *
 * Pure. Zeroed memory and kw_takers_init. Times are of the monotonic clock.
 */
#ifndef KW_PROXY_FEED_WATCH_TAKERS_H
#define KW_PROXY_FEED_WATCH_TAKERS_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_taker { KW_TAKER_FLUSHALL, KW_TAKER_FLUSHDB, KW_TAKER_SWAPDB, KW_TAKERS };

/* Calls that a look counted, and an offset of the server after it; UINT64_MAX: none. */
struct kw_takers_passing {
	uint64_t offset;
	uint64_t seen[KW_TAKERS];
	uint64_t seen_us;
};

struct kw_takers {
	uint64_t told[KW_TAKERS];
	uint64_t seen[KW_TAKERS];
	uint64_t seen_us; /* when INFO commandstats was answered */
	uint64_t even_us; /* the last one answered without a flush that was not told */
	struct kw_takers_passing passing;
	bool known; /* an earlier look saw the counters */
};

void kw_takers_init(struct kw_takers *takers);

/* INFO commandstats was answered, outside of the looks. */
void kw_takers_see(struct kw_takers *takers, struct kw_slice commandstats, uint64_t now_us);

/*
 * The first look at a connection: keys that the same server took away while it was not watched were
 * taken by these calls. True: there were some. All of them are told.
 */
bool kw_takers_greet(struct kw_takers *takers, struct kw_slice commandstats, uint64_t now_us);

/*
 * A later look. Flushes are left to the feed; SWAPDB, which the caller tells, is told. offset: of
 * the server, if the feed tells flushes by offsets; UINT64_MAX: it does not.
 */
void kw_takers_look(
	struct kw_takers *takers, struct kw_slice commandstats, uint64_t offset, uint64_t now_us);

/* Calls since the last one that was told. A counter that fell began anew. */
uint64_t kw_takers_untold(const struct kw_takers *takers, enum kw_taker taker);

/* The flushes that were seen are told. */
void kw_takers_told(struct kw_takers *takers);

/* The stream was told up to this offset. */
void kw_takers_told_up_to(struct kw_takers *takers, uint64_t offset);

/* All calls, of each of them. */
uint64_t kw_takers_calls(struct kw_slice commandstats);

#endif
