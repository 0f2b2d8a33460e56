#include "source/trace.h"

#include <assert.h>

void kw_trace_init(struct kw_trace *trace, uint64_t seed, uint64_t now_us)
{
	*trace = (struct kw_trace){.random = seed | 1};
	kw_stages_init(&trace->stages, now_us);
}

/* xorshift64: any generator is good enough to spread the choice. */
size_t kw_trace_choose(struct kw_trace *trace, size_t count)
{
	assert(count > 0);
	trace->random ^= trace->random << 13;
	trace->random ^= trace->random >> 7;
	trace->random ^= trace->random << 17;
	return (size_t)(trace->random % count);
}

uint32_t kw_trace_free(const struct kw_trace *trace)
{
	uint32_t number = 0;

	if (trace->turn == KW_TRACE_HAS_BEGUN || trace->followed == KW_TRACE_CHANGES)
		return KW_TRACE_CHANGES;
	while (trace->changes[number].state != KW_TRACE_IDLE) {
		number++;
		assert(number < KW_TRACE_CHANGES);
	}
	return number;
}

void kw_trace_begin(struct kw_trace *trace, uint32_t number, uint64_t arrived_us, uint64_t now_us)
{
	assert(number < KW_TRACE_CHANGES && trace->changes[number].state == KW_TRACE_IDLE);
	assert(trace->turn == KW_TRACE_MAY_BEGIN);
	trace->changes[number] = (struct kw_trace_change){
		.state = KW_TRACE_WAITS, .arrived_us = arrived_us, .told_us = now_us};
	trace->followed++;
	trace->turn = KW_TRACE_HAS_BEGUN;
}

void kw_trace_next_turn(struct kw_trace *trace)
{
	trace->turn = KW_TRACE_MAY_BEGIN;
}

static void count(
	struct kw_trace *trace, enum kw_trace_stage stage, uint64_t from_us, uint64_t to_us)
{
	kw_stages_add(&trace->stages, (int)stage, to_us > from_us ? to_us - from_us : 0, to_us);
}

static void end(struct kw_trace *trace, struct kw_trace_change *change)
{
	assert(trace->followed > 0);
	change->state = KW_TRACE_IDLE;
	trace->followed--;
}

/* All stages of a change at once, so that each has the same changes. */
static void answered(
	struct kw_trace *trace, struct kw_trace_change *change, bool unpublished, uint64_t now_us)
{
	if (change->arrived_us)
		count(trace, KW_TRACE_EVENTS, change->arrived_us, change->told_us);
	/* Asked and answered since it was looked at last. */
	if (change->state == KW_TRACE_WAITS)
		change->asked_us = now_us;
	count(trace, KW_TRACE_WAIT, change->told_us, change->asked_us);
	count(trace, KW_TRACE_FETCH, change->asked_us, now_us);
	change->stored_us = now_us;
	change->state = KW_TRACE_STORED;
	if (unpublished)
		trace->stored++;
	else
		end(trace, change);
}

static void saw(struct kw_trace *trace, struct kw_trace_change *change, enum kw_dirty_sight sight,
	bool unpublished, uint64_t now_us)
{
	switch (sight) {
	case KW_DIRTY_UNSEEN:
		end(trace, change);
		return;
	case KW_DIRTY_WAITS:
		change->state = KW_TRACE_WAITS;
		return;
	case KW_DIRTY_FLIES:
		if (change->state == KW_TRACE_WAITS)
			change->asked_us = now_us;
		change->state = KW_TRACE_FETCHED;
		return;
	case KW_DIRTY_ANSWERED:
		answered(trace, change, unpublished, now_us);
		return;
	}
}

void kw_trace_look(
	struct kw_trace *trace, const struct kw_dirty *dirty, bool unpublished, uint64_t now_us)
{
	if (trace->followed == trace->stored)
		return;
	for (uint32_t i = 0; i < KW_TRACE_CHANGES; i++) {
		struct kw_trace_change *change = &trace->changes[i];

		if (change->state == KW_TRACE_WAITS || change->state == KW_TRACE_FETCHED)
			saw(trace, change, kw_dirty_watched(dirty, i), unpublished, now_us);
	}
}

void kw_trace_published(struct kw_trace *trace, uint64_t now_us)
{
	for (uint32_t i = 0; i < KW_TRACE_CHANGES && trace->stored > 0; i++) {
		struct kw_trace_change *change = &trace->changes[i];

		if (change->state != KW_TRACE_STORED)
			continue;
		count(trace, KW_TRACE_PUBLISH, change->stored_us, now_us);
		end(trace, change);
		trace->stored--;
	}
}

void kw_trace_asked(struct kw_trace *trace, uint64_t now_us)
{
	trace->barrier_us = now_us;
}

void kw_trace_passed(struct kw_trace *trace, uint64_t now_us)
{
	if (trace->barrier_us)
		count(trace, KW_TRACE_PRIMARY, trace->barrier_us, now_us);
	trace->barrier_us = 0;
}

void kw_trace_forget(struct kw_trace *trace)
{
	trace->barrier_us = 0;
}
