#include "redis/arena.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 * 1024)
#define ALIGNMENT alignof(max_align_t)

struct kw_arena_chunk {
	struct kw_arena_chunk *older;
	size_t bytes;
	alignas(max_align_t) uint8_t memory[];
};

static void add_chunk(struct kw_arena *arena, size_t bytes)
{
	struct kw_arena_chunk *chunk;

	if (bytes < CHUNK_BYTES)
		bytes = CHUNK_BYTES;
	chunk = kw_alloc(sizeof *chunk + bytes);
	chunk->older = arena->newest;
	chunk->bytes = bytes;
	arena->newest = chunk;
	arena->used = 0;
}

void *kw_arena_take(struct kw_arena *arena, size_t bytes)
{
	void *memory;

	if (bytes > KW_ARENA_MAX_BYTES - arena->total)
		return NULL;
	bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	/* The first chunk has the common size, whatever comes first: it is the one that is kept. */
	if (!arena->newest)
		add_chunk(arena, CHUNK_BYTES);
	if (bytes > arena->newest->bytes - arena->used)
		add_chunk(arena, bytes);
	memory = arena->newest->memory + arena->used;
	arena->used += bytes;
	assert(arena->used <= arena->newest->bytes);
	arena->total += bytes < KW_ARENA_MAX_BYTES - arena->total
				? bytes
				: KW_ARENA_MAX_BYTES - arena->total;
	return memory;
}

void kw_arena_reset(struct kw_arena *arena)
{
	while (arena->newest && arena->newest->older) {
		struct kw_arena_chunk *chunk = arena->newest;

		arena->newest = chunk->older;
		free(chunk);
	}
	arena->used = 0;
	arena->total = 0;
}

void kw_arena_wipe(struct kw_arena *arena)
{
	if (arena->newest)
		explicit_bzero(
			arena->newest->memory + arena->used, arena->newest->bytes - arena->used);
}

void kw_arena_close(struct kw_arena *arena)
{
	kw_arena_reset(arena);
	free(arena->newest);
	*arena = (struct kw_arena){0};
}
