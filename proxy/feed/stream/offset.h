/*
 * Waiting for an offset of the replication stream: that of all which the server did before ROLE.
 *
 *   ┌──────┐ ask ┌───────┐ ROLE answered ┌─────────┐ the stream came to it
 *   │ NONE │────▶│ ASKED │──────────────▶│ AWAITED │──────────────────────▶ reset
 *   └──────┘     └───────┘               └─────────┘
 *                  ▲   │ a replica that has lost its primary tells none
 *                  │   ▼
 *              ask again
 *
 * Pure. Zeroed memory is NONE.
 */
#ifndef KW_PROXY_FEED_STREAM_OFFSET_H
#define KW_PROXY_FEED_STREAM_OFFSET_H

#include "redis/redis.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct kw_offset {
	enum { KW_OFFSET_NONE, KW_OFFSET_ASKED, KW_OFFSET_AGAIN, KW_OFFSET_AWAITED } state;
	uint64_t offset; /* AWAITED */
};

static inline void kw_offset_reset(struct kw_offset *offset)
{
	*offset = (struct kw_offset){0};
}

static inline void kw_offset_ask(struct kw_offset *offset)
{
	assert(offset->state == KW_OFFSET_NONE || offset->state == KW_OFFSET_AGAIN);
	offset->state = KW_OFFSET_ASKED;
}

/*
 * The answer to ROLE: [master, offset, …] or [slave, host, port, state, offset]. A replica tells
 * how much it has processed of its own primary's stream, which it sends on as it is. False: this is
 * no such answer.
 */
static inline bool kw_offset_told(struct kw_offset *offset, const struct kw_reply *reply)
{
	const struct kw_reply *number = NULL;

	assert(offset->state == KW_OFFSET_ASKED);
	if (reply->type == KW_REPLY_ARRAY && reply->count == 3)
		number = &reply->elements[1];
	else if (reply->type == KW_REPLY_ARRAY && reply->count == 5)
		number = &reply->elements[4];
	if (!number || number->type != KW_REPLY_INTEGER)
		return false;
	if (number->integer < 0)
		offset->state = KW_OFFSET_AGAIN;
	else
		*offset = (struct kw_offset){KW_OFFSET_AWAITED, (uint64_t)number->integer};
	return true;
}

static inline bool kw_offset_is_awaited(const struct kw_offset *offset)
{
	return offset->state != KW_OFFSET_NONE;
}

static inline bool kw_offset_is_reached(const struct kw_offset *offset, uint64_t now)
{
	return offset->state == KW_OFFSET_AWAITED && now >= offset->offset;
}

static inline bool kw_offset_is_ahead(const struct kw_offset *offset, uint64_t now)
{
	return offset->state == KW_OFFSET_AWAITED && now < offset->offset;
}

#endif
