/*
 * How long a change stays in each stage on its way: a histogram for each stage, of all time and of
 * the recent past.
 *
 *   all time   ├──────────────────────────────────────────────────────┤ now
 *   marks                                  ├ older ┤ newer ┤           a copy of the counts then
 *   recent                                 ├───────────────────────────┤ 60 to 120 s: all − older
 *
 * So a change is counted once, whatever is asked later, and what happened hours ago does not hide
 * what happens now. Pure; the caller owns the struct, which is large; one thread.
 */
#ifndef KW_BASE_STAGES_H
#define KW_BASE_STAGES_H

#include "base/lag.h"

#include <stdint.h>

#define KW_STAGES_MOST 5
#define KW_STAGES_WINDOW_US UINT64_C(60000000) /* from mark to mark */

struct kw_stages {
	struct {
		struct kw_lag all, older, newer;
	} of[KW_STAGES_MOST];
	uint64_t older_us, newer_us; /* when these marks were made */
};

/* now_us, here and below: of one clock. If it steps back, the recent past begins anew. */
void kw_stages_init(struct kw_stages *stages, uint64_t now_us);

/* A change was so long in that stage. stage: below KW_STAGES_MOST; the caller's numbers. */
void kw_stages_add(struct kw_stages *stages, int stage, uint64_t us, uint64_t now_us);

/* The recent past begins anew. What was counted of all time stays. */
void kw_stages_reset(struct kw_stages *stages, uint64_t now_us);

/* The recent past of a stage. Returns how long that is, in microseconds. */
uint64_t kw_stages_recent(
	struct kw_stages *stages, int stage, uint64_t now_us, struct kw_lag *recent);

#endif
