#include "cover.h"

#include <assert.h>

void kw_cover_look(struct kw_cover *cover, uint64_t equal_us, uint64_t publication, uint64_t now_us)
{
	assert(now_us > 0);
	if (cover->mark_us == 0)
		cover->mark_us = now_us;
	if (cover->step == KW_COVER_MARK && equal_us > cover->mark_us) {
		cover->step = KW_COVER_PUBLISHED;
		cover->publication = publication;
	}
	if (cover->step == KW_COVER_PUBLISHED && publication > cover->publication) {
		cover->step = KW_COVER_EQUAL;
		cover->second_us = now_us;
	}
	if (cover->step == KW_COVER_EQUAL && equal_us > cover->second_us) {
		cover->covered_us = cover->mark_us;
		cover->mark_us = now_us;
		cover->step = KW_COVER_MARK;
	}
}
