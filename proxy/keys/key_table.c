#include "keys/key_table.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FEWEST_BUCKETS ((size_t)64)
#define SHRINK_BELOW 4 /* buckets an entry; so many go at a removal, so that none stay behind */

/*
 * Linear hashing: with 2^n <= bucket_count < 2^(n+1), the buckets below `split` have been split in
 * two by one bit more of the hash, those above not yet.
 */
static size_t bucket_of(const struct kw_keyset *set, uint64_t hash)
{
	size_t whole = (size_t)1 << (63 - __builtin_clzll(set->bucket_count));
	size_t bucket = hash & (2 * whole - 1);

	return bucket < set->bucket_count ? bucket : bucket & (whole - 1);
}

static void set_capacity(struct kw_keyset *set, size_t capacity)
{
	set->buckets = kw_realloc(set->buckets, capacity * sizeof(*set->buckets));
	set->bucket_capacity = capacity;
}

static void split(struct kw_keyset *set)
{
	size_t fresh = set->bucket_count;
	struct kw_key *key, *next, **old;

	if (fresh == set->bucket_capacity)
		set_capacity(set, 2 * fresh);
	set->buckets[fresh] = NULL;
	set->bucket_count++;
	old = &set->buckets[fresh ^ ((size_t)1 << (63 - __builtin_clzll(fresh)))];
	key = *old;
	*old = NULL;
	for (; key; key = next) {
		struct kw_key **to = &set->buckets[bucket_of(set, key->hash)];

		next = key->chain;
		key->chain = *to;
		*to = key;
	}
}

static void merge(struct kw_keyset *set)
{
	size_t last = set->bucket_count - 1;
	struct kw_key **to = &set->buckets[last ^ ((size_t)1 << (63 - __builtin_clzll(last)))];

	while (*to)
		to = &(*to)->chain;
	*to = set->buckets[last];
	set->bucket_count--;
	if (set->bucket_count <= set->bucket_capacity / 4 && set->bucket_capacity > FEWEST_BUCKETS)
		set_capacity(set, set->bucket_capacity / 2);
}

void kw_keyset_init(struct kw_keyset *set, size_t entry_bytes, uint64_t seed)
{
	assert(entry_bytes >= sizeof(struct kw_key));
	*set = (struct kw_keyset){
		.entry_bytes = entry_bytes, .seed = seed, .bucket_count = FEWEST_BUCKETS};
	kw_pool_init(&set->pool);
	set_capacity(set, FEWEST_BUCKETS);
	memset(set->buckets, 0, FEWEST_BUCKETS * sizeof(*set->buckets));
}

void kw_keyset_close(struct kw_keyset *set)
{
	for (size_t i = 0; i < set->bucket_count; i++) {
		struct kw_key *key, *next;

		for (key = set->buckets[i]; key; key = next) {
			next = key->chain;
			kw_pool_give(&set->pool, key, set->entry_bytes + key->length);
		}
	}
	free(set->buckets);
	set->buckets = NULL;
	kw_pool_close(&set->pool);
}

struct kw_key *kw_keyset_find(
	const struct kw_keyset *set, uint64_t hash, uint32_t database, struct kw_slice name)
{
	struct kw_key *key = set->buckets[bucket_of(set, hash)];

	for (; key; key = key->chain)
		if (key->hash == hash && key->database == database &&
			kw_slice_equal(kw_keyset_name(set, key), name))
			return key;
	return NULL;
}

void kw_keyset_expect(const struct kw_keyset *set, uint64_t hash)
{
	__builtin_prefetch(&set->buckets[bucket_of(set, hash)], 1);
}

void kw_keyset_approach(const struct kw_keyset *set, uint64_t hash)
{
	__builtin_prefetch(set->buckets[bucket_of(set, hash)], 1);
}

struct kw_key *kw_keyset_add(
	struct kw_keyset *set, uint64_t hash, uint32_t database, struct kw_slice name)
{
	struct kw_key *key = kw_pool_take(&set->pool, set->entry_bytes + name.length);
	struct kw_key **bucket;

	memset(key, 0, set->entry_bytes);
	key->hash = hash;
	key->database = database;
	key->length = (uint32_t)name.length;
	if (name.length > 0)
		memcpy((uint8_t *)key + set->entry_bytes, name.data, name.length);
	if (++set->count > set->bucket_count)
		split(set);
	bucket = &set->buckets[bucket_of(set, hash)];
	key->chain = *bucket;
	*bucket = key;
	return key;
}

void kw_keyset_remove(struct kw_keyset *set, struct kw_key *key)
{
	struct kw_key **at = &set->buckets[bucket_of(set, key->hash)];

	while (*at != key) {
		assert(*at);
		at = &(*at)->chain;
	}
	*at = key->chain;
	kw_pool_give(&set->pool, key, set->entry_bytes + key->length);
	set->count--;
	for (int i = 0; i < SHRINK_BELOW && set->bucket_count > FEWEST_BUCKETS &&
			set->count < set->bucket_count / SHRINK_BELOW;
		i++)
		merge(set);
}

void kw_keyset_each(struct kw_keyset *set, void (*fn)(void *arg, struct kw_key *key), void *arg)
{
	/* From the end: a removal may merge the last buckets into ones that come later. */
	for (size_t i = set->bucket_count; i-- > 0;) {
		struct kw_key *key, *next;

		if (i >= set->bucket_count)
			continue;
		for (key = set->buckets[i]; key; key = next) {
			next = key->chain;
			fn(arg, key);
		}
	}
}

size_t kw_keyset_bytes(const struct kw_keyset *set)
{
	return set->pool.bytes + set->bucket_capacity * sizeof(*set->buckets);
}
