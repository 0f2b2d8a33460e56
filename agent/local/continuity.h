/*
 * Are this still the server and the data that we left?
 *
 * The answer matters whenever the agent was not watching: after a lost connection, and after a
 * restart of the server or of the agent. Two memories answer it.
 *
 * 1. struct kw_continuity is what the running agent knew when it last saw the server. Compared
 *    with the facts of today it gives a verdict. Only after KW_CONTINUITY_SAME may the agent send
 *    again what was not acknowledged, and nothing else. After any other verdict the cursor decides.
 * 2. The cursor is what an agent, perhaps an earlier one, wrote into the server beside the data.
 *    kw_cursor_doubt says why it can no longer be believed.
 *
 * What the running agent knows of the cursor in the server:
 *
 *        ┌───────────┐ a write is acknowledged ┌─────────┐
 *        │ UNWRITTEN │────────────────────────▶│ WRITTEN │
 *        └───────────┘◀────────────────────────└─────────┘
 *             │  ▲       it may be gone             │  ▲
 *             │  │ the data are claimed             │  │ one without a position is written
 *             ▼  │                                  ▼  │
 *        ┌──────────────────────────────────────────────────┐
 *        │ SPOILED: it is there, and the data are not those │
 *        └──────────────────────────────────────────────────┘
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_LOCAL_CONTINUITY_H
#define KW_AGENT_LOCAL_CONTINUITY_H

#include "cursor.h"
#include "facts.h"
#include "flushes.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- what the running agent knows ---- */

enum kw_continuity_memory {
	KW_MEMORY_NONE,    /* this agent has seen no server yet */
	KW_MEMORY_KNOWN,   /* the run, the replication id and the flushes are those last seen */
	KW_MEMORY_DOUBTED, /* the same, but the data might have changed since */
};

enum kw_continuity_cursor {
	KW_STANDING_UNWRITTEN, /* this agent has written none, or it might be gone */
	KW_STANDING_WRITTEN,   /* `written` was acknowledged, and nothing is known against it */
	KW_STANDING_SPOILED,   /* the cursor says a position that the data do not have */
};

/* What the agent is to the server. */
enum kw_continuity_relation {
	KW_RELATION_CLIENT,  /* a client of a master */
	KW_RELATION_PRIMARY, /* its primary: the server is, or becomes, a replica of the agent */
};

struct kw_continuity {
	enum kw_continuity_memory memory;
	enum kw_continuity_relation relation;
	char run_id[41], replid[41]; /* of the server when it was last seen */
	struct kw_flushes flushes;
	uint64_t functions; /* facts.functions, when it was last seen */
	uint64_t session;   /* this agent's, for its lease; 0: it has none */
	uint64_t signer;    /* the session that signed the cursor in the server, as last known */
	enum kw_continuity_cursor standing;
	struct kw_local_cursor written; /* WRITTEN: the cursor last acknowledged */
};

enum kw_continuity_verdict {
	KW_CONTINUITY_SAME,      /* the data that we left */
	KW_CONTINUITY_FIRST,     /* no server was seen before */
	KW_CONTINUITY_OTHER_RUN, /* the server was restarted, or it is another one */
	KW_CONTINUITY_ELSEWHERE, /* it was a replica of another server: even its cursor is wrong */
	KW_CONTINUITY_FLUSHED,   /* others flushed or swapped databases, or might have */
	KW_CONTINUITY_REPLACED,  /* another replication id, and no cursor that says otherwise */
	KW_CONTINUITY_TAKEN,     /* another agent has signed the cursor since, so it has written */
};

/* A connection was made and the cursor was read: are these the data that were known before? */
enum kw_continuity_verdict kw_continuity_judge(
	const struct kw_continuity *continuity, const struct kw_local_facts *facts);

/* Remember this server from now on. verdict: what kw_continuity_judge said of it. */
void kw_continuity_adopt(struct kw_continuity *continuity, const struct kw_local_facts *facts,
	enum kw_continuity_verdict verdict);

/*
 * The facts were read again on the same connection. before: the keys of each database until then.
 * SAME; FLUSHED: the cursor is spoiled; REPLACED: judge again, on a new connection.
 */
enum kw_continuity_verdict kw_continuity_look(struct kw_continuity *continuity,
	const struct kw_local_facts *facts, const struct kw_key_counts *before);

/* A command of ours was carried out in a database that it was not meant for. */
void kw_continuity_harmed(struct kw_continuity *continuity);

/* The cursor was written; it might be gone; the data were claimed, and it is true again. */
void kw_continuity_written(struct kw_continuity *continuity, const struct kw_local_cursor *cursor);
void kw_continuity_unwritten(struct kw_continuity *continuity);
void kw_continuity_claimed(struct kw_continuity *continuity);

/* The verdict for the log, to follow "the data are looked at anew: ". */
const char *kw_continuity_text(enum kw_continuity_verdict verdict);

/* ---- what the cursor says ---- */

enum kw_cursor_doubt {
	KW_DOUBT_NONE,
	KW_DOUBT_ABSENT, /* there is no cursor of ours, or it has no position */

	/* The data are not those that it describes. */
	KW_DOUBT_QUARANTINED,
	KW_DOUBT_FILTERED,
	KW_DOUBT_EMPTY,
	KW_DOUBT_FLUSHED,
	KW_DOUBT_REFUSED,
	KW_DOUBT_WRITTEN,
	KW_DOUBT_FLUSHED_ANEW,
	KW_DOUBT_WRITTEN_ANEW,
	KW_DOUBT_SHRUNK,

	/* They are, but the server has evicted keys of them, or might have. */
	KW_DOUBT_EVICTED,
	KW_DOUBT_EVICTED_ANEW,
	KW_DOUBT_EVICTS,
};

/* May the cursor in the facts be believed? The first reason against it. filter: its hash. */
enum kw_cursor_doubt kw_cursor_doubt(const struct kw_local_facts *facts, uint64_t filter);

/* Is the doubt about evicted keys only, or is there none? */
static inline bool kw_cursor_doubt_is_of_eviction(enum kw_cursor_doubt doubt)
{
	return doubt == KW_DOUBT_NONE || doubt >= KW_DOUBT_EVICTED;
}

/* Is it known by a count of the server alone, which a restart of the server clears? */
static inline bool kw_cursor_doubt_is_of_counts(enum kw_cursor_doubt doubt)
{
	return doubt >= KW_DOUBT_FLUSHED && doubt <= KW_DOUBT_WRITTEN_ANEW;
}

/* The reason in words, for the log; "" for NONE. */
const char *kw_cursor_doubt_text(enum kw_cursor_doubt doubt);

#endif
