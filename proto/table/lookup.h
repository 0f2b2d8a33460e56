/*
 * Looking up keys, one by one, in a table in the memory of another process. Many lookups can be
 * under way at once; they share what is known of the table.
 *
 * Pure like the reader: READs are asked for through struct kw_lookups_io, and their ends are told.
 *
 * One lookup:
 *
 *             not known ┌─────────┐ the view is known
 *           ┌──────────▶│ WAITING │──────────┐
 *           │           └─────────┘          ▼
 *   begin ──┤               ▲ ▲         ┌───────┐ slot of this hash ┌────────┐ verified,
 *           ├───────────────┼─┼────────▶│ SLOTS │──────────────────▶│ RECORD │─────────▶ found
 *           │               │ │         └───────┘◀──────────────────└────────┘ this key
 *           │               │ │             │       another key         │
 *           │               │ │   free slot ▼                           │ does not verify:
 *           │               │ │        ┌─────────┐ root unchanged       │ at most `tries`
 *           │               │ └────────│ CONFIRM │────────────▶ absent  │ times
 *           │               │          └─────────┘                      │
 *           │               ├───────────────────────────────────────────┘
 *           │               │ tick  ┌────────┐
 *           │               └───────│ PARKED │ the index is ahead of the publication
 *           │                       └────────┘
 *           │  place known  ┌───────┐ verified, this key, not superseded
 *           └──────────────▶│ GUESS │──────────────────────────────────▶ found
 *                           └───────┘ anything else ─▶ SLOTS
 *
 * A lookup that begins with a slot of the index (walk.h) goes to RECORD at once.
 *
 * What is known of the table, the view (superblock, index root, directory), is read once for all
 * lookups that wait for it.
 *
 * A hit is proved by the record itself: its checksum binds key, value and place. A miss counts only
 * if no entry that it might have missed moved meanwhile (layout.h: `moves` of the root, and of the
 * hash's stripe after a first try). So a hit costs two READs: the neighbourhood of the key's home
 * slot, and the record.
 *
 * TOO_LARGE is said by the length in the slot, or in the record's header, before the record is
 * read. Nothing of it is verified, so in a rare case a smaller record stands there. Do not take it
 * for a proof of more than that the key might be there.
 *
 * The result is what the proxy's index names at a moment after the lookup began; it can be newer
 * than the head last published. A key that is written all the time has been written again by then:
 * its record counts if it was the newest as seen from the superblock that the owner told last
 * (kw_lookups_seen), or from one that was read since the lookup began.
 *
 * Guesses. If a place is remembered (places.h), the record there is read at once: one READ. A
 * verified record with superseded_by 0 is the newest of its key, except in one case. The cleaner
 * moves records without marking the copy that it leaves behind, so that copy stays as it was when
 * the key is written again. The copy's segment leaves the directory in the publication that covers
 * the moved copy. So a guess counts only if the known directory lists the segment, and it is as
 * fresh as that directory: it has every change of the publication that the directory was read for.
 * An owner that wants guesses calls kw_lookups_seen after each look at the superblock. A directory
 * that is not the newest seen is read again before the next guess.
 *
 * One thread.
 */
#ifndef KW_TABLE_LOOKUP_H
#define KW_TABLE_LOOKUP_H

#include "base/error.h"
#include "base/slice.h"
#include "table/layout.h"
#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_lookups;

#define KW_LOOKUPS_DEPTH_MAX 1024
#define KW_LOOKUP_NEIGHBOURHOOD 16     /* slots of one READ */
#define KW_LOOKUP_NEIGHBOURHOOD_MAX 64 /* at most */
#define KW_LOOKUP_TRIES 16

/* READ [offset, offset + length) of the memory file into buffer, then call kw_lookups_complete. */
struct kw_lookup_read {
	uint64_t offset, length;
	uint8_t *buffer; /* of the lookups'; valid until kw_lookups_complete */
	struct kw_lookups *lookups;
	void *internal;
	bool out; /* posted, and not told back yet */
};

struct kw_lookups_io {
	/* Start READs. They can end in any order, but never from within this call. */
	void (*read)(void *arg, struct kw_lookup_read *const *reads, int count);
	/* A directory was verified: what may be read from now on. Valid during the call. */
	void (*extents)(void *arg, const struct kw_extent *extents, int count);
	void *arg;
};

