/*
 * The followed table, and gets from it.
 *
 *   ask ──▶ ┌─────────┐ room among `depth` ┌────────┐ proved and told ──▶ fn
 *           │ WAITING │───────────────────▶│ LOOKED │
 *           └─────────┘                    └────────┘
 *               ▲ ▲ not allowed by the sight:  │ uncertain
 *               │ └──── told at once           ▼
 *               │        tick              ┌───────┐
 *               └──────────────────────────│ AGAIN │
 *                                          └───────┘
 *
 * What an answer proves. A look is a READ of the superblock. A question counts on a look that began
 * at most KW_GETS_LOOK_US before the question was asked, or after it. Its lookup begins only when
 * that look has ended: a remembered place is as fresh as the directory that the lookups were told
 * of (lookup.h). The value is then no older than that look's fresh_us: every write that the primary
 * executed before is in it, except for silent commands. The table of a connection is of one epoch;
 * a question that meets the end of the connection is told KW_GOT_LOST, never by two tables.
 *
 * A key has one lookup at a time (flights.h). A question that finds its key LOOKED joins it: it is
 * told the same, if the look counts for it, and waits again otherwise. That look must be no older
 * than the newest one that was known when the question was asked: the asker can know by that one
 * that the table has its own write. So of one key versions never go back within an epoch.
 *
 * A proxy that hangs answers no look. The table then grows old by itself: after max_staleness_ms
 * all questions are told KW_GOT_STALE at once, those whose lookups are out as well.
 *
 * While nothing is asked, there is one look each 100 ms. With near values (near.h) the log is
 * followed all the time. A near value is told without a look of its own. It is no older than the
 * newest superblock's fresh_us. The last pass over the log began at most coherence_ms ago.
 *
 * A key that has expired by the proxy's clock is missing. The clock is estimated (clock.h). So a
 * key can be served for clock_error_us of the sight past its time, and no longer.
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_TABLE_GETS_H
#define KW_AGENT_GATEWAY_TABLE_GETS_H

#include "base/error.h"
#include "base/lag.h"
#include "base/slice.h"
#include "cache.h"
#include "follow/scouts.h"
#include "rdb/payload_visit.h"
#include "sight.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kw_gets;

/* The oldest look that a new question may count on. */
#define KW_GETS_LOOK_US 1000
/* A question that has no certain answer by then is told KW_GOT_TRY_AGAIN. */
#define KW_GETS_DEADLINE_US 2000000
/* A look that is out for so long does not come: a table that is too old by then is stale. */
#define KW_GETS_LATE_US 200000

enum kw_get_outcome {
	KW_GOT_VALUE,
	KW_GOT_MISSING, /* the table proves that there is no such key, or it has expired */
	KW_GOT_LOADING, /* the table is not complete (-LOADING, SERVER_ERROR loading) */
	KW_GOT_STALE,   /* it is older than max_staleness_ms (-MASTERDOWN, SERVER_ERROR stale) */
	KW_GOT_LOST,    /* no table: no connection to the proxy (-MASTERDOWN, SERVER_ERROR lost) */
	KW_GOT_TRY_AGAIN, /* it changed too fast to be read, or a record does not verify */
	KW_GOT_TOO_LARGE, /* the value has more than max_value_bytes, and is not read */
};
#define KW_GOT_OUTCOMES (KW_GOT_TOO_LARGE + 1)

/* Valid during the call. */
struct kw_got {
	enum kw_get_outcome outcome;
	enum kw_value_kind kind; /* VALUE: of the payload, … */
	struct kw_slice payload; /* … a DUMP payload */
	uint64_t expires_ms;     /* VALUE: by the proxy's clock; 0: never */
	uint64_t version;        /* VALUE: of the record; it grows with each change of the table */
	uint64_t now_ms;         /* the proxy's clock */
	const char *why;         /* neither VALUE nor MISSING: a sentence */
};

typedef void (*kw_got_fn)(void *arg, const struct kw_got *got);

/*
 * One question. The memory, and that of the key, is the asker's, and stays until fn is called. The
 * first four fields are the asker's to fill in.
 */
struct kw_question {
	struct kw_slice key;
	kw_got_fn fn;
	void *arg;
	uint32_t database;

