/*
 * Changes that the feed told with their values, on their way into the table: without a fetch.
 *
 * A whole value, and the end of a key, are always as of the stream's moment. So they may be used
 * unless the table can be ahead of the stream (order.h), or the key waits for something that only a
 * fetch ends (delayed, parked). They answer all that made the key dirty before. A new expiry of a
 * key needs the value, so the table must be exact about the key: not dirty, not guarded, and no
 * sweep that mends is under way. What cannot be used makes the key dirty, which is always right.
 *
 * They are encoded and kept in a batch, which the table stores as it does those of the fetcher.
 * Whoever makes keys dirty, or looks at the table, applies the batch first (kw_store_settle).
 *
 * Pure. The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_VALUES_H
#define KW_PROXY_SOURCE_VALUES_H

#include "base/buffer.h"
#include "feed/feed.h"
#include "source/order.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_VALUES_BATCH 32
#define KW_VALUES_BYTES ((size_t)256 << 10) /* of a batch, if it has more than one value */
#define KW_VALUES_LARGEST ((size_t)1 << 20) /* a larger payload is fetched */

struct kw_store;

/* One that waits; its texts are in `bytes`. */
struct kw_values_change {
	enum kw_record_kind kind;
	uint32_t database;
	size_t name_at, name_length, value_at, value_length;
	uint64_t expires_ms;
};

struct kw_values {
	struct kw_store *store;
	struct kw_order order;
	struct kw_values_change changes[KW_VALUES_BATCH];
	uint32_t count;
	struct kw_buffer bytes;
	uint64_t taken; /* ever: changes that are in the table without a fetch */
};

/* The store outlives it. */
void kw_values_init(struct kw_values *values, struct kw_store *store, uint64_t seed);
void kw_values_close(struct kw_values *values);

/*
 * False: the key must be fetched. exact: what the table has of keys that are not dirty is right. It
 * can be stored later, or its key made dirty: by kw_values_apply at the latest.
 */
bool kw_values_add(struct kw_values *values, const struct kw_feed_value *value, bool exact);

/* Store all that was added. The fetcher has settled. */
void kw_values_apply(struct kw_values *values);

/* How a key gets dirty whose value cannot be used. */
unsigned kw_values_dirty_flags(bool expires);

#endif
