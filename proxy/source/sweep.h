/*
 * Sweeps: every key of some databases is read again, and keys of the table that the scan did not
 * see are asked for by name. Three things are done this way: the first scan, a reconcile, the
 * audit.
 *
 *   ┌──────┐   ┌────────┐   ┌──────────┐   ┌──────────┐
 *   │ IDLE │──▶│ ASKING │──▶│ SCANNING │──▶│ DRAINING │───┐ an audit: the feed tells all that
 *   └──────┘   └────────┘   └──────────┘   └──────────┘   ▼ came before
 *              INFO         SCAN           its keys   ┌──────────┐
 *              keyspace                    are fetched│ AWAITING │
 *                                                     └──────────┘
 *                                                         ▼
 *                                                     ┌──────────┐
 *                              unseen keys are counted│ COUNTING │◀─┐ the table changed,
 *                                                     └──────────┘  │ approved
 *                                                          │     │ too many
 *                                                          │     ▼      │
 *                                                          │   ┌──────┐ │
 *                                                          │   │ HELD │─┘──▶ ASKING, now and then
 *                                                          ▼   └──────┘
 *                           ┌──────────┐   ┌────────┐   ┌──────────┐
 *                  IDLE ◀───│ SETTLING │◀──│ UNSEEN │◀──│ EMPTYING │  only if databases
 *                           └──────────┘   └────────┘   └──────────┘
 *                           their keys     walk over    were absent, and the
 *                           are fetched    the table    brake is off
 *
 *   any ── begun anew ──▶ ASKING        any ── stopped ──▶ IDLE
 *
 * AWAITING: a fetch or a scan can be ahead of the feed. A flush that it will tell explains why keys
 * are gone, and without it they would be taken for lost. So an audit waits for a barrier that was
 * asked for after its keys were fetched. While the table mends, or is full, no barrier passes.
 *
 * HELD is the brake (brake.h): too many keys would be deleted only because the scan did not see
 * them. Before the count is over none of them is asked for, and no database is emptied. Changes
 * that the feed tells go on meanwhile.
 *
 * Why nothing is left out: the feed runs before a sweep begins, so changes during it are told. Keys
 * that went before it began are in the table without a mark, and the walk finds them.
 *
 * The caller owns the struct. Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_SWEEP_H
#define KW_PROXY_SOURCE_SWEEP_H

#include "base/bucket.h"
#include "base/error.h"
#include "base/sm.h"
#include "feed/doubt.h"
#include "fetch/data.h"
#include "fetch/pace.h"
#include "fetch/scan.h"
#include "keys/databases.h"
#include "keys/dirty.h"
#include "keys/scope.h"
#include "source/brake.h"
#include "source/fresh.h"
#include "source/store.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_sweep_kind {
	KW_SWEEP_NONE,
	KW_SWEEP_AUDIT, /* at the audit's rate, while the state stays live */
	KW_SWEEP_RECONCILE,
	KW_SWEEP_FIRST, /* the table was never complete */
};

enum kw_sweep_state {
	KW_SWEEP_IDLE,
	KW_SWEEP_ASKING,
	KW_SWEEP_SCANNING,
	KW_SWEEP_DRAINING,
	KW_SWEEP_AWAITING,
	KW_SWEEP_COUNTING,
	KW_SWEEP_HELD,
	KW_SWEEP_EMPTYING,
	KW_SWEEP_UNSEEN,
	KW_SWEEP_SETTLING,
};

/* What a sweep works with; all of it outlives the sweep. */
struct kw_sweep_parts {
	struct kw_data_connection *data;
	struct kw_table *table;
	struct kw_store *store;
	const struct kw_fresh *fresh; /* its barriers */
	struct kw_dirty *dirty;
	struct kw_pace *pace;
	const struct kw_scope *scope;
	uint32_t window; /* of the fetcher: bounds the scanned keys that wait */
	/* A first scan or a reconcile ended, and none is under way. */
	void (*ended)(void *arg);
	/* May anything be read from the server now? Asked between turns; a turn is its own answer.
	 */
	bool (*may_read)(void *arg);
	/* The primary's wall clock, which decides what has expired. */
	uint64_t (*primary_ms)(void *arg);
	void *arg;
};

/* Doubts that came up during a sweep and wait for its end. */
struct kw_sweep_later {
	struct kw_databases databases;
	struct kw_databases explained; /* as of the sweep */
	enum kw_doubt cause;
	char why[KW_ERROR_TEXT];
};

