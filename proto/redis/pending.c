#include "redis/pending.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_ROOM 64

void kw_pending_close(struct kw_pending_queue *queue)
{
	free(queue->entries);
	*queue = (struct kw_pending_queue){0};
}

static void grow(struct kw_pending_queue *queue)
{
	size_t room = queue->room ? queue->room * 2 : FIRST_ROOM;
	struct kw_pending *entries = kw_alloc(room * sizeof *entries);

	for (size_t i = 0; i < queue->count; i++)
		entries[i] = queue->entries[(queue->first + i) & (queue->room - 1)];
	free(queue->entries);
	queue->entries = entries;
	queue->room = room;
	queue->first = 0;
}

void kw_pending_push(struct kw_pending_queue *queue, struct kw_pending command)
{
	if (queue->count == queue->room)
		grow(queue);
	queue->entries[(queue->first + queue->count) & (queue->room - 1)] = command;
	queue->count++;
	assert(queue->count <= queue->room && (queue->room & (queue->room - 1)) == 0);
}

struct kw_pending kw_pending_pop(struct kw_pending_queue *queue)
{
	struct kw_pending command;

	assert(queue->count > 0);
	command = queue->entries[queue->first];
	queue->first = (queue->first + 1) & (queue->room - 1);
	queue->count--;
	assert(queue->first < queue->room);
	return command;
}
