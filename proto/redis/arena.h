/*
 * A bump arena for one reply: everything in it is given back at once.
 *
 * The caller owns the struct, zeroed memory is an empty arena. Memory handed out is aligned for any
 * object and not cleared. One thread.
 */
#ifndef KW_REDIS_ARENA_H
#define KW_REDIS_ARENA_H

#include <stddef.h>

/* The most one reply may take. The server decides how much it sends, so there must be a bound. */
#define KW_ARENA_MAX_BYTES ((size_t)1 << 30)

struct kw_arena_chunk;

struct kw_arena {
	struct kw_arena_chunk *newest; /* a list down to the first, which is kept */
	size_t used;                   /* of the newest */
	size_t total;                  /* handed out since the last reset */
};

/* NULL when the bound would be passed. */
void *kw_arena_take(struct kw_arena *arena, size_t bytes);

/* Everything is free again; only the first, small chunk stays allocated. */
void kw_arena_reset(struct kw_arena *arena);
/* Wipe what is not handed out at present: what earlier replies left. */
void kw_arena_wipe(struct kw_arena *arena);
void kw_arena_close(struct kw_arena *arena);

#endif
