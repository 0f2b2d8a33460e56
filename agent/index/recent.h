/*
 * Keys that were applied lately from the table of one term, with the version and the value of each.
 * After a failover they tell which of its writes were lost: keys that were applied after the new
 * term's history branched, and that the new primary has with another value, or not at all.
 *
 * Two generations of KW_RECENT_KEYS keys: when the newer one is full, the older one is forgotten.
 * So the last KW_RECENT_KEYS keys at least are there, and memory is bounded: two times 512 KiB,
 * which are allocated with the first key. A key has 64 bits and its value 63, as in digests.h.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_INDEX_RECENT_H
#define KW_AGENT_INDEX_RECENT_H

#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_RECENT_KEYS 12288   /* of a generation … */
#define KW_RECENT_SLOTS 16384  /* … in so many places, a power of two */
#define KW_RECENT_DATABASES 16 /* of which flushes are remembered */

struct kw_recent_entry {
	uint64_t key;   /* 0: a free place */
	uint64_t value; /* bit 0: it was judged; 1 or 0 without the other bits: it was deleted */
	uint64_t version;
	uint64_t expires_ms;
};

struct kw_recent_generation {
	struct kw_recent_entry *slots; /* NULL: none was needed yet */
	uint32_t count;
	uint64_t last; /* the highest version in it */
};

/* Zeroed memory with a seed is empty. */
struct kw_recent {
	uint64_t seed; /* random */
	struct kw_recent_generation newer, older;
	uint64_t forgotten;                    /* up to this version keys may be missing */
	uint64_t flushed[KW_RECENT_DATABASES]; /* version of the last flush; 0: none */
	uint64_t last_flush;                   /* the highest of these */
};

void kw_recent_close(struct kw_recent *recent);

/* Forget all; the memory stays. */
void kw_recent_clear(struct kw_recent *recent);

/* This record is handed on. */
void kw_recent_note(struct kw_recent *recent, const struct kw_record_view *record);

/* Versions above `after`, up to `until`. */
struct kw_recent_span {
	uint64_t after, until;
};

/*
 * The new primary has this record. Was its key applied in this span, with another value, and not
 * judged before? It is judged now. A value without a digest counts as equal.
 */
bool kw_recent_is_lost(struct kw_recent *recent, const struct kw_record_view *record,
	const struct kw_recent_span *span);

/*
 * All that the new primary has was judged: how many values of this span were not, and have neither
 * expired nor been flushed? It has none of these keys. They are judged now.
 */
uint64_t kw_recent_missing(
	struct kw_recent *recent, const struct kw_recent_span *span, uint64_t now_ms);

#endif
