/*
 * The local server: one connection, who answers there, and whether it may be written to.
 *
 *   ┌──────┐ backoff ┌────────────┐ ready ┌────────┐ fit, cursor read ┌───────┐
 *   │ DOWN │────────▶│ CONNECTING │──────▶│ ASKING │────────────────▶│ READY │──┐ INFO each second
 *   └──────┘         └────────────┘       └────────┘                  └───────┘◀─┘
 *      ▲  connection lost                   │    ▲ each second           │ replica of somebody,
 *      └── from every state          not fit▼    │                       │ loading, …
 *                                         ┌─────────┐◀───────────────────┘
 *                                         │ REFUSED │ kw_local_why says what to do about it
 *                                         └─────────┘
 *
 * A server that is led (the agent acts as its primary) may be a replica; REFUSED otherwise.
 * Everyone who writes shares the connection and asks kw_local_use for a database first. The
 * cursor's reading and writing are here too (cursor_store.c); its text is cursor.h's. Loop thread
 * only.
 */
#ifndef KW_AGENT_LOCAL_LOCAL_H
#define KW_AGENT_LOCAL_LOCAL_H

#include "base/backoff.h"
#include "continuity.h"
#include "cursor.h"
#include "databases.h"
#include "facts.h"
#include "keys/filter.h"
#include "redis/counters.h"
#include "redis/failure.h"
#include "redis/redis.h"
#include "redis/server.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_LOCAL_WHY 512

enum kw_local_state {
	KW_LOCAL_DOWN,
	KW_LOCAL_CONNECTING,
	KW_LOCAL_ASKING,
	KW_LOCAL_REFUSED,
	KW_LOCAL_READY,
};

enum kw_cursor_store { KW_STORE_AUTO, KW_STORE_FUNCTION, KW_STORE_KEY };

struct kw_local_options {
	uv_loop_t *loop;
	struct kw_redis_options redis;
	const struct kw_filter *filter; /* outlives the local */
	char cursor_name[KW_CURSOR_NAME_MAX + 1];
	enum kw_cursor_store store;
};

struct kw_local_handlers {
	/*
	 * READY. continuous: this is the data we knew before the connection broke (same run of the
	 * server, no flush but ours, not replaced by a full resync): what was not acknowledged is
	 * to be sent again, and nothing else. Otherwise only the cursor says what is there.
	 */
	void (*assessed)(void *arg, bool continuous);
	/* READY no more (refused, or the connection is lost): all owed answers have been told. */
	void (*gone)(void *arg);
	/* Somebody else flushed data, or swapped databases. */
	void (*flushed)(void *arg);
	/* READY, and the facts were refreshed. NULL allowed. */
	void (*looked)(void *arg);
	/* A database that kw_local_use made wait became usable, or was refused. */
	void (*selected)(void *arg);
	/* kw_local_close is done. */
	void (*closed)(void *arg);
	void *arg;
};

struct kw_local {
	struct kw_local_options options;
	struct kw_local_handlers handlers;
	enum kw_local_state state;
	struct kw_redis *redis; /* NULL: no connection */
	struct kw_databases databases;
	struct kw_backoff backoff;
	uint64_t next_us;       /* DOWN: connect; REFUSED, READY: ask again */
	bool asked;             /* an INFO is out */
	uint64_t asks;          /* INFOs sent, ever */
	uint64_t looks;         /* asks, as of the last one whose answer told the facts */
	uint64_t asked_flushes; /* that were known when the last one was sent */
	bool closing;
	bool passing; /* REFUSED, but by what ends without anybody's doing */
	bool told;    /* assessed was called and gone not yet */
	uint64_t reconnects;
	char why[KW_LOCAL_WHY];
	struct kw_local_facts facts;

	struct kw_continuity continuity;
	uint64_t flushes_out;      /* FLUSHDBs of ours on the replication link, executed perhaps */
	struct kw_counter flushes; /* facts.flushes as of the last look */
	struct kw_counter functions; /* calls that may have taken the cursor away */
	struct kw_counter infos;     /* the server's count of INFO, by which resets are seen */
	uint64_t flushes_unsure;     /* of those of a link that is gone: executed or not */
	bool refuses_stale;          /* it has just answered MASTERDOWN */
	bool asked_stale;            /* the cursor was asked for again because of that */
};

void kw_local_init(struct kw_local *local, const struct kw_local_options *options,
	const struct kw_local_handlers *handlers);

/* Connect when it is time, ask when it is time. */
void kw_local_tick(struct kw_local *local, uint64_t now_us);

/* Ask INFO now, unless one is out. Only when READY. What was sent when is told by `asks`. */
void kw_local_look(struct kw_local *local);

