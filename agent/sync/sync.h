/*
 * Makes the local data equal to the table, and keeps them so.
 *
 *               there is a position (a cursor was found)
 *   ┌──────┐─────────────────────────────────────────────────────────────▶┌──────┐
 *   │ WAIT │ may be claimed  ┌───────┐ claimed ┌──────────┐  bootstrap    │ TAIL │
 *   └──────┘────────────────▶│ CLAIM │────────▶│ SNAPSHOT │──────────────▶└──────┘
 *     │  ▲                   └───────┘         └──────────┘                  ▲ pruned
 *     ▼  │ counted, sampled                          │ reconcile             │
 *   ┌────────┐                                       ▼                       │
 *   │ COUNT  │                                  ┌────────┐ acknowledged ┌───────┐
 *   │ SAMPLE │                                  │ SETTLE │─────────────▶│ PRUNE │
 *   └────────┘                                  └────────┘◀─────────────└───────┘
 *                                                 ▲  refused, or the server │ too many would
 *                          approved, or keys that │  is gone                ▼ be deleted
 *                                    may be back  │                     ┌──────┐
 *                                                 └─────────────────────│ HELD │
 *                                                                       └──────┘
 *
 *   SETTLE ─▶ TAIL: the snapshot was compared (differences.c), and had every key that is there
 *   from every phase: WAIT, when the position is lost, or the local server is another
 *
 * phases.c has the moves, and what must hold in each phase.
 *
 * CLAIM comes before the first record. From then on the server can save its data at any moment. The
 * cursor in them says that the data are ours, and that their position is not known. SETTLE ends
 * with the first consistent pass whose records are all acknowledged. Only then does the set of keys
 * name every key that may stay.
 *
 * COUNT counts keys of others, if only some keys are followed. PRUNE counts before it deletes:
 * if the brake (brake.h) finds too many, nothing is deleted, and HELD goes on with the changes.
 *
 * A mode that replaces all local data at once (kw_pair_replaces) always needs consent. It has no
 * COUNT, SETTLE, PRUNE and HELD: its CLAIM makes the server ready to load, and TAIL follows on
 * SNAPSHOT. Before the claim, SAMPLE looks some local keys up in the table. If the snapshot would
 * delete too many, the brake holds in WAIT, and the server serves the data that it has.
 *
 * Databases and keys have the names of the table here (keys/naming.h).
 *
 * The agent tells the sync what happens to the local server, the reader what it finds. The sync
 * acts in kw_sync_step. Loop thread only.
 */
#ifndef KW_AGENT_SYNC_SYNC_H
#define KW_AGENT_SYNC_SYNC_H

#include "authority/history.h"
#include "base/backoff.h"
#include "base/sm.h"
#include "brake.h"
#include "claim.h"
#include "debt.h"
#include "fit.h"
#include "follow/follow.h"
#include "index/digests.h"
#include "keys/keyset.h"
#include "keys/quarantine.h"
#include "level.h"
#include "load.h"
#include "load/pair.h"
#include "local/local.h"
#include "local/prune.h"
#include "phases.h"
#include "progress.h"
#include "reread.h"
#include "resume.h"
#include "rollback.h"
#include "sample.h"
#include "token.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_SYNC_WHY 512

/* What a snapshot does with the digest index (index/digests.h). */
enum kw_sync_manner {
	KW_SYNC_NOTES_KEYS,    /* there is none: a reconcile notes the keys in a set */
	KW_SYNC_FILLS_INDEX,   /* all records are handed on */
	KW_SYNC_COMPARES_SOME, /* equal records are passed over; some local keys have no entry */
	KW_SYNC_COMPARES_ALL,  /* the same; every local key had an entry when it began */
};

/* What is awaited in SETTLE. */
enum kw_sync_settling {
	KW_SETTLE_RECORDS, /* all of the snapshot is acknowledged: then local keys are pruned */
	KW_SETTLE_COUNTS,  /* they were pruned over a link: the server's counts tell if that is all
			    */
};