	struct kw_gets *gets;
	struct kw_question *next, *before; /* in the list of its state */
	uint64_t asked_us;
	uint64_t seen_us; /* when the newest look began that was known then */
	uint64_t ticket;  /* of the near cache: LOOKED; WAITING: a hash, within one turn */
	/* LOOKED (flights.h): */
	uint64_t fresh_us, looked_us; /* of the look that it counts on, and when that look began */
	uint64_t hash;                /* of the key */
	struct kw_question *chain;    /* another key that is looked up */
	struct kw_question *joined, *joined_last; /* of the same key: they wait for its lookup */
};

struct kw_gets_options {
	uv_loop_t *loop;
	struct kw_proxies proxies;
	struct kw_follow_options follow; /* loop filled in by kw_gets_new */
	uint32_t depth;                  /* lookups at once */
	uint64_t places;                 /* of the location cache; 0: none */
	uint64_t max_value_bytes;        /* 0: any */
	uint32_t max_staleness_ms;
	uint64_t cache_bytes; /* of near values (near.h); 0: none are kept */
	uint32_t coherence_ms;
};

struct kw_gets_handlers {
	/* The state or its reason changed. */
	void (*state)(void *arg, enum kw_gateway_state state, const char *why);
	void (*closed)(void *arg); /* kw_gets_close is done, and the gets are freed */
	void *arg;
};

/* KW_E_CONFIG: the proxy's address is not valid. Nothing was opened then. */
int kw_gets_new(const struct kw_gets_options *options, const struct kw_gets_handlers *handlers,
	struct kw_gets **gets, struct kw_error *error);

/* Each question is told first, as KW_GOT_LOST. handlers.closed follows from the loop. */
void kw_gets_close(struct kw_gets *gets);

/*
 * Ask for one key. fn is called once: from kw_gets_post or from the loop, never from within this
 * call. The queue is bounded by the askers' memory.
 */
void kw_gets_ask(struct kw_gets *gets, struct kw_question *question);

/*
 * Look at the superblock each millisecond until then, also while nothing is asked. Each look wakes
 * the loop. An earlier moment than one given before changes nothing.
 */
void kw_gets_watch(struct kw_gets *gets, uint64_t until_us);

/* At the end of a turn of the loop: what was asked in it becomes one posting of READs. */
void kw_gets_post(struct kw_gets *gets);

void kw_gets_set_max_staleness(struct kw_gets *gets, uint32_t max_staleness_ms);
void kw_gets_set_coherence(struct kw_gets *gets, uint32_t coherence_ms);

/* As kw_follow_set_key. */
void kw_gets_set_key(struct kw_gets *gets, const char *id, struct kw_slice secret);

/* As kw_scouts_retarget. */
int kw_gets_retarget(
	struct kw_gets *gets, const struct kw_proxies *proxies, struct kw_error *error);

/* What is known at this moment. */
struct kw_gets_sight {
	enum kw_gateway_state state;
	const struct kw_reason_row *row; /* of the reason */
	char why[KW_SIGHT_WORDS];
	uint64_t epoch, version; /* of the newest superblock; 0: none */
	uint64_t fresh_us; /* of it: the table has all that the primary did before (its proxy's
			      clock) */
	uint64_t now_us;   /* the proxy's clock; 0: unknown */
	uint64_t clock_error_us; /* how far it can be ahead of that; UINT64_MAX: unknown */
	uint64_t age_us;         /* of the table; KW_SIGHT_AGE_UNKNOWN */
};
void kw_gets_sight(const struct kw_gets *gets, struct kw_gets_sight *sight);
/* May requests go to the primary now? Of the last superblock, also between two connections. */
enum kw_sight_fence kw_gets_fence(const struct kw_gets *gets);
const struct kw_scouts *kw_gets_scouts(const struct kw_gets *gets);
const struct kw_follow *kw_gets_follow(const struct kw_gets *gets);

struct kw_gets_stats {
	uint64_t asked;
	uint64_t told[KW_GOT_OUTCOMES];
	uint64_t expired;  /* of the missing */
	uint64_t by_place; /* found by one READ, at a remembered place */
	uint64_t by_slots; /* found by the index */
	uint64_t again;    /* uncertain, and begun anew */
	uint64_t looks;    /* at the superblock */
	uint64_t shared;   /* values found by the lookup of another question of the same key */
	uint64_t reads, bytes;
	uint64_t waiting, looked_up; /* at this moment */
	struct kw_cache_stats near;
};
void kw_gets_stats(const struct kw_gets *gets, struct kw_gets_stats *stats);

/* The age of the table at each answer, in microseconds. share: 0 to 1. */
uint64_t kw_gets_staleness_us(const struct kw_gets *gets, double share);
const struct kw_lag *kw_gets_staleness(const struct kw_gets *gets);

#endif
