/*
 * The source: follows one Redis primary and keeps the table equal to it.
 *
 *   events connection (pub/sub) ──"this key is dirty"──▶ dirty set ──▶ fetch: DUMP, PEXPIRETIME
 *   data connection: SCAN ─────────"this key is dirty"──▶    (each key once)       │
 *                                                                                   ▼
 *                                                                    kw_table_put / kw_table_delete
 *
 * An event is never applied, it only says which key to read again; a key that gets dirty while it
 * is being fetched is fetched again. So an old value never overtakes a newer state.
 *
 *                    ┌───────────────────────────────────────────────┐ lost, run_id/role changed,
 *                    ▼                                               │ flags taken away
 *   ┌────────────┐ subscribed ┌──────────┐ first scan done ┌──────┐  │
 *   │ CONNECTING │──────────▶│ SCANNING │───────────────▶│ LIVE │──┤
 *   └────────────┘            └──────────┘                 └──────┘  │
 *         ▲                   doubt during it └─▶┌─────────────┐▲ │   │
 *         │ backoff                              │ RECONCILING │┘◀┘  │
 *      ┌──────┐                                  └─────────────┘      │
 *      │ DOWN │◀───────────────────────────────────────────────────────┘
 *      └──────┘     FULL: as LIVE, but puts wait
 *
 * UNCONFIRMED: follows each and leads to each while connected; nobody confirms the server as the
 * primary (fence.h).
 *
 * STALLED: follows each and leads to each while connected; the primary does not answer (silence.h).
 *
 * HELD: as RECONCILING, but the scan missed so many keys that their deletion waits (brake.h).
 *
 * The source writes into the table and sets its facts; its owner publishes. Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_H
#define KW_PROXY_SOURCE_H

#include "base/error.h"
#include "base/log.h"
#include "base/reason.h"
#include "feed/flags.h"
#include "feed/policy.h"
#include "fetch/pace.h"
#include "mandate/mandate.h"
#include "redis/redis.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kw_feed;
struct kw_feed_options;
struct kw_feed_handlers;
struct kw_stages;
struct kw_ticket_price;

struct kw_source_options {
	struct kw_redis_options redis;
	const int64_t *databases; /* NULL: all; copied */
	size_t database_count;
	uint64_t keys_per_second;  /* fetches; 0: no limit */
	uint64_t bytes_per_second; /* payload fetched; 0: no limit */
	double primary_share;      /* of the primary's time, while others want it; 0: 1, no limit */
	double max_missing; /* share of the keys that a sweep may delete by inference; 1: all */
	uint64_t audit_keys_per_second; /* the slow sweep that bounds everything else; 0: off */
	uint32_t watch_interval_ms;     /* INFO commandstats, CONFIG GET flags; 0: 1000 */
	enum kw_source_flags flags;
	uint32_t fresh_interval_ms;   /* freshness barrier; 0: 100 */
	uint32_t unreadable_pause_ms; /* the first pause of such a key if it changed; 0: 60000 */
	uint32_t window;              /* fetches in flight; 0: 1024 */
	enum kw_source_feed kind;     /* of the feed */
	/* Makes the feed (feed.h); NULL: that of this kind. */
	struct kw_feed *(*feed)(
		const struct kw_feed_options *options, const struct kw_feed_handlers *handlers);
	/* Who confirms the primary; outlives the source. NULL: nobody is asked. */
	struct kw_mandate *mandate;
	/* Not NULL: redis.address is empty; follow the primary that the mandate names, by this
	 * scheme. */
	const char *follow_scheme;
	const char *name;        /* of the proxy: published with the history of the data; "": "_" */
	const char *canary_key;  /* written to prove the flags (beat.h); copied; NULL: none */
	const char *cursor_name; /* apply.cursor_name of agents: never replicated onward; copied */
	bool functions;          /* read the function libraries, too; the table was made for them */
};

/* Counts since the start; each finding that led to a reconcile has its counter. */
struct kw_source_stats {
	uint64_t events, fetches, fetched_bytes, unchanged, deletes;
	uint64_t values;       /* changes taken from the replication stream, without a fetch */
	uint64_t values_shed;  /* … that are fetched: the stream was too far behind the server */
	uint64_t behind_bytes; /* of the stream that are not told yet, as far as is known */
	uint64_t synchronisations;   /* full ones, without keys: the server forked */
	uint64_t audit_differences;  /* keys that an audit found changed, and nothing told so */
	uint64_t audit_unjudged;     /* … of which nobody knows: they were too many at once */
	uint64_t upstream_silent_us; /* since the server heard of its own primary; 0: it has none */
	uint64_t dirty_keys;         /* now: waiting and in flight */
	uint64_t scanned;            /* keys seen in the present or last scan */
	uint64_t scan_total;         /* estimate from INFO keyspace */
	uint64_t reconciles;         /* all; by cause: */
	uint64_t reconciles_connection, reconciles_flags, reconciles_flush, reconciles_swapdb,
		reconciles_identity, reconciles_audit, reconciles_asked, reconciles_command;
	uint64_t silent_refetches;  /* keys fetched again for commands that raise no event */
	uint64_t too_large;         /* keys that cannot be in the table */
	uint64_t unreadable;        /* keys at whose DUMP the connection breaks */
	uint64_t rejected_payloads; /* DUMP replies whose CRC64 did not hold: fetched again */
	uint64_t full_waiting;      /* keys that wait for room */
	uint64_t missing_keys;      /* keys whose deletion the brake holds back */
	uint64_t missing_of;        /* … of so many that the primary should have */
	uint64_t approvals;         /* findings of the brake that an operator approved */
	int64_t clock_skew_us;      /* primary's clock less ours */
	enum kw_feed_flags flags;
	kw_flag_classes flags_proven; /* by source.canary_key */
	enum kw_source_feed feed;     /* never auto */
	const char *feed_why;         /* why auto has chosen it; "" otherwise */
};

