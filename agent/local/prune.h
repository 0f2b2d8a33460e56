/*
 * Walking the local keys by SCAN, to delete keys that do not belong there, or only to count:
 *
 *   - after a reconcile: keys in the filter's scope that the snapshot did not have (keep);
 *   - a flush of a database of which only some prefixes are followed (keep nothing);
 *   - before consent: how many keys would the agent touch (count only)?
 *
 *   ┌──────┐ start ┌─────────┐ the databases ┌─────────┐ selected ┌──────────┐ the last ┌─────────┐
 *   │ IDLE │──────▶│ LISTING │──────────────▶│ WAITING │─────────▶│ SCANNING │─────────▶│ SCANNED │
 *   └──────┘       └─────────┘   are known   └─────────┘          └──────────┘          └─────────┘
 *      ▲                                          ▲ the next database, when all is answered  │
 *      │                                          └──────────────────────────────────────────┤
 *      └── the end, an error, stop ◀───────────────────────── it was the last one ───────────┘
 *
 * One SCAN and its UNLINKs are in flight at a time, so the walk is bounded for any keyspace. No
 * other part of the agent may write through the local connection meanwhile. Loop thread only.
 */
#ifndef KW_AGENT_LOCAL_PRUNE_H
#define KW_AGENT_LOCAL_PRUNE_H

#include "base/sm.h"
#include "keys/filter.h"
#include "keys/keyset.h"
#include "local.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_PRUNE_DATABASES_MAX 1024
#define KW_PRUNE_SCAN_COUNT "1000"
#define KW_PRUNE_BATCH 256
/* Counting for consent stops here: "at least so many" is enough. */
#define KW_PRUNE_COUNT_MAX 100000

struct kw_prune_plan {
	const struct kw_filter *filter;
	const struct kw_keyset *keep; /* NULL: keep none */
	int64_t database;             /* -1: every database in the filter */
	bool count_only;
};

enum kw_prune_state {
	KW_PRUNE_IDLE,
	KW_PRUNE_LISTING,  /* INFO keyspace is out */
	KW_PRUNE_WAITING,  /* for the database to be selected */
	KW_PRUNE_SCANNING, /* a SCAN is out, or the UNLINKs of what it showed */
	KW_PRUNE_SCANNED,  /* the same, and that SCAN was the last of its database */
};

struct kw_prune {
	struct kw_local *local;
	struct kw_prune_plan plan;
	kw_local_done_fn done; /* failure NULL: the whole walk succeeded */
	void *arg;
	struct kw_sm sm;
	uint32_t databases[KW_PRUNE_DATABASES_MAX];
	int database_count, database;
	char cursor[24];
	uint32_t owed;               /* answers not yet come */
	uint32_t ignored;            /* of them: of a walk that was given up; they come first */
	struct kw_failure failure;   /* told when the last answer of the walk is in */
	uint64_t looked_at, matched; /* keys; matched: deleted, or counted */
};

void kw_prune_init(struct kw_prune *prune, struct kw_local *local);

static inline bool kw_prune_running(const struct kw_prune *prune)
{
	return prune->sm.state != KW_PRUNE_IDLE;
}

/* Begin a walk; done is called once, from the loop, unless it is given up. */
void kw_prune_start(
	struct kw_prune *prune, const struct kw_prune_plan *plan, kw_local_done_fn done, void *arg);

/* Give up: nothing is called any more. The connection is lost, or the walk is no longer wanted. */
void kw_prune_stop(struct kw_prune *prune);

/* local's handlers.selected: a database that was waited for is there, or refused. */
void kw_prune_selected(struct kw_prune *prune);

#endif
