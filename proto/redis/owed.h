/*
 * The replies a server owes us, in order: a ring that grows and keeps its size.
 *
 * Pure memory; the caller owns the struct, zeroed memory is an empty ring. One thread.
 */
#ifndef KW_REDIS_OWED_H
#define KW_REDIS_OWED_H

#include "redis/redis.h"

struct kw_owed {
	kw_reply_fn fn; /* NULL: the reply is dropped */
	void *arg;
	bool subscribes; /* its reply confirms a subscription */
};

struct kw_owed_ring {
	struct kw_owed *entries; /* room is a power of two */
	size_t first, count, room;
};

void kw_owed_close(struct kw_owed_ring *ring);
void kw_owed_push(struct kw_owed_ring *ring, struct kw_owed owed);

/* The oldest, taken out; the ring is not empty. */
struct kw_owed kw_owed_pop(struct kw_owed_ring *ring);

#endif
