/*
 * The bytes read do not verify. A writer that was stopped in the middle of the superblock looks the
 * same as damage, but passes. So the agent reads again from the last position, after a pause that
 * grows. If they do not verify KW_REREAD_MAX times in a row, it is damage: an alarm, and a
 * reconcile. Pure; one thread.
 */
#ifndef KW_AGENT_SYNC_REREAD_H
#define KW_AGENT_SYNC_REREAD_H

#include "base/backoff.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_REREAD_MAX 6
#define KW_REREAD_WHY 256

struct kw_reread {
	struct kw_backoff backoff; /* its failures: in a row */
	uint64_t not_before_us;    /* the reader starts again then */
	uint64_t ever;
	char why[KW_REREAD_WHY]; /* of the last failure */
};

void kw_reread_init(struct kw_reread *reread);

void kw_reread_failed(struct kw_reread *reread, const char *why, uint64_t now_us);

/* A whole pass verified. */
void kw_reread_verified(struct kw_reread *reread);

bool kw_reread_is_damage(const struct kw_reread *reread);

#endif
