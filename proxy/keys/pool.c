#include "keys/pool.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct slot {
	struct slot *next;
};

struct kw_slab {
	struct kw_slab *next, *prev; /* in the class's list of slabs with a free slot */
	struct slot *free;
	uint32_t used;
	uint32_t
		fresh; /* slots never used begin here: a new slab is not walked to build its list */
	uint32_t capacity;
	uint32_t class;
};

#define SLAB_HEAD ((sizeof(struct kw_slab) + KW_POOL_STEP - 1) / KW_POOL_STEP * KW_POOL_STEP)

static size_t class_of(size_t size)
{
	return size == 0 ? 0 : (size - 1) / KW_POOL_STEP;
}

static void list_add(struct kw_pool *pool, struct kw_slab *slab)
{
	slab->prev = NULL;
	slab->next = pool->partial[slab->class];
	if (slab->next)
		slab->next->prev = slab;
	pool->partial[slab->class] = slab;
}

static void list_remove(struct kw_pool *pool, struct kw_slab *slab)
{
	if (slab->prev)
		slab->prev->next = slab->next;
	else
		pool->partial[slab->class] = slab->next;
	if (slab->next)
		slab->next->prev = slab->prev;
}

static void *map(size_t bytes)
{
	void *mapped =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED) {
		fprintf(stderr, "out of memory: a slab of %zu bytes\n", KW_POOL_SLAB);
		abort();
	}
	return mapped;
}

/* The kernel sets one mapping beside the other, so that all but the first few are aligned. */
static void *map_slab(void)
{
	uint8_t *mapped = map(KW_POOL_SLAB), *slab;
	size_t before;

	if ((uintptr_t)mapped % KW_POOL_SLAB == 0)
		return mapped;
	munmap(mapped, KW_POOL_SLAB);
	mapped = map(2 * KW_POOL_SLAB);
	before = KW_POOL_SLAB - (uintptr_t)mapped % KW_POOL_SLAB;
	slab = mapped + before;
	munmap(mapped, before);
	if (before < KW_POOL_SLAB)
		munmap(slab + KW_POOL_SLAB, KW_POOL_SLAB - before);
	return slab;
}

static struct kw_slab *slab_new(struct kw_pool *pool, size_t class)
{
	struct kw_slab *slab = map_slab();

	*slab = (struct kw_slab){
		.class = (uint32_t) class,
		.capacity = (uint32_t)((KW_POOL_SLAB - SLAB_HEAD) / ((class + 1) * KW_POOL_STEP)),
	};
	pool->bytes += KW_POOL_SLAB;
	list_add(pool, slab);
	return slab;
}

/* False: the kernel has no room for two mappings in place of one; the slab stays what it is. */
static bool slab_free(struct kw_pool *pool, struct kw_slab *slab)
{
	list_remove(pool, slab);
	if (munmap(slab, KW_POOL_SLAB) != 0) {
		list_add(pool, slab);
		return false;
	}
	pool->bytes -= KW_POOL_SLAB;
	return true;
}

void kw_pool_init(struct kw_pool *pool)
{
	*pool = (struct kw_pool){0};
}

void kw_pool_close(struct kw_pool *pool)
{
	for (size_t class = 0; class < KW_POOL_CLASSES; class ++) {
		while (pool->partial[class]) {
			assert(pool->partial[class]->used == 0);
			if (!slab_free(pool, pool->partial[class]))
				break;
		}
	}
}

void *kw_pool_take(struct kw_pool *pool, size_t size)
{
	size_t class = class_of(size);
	struct kw_slab *slab;
	void *object;

	if (class >= KW_POOL_CLASSES) {
		pool->bytes += size;
		return kw_alloc(size);
	}
	slab = pool->partial[class];
	if (!slab)
		slab = slab_new(pool, class);
	if (slab->free) {
		object = slab->free;
		slab->free = slab->free->next;
	} else {
		object = (uint8_t *)slab + SLAB_HEAD + slab->fresh * (class + 1) * KW_POOL_STEP;
		slab->fresh++;
	}
	if (++slab->used == slab->capacity)
		list_remove(pool, slab);
	return object;
}

void kw_pool_give(struct kw_pool *pool, void *object, size_t size)
{
	struct kw_slab *slab;
	struct slot *slot = object;

	if (class_of(size) >= KW_POOL_CLASSES) {
		pool->bytes -= size;
		free(object);
		return;
	}
	slab = (struct kw_slab *)((uintptr_t)object & ~(uintptr_t)(KW_POOL_SLAB - 1));
	assert(slab->class == class_of(size));
	assert(slab->used > 0);
	slot->next = slab->free;
	slab->free = slot;
	if (slab->used-- == slab->capacity)
		list_add(pool, slab);
	if (slab->used == 0 && (slab->next || slab->prev))
		slab_free(pool, slab);
}
