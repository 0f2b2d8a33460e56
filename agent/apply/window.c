#include "window.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

#define SMALLEST_RING 1024
/* Blocks kept for reuse: 16 MiB; a window larger than that pays for its blocks again. */
#define SPARES_MAX 64

struct kw_window_block {
	struct kw_window_block *next;
	size_t capacity, used;
	uint32_t entries; /* kept in it */
	uint8_t bytes[];
};

static struct kw_window_block *take_block(struct kw_window *window, size_t length)
{
	size_t capacity = length > KW_WINDOW_BLOCK ? length : KW_WINDOW_BLOCK;
	struct kw_window_block *block = window->spare;

	if (block && capacity == KW_WINDOW_BLOCK) {
		window->spare = block->next;
		window->spares--;
	} else {
		block = kw_alloc(sizeof *block + capacity);
		block->capacity = capacity;
	}
	block->next = NULL;
	block->used = 0;
	block->entries = 0;
	return block;
}

static void give_block(struct kw_window *window, struct kw_window_block *block)
{
	if (block->capacity != KW_WINDOW_BLOCK || window->spares == SPARES_MAX) {
		free(block);
		return;
	}
	block->next = window->spare;
	window->spare = block;
	window->spares++;
}

/* The block that takes `length` more bytes; large ones stand alone and leave `filling` as it is. */
static struct kw_window_block *block_for(struct kw_window *window, size_t length)
{
	if (length > KW_WINDOW_BLOCK)
		return take_block(window, length);
	if (window->filling && window->filling->capacity - window->filling->used < length) {
		/* Its entries hold it from now on; without any, it would never be given back. */
		if (window->filling->entries == 0)
			give_block(window, window->filling);
		window->filling = NULL;
	}
	if (!window->filling)
		window->filling = take_block(window, length);
	return window->filling;
}

static void grow_ring(struct kw_window *window)
{
	uint32_t capacity = window->capacity ? window->capacity * 2 : SMALLEST_RING;
	struct kw_window_entry *entries = kw_alloc(capacity * sizeof *entries);

	for (uint64_t i = window->first; i < window->end; i++)
		entries[i & (capacity - 1)] = *kw_window_at(window, i);
	free(window->entries);
	window->entries = entries;
	window->capacity = capacity;
}

struct kw_window_entry *kw_window_add(struct kw_window *window, size_t length)
{
	struct kw_window_entry *entry;

	if (window->end - window->first == window->capacity)
		grow_ring(window);
	entry = kw_window_at(window, window->end++);
	*entry = (struct kw_window_entry){.length = length};
	if (length > 0) {
		entry->block = block_for(window, length);
		entry->bytes = entry->block->bytes + entry->block->used;
		entry->block->used += length;
		entry->block->entries++;
	}
	window->bytes += length;
	return entry;
}

struct kw_window_entry *kw_window_unsent(struct kw_window *window)
{
	if (window->failed || window->sent == window->end)
		return NULL;
	return kw_window_at(window, window->sent);
}

void kw_window_mark_sent(struct kw_window *window)
{
	assert(window->sent < window->end);
	window->sent++;
}

struct kw_window_entry *kw_window_awaited(struct kw_window *window)
{
	assert(window->answered < window->sent);
	return kw_window_at(window, window->answered);
}

static void release_first(struct kw_window *window)
{
	struct kw_window_entry *entry = kw_window_at(window, window->first);
	struct kw_window_block *block = entry->block;

	window->first++;
	window->bytes -= entry->length;
	if (!block || --block->entries > 0)
		return;
	if (block == window->filling)
		block->used = 0;
	else
		give_block(window, block);
}

bool kw_window_answer(struct kw_window *window, bool ok)
{
	assert(window->answered < window->sent);
	window->answered++;
	if (!window->failed && ok) {
		release_first(window);
		return false;
	}
	window->failed = true;
	if (window->answered < window->sent)
		return false;
	kw_window_rewind(window);
	return true;
}

void kw_window_rewind(struct kw_window *window)
{
	window->answered = window->first;
	window->sent = window->first;
	window->failed = false;
}

void kw_window_drop(struct kw_window *window)
{
	kw_window_rewind(window);
	while (window->first < window->end)
		release_first(window);
	kw_window_rewind(window);
}

void kw_window_close(struct kw_window *window)
{
	kw_window_drop(window);
	if (window->filling)
		free(window->filling);
	while (window->spare) {
		struct kw_window_block *block = window->spare;

		window->spare = block->next;
		free(block);
	}
	free(window->entries);
	*window = (struct kw_window){0};
}
