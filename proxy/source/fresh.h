/*
 * The freshness barrier: up to which moment is the table known to be current?
 *
 *   ┌──────┐ ask ┌───────┐ passed: mark the  ┌────────┐ all before the mark
 *   │ IDLE │────▶│ ASKED │──────────────────▶│ MARKED │─────────────────────▶ IDLE, fresher
 *   └──────┘     └───────┘ dirty set         └────────┘ was fetched
 *      ▲             │ doubt came up             │ doubt came up
 *      │         ┌─────────┐                     │
 *      └─────────│ SPOILED │ passed: nothing is  │
 *      ▲         └─────────┘ proved              │
 *      └─────────────────────────────────────────┘
 *
 * The feed passes the barrier after it told all that the server did before. One barrier is under
 * way at a time. If nothing changes, it costs two messages each interval.
 *
 * The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_FRESH_H
#define KW_PROXY_SOURCE_FRESH_H

#include "base/sm.h"
#include "feed/feed.h"
#include "keys/dirty.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_fresh_state {
	KW_FRESH_IDLE,
	KW_FRESH_ASKED,
	KW_FRESH_SPOILED,
	KW_FRESH_MARKED,
};

struct kw_fresh {
	struct kw_sm sm;
	struct kw_dirty *dirty;
	struct kw_feed *feed;
	uint64_t asked, told; /* barriers that were asked for; those that the feed passed */
	uint64_t as_of_us; /* wall clock: the server's data are current as of this moment, and the
			      table will be after the barrier under way */
	uint64_t fresh_us; /* wall clock: the table is current as of this moment; 0: unknown */
};

void kw_fresh_init(struct kw_fresh *fresh, struct kw_dirty *dirty, struct kw_feed *feed);

/* Ask for a barrier; none is under way. The feed must be running. */
void kw_fresh_ask(struct kw_fresh *fresh, uint64_t as_of_us);

static inline bool kw_fresh_is_idle(const struct kw_fresh *fresh)
{
	return fresh->sm.state == KW_FRESH_IDLE;
}

/* The feed passed it. */
void kw_fresh_passed(struct kw_fresh *fresh);

/* At the end of a loop turn. True: fresh_us has grown. */
bool kw_fresh_turn(struct kw_fresh *fresh);

/* Doubt came up: the barrier under way proves nothing. */
void kw_fresh_spoil(struct kw_fresh *fresh);

/* The feed stopped: it forgets the barrier under way. */
void kw_fresh_reset(struct kw_fresh *fresh);

/* Earlier claims might have been wrong, too. */
static inline void kw_fresh_revoke(struct kw_fresh *fresh)
{
	fresh->fresh_us = 0;
}

#endif
