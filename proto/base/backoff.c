#include "base/backoff.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

void kw_backoff_init(struct kw_backoff *backoff, uint32_t lowest_ms, uint32_t highest_ms)
{
	assert(lowest_ms > 0 && lowest_ms <= highest_ms);
	*backoff = (struct kw_backoff){
		.lowest_ms = lowest_ms,
		.highest_ms = highest_ms,
		.seed = (uint32_t)kw_clock_us() ^ (uint32_t)getpid() * 2654435761u,
	};
}

uint64_t kw_backoff_next_us(struct kw_backoff *backoff)
{
	uint64_t step_us;

	assert(backoff->highest_ms > 0);
	if (backoff->step_ms == 0)
		backoff->step_ms = backoff->lowest_ms;
	else if (backoff->step_ms < backoff->highest_ms)
		backoff->step_ms *= 2;
	if (backoff->step_ms > backoff->highest_ms)
		backoff->step_ms = backoff->highest_ms;
	assert(backoff->step_ms >= backoff->lowest_ms);
	backoff->failures++;
	step_us = (uint64_t)backoff->step_ms * 1000;
	return step_us / 2 + (uint64_t)rand_r(&backoff->seed) % (step_us / 2 + 1);
}

void kw_backoff_reset(struct kw_backoff *backoff)
{
	backoff->step_ms = 0;
	backoff->failures = 0;
}
