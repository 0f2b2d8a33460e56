/*
 * How long until the next look at the table: back to back while data flows, then 50 µs, 100 µs, …
 * up to the configured pause.
 *
 * A table that is itself behind its primary (it is saturated, and the proxy holds back) brings what
 * is old already, in batches: so it is looked at less often, after a 256th of what it is behind.
 * What a host short of cores does not spend on looking, its primary has.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_FOLLOW_PAUSE_H
#define KW_AGENT_FOLLOW_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#define KW_PAUSE_FIRST_US 50
#define KW_PAUSE_BEHIND_US 300000     /* so much behind may be between two barriers */
#define KW_PAUSE_BEHIND_MOST_US 10000 /* the longest pause on that account, … */
#define KW_PAUSE_BEHIND_TIMES 8       /* … also in configured pauses */

/* moved: the last look found something. behind_us: the table's own word; 0 while it has none. */
uint32_t kw_pause_next_us(uint32_t last_us, bool moved, uint32_t idle_us, uint64_t behind_us);

#endif
