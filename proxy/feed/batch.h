/*
 * The keys that a feed learns of within a loop turn, until they are told: in batches, because the
 * dirty set loads what a few keys touch while it works on others.
 *
 * The owner provides the struct, zeroed but for `handlers`. Loop thread only.
 */
#ifndef KW_PROXY_FEED_BATCH_H
#define KW_PROXY_FEED_BATCH_H

#include "feed/feed.h"

#define KW_FEED_BATCH_KEYS 64
#define KW_FEED_BATCH_BYTES 4096

struct kw_feed_batch {
	const struct kw_feed_handlers *handlers;
	struct kw_dirty_key keys[KW_FEED_BATCH_KEYS];
	uint8_t names[KW_FEED_BATCH_BYTES];
	size_t count, bytes;
	uint64_t read_us;  /* by the owner: when it read what it adds now; 0: as it adds it */
	uint64_t begun_us; /* when the first of the keys was read, that are told now or were last */
};

/* The name is copied. A full batch is told at once, and so is a name that no batch has room for. */
void kw_feed_batch_add(struct kw_feed_batch *batch, struct kw_dirty_key key);

/* Tell what was collected: before anything else is told, so that the order is kept. */
void kw_feed_batch_tell(struct kw_feed_batch *batch);

#endif
