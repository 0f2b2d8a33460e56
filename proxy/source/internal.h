/*
 * The inside of a source, shared by the files that make it:
 *
 *   source.c  what callers see; the loop turn; the state told outside
 *   link.c    the two connections: opening, handshake, loss, backoff
 *   store.c   what was fetched, into the table
 *   unreadable.c  what cannot be fetched
 *   sweep.c   first scan, reconcile, audit
 *   fresh.c   the freshness barrier
 *   pacing.c  what fetching costs the primary
 *
 * Everything that can be done without a source has a file and a header of its own.
 */
#ifndef KW_PROXY_SOURCE_INTERNAL_H
#define KW_PROXY_SOURCE_INTERNAL_H

#include "base/bucket.h"
#include "base/sm.h"
#include "feed/doubt.h"
#include "feed/feed.h"
#include "fetch/fetch.h"
#include "fetch/lane.h"
#include "fetch/pace.h"
#include "fetch/scan.h"
#include "fetch/waiting.h"
#include "keys/databases.h"
#include "keys/dirty.h"
#include "keys/scope.h"
#include "source/completeness.h"
#include "source/source.h"

/*
 *   IDLE ──backoff──▶ OPENING ──handshake──▶ UP
 *    ▲                   │                   │  a connection lost, a refusal
 *    └── both closed ─ CLOSING ◀─────────────┘
 */
enum kw_link {
	KW_LINK_IDLE,
	KW_LINK_OPENING,
	KW_LINK_UP,
	KW_LINK_CLOSING,
};

enum kw_sweep_kind {
	KW_SWEEP_NONE,
	KW_SWEEP_AUDIT, /* at the audit's rate, while the state stays live */
	KW_SWEEP_RECONCILE,
	KW_SWEEP_FIRST, /* the table was never complete */
};

/*
 *   ASKING ─▶ SCANNING ─▶ DRAINING ─▶ UNSEEN ─▶ SETTLING ─▶ (done)
 *   INFO      SCAN        its keys    walk the  their keys
 *   keyspace              fetched     table     fetched
 */
enum kw_sweep_phase {
	KW_SWEEP_IDLE,
	KW_SWEEP_ASKING,
	KW_SWEEP_SCANNING,
	KW_SWEEP_DRAINING,
	KW_SWEEP_UNSEEN,
	KW_SWEEP_SETTLING,
};

struct kw_sweep {
	enum kw_sweep_kind kind;
	enum kw_sweep_phase phase;
	struct kw_databases wanted;
	struct kw_databases lasting; /* no key in them had an expiry when it began */
	uint64_t cursor;             /* of the walk over the table */
	bool from_nothing;           /* the table was empty when it began: no key can be unseen */
	bool asked;                  /* INFO of this sweep is owed */
	uint32_t strays;             /* … and so many of sweeps that were given up, before it */
	struct kw_bucket pace;       /* of an audit */
	uint64_t audit_us;           /* when the next audit begins */
	bool renewed;                /* it was begun anew for what came up during it */
	uint64_t ended;              /* that mend, since the proxy began */
	uint64_t clean;              /* … and left no database in doubt */
	uint32_t row;                /* so many began at once when another had ended */
	struct kw_databases later;   /* in doubt since it began: another one behind it */
	enum kw_doubt later_cause;
	char later_why[KW_ERROR_TEXT];
	char why[KW_ERROR_TEXT];
};

enum kw_fresh_phase {
	KW_FRESH_IDLE,
	KW_FRESH_ASKED,
	KW_FRESH_SPOILT, /* asked, and doubt came up since: the answer proves nothing */
	KW_FRESH_MARKED,
};

struct kw_fresh {
	enum kw_fresh_phase phase;
	uint64_t asked_us; /* wall clock */
	uint64_t fresh_us; /* wall clock; what the table's facts say */
};

struct kw_pacing {
	bool asked;   /* INFO is asked for */
	bool has_cpu; /* … and its first half has come */
	uint64_t asked_us;
	struct kw_waiting waiting; /* for a core; since the proxy began */
	struct kw_pace_counts counts;
};

struct kw_source {
	uv_loop_t *loop;
	struct kw_source_options options;
	struct kw_source_handlers handlers;
	struct kw_table *table;

	struct kw_sm sm;
	char reason[KW_ERROR_TEXT];
	enum kw_completeness completeness;

	uv_timer_t wake;        /* a turn that nothing else brings about */
	uv_timer_t watching;    /* watch looks */
	uv_timer_t freshening;  /* the barrier */
	uv_timer_t pacing_tick; /* what does fetching cost? */
	uv_timer_t retrying;    /* the next attempt to connect */
	uv_check_t check;       /* once a loop turn, behind all input */
	uv_idle_t busy;         /* while there is work */
	int handles;
	uint64_t wake_us;
	bool turn_wanted; /* something happened since the last turn */
	bool closing;
	void (*closed)(void *arg);
	void *closed_arg;

	enum kw_link link;
	struct kw_lane lane;
	struct kw_feed *feed;
	bool linked;       /* it has been up before */
	uint32_t attempts; /* since it was last well: backoff */
	uint64_t up_us;
	struct kw_error down; /* why it is not up; code KW_OK: no attempt failed yet */