struct kw_sync {
	/* What it works with. The agent owns these, fills them in, and they outlive the sync. */
	struct kw_follow *follow;
	struct kw_local *local;
	struct kw_pair *pair;
	const struct kw_filter *filter;
	struct kw_quarantine *quarantine;
	bool consent;
	enum kw_foreign foreign; /* can change */
	bool listed;             /* the table is of a list of proxies of one primary; can change */
	double max_prune;        /* until kw_sync_set_max_prune */
	bool indexes;            /* keep a digest index: there is a server, and no filter */
	bool audited;            /* an audit finds what the index cannot know; can change */
	uint64_t warm_lag_us;    /* a moment of equality counts for so long; can change */
	void (*due)(void *arg);  /* wants kw_sync_step in this turn of the loop */
	void *arg;

	/* Told of each record of the table's log that is handed on. NULL: nobody listens. */
	void (*handed)(void *arg, const struct kw_record_view *records, size_t count);
	void *handed_arg;

	struct kw_sm sm; /* enum kw_sync_phase: kw_sync_phase() reads it */
	union {          /* what belongs to the present phase alone; zeroed when it is entered */
		struct {
			uint64_t retry_us; /* decide not before */
		} wait;
		struct {
			uint64_t epoch; /* of the table that is sampled */
		} sample;
		struct {
			uint64_t epoch;           /* of the table that the claim is for */
			struct kw_history before; /* of the data, if the claim fails */
			struct kw_term before_term;
		} claim;
		struct kw_load_watch snapshot;
		struct {
			enum kw_sync_settling step;
			uint64_t retry_us; /* prune not before */
			uint64_t question; /* the look that says what is there; 0: not asked */
		} settle;
	} in;
	struct {
		enum kw_permission permission; /* to follow the table that is there now */
		enum kw_authority relation;    /* of its history to that of the local data */
		struct kw_history approved;    /* a table that a person has approved */
		struct kw_term said;           /* what the cursor in the local server says */
		struct kw_term saying;         /* what it will say: by a write that is out */
	} authority;
	enum kw_sync_purpose purpose; /* of the snapshot begun last, or to be claimed */
	enum kw_sync_data data;
	enum kw_sync_obstacle obstacle;
	char why[KW_SYNC_WHY];    /* "" when FREE */
	char logged[KW_SYNC_WHY]; /* the last of these that was logged */
	uint64_t counted_keys;    /* what COUNT found; KW_CLAIM_NOT_COUNTED */
	enum kw_sync_intake intake;
	bool settled; /* has been level since the last snapshot began */

	uint64_t epoch;            /* of what is handed on */
	struct kw_cursor position; /* the reader may resume here; epoch 0: nowhere */
	uint64_t started_us;       /* our clock when the reader was started last */
	uint64_t head_version;     /* of the table */
	uint64_t
		head_since_us; /* our clock when a head not yet handed on was first seen; 0: none */
	uint64_t passed;       /* the proxy need not keep tombstones up to here for this agent */
	struct kw_buffer name; /* of a record in the local server, while it is looked at */
	struct kw_keyset keyset;
	struct kw_digests index;
	enum kw_sync_manner manner; /* of the snapshot begun last */
	uint64_t swept;             /* keys of the index that it did not have */
	uint64_t resets, owed;      /* of the server and of the pair, as the index knows them */
	struct kw_prune walk;
	struct kw_brake brake;
	struct kw_sample sample;
	struct kw_progress progress;
	struct kw_tokens tokens;

	struct kw_reread reread;

	struct kw_debt debt;

	uint32_t given_up; /* snapshots in a row that lost a segment (load.h) */

	struct kw_sync_save {
		bool writing;
		uint64_t tried_us; /* last written, or tried */
		char error[512];   /* of the last try; "": it succeeded */
	} save;

