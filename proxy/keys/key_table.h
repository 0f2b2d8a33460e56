/*
 * A set of keys, each (database, name) once, with whatever its owner keeps about a key.
 *
 * An owner's entry begins with struct kw_key; the key's name lies behind the entry, in the same
 * piece of a pool. The hash table is a linear one: it grows and shrinks by one bucket at a time, so
 * that no insertion ever stops the loop to move a million entries, and a set that got small is
 * small.
 *
 * The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_KEYS_KEY_TABLE_H
#define KW_PROXY_KEYS_KEY_TABLE_H

#include "base/hash.h"
#include "base/slice.h"
#include "keys/pool.h"

#include <stddef.h>
#include <stdint.h>

struct kw_key {
	struct kw_key *chain;
	uint64_t hash;
	uint32_t database;
	uint32_t length;
};

struct kw_keyset {
	struct kw_pool pool;
	struct kw_key **buckets;
	size_t entry_bytes; /* of the owner's entry */
	size_t count;
	size_t bucket_count;    /* in use */
	size_t bucket_capacity; /* a power of two */
	uint64_t seed;
};

void kw_keyset_init(struct kw_keyset *set, size_t entry_bytes, uint64_t seed);
void kw_keyset_close(struct kw_keyset *set);

static inline uint64_t kw_keyset_hash(
	const struct kw_keyset *set, uint32_t database, struct kw_slice name)
{
	return kw_hash_key(set->seed, database, name.data, name.length);
}

/* hash is kw_keyset_hash of the same database and name, in all three. NULL: it is not there. */
struct kw_key *kw_keyset_find(
	const struct kw_keyset *set, uint64_t hash, uint32_t database, struct kw_slice name);

/* find, add or remove with this hash comes soon: the bucket, then the first key in it. */
void kw_keyset_expect(const struct kw_keyset *set, uint64_t hash);
void kw_keyset_approach(const struct kw_keyset *set, uint64_t hash);

/* The key must not be there. The owner's part of the entry is zero. */
struct kw_key *kw_keyset_add(
	struct kw_keyset *set, uint64_t hash, uint32_t database, struct kw_slice name);

/* Take the entry out and free it. */
void kw_keyset_remove(struct kw_keyset *set, struct kw_key *key);

static inline struct kw_slice kw_keyset_name(const struct kw_keyset *set, const struct kw_key *key)
{
	return kw_slice((const uint8_t *)key + set->entry_bytes, key->length);
}

/* Call fn for every entry; fn may remove that entry. One that stays may be shown twice. */
void kw_keyset_each(struct kw_keyset *set, void (*fn)(void *arg, struct kw_key *key), void *arg);

/* Memory held: entries and buckets. */
size_t kw_keyset_bytes(const struct kw_keyset *set);

#endif
