#include "feed/notify/canary.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DATABASES_MOST 4096 /* databases beyond it have none: a flush scans them again */

struct nest {
	struct kw_canary places[KW_CANARIES];
	uint32_t count;
};

struct kw_canaries {
	struct nest **nests; /* by database; NULL: none yet */
	uint32_t count;
};

struct kw_canaries *kw_canaries_new(void)
{
	return kw_zalloc(sizeof(struct kw_canaries));
}

void kw_canaries_free(struct kw_canaries *canaries)
{
	if (!canaries)
		return;
	for (uint32_t i = 0; i < canaries->count; i++)
		free(canaries->nests[i]);
	free(canaries->nests);
	free(canaries);
}

static struct nest *nest_of(struct kw_canaries *canaries, uint32_t database)
{
	return database < canaries->count ? canaries->nests[database] : NULL;
}

static struct nest *nest_new(struct kw_canaries *canaries, uint32_t database)
{
	if (database >= canaries->count) {
		uint32_t count = database + 1;

		canaries->nests = kw_realloc(canaries->nests, count * sizeof *canaries->nests);
		memset(canaries->nests + canaries->count, 0,
			(count - canaries->count) * sizeof *canaries->nests);
		canaries->count = count;
	}
	assert(database < canaries->count);
	if (!canaries->nests[database])
		canaries->nests[database] = kw_zalloc(sizeof(struct nest));
	return canaries->nests[database];
}

static struct kw_canary *find(struct nest *nest, struct kw_slice key)
{
	for (int i = 0; nest && i < KW_CANARIES; i++) {
		struct kw_canary *canary = &nest->places[i];

		if (canary->state != KW_CANARY_NONE &&
			kw_slice_equal(kw_slice(canary->name, canary->length), key))
			return canary;
	}
	return NULL;
}

void kw_canary_offer(struct kw_canaries *canaries, uint32_t database, struct kw_slice key)
{
	struct nest *nest = nest_of(canaries, database);

	if (nest && nest->count == KW_CANARIES)
		return; /* the common case */
	if (key.length > KW_CANARY_BYTES || database >= DATABASES_MOST || find(nest, key))
		return;
	if (!nest)
		nest = nest_new(canaries, database);
	for (int i = 0; i < KW_CANARIES; i++) {
		struct kw_canary *canary = &nest->places[i];

		if (canary->state != KW_CANARY_NONE)
			continue;
		/* If a check is under way: this key was not in the table before the flush. */
		*canary = (struct kw_canary){
			.state = KW_CANARY_TOUCHED, .length = (uint32_t)key.length};
		if (key.length > 0)
			memcpy(canary->name, key.data, key.length);
		nest->count++;
		assert(nest->count <= KW_CANARIES);
		return;
	}
}

void kw_canary_gone(struct kw_canaries *canaries, uint32_t database, struct kw_slice key)
{
	struct nest *nest = nest_of(canaries, database);
	struct kw_canary *canary = find(nest, key);

	if (!canary)
		return;
	assert(nest->count > 0);
	canary->state = KW_CANARY_NONE;
	nest->count--;
}

void kw_canary_forget_database(struct kw_canaries *canaries, uint32_t database)
{
	struct nest *nest = nest_of(canaries, database);

	if (nest)
		memset(nest, 0, sizeof *nest);
}

void kw_canary_watch(struct kw_canaries *canaries)
{
	for (uint32_t i = 0; i < canaries->count; i++)
		for (int j = 0; canaries->nests[i] && j < KW_CANARIES; j++)
			if (canaries->nests[i]->places[j].state == KW_CANARY_TOUCHED)
				canaries->nests[i]->places[j].state = KW_CANARY_UNTOUCHED;
}

void kw_canary_touch(struct kw_canaries *canaries, uint32_t database, struct kw_slice key)
{
	struct kw_canary *canary = find(nest_of(canaries, database), key);

	if (canary)
		canary->state = KW_CANARY_TOUCHED;
}

struct kw_canary *kw_canary_of(struct kw_canaries *canaries, uint32_t database)
{
	struct nest *nest = nest_of(canaries, database);

	return nest ? nest->places : NULL;
}
