#include "source/brake.h"

#include <assert.h>

uint64_t kw_brake_whole(const struct kw_brake_count *count)
{
	uint64_t rest = count->before > count->explained ? count->before - count->explained : 0;

	/* Keys that came during the sweep and went again can be missing and not be of before. */
	return rest > count->missing ? rest : count->missing;
}

void kw_brake_note_expiry(struct kw_brake_count *count, uint64_t expires_ms, uint64_t begun_ms)
{
	uint64_t in_ms = expires_ms - begun_ms;

	assert(expires_ms > begun_ms);
	if (count->expiry_ms == 0 || in_ms < count->expiry_ms)
		count->expiry_ms = in_ms;
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

/* Keys that expire are no less unseen: they do not come back. */
static uint64_t unseen(const struct kw_brake_count *count)
{
	return count->missing + count->explained;
}

/*
 * While keys are coming back, the others are likely to follow: those that are still missing are not
 * deleted before the number stands still.
 */
static bool is_falling(const struct kw_brake *brake)
{
	return kw_brake_is_on(brake) && brake->count.missing > 0 &&
	       unseen(&brake->count) < unseen(&brake->finding);
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
	if (!kw_brake_is_on(brake))
		brake->held_us = now_us;
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

/* When a count can come to another result; UINT64_MAX: not before the next scan. */
static uint64_t recount_us(const struct kw_brake *brake, uint64_t version)
{
	uint64_t expiry_ms = brake->finding.expiry_ms, expired_us;

	if (brake->falling || brake->version != version)
		return brake->recount_us;
	if (expiry_ms == 0 || expiry_ms > KW_BRAKE_RESCAN_MOST_US / 1000)
		return UINT64_MAX;
	expired_us = brake->begun_us + expiry_ms * 1000;
	return expired_us > brake->recount_us ? expired_us : brake->recount_us;
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
	return now_us >= recount_us(brake, version) ? KW_BRAKE_RECOUNT : KW_BRAKE_NOTHING;
}

uint64_t kw_brake_ready_us(const struct kw_brake *brake, uint64_t version)
{
	uint64_t count_us = recount_us(brake, version);

	return count_us < brake->rescan_us ? count_us : brake->rescan_us;
}
