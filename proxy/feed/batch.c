#include "feed/batch.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

void kw_feed_batch_tell(struct kw_feed_batch *batch)
{
	assert(batch->count <= KW_FEED_BATCH_KEYS && batch->bytes <= KW_FEED_BATCH_BYTES);
	if (batch->count > 0)
		batch->handlers->dirty(batch->handlers->arg, batch->keys, batch->count);
	batch->count = batch->bytes = 0;
}

void kw_feed_batch_add(struct kw_feed_batch *batch, struct kw_dirty_key key)
{
	const struct kw_feed_handlers *handlers = batch->handlers;

	if (batch->count == KW_FEED_BATCH_KEYS ||
		batch->bytes + key.name.length > KW_FEED_BATCH_BYTES)
		kw_feed_batch_tell(batch);
	if (batch->count == 0)
		batch->begun_us = batch->read_us ? batch->read_us : kw_clock_us();
	if (key.name.length > KW_FEED_BATCH_BYTES) {
		handlers->dirty(handlers->arg, &key, 1);
		handlers->turn_wanted(handlers->arg);
		return;
	}
	if (batch->count == 0)
		handlers->turn_wanted(handlers->arg);
	if (key.name.length > 0)
		memcpy(batch->names + batch->bytes, key.name.data, key.name.length);
	key.name.data = batch->names + batch->bytes;
	batch->bytes += key.name.length;
	batch->keys[batch->count++] = key;
}
