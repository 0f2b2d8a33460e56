/*
 * The order between what was fetched and what the replication stream tells.
 *
 * They come on two connections. A value that was fetched can be ahead of the stream: then the
 * stream tells an older value of the same key afterwards. Such a key is *guarded*: a value from the
 * stream is not used for it, and it is fetched again. It is guarded until the stream has come to
 * where the server was after the fetch.
 *
 *   ┌─────┐ a value ┌────────┐ asked ┌───────┐ passed ┌──────┐ asked, when keys ┌───────┐
 *   │ OFF │────────▶│ WANTED │──────▶│ FIRST │───────▶│ EVEN │─────────────────▶│ ASKED │
 *   └─────┘         └────────┘       └───────┘        └──────┘◀─ passed ────────└───────┘
 *   every key is guarded ────────────────────┘  those fetched since the last order was asked, and
 *                                               (ASKED) those before it
 *
 * Two sets of bits hold the guarded keys by their hash. A key that shares its bit with another is
 * fetched once more, which does no harm. So the memory is bounded, whatever is fetched.
 *
 * Pure. The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_ORDER_H
#define KW_PROXY_SOURCE_ORDER_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_ORDER_BITS 65536 /* a power of two */

enum kw_order_state {
	KW_ORDER_OFF, /* the feed told no value since it is ready */
	KW_ORDER_WANTED,
	KW_ORDER_FIRST,
	KW_ORDER_EVEN,
	KW_ORDER_ASKED,
};

struct kw_order_set {
	uint64_t bits[KW_ORDER_BITS / 64];
	uint32_t count; /* that were added */
};

struct kw_order {
	enum kw_order_state state;
	uint64_t seed;
	struct kw_order_set since;  /* FIRST, EVEN, ASKED: fetched since the last order was asked */
	struct kw_order_set before; /* ASKED: fetched before it */
};

void kw_order_init(struct kw_order *order, uint64_t seed);

/* The feed is not ready any more. */
void kw_order_reset(struct kw_order *order);

/* An answer to a fetch of the key is in the table now, or it was that the key is gone. */
void kw_order_fetched(struct kw_order *order, uint32_t database, struct kw_slice key);

/* A value of the key is told. May the table be ahead of it? */
bool kw_order_guards(struct kw_order *order, uint32_t database, struct kw_slice key);

/* Should kw_feed_order be asked now? All answers that came are in the table. */
bool kw_order_is_due(const struct kw_order *order);
void kw_order_asked(struct kw_order *order);
void kw_order_passed(struct kw_order *order);

#endif
