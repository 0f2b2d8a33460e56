/*
 * Changes that the feed told with their values, on their way into the table: without a fetch.
 *
 * What a fetch has already is passed over (order.h).
 *
 * A whole value, and the end of a key, are always as of the stream's moment. So they may be used
 * unless the table can be ahead of the stream, or the key waits for something that only a
 * fetch ends (delayed, parked). They answer all that made the key dirty before.
 *
 * Other changes say what becomes of a value: its expiry is kept or changed, a number is added,
 * bytes are appended, another key gets it. They are used if that value is *exact*:
 *
 *   a change of the key waits here   it was told with its whole value, so it is exact, always
 *   otherwise the table's            the key owes no fetch, none is ahead, and no sweep mends
 *   … and the table has none         the key does not exist, if the server is a primary, and it is
 *                                    none of those that the table cannot hold, or that nobody can
 *                                    read
 *
 * A value whose time is over, or nearly, is not exact: the server may have left it out without a
 * word.
 *
 * A replica answers nil for a key whose expiry has passed, and still has it until its primary's DEL
 * comes. The primary may have changed that expiry before.
 *
 * What cannot be used makes the key dirty, which is always right. So does what a server would have
 * refused: then the value was not what it was taken for.
 *
 * Bytes that the stream did not carry are bounded: a short command can change a long value. Beyond
 * so many a second keys are fetched, and the dirty set absorbs what follows.
 *
 * Changes are kept in a batch (latest.h), which the table stores as it does those of the fetcher.
 * Whoever makes keys dirty, or looks at the table, applies the batch first (kw_store_settle).
 *
 * Pure. The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_VALUES_H
#define KW_PROXY_SOURCE_VALUES_H

#include "base/bucket.h"
#include "base/buffer.h"
#include "feed/feed.h"
#include "source/latest.h"
#include "source/order.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_VALUES_LARGEST ((size_t)1 << 20) /* a larger string or payload is fetched */

/* Bytes of strings that are amended, a second. LZF packs some 250 MB a second. */
#define KW_VALUES_AMENDED ((uint64_t)64 << 20)
#define KW_VALUES_COPIED 8 /* a payload that is only copied costs so many times less */

/*
 * The server's clock may be ahead of what the last look said of it by so much. With more, counters
 * that last for a second would all be fetched.
 */
#define KW_VALUES_CLOCKS_DIFFER_MS 100

struct kw_store;

struct kw_values {
	struct kw_store *store;
	struct kw_order order;
	struct kw_latest latest;
	struct kw_bucket derived;       /* bytes that the stream did not carry */
	struct kw_buffer before, after; /* scratch: strings that are amended */
	uint64_t taken;                 /* ever: changes that are in the table without a fetch */
};

/* The store outlives it. */
void kw_values_init(struct kw_values *values, struct kw_store *store, uint64_t seed);
void kw_values_close(struct kw_values *values);

/* What the table says of keys that are not dirty, as of the stream's moment. */
enum kw_values_exact {
	KW_VALUES_INEXACT,   /* nothing that counts */
	KW_VALUES_EXACT_HAS, /* what a key has; one that it lacks may be there */
	KW_VALUES_EXACT,     /* both */
};

/*
 * False: the key must be fetched. It can be stored later, or its key made dirty: by kw_values_apply
 * at the latest.
 */
bool kw_values_add(
	struct kw_values *values, const struct kw_feed_value *value, enum kw_values_exact exact);

/* Is there anything to apply? */
bool kw_values_wait(const struct kw_values *values);

/* Store all that was added. The fetcher has settled. */
void kw_values_apply(struct kw_values *values);

/* How a key gets dirty whose value cannot be used. */
unsigned kw_values_dirty_flags(bool expires);

#endif
