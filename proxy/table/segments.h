/*
 * The memory of the log: runs of granules, the segments that lie in them, and their life.
 *
 *   virgin ──▶ head ──seal──▶ sealed ──cleaned──▶ victim ──published──▶ resting ──grace──▶ free
 *                ▲                                                                       │   ▲
 *                └───────────────────────────────────────────────────────────────────────┘   ▼
 *                                                                          given back to the system
 *
 * A granule is the unit of allocation. An ordinary segment takes segment_bytes; a large record gets
 * a run of just its size; when memory is fragmented a segment takes what run there is.
 * Accounting only: nothing here touches the bytes. One thread.
 */
#ifndef KW_PROXY_SEGMENTS_H
#define KW_PROXY_SEGMENTS_H

#include "base/error.h"
#include "table/layout.h"
#include "table/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kw_segment {
	uint64_t id;
	uint64_t offset, capacity, committed; /* offset in the memory file */
	uint64_t lowest, highest;             /* versions of its records; 0, 0: none yet */
	uint64_t filled_at;        /* the table's version when a record was written to it last */
	uint64_t live_bytes;       /* strides of records not superseded, tombstones included */
	uint64_t tombstone_bytes;  /* of them: tombstones */
	uint64_t tombstones_up_to; /* the highest version among them, or higher */
	uint32_t flushes;          /* flush records in it: they must not be moved */
	bool sealed;
	bool victim; /* cleaned, but readers can still be sent to it until the next publication */
	bool single; /* holds one large record in a run of its own */
};

struct kw_run {
	uint64_t start, granules;
	uint64_t until_us; /* resting: may be used again from then on */
};

struct kw_segments {
	const struct kw_table_memory *memory;
	uint64_t data_offset; /* of granule 0 in the memory file */
	uint64_t granule_bytes;
	uint64_t reserve_granules;
	uint64_t frontier; /* granules from here on were never used */
	uint64_t extended; /* granules covered by extents */
	uint64_t extent_granules;
	struct kw_segment **all; /* ascending id */
	size_t count, capacity, most;
	struct kw_segment **owner; /* by granule */
	struct kw_run *free;       /* ascending start, never adjoining */
	size_t free_count, free_capacity;
	uint8_t *given; /* by granule: free, and the system has its pages */
	uint64_t given_granules;
	uint64_t least_kept;    /* of kw_segments_kept, since the caller set it last */
	bool keeps_all;         /* memory cannot be given back */
	struct kw_run *resting; /* in order of until_us */
	size_t resting_count, resting_capacity;
	uint64_t free_granules, resting_granules;
	uint64_t next_id;
	struct kw_extent *extents; /* of the whole memory file, for the directory */
	int extent_count;
	struct kw_error
		refused; /* why memory below the limit was not had last time; KW_OK: it was */
};

#define KW_TABLE_EXTENTS_MAX 256

void kw_segments_init(struct kw_segments *segments, const struct kw_table_memory *memory,
	uint64_t data_offset, uint64_t granule_bytes, size_t most);
void kw_segments_close(struct kw_segments *segments);

/* Make [offset, +length) of the memory file readable and list it; else ->refused says why not. */
int kw_segments_extend(struct kw_segments *segments, uint64_t offset, uint64_t length);

/* With less than half an extent left below the limit: the next one is expected. */
void kw_segments_expect(const struct kw_segments *segments, uint64_t touch_limit);

/* Granules that have pages: what counts against max_bytes. */
static inline uint64_t kw_segments_touched(const struct kw_segments *segments)
{
	return segments->frontier - segments->given_granules;
}

/* Free granules that have pages. */
static inline uint64_t kw_segments_kept(const struct kw_segments *segments)
{
	return segments->free_granules - segments->given_granules;
}

/*
 * A new segment of up to `wanted` bytes and at least `least`. Free memory comes first, and of that
 * memory with pages. Memory that was given back, or was never used, is taken only while touched
 * granules stay at or below `touch_limit`. NULL: there is none.
 */
struct kw_segment *kw_segments_open(
	struct kw_segments *segments, uint64_t wanted, uint64_t least, uint64_t touch_limit);

/*
 * A segment that a process before had, in ascending order of ids, below the frontier. The caller
 * fills in the rest. NULL: it lies on no granules, or overlaps another one.
 */
struct kw_segment *kw_segments_restore(
	struct kw_segments *segments, uint64_t id, uint64_t offset, uint64_t capacity);

/* After the last kw_segments_restore: memory below the frontier that none of them has is free. */
void kw_segments_free_rest(struct kw_segments *segments);

/* Take back the segment opened last: nothing was written to it, no reader knows of it. */
void kw_segments_cancel(struct kw_segments *segments, struct kw_segment *segment);

/* The rest of a segment's run, from the next granule on, as a segment of its own; NULL: no rest. */
struct kw_segment *kw_segments_split(struct kw_segments *segments, struct kw_segment *segment);

/* An empty segment takes the next id, so that it comes after those opened meanwhile. */
void kw_segments_renumber(struct kw_segments *segments, struct kw_segment *segment);

struct kw_segment *kw_segments_at(const struct kw_segments *segments, uint64_t offset);

/* Victims leave the log: their memory rests until `until_us`. */
void kw_segments_retire_victims(struct kw_segments *segments, uint64_t until_us);

/* Resting memory whose time has come, or of which more than `most` granules rest, becomes free. */
void kw_segments_wake(struct kw_segments *segments, uint64_t now_us, uint64_t most);

/*
 * Give free memory back to the system, the highest offsets first: all but `keep` granules of it, at
 * most `most` granules at a time.
 */
void kw_segments_give_back(struct kw_segments *segments, uint64_t keep, uint64_t most);

/* The simulator breaks rule 2: memory of victims is free before they left the directory. */
void kw_segments_free_victims_early(struct kw_segments *segments);

#endif
