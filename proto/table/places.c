#include "table/places.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void kw_places_init(struct kw_places *places, uint64_t entries)
{
	uint64_t sets = 1;

	*places = (struct kw_places){0};
	if (entries == 0)
		return;
	while (sets * KW_PLACES_WAYS < entries && sets < UINT64_C(1) << 40)
		sets *= 2;
	places->sets = sets;
	places->entries = kw_zalloc(sets * KW_PLACES_WAYS * sizeof *places->entries);
}

void kw_places_close(struct kw_places *places)
{
	free(places->entries);
	*places = (struct kw_places){0};
}

static struct kw_places_entry *set_of(const struct kw_places *places, uint64_t hash)
{
	/* The low bits: the high ones choose the slot in the index. */
	return places->entries + (hash & (places->sets - 1)) * KW_PLACES_WAYS;
}

/* The way that holds the hash; KW_PLACES_WAYS: none does. */
static int way_of(const struct kw_places_entry *set, uint64_t hash)
{
	int way = 0;

	while (way < KW_PLACES_WAYS && (set[way].hash != hash || set[way].place == 0))
		way++;
	return way;
}

/* Those before `way` move back by one, and `entry` stands first. */
static void move_to_front(struct kw_places_entry *set, int way, const struct kw_places_entry *entry)
{
	struct kw_places_entry first = *entry;

	assert(way >= 0 && way < KW_PLACES_WAYS);
	memmove(set + 1, set, (size_t)way * sizeof *set);
	set[0] = first;
}

void kw_places_approach(const struct kw_places *places, uint64_t hash)
{
	const struct kw_places_entry *set;

	if (!places->entries)
		return;
	set = set_of(places, hash);
	__builtin_prefetch(set);
	__builtin_prefetch(set + KW_PLACES_WAYS - 1); /* on the next line, mostly */
}

const struct kw_places_entry *kw_places_find(struct kw_places *places, uint64_t hash)
{
	struct kw_places_entry *set;
	int way;

	if (!places->entries)
		return NULL;
	set = set_of(places, hash);
	way = way_of(set, hash);
	if (way == KW_PLACES_WAYS)
		return NULL;
	move_to_front(set, way, &set[way]);
	return set;
}

void kw_places_put(struct kw_places *places, const struct kw_places_entry *entry)
{
	struct kw_places_entry *set;
	int way;

	assert(entry->place != 0);
	if (!places->entries)
		return;
	set = set_of(places, entry->hash);
	way = way_of(set, entry->hash);
	/* Lookups of one key can end in another order than they began. */
	if (way < KW_PLACES_WAYS && set[way].version > entry->version)
		return;
	move_to_front(set, way == KW_PLACES_WAYS ? KW_PLACES_WAYS - 1 : way, entry);
}

void kw_places_drop(struct kw_places *places, uint64_t hash)
{
	struct kw_places_entry *set;
	int way;

	if (!places->entries)
		return;
	set = set_of(places, hash);
	way = way_of(set, hash);
	if (way == KW_PLACES_WAYS)
		return;
	memmove(set + way, set + way + 1, (size_t)(KW_PLACES_WAYS - 1 - way) * sizeof *set);
	set[KW_PLACES_WAYS - 1] = (struct kw_places_entry){0};
}

void kw_places_clear(struct kw_places *places)
{
	if (places->entries)
		memset(places->entries, 0, places->sets * KW_PLACES_WAYS * sizeof *places->entries);
}
