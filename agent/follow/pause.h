/*
 * How long until the next look at the table: back to back while data flows, then 50 µs, 100 µs, …
 * up to the configured pause.
 *
 * If the table itself lags its primary (which is saturated, so the proxy holds back), it brings
 * data that are old already, in batches. So it is looked at less often, after a 256th of its lag.
 * On a host short of cores, the primary gets the time that looking does not take.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_FOLLOW_PAUSE_H
#define KW_AGENT_FOLLOW_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#define KW_PAUSE_FIRST_US 50
#define KW_PAUSE_BEHIND_US 300000     /* so much lag can be between two barriers */
#define KW_PAUSE_BEHIND_MOST_US 10000 /* the longest pause on that account, … */
#define KW_PAUSE_BEHIND_TIMES 8       /* … also in configured pauses */

/*
 * moved: the last look found something. behind_us: its lag as the table says it; 0 while it says
 * none.
 */
uint32_t kw_pause_next_us(uint32_t last_us, bool moved, uint32_t idle_us, uint64_t behind_us);

#endif
