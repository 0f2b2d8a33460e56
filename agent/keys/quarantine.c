#include "quarantine.h"

#include "base/buffer.h"
#include "keyset.h"

#include <stdio.h>
#include <stdlib.h>

#define SMALLEST_TABLE 64

/* A key in quarantine; hash {0, 0}: a free slot. */
struct kw_quarantine_slot {
	struct kw_hash128 hash;
	uint64_t place; /* of the change that was refused */
	uint32_t database;
	uint32_t name; /* its entry of keys, from 1 on; 0: it has none */
};

static bool is_free(const struct kw_quarantine_slot *slot)
{
	return slot->hash.low == 0 && slot->hash.high == 0;
}

/* The one hash that equals a free slot's is stored as another. */
static struct kw_hash128 hash_of(uint32_t database, struct kw_slice key)
{
	struct kw_hash128 hash = kw_keyset_hash(database, key);

	if (hash.low == 0 && hash.high == 0)
		hash.high = 1;
	return hash;
}

/* The slot of the hash, or the free one where it belongs; there always is a free one. */
static struct kw_quarantine_slot *find(
	const struct kw_quarantine *quarantine, struct kw_hash128 hash)
{
	size_t mask = quarantine->capacity - 1;
	size_t at = hash.low & mask;

	while (!is_free(&quarantine->slots[at]) &&
		(quarantine->slots[at].hash.low != hash.low ||
			quarantine->slots[at].hash.high != hash.high))
		at = (at + 1) & mask;
	return &quarantine->slots[at];
}

bool kw_quarantine_has(
	const struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key)
{
	return quarantine->count > 0 && !is_free(find(quarantine, hash_of(database, key)));
}

static void make_room(struct kw_quarantine *quarantine)
{
	const struct kw_quarantine before = *quarantine;

	if (quarantine->capacity && quarantine->count + 1 <= quarantine->capacity / 4 * 3)
		return;
	quarantine->capacity = before.capacity ? before.capacity * 2 : SMALLEST_TABLE;
	quarantine->slots = kw_zalloc(quarantine->capacity * sizeof *quarantine->slots);
	for (size_t i = 0; i < before.capacity; i++)
		if (!is_free(&before.slots[i]))
			*find(quarantine, before.slots[i].hash) = before.slots[i];
	free(before.slots);
}

/* ---- names ---- */

/* The last name takes the place of the one that goes. */
static void remove_name(struct kw_quarantine *quarantine, uint32_t name)
{
	struct kw_quarantined *gone = &quarantine->keys[name - 1];
	const struct kw_quarantined *last = &quarantine->keys[--quarantine->listed];

	if (gone == last)
		return;
	*gone = *last;
	find(quarantine, gone->hash)->name = name;
}

static void set_name(struct kw_quarantined *entry, const struct kw_quarantine_slot *slot,
	struct kw_slice key, struct kw_slice reason)
{
	size_t shown = key.length < KW_QUARANTINE_KEY ? key.length : KW_QUARANTINE_KEY;

	*entry = (struct kw_quarantined){
		.hash = slot->hash,
		.database = slot->database,
		.key_length = (uint32_t)key.length,
	};
	if (shown > 0)
		memcpy(entry->key, key.data, shown);
	snprintf(entry->reason, sizeof entry->reason, "%.*s", (int)reason.length,
		reason.length ? (const char *)reason.data : "");
	for (char *c = entry->reason; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
}

/* ---- in and out ---- */

void kw_quarantine_enter(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key,
	struct kw_slice reason)
{
	struct kw_hash128 hash = hash_of(database, key);
	struct kw_quarantine_slot *slot;

	quarantine->ever++;
	if (quarantine->entered)
		quarantine->entered(quarantine->arg, database, key);
	make_room(quarantine);
	slot = find(quarantine, hash);
	if (is_free(slot) && quarantine->count == KW_QUARANTINE_KEYS) {
		quarantine->unknown++;
		return;
	}
	if (is_free(slot)) {
		*slot = (struct kw_quarantine_slot){.hash = hash, .database = database};
		quarantine->count++;
	}
	slot->place = quarantine->entering;
	if (!quarantine->keys)
		quarantine->keys = kw_alloc(KW_QUARANTINE_NAMES * sizeof *quarantine->keys);
	if (!slot->name && quarantine->listed < KW_QUARANTINE_NAMES)
		slot->name = ++quarantine->listed;
	if (slot->name)
		set_name(&quarantine->keys[slot->name - 1], slot, key, reason);
}

/* Entries after it in its run of slots move up if they would not be found otherwise. */
static void remove_slot(struct kw_quarantine *quarantine, struct kw_quarantine_slot *slot)
{
	struct kw_quarantine_slot *slots = quarantine->slots;
	size_t mask = quarantine->capacity - 1;
	size_t hole = (size_t)(slot - slots);

	if (slot->name)
		remove_name(quarantine, slot->name);
	for (size_t at = (hole + 1) & mask; !is_free(&slots[at]); at = (at + 1) & mask) {
		size_t home = slots[at].hash.low & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		slots[hole] = slots[at];
		hole = at;
	}
	slots[hole] = (struct kw_quarantine_slot){0};
	quarantine->count--;
}

void kw_quarantine_leave(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key)
{
	struct kw_quarantine_slot *slot;

	if (quarantine->count == 0)
		return;
	slot = find(quarantine, hash_of(database, key));
	if (!is_free(slot) && slot->place <= quarantine->leaving)
		remove_slot(quarantine, slot);
}

/* Another entry can have moved up into an emptied slot: look at it again. */
void kw_quarantine_leave_database(struct kw_quarantine *quarantine, uint32_t database)
{
	for (size_t at = 0; quarantine->count > 0 && at < quarantine->capacity;) {
		struct kw_quarantine_slot *slot = &quarantine->slots[at];

		if (!is_free(slot) && slot->database == database &&
			slot->place <= quarantine->leaving)
			remove_slot(quarantine, slot);
		else
			at++;
	}
}

void kw_quarantine_clear(struct kw_quarantine *quarantine)
{
	free(quarantine->slots);
	quarantine->slots = NULL;
	quarantine->capacity = quarantine->count = 0;
	quarantine->listed = 0;
	quarantine->unknown = 0;
}

void kw_quarantine_close(struct kw_quarantine *quarantine)
{
	free(quarantine->slots);
	free(quarantine->keys);
	*quarantine = (struct kw_quarantine){0};
}