enum kw_lookup_outcome {
	KW_LOOKUP_FOUND,
	KW_LOOKUP_ABSENT, /* the table does not hold the key (deleted, flushed, or never there) */
	KW_LOOKUP_UNCERTAIN, /* the table changed faster than it could be read: ask again later */
	KW_LOOKUP_FAILED,    /* a READ failed, or this is no table this program reads */
	KW_LOOKUP_TOO_LARGE, /* its value has more than max_value_bytes: it was not read */
};

struct kw_lookup_result {
	enum kw_lookup_outcome outcome;
	struct kw_record_view record; /* FOUND: a put; valid during the call. Zero for presence */
	struct kw_error error;        /* UNCERTAIN, FAILED: why */
};

/* The end of a lookup. Others may be begun from within; the lookups must not be freed. */
typedef void (*kw_lookup_fn)(void *arg, const struct kw_lookup_result *result);

struct kw_lookups_options {
	uint32_t depth;         /* lookups at once; 0: 1 */
	uint32_t tries;         /* of starting over, at least 2; 0: KW_LOOKUP_TRIES */
	uint32_t neighbourhood; /* slots of one READ; 0: KW_LOOKUP_NEIGHBOURHOOD */
	uint64_t places;        /* entries of the cache of places; 0: no guesses */
	uint64_t
		max_value_bytes; /* a larger value is not read (kw_lookups_begin only); 0: any is */
};

/* depth and neighbourhood are within their bounds. */
struct kw_lookups *kw_lookups_new(
	const struct kw_lookups_options *options, const struct kw_lookups_io *io);

/* No READ is out: each was told back, or never will be. NULL is accepted. */
void kw_lookups_free(struct kw_lookups *lookups);

/* May one more be begun? */
bool kw_lookups_have_room(const struct kw_lookups *lookups);

/*
 * The key will be looked up soon. Approach some keys before the first of them begins: what their
 * lookups need from memory then comes at the same time.
 */
void kw_lookups_approach(const struct kw_lookups *lookups, uint32_t database, struct kw_slice key);

/*
 * Look the key up; copied. Only while there is room. fn is called from kw_lookups_complete
 * or kw_lookups_tick, never from within this call. READs are collected until kw_lookups_post.
 */
void kw_lookups_begin(struct kw_lookups *lookups, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg);

/*
 * The same, but the record is not wanted: FOUND without it. The slot alone tells a value from a
 * tombstone, unless the value is tiny, so a large value is not read. A slot that is sampled while
 * it changes can call a key present that has just been deleted.
 */
void kw_lookups_begin_presence(struct kw_lookups *lookups, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg);

/*
 * Look up the key that this slot of the index is about (walk.h). The record says which key it is.
 * If the slot is out of date, the index is searched for its hash. ABSENT: the key was deleted. Two
 * keys with one hash of 64 bits cannot be told apart by it: one of them is found.
 */
void kw_lookups_begin_slot(
	struct kw_lookups *lookups, const struct kw_index_slot *slot, kw_lookup_fn fn, void *arg);

/* The READ ended: error NULL and the bytes are in its buffer, or error says why not. */
void kw_lookups_complete(struct kw_lookup_read *read, const struct kw_error *error);

/* Start the READs that were collected: after begins, and after completions. */
void kw_lookups_post(struct kw_lookups *lookups);

/*
 * Some time has passed: parked lookups go on. Call it while kw_lookups_parked, each millisecond or
 * so, and kw_lookups_post after it. The index can name what the next publication will list, and a
 * proxy publishes at the end of each turn of its loop.
 */
void kw_lookups_tick(struct kw_lookups *lookups);
bool kw_lookups_parked(const struct kw_lookups *lookups);

/* The owner has just read this superblock, which is verified: a look. */
void kw_lookups_seen(struct kw_lookups *lookups, const struct kw_superblock *superblock);

/*
 * The connection is another one: forget the lookups under way (fn is not called) and what is known
 * of the table. READs that are still out must be told back, and count as busy until then.
 */
void kw_lookups_stop(struct kw_lookups *lookups);

/* A lookup is under way, or a READ is out. */
bool kw_lookups_busy(const struct kw_lookups *lookups);

struct kw_lookups_stats {
	uint64_t lookups, reads, bytes;
	uint64_t retries; /* a lookup, or reading the view, began again */
	uint64_t parked;  /* of them after a wait for the next publication */
	uint64_t views;   /* superblock, root or directory were read */
	uint64_t guesses; /* places that were known */
	uint64_t misses;  /* of them, those that did not hold */
};
const struct kw_lookups_stats *kw_lookups_stats(const struct kw_lookups *lookups);

#endif
