#include "reread.h"

#include <assert.h>
#include <stdio.h>

#define LOWEST_MS 10
#define HIGHEST_MS 5000

void kw_reread_init(struct kw_reread *reread)
{
	*reread = (struct kw_reread){0};
	kw_backoff_init(&reread->backoff, LOWEST_MS, HIGHEST_MS);
}

void kw_reread_failed(struct kw_reread *reread, const char *why, uint64_t now_us)
{
	reread->ever++;
	reread->not_before_us = now_us + kw_backoff_next_us(&reread->backoff);
	snprintf(reread->why, sizeof reread->why, "%s", why);
	assert(reread->not_before_us > now_us);
}

void kw_reread_verified(struct kw_reread *reread)
{
	kw_backoff_reset(&reread->backoff);
	assert(!kw_reread_is_damage(reread));
}

bool kw_reread_is_damage(const struct kw_reread *reread)
{
	return reread->backoff.failures >= KW_REREAD_MAX;
}
