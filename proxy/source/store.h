/*
 * What was fetched goes into the table, and so do values that the feed told. A key that does not
 * fit now waits for room in the dirty set. One that never fits is remembered, and its old value is
 * deleted: no value is better than a wrong one.
 *
 * The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_STORE_H
#define KW_PROXY_SOURCE_STORE_H

#include "base/bucket.h"
#include "feed/feed.h"
#include "fetch/fetch.h"
#include "keys/databases.h"
#include "keys/dirty.h"
#include "keys/key_table.h"
#include "source/completeness.h"
#include "source/found.h"
#include "source/unreadable.h"
#include "source/values.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A short command can ask for a walk over all of the index: FLUSHDB and SWAPDB. So many of its
 * places a second are walked over for them, or as much as that is done otherwise. That is about two
 * fifths of a core. One walk may begin whatever it costs, and is charged no more than a second.
 * Flushes that INFO tells are charged, but not refused.
 */
#define KW_STORE_WALKED UINT64_C(4000000)

#define KW_STORE_RECORD 128 /* bytes of a record besides key and value, rounded up */

struct kw_source;

struct kw_store {
	struct kw_table *table;
	struct kw_dirty *dirty;
	struct kw_fetch *fetch; /* brings the values */
	struct kw_feed *feed;   /* learns what the table has */
	struct kw_unreadable *unreadable;
	struct kw_values values;       /* told by the feed */
	struct kw_key_table too_large; /* keys that the table can never hold */
	struct kw_bucket logs;         /* lines about them */
	struct kw_bucket walks;        /* places of the index */
	struct kw_databases held;      /* the table has (had) keys of these */
	struct kw_databases expiring;  /* … and keys with an expiry */
	/* Closed, as of now: no database is emptied. */
	enum kw_fence (*fence)(const struct kw_source *source);
	uint64_t (*primary_ms)(const struct kw_source *source); /* its clock */
	bool (*audits)(const struct kw_source *source);         /* is an audit under way? */
	const struct kw_source *source;                         /* given to these */
	struct kw_found found;                                  /* by audits */
	uint64_t barriers;           /* that were asked for, as the source tells them */
	uint64_t unpark_us;          /* when waiting keys are looked at again */
	uint64_t unchanged, deletes; /* counters */
	uint64_t emptied;            /* ever: keys of databases that were emptied */
};

/* table, dirty and unreadable outlive it. Fetch and feed are set before the first fetch. */
void kw_store_init(struct kw_store *store, struct kw_table *table, struct kw_dirty *dirty,
	struct kw_unreadable *unreadable, uint64_t seed);
void kw_store_close(struct kw_store *store);

/* The table was adopted: each database that has keys may have some with an expiry. */
void kw_store_resume(struct kw_store *store);

/* The handlers for fetch; their arg is the store. */
struct kw_fetch_handlers kw_store_handlers(struct kw_store *store);

/*
 * All that was answered or told so far is in the table afterwards. Answers are stored in batches:
 * without this call the table lacks some that came before the latest answer.
 */
void kw_store_settle(struct kw_store *store);

/* Store these changes, in this order; each result is set (kw_table_change_all). */
void kw_store_put(struct kw_store *store, struct kw_table_change *changes, size_t count);

/*
 * The database is empty on the server, as of the last answer. False: the table has no room even for
 * that, or the fence is closed: the flush of a deposed primary may be undone.
 */
bool kw_store_empty(struct kw_store *store, uint32_t database);

/*
 * These were emptied at this offset of the stream. All that is told later is newer, and all that
 * was told before needs no fetch any more. False: a fetch can be ahead of it, too much was flushed
 * of late, or the table has no room to say so.
 */
bool kw_store_flush(struct kw_store *store, const struct kw_databases *databases, uint64_t begin);

/* May one more command be carried out that walks over the index? It has cost so many places. */
bool kw_store_may_walk(struct kw_store *store);
void kw_store_walked(struct kw_store *store, uint64_t places);

/*
 * So many barriers have passed, and nothing that silent commands did is still to be told:
 * differences that audits found and nothing told are counted.
 */
void kw_store_passed(struct kw_store *store, uint64_t barriers);

/* Add the databases of which the table holds keys, as of the last answer. */
void kw_store_held(struct kw_store *store, struct kw_databases *databases);

/* Those of which it lacks keys: too large for it, or unreadable. */
void kw_store_lacking(struct kw_store *store, struct kw_databases *databases);

/* A sweep over these databases began: keys that the table lacks are asked for by name. */
void kw_store_sweep_missing(struct kw_store *store, const struct kw_databases *databases);

/* Let waiting keys be fetched again if there is room for them now. */
void kw_store_unpark(struct kw_store *store, uint64_t now_us);

/* When to call kw_store_unpark; UINT64_MAX: no key waits. */
uint64_t kw_store_ready_us(const struct kw_store *store);

/* Keys that wait for room, or are fetched again and not in the table yet. */
uint64_t kw_store_waiting(const struct kw_store *store);

#endif
