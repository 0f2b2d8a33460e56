/*
 * A bound on full synchronisations: the primary forks for each of them. Pure.
 *
 * The first few are free. After each one more there is a pause, doubled each time. In a pause the
 * stream is attached only where the server's backlog reaches far enough back that it can surely go
 * on from there. How far is doubled, too. A stream that was followed for long begins anew.
 *
 * Zeroed memory is one without a synchronisation. Times are of the monotonic clock.
 */
#ifndef KW_PROXY_FEED_STREAM_FORKS_H
#define KW_PROXY_FEED_STREAM_FORKS_H

#include <stdbool.h>
#include <stdint.h>

#define KW_FORKS_FREE 3
#define KW_FORKS_PAUSE_US UINT64_C(60000000)
#define KW_FORKS_PAUSE_MOST_US UINT64_C(3600000000)
#define KW_FORKS_REACH ((uint64_t)512 << 10)
#define KW_FORKS_DOUBLED_MOST 20
#define KW_FORKS_WELL_US UINT64_C(600000000)

struct kw_forks {
	uint32_t count;    /* since the last one that was followed for long */
	uint64_t until_us; /* of the pause */
};

/* A full synchronisation has begun. */
static inline void kw_forks_note(struct kw_forks *forks, uint64_t now_us)
{
	uint64_t pause_us = KW_FORKS_PAUSE_US;

	if (forks->count < UINT32_MAX)
		forks->count++;
	if (forks->count < KW_FORKS_FREE)
		return;
	for (uint32_t i = KW_FORKS_FREE; i < forks->count && pause_us < KW_FORKS_PAUSE_MOST_US; i++)
		pause_us *= 2;
	forks->until_us =
		now_us + (pause_us < KW_FORKS_PAUSE_MOST_US ? pause_us : KW_FORKS_PAUSE_MOST_US);
}

/* A stream ended that was followed for so long. */
static inline void kw_forks_followed(struct kw_forks *forks, uint64_t lasted_us)
{
	if (lasted_us >= KW_FORKS_WELL_US)
		*forks = (struct kw_forks){0};
}

/* How long the stream must not be attached; 0: it may. reach: bytes of the backlog before it. */
static inline uint64_t kw_forks_wait_us(
	const struct kw_forks *forks, uint64_t reach, uint64_t now_us)
{
	uint32_t doubled = forks->count > KW_FORKS_FREE ? forks->count - KW_FORKS_FREE : 0;

	if (doubled > KW_FORKS_DOUBLED_MOST)
		doubled = KW_FORKS_DOUBLED_MOST;
	if (now_us >= forks->until_us || reach >= KW_FORKS_REACH << doubled)
		return 0;
	return forks->until_us - now_us;
}

#endif
