/*
 * KEYWAKE.BARRIER ms: a client waits until the table holds all that the primary did before the
 * request came (horizon.h). Then its reads see it.
 *
 * The caller owns each waiter; it is in the list from begin until its function was called or it was
 * taken out. Times are of our own monotonic clock. Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_FORWARD_BARRIER_H
#define KW_AGENT_GATEWAY_FORWARD_BARRIER_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* The longest wait that can be asked for. */
#define KW_BARRIER_MAX_MS 60000

enum kw_barrier_end { KW_BARRIER_PASSED, KW_BARRIER_TOO_LATE };

struct kw_barrier {
	uint64_t begun_us, until_us;
	void (*ended)(void *arg, enum kw_barrier_end end); /* it is out of the list */
	void *arg;
	struct kw_barrier *next, **link; /* link NULL: it is in no list */
};

/* Zeroed: none waits. */
struct kw_barriers {
	struct kw_barrier *first;
	uint32_t count;
};

/* The word after the name; false: it is no number of milliseconds up to the most. */
bool kw_barrier_parse(struct kw_slice word, uint32_t *ms);

/* ended and arg are set. */
void kw_barrier_begin(
	struct kw_barriers *barriers, struct kw_barrier *barrier, uint64_t now_us, uint32_t ms);

/* Out of the list without a call. Harmless if it is in none. */
void kw_barrier_cancel(struct kw_barriers *barriers, struct kw_barrier *barrier);

/* After a look, and when the earliest deadline has come. */
void kw_barriers_step(struct kw_barriers *barriers, uint64_t now_us, uint64_t covered_us);

/* When the next deadline is; 0: none waits. */
uint64_t kw_barriers_next_us(const struct kw_barriers *barriers);

#endif
