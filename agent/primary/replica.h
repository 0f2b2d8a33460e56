/*
 * Acting as the local server's primary:
 *
 *   lead.c         the server is made to follow, acknowledges, is lost and comes again
 *   answer.c       its PSYNC is answered: from the start, or going on
 *   phase.c        the phases below, and what must hold in each
 *   ownership.c    whose server is it? (pure)
 *   possession.c   what follows from that: the server is taken, or left alone
 *   leave.c        the end of the agent: what the server is left as
 *   refusals.c     commands that the server refused on the link
 *
 * The changes are the applier's (apply/link.h); the snapshot's bytes are the loader's, by the hooks
 * below (load/rdb.c).
 *
 *   ┌─────┐ prepare  ┌────────┐ REPLICAOF  ┌─────────┐ PSYNC: FULLRESYNC ┌──────────┐
 *   │ OFF │─────────▶│ TAKING │───────────▶│ WAITING │──────────────────▶│ SNAPSHOT │
 *   └─────┘          └────────┘            └─────────┘                   └──────────┘
 *      │                ▲   │ link lost ▲  │ PSYNC: CONTINUE                │ all sent
 *      │ resume         │   │           │  ▼                                ▼
 *      │   ┌───────┐    │   │         ┌────────┐   first ACK            ┌─────────┐
 *      └──▶│ APART │────┘   │         │ ONLINE │◀───────────────────────│ LOADING │
 *          └───────┘◀───────┘         └────────┘                        └─────────┘
 *                   cannot be continued now
 *
 *   From every phase to OFF: a new snapshot is prepared; the link breaks before the snapshot is
 *   loaded (the server keeps its data of before); another client took the server; the data are in
 *   doubt.
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_PRIMARY_REPLICA_H
#define KW_AGENT_PRIMARY_REPLICA_H

#include "apply/link.h"
#include "base/backoff.h"
#include "base/sm.h"
#include "downlink.h"
#include "ownership.h"
#include "redis/counters.h"
#include "takeover.h"

/* The server connects within this long after REPLICAOF, or it cannot. */
#define KW_REPLICA_CONNECT_US 10000000
/* After so long without traffic on the link, something harmless is sent (repl-timeout: 60 s). */
#define KW_REPLICA_PING_US 3000000

enum kw_replica_phase {
	KW_REPLICA_OFF,
	KW_REPLICA_APART, /* the server must continue; it is asked to as soon as possible */
	KW_REPLICA_TAKING,
	KW_REPLICA_WAITING,
	KW_REPLICA_SNAPSHOT,
	KW_REPLICA_LOADING,
	KW_REPLICA_ONLINE,
};

/*
 * The end of the agent (leave.c).
 *
 *   ┌─────────┐      ┌─────────┐ loaded, or lost ┌───────────┐ settings put back ┌──────┐
 *   │ STAYING │─────▶│ LOADING │────────────────▶│ RESTORING │──────────────────▶│ DONE │
 *   └─────────┘      └─────────┘                 └───────────┘                   └──────┘
 *        ▲                └───────────────────────▶┌───────────┐ promoted, said ────▲
 *        └───── mode hybrid goes on by commands ───│ RELEASING │────────────────────┘
 *                                                  └───────────┘
 */
enum kw_leave {
	KW_LEAVE_STAYING,
	KW_LEAVE_LOADING,
	KW_LEAVE_RESTORING,
	KW_LEAVE_RELEASING,
	KW_LEAVE_DONE,
};

/* A PSYNC of the server. */
struct kw_psync {
	char replid[KW_REPLID_LENGTH + 1]; /* "": it has not asked */
	int64_t offset;
};

/* WAITING, and TAKING before it. */
struct kw_replica_waiting {
	enum kw_takeover_want want;
	uint64_t until_us; /* WAITING: the server should have connected */
};

/* SNAPSHOT and LOADING. */
struct kw_replica_snapshot {
	char doubt[256]; /* what makes it worthless; "": nothing */
};

/* What the loader does in the course of a snapshot. */
struct kw_replica_snapshot_hooks {
	/* Append the head of an RDB to the output: records follow. */
	int (*start)(void *arg, struct kw_buffer *output, struct kw_error *error);
	void (*loaded)(void *arg);
	/* The snapshot was given up before it was loaded, or there was none. */
	void (*dropped)(void *arg);
	/* Nothing went out for a while: append something that the server ignores. */
	void (*idle)(void *arg, struct kw_buffer *output);
	void *arg;
};

struct kw_replica_handlers {
	void (*progress)(void *arg); /* a phase, an acknowledgement, room */
	/* What was handed on is lost, or doubtful: only a snapshot mends it. */
	void (*lost)(void *arg, const char *why);
	void *arg;
};

