/*
 * Doubts: how many led to a reconcile, by their cause; and which wait for the end of a sweep. Pure.
 */
#ifndef KW_PROXY_SOURCE_DOUBTS_H
#define KW_PROXY_SOURCE_DOUBTS_H

#include "feed/doubt.h"
#include "source/source.h"
#include "source/sweep.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_doubts {
	uint64_t reconciles;
	uint64_t by_cause[KW_DOUBTS];
};

/* Does this doubt wait for the end of the sweep under way? */
bool kw_doubt_waits(const struct kw_sweep *sweep, enum kw_doubt cause);

/* Does it say that the table might have differed from the primary before it was told? */
bool kw_doubt_revokes(enum kw_doubt cause);

void kw_doubts_count(struct kw_doubts *doubts, enum kw_doubt cause);

/* Set the counters of reconciles, except those of audits. */
void kw_doubts_stats(const struct kw_doubts *doubts, struct kw_source_stats *stats);

#endif
