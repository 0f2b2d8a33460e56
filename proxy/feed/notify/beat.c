#include "feed/notify/beat.h"

bool kw_beat_is_due(struct kw_beat *beat, uint64_t now_us)
{
	if (beat->state != KW_BEAT_RESTING ||
		(beat->begun_us > 0 && now_us - beat->begun_us < KW_BEAT_EVERY_US))
		return false;
	beat->state = KW_BEAT_WRITING;
	beat->begun_us = now_us;
	beat->heard = false;
	return true;
}

bool kw_beat_written(struct kw_beat *beat, bool ok)
{
	if (beat->state != KW_BEAT_WRITING)
		return false;
	beat->state = ok ? KW_BEAT_ASKING : KW_BEAT_RESTING;
	return ok;
}

void kw_beat_heard(struct kw_beat *beat)
{
	beat->heard = true;
}

bool kw_beat_answered(struct kw_beat *beat, bool ok)
{
	if (beat->state != KW_BEAT_ASKING)
		return false;
	beat->state = KW_BEAT_RESTING;
	if (!ok)
		return false;
	if (beat->heard) {
		beat->proven_us = beat->begun_us;
		beat->missed = 0;
		return false;
	}
	beat->proven_us = 0;
	return beat->missed++ % KW_BEAT_MISSED_AGAIN == KW_BEAT_MISSED - 1;
}

void kw_beat_stop(struct kw_beat *beat)
{
	*beat = (struct kw_beat){0};
}
