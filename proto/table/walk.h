/*
 * Walking the index of a table in the memory of another process, in the order of the hashes.
 *
 *   kw_walk_begin(from) ──▶ ROOT ──▶ SLOTS ──▶ CONFIRM ──root unchanged──▶ entries of [from, next)
 *                            ▲  (known: the last   │
 *                            └── one is used) ─────┘ root changed: at most `tries` times
 *
 * One block of slots is read at a time. Its entries are those of a range of hashes, [from, next).
 * The range is what the block covers for certain: it ends at a free slot, and in open addressing no
 * entry stands after a free slot that follows its home. So an entry that was in the table all the
 * time that the range was read is among those handed out, wherever it stood. The next block begins
 * at `next`, which is a hash and not a slot. So growth, which moves entries to other slots, makes
 * the walk neither miss an entry nor meet one twice.
 *
 * As with a miss of a lookup, a block counts only if the root was the same before and after, and
 * its `moves` even (layout.h). The slots themselves are not verified. Each can be out of date, or
 * sampled half before and half after a change: kw_lookups_begin_slot takes care of that.
 *
 * Pure like the reader: one READ at a time through struct kw_walk_io. One thread.
 */
#ifndef KW_TABLE_WALK_H
#define KW_TABLE_WALK_H

#include "base/error.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kw_walk;

struct kw_walk_io {
	/* READ, then call kw_walk_complete. Never ends from within this call. */
	void (*read)(
		void *arg, struct kw_walk *walk, uint64_t offset, uint64_t length, uint8_t *buffer);
	void *arg;
};

struct kw_walk_block {
	const struct kw_index_slot *entries; /* hashes in [from, next), places not 0 */
	size_t count;
	uint64_t hash_seed; /* of the table */
	uint64_t from;
	uint64_t next; /* where the next block begins; UINT64_MAX: this was the last one */
};

/*
 * A block was read: error NULL, valid during the call. KW_E_STATE: the index changed faster than it
 * could be read; KW_E_CORRUPT: its root does not verify. Both: begin again, later. Other codes: a
 * READ failed. The next block can be begun from within.
 */
typedef void (*kw_walk_fn)(
	void *arg, const struct kw_walk_block *block, const struct kw_error *error);

/* A block is about so many slots; more where entries stand without a free slot between them. */
#define KW_WALK_SLOTS 256
#define KW_WALK_SLOTS_MAX 8192

struct kw_walk *kw_walk_new(const struct kw_walk_io *io);

/* Its READ was told back, or never will be. */
void kw_walk_free(struct kw_walk *walk);

/*
 * Read the block that begins with this hash; 0: the first. Only when not busy. fn is called from
 * kw_walk_complete, never from within this call.
 */
void kw_walk_begin(struct kw_walk *walk, uint64_t from, kw_walk_fn fn, void *arg);

/* The READ ended: error NULL and the bytes are in its buffer, or error says why not. */
void kw_walk_complete(struct kw_walk *walk, const struct kw_error *error);

/*
 * The connection is another one: forget the block under way (fn is not called) and the root. Stays
 * busy until a READ that is still out was told back.
 */
void kw_walk_stop(struct kw_walk *walk);

/* A block is being read, or a READ is out. */
bool kw_walk_busy(const struct kw_walk *walk);

#endif
