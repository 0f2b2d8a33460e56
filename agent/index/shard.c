#include "shard.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST 8

/* A place that grows with the key: a growth reads and writes in one direction. */
static uint32_t home(uint32_t capacity, uint64_t key)
{
	return (uint32_t)(((unsigned __int128)(key << 8) * capacity) >> 64);
}

static uint32_t after(uint32_t capacity, uint32_t at)
{
	return at + 1 < capacity ? at + 1 : 0;
}

/* The slot of the key, or the free one where it belongs; there always is a free one. */
static uint32_t place_of(const struct kw_digests_shard *shard, uint64_t key)
{
	uint32_t at = home(shard->capacity, key);

	assert(key != 0 && shard->count < shard->capacity);
	while (shard->slots[at].key != 0 && shard->slots[at].key != key)
		at = after(shard->capacity, at);
	return at;
}

struct kw_digests_entry *kw_shard_find(const struct kw_digests_shard *shard, uint64_t key)
{
	struct kw_digests_entry *entry;

	if (shard->count == 0)
		return NULL;
	entry = &shard->slots[place_of(shard, key)];
	return entry->key ? entry : NULL;
}

static void move_into(struct kw_digests_shard *shard, uint32_t capacity)
{
	struct kw_digests_shard next = {
		.slots = kw_zalloc(capacity * sizeof *next.slots),
		.capacity = capacity,
	};

	assert(shard->count < capacity);
	for (uint32_t i = 0; i < shard->capacity; i++) {
		if (shard->slots[i].key == 0)
			continue;
		next.slots[place_of(&next, shard->slots[i].key)] = shard->slots[i];
		next.count++;
	}
	free(shard->slots);
	*shard = next;
}

static bool is_full(const struct kw_digests_shard *shard)
{
	return (uint64_t)(shard->count + 1) * 100 > (uint64_t)shard->capacity * 85;
}

struct kw_digests_entry *kw_shard_put(struct kw_digests_shard *shard, uint64_t key, bool *fresh)
{
	struct kw_digests_entry *entry = kw_shard_find(shard, key);

	*fresh = !entry;
	if (entry)
		return entry;
	if (is_full(shard))
		move_into(shard, shard->capacity < SMALLEST
					 ? SMALLEST
					 : shard->capacity + shard->capacity / 4);
	assert(!is_full(shard));
	entry = &shard->slots[place_of(shard, key)];
	*entry = (struct kw_digests_entry){.key = key};
	shard->count++;
	return entry;
}

/* Does the entry at `at`, whose home is `home`, keep its place when the slot `hole` is free? */
static bool stays(uint32_t hole, uint32_t at, uint32_t home)
{
	return hole <= at ? hole < home && home <= at : hole < home || home <= at;
}

bool kw_shard_remove(struct kw_digests_shard *shard, uint64_t key)
{
	struct kw_digests_entry *slots = shard->slots;
	uint32_t hole, at;

	if (!kw_shard_find(shard, key))
		return false;
	hole = at = place_of(shard, key);
	/* The entries that follow move up, so that each is still found from its home. */
	for (;;) {
		at = after(shard->capacity, at);
		if (slots[at].key == 0)
			break;
		if (stays(hole, at, home(shard->capacity, slots[at].key)))
			continue;
		slots[hole] = slots[at];
		hole = at;
	}
	slots[hole] = (struct kw_digests_entry){0};
	shard->count--;
	return true;
}

void kw_shard_mark(struct kw_digests_shard *shard, uint64_t mark)
{
	for (uint32_t i = 0; i < shard->capacity; i++)
		shard->slots[i].value = (shard->slots[i].value & ~KW_DIGESTS_MARK) | mark;
}

uint32_t kw_shard_sweep(struct kw_digests_shard *shard, uint64_t mark)
{
	uint32_t before = shard->count, kept = 0;

	for (uint32_t i = 0; i < shard->capacity; i++) {
		struct kw_digests_entry *entry = &shard->slots[i];

		if (entry->key == 0)
			continue;
		if ((entry->value & KW_DIGESTS_MARK) == mark)
			kept++;
		else
			entry->key = 0;
	}
	if (kept == before)
		return 0;
	shard->count = kept;
	/* The holes would hide entries that lie after them. */
	if (kept > 0)
		move_into(shard, shard->capacity);
	else
		kw_shard_close(shard);
	return before - kept;
}

void kw_shard_prefetch(const struct kw_digests_shard *shard, uint64_t key)
{
	if (shard->capacity > 0)
		__builtin_prefetch(&shard->slots[home(shard->capacity, key)], 1);
}

void kw_shard_close(struct kw_digests_shard *shard)
{
	free(shard->slots);
	*shard = (struct kw_digests_shard){0};
}
