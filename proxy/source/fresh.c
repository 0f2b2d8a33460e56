/*
 * The freshness barrier: up to which moment is the table known to be current?
 *
 *   PING on the events connection ─▶ pong ─▶ mark the dirty set ─▶ all before it done ─▶ fresh
 *
 * Events precede the pong, so what the server executed before it read the PING has raised its
 * events by then. One barrier is under way at a time; idle, it costs two messages each interval.
 */
#include "source/internal.h"

#include "base/clock.h"

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	struct kw_fresh *fresh = &source->fresh;

	if (!reply || fresh->spoilt) {
		fresh->phase = KW_FRESH_IDLE;
		fresh->spoilt = false;
		return;
	}
	kw_events_settle(source);
	kw_dirty_mark(source->dirty);
	fresh->phase = KW_FRESH_MARKED;
	kw_source_want_turn(source);
}

void kw_fresh_tick(struct kw_source *source)
{
	struct kw_fresh *fresh = &source->fresh;

	if (fresh->phase != KW_FRESH_IDLE || source->link != KW_LINK_UP ||
		!kw_sweep_any_ended(source) || kw_sweep_mending(source))
		return;
	fresh->phase = KW_FRESH_ASKED;
	fresh->asked_us = kw_wall_us();
	kw_redis_words(source->events, answered, source, "PING", NULL);
}

void kw_fresh_turn(struct kw_source *source)
{
	struct kw_fresh *fresh = &source->fresh;

	/* A flush whose extent is still being asked for is not in the table yet. */
	if (fresh->phase != KW_FRESH_MARKED || !kw_dirty_passed(source->dirty) ||
		source->flush.running)
		return;
	fresh->phase = KW_FRESH_IDLE;
	fresh->fresh_us = fresh->asked_us;
	kw_source_tell_table(source);
}

/* A pong that is on its way is swallowed when it comes. */
void kw_fresh_abandon(struct kw_source *source)
{
	if (source->fresh.phase == KW_FRESH_ASKED)
		source->fresh.spoilt = true;
	else
		source->fresh.phase = KW_FRESH_IDLE;
}
