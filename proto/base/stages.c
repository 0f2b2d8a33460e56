#include "base/stages.h"

#include <assert.h>

void kw_stages_reset(struct kw_stages *stages, uint64_t now_us)
{
	for (int i = 0; i < KW_STAGES_MOST; i++)
		stages->of[i].older = stages->of[i].newer = stages->of[i].all;
	stages->older_us = stages->newer_us = now_us;
}

void kw_stages_init(struct kw_stages *stages, uint64_t now_us)
{
	*stages = (struct kw_stages){0};
	kw_stages_reset(stages, now_us);
}

/* The newer marks become the older ones. */
static void shift(struct kw_stages *stages, uint64_t now_us)
{
	for (int i = 0; i < KW_STAGES_MOST; i++) {
		stages->of[i].older = stages->of[i].newer;
		stages->of[i].newer = stages->of[i].all;
	}
	stages->older_us = stages->newer_us;
	stages->newer_us = now_us;
}

static void go_on(struct kw_stages *stages, uint64_t now_us)
{
	if (now_us < stages->newer_us) {
		kw_stages_reset(stages, now_us);
	} else if (now_us - stages->newer_us >= 2 * KW_STAGES_WINDOW_US) {
		/* Nothing was added meanwhile. */
		kw_stages_reset(stages, now_us - KW_STAGES_WINDOW_US);
		shift(stages, now_us);
	} else if (now_us - stages->newer_us >= KW_STAGES_WINDOW_US) {
		shift(stages, now_us);
	}
}

void kw_stages_add(struct kw_stages *stages, int stage, uint64_t us, uint64_t now_us)
{
	assert(stage >= 0 && stage < KW_STAGES_MOST);
	go_on(stages, now_us);
	kw_lag_add(&stages->of[stage].all, us);
}

uint64_t kw_stages_recent(
	struct kw_stages *stages, int stage, uint64_t now_us, struct kw_lag *recent)
{
	assert(stage >= 0 && stage < KW_STAGES_MOST);
	go_on(stages, now_us);
	kw_lag_since(&stages->of[stage].all, &stages->of[stage].older, recent);
	return now_us - stages->older_us;
}
