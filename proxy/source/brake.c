#include "source/brake.h"

#include <assert.h>

uint64_t kw_brake_whole(const struct kw_brake_count *count)
{
	uint64_t rest = count->before > count->explained ? count->before - count->explained : 0;

	/* Keys that came during the sweep and went again can be missing and not be of before. */
	return rest > count->missing ? rest : count->missing;
}

bool kw_brake_is_beyond(const struct kw_brake_count *count, double share)
{
	return share < 1 && count->missing > KW_BRAKE_FLOOR &&
	       (double)count->missing > share * (double)kw_brake_whole(count);
}

void kw_brake_begin(struct kw_brake *brake, uint64_t before, uint64_t version, uint64_t now_us)
{
	brake->count = (struct kw_brake_count){.before = before};
	brake->version = version;
	brake->begun_us = now_us;
}

/*
 * While keys are coming back, the others are likely to follow: those that are still missing are not
 * deleted before the number stands still.
 */
static bool is_falling(const struct kw_brake *brake)
{
	return kw_brake_is_on(brake) && brake->count.missing > 0 &&
	       brake->count.missing < brake->finding.missing;
}

static void plan(struct kw_brake *brake, uint64_t now_us)
{
	uint64_t pause_us = (now_us - brake->begun_us) * KW_BRAKE_RECOUNT_TIMES;

	brake->recount_us =
		now_us + (pause_us > KW_BRAKE_RECOUNT_US ? pause_us : KW_BRAKE_RECOUNT_US);
	if (brake->rescan_pause_us == 0) {
		brake->rescan_pause_us = KW_BRAKE_RESCAN_FIRST_US;
		brake->rescan_us = now_us + brake->rescan_pause_us;
	}
}

enum kw_brake_verdict kw_brake_judge(struct kw_brake *brake, uint64_t now_us)
{
	bool falling = is_falling(brake);

	assert(now_us >= brake->begun_us);
	if (brake->count.missing <= brake->approved)
		return KW_BRAKE_PASS;
	if (!kw_brake_is_beyond(&brake->count, brake->share) && !falling)
		return KW_BRAKE_PASS;
	brake->falling = falling;
	brake->finding = brake->count;
	plan(brake, now_us);
	assert(kw_brake_is_on(brake));
	return KW_BRAKE_HOLD;
}

void kw_brake_release(struct kw_brake *brake)
{
	*brake = (struct kw_brake){.share = brake->share};
}

bool kw_brake_approve(struct kw_brake *brake)
{
	if (!kw_brake_is_on(brake))
		return false;
	brake->approved = brake->finding.missing;
	brake->recount_us = 0;
	brake->version = UINT64_MAX;
	return true;
}

void kw_brake_set_share(struct kw_brake *brake, double share)
{
	brake->share = share;
	brake->recount_us = 0;
	brake->version = UINT64_MAX;
}

static bool is_to_count(const struct kw_brake *brake, uint64_t version)
{
	return brake->falling || brake->version != version;
}

enum kw_brake_due kw_brake_due(struct kw_brake *brake, uint64_t version, uint64_t now_us)
{
	assert(kw_brake_is_on(brake));
	if (now_us >= brake->rescan_us) {
		brake->rescan_pause_us *= 2;
		if (brake->rescan_pause_us > KW_BRAKE_RESCAN_MOST_US)
			brake->rescan_pause_us = KW_BRAKE_RESCAN_MOST_US;
		brake->rescan_us = now_us + brake->rescan_pause_us;
		return KW_BRAKE_RESCAN;
	}
	return is_to_count(brake, version) && now_us >= brake->recount_us ? KW_BRAKE_RECOUNT
									  : KW_BRAKE_NOTHING;
}

uint64_t kw_brake_ready_us(const struct kw_brake *brake, uint64_t version)
{
	if (is_to_count(brake, version) && brake->recount_us < brake->rescan_us)
		return brake->recount_us;
	return brake->rescan_us;
}
