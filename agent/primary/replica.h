/*
 * The inside of apply mode `replica`, shared by its parts:
 *
 *   primary/replica.c    the mode: records in, acknowledgements out, the cursor
 *   primary/lead.c       the server is made to follow, acknowledges, is lost and comes again
 *   primary/answer.c     its PSYNC is answered: from the start, or going on
 *   primary/ownership.c  whose server is it? (pure)
 *   primary/possession.c what follows from that: the server is taken, or left alone
 *   primary/leave.c      the end of the agent: what the server is left as
 *   primary/refusals.c   what it refused without a word, and what is known to be taken
 *   primary/snapshot.c   the snapshot's records as an RDB, while they are read
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
 * Nobody else includes this. Loop thread only.
 */
#ifndef KW_AGENT_PRIMARY_REPLICA_H
#define KW_AGENT_PRIMARY_REPLICA_H

#include "apply/apply.h"
#include "apply/feed.h"
#include "base/backoff.h"
#include "base/sm.h"
#include "downlink.h"
#include "keys/keyset.h"
#include "ownership.h"
#include "rdb/rdb.h"
#include "takeover.h"

/* The server connects within this long after REPLICAOF, or it cannot. */
#define KW_REPLICA_CONNECT_US 10000000
/* So long of silence on the link, and something harmless is sent (repl-timeout: 60 s). */
#define KW_REPLICA_PING_US 3000000

enum kw_replica_phase {
	KW_REPLICA_OFF,
	KW_REPLICA_APART, /* the server shall continue; it is asked to as soon as it can be */
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

/* SNAPSHOT and LOADING (snapshot.c). */
struct kw_replica_snapshot {
	struct kw_rdb rdb;
	struct kw_keyset seen; /* keys sent; only in SNAPSHOT */
	uint64_t taken;        /* records */
	char eof_mark[KW_REPLID_LENGTH + 1];
	char doubt[256]; /* what makes it worthless; "": nothing */
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
	KW_POSSESSION_WANTED, /* the operator asked for a resync: taken whatever it is now */
	KW_POSSESSION_TAKEN,
	KW_POSSESSION_MARK_OWED, /* left alone; the cursor does not say yet that it was promoted */
	KW_POSSESSION_LEFT_ALONE,
};

struct kw_replica {
	struct kw_apply base;
	struct kw_local *local;
	struct kw_quarantine *quarantine;
	uint64_t limit_bytes;

	struct kw_downlink downlink;
	struct kw_takeover takeover;
	struct kw_feed feed;
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

	/* prepare: done is owed until the snapshot may begin */
	struct kw_apply_plan plan;
	kw_local_done_fn done;
	void *done_arg;

	/* the cursor on its way */
	kw_local_done_fn saved;
	void *saved_arg;
	uint64_t saved_at; /* its sequence number */
	uint64_t save_ask; /* not sent yet: behind an INFO of at least this number; 0: sent */
	struct kw_local_cursor saving;

	/* primary/refusals.c */
	uint64_t confirm_ask;      /* the INFO that will confirm; 0: none is out */
	uint64_t confirm_done;     /* what was done when it was asked */
	uint64_t confirm_us;       /* the next one not before */
	struct kw_counter refused; /* commands that the server refused */
	struct kw_backoff refusing;
	uint64_t online_us; /* ONLINE began, the last time */

	struct kw_sm leaving; /* enum kw_leave */
	uint64_t leave_us;    /* RESTORING, RELEASING: not before */
	void (*closed)(void *arg);
	void *closed_arg;
};

/* lead.c */
extern const struct kw_downlink_handlers kw_replica_downlink_handlers; /* arg: the replica */
void kw_replica_prepare(
	struct kw_apply *apply, const struct kw_apply_plan *plan, kw_local_done_fn done, void *arg);
void kw_replica_forget(struct kw_apply *apply);
void kw_replica_resume(struct kw_apply *apply);
void kw_replica_attach(struct kw_apply *apply, bool continuous);
void kw_replica_detach(struct kw_apply *apply);
void kw_replica_tick(struct kw_apply *apply, uint64_t now_us);
void kw_replica_show(struct kw_replica *replica);

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

/* Say what is in the way, or that nothing is; tell the owner; end what prepare began. */
void kw_replica_trouble(struct kw_replica *replica, enum kw_apply_trouble kind, const char *format,
	...) __attribute__((format(printf, 3, 4)));
void kw_replica_no_trouble(struct kw_replica *replica);
void kw_replica_tell(struct kw_replica *replica);
void kw_replica_prepared(struct kw_replica *replica, const struct kw_failure *failure);

/* Nothing handed on counts any more: end the link and forget what is queued for it. */
void kw_replica_reset(struct kw_replica *replica, const char *why);
/* The same, and the owner is told that only a snapshot mends it. */
void kw_replica_give_up(struct kw_replica *replica, const char *why);

/* answer.c */
void kw_replica_answer(struct kw_replica *replica);
bool kw_replica_resumable(const struct kw_apply *apply);

/*
 * possession.c: kw_possession_found judges a server that was just found, and leaves it alone if it
 * belongs to others. kw_possession_taken and _untaken: this agent made it its replica, or has
 * promoted it itself or found other data in it.
 */
void kw_possession_init(struct kw_replica *replica);
void kw_possession_found(struct kw_replica *replica);
void kw_possession_taken(struct kw_replica *replica);
void kw_possession_untaken(struct kw_replica *replica);
void kw_replica_looked(struct kw_apply *apply);
void kw_replica_resync(struct kw_apply *apply);

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
bool kw_replica_leave(struct kw_apply *apply);

/*
 * refusals.c: kw_refusals_looked is told of each INFO; kw_refusals_confirm asks for one where
 * something is acknowledged and not confirmed, now and then; kw_refusals_ask at once.
 */
void kw_refusals_looked(struct kw_replica *replica);
void kw_refusals_confirm(struct kw_replica *replica);
void kw_refusals_ask(struct kw_replica *replica);

/* snapshot.c */
bool kw_snapshot_start(struct kw_replica *replica, struct kw_error *error);
void kw_snapshot_close(struct kw_replica *replica);
void kw_snapshot_begin(struct kw_apply *apply);
void kw_snapshot_records(
	struct kw_replica *replica, const struct kw_record_view *records, size_t count);
void kw_snapshot_end(struct kw_apply *apply);
/* Something that says nothing, so that the server does not take us for dead. */
void kw_snapshot_filler(struct kw_replica *replica);

/* replica.c */
void kw_replica_refuse(
	struct kw_replica *replica, const struct kw_record_view *record, const char *why);
void kw_replica_done(void *arg, const struct kw_window_entry *entry, uint64_t sequence);
/* The refusals are known of all that the cursor covers: it may be sent, or they are asked for. */
void kw_replica_go_on_saving(struct kw_replica *replica);
bool kw_replica_fits(const struct kw_replica *replica, const struct kw_record_view *record,
	char *why, size_t room);

extern const struct kw_apply_ops kw_apply_replica;

#endif
