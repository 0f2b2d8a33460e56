/*
 * What has been handed on to the local server, and what of it the server has acknowledged.
 *
 *   reader pass done ──▶ pass {position, version, …} ──▶ FIFO ──acknowledged up to position──▶
 * applied
 *
 * A position counts the changes given to the apply mode; a pass is applied when every change handed
 * on up to its end was acknowledged. Only then does the applied version move, which the cursor
 * rests on; and, where an acknowledgement may cover what was refused in silence, only when that is
 * known not to be so (confirmed), the moment of equality and the freshness, which `warm` rests on.
 * Pure; one thread.
 */
#ifndef KW_AGENT_SYNC_PROGRESS_H
#define KW_AGENT_SYNC_PROGRESS_H

#include "lag.h"

#include <stdbool.h>
#include <stdint.h>

/* Passes waiting for acknowledgement; one more is merged into the last. */
#define KW_PASSES_MAX 256

struct kw_pass {
	uint64_t position;     /* changes handed on up to the end of this pass */
	uint64_t version;      /* head of this pass */
	uint64_t consistent;   /* what a cursor may say once it is applied; 0: nothing */
	uint64_t begun_us;     /* our clock when its superblock was asked for */
	uint64_t fresh_us;     /* of its superblock: the proxy's wall clock; 0 unknown */
	uint64_t published_us; /* of its superblock: the proxy's wall clock */
	bool whole;        /* once it is applied we were equal to the primary: no segment vanished,
			      and the table was complete and live, not full or in doubt */
	bool moved;        /* its lag is worth a sample */
	uint64_t since_us; /* begun_us of the oldest pass merged into this one; set here */
};

/* A moment of equality, once all up to the position is confirmed. */
struct kw_level {
	uint64_t position, equal_us, fresh_us; /* equal_us 0: none */
};

struct kw_progress {
	struct kw_pass passes[KW_PASSES_MAX];
	uint32_t first, count;
	/* Not confirmed yet: the first since what is confirmed, and the last. Were it the last
	 * alone, under writes without end the one that is confirmed would always be gone. */
	struct kw_level oldest, newest;
	uint64_t applied; /* consistent version applied and acknowledged; 0: nothing yet */
	uint64_t
		equal_us; /* our clock: at this moment the head was what is now applied; 0: never */
	uint64_t doubt_us; /* our clock: passes begun before say nothing of equality */
	uint64_t fresh_us; /* of the last superblock that is wholly applied; 0: unknown */
	struct kw_lag lag; /* publication by the proxy to acknowledgement by the local server */
};

/* Nothing handed on counts any more (a snapshot begins, local data lost); the histogram stays. */
void kw_progress_reset(struct kw_progress *progress);

/* Resume behind what is known to be applied. */
void kw_progress_resume(struct kw_progress *progress, uint64_t applied);

/* Other data than before, or another table: no moment of before counts. */
void kw_progress_unlevel(struct kw_progress *progress);

/* The table is known not to be whole now: only a pass begun later can show that we are equal. */
void kw_progress_doubt(struct kw_progress *progress, uint64_t now_us);

/* A pass was handed on. Positions never go back. */
void kw_progress_handed(struct kw_progress *progress, const struct kw_pass *pass);

/*
 * All changes up to position were acknowledged, and all up to confirmed (not above it) were taken
 * indeed. Returns whether `applied` moved.
 */
bool kw_progress_acknowledged(
	struct kw_progress *progress, uint64_t position, uint64_t confirmed, uint64_t wall_us);

/* Our clock when the oldest pass not yet applied was asked for; 0 when all is applied. */
uint64_t kw_progress_waiting_since(const struct kw_progress *progress);

#endif
