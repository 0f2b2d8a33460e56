/*
 * How long to wait before trying again: doubling between two bounds. Each wait is drawn from the
 * upper half of its step, so that many clients that lost the same server do not return at once.
 * Pure but for the seed; one thread.
 */
#ifndef KW_BASE_BACKOFF_H
#define KW_BASE_BACKOFF_H

#include <stdint.h>

struct kw_backoff {
	uint32_t lowest_ms, highest_ms;
	uint32_t step_ms; /* 0: the next failure is the first */
	uint32_t failures;
	uint32_t seed;
};

void kw_backoff_init(struct kw_backoff *backoff, uint32_t lowest_ms, uint32_t highest_ms);

/* It failed (again): microseconds until the next try. */
uint64_t kw_backoff_next_us(struct kw_backoff *backoff);

/* It worked. */
void kw_backoff_reset(struct kw_backoff *backoff);

#endif
