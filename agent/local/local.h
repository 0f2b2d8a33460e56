/*
 * The local server: one connection, who answers there, and whether it may be written to.
 *
 *   ┌──────┐ after a pause ┌────────────┐ ready ┌────────┐ fit, cursor read ┌───────┐ INFO each
 *   │ DOWN │──────────────▶│ CONNECTING │──────▶│ ASKING │─────────────────▶│ READY │ second
 *   └──────┘               └────────────┘       └────────┘                  └───────┘
 *      ▲                                  not fit │   ▲ each second             │ a replica of
 *      │ the connection is lost                   ▼   │                         │ another server,
 *      │ (from every state)           ┌───────────────────┐                     ▼ harm, …
 *      │                              │ WAITING │ REFUSED │               ┌─────────┐
 *      │                              └───────────────────┘               │ LEAVING │
 *      └──────────────────────────────────────────────────────────────────└─────────┘
 *
 * WAITING ends by itself; REFUSED must be mended by a person. kw_local_why says what it is. The
 * server or the carrier can also refuse the connection: REFUSED without one. kw_local_close leads
 * to CLOSED through PARTING (from READY and LEAVING: handlers.gone is owed) or CLOSING.
 *
 * A server that the agent is the primary of (kw_local_lead) may be a replica. ASKING includes the
 * lease: a server that another agent writes to is REFUSED, and so is one that this agent yields.
 *
 * All parts of the agent that write share the connection. Each asks kw_local_use for its database
 * first. The parts have headers of their own: facts.h, continuity.h, databases.h, cursor_store.h.
 * Other files read these parts; they change them by functions only.
 * Loop thread only.
 */
#ifndef KW_AGENT_LOCAL_LOCAL_H
#define KW_AGENT_LOCAL_LOCAL_H

#include "authority/lease.h"
#include "base/backoff.h"
#include "base/sm.h"
#include "continuity.h"
#include "cursor.h"
#include "cursor_store.h"
#include "databases.h"
#include "facts.h"
#include "keys/filter.h"
#include "redis/counters.h"
#include "redis/failure.h"
#include "redis/redis.h"
#include "redis/server.h"
#include "redis/wanted.h"
#include "unfit.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_LOCAL_WHY 512

enum kw_local_state {
	KW_LOCAL_DOWN,       /* no connection; one is tried again soon */
	KW_LOCAL_CONNECTING, /* until the server has accepted our login */
	KW_LOCAL_ASKING,     /* for INFO, then for the cursor */
	KW_LOCAL_WAITING,    /* not fit, for a reason that ends by itself */
	KW_LOCAL_REFUSED,    /* not fit until a person mends it */
	KW_LOCAL_READY,      /* handlers.assessed was called */
	KW_LOCAL_LEAVING,    /* was READY: the connection is closed, and opened again */
	KW_LOCAL_PARTING,    /* the same, but for good */
	KW_LOCAL_CLOSING,    /* was not READY: the connection is closed for good */
	KW_LOCAL_CLOSED,
};

/* How the agent writes to the server: bits. Its user's permissions follow from that. */
enum kw_local_manner {
	KW_LOCAL_BY_COMMANDS = 1,
	KW_LOCAL_AS_PRIMARY = 2,
	KW_LOCAL_WITH_FUNCTIONS = 4, /* it changes function libraries, too */
};

struct kw_local_options {
	uv_loop_t *loop;
	struct kw_redis_options redis;
	const struct kw_filter *filter; /* outlives the local */
	char cursor_name[KW_CURSOR_NAME_MAX + 1];
	char agent[KW_CURSOR_AGENT_MAX + 1]; /* its name, for the cursor */
	enum kw_cursor_store store;
	enum kw_local_manner manner;
	struct kw_lease_owner lease; /* who this agent is; nobody: it asks for no lease */
};