	struct kw_scope scope;
	struct kw_databases held;     /* the table has (had) keys of these */
	struct kw_databases expiring; /* … and keys with an expiry */
	struct kw_dirty *dirty;
	struct kw_fetch *fetch;
	struct kw_scan *scan;
	struct kw_keyset too_large;  /* keys that the table can never hold */
	struct kw_keyset unreadable; /* keys at which the connection breaks (fetch.h) */
	struct kw_bucket too_large_log;
	uint64_t unpark_us; /* when parked keys are looked at again */
	uint64_t retry_us;  /* when the first unreadable key is tried again */

	struct kw_sweep sweep;
	struct kw_fresh fresh;
	struct kw_pace pace;
	struct kw_pacing pacing;
	struct kw_source_stats stats;
};

/* source.c: do what is due at the end of this loop turn; from callbacks of connections. */
static inline void kw_source_want_turn(struct kw_source *source)
{
	source->turn_wanted = true;
}

/* source.c: the same from anywhere else (timers, callers), where the loop might block first. */
void kw_source_wake(struct kw_source *source);

/* source.c: events may have been missed in these databases (NULL: in all). */
void kw_source_doubt(struct kw_source *source, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why);
/* source.c: the table's facts, from ours. */
void kw_source_tell_table(struct kw_source *source);
void kw_source_closed_part(struct kw_source *source);

/* link.c */
/* The feed is made after this. */
void kw_link_init(struct kw_source *source);
/* What the feed tells of itself. */
void kw_link_ready(struct kw_source *source, enum kw_feed_server server);
void kw_link_feed_lost(struct kw_source *source, const struct kw_error *why);
void kw_link_part_closed(struct kw_source *source);
void kw_link_open(struct kw_source *source);
/* As the source's, with a name for CLIENT LIST of their own. */
void kw_link_options(
	const struct kw_source *source, const char *name, struct kw_redis_options *options);
void kw_link_fail(struct kw_source *source, const struct kw_error *why);
/* Nothing is connected any more. */
bool kw_link_closed(const struct kw_source *source);

/* store.c */
enum kw_put_result kw_source_store(void *arg, uint32_t database, struct kw_slice key,
	const struct kw_slice *payload, uint64_t expires_ms);
uint64_t kw_source_expiry(void *arg, uint32_t database, struct kw_slice key);
bool kw_source_expires(void *arg, uint32_t database, struct kw_slice key);
uint64_t kw_source_expect(void *arg, uint32_t database, struct kw_slice key);
void kw_source_expect_again(void *arg, uint64_t expected);
void kw_source_approach(void *arg, uint64_t expected);
/* The database is empty on the server. False: the table has no room even for that. */
bool kw_source_empty_database(struct kw_source *source, uint32_t database);
/* Keys that the table lacks for ever may be gone, and neither scan nor walk would tell. */
void kw_source_look_at_lacking(struct kw_source *source);
/* Let parked keys go for which there is room now. */
void kw_source_unpark(struct kw_source *source, uint64_t now_us);

/* unreadable.c */
void kw_unreadable_init(struct kw_source *source, uint64_t seed);
/* … fetch's handlers */
enum kw_put_result kw_source_unreadable(
	void *arg, uint32_t database, struct kw_slice key, enum kw_fetch_found found);
enum kw_fetch_mark kw_source_unreadable_mark(void *arg, uint32_t database, struct kw_slice key);
/* Those that were left alone for long enough get dirty. */
void kw_source_retry_unreadable(struct kw_source *source, uint64_t now_us);
/*
 * Another server answers, before up_us says so: did the last one die of a key? Else whoever started
 * it may have mended what made keys unreadable.
 */
void kw_source_restarted(struct kw_source *source);

/* sweep.c */
void kw_sweep_begin(struct kw_source *source, enum kw_sweep_kind kind,
	const struct kw_databases *databases, const char *why);
void kw_sweep_stop(struct kw_source *source);
/* Another one behind the one under way, over these databases (NULL: all). */
void kw_sweep_later(struct kw_source *source, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why);
void kw_sweep_turn(struct kw_source *source, uint64_t now_us);
void kw_sweep_scanned(void *arg, uint32_t database, struct kw_slice key);
/* When a turn is worth while for its sake alone; 0: at once; UINT64_MAX: never. */
uint64_t kw_sweep_ready_us(const struct kw_source *source, uint64_t now_us);

/* Has a first scan or a reconcile ended since the proxy began? */
static inline bool kw_sweep_any_ended(const struct kw_source *source)
{
	return source->sweep.ended > 0;
}

static inline bool kw_sweep_mending(const struct kw_source *source)
{
	return source->sweep.kind > KW_SWEEP_AUDIT;
}

/* pacing.c */
void kw_pacing_tick(struct kw_source *source);

/* fresh.c */
void kw_fresh_tick(struct kw_source *source);
void kw_fresh_turn(struct kw_source *source);
void kw_fresh_passed(struct kw_source *source);
/* The barrier that was asked for is never answered. */
void kw_fresh_reset(struct kw_source *source);
void kw_fresh_abandon(struct kw_source *source);

#endif
