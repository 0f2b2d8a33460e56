#include "counters.h"

#include <assert.h>

void kw_counter_begin(struct kw_counter *counter, uint64_t now, uint64_t resets)
{
	*counter = (struct kw_counter){.looks = 1, .last = now, .resets = resets};
}

/* Did the counter begin anew since the last look? */
static int is_anew(const struct kw_counter *counter, uint64_t now, uint64_t resets, uint64_t least)
{
	return resets != counter->resets || now < counter->last || now - counter->last < least;
}

enum kw_counter_found kw_counter_look(
	struct kw_counter *counter, uint64_t now, uint64_t resets, struct kw_counter_ours ours)
{
	enum kw_counter_found found;
	uint64_t grown;

	assert(ours.least <= ours.most);
	assert(resets >= counter->resets);
	if (counter->looks == 0) {
		kw_counter_begin(counter, now, resets);
		return KW_COUNTER_FIRST;
	}
	found = is_anew(counter, now, resets, ours.least) ? KW_COUNTER_ANEW : KW_COUNTER_SAME;
	grown = found == KW_COUNTER_ANEW ? now : now - counter->last;
	counter->others = grown > ours.most ? grown - ours.most : 0;
	if (found == KW_COUNTER_SAME && counter->others > 0)
		found = KW_COUNTER_MORE;
	counter->looks++;
	counter->last = now;
	counter->resets = resets;
	assert(counter->others <= now);
	return found;
}

uint64_t kw_counter_others(struct kw_counter *counter, uint64_t now, uint64_t resets)
{
	kw_counter_look(counter, now, resets, (struct kw_counter_ours){0});
	return counter->others;
}

uint64_t kw_counter_resets(struct kw_counter *counter, uint64_t now, uint64_t resets, uint64_t ours)
{
	const struct kw_counter_ours exactly = {.least = ours, .most = ours};
	enum kw_counter_found found = kw_counter_look(counter, now, 0, exactly);

	return found == KW_COUNTER_ANEW ? resets + 1 : resets;
}
