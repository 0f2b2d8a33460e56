#include "source/redial.h"

void kw_redial_init(struct kw_redial *redial)
{
	*redial = (struct kw_redial){0};
	kw_backoff_init(&redial->waits, KW_REDIAL_FIRST_MS, KW_REDIAL_MOST_MS);
}

bool kw_redial_judge(struct kw_redial *redial, enum kw_redial_finding finding, uint64_t now_us)
{
	if (finding == KW_REDIAL_REACHED)
		kw_backoff_reset(&redial->waits);
	if (finding != KW_REDIAL_ELSEWHERE) {
		redial->at_us = 0;
		return false;
	}
	if (redial->at_us == 0)
		redial->at_us = now_us + kw_backoff_next_us(&redial->waits);
	if (now_us < redial->at_us)
		return false;
	redial->at_us = 0;
	return true;
}
