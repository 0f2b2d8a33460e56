#include "redis/owed.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_ROOM 64

void kw_owed_close(struct kw_owed_ring *ring)
{
	free(ring->entries);
	*ring = (struct kw_owed_ring){0};
}

static void grow(struct kw_owed_ring *ring)
{
	size_t room = ring->room ? ring->room * 2 : FIRST_ROOM;
	struct kw_owed *entries = kw_alloc(room * sizeof *entries);

	for (size_t i = 0; i < ring->count; i++)
		entries[i] = ring->entries[(ring->first + i) & (ring->room - 1)];
	free(ring->entries);
	ring->entries = entries;
	ring->room = room;
	ring->first = 0;
}

void kw_owed_push(struct kw_owed_ring *ring, struct kw_owed owed)
{
	if (ring->count == ring->room)
		grow(ring);
	ring->entries[(ring->first + ring->count) & (ring->room - 1)] = owed;
	ring->count++;
}

struct kw_owed kw_owed_pop(struct kw_owed_ring *ring)
{
	struct kw_owed owed;

	assert(ring->count > 0);
	owed = ring->entries[ring->first];
	ring->first = (ring->first + 1) & (ring->room - 1);
	ring->count--;
	return owed;
}
