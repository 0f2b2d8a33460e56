#include "source/fresh.h"

#include <assert.h>

static bool holds(const void *owner, int state)
{
	const struct kw_fresh *fresh = owner;

	return state == KW_FRESH_IDLE || fresh->as_of_us > 0;
}

static const struct kw_sm_state states[] = {
	[KW_FRESH_IDLE] = {"idle", KW_SM_TO(KW_FRESH_ASKED), KW_SM_INITIAL},
	[KW_FRESH_ASKED] = {"asked",
		KW_SM_TO(KW_FRESH_MARKED) | KW_SM_TO(KW_FRESH_SPOILED) | KW_SM_TO(KW_FRESH_IDLE)},
	[KW_FRESH_SPOILED] = {"spoiled", KW_SM_TO(KW_FRESH_IDLE)},
	[KW_FRESH_MARKED] = {"marked", KW_SM_TO(KW_FRESH_IDLE)},
};

static const struct kw_sm_conf machine = {"fresh", states, KW_FRESH_MARKED + 1, holds};

void kw_fresh_init(struct kw_fresh *fresh, struct kw_dirty *dirty, struct kw_feed *feed)
{
	*fresh = (struct kw_fresh){.dirty = dirty, .feed = feed};
	kw_sm_init(&fresh->sm, &machine, fresh, KW_FRESH_IDLE);
}

void kw_fresh_ask(struct kw_fresh *fresh, uint64_t as_of_us)
{
	assert(kw_fresh_is_idle(fresh) && as_of_us > 0);
	fresh->as_of_us = as_of_us;
	fresh->asked++;
	kw_sm_move(&fresh->sm, KW_FRESH_ASKED, "");
	kw_feed_barrier(fresh->feed);
}

void kw_fresh_passed(struct kw_fresh *fresh)
{
	fresh->told = fresh->asked;
	if (fresh->sm.state == KW_FRESH_SPOILED) {
		kw_sm_move(&fresh->sm, KW_FRESH_IDLE, "doubt came up");
		return;
	}
	assert(fresh->sm.state == KW_FRESH_ASKED);
	kw_dirty_mark(fresh->dirty);
	kw_sm_move(&fresh->sm, KW_FRESH_MARKED, "");
}

bool kw_fresh_turn(struct kw_fresh *fresh)
{
	if (fresh->sm.state != KW_FRESH_MARKED || !kw_dirty_passed(fresh->dirty))
		return false;
	kw_sm_move(&fresh->sm, KW_FRESH_IDLE, "");
	fresh->fresh_us = fresh->as_of_us;
	return true;
}

void kw_fresh_spoil(struct kw_fresh *fresh)
{
	if (fresh->sm.state == KW_FRESH_ASKED)
		kw_sm_move(&fresh->sm, KW_FRESH_SPOILED, "doubt came up");
	else if (fresh->sm.state == KW_FRESH_MARKED)
		kw_sm_move(&fresh->sm, KW_FRESH_IDLE, "doubt came up");
}

void kw_fresh_reset(struct kw_fresh *fresh)
{
	kw_sm_move(&fresh->sm, KW_FRESH_IDLE, "the feed stopped");
}