/* handlers.closed follows from the loop. */
void kw_local_close(struct kw_local *local);

static inline bool kw_local_ready(const struct kw_local *local)
{
	return local->state == KW_LOCAL_READY;
}

/* Why it is not READY: a sentence with its remedy; "" when it is. */
const char *kw_local_why(const struct kw_local *local);

/*
 * Make ready to send commands to this database. Only when READY. WAIT: send nothing before
 * handlers.selected.
 */
static inline enum kw_local_use kw_local_use(struct kw_local *local, uint32_t database)
{
	return kw_databases_use(&local->databases, database);
}

/*
 * For every answer to a command of a database. False: it was carried out in another database; the
 * connection is closed for that, and all data are looked at again.
 */
static inline bool kw_local_in_place(struct kw_local *local, const struct kw_reply *reply)
{
	return kw_databases_in_place(&local->databases, reply);
}

/* A FLUSHDB of ours was acknowledged. */
void kw_local_flushed(struct kw_local *local);

/* Is this key our cursor's own (key store, database 0)? It is never written, pruned or counted. */
bool kw_local_owns_key(const struct kw_local *local, uint32_t database, struct kw_slice key);
bool kw_local_store_is_key(const struct kw_local *local);

/* How far the data have come: what a cursor says of them, beside what the facts tell. */
struct kw_cursor_progress {
	uint64_t epoch, version, quarantined; /* as in struct kw_local_cursor */
	enum kw_cursor_bond bond;
};

/* What a cursor would say now; and one was written (not by kw_local_write_cursor). */
void kw_local_cursor_now(const struct kw_local *local, const struct kw_cursor_progress *progress,
	struct kw_local_cursor *cursor);
void kw_local_cursor_written(struct kw_local *local, const struct kw_local_cursor *cursor);

/*
 * Write the cursor. done: failure NULL when acknowledged. Only when READY; the caller keeps one
 * write in flight.
 */
typedef void (*kw_local_done_fn)(void *arg, const struct kw_failure *failure);
void kw_local_write_cursor(struct kw_local *local, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg);

/* The cursor last acknowledged. NULL: none was, it may be gone since, or the data are others. */
const struct kw_local_cursor *kw_local_written(const struct kw_local *local);

/* Does the cursor in the server lie about the data? Not any more once the data are claimed. */
bool kw_local_spoiled(const struct kw_local *local);

/* The cursor will be gone with the data that a snapshot replaces. */
void kw_local_unwritten(struct kw_local *local);

/* No position that the server may still show will be believed: a snapshot follows. */
void kw_local_claimed(struct kw_local *local);

/*
 * The agent acts as the server's primary from now on, or no more. That the server is a replica,
 * loads and changes its replication id is then no reason to refuse it: the caller judges that
 * (handlers.looked).
 */
void kw_local_lead(struct kw_local *local);
void kw_local_let_go(struct kw_local *local);

static inline bool kw_local_is_primary(const struct kw_local *local)
{
	return local->continuity.relation == KW_RELATION_PRIMARY;
}

/*
 * FLUSHDBs of ours on a replication link: how many are sent and not acknowledged now. The link
 * ended: of that many nobody knows whether they were executed; the next look forgets them, or the
 * caller does, because the data are others.
 */
void kw_local_link_sent(struct kw_local *local, uint64_t flushes);
void kw_local_link_ended(struct kw_local *local, uint64_t flushes);
void kw_local_link_forgotten(struct kw_local *local);

/*
 * A replica that serves nothing stale (replica-serve-stale-data no) answers MASTERDOWN while its
 * link is down, to questions about itself too. What is asked between these two calls it answers:
 * the setting is changed around it, in one write. Nothing is changed unless refuses_stale.
 */
void kw_local_serve_stale(struct kw_local *local);
void kw_local_serve_stale_end(struct kw_local *local);

/*
 * flushes.c, for local.c, once the facts were read: take the count as it is (a connection
 * begins); or compare it: true when somebody else flushed, before: what was held until now.
 */
void kw_local_count_flushes(struct kw_local *local, struct kw_slice info);
bool kw_local_find_flushes(
	struct kw_local *local, struct kw_slice info, const struct kw_key_counts *before);

/* cursor_store.c, for local.c: read it; ends in kw_local_cursor_read. */
void kw_local_read_cursor(struct kw_local *local);
void kw_local_cursor_read(struct kw_local *local);
void kw_local_refuse(struct kw_local *local, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * An answer to what was asked of the server is an error. True: such as ends by itself (BUSY,
 * LOADING, MASTERDOWN); it is asked again, and if it was READY it stays so.
 */
bool kw_local_defer(struct kw_local *local, const char *command, const struct kw_reply *reply);

#endif