struct kw_sweep {
	struct kw_sm sm;
	struct kw_sweep_parts parts;
	struct kw_scan *scan;
	enum kw_sweep_kind kind;
	struct kw_databases wanted;
	struct kw_databases absent;    /* of the table, and not listed by INFO keyspace */
	struct kw_databases explained; /* why their absent keys are gone is known */
	struct kw_databases lasting;   /* no key in them had an expiry when the sweep began */
	uint64_t keys_before;          /* of the table when it began; 0: no key can be unseen */
	uint64_t emptied_before;       /* … what the store had counted as emptied */
	uint64_t cursor;               /* of the walk over the table */
	uint64_t barrier;              /* AWAITING: that many had been asked for when it began */
	uint32_t answers_owed;         /* of INFO keyspace; the last of them is for this sweep */
	uint32_t renewals;             /* how often doubts made it begin anew */
	uint32_t row;                  /* so many began at once after another had ended */
	struct kw_bucket audit_pace;
	uint64_t audit_us; /* when the next audit begins */
	struct kw_sweep_later later;
	struct kw_brake brake;
	uint64_t primary_ms; /* when the count began */
	char why[KW_ERROR_TEXT];

	uint64_t audits;     /* begun; since the proxy began, as the following */
	uint64_t ended;      /* first scans and reconciles that ended */
	uint64_t clean;      /* … and left no database in doubt */
	uint64_t scanned;    /* keys seen in the present or last sweep */
	uint64_t scan_total; /* estimate from INFO keyspace */
	uint32_t beyond;     /* a database that has keys and cannot be replicated; 0: none */
};

void kw_sweep_init(struct kw_sweep *sweep, const struct kw_sweep_parts *parts);
void kw_sweep_close(struct kw_sweep *sweep);

/* Keys a second of an audit; 0: off, and one under way ends. */
void kw_sweep_limit(struct kw_sweep *sweep, uint64_t audit_keys_per_second, uint64_t now_us);

/*
 * Sweep these databases (NULL: all), because of why. A sweep under way begins anew and covers its
 * own databases as well.
 */
void kw_sweep_begin(struct kw_sweep *sweep, enum kw_sweep_kind kind,
	const struct kw_databases *databases, const char *why);

/*
 * The server counted a command that explains why keys of these databases (NULL: of all) are absent:
 * the brake does not count them until a sweep has ended, and the one that waits for its end, or
 * until kw_sweep_unexplain. A sweep that is held looks again at once.
 */
void kw_sweep_explain(struct kw_sweep *sweep, const struct kw_databases *databases);

/*
 * The table has none of those keys any more, or a doubt of these databases follows. What explained
 * them is used up: it must not let keys go that are lost later.
 */
void kw_sweep_unexplain(struct kw_sweep *sweep, const struct kw_databases *databases);

/* Another server answers: what the last one counted explains nothing any more. */
void kw_sweep_forget_explanations(struct kw_sweep *sweep);

/* 0 to 1: the share of missing keys beyond which a sweep is held; 1: never. */
void kw_sweep_set_max_missing(struct kw_sweep *sweep, double share);

/* What is held may be deleted. False: nothing is held. It happens in the next turns. */
bool kw_sweep_approve(struct kw_sweep *sweep);

/* Forget the sweep under way and what waits for its end. */
void kw_sweep_stop(struct kw_sweep *sweep);

/* Remember a doubt for the end of the sweep under way (databases NULL: all). */
void kw_sweep_postpone(struct kw_sweep *sweep, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why);

/* In `ended`: take the doubt that was postponed. False: there is none. The caller closes it. */
bool kw_sweep_take_later(struct kw_sweep *sweep, struct kw_sweep_later *later);

/* A key of this database might have got an expiry. */
void kw_sweep_expiry_set(struct kw_sweep *sweep, uint32_t database);
/* These changed places, in the table as well. */
void kw_sweep_swapped(struct kw_sweep *sweep, const uint32_t databases[2]);

void kw_sweep_turn(struct kw_sweep *sweep, uint64_t now_us);

/* When it needs a turn of its own; 0: at once; UINT64_MAX: never. */
uint64_t kw_sweep_ready_us(const struct kw_sweep *sweep, uint64_t now_us);

/* Is a sweep under way that the brake holds, or one that looks again at what it held? */
static inline bool kw_sweep_is_held(const struct kw_sweep *sweep)
{
	return kw_brake_is_on(&sweep->brake);
}

/*
 * Does a sweep ask which databases have keys? The answer can be older than what the feed tells
 * meanwhile, and a database that it does not list can be emptied.
 */
static inline bool kw_sweep_is_listing(const struct kw_sweep *sweep)
{
	return sweep->answers_owed > 0;
}

/* Is a sweep under way that the table needs? */
static inline bool kw_sweep_is_mending(const struct kw_sweep *sweep)
{
	return sweep->kind > KW_SWEEP_AUDIT;
}

#endif