	uint64_t resyncs; /* snapshots begun after the first */
	uint64_t snapshots;
	uint64_t pruned; /* local keys deleted by reconciles */
	struct kw_rollback rollback;
	uint64_t rolled_back; /* keys, ever (rollback.c) */
	uint64_t filtered;    /* records left out by the filter */
};

extern const struct kw_sm_conf kw_sync_machine;

static inline enum kw_sync_phase kw_sync_phase(const struct kw_sync *sync)
{
	return (enum kw_sync_phase)sync->sm.state;
}

/* Is there a consistent position, so that no snapshot is needed? */
static inline bool kw_sync_positioned(const struct kw_sync *sync)
{
	return sync->position.epoch != 0;
}

/*
 * May the table that is there be followed? (authority.c) If not, nothing is read from it, and the
 * position is kept: the agent can be sent back to its own proxy.
 */
static inline bool kw_sync_may_follow(const struct kw_sync *sync)
{
	return sync->authority.permission == KW_PERMISSION_GRANTED;
}

/* May a table of this history be followed? RAISING is told as GRANTED. */
enum kw_permission kw_sync_permission(const struct kw_sync *sync, const struct kw_history *table);

/* What this agent still needs of the proxy's tombstones: all above this. UINT64_MAX: none. */
uint64_t kw_sync_passed(const struct kw_sync *sync);

/* The fields above the machine are filled in by the caller; all others are zero. */
void kw_sync_init(struct kw_sync *sync);
void kw_sync_close(struct kw_sync *sync);

/* As kw_local_handlers: the local server is ready, and it is no more. */
void kw_sync_assessed(struct kw_sync *sync, bool continuous);
void kw_sync_gone(struct kw_sync *sync);

/*
 * The position is lost: a new snapshot follows, and brings all. why: for the log. lapse: only the
 * table is another, or has moved on. The local data are what was handed on, so it may be compared.
 */
void kw_sync_restart(struct kw_sync *sync, const char *why);
void kw_sync_lapse(struct kw_sync *sync, const char *why);
/* The same, because the operator wants it: it follows at once, whatever was an obstacle before. */
void kw_sync_resync(struct kw_sync *sync, const char *why);

/*
 * approve.c: the operator approves what waits for approval, this finding and no other. It is
 * logged. `finding`: what was approved, in words. KW_E_STATE: nothing waits.
 */
int kw_sync_approve(struct kw_sync *sync, char finding[KW_SYNC_WHY], struct kw_error *error);

/*
 * sink.c: what the reader finds. The sink may be given to a reader before kw_sync_init, but the
 * reader begins after it.
 */
struct kw_reader_sink kw_sync_sink(struct kw_sync *sync);

/* apply.max_prune, changed at run time. */
void kw_sync_set_max_prune(struct kw_sync *sync, double share);

/* As the table's log would have brought it: one record, of a key that an audit mends. */
void kw_sync_mend_key(struct kw_sync *sync, const struct kw_record_view *record);

/* Take in nothing more until it is resumed; or nothing ever again, because the agent ends. */
void kw_sync_pause(struct kw_sync *sync, bool paused);
void kw_sync_end(struct kw_sync *sync);

/* Take note of what the local server has acknowledged. A part of kw_sync_step. */
void kw_sync_acknowledged(struct kw_sync *sync);

/* Do all that can be done now: acknowledgements, the next phase, the cursor. */
void kw_sync_step(struct kw_sync *sync, uint64_t now_us);

/*
 * save.c: write the cursor if it does not say what is applied. If a flush by others made it wrong,
 * it loses its position. True: a write is in flight.
 */
bool kw_sync_save(struct kw_sync *sync, uint64_t now_us);

/* lacks.c: the local server's facts were read again: has it evicted keys by itself? */
void kw_sync_looked(struct kw_sync *sync);

enum kw_sync_equality kw_sync_equality(const struct kw_sync *sync, uint64_t now_us);

/*
 * replace.c: give up a snapshot that the local server is loading, for a cause that can last.
 * Otherwise nothing happens.
 */
void kw_sync_end_load(struct kw_sync *sync, const char *why);

#endif
