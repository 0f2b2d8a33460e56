#include "horizon.h"

#include <assert.h>

/* Two: the time of the one after it is taken before it is published (see the header). */
#define PUBLICATIONS 2

static void push(struct kw_horizon *horizon, struct kw_horizon_mark mark)
{
	assert(mark.begun_us > 0 && mark.wanted_us > 0);
	if (horizon->count < KW_HORIZON_MARKS)
		horizon->count++;
	horizon->marks[(horizon->first + horizon->count - 1) % KW_HORIZON_MARKS] = mark;
}

/* The mark that waits for a time gets one, and the next begins to wait. */
static void note_time(struct kw_horizon *horizon, const struct kw_horizon_look *look)
{
	if (horizon->next.begun_us > 0 &&
		look->publication - horizon->next.publication < PUBLICATIONS)
		return;
	if (horizon->next.begun_us > 0) {
		horizon->next.wanted_us = look->heartbeat_us;
		push(horizon, horizon->next);
	}
	horizon->next = (struct kw_horizon_mark){
		.begun_us = look->begun_us, .publication = look->publication};
}

static void note_fresh(struct kw_horizon *horizon, const struct kw_horizon_look *look)
{
	if (look->fresh_us == 0 || look->fresh_us > look->heartbeat_us)
		return;
	while (horizon->count > 0) {
		const struct kw_horizon_mark *mark = &horizon->marks[horizon->first];

		if (mark->wanted_us > look->fresh_us)
			return;
		assert(mark->begun_us >= horizon->covered_us);
		horizon->covered_us = mark->begun_us;
		horizon->first = (horizon->first + 1) % KW_HORIZON_MARKS;
		horizon->count--;
	}
}

void kw_horizon_look(struct kw_horizon *horizon, const struct kw_horizon_look *look)
{
	assert(look->begun_us > 0);
	if (look->epoch != horizon->epoch)
		*horizon = (struct kw_horizon){.epoch = look->epoch};
	else if (look->publication < horizon->publication ||
		 look->begun_us < horizon->next.begun_us)
		return;
	horizon->publication = look->publication;
	note_time(horizon, look);
	note_fresh(horizon, look);
}
