/*
 * Places: where the records of some keys stood when they were read last, so that the next lookup of
 * such a key needs one READ and not two. A cache of fixed size; it may forget anything at any time.
 *
 * What it says is a guess. The reader of a place must verify the record there: its checksum binds
 * key, value and place, and superseded_by must be 0. lookup.h says why that is enough.
 *
 * Sets of four entries; in each set the entry used last stands first, and the last is replaced.
 * Pure; one thread.
 */
#ifndef KW_TABLE_PLACES_H
#define KW_TABLE_PLACES_H

#include <stdint.h>

struct kw_places_entry {
	uint64_t hash;    /* of the key (layout.h) */
	uint64_t place;   /* as in an index slot; 0: the entry is free */
	uint64_t version; /* of the record that was found there */
};

#define KW_PLACES_WAYS 4

struct kw_places {
	struct kw_places_entry *entries; /* NULL: the cache is off */
	uint64_t sets;                   /* a power of two */
};

/* Room for about `entries` places (rounded up to a power of two of sets); 0: none are kept. */
void kw_places_init(struct kw_places *places, uint64_t entries);
void kw_places_close(struct kw_places *places);

/* The hash is about to be looked for: load what find looks at. */
void kw_places_approach(const struct kw_places *places, uint64_t hash);

/* NULL: not known. Valid until the next call. */
const struct kw_places_entry *kw_places_find(struct kw_places *places, uint64_t hash);

/* Nothing changes if a newer record of this hash is known. */
void kw_places_put(struct kw_places *places, const struct kw_places_entry *entry);
void kw_places_drop(struct kw_places *places, uint64_t hash);
void kw_places_clear(struct kw_places *places);

#endif
