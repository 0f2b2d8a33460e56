#include "cover.h"

#include <assert.h>

/* Two: the time of the one after it is taken before it is published (see the header). */
#define PUBLICATIONS 2

static void push(struct kw_cover *cover, struct kw_cover_mark mark)
{
	assert(mark.begun_us > 0 && mark.wanted_us > 0);
	if (cover->count < KW_COVER_MARKS)
		cover->count++;
	cover->marks[(cover->first + cover->count - 1) % KW_COVER_MARKS] = mark;
}

/* The mark that waits for a time gets one, and the next begins to wait. */
static void note_time(struct kw_cover *cover, const struct kw_cover_look *look)
{
	if (cover->next.begun_us > 0 && look->publication - cover->next.publication < PUBLICATIONS)
		return;
	if (cover->next.begun_us > 0) {
		cover->next.wanted_us = look->heartbeat_us;
		push(cover, cover->next);
	}
	cover->next = (struct kw_cover_mark){
		.begun_us = look->begun_us, .publication = look->publication};
}

static void note_fresh(struct kw_cover *cover, const struct kw_cover_look *look)
{
	if (look->fresh_us == 0 || look->fresh_us > look->heartbeat_us)
		return;
	while (cover->count > 0) {
		const struct kw_cover_mark *mark = &cover->marks[cover->first];

		if (mark->wanted_us > look->fresh_us)
			return;
		assert(mark->begun_us >= cover->covered_us);
		cover->covered_us = mark->begun_us;
		cover->first = (cover->first + 1) % KW_COVER_MARKS;
		cover->count--;
	}
}

void kw_cover_look(struct kw_cover *cover, const struct kw_cover_look *look)
{
	assert(look->begun_us > 0);
	if (look->epoch != cover->epoch)
		*cover = (struct kw_cover){.epoch = look->epoch};
	else if (look->publication < cover->publication || look->begun_us < cover->next.begun_us)
		return;
	cover->publication = look->publication;
	note_time(cover, look);
	note_fresh(cover, look);
}