struct kw_local_handlers {
	/*
	 * READY. continuous: these are the data that we knew before the connection broke
	 * (KW_CONTINUITY_SAME). Send again what was not acknowledged, and nothing else. Otherwise
	 * only the cursor says what is there.
	 */
	void (*assessed)(void *arg, bool continuous);
	/* READY no more, and the connection is closed: every owed answer has been told. */
	void (*gone)(void *arg);
	/* Others flushed data, or swapped databases. */
	void (*flushed)(void *arg);
	/* READY, and the facts were refreshed. NULL allowed. */
	void (*looked)(void *arg);
	/* READY: the server has said which commands write, so the facts count more. NULL allowed.
	 */
	void (*counted)(void *arg);
	/* A database that kw_local_use made wait became usable, or was refused. */
	void (*selected)(void *arg);
	/* kw_local_close is done. */
	void (*closed)(void *arg);
	void *arg;
};

/* The lease on the server, and what is known of others' (authority/lease.h). */
struct kw_local_lease {
	enum kw_lease_stage stage;     /* as the name of this connection says */
	uint64_t other;                /* the connection of the agent that was found; 0: none */
	struct kw_lease_owner holder;  /* that agent */
	struct kw_lease_owner entered; /* READY: who had signed the cursor before */
	struct kw_lease_owner taker;   /* who took the lease from this agent; nobody */
	bool blind;                    /* CLIENT LIST does not show other agents */
	bool warned;                   /* of that */
	char yields[KW_LOCAL_WHY];     /* why this agent does not claim the server; "": it does */
};

#define KW_LOCAL_PERMISSIONS 24

/* What the agent's user lacks on this connection, as the last look at that found. */
struct kw_local_permissions {
	struct kw_wanted wanted[KW_LOCAL_PERMISSIONS];
	struct kw_wanted_check check;
	uint64_t asked_us;            /* when it began; 0: never */
	char lacking[KW_WANTED_TEXT]; /* the sentence; "": nothing, or it is not known yet */
	char told[KW_WANTED_TEXT];    /* what the log was told last, on any connection */
};

struct kw_local {
	struct kw_local_options options;
	struct kw_local_handlers handlers;
	struct kw_sm sm;
	enum kw_local_state settled; /* the last of DOWN, WAITING, REFUSED, READY that it was in */
	struct kw_redis *redis;      /* NULL: no connection */
	struct kw_databases databases;
	struct kw_backoff backoff;
	uint64_t next_us; /* DOWN: connect; WAITING, REFUSED, READY: ask again */
	/* INFOs by number, 1 the first: sent; answered, or lost; the last that told the facts. */
	struct {
		uint64_t sent, answered, told;
	} looks;
	uint64_t asked_us; /* our clock when the last INFO was asked for */
	uint64_t reconnects;
	char why[KW_LOCAL_WHY];
	enum kw_unfit unfit; /* while it is refused, or waits: what kind of trouble `why` tells */
	struct kw_local_facts facts;

	struct kw_continuity continuity;
	struct kw_history history; /* of the data in the server; cursors say it */
	struct kw_term term;       /* the highest that was accepted; the same */
	enum kw_local_stale stale;
	struct kw_local_lease lease;
	struct kw_local_permissions permissions;
	/*
	 * Cursors written by SET, which the server counts among other clients' calls: sent ever;
	 * before the last INFO was sent, and before the last that told the facts; and how many of
	 * these the look before that one had not told.
	 */
	struct {
		uint64_t sent, asked, told, fresh;
	} sets;
	uint64_t ticked_us; /* our clock */
	uint64_t last_look; /* the INFO after the last command of this agent; 0: it goes on */
};

void kw_local_init(struct kw_local *local, const struct kw_local_options *options,
	const struct kw_local_handlers *handlers);

/* Connect when it is time, ask when it is time. */
void kw_local_tick(struct kw_local *local, uint64_t now_us);

/* Ask INFO now, unless an answer is awaited already. Only when READY. */
void kw_local_look(struct kw_local *local);

static inline enum kw_local_state kw_local_state(const struct kw_local *local)
{
	return (enum kw_local_state)local->sm.state;
}

/* Is an answer to INFO awaited? */
static inline bool kw_local_asking(const struct kw_local *local)
{
	return local->looks.sent > local->looks.answered;
}

/* The number of the next INFO that is sent: the first that tells what is true from now on. */
static inline uint64_t kw_local_next_look(const struct kw_local *local)
{
	return local->looks.sent + 1;
}

/* The number of the last INFO whose answer told the facts. */
static inline uint64_t kw_local_looked(const struct kw_local *local)
{
	return local->looks.told;
}

