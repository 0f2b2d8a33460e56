#include "feed/choice.h"

void kw_choice_init(struct kw_choice *choice)
{
	*choice = (struct kw_choice){.pause_us = KW_CHOICE_PAUSE_US};
}

bool kw_choice_failed(struct kw_choice *choice, bool refused, uint64_t now_us)
{
	choice->trouble = refused ? KW_CHOICE_REFUSED : KW_CHOICE_PASSES;
	if (!refused && ++choice->failures < KW_CHOICE_FAILURES)
		return false;
	choice->next = KW_CHOICE_NOTIFICATIONS;
	choice->failures = KW_CHOICE_FAILURES - 1; /* then a single attempt */
	choice->retry_us = now_us + choice->pause_us;
	choice->pause_us *= 2;
	if (choice->pause_us > KW_CHOICE_PAUSE_MOST_US)
		choice->pause_us = KW_CHOICE_PAUSE_MOST_US;
	return true;
}

void kw_choice_followed(struct kw_choice *choice, uint64_t now_us)
{
	choice->trouble = KW_CHOICE_NONE;
	choice->failures = 0;
	choice->followed_us = now_us;
}

void kw_choice_stopped(struct kw_choice *choice, bool another, uint64_t now_us)
{
	if (another || now_us >= choice->retry_us)
		choice->next = KW_CHOICE_STREAM;
	if (choice->followed_us > 0 && now_us - choice->followed_us >= KW_CHOICE_PAUSE_US)
		choice->pause_us = KW_CHOICE_PAUSE_US;
	choice->followed_us = 0;
}

bool kw_choice_is_due(const struct kw_choice *choice, uint64_t now_us)
{
	return choice->next == KW_CHOICE_NOTIFICATIONS && choice->trouble == KW_CHOICE_PASSES &&
	       now_us >= choice->retry_us;
}
