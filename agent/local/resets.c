#include "resets.h"

/* It must have grown since the last look. */
static bool has_fallen(uint64_t last, uint64_t now)
{
	return now <= last;
}

bool kw_resets_look(struct kw_resets *resets, const struct kw_reset_signs *now)
{
	const struct kw_reset_signs *last = &resets->last;
	bool found = resets->looked &&
		     (has_fallen(last->infos, now->infos) ||
			     (last->commands > 0 && has_fallen(last->commands, now->commands)) ||
			     now->resetstats > last->resetstats);

	resets->looked = true;
	resets->last = *now;
	return found;
}
