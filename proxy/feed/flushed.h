/*
 * Flushes that the replication stream told: which of these databases are empty still?
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
 * The owner provides the struct, zeroed but for its first members. Loop thread only.
 */
#ifndef KW_PROXY_FEED_FLUSHED_H
#define KW_PROXY_FEED_FLUSHED_H

#include "feed/feed.h"
#include "fetch/data.h"
#include "keys/databases.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_flushed_state { KW_FLUSHED_IDLE, KW_FLUSHED_ASKING };

struct kw_flushed {
	struct kw_data_connection *data;
	const struct kw_feed_handlers *handlers;

	enum kw_flushed_state state;
	struct kw_databases asked; /* ASKING: of these */
	struct kw_databases later; /* ASKING: flushed since */
};

void kw_flushed_close(struct kw_flushed *flushed);

/* This database was flushed (NULL: all). */
void kw_flushed_add(struct kw_flushed *flushed, const uint32_t *database);

/* The data connection is gone: nothing is asked any more. */
void kw_flushed_stop(struct kw_flushed *flushed);

static inline bool kw_flushed_under_way(const struct kw_flushed *flushed)
{
	return flushed->state != KW_FLUSHED_IDLE;
}

#endif
