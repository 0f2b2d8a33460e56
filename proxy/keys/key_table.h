/*
 * A table of keys, each (database, name) once, with the data that its owner keeps about a key.
 *
 * An owner's entry begins with struct kw_key. The key's name follows the entry, in the same piece
 * of a pool. Hashing is linear: the table grows and shrinks by one bucket at a time. So no
 * insertion stops the loop to move a million entries, and a table that lost its keys gives memory
 * back.
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

struct kw_key_table {
	struct kw_pool pool;
	struct kw_key **buckets;
	size_t entry_bytes; /* of the owner's entry */
	size_t count;
	size_t bucket_count;    /* in use */
	size_t bucket_capacity; /* a power of two */
	uint64_t seed;
};

void kw_key_table_init(struct kw_key_table *table, size_t entry_bytes, uint64_t seed);
void kw_key_table_close(struct kw_key_table *table);

static inline uint64_t kw_key_table_hash(
	const struct kw_key_table *table, uint32_t database, struct kw_slice name)
{
	return kw_hash_key(table->seed, database, name.data, name.length);
}

/* hash is kw_key_table_hash of the same database and name, in all three. NULL: it is not there. */
struct kw_key *kw_key_table_find(
	const struct kw_key_table *table, uint64_t hash, uint32_t database, struct kw_slice name);

/*
 * For batches of the dirty set: load into the cache what find, add or remove of this hash will
 * touch. First the bucket, and once that is there, the first key in it.
 */
void kw_key_table_load(const struct kw_key_table *table, uint64_t hash);
void kw_key_table_load_first(const struct kw_key_table *table, uint64_t hash);

/* The key must not be there. The owner's part of the entry is zero. */
struct kw_key *kw_key_table_add(
	struct kw_key_table *table, uint64_t hash, uint32_t database, struct kw_slice name);

/* Take the entry out and free it. */
void kw_key_table_remove(struct kw_key_table *table, struct kw_key *key);

static inline struct kw_slice kw_key_table_name(
	const struct kw_key_table *table, const struct kw_key *key)
{
	return kw_slice((const uint8_t *)key + table->entry_bytes, key->length);
}

/* Call fn for every entry; fn may remove that entry. An entry that stays can be shown twice. */
void kw_key_table_each(
	struct kw_key_table *table, void (*fn)(void *arg, struct kw_key *key), void *arg);

/* Memory held: entries and buckets. */
size_t kw_key_table_bytes(const struct kw_key_table *table);

#endif
