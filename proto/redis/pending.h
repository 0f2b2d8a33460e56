/*
 * The commands whose replies are pending, in the order sent: a ring that grows and keeps its size.
 *
 * Pure memory; the caller owns the struct, zeroed memory is an empty queue. One thread.
 */
#ifndef KW_REDIS_PENDING_H
#define KW_REDIS_PENDING_H

#include "redis/bound.h"
#include "redis/redis.h"

struct kw_pending {
	kw_reply_fn fn; /* NULL: the reply is dropped */
	void *arg;
	enum { KW_PENDING_REPLY, KW_PENDING_SUBSCRIPTION, KW_PENDING_SECRET } kind;
	enum kw_bound bound; /* of its reply */
};

struct kw_pending_queue {
	struct kw_pending *entries; /* room is a power of two */
	size_t first, count, room;
};

void kw_pending_close(struct kw_pending_queue *queue);
void kw_pending_push(struct kw_pending_queue *queue, struct kw_pending command);

/* The oldest, which stays; the queue is not empty. */
static inline const struct kw_pending *kw_pending_first(const struct kw_pending_queue *queue)
{
	return &queue->entries[queue->first];
}

/* The oldest, taken out; the queue is not empty. */
struct kw_pending kw_pending_pop(struct kw_pending_queue *queue);

#endif
