/*
 * One of a server's counters (calls of a command, evicted keys, refused commands), read repeatedly.
 * It tells how many of these others made since the last look, even if CONFIG RESETSTAT or a restart
 * of the server made the counter begin anew.
 *
 *   look 1      look 2        RESETSTAT      look 3
 *     7  ─────────▶ 9 ────────── 0 ──────────▶ 4
 *     FIRST         MORE, 2                    ANEW, 4: those of before the reset are not known
 *
 * A counter that fell was reset. A counter that caught up again does not show it. Then another
 * counter shows the reset: our own calls of INFO, of which we know how much it must have grown. Its
 * owner counts resets, and gives that number to the looks at all other counters.
 *
 * Calls of our own are not others'. When they travel on another connection than the question, the
 * server can have counted some of them before we know: so their number is a range.
 *
 * Zeroed memory is a counter that was never looked at. Pure. The numbers come from the server: none
 * of them makes a sum overflow. Any thread.
 */
#ifndef KW_REDIS_COUNTERS_H
#define KW_REDIS_COUNTERS_H

#include <stdint.h>

enum kw_counter_found {
	KW_COUNTER_FIRST, /* nothing to compare with: others is 0 */
	KW_COUNTER_SAME,  /* no calls but ours */
	KW_COUNTER_MORE,  /* others made some */
	KW_COUNTER_ANEW,  /* it was reset: so many were made since; the earlier ones are lost */
};

/* Our own calls since the last look. */
struct kw_counter_ours {
	uint64_t least; /* acknowledged before the counter was asked for: they must be in it */
	uint64_t most;  /* sent at all: at least `least` */
};

struct kw_counter {
	uint64_t looks;  /* since it is watched; 0: it is not known */
	uint64_t last;   /* what it was at the last look */
	uint64_t resets; /* of all counters, then, as the owner counts them */
	uint64_t others; /* calls of others that the last look found */
};

/* Begin to watch it at `now`: it is another server, or earlier calls do not matter. */
void kw_counter_begin(struct kw_counter *counter, uint64_t now, uint64_t resets);

/*
 * It is `now`. resets: how many resets of the counters the owner knows of, ever; 0 for an owner
 * that watches none. The number is in counter->others.
 */
enum kw_counter_found kw_counter_look(
	struct kw_counter *counter, uint64_t now, uint64_t resets, struct kw_counter_ours ours);

/* The same for a counter of what we never do ourselves: the number alone. */
uint64_t kw_counter_others(struct kw_counter *counter, uint64_t now, uint64_t resets);

/*
 * For a counter of our own calls: it must have grown by `ours` since the last look. The number of
 * resets found until now: `resets`, or one more. A first look finds none.
 */
uint64_t kw_counter_resets(
	struct kw_counter *counter, uint64_t now, uint64_t resets, uint64_t ours);

#endif
