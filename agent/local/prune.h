/*
 * Walking the local keys by SCAN, to delete keys that do not belong there, or only to count:
 *
 *   - after a reconcile: keys in the filter's scope that the snapshot did not have (keeps);
 *   - a flush of a database of which only some keys are followed (keep nothing);
 *   - before consent: how many keys would the agent touch (count only)?
 *   - before a snapshot replaces everything: some keys, picked at random (sample).
 *
 * A walk that asks first (allows) goes twice: it counts, and deletes only what is allowed then. The
 * keys that it found are remembered if they are few. In that case the second walk needs no SCAN.
 *
 *   ┌──────┐ start ┌─────────┐ the databases ┌─────────┐ selected ┌──────────┐ the last ┌─────────┐
 *   │ IDLE │──────▶│ LISTING │──────────────▶│ WAITING │─────────▶│ SCANNING │─────────▶│ SCANNED │
 *   └──────┘       └─────────┘   are known   └─────────┘          └──────────┘          └─────────┘
 *      ▲                                          ▲ the next database, when all is answered  │
 *      │                                          └──────────────────────────────────────────┤
 *      └── the end, an error, stop ◀───────────────────────── it was the last one ───────────┤
 *      ▲                                        ┌──────────┐  and what it remembers may go    │
 *      └────────────────────────────────────────│ DELETING │◀─────────────────────────────────┘
 *                                               └──────────┘
 *
 * DELETING goes by WAITING, too, for each database.
 *
 * In scope is a key that has the local name of one that is followed (keys/naming.h). No other key
 * is counted or deleted, whatever the plan says.
 *
 * One SCAN and its UNLINKs are in flight at a time, so the walk is bounded for any keyspace. No
 * other part of the agent may write through the local connection meanwhile. Loop thread only.
 */
#ifndef KW_AGENT_LOCAL_PRUNE_H
#define KW_AGENT_LOCAL_PRUNE_H

#include "base/buffer.h"
#include "base/sm.h"
#include "keys/filter.h"
#include "local.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_PRUNE_DATABASES_MAX 1024
#define KW_PRUNE_SCAN_COUNT "1000"
#define KW_PRUNE_BATCH 256
/* Counting for consent stops here: "at least so many" is enough. */
#define KW_PRUNE_COUNT_MAX 100000
/* Keys are remembered in so many bytes at most. */
#define KW_PRUNE_REMEMBER_BYTES ((size_t)1 << 20)

struct kw_prune_plan {
	const struct kw_filter *filter;
	/*
	 * Does this key stay? By its name in the table; all else here is by the local one. NULL:
	 * none does. Also given the walk's arg.
	 */
	bool (*keeps)(void *arg, uint32_t database, struct kw_slice key);
	int64_t database; /* -1: every database in the filter */
	bool count_only;
	/* May so many of the keys in scope be deleted? NULL: yes. Called once, after the count. */
	bool (*allows)(void *arg, uint64_t deletions, uint64_t keys);
	/*
	 * Delete this key in another way than by UNLINK: the server takes no writes of a client.
	 * The owner calls kw_prune_removed when the deletions of all keys given so far are in.
	 * NULL: UNLINK.
	 */
	void (*remove)(void *arg, uint32_t database, struct kw_slice key);
	/*
	 * With count_only: stop after about so many keys, taken from each database by its size, and
	 * remember them. 0: all are walked. SCAN goes by hash, so they are picked at random.
	 */
	uint64_t sample;
};

/* One of the keys that a walk remembers. */
struct kw_prune_key {
	uint32_t database;
	struct kw_slice key;
};

enum kw_prune_state {
	KW_PRUNE_IDLE,
	KW_PRUNE_LISTING,  /* INFO keyspace is out */
	KW_PRUNE_WAITING,  /* for the database to be selected */
	KW_PRUNE_SCANNING, /* a SCAN is out, or the UNLINKs of what it showed */
	KW_PRUNE_SCANNED,  /* the same, and that SCAN was the last of its database */
	KW_PRUNE_DELETING, /* UNLINKs of keys remembered are out */
};

enum kw_prune_pass {
	KW_PRUNE_COUNTS,
	KW_PRUNE_DELETES,
};

struct kw_prune {
	struct kw_local *local;
	struct kw_prune_plan plan;
	kw_local_done_fn done; /* failure NULL: the whole walk succeeded */
	void *arg;
	struct kw_sm sm;
	enum kw_prune_pass pass;
	uint32_t databases[KW_PRUNE_DATABASES_MAX];
	uint64_t database_keys[KW_PRUNE_DATABASES_MAX]; /* as INFO counts them */
	int database_count, database;
	char cursor[24];
	uint32_t owed;                /* answers not yet come */
	uint32_t ignored;             /* of them: of a walk that was given up; they come first */
	uint64_t removing;            /* keys given to plan.remove since the last _removed */
	struct kw_failure failure;    /* told when the last answer of the walk is in */
	uint64_t looked_at, in_scope; /* keys; in scope: of the filter, and not our cursor */
	uint64_t matched;             /* of these: to be deleted, or counted */
	uint64_t deleted;             /* of these: UNLINKs are out */
	uint64_t matched_before;      /* when the present database began */
	uint64_t left_out;            /* databases of which a sample has only a part */
	uint64_t remembered;          /* keys in `found`; the first of those matched */
	struct kw_buffer found;       /* of them kw_prune_next_key reads one after the other */
	struct kw_buffer name;        /* of a key in the table, while it is looked at */
};

void kw_prune_init(struct kw_prune *prune, struct kw_local *local);

static inline bool kw_prune_running(const struct kw_prune *prune)
{
	return prune->sm.state != KW_PRUNE_IDLE;
}

/* The walk has counted more than it may delete, and has deleted nothing. Asked in its `done`. */
static inline bool kw_prune_denied(const struct kw_prune *prune)
{
	return prune->plan.allows && prune->pass == KW_PRUNE_COUNTS && prune->matched > 0;
}

/*
 * Read the first of the keys remembered. False: there is none. It stays valid until it is dropped.
 */
bool kw_prune_next_key(const struct kw_buffer *found, struct kw_prune_key *key);
void kw_prune_drop_key(struct kw_buffer *found);

/* Begin a walk; done is called once, from the loop, unless it is given up. */
void kw_prune_start(
	struct kw_prune *prune, const struct kw_prune_plan *plan, kw_local_done_fn done, void *arg);

/* The deletions that plan.remove was asked for are in: the walk goes on. Harmless otherwise. */
void kw_prune_removed(struct kw_prune *prune);

/* Give up, and free what is held: nothing is called any more. The connection is lost, or the walk
 * is no longer wanted. */
void kw_prune_stop(struct kw_prune *prune);

/* local's handlers.selected: a database that was waited for is there, or refused. */
void kw_prune_selected(struct kw_prune *prune);

#endif
