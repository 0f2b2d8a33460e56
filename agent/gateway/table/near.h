/*
 * Near values: the near cache (cache.h), and the tail of the log that keeps it right.
 *
 *              ┌─────────┐ a superblock of this connection is known ┌───────────┐
 *   link up ──▶│ WAITING │─────────────────────────────────────────▶│ FOLLOWING │
 *              └─────────┘◀─────────────────────────────────────────└───────────┘
 *                          link down, tombstone floor passed, another
 *                          epoch, the reader has failed: all is dropped
 *
 * While FOLLOWING the reader goes along the log, from the head that was known when it began. What
 * was read before from the table is dropped as soon as the log shows something newer.
 *
 * A near value may be told if
 *   - a pass of the reader that began within the last coherence_us ended well (a look at the tail
 *     alone is none: it does not see another segment), and
 *   - all of the log up to the newest superblock known has been taken. So a near value has every
 *     change that the superblock's version and its fresh_us stand for.
 * Otherwise the near values are bypassed, and the table is asked.
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_TABLE_NEAR_H
#define KW_AGENT_GATEWAY_TABLE_NEAR_H

#include "base/sm.h"
#include "cache.h"
#include "follow/follow.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_near_state { KW_NEAR_OFF, KW_NEAR_WAITING, KW_NEAR_FOLLOWING };

struct kw_near {
	struct kw_sm sm; /* of enum kw_near_state */
	struct kw_cache *cache;
	struct kw_follow *follow;
	uint64_t coherence_us;
	uint64_t taken;     /* FOLLOWING: all of the log up to this version was handed on */
	uint64_t looked_us; /* FOLLOWING: when the last pass that ended well began; 0: none yet */
};

/* bytes 0: off for good. */
void kw_near_init(
	struct kw_near *near, struct kw_follow *follow, uint64_t bytes, uint32_t coherence_ms);
void kw_near_close(struct kw_near *near);

void kw_near_set_coherence(struct kw_near *near, uint32_t coherence_ms);

/* The longest pause between two looks at the log. */
uint32_t kw_near_pause_us(uint32_t coherence_ms);

/* Begin to follow if that is possible. Not from within a callback of the reader. */
void kw_near_step(struct kw_near *near, uint64_t now_us);

/* What the owner is told by the follow. */
void kw_near_link(struct kw_near *near);
void kw_near_superblock(struct kw_near *near, const struct kw_superblock *superblock);
void kw_near_records(struct kw_near *near, const struct kw_record_view *records, size_t count);
void kw_near_pass_done(struct kw_near *near, const struct kw_reader_pass *pass);
void kw_near_lapsed(struct kw_near *near, const char *why);

/* May near values be told at this moment? */
bool kw_near_counts(const struct kw_near *near, uint64_t now_us);

#endif
