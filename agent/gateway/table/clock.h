/*
 * The proxy's wall clock, as far as its heartbeats tell.
 *
 * Each superblock carries the proxy's wall clock at the moment when it was written. A READ that
 * brought it began at `begun` and ended at `ended`, by our monotonic clock. So at `ended` the
 * proxy's clock shows at least the heartbeat. If the READ before, begun at `before`, brought an
 * older heartbeat, this one was written after that: at `before` the clock showed at most this one.
 *
 *   heartbeat - ended  ≤  offset  ≤  heartbeat - before
 *
 * The estimate is the largest lower bound of the last two windows of KW_CLOCK_WINDOW_US. It never
 * goes ahead of the proxy's clock, and the smallest upper bound says how far behind it can be. Both
 * are a few hundred microseconds apart while the gateway looks at the superblock every millisecond
 * and the proxy publishes. Bounds that contradict each other mean that the clock was set: all is
 * learned anew. A step of this host's own wall clock changes nothing. A heartbeat that stands still
 * tells nothing: the estimate goes on by our own clock, so that a stopped proxy's table grows old.
 *
 * Pure; one thread. Zeroed before the first use.
 */
#ifndef KW_AGENT_GATEWAY_TABLE_CLOCK_H
#define KW_AGENT_GATEWAY_TABLE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define KW_CLOCK_WINDOW_US 10000000
/* Two clocks drift apart; within a window by less than this, or one of them was set. */
#define KW_CLOCK_DRIFT_US 5000

struct kw_proxy_clock {
	struct kw_clock_bounds {
		int64_t low, high; /* of the offset: their clock less ours; INT64_MAX: no bound */
	} now, before;             /* this window, and the one before */
	bool known, known_before;
	uint64_t window_us; /* when it began */
	uint64_t heartbeat_us, looked_us;
};

/* A superblock was read. begun_us, ended_us: our monotonic clock. */
void kw_proxy_clock_learn(
	struct kw_proxy_clock *clock, uint64_t heartbeat_us, uint64_t begun_us, uint64_t ended_us);

/* The proxy's wall clock now; 0: not known. now_us: our monotonic clock. */
uint64_t kw_proxy_clock_now_us(const struct kw_proxy_clock *clock, uint64_t now_us);

/* How far it can be ahead of that; UINT64_MAX: not known yet. */
uint64_t kw_proxy_clock_error_us(const struct kw_proxy_clock *clock);

#endif
