/*
 * Flushes that the replication stream told, and that cannot be used as they are: which of these
 * databases are empty still?
 *
 *   ┌──────┐ FLUSHALL, FLUSHDB ┌────────┐ INFO keyspace
 *   │ IDLE │──────────────────▶│ ASKING │──────────────▶ IDLE, or ASKING for those that came since
 *   └──────┘                   └────────┘
 *
 * The answer comes on the data connection, in order with all values that were fetched. A database
 * that it does not list is empty as of that answer, and is told as flushed: whatever was fetched
 * before goes, and keys that came later are in the stream behind it. A database with keys again is
 * in doubt, because the table has keys of both sides of the flush.
 *
 * Until then the flush explains why keys of these are gone, also to a sweep that has found them
 * gone already. From the answer on it explains nothing, but for the databases in doubt.
 *
 * A stream that has not told its database yet flushes one that is not known. All databases that the
 * answer does not list are empty, and are told as flushed. Any other can be the one, with keys
 * again, so each is in doubt. If one was found empty, it is that one most likely, and nothing
 * explains why keys of another are gone.
 *
 * The owner provides the struct, zeroed but for its first members. Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_FLUSHED_H
#define KW_PROXY_FEED_STREAM_FLUSHED_H

#include "feed/feed.h"
#include "fetch/data.h"
#include "keys/databases.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_flushed_state { KW_FLUSHED_IDLE, KW_FLUSHED_ASKING };

struct kw_flushes {
	struct kw_databases databases;
	bool one;       /* and one more, which is not known */
	uint64_t begin; /* where the first of them begins in the stream; of none: not defined */
};

struct kw_flushed {
	struct kw_data_connection *data;
	const struct kw_feed_handlers *handlers;

	enum kw_flushed_state state;
	struct kw_flushes asked; /* ASKING: of these */
	struct kw_flushes later; /* ASKING: flushed since */
};

void kw_flushed_close(struct kw_flushed *flushed);

/* These databases were flushed, by a command that begins there in the stream. */
void kw_flushed_add(
	struct kw_flushed *flushed, const struct kw_databases *databases, uint64_t begin);

/* One database was flushed, and it is not known which. */
void kw_flushed_add_one(struct kw_flushed *flushed, uint64_t begin);

/* Up to where it is known what became of all flushes, if the stream is at `offset`. */
uint64_t kw_flushed_told(const struct kw_flushed *flushed, uint64_t offset);

/* The data connection is gone: nothing is asked any more. */
void kw_flushed_stop(struct kw_flushed *flushed);

static inline bool kw_flushed_under_way(const struct kw_flushed *flushed)
{
	return flushed->state != KW_FLUSHED_IDLE;
}

#endif
