#include "keys/key_table.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FEWEST_BUCKETS ((size_t)64)
#define SHRINK_BELOW 4 /* buckets an entry; so many go at a removal, so that none is left over */

/*
 * Linear hashing: with 2^n <= bucket_count < 2^(n+1), the buckets below `split` have been split in
 * two by one bit more of the hash, those above not yet.
 */
static size_t bucket_of(const struct kw_key_table *table, uint64_t hash)
{
	size_t whole = (size_t)1 << (63 - __builtin_clzll(table->bucket_count));
	size_t bucket = hash & (2 * whole - 1);

	return bucket < table->bucket_count ? bucket : bucket & (whole - 1);
}

static void set_capacity(struct kw_key_table *table, size_t capacity)
{
	table->buckets = kw_realloc(table->buckets, capacity * sizeof *table->buckets);
	table->bucket_capacity = capacity;
}

static void split(struct kw_key_table *table)
{
	size_t fresh = table->bucket_count;
	struct kw_key *key, *next, **old;

	if (fresh == table->bucket_capacity)
		set_capacity(table, 2 * fresh);
	table->buckets[fresh] = NULL;
	table->bucket_count++;
	old = &table->buckets[fresh ^ ((size_t)1 << (63 - __builtin_clzll(fresh)))];
	key = *old;
	*old = NULL;
	for (; key; key = next) {
		struct kw_key **to = &table->buckets[bucket_of(table, key->hash)];

		next = key->chain;
		key->chain = *to;
		*to = key;
	}
}

static void merge(struct kw_key_table *table)
{
	size_t last = table->bucket_count - 1;
	struct kw_key **to = &table->buckets[last ^ ((size_t)1 << (63 - __builtin_clzll(last)))];

	assert(table->bucket_count > FEWEST_BUCKETS);
	while (*to)
		to = &(*to)->chain;
	*to = table->buckets[last];
	table->bucket_count--;
	if (table->bucket_count <= table->bucket_capacity / 4 &&
		table->bucket_capacity > FEWEST_BUCKETS)
		set_capacity(table, table->bucket_capacity / 2);
}

void kw_key_table_init(struct kw_key_table *table, size_t entry_bytes, uint64_t seed)
{
	assert(entry_bytes >= sizeof(struct kw_key));
	*table = (struct kw_key_table){
		.entry_bytes = entry_bytes, .seed = seed, .bucket_count = FEWEST_BUCKETS};
	kw_pool_init(&table->pool);
	set_capacity(table, FEWEST_BUCKETS);
	memset(table->buckets, 0, FEWEST_BUCKETS * sizeof *table->buckets);
}

void kw_key_table_close(struct kw_key_table *table)
{
	for (size_t i = 0; i < table->bucket_count; i++) {
		struct kw_key *key, *next;

		for (key = table->buckets[i]; key; key = next) {
			next = key->chain;
			kw_pool_give(&table->pool, key, table->entry_bytes + key->length);
		}
	}
	free(table->buckets);
	table->buckets = NULL;
	kw_pool_close(&table->pool);
}

struct kw_key *kw_key_table_find(
	const struct kw_key_table *table, uint64_t hash, uint32_t database, struct kw_slice name)
{
	struct kw_key *key = table->buckets[bucket_of(table, hash)];

	for (; key; key = key->chain)
		if (key->hash == hash && key->database == database &&
			kw_slice_equal(kw_key_table_name(table, key), name))
			return key;
	return NULL;
}

void kw_key_table_load(const struct kw_key_table *table, uint64_t hash)
{
	__builtin_prefetch(&table->buckets[bucket_of(table, hash)], 1);
}

void kw_key_table_load_first(const struct kw_key_table *table, uint64_t hash)
{
	__builtin_prefetch(table->buckets[bucket_of(table, hash)], 1);
}

struct kw_key *kw_key_table_add(
	struct kw_key_table *table, uint64_t hash, uint32_t database, struct kw_slice name)
{
	struct kw_key *key = kw_pool_take(&table->pool, table->entry_bytes + name.length);
	struct kw_key **bucket;

	memset(key, 0, table->entry_bytes);
	key->hash = hash;
	key->database = database;
	key->length = (uint32_t)name.length;
	if (name.length > 0)
		memcpy((uint8_t *)key + table->entry_bytes, name.data, name.length);
	assert(name.length <= UINT32_MAX);
	if (++table->count > table->bucket_count)
		split(table);
	bucket = &table->buckets[bucket_of(table, hash)];
	key->chain = *bucket;
	*bucket = key;
	return key;
}

void kw_key_table_remove(struct kw_key_table *table, struct kw_key *key)
{
	struct kw_key **at = &table->buckets[bucket_of(table, key->hash)];

	while (*at != key) {
		assert(*at);
		at = &(*at)->chain;
	}
	*at = key->chain;
	kw_pool_give(&table->pool, key, table->entry_bytes + key->length);
	table->count--;
	for (int i = 0; i < SHRINK_BELOW && table->bucket_count > FEWEST_BUCKETS &&
			table->count < table->bucket_count / SHRINK_BELOW;
		i++)
		merge(table);
}

void kw_key_table_each(
	struct kw_key_table *table, void (*fn)(void *arg, struct kw_key *key), void *arg)
{
	/* From the end: a removal can merge the last buckets into ones that come later. */
	for (size_t i = table->bucket_count; i-- > 0;) {
		struct kw_key *key, *next;

		if (i >= table->bucket_count)
			continue;
		for (key = table->buckets[i]; key; key = next) {
			next = key->chain;
			fn(arg, key);
		}
	}
}

size_t kw_key_table_bytes(const struct kw_key_table *table)
{
	return table->pool.bytes + table->bucket_capacity * sizeof *table->buckets;
}
