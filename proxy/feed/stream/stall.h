/*
 * Does the stream stand still although the server is further? Then the connection is dead at one
 * end. Pure.
 *
 * It stands still from the moment at which the server was first seen ahead, or at which bytes came
 * last. An idle server may send nothing for hours (repl-ping-replica-period), so the silence before
 * its first write says nothing.
 *
 * Zeroed memory is one that was never ahead. Times are of the monotonic clock.
 */
#ifndef KW_PROXY_FEED_STREAM_STALL_H
#define KW_PROXY_FEED_STREAM_STALL_H

#include <stdbool.h>
#include <stdint.h>

#define KW_STALL_US UINT64_C(30000000)

struct kw_stall {
	uint64_t ahead_us; /* the server is ahead since then; 0: it is not */
};

static inline bool kw_stall_look(
	struct kw_stall *stall, bool ahead, uint64_t heard_us, uint64_t now_us)
{
	uint64_t since_us;

	if (!ahead)
		stall->ahead_us = 0;
	else if (stall->ahead_us == 0)
		stall->ahead_us = now_us;
	since_us = heard_us > stall->ahead_us ? heard_us : stall->ahead_us;
	return ahead && now_us >= since_us && now_us - since_us >= KW_STALL_US;
}

#endif
