#include "feed/notify/beat.h"

#include <assert.h>
#include <string.h>

#define DELETE                                                                                     \
	{                                                                                          \
		"DEL", {NULL}, KW_FLAG_GENERIC, "del", "+del"                                      \
	}

/* The first one lives on for a minute if the server ends between two of them. */
static const struct kw_beat_write writes[KW_BEAT_WRITES] = {
	{"SET", {"1", "PX", "60000"}, KW_FLAG_STRING, "set", "+set"},
	DELETE,
	{"RPUSH", {"1"}, KW_FLAG_LIST, "rpush", "+rpush"},
	DELETE,
	{"SADD", {"1"}, KW_FLAG_SET, "sadd", "+sadd"},
	DELETE,
	{"HSET", {"1", "1"}, KW_FLAG_HASH, "hset", "+hset"},
	DELETE,
	{"ZADD", {"1", "1"}, KW_FLAG_ZSET, "zadd", "+zadd"},
	DELETE,
	{"XADD", {"*", "1", "1"}, KW_FLAG_STREAM, "xadd", "+xadd"},
	DELETE,
	{"SET", {"1", "PX", "1"}, KW_FLAG_EXPIRED, "expired", "+set"},
};

const struct kw_beat_write *kw_beat_write(size_t index)
{
	assert(index < KW_BEAT_WRITES);
	return &writes[index];
}

static bool holds(const void *owner, int state)
{
	const struct kw_beat *beat = owner;

	switch (state) {
	case KW_BEAT_RESTING:
		return beat->answered == 0;
	case KW_BEAT_WRITING:
		return beat->answered < KW_BEAT_WRITES && beat->begun_us > 0;
	default:
		return beat->answered == KW_BEAT_WRITES;
	}
}

#define STOPPED KW_SM_TO(KW_BEAT_RESTING)

static const struct kw_sm_state states[] = {
	[KW_BEAT_RESTING] = {"resting", KW_SM_TO(KW_BEAT_WRITING), KW_SM_INITIAL},
	[KW_BEAT_WRITING] = {"writing", KW_SM_TO(KW_BEAT_EXPIRING) | STOPPED},
	[KW_BEAT_EXPIRING] = {"expiring", KW_SM_TO(KW_BEAT_READING) | STOPPED},
	[KW_BEAT_READING] = {"reading", KW_SM_TO(KW_BEAT_ASKING) | STOPPED},
	[KW_BEAT_ASKING] = {"asking", STOPPED},
};

static const struct kw_sm_conf machine = {"beat", states, KW_BEAT_ASKING + 1, holds};

void kw_beat_init(struct kw_beat *beat)
{
	*beat = (struct kw_beat){0};
	kw_sm_init(&beat->sm, &machine, beat, KW_BEAT_RESTING);
}

bool kw_beat_begin(struct kw_beat *beat, uint64_t now_us)
{
	assert(now_us > 0);
	if (beat->sm.state != KW_BEAT_RESTING ||
		(beat->begun_us > 0 && now_us - beat->begun_us < KW_BEAT_EVERY_US))
		return false;
	beat->begun_us = now_us;
	beat->done = beat->denied = beat->heard = 0;
	kw_sm_move(&beat->sm, KW_BEAT_WRITING, "");
	return true;
}

void kw_beat_answered(struct kw_beat *beat, enum kw_beat_answer answer, uint64_t now_us)
{
	kw_flag_classes class;

	if (beat->sm.state != KW_BEAT_WRITING)
		return;
	class = KW_FLAG_CLASS(writes[beat->answered].class);
	if (answer == KW_BEAT_DONE)
		beat->done |= class;
	else if (answer == KW_BEAT_DENIED)
		beat->denied |= class;
	if (++beat->answered < KW_BEAT_WRITES)
		return;
	beat->written_us = now_us;
	kw_sm_move(&beat->sm, KW_BEAT_EXPIRING, "");
}

bool kw_beat_reads(struct kw_beat *beat, uint64_t now_us)
{
	if (beat->sm.state != KW_BEAT_EXPIRING || now_us - beat->written_us < KW_BEAT_EXPIRED_US)
		return false;
	kw_sm_move(&beat->sm, KW_BEAT_READING, "");
	return true;
}

void kw_beat_read(struct kw_beat *beat, bool gone)
{
	if (beat->sm.state != KW_BEAT_READING)
		return;
	if (!gone)
		beat->done &= ~KW_FLAG_CLASS(KW_FLAG_EXPIRED);
	kw_sm_move(&beat->sm, KW_BEAT_ASKING, "");
}

void kw_beat_heard(struct kw_beat *beat, struct kw_slice event)
{
	for (size_t i = 0; i < KW_BEAT_WRITES; i++)
		if (kw_slice_equal(event, kw_slice_text(writes[i].event)))
			beat->heard |= KW_FLAG_CLASS(writes[i].class);
}

/* True: it is lacking. */
static bool judge(struct kw_beat *beat, int class)
{
	if (!(beat->done & KW_FLAG_CLASS(class)))
		return false;
	if (beat->heard & KW_FLAG_CLASS(class)) {
		beat->proven_us[class] = beat->begun_us;
		beat->missed[class] = 0;
		return false;
	}
	beat->proven_us[class] = 0;
	return ++beat->missed[class] >= KW_BEAT_MISSED;
}

kw_flag_classes kw_beat_passed(struct kw_beat *beat, bool ok)
{
	kw_flag_classes lacking = 0;

	if (beat->sm.state != KW_BEAT_ASKING)
		return 0;
	for (int class = 0; ok && class < KW_FLAG_CLASSES; class ++)
		if (judge(beat, class))
			lacking |= KW_FLAG_CLASS(class);
	kw_beat_stop(beat);
	return lacking;
}

void kw_beat_stop(struct kw_beat *beat)
{
	beat->answered = 0;
	kw_sm_move(&beat->sm, KW_BEAT_RESTING, "");
}

void kw_beat_reset(struct kw_beat *beat)
{
	kw_beat_stop(beat);
	beat->begun_us = 0;
	memset(beat->proven_us, 0, sizeof beat->proven_us);
	for (int class = 0; class < KW_FLAG_CLASSES; class ++)
		if (beat->missed[class] >= KW_BEAT_MISSED)
			beat->missed[class] = KW_BEAT_MISSED - 1;
}

kw_flag_classes kw_beat_proven(const struct kw_beat *beat, uint64_t now_us)
{
	kw_flag_classes proven = 0;

	for (int class = 0; class < KW_FLAG_CLASSES; class ++)
		if (beat->proven_us[class] > 0 &&
			now_us - beat->proven_us[class] < KW_BEAT_PROVES_US)
			proven |= KW_FLAG_CLASS(class);
	return proven;
}