/* handlers.closed follows from the loop. */
void kw_local_close(struct kw_local *local);

static inline bool kw_local_ready(const struct kw_local *local)
{
	return kw_local_state(local) == KW_LOCAL_READY;
}

/*
 * Is it refused, or does it wait? Also while it is connected to or asked once more, to see whether
 * it still is.
 */
static inline bool kw_local_is_refused(const struct kw_local *local)
{
	return local->settled == KW_LOCAL_REFUSED;
}

static inline bool kw_local_waits(const struct kw_local *local)
{
	return local->settled == KW_LOCAL_WAITING;
}

/*
 * lease.c: this agent has nothing to write, for the reason `why`: let another one have the server.
 * Nothing may be under way. The server is REFUSED for that reason until kw_local_claim. READY
 * only. Does nothing if there is no lease, or if the server is the agent's replica: the link is a
 * writer that goes on.
 */
void kw_local_yield(struct kw_local *local, const char *why);
/* Claim it again, if it was yielded. */
void kw_local_claim(struct kw_local *local);

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

/* How many flushes are accounted for, as the next cursor says. */
static inline uint64_t kw_local_flushes(const struct kw_local *local)
{
	return local->continuity.flushes.accounted;
}

/* Calls by which others wrote, and cursors by SET, as the server's count has them by now. */
static inline uint64_t kw_local_writes_counted(const struct kw_local *local)
{
	return local->facts.writers.foreign + (local->sets.sent - local->sets.told);
}

/*
 * The agent ends, and nothing of it is under way: ask INFO. True: that was answered, as far as it
 * will be. Cursors written then say so.
 */
bool kw_local_count_out(struct kw_local *local);

static inline bool kw_local_has_ended(const struct kw_local *local)
{
	return local->last_look > 0 && local->looks.told >= local->last_look;
}

/* A FLUSHDB of ours was acknowledged. */
void kw_local_flushed(struct kw_local *local);

/* The agent changes function libraries from now on: its user needs more. */
static inline void kw_local_use_functions(struct kw_local *local)
{
	local->options.manner |= KW_LOCAL_WITH_FUNCTIONS;
}

/*
 * permissions.c: the server denied a command of the agent's user, on this connection or another.
 * All that the user needs is looked at, once a second at most.
 */
void kw_local_denied(struct kw_local *local);
/*
 * The remedy of a denied command: all that is lacking, and the line that gives it. As long as that
 * is not known: `otherwise`.
 */
const char *kw_local_grant(const struct kw_local *local, const char *otherwise);
/*
 * What the server answered to a command instead of what was asked for, as the rest of a sentence
 * that began with the command: 'answers "ERR …"'. With that remedy, if it was denied.
 */
#define KW_LOCAL_ANSWER 480
void kw_local_tell_answer(const struct kw_local *local, const struct kw_reply *reply,
	const char *otherwise, char text[KW_LOCAL_ANSWER]);

/* The cursor last acknowledged. NULL: none was, it might be gone since, or the data are others. */
const struct kw_local_cursor *kw_local_written(const struct kw_local *local);

/*
 * Whose data the server holds, from now on. Set it after `assessed`, from the cursor that was
 * found, and again when the table's history moves.
 */
void kw_local_set_history(struct kw_local *local, const struct kw_history *history);

/* The term that cursors say from now on. */
void kw_local_set_term(struct kw_local *local, const struct kw_term *term);

/* Is the cursor in the server wrong about the data? No longer once the data are claimed. */
bool kw_local_spoiled(const struct kw_local *local);

/* The cursor will be gone with the data that a snapshot replaces. */
void kw_local_unwritten(struct kw_local *local);

/* Believe no position that the server still shows: a snapshot follows. */
void kw_local_claimed(struct kw_local *local);

/*
 * The agent acts as the server's primary from now on, or no more. Then a server that is a replica,
 * loads, or changes its replication id is not refused for that: the caller judges it
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
 * ended: for so many it is not known whether they were executed. The next look forgets them, or the
 * caller does, because the data are others.
 */
void kw_local_link_sent(struct kw_local *local, uint64_t flushes);
void kw_local_link_ended(struct kw_local *local, uint64_t flushes);
void kw_local_link_forgotten(struct kw_local *local);

#endif
