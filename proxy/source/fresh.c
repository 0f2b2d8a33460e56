/*
 * The freshness barrier: up to which moment is the table known to be current?
 *
 *   ask the feed ─▶ passed ─▶ mark the dirty set ─▶ all before the mark was fetched ─▶ fresh
 *
 * One barrier is under way at a time. If nothing changes, it costs two messages each interval.
 */
#include "source/internal.h"

#include "base/clock.h"

#include <assert.h>

void kw_fresh_passed(struct kw_source *source)
{
	struct kw_fresh *fresh = &source->fresh;

	if (fresh->phase == KW_FRESH_SPOILT) {
		fresh->phase = KW_FRESH_IDLE;
		return;
	}
	assert(fresh->phase == KW_FRESH_ASKED);
	kw_dirty_mark(source->dirty);
	fresh->phase = KW_FRESH_MARKED;
}

void kw_fresh_reset(struct kw_source *source)
{
	source->fresh.phase = KW_FRESH_IDLE;
}

void kw_fresh_tick(struct kw_source *source)
{
	struct kw_fresh *fresh = &source->fresh;

	if (fresh->phase != KW_FRESH_IDLE || source->link != KW_LINK_UP ||
		!kw_sweep_any_ended(source) || kw_sweep_mending(source))
		return;
	fresh->phase = KW_FRESH_ASKED;
	fresh->asked_us = kw_wall_us();
	kw_feed_barrier(source->feed);
}

void kw_fresh_turn(struct kw_source *source)
{
	struct kw_fresh *fresh = &source->fresh;

	if (fresh->phase != KW_FRESH_MARKED || !kw_dirty_passed(source->dirty))
		return;
	fresh->phase = KW_FRESH_IDLE;
	fresh->fresh_us = fresh->asked_us;
	kw_source_tell_table(source);
}

void kw_fresh_abandon(struct kw_source *source)
{
	if (source->fresh.phase == KW_FRESH_MARKED)
		source->fresh.phase = KW_FRESH_IDLE;
	else if (source->fresh.phase == KW_FRESH_ASKED)
		source->fresh.phase = KW_FRESH_SPOILT;
}
