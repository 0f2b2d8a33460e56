/*
 * Does the primary answer? Pure.
 *
 * It owes an answer to a question on the data connection, or to what the feed waits for (feed.h).
 * If no byte of it comes for KW_SILENCE_US, it hangs, or the network swallows what it says.
 *
 * Only time in which this process listened counts: between two looks at most KW_SILENCE_STEP_US. So
 * a host that stood still for a while, with the proxy and the primary on it, is no silence.
 *
 * Zeroed memory is one that was never silent. Times are of the monotonic clock.
 */
#ifndef KW_PROXY_SOURCE_SILENCE_H
#define KW_PROXY_SOURCE_SILENCE_H

#include <stdint.h>

#define KW_SILENCE_US UINT64_C(3000000)
#define KW_SILENCE_STEP_US UINT64_C(500000)

struct kw_silence {
	uint64_t looked_us;
	uint64_t silent_us;
};

/* After all input of the loop turn was taken. since_us: it is silent since; UINT64_MAX: it is not.
 */
static inline void kw_silence_look(struct kw_silence *silence, uint64_t since_us, uint64_t now_us)
{
	uint64_t step_us = now_us - silence->looked_us;

	silence->looked_us = now_us;
	if (since_us >= now_us) {
		silence->silent_us = 0;
		return;
	}
	silence->silent_us += step_us < KW_SILENCE_STEP_US ? step_us : KW_SILENCE_STEP_US;
	if (silence->silent_us > now_us - since_us)
		silence->silent_us = now_us - since_us;
}

/* For how long it does not answer; 0: it does, or has not been silent for long enough. */
static inline uint64_t kw_silence_seconds(const struct kw_silence *silence)
{
	return silence->silent_us >= KW_SILENCE_US ? silence->silent_us / 1000000 : 0;
}

#endif
