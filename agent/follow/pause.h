/*
 * How long until the next look at the table.
 *
 *   something found ──▶ look again at once; nothing: pauses of 50 µs, 100 µs, …
 *        changes come so far apart ├────────────────────────┤
 *     ──▲──┬┬─┬───┬───┬───┬───┬───▲──┬┬─┬───┬ …                 up to a sixth of that distance
 *     ──▲──┬┬─┬───┬───┬───┬ … ┬───┬──────┬────────────┬ …       nothing for four distances: up to
 *                                                               the configured pause
 *
 * A change waits for half a pause on average. So pauses are short beside the time in which changes
 * come, and a table that is at rest is looked at as seldom as configured.
 *
 * The distance is a moving average. It is taken from one burst to the next: what is found within
 * KW_PAUSE_BURST_US of the last is one burst with it, since the proxy publishes a burst of the
 * primary's in pieces. A silence counts as the longest distance that matters.
 *
 * If the table itself lags its primary (which is saturated, so the proxy holds back), it brings
 * data that are old already, in batches. So it is looked at less often, after a 256th of its lag.
 * On a host short of cores, the primary gets the time that looking does not take.
 *
 * Pure; the caller owns the struct, which begins as zeroes. Any thread.
 */
#ifndef KW_AGENT_FOLLOW_PAUSE_H
#define KW_AGENT_FOLLOW_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#define KW_PAUSE_FIRST_US 50
#define KW_PAUSE_BURST_US 100
#define KW_PAUSE_LOOKS 6              /* from one burst to the next */
#define KW_PAUSE_SILENCE 4            /* so many distances without a change are one */
#define KW_PAUSE_BEHIND_US 300000     /* so much lag can be between two barriers */
#define KW_PAUSE_BEHIND_MOST_US 10000 /* the longest pause on that account, … */
#define KW_PAUSE_BEHIND_TIMES 8       /* … also in configured pauses */

struct kw_pause {
	uint32_t us;          /* the present one; 0: back to back */
	uint32_t distance_us; /* of bursts, on average; 0: not known */
	uint64_t burst_us;    /* when the look began that found the last burst's first change */
	uint64_t found_us;    /* … and the last one that found any; 0: none did */
};

/* Look back to back at first. What was learnt stays. */
static inline void kw_pause_begin(struct kw_pause *pause)
{
	pause->us = 0;
}

/*
 * Returns pause->us. moved: the look that began at look_us found something. behind_us: the table's
 * lag as it says itself; 0 while it says none.
 */
uint32_t kw_pause_next_us(
	struct kw_pause *pause, bool moved, uint64_t look_us, uint32_t idle_us, uint64_t behind_us);

#endif
