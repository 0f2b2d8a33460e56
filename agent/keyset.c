#include "keyset.h"

#include "base/buffer.h"

#include <stdlib.h>

#define SMALLEST_SET 1024

static bool is_free(struct kw_hash128 slot)
{
	return slot.low == 0 && slot.high == 0;
}

/* {0, 0} marks a free slot, so the one hash that equals it lives under another name. */
static struct kw_hash128 storable(struct kw_hash128 hash)
{
	if (is_free(hash))
		hash.high = 1;
	return hash;
}

/* The slot that holds the hash, or the free one where it belongs; there always is a free one. */
static struct kw_hash128 *find(const struct kw_keyset *set, struct kw_hash128 hash)
{
	size_t mask = set->capacity - 1;
	size_t at = hash.low & mask;

	while (!is_free(set->slots[at]) &&
		(set->slots[at].low != hash.low || set->slots[at].high != hash.high))
		at = (at + 1) & mask;
	return &set->slots[at];
}

static void resize(struct kw_keyset *set, size_t capacity)
{
	struct kw_keyset grown = {
		.slots = kw_zalloc(capacity * sizeof *grown.slots),
		.capacity = capacity,
		.count = set->count,
	};

	for (size_t i = 0; i < set->capacity; i++)
		if (!is_free(set->slots[i]))
			*find(&grown, set->slots[i]) = set->slots[i];
	free(set->slots);
	*set = grown;
}

void kw_keyset_reserve(struct kw_keyset *set, size_t keys)
{
	size_t capacity = set->capacity ? set->capacity : SMALLEST_SET;

	while (capacity / 4 * 3 < keys)
		capacity *= 2;
	if (capacity > set->capacity)
		resize(set, capacity);
}

bool kw_keyset_add(struct kw_keyset *set, struct kw_hash128 hash)
{
	struct kw_hash128 *slot;

	hash = storable(hash);
	kw_keyset_reserve(set, set->count + 1);
	slot = find(set, hash);
	if (!is_free(*slot))
		return false;
	*slot = hash;
	set->count++;
	return true;
}

bool kw_keyset_has(const struct kw_keyset *set, struct kw_hash128 hash)
{
	return set->capacity > 0 && !is_free(*find(set, storable(hash)));
}

void kw_keyset_close(struct kw_keyset *set)
{
	free(set->slots);
	*set = (struct kw_keyset){0};
}
