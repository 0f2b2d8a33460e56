#include "source/found.h"

#include "base/buffer.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY_US UINT64_C(1000000)
#define PLACES ((size_t)KW_FOUND_BUCKETS * KW_FOUND_PLACES)

void kw_found_init(struct kw_found *found, uint64_t seed)
{
	*found = (struct kw_found){.seed = seed};
}

void kw_found_close(struct kw_found *found)
{
	free(found->places);
}

static struct kw_found_place *bucket_of(const struct kw_found *found, uint64_t hash)
{
	return &found->places[(hash & (KW_FOUND_BUCKETS - 1)) * KW_FOUND_PLACES];
}

static uint64_t hash_of(const struct kw_found *found, uint32_t database, struct kw_slice key)
{
	return kw_hash_key(found->seed, database, key.data, key.length);
}

static struct kw_found_place *place_of(const struct kw_found *found, uint64_t hash)
{
	struct kw_found_place *bucket = bucket_of(found, hash);

	for (int i = 0; i < KW_FOUND_PLACES; i++)
		if (bucket[i].noted_us > 0 && bucket[i].hash == hash)
			return &bucket[i];
	return NULL;
}

static struct kw_found_place *free_place(const struct kw_found *found, uint64_t hash)
{
	struct kw_found_place *bucket = bucket_of(found, hash);

	for (int i = 0; i < KW_FOUND_PLACES; i++)
		if (bucket[i].noted_us == 0)
			return &bucket[i];
	return NULL;
}

static void clear(struct kw_found *found, struct kw_found_place *place)
{
	place->noted_us = 0;
	found->suspected--;
}

void kw_found_suspect(struct kw_found *found, uint32_t database, struct kw_slice key,
	uint64_t barriers, uint64_t now_us)
{
	uint64_t hash = hash_of(found, database, key);
	struct kw_found_place *place;

	if (!found->places)
		found->places = kw_zalloc(PLACES * sizeof *found->places);
	if (place_of(found, hash))
		return; /* the first difference counts */
	place = free_place(found, hash);
	if (!place) {
		found->left_out++;
		return;
	}
	*place = (struct kw_found_place){
		.hash = hash,
		.noted_us = now_us,
		.barriers = barriers,
		.database = database,
		.length = (uint8_t)(key.length < KW_FOUND_NAME ? key.length : KW_FOUND_NAME),
	};
	if (place->length > 0)
		memcpy(place->name, key.data, place->length);
	found->suspected++;
}

void kw_found_told(struct kw_found *found, uint32_t database, struct kw_slice key)
{
	struct kw_found_place *place;

	if (found->suspected == 0)
		return; /* the common case costs no hash */
	place = place_of(found, hash_of(found, database, key));
	if (place)
		clear(found, place);
}

void kw_found_forget(struct kw_found *found)
{
	if (found->suspected > 0)
		memset(found->places, 0, PLACES * sizeof *found->places);
	found->suspected = 0;
}

void kw_found_passed(
	struct kw_found *found, uint64_t barriers, uint64_t now_us, kw_found_fn fn, void *arg)
{
	if (found->suspected == 0 || now_us < found->look_us)
		return;
	found->look_us = now_us + LOOK_EVERY_US;
	for (size_t i = 0; i < PLACES; i++) {
		struct kw_found_place *place = &found->places[i];

		if (place->noted_us == 0 || barriers <= place->barriers ||
			now_us < place->noted_us + found->watch_us + KW_FOUND_WAIT_US)
			continue;
		found->differences++;
		if (fn)
			fn(arg, place->database, kw_slice(place->name, place->length));
		clear(found, place);
	}
}
