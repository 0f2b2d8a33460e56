/*
 * A set of keys that does not keep the keys: 128-bit hashes in open addressing. A reconcile fills
 * it from the snapshot; local keys that are not in it are pruned. 16 bytes a key at 3/4 load. Two
 * different keys with one hash (2^-128 a pair) would leave one stale key, nothing else.
 *
 * New memory is expensive, above all in a guest whose host must find it first (10 us for 4 KiB were
 * seen). A hash touches all of a set within its first few thousand keys, and a server that loads a
 * snapshot waits for each key. So reserved memory is touched piece by piece while keys go into a
 * small set. It is taken into use once all of it is there.
 *
 * Zeroed memory is an empty set. Grows by doubling; one thread.
 */
#ifndef KW_AGENT_KEYS_KEYSET_H
#define KW_AGENT_KEYS_KEYSET_H

#include "base/hash.h"
#include "base/slice.h"
#include "table/record.h"

#include <stdbool.h>

struct kw_keyset {
	struct kw_hash128 *slots; /* {0, 0} is free */
	size_t capacity;          /* power of two, or 0 */
	size_t count;

	struct kw_hash128 *reserved; /* slots not in use yet; NULL: none */
	size_t reserved_capacity, touched;
};

/* What stands for (database, key) in sets of keys. */
static inline struct kw_hash128 kw_keyset_hash(uint32_t database, struct kw_slice key)
{
	return kw_hash128_key(database, key.data, key.length);
}

/* Prepare room for so many keys before they come; one key pays for moving a 32nd of them there. */
void kw_keyset_reserve(struct kw_keyset *set, size_t keys);

/* True when the hash was not in the set before. */
bool kw_keyset_add(struct kw_keyset *set, struct kw_hash128 hash);

/*
 * The same of the keys of some records, in this order: of records[i] if bit i of `chosen` is set.
 * Returns the bits of those that were not in the set before. The slots of a large set are in no
 * cache, so the set loads those of the whole batch before it looks at the first.
 */
uint64_t kw_keyset_add_records(
	struct kw_keyset *set, const struct kw_record_view *records, uint64_t chosen);

bool kw_keyset_has(const struct kw_keyset *set, struct kw_hash128 hash);
void kw_keyset_close(struct kw_keyset *set);

#endif