struct kw_replica_options {
	uv_loop_t *loop;
	struct kw_local *local;
	struct kw_link_applier *link;
	const char *listen;         /* apply.replica.listen, checked */
	struct kw_slice masterauth; /* the operator's, put back; empty: none; must stay in place */
	enum kw_link_tls tls;       /* apply.replica.tls */
	const struct kw_tls_current *certificates; /* of the agent, for TLS; may hold none */
	bool stays; /* the server stays a replica when the agent is gone */
	struct kw_replica_handlers handlers;
};

enum kw_trouble_kind {
	KW_TROUBLE_NONE,
	KW_TROUBLE_WAIT, /* it will pass */
	KW_TROUBLE_FAIL, /* only a person can mend it */
};

struct kw_trouble {
	enum kw_trouble_kind kind;
	char why[512];
};

/* What the server is left as when the agent ends. */
enum kw_shutdown {
	KW_SHUTDOWN_STAY,          /* as it is: it waits for the next agent */
	KW_SHUTDOWN_PROMOTE,       /* promoted; the next agent takes it again */
	KW_SHUTDOWN_PROMOTE_FINAL, /* promoted, and no agent takes it before a resync */
};

/* What an operator is shown of the link. */
struct kw_link_report {
	const char *state; /* NULL: there is no link */
	char replid[KW_REPLID_LENGTH + 1];
	uint16_t port;
	const char *tls; /* how it is encrypted: "software", "kernel"; "": it is plain, or down */
	uint64_t offset, acknowledged;      /* replication offsets: sent, and applied */
	uint64_t full_syncs, continuations; /* since the start */
	uint64_t refusals;                  /* commands that the server refused on the link */
};

/*
 * What this agent has done with the server that it found (possession.c).
 *
 *                 REPLICAOF is taken
 *   ┌───────────┐──────────────────────▶┌───────┐ another client took it ┌──────┐
 *   │ NOT TAKEN │◀──────────────────────│ TAKEN │───────────────────────▶│ MARK │ promoted: the
 *   └───────────┘  other data, let go   └───────┘                        │ OWED │ cursor is to
 *         │                              ▲     │                         └──────┘ say it
 *         │         ┌────────┐───────────┘     │ another client             │ the cursor is out
 *         │         │ WANTED │◀── resync ──────│ took it                    ▼
 *         │         └────────┘    from every   │                         ┌────────────┐
 *         │                       state        └────────────────────────▶│ LEFT ALONE │
 *         └── found PROMOTED or ELSEWHERE ──────────────────────────────▶└────────────┘
 */
enum kw_possession {
	KW_POSSESSION_NOT_TAKEN,
	KW_POSSESSION_WANTED, /* the operator asked for a resync: taken, whatever its state */
	KW_POSSESSION_TAKEN,
	KW_POSSESSION_MARK_OWED, /* left alone; the cursor does not say yet that it was promoted */
	KW_POSSESSION_LEFT_ALONE,
};

struct kw_replica {
	struct kw_replica_handlers handlers;
	struct kw_replica_snapshot_hooks hooks;
	struct kw_local *local;
	struct kw_link_applier *link;

	struct kw_downlink downlink;
	struct kw_takeover takeover;
	struct kw_sm phase; /* enum kw_replica_phase */
	union {
		struct kw_replica_waiting waiting;
		struct kw_replica_snapshot snapshot;
	} in;
	bool attached;           /* the server is there */
	struct kw_psync asked;   /* not answered yet */
	struct kw_sm possession; /* enum kw_possession */
	struct kw_ownership_memory memory;
	uint64_t retry_us; /* OFF, APART: not before */
	struct kw_trouble trouble;
	struct kw_link_report counts; /* what lasts of a report */

	/* prepare: done is owed until the snapshot may begin */
	kw_local_done_fn done;
	void *done_arg;

	/* refusals.c */
	struct kw_counter refused;
	struct kw_backoff refusing;
	uint64_t online_us; /* ONLINE began, the last time */

	struct kw_sm leaving; /* enum kw_leave */
	enum kw_shutdown shutdown;
	uint64_t leave_us; /* RESTORING, RELEASING: not before */
	void (*closed)(void *arg);
	void *closed_arg;
};

void kw_replica_init(struct kw_replica *replica, const struct kw_replica_options *options);
/* closed is called from the loop; then _free what it holds. */
void kw_replica_close(struct kw_replica *replica, void (*closed)(void *arg), void *arg);
void kw_replica_free(struct kw_replica *replica);
/* Before the first snapshot. */
void kw_replica_hook(struct kw_replica *replica, const struct kw_replica_snapshot_hooks *hooks);

/* lead.c */
extern const struct kw_downlink_handlers kw_replica_downlink_handlers; /* arg: the replica */

