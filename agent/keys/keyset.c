#include "keyset.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SMALLEST_SET 1024

/* From this size on, ask for the slots in huge pages: then an access costs half. */
#define HUGE_BYTES ((size_t)4 << 20)

/*
 * Touch a piece after every so many keys. A huge page will hold some twelve times as many, so all
 * pieces are there when a twelfth of the keys is.
 */
#define PIECE_KEYS 4096
#define PIECE_SLOTS (((size_t)2 << 20) / sizeof(struct kw_hash128))
#define SMALL_PAGE_SLOTS ((size_t)4096 / sizeof(struct kw_hash128))

static bool is_free(struct kw_hash128 slot)
{
	return slot.low == 0 && slot.high == 0;
}

/* {0, 0} marks a free slot, so the one hash that equals it is stored as another. */
static struct kw_hash128 storable(struct kw_hash128 hash)
{
	if (is_free(hash))
		hash.high = 1;
	return hash;
}

/* The slot that holds the hash, or the free one where it belongs; there always is a free one. */
static struct kw_hash128 *find(const struct kw_keyset *set, struct kw_hash128 hash)
{
	assert(set->count < set->capacity && !is_free(hash));
	size_t mask = set->capacity - 1;
	size_t at = hash.low & mask;

	while (!is_free(set->slots[at]) &&
		(set->slots[at].low != hash.low || set->slots[at].high != hash.high))
		at = (at + 1) & mask;
	return &set->slots[at];
}

static struct kw_hash128 *new_slots(size_t capacity)
{
	size_t bytes = capacity * sizeof(struct kw_hash128);
	void *memory;

	if (bytes < HUGE_BYTES)
		return kw_zalloc(bytes);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		abort();
	madvise(memory, bytes, MADV_HUGEPAGE); /* a hint: if it is refused, small pages will do */
	return memory;
}

static void free_slots(struct kw_hash128 *slots, size_t capacity)
{
	size_t bytes = capacity * sizeof *slots;

	if (bytes < HUGE_BYTES)
		free(slots);
	else
		munmap(slots, bytes);
}

/* Zeroed slots, which the set owns from now on. */
static void move_into(struct kw_keyset *set, struct kw_hash128 *slots, size_t capacity)
{
	const struct kw_keyset before = *set;

	assert((capacity & (capacity - 1)) == 0 && before.count < capacity / 4 * 3);

	set->slots = slots;
	set->capacity = capacity;
	for (size_t i = 0; i < before.capacity; i++)
		if (!is_free(before.slots[i]))
			*find(set, before.slots[i]) = before.slots[i];
	free_slots(before.slots, before.capacity);
}

static void use_reserved(struct kw_keyset *set)
{
	move_into(set, set->reserved, set->reserved_capacity);
	set->reserved = NULL;
}

void kw_keyset_reserve(struct kw_keyset *set, size_t keys)
{
	size_t capacity = set->capacity ? set->capacity : SMALLEST_SET;

	while (capacity / 4 * 3 < keys)
		capacity *= 2;
	if (capacity <= set->capacity || (set->reserved && capacity <= set->reserved_capacity))
		return;
	if (set->reserved)
		free_slots(set->reserved, set->reserved_capacity);
	set->reserved = new_slots(capacity);
	set->reserved_capacity = capacity;
	set->touched = 0;
	if (capacity <= PIECE_SLOTS)
		use_reserved(set);
}

static void touch_reserved(struct kw_keyset *set)
{
	size_t end = set->touched + PIECE_SLOTS;

	assert(set->touched <= set->reserved_capacity);

	for (; set->touched < end && set->touched < set->reserved_capacity;
		set->touched += SMALL_PAGE_SLOTS)
		*(volatile uint64_t *)&set->reserved[set->touched].low = 0;
	if (set->touched >= set->reserved_capacity)
		use_reserved(set);
}

/* Room for one more. */
static void make_room(struct kw_keyset *set)
{
	size_t capacity = set->capacity ? set->capacity * 2 : SMALLEST_SET;

	if (set->reserved && set->count % PIECE_KEYS == 0)
		touch_reserved(set);
	if (set->count + 1 <= set->capacity / 4 * 3)
		return;
	if (set->reserved && set->reserved_capacity <= capacity)
		use_reserved(set);
	else
		move_into(set, new_slots(capacity), capacity);
}

bool kw_keyset_add(struct kw_keyset *set, struct kw_hash128 hash)
{
	struct kw_hash128 *slot;

	hash = storable(hash);
	make_room(set);
	assert(set->count + 1 <= set->capacity / 4 * 3);
	slot = find(set, hash);
	if (!is_free(*slot))
		return false;
	*slot = hash;
	set->count++;
	return true;
}

uint64_t kw_keyset_add_records(
	struct kw_keyset *set, const struct kw_record_view *records, uint64_t chosen)
{
	struct kw_hash128 hashes[64]; /* one for each bit */
	uint64_t fresh = 0;

	for (uint64_t left = chosen; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		hashes[i] = kw_keyset_hash(records[i].database, records[i].key);
		if (set->capacity > 0)
			__builtin_prefetch(&set->slots[hashes[i].low & (set->capacity - 1)], 1);
	}
	for (uint64_t left = chosen; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		fresh |= (uint64_t)kw_keyset_add(set, hashes[i]) << i;
	}
	return fresh;
}

bool kw_keyset_has(const struct kw_keyset *set, struct kw_hash128 hash)
{
	return set->capacity > 0 && !is_free(*find(set, storable(hash)));
}

void kw_keyset_close(struct kw_keyset *set)
{
	free_slots(set->slots, set->capacity);
	if (set->reserved)
		free_slots(set->reserved, set->reserved_capacity);
	*set = (struct kw_keyset){0};
}
