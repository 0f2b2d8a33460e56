/*
 * Memory for many small objects of a few sizes, given back when they are gone.
 *
 *   class of 32 bytes, 64, … 1024 ──▶ slabs of 256 KiB with a free slot ──▶ free slots
 *
 * A slab lies at a multiple of its size, so that an object's slab is found from its address. A slab
 * without objects goes back to the system, except one in each class: a set whose size varies around
 * zero must not ask for memory each time. Slabs are mappings of their own, because memory freed to
 * malloc stays resident below what was allocated later. Larger objects are malloc's own.
 *
 * The caller owns the struct and remembers each object's size. One thread.
 */
#ifndef KW_PROXY_KEYS_POOL_H
#define KW_PROXY_KEYS_POOL_H

#include <stddef.h>

#define KW_POOL_STEP 32
#define KW_POOL_CLASSES 32
#define KW_POOL_SLAB ((size_t)256 << 10)

struct kw_slab;

struct kw_pool {
	struct kw_slab *partial[KW_POOL_CLASSES]; /* slabs with a free slot, most recent first */
	size_t bytes;                             /* held from the system */
};

void kw_pool_init(struct kw_pool *pool);

/* Every object must have been given back. */
void kw_pool_close(struct kw_pool *pool);

/* Uninitialised memory, aligned for any type; never NULL (see base/buffer.h). */
void *kw_pool_take(struct kw_pool *pool, size_t size);
void kw_pool_give(struct kw_pool *pool, void *object, size_t size);

#endif
