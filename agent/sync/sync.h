/*
 * Bringing the local data level with the table, and keeping it there.
 *
 *   ┌──────┐ position known (cursor of this epoch) ┌──────┐
 *   │ WAIT │──────────────────────────────────────▶│ TAIL │◀────────────┐
 *   └──────┘                                       └──────┘             │ no local keys before
 *     │  ▲ ▲ lapsed, flushed behind our back,         │                 │
 *     │  │ └ corrupt, resync ─────────────────────────┘           ┌──────────┐
 *     │  │ count without consent                        ┌────────▶│ SNAPSHOT │
 *     │  └─────────────────┐                            │         └──────────┘
 *     ▼                 ┌───────┐  may be written  ┌───────┐            │ local keys before
 *   need a snapshot ───▶│ COUNT │────────────────▶│ CLAIM │             ▼
 *                       └───────┘                  └───────┘      ┌────────┐ acknowledged ┌───────┐
 *                (only with prefixes)       cursor with version 0 │ SETTLE │─────────────▶│ PRUNE │
 *                                                                 └────────┘              └───────┘
 *                                                                           TAIL ◀────────────┘
 *
 * A mode that replaces all local data at once (apply->whole) needs consent always, and knows no
 * COUNT, SETTLE and PRUNE: its CLAIM makes the server ready to load, and its TAIL follows the
 * SNAPSHOT.
 *
 * CLAIM comes before the first record, so that data saved in the midst of it are known to be ours
 * and of unknown position. SETTLE ends with the first consistent pass whose records are all
 * acknowledged: only then does the set of keys name every key that may stay.
 * Loop thread only; told of everything by the agent, acts in kw_sync_step.
 */
#ifndef KW_AGENT_SYNC_SYNC_H
#define KW_AGENT_SYNC_SYNC_H

#include "apply/apply.h"
#include "base/backoff.h"
#include "base/sm.h"
#include "claim.h"
#include "debt.h"
#include "fit.h"
#include "follow/follow.h"
#include "keys/keyset.h"
#include "keys/quarantine.h"
#include "level.h"
#include "local/local.h"
#include "local/prune.h"
#include "phases.h"
#include "progress.h"
#include "reread.h"
#include "resume.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_SYNC_WHY 512

struct kw_sync {
	/* what it works with; the agent's */
	struct kw_follow *follow;
	struct kw_local *local;
	struct kw_apply *apply;
	const struct kw_filter *filter;
	struct kw_quarantine *quarantine;
	bool consent;
	uint64_t warm_lag_us;   /* a moment of equality counts for so long; may change */
	void (*due)(void *arg); /* wants kw_sync_step in this turn of the loop */
	void *arg;

	struct kw_sm sm; /* enum kw_sync_phase: kw_sync_phase() reads it */
	union {          /* what belongs to the present phase only; zeroed when it is entered */
		struct {
			uint64_t retry_us; /* decide not before */
		} wait;
		struct {
			uint64_t epoch; /* of the table that the claim is for */
		} claim;
		struct kw_sync_load_watch {
			uint64_t bytes;    /* read, when it was looked last */
			uint64_t moved_us; /* when that last was another number than before */
			uint64_t vanished; /* segments, ever, when the snapshot began */
		} snapshot;
		struct {
			uint64_t retry_us; /* prune not before */
		} settle;
	} in;
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
	bool first_pass;           /* after a start: its age says nothing about lag */
	uint64_t head_version;     /* of the table */
	uint64_t
		head_since_us; /* our clock when a head not yet handed on was seen first; 0: none */
	uint64_t passed;       /* told to the proxy; UINT64_MAX: nothing need be kept for us */
	struct kw_keyset keyset;
	struct kw_prune walk;
	struct kw_progress progress;

	struct kw_reread reread;

	struct kw_debt debt;

	int torn; /* load.c: snapshots in a row that lost a segment and were given up */

	struct kw_sync_save {
		bool writing;
		uint64_t tried_us; /* last written, or tried */
		char error[256];   /* of the last try; "": it succeeded */
	} save;

	uint64_t resyncs; /* snapshots begun after the first */
	uint64_t snapshots;
	uint64_t pruned;   /* local keys deleted by reconciles */
	uint64_t filtered; /* records left out by the filter */
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

/* The fields above the machine are filled in by the caller; all others are zero. */
void kw_sync_init(struct kw_sync *sync);
void kw_sync_close(struct kw_sync *sync);

/* The local server (kw_local_handlers). */
void kw_sync_assessed(struct kw_sync *sync, bool continuous);
void kw_sync_gone(struct kw_sync *sync);

/* The position means nothing any more: a snapshot, and pruning, from the start. */
void kw_sync_restart(struct kw_sync *sync, const char *why);
/* The same because the operator wants it: whatever was waited for is not waited for. */
void kw_sync_resync(struct kw_sync *sync, const char *why);

/*
 * sink.c: what the reader finds. The sink may be given to a reader before kw_sync_init, but the
 * reader begins after it.
 */
struct kw_reader_sink kw_sync_sink(struct kw_sync *sync);

/* Take in nothing more until it is resumed; or nothing ever again, because the agent ends. */
void kw_sync_pause(struct kw_sync *sync, bool paused);
void kw_sync_end(struct kw_sync *sync);

/* What the local server has acknowledged until now counts; a part of kw_sync_step. */
void kw_sync_acknowledged(struct kw_sync *sync);

/* Acknowledgements, the next phase, the cursor: whatever can go on now. */
void kw_sync_step(struct kw_sync *sync, uint64_t now_us);

/* save.c: write the cursor now if it is behind. True: a write is out. */
bool kw_sync_save(struct kw_sync *sync, uint64_t now_us);

/* lacks.c: the local server's facts were read again: has it evicted keys by itself? */
void kw_sync_looked(struct kw_sync *sync);

enum kw_sync_equality kw_sync_equality(const struct kw_sync *sync, uint64_t now_us);

/*
 * load.c: in a mode that is `whole` the local server waits for a snapshot that is being read,
 * and answers nobody meanwhile. End it, for what may last (it keeps its data of before; nothing
 * happens outside of such a snapshot); and end it when nothing was read for KW_SYNC_LOAD_IDLE_US.
 */
#define KW_SYNC_LOAD_IDLE_US 10000000
/* Not while the proxy hangs: what it began it would not end. */
bool kw_sync_may_load(const struct kw_sync *sync, uint64_t now_us);
void kw_sync_end_load(struct kw_sync *sync, const char *why);
void kw_sync_watch_load(struct kw_sync *sync, uint64_t now_us);

/*
 * And a snapshot that lost a segment lacks keys until the tail has brought them: while the server
 * has data of before they are better than that, so it is given up and begun again. Where the
 * primary overtakes that many in a row, the next one is taken as it is: what is missing comes
 * behind it, and nobody says warm before.
 */
#define KW_SYNC_TORN_MAX 3
void kw_sync_load_begins(struct kw_sync *sync, uint64_t now_us);
/* A snapshot was read to its end. True: it was given up. */
bool kw_sync_load_torn(struct kw_sync *sync, bool vanished);

#endif