/* The local server is there; continuous as in kw_local_handlers.assessed. And it is gone. */
void kw_replica_attach(struct kw_replica *replica, bool continuous);
void kw_replica_detach(struct kw_replica *replica);
void kw_replica_tick(struct kw_replica *replica, uint64_t now_us);

/*
 * Make the server follow, and answer its PSYNC by a snapshot. done is called once, perhaps from
 * within, unless detached or reset: the snapshot has begun, or why it cannot.
 */
void kw_replica_prepare(struct kw_replica *replica, kw_local_done_fn done, void *arg);
/* All of the snapshot is on its way. SNAPSHOT. */
void kw_replica_sent(struct kw_replica *replica);
/* It must never be loaded: it is given up at the next tick. SNAPSHOT. */
void kw_replica_doubt(struct kw_replica *replica, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The snapshot cannot be completed. Nothing happens outside of SNAPSHOT. */
void kw_replica_abandon(struct kw_replica *replica);
/* Changes come next, after what the server has. */
void kw_replica_resume(struct kw_replica *replica);

void kw_replica_report(const struct kw_replica *replica, struct kw_link_report *report);

/* phase.c: the one way from phase to phase. What the new phase's part of `in` holds comes first. */
void kw_replica_init_phase(struct kw_replica *replica);
void kw_replica_move(struct kw_replica *replica, enum kw_replica_phase phase, const char *why);

static inline bool kw_replica_is(const struct kw_replica *replica, enum kw_replica_phase phase)
{
	return replica->phase.state == (int)phase;
}

/* A snapshot is on its way to the server: what is handed on belongs to it until its end. */
static inline bool kw_replica_loads(const struct kw_replica *replica)
{
	return kw_replica_is(replica, KW_REPLICA_SNAPSHOT) ||
	       kw_replica_is(replica, KW_REPLICA_LOADING);
}

/* The server has been told to follow, and what it will get. */
static inline bool kw_replica_awaits(const struct kw_replica *replica, enum kw_takeover_want want)
{
	return kw_replica_is(replica, KW_REPLICA_WAITING) && replica->in.waiting.want == want;
}

/* Set the obstacle, or that there is none; tell the owner; end what prepare began. */
void kw_replica_trouble(struct kw_replica *replica, enum kw_trouble_kind kind, const char *format,
	...) __attribute__((format(printf, 3, 4)));
void kw_replica_no_trouble(struct kw_replica *replica);
void kw_replica_tell(struct kw_replica *replica);
void kw_replica_prepared(struct kw_replica *replica, const struct kw_failure *failure);

/* Forget all that was handed on: end the link and drop what is queued for it. */
void kw_replica_reset(struct kw_replica *replica, const char *why);
/* The same, and the owner is told that only a snapshot mends it. */
void kw_replica_give_up(struct kw_replica *replica, const char *why);

/* answer.c */
void kw_replica_answer(struct kw_replica *replica);
/* May a cursor found in the server be resumed from? */
bool kw_replica_resumable(const struct kw_replica *replica);

/*
 * possession.c. kw_possession_found judges a server that was just found, and leaves it alone if it
 * belongs to others. kw_possession_taken: this agent made it its replica. _untaken: this agent has
 * promoted it itself, or found other data in it.
 */
void kw_possession_init(struct kw_replica *replica);
void kw_possession_found(struct kw_replica *replica);
void kw_possession_taken(struct kw_replica *replica);
void kw_possession_untaken(struct kw_replica *replica);
void kw_replica_looked(struct kw_replica *replica);
void kw_replica_resync(struct kw_replica *replica);

static inline bool kw_replica_left_alone(const struct kw_replica *replica)
{
	return replica->possession.state >= KW_POSSESSION_MARK_OWED;
}

/* leave.c */
void kw_leave_init(struct kw_replica *replica);
void kw_leave_move(struct kw_replica *replica, enum kw_leave state);
static inline bool kw_replica_is_leaving(const struct kw_replica *replica)
{
	return replica->leaving.state != KW_LEAVE_STAYING;
}
/* Called until it returns false, or until the time is over. */
bool kw_replica_leave(struct kw_replica *replica);
/* REPLICAOF NO ONE, for a server that stays in use: done as of kw_takeover_release. */
void kw_replica_release(struct kw_replica *replica, kw_local_done_fn done, void *arg);
/* It was: the server is not led any more. */
void kw_replica_released(struct kw_replica *replica);

/* refusals.c: INFO was answered. True: no new refusal was found, and the link stands. */
bool kw_refusals_looked(struct kw_replica *replica);

/* The server is our replica with a whole data set in it: it can be promoted. */
static inline bool kw_replica_leads(const struct kw_replica *replica)
{
	return !kw_replica_left_alone(replica) &&
	       (kw_replica_is(replica, KW_REPLICA_ONLINE) ||
		       kw_replica_awaits(replica, KW_TAKEOVER_CONTINUE));
}

#endif
