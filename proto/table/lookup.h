/*
 * Looking up one key in a table in the memory of another process.
 *
 * Pure like the reader: it asks for one READ at a time through struct kw_lookup_io and is told of
 * its end. What is known of the table (index root, directory) is kept from one lookup to the next.
 * So a hit costs two READs: the neighbourhood of the key's home slot, and the record.
 *
 *   ROOT ──▶ DIRECTORY ──▶ SLOTS ──slot of this hash──▶ RECORD ──verified, this key──▶ found
 *     ▲      (if it moved)  ▲  │ ▲                        │ │
 *     │                     │  │ └────another key─────────┘ │ does not verify
 *     │                     │  └─free slot──▶ CONFIRM ──root unchanged──▶ absent
 *     │                     └───root changed────┘           │
 *     └─────────────────────────────────────────────────────┘ at most `tries` times
 *
 * A hit is proved by the record itself: its checksum binds key, value and place. A miss counts only
 * if the index root was the same before and after and its `moves` even (layout.h).
 *
 * The result is what the proxy's index names at this moment; it can be newer than the head last
 * published.
 *
 * A lookup can also begin with a slot of the index (walk.h), whose key is not known yet, or ask for
 * the presence of a key alone. One thread.
 */
#ifndef KW_TABLE_LOOKUP_H
#define KW_TABLE_LOOKUP_H

#include "base/error.h"
#include "base/slice.h"
#include "table/layout.h"
#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_lookup;

/* READ [offset, offset + length) of the memory file into buffer, then call kw_lookup_complete. */
struct kw_lookup_io {
	/* Never ends from within this call. */
	void (*read)(void *arg, struct kw_lookup *lookup, uint64_t offset, uint64_t length,
		uint8_t *buffer);
	/* A directory was verified: what may be read from now on. Valid during the call. */
	void (*extents)(void *arg, const struct kw_extent *extents, int count);
	void *arg;
};

enum kw_lookup_outcome {
	KW_LOOKUP_FOUND,
	KW_LOOKUP_ABSENT, /* the table does not hold the key (deleted, flushed, or never there) */
	KW_LOOKUP_UNCERTAIN, /* the table changed faster than it could be read: ask again later */
	KW_LOOKUP_FAILED,    /* a READ failed, or this is no table this program reads */
};

struct kw_lookup_result {
	enum kw_lookup_outcome outcome;
	struct kw_record_view record; /* FOUND: a put; valid during the call. Zero for presence */
	struct kw_error error;        /* UNCERTAIN, FAILED: why */
};

/* The end of a lookup. The next one may be begun from within; the lookup must not be freed. */
typedef void (*kw_lookup_fn)(void *arg, const struct kw_lookup_result *result);

struct kw_lookup_options {
	uint32_t tries; /* of starting over; 0: 16 */
};

struct kw_lookup *kw_lookup_new(
	const struct kw_lookup_options *options, const struct kw_lookup_io *io);

/* Its READ was told back, or never will be. */
void kw_lookup_free(struct kw_lookup *lookup);

/*
 * Look the key up; copied. Only when not busy. fn is called from kw_lookup_complete, never from
 * within this call.
 */
void kw_lookup_begin(struct kw_lookup *lookup, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg);

/*
 * The same, but the record is not wanted: FOUND without it. The slot alone tells a value from a
 * tombstone, unless the value is tiny, so a large value is not read. A slot that is sampled while
 * it changes can call a key present that has just been deleted.
 */
void kw_lookup_begin_presence(struct kw_lookup *lookup, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg);

/*
 * Look up the key that this slot of the index is about. The record says which key it is. If the
 * slot is out of date, the index is searched for its hash. ABSENT: the key was deleted. Two keys
 * with one hash of 64 bits cannot be told apart by it: one of them is found.
 */
void kw_lookup_begin_slot(
	struct kw_lookup *lookup, const struct kw_index_slot *slot, kw_lookup_fn fn, void *arg);

/* The READ ended: error NULL and the bytes are in its buffer, or error says why not. */
void kw_lookup_complete(struct kw_lookup *lookup, const struct kw_error *error);

/*
 * The connection is another one: forget the lookup under way (fn is not called) and what is known
 * of the table. Stays busy until a READ that is still out was told back.
 */
void kw_lookup_stop(struct kw_lookup *lookup);

/* A lookup is under way, or a READ is out. */
bool kw_lookup_busy(const struct kw_lookup *lookup);

struct kw_lookup_stats {
	uint64_t lookups, reads, bytes, retries;
};
const struct kw_lookup_stats *kw_lookup_stats(const struct kw_lookup *lookup);

#endif
