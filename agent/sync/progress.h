/*
 * The changes handed on to the local server, and those that it has acknowledged.
 *
 *   the reader ends a pass ──▶ queue of passes ──acknowledged up to its position──▶ applied
 *
 * A position counts the changes given to the apply mode. A pass is applied when every change up to
 * its end is acknowledged. Then the applied version moves, which the cursor says.
 *
 * An acknowledgement can cover a change that the server refused silently. So the moment of equality
 * and the freshness, on which `warm` depends, move only when the changes are confirmed too: then
 * none of them was refused. Pure; one thread.
 */
#ifndef KW_AGENT_SYNC_PROGRESS_H
#define KW_AGENT_SYNC_PROGRESS_H

#include "base/lag.h"
#include "base/stages.h"

#include <stdbool.h>
#include <stdint.h>

/* Passes waiting for acknowledgement; one more is merged into the last. */
#define KW_PASSES_MAX 256

/* Where the time goes from the proxy's publication on. Those of a sample of the lag add up to it.
 */
enum kw_progress_stage {
	KW_PROGRESS_LOOK,  /* published, and the look that found it began */
	KW_PROGRESS_READ,  /* … and all of it was read and handed on */
	KW_PROGRESS_APPLY, /* … and the local server has acknowledged it */
	KW_PROGRESS_STAGES,
};

struct kw_pass {
	uint64_t position;     /* changes handed on up to the end of this pass */
	uint64_t version;      /* head of this pass */
	uint64_t consistent;   /* what a cursor can say once it is applied; 0: nothing */
	uint64_t begun_us;     /* our clock when its superblock was asked for */
	uint64_t equal_us;     /* the same if the table was then complete and live, and no segment
				  vanished: once applied we were equal to the primary; 0: not so */
	uint64_t fresh_us;     /* of its superblock: the proxy's wall clock; 0: not known */
	uint64_t epoch;        /* … the table's */
	uint16_t ticket;       /* … layout.h */
	uint64_t published_us; /* the same; 0: its lag is not worth a sample */
	uint64_t look_us;   /* … from then to the begin of this pass, both by the proxy's clock */
	uint64_t read_us;   /* … and until all of it was handed on */
	uint64_t handed_us; /* our wall clock then */
	uint64_t since_us;  /* begun_us of the oldest pass merged into this one; set here */
};

/* A moment of equality, once all up to the position is confirmed. */
struct kw_level {
	uint64_t position, equal_us, fresh_us; /* equal_us 0: none */
	uint64_t epoch;
	uint16_t ticket;
};

struct kw_progress {
	struct kw_pass passes[KW_PASSES_MAX];
	uint32_t first, count;
	/*
	 * Not confirmed yet: the first since the last confirmation, and the newest. With the newest
	 * alone, endless writes would replace each moment before it is confirmed.
	 */
	struct kw_level oldest, newest;
	uint64_t applied; /* consistent version applied and acknowledged; 0: nothing yet */
	uint64_t
		equal_us; /* our clock: at this moment the head was what is now applied; 0: never */
	uint64_t doubt_us; /* our clock: passes begun before say nothing of equality */
	uint64_t fresh_us; /* of the last superblock that is wholly applied; 0: unknown */
	uint64_t epoch;    /* … 0: there was none */
	uint16_t ticket;   /* … */
	struct kw_lag lag; /* publication by the proxy to acknowledgement by the local server */
	struct kw_stages stages; /* its parts: enum kw_progress_stage */
};

/* Forget what was handed on (a snapshot begins, local data lost); the histogram stays. */
void kw_progress_reset(struct kw_progress *progress);

/* Begin with what is known to be applied. */
void kw_progress_resume(struct kw_progress *progress, uint64_t applied);

/* Other data, or another table: no earlier moment of equality counts. */
void kw_progress_unlevel(struct kw_progress *progress);

/* The table is known to lack something now: only a pass that begins later can show equality. */
void kw_progress_doubt(struct kw_progress *progress, uint64_t now_us);

/* A pass was handed on. Positions never go back. */
void kw_progress_handed(struct kw_progress *progress, const struct kw_pass *pass);

/*
 * All changes up to position are acknowledged, and those up to confirmed (at most position) are
 * known not to be refused. Returns whether `applied` moved.
 */
bool kw_progress_acknowledged(
	struct kw_progress *progress, uint64_t position, uint64_t confirmed, uint64_t wall_us);

/* Our clock when the oldest pass not yet applied was asked for; 0 when all is applied. */
uint64_t kw_progress_waiting_since(const struct kw_progress *progress);

#endif