/* The function libraries (functions.h): what an operator is shown. */
struct kw_source_functions_report {
	const char *state; /* "off", "unknown", "carried", "held", … */
	uint64_t libraries, bytes, version, changes;
	bool held; /* what the table has waits for approval to go */
	const char *why;
};

struct kw_source_handlers {
	/* State (as in the superblock) or reason changed. reason: a sentence, or "". */
	void (*state)(void *arg, enum kw_source_state state, const char *reason);
	/* NULL: no matter. The ticket that was under way has passed; another one can begin in a
	 * later loop turn. */
	void (*ticket_passed)(void *arg);
	void *arg;
};

struct kw_source;

int kw_source_new(uv_loop_t *loop, const struct kw_source_options *options, struct kw_table *table,
	const struct kw_source_handlers *handlers, struct kw_source **source,
	struct kw_error *error);

void kw_source_start(struct kw_source *source);

/* Doubt from outside (the operator): scan again and mend. */
void kw_source_reconcile(struct kw_source *source, const char *why);

/*
 * The keys that the brake holds back may be deleted: for this finding alone. If none are, the
 * function libraries that are held may go. finding: what was approved, as a sentence. KW_E_STATE:
 * nothing is held.
 */
int kw_source_approve(
	struct kw_source *source, char finding[KW_ERROR_TEXT], struct kw_error *error);

/* The cause of unreadable keys might be mended: each is tried again. */
void kw_source_forgive(struct kw_source *source);

/*
 * A reader waits for this ticket (layout.h). True: one was announced for it. The caller publishes
 * the table then, and after that calls kw_source_begin_ticket.
 */
bool kw_source_want_ticket(struct kw_source *source, uint16_t wanted);
void kw_source_begin_ticket(struct kw_source *source);

/* What one costs the server, by the present feed (ticket.h). */
const struct kw_ticket_price *kw_source_ticket_price(const struct kw_source *source);

/*
 * Judge the mandate now, and say in the table what follows. The owner calls this before each
 * publication, so that no table is published as live on a confirmation that is too old, and when
 * the mandate may have changed.
 */
void kw_source_confirm(struct kw_source *source);

/* The number, as in the superblock. */
uint16_t kw_source_ticket(const struct kw_source *source);

/* The password for connections from now on; copied. Those that stand stay. */
void kw_source_set_password(struct kw_source *source, struct kw_slice password);

/* Live changes of the limits. */
void kw_source_set_limits(struct kw_source *source, uint64_t keys_per_second,
	uint64_t bytes_per_second, uint64_t audit_keys_per_second);

/* 0 to 1; 1: no sweep is held. */
void kw_source_set_max_missing(struct kw_source *source, double share);

/* 0 to 1; 1: no limit. */
void kw_source_set_primary_share(struct kw_source *source, double share);
void kw_source_pace(const struct kw_source *source, struct kw_pace_report *report);

void kw_source_functions(const struct kw_source *source, struct kw_source_functions_report *report);

/*
 * For same_value of the table's options: a string that was stored as the stream told it, and that
 * the server packs, or the other way round.
 */
bool kw_source_same_value(struct kw_slice held, struct kw_slice put);

/* All values that were told are in the table afterwards: before the owner publishes it. */
void kw_source_settle(struct kw_source *source);

/* The owner has published the table. */
void kw_source_published(struct kw_source *source);

/* Where the time goes from the primary to the table: by enum kw_trace_stage (trace.h). */
struct kw_stages *kw_source_stages(struct kw_source *source);

/* The server that is followed, as it was looked at last: both are "" before the first look. */
const char *kw_source_run_id(const struct kw_source *source);
const char *kw_source_role(const struct kw_source *source);

/*
 * Events of a primary since its mandate was lost: a client writes there, and no agent follows. And
 * how often they were out of sight since then (late.h). Both are 0 while it is confirmed, and for a
 * replica.
 */
void kw_source_late(const struct kw_source *source, uint64_t *events, uint64_t *losses);

enum kw_source_state kw_source_state(const struct kw_source *source);
const char *kw_source_reason(const struct kw_source *source);
const struct kw_reason_row *kw_source_reason_row(const struct kw_source *source);
enum kw_log_level kw_source_level(const struct kw_source *source); /* of the line that says so */
const char *kw_source_state_name(enum kw_source_state state);
void kw_source_stats(const struct kw_source *source, struct kw_source_stats *stats);

/* Close connections; done when all handles are closed and the source is freed. */
void kw_source_close(struct kw_source *source, void (*done)(void *arg), void *arg);

#endif
