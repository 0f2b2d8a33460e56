/*
 * The order between what was fetched and what the replication stream tells.
 *
 * They come on two connections, and each can be ahead of the other. So the connection of the
 * fetches asks for offsets of the stream, too. Its answers come in the order of its questions, and
 * thus each fetch lies between two known offsets:
 *
 *   the data connection      offset 100     DUMP k      offset 180
 *                                 ├────────────────────────┤
 *   changes of k in the stream    │                        │
 *                       … 70 … 90 │  … 120 …               │ 200 …
 *                           OLD   │  UNSURE                │ NEW
 *
 * OLD: the fetch has it. NEW: it does not. UNSURE: nobody knows, and the key is fetched again. This
 * time is short on the server, however far the stream is behind. If each change until the second
 * offset were unsure, then a stream that lags would make fetches, and these would make it lag more.
 *
 *   ┌─────┐ a change ┌────────┐ asked ┌───────┐ told ┌──────┐ asked, after fetches ┌───────┐
 *   │ OFF │─────────▶│ WANTED │──────▶│ FIRST │─────▶│ EVEN │─────────────────────▶│ ASKED │
 *   └─────┘          └────────┘       └───────┘      └──────┘◀──────── told ───────└───────┘
 *   all are unsure, until the stream is at the first offset
 *
 * An answer that a database is empty is a fetch of all its keys: none of them is there. So changes
 * of a database that was emptied are old, unsure or new as well.
 *
 * Keys are known by 64 bits of a hash with a seed that nobody knows. There are buckets of a few
 * places for fetches that the stream has not passed. In a bucket without a place all keys that are
 * not in it are unsure until the stream has passed them, too. So the memory is bounded (4 MiB),
 * whatever is fetched. There is room for 10 s of fetches at 10,000 a second, beyond which they
 * would make others again.
 *
 * Pure. The caller provides the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_ORDER_H
#define KW_PROXY_SOURCE_ORDER_H

#include "base/slice.h"
#include "keys/databases.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_ORDER_BUCKETS 16384 /* a power of two */
#define KW_ORDER_PLACES 8
#define KW_ORDER_UNTILS 64 /* databases beyond share them */

enum kw_order_state {
	KW_ORDER_OFF, /* the feed told no value since it is ready */
	KW_ORDER_WANTED,
	KW_ORDER_FIRST,
	KW_ORDER_EVEN,
	KW_ORDER_ASKED,
};

enum kw_order_age { KW_ORDER_OLD, KW_ORDER_UNSURE, KW_ORDER_NEW };

/* Where a change is in the stream: between these offsets. */
struct kw_order_span {
	uint64_t begin, end; /* end UINT64_MAX: it is not known yet */
};

/* The last fetch of a key. The stream has passed it when it is at `after`: the place is free. */
struct kw_order_place {
	uint64_t hash;
	uint64_t before, after; /* offsets; before 0: no change is old */
};

struct kw_order_bucket {
	struct kw_order_place places[KW_ORDER_PLACES];
	uint64_t crowded; /* until here there are fetches without a place */
};

struct kw_order {
	enum kw_order_state state;
	uint64_t seed;
	uint64_t first;  /* EVEN, ASKED: the first offset that was told */
	uint64_t last;   /* EVEN, ASKED: the last one */
	uint64_t passed; /* the stream has come so far */
	/* By the number of the database: from here on all of it is new; UINT64_MAX: not known yet.
	 */
	uint64_t until[KW_ORDER_UNTILS];
	struct kw_order_bucket *buckets;
	struct kw_order_bucket emptied;  /* places of databases, by their numbers */
	uint32_t open[KW_ORDER_BUCKETS]; /* those with fetches since the last offset was told */
	uint32_t open_count;
};

/* seed: unpredictable. */
void kw_order_init(struct kw_order *order, uint64_t seed);
void kw_order_close(struct kw_order *order);

/* The feed is not ready any more: nothing is known of its offsets. */
void kw_order_reset(struct kw_order *order);

/* An answer to a fetch of the key is in the table now, or it was that the key is gone. */
void kw_order_fetched(struct kw_order *order, uint32_t database, struct kw_slice key);

/* The key was asked for, but the table has something else: no change of it is old. */
void kw_order_asked_for(struct kw_order *order, uint32_t database, struct kw_slice key);

/* The server answered that the database is empty, and so is the table now: as if each key of it had
 * been fetched, and was gone. */
void kw_order_emptied(struct kw_order *order, uint32_t database);

/* A change of the key is told. The stream has come to its begin, and never goes back. */
enum kw_order_age kw_order_age(
	struct kw_order *order, uint32_t database, struct kw_slice key, struct kw_order_span span);

/* The stream is at this offset, and never goes back. Is all new to what was fetched of these? */
bool kw_order_has_passed(
	struct kw_order *order, const struct kw_databases *databases, uint64_t begin);

/* Should the offset be asked for now? */
bool kw_order_is_due(const struct kw_order *order);
void kw_order_asked(struct kw_order *order);
/* All answers that came before this one are in the table, and none that came after it. */
void kw_order_told(struct kw_order *order, uint64_t offset);

#endif
