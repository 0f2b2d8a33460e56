/* What the files of the sync share. No other file includes this. */
#ifndef KW_AGENT_SYNC_INTERNAL_H
#define KW_AGENT_SYNC_INTERNAL_H

#include "sync.h"

/*
 * phases.c: the only way from one phase to another. The caller first does what the phase needs (its
 * invariant is checked here), and then fills in the phase's part of `in`.
 */
void kw_sync_enter(struct kw_sync *sync, enum kw_sync_phase phase, const char *reason);

/* Try again after this. */
#define KW_SYNC_RETRY_US 1000000

static inline bool kw_sync_needs_local(const struct kw_sync *sync)
{
	return kw_pair_needs_local(sync->pair);
}

static inline enum kw_cursor_doubt kw_sync_cursor_doubt(const struct kw_sync *sync)
{
	return kw_cursor_doubt(&sync->local->facts, kw_filter_hash(sync->filter));
}

/* sync.c: set the obstacle that keeps the sync from going on; clear it. */
void kw_sync_set_why(struct kw_sync *sync, enum kw_sync_obstacle obstacle, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void kw_sync_clear_why(struct kw_sync *sync);
/* Log it, unless it was logged last: the state shows it for as long as it lasts. */
void kw_sync_log_why(struct kw_sync *sync);

/* Can the local server load what the table holds? Sets why if not. */
bool kw_sync_server_fits(struct kw_sync *sync);

/* To WAIT: reader, walk and keys noted are given up. */
void kw_sync_forget_position(struct kw_sync *sync, const char *why);

/*
 * authority.c: judge the history of the table that is there. The history of the local data moves
 * along with it. A reader that reads from a table that may not be followed is stopped.
 */
void kw_sync_judge_table(struct kw_sync *sync);
/* After the cursor was written: an agent that is refused lets another one have the local server. */
void kw_sync_yield(struct kw_sync *sync);
/* In CLAIM: the data are this table's from now on, and the claim says so. */
void kw_sync_claim_history(struct kw_sync *sync);
/* A person approves the foreign table that is there. The permission is REFUSED. */
void kw_sync_approve_table(struct kw_sync *sync);

/* raise.c: may the table be followed, or must the cursor say its term first (RAISING)? */
enum kw_permission kw_sync_raise(struct kw_sync *sync, const struct kw_authority_facts *facts);
/* RAISING: set why. */
void kw_sync_explain_raise(struct kw_sync *sync);
/* RAISING: write the cursor. True: a write is in flight. */
bool kw_sync_save_term(struct kw_sync *sync, uint64_t now_us);
/* The cursor that was found in the server says this term. */
void kw_sync_term_found(struct kw_sync *sync, const struct kw_term *term);
/* In CLAIM: the claim says the table's term; it was acknowledged, or it failed. */
void kw_sync_claim_term(struct kw_sync *sync);
void kw_sync_term_claimed(struct kw_sync *sync, bool done);
/* Does the table that is there now still have the term that was claimed? */
bool kw_sync_is_term_claimed(const struct kw_sync *sync);

/*
 * differences.c, the snapshot and the digest index. It begins: is it compared? Before the debt is
 * forgiven.
 */
void kw_sync_begin_differences(struct kw_sync *sync);
/* In WAIT: is enough known of the local data that a replica need not load all of a snapshot? */
bool kw_sync_may_merge(struct kw_sync *sync);
/* Records in scope, of a snapshot or of the tail: hand on those that differ. */
void kw_sync_take(struct kw_sync *sync, const struct kw_record_view *records, size_t count);
/* kw_prune_plan.keeps: did the snapshot, or what came after it, have this key? */
bool kw_sync_keeps(void *sync, uint32_t database, struct kw_slice key);
/* So many keys they had. */
uint64_t kw_sync_noted(const struct kw_sync *sync);
/* Before the first local key is deleted: the index forgets all that the snapshot did not have. */
void kw_sync_sweep(struct kw_sync *sync);
/* In SETTLE, swept: can there be local keys that the snapshot did not have? */
enum kw_sync_leftover {
	KW_SYNC_LEFTOVER_POSSIBLE,
	KW_SYNC_LEFTOVER_ASKED, /* the server's counts must tell: ask again after the next look */
	KW_SYNC_LEFTOVER_NONE,
};
enum kw_sync_leftover kw_sync_leftover(struct kw_sync *sync);
/* In SETTLE: does the server count more keys than the index has, and `borne` of them? */
enum kw_sync_leftover kw_sync_counts_tell(struct kw_sync *sync, uint64_t borne);
/* The counts were read: what is not believed any more? before: the debt until then. */
void kw_sync_doubt_counts(struct kw_sync *sync, const struct kw_debt *before);
/* The same of values that did not fit into the server's memory. */
void kw_sync_doubt_owed(struct kw_sync *sync);

/*
 * rollback.c: a snapshot begins; a superblock was read and judged; records are about to be handed
 * on; a pass is over (live: the table was complete and live); a snapshot is level.
 */
void kw_sync_rollback_snapshot(struct kw_sync *sync);
void kw_sync_rollback_saw(struct kw_sync *sync);
void kw_sync_rollback_take(
	struct kw_sync *sync, const struct kw_record_view *records, size_t count);
void kw_sync_rollback_applied(struct kw_sync *sync, bool live);
void kw_sync_rollback_end(struct kw_sync *sync);

/* weigh.c: what may a snapshot delete? May the prune that counted so many delete them? */
bool kw_sync_may_prune(void *sync, uint64_t deletions, uint64_t keys);
/* After PRUNE has counted more than that: to HELD. */
void kw_sync_hold_prune(struct kw_sync *sync, uint64_t now_us);
/* In HELD: to SETTLE, if the keys can have come back. */
void kw_sync_watch_held(struct kw_sync *sync, uint64_t now_us);
/* In WAIT: may the snapshot replace all that is there? If it is not known, to SAMPLE. */
bool kw_sync_may_replace(struct kw_sync *sync, uint64_t now_us);

/* begin.c, in WAIT: go on from the position, or claim the server for a snapshot, if possible. */
void kw_sync_decide(struct kw_sync *sync, uint64_t now_us);
/* To WAIT, for a cause that passes: decided again after KW_SYNC_RETRY_US. */
void kw_sync_wait_again(struct kw_sync *sync, const char *why);
/* Read on from the position: to TAIL, or HELD goes on. */
void kw_sync_resume(struct kw_sync *sync);

/* reconcile.c, in SETTLE: to PRUNE when all of the snapshot is acknowledged. */
void kw_sync_settle(struct kw_sync *sync, uint64_t now_us);

/*
 * phases.c: may keys be deleted, or replaced as a whole, because of this table? One that is not
 * complete lacks keys that the primary has. A snapshot that only adds may come from any table.
 */
bool kw_sync_is_table_enough(const struct kw_sync *sync);

/*
 * replace.c: may a load begin now? Not while the proxy hangs: a load that began would not end.
 */
bool kw_sync_may_load(const struct kw_sync *sync, uint64_t now_us);
/* In SNAPSHOT: it begins; it was read to its end. False: it was given up instead. */
void kw_sync_load_begins(struct kw_sync *sync, uint64_t now_us);
bool kw_sync_load_ends(struct kw_sync *sync, bool vanished);
/* Give up a load that is stuck, or that has lost a segment. */
void kw_sync_watch_load(struct kw_sync *sync, uint64_t now_us);

/* lacks.c, in TAIL: begin a reconcile if one is due for what the local data lack. */
void kw_sync_mend(struct kw_sync *sync, uint64_t now_us);
/* The counts of the local server, as it was looked at last. */
struct kw_debt_counts kw_sync_counts(const struct kw_sync *sync);
/* Has the sync been level since the last snapshot began? Sets `settled`. */
void kw_sync_learn_level(struct kw_sync *sync, uint64_t now_us);

/*
 * sink.c: about so many keys come with a snapshot; bounded, because the number comes from the
 * superblock.
 */
uint64_t kw_sync_keys_expected(const struct kw_sync *sync);

/*
 * save.c: HELD, and the finding was approved. The cursor says so, still without a position. If the
 * agent is killed before it has deleted all, the next one need not ask again.
 */
void kw_sync_save_approval(struct kw_sync *sync);
/* save.c: a write of the cursor was acknowledged, or it failed. */
void kw_sync_saved(struct kw_sync *sync, const struct kw_failure *failure);
/* save.c: is a write of the cursor under way, or must it lose its position first? */
bool kw_sync_owes_cursor(const struct kw_sync *sync);

#endif
