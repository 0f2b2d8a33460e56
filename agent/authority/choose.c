#include "choose.h"

#include <assert.h>

static bool counts(const struct kw_choice *table)
{
	return table->seen && table->allowed;
}

static bool is_better(const struct kw_choice *a, const struct kw_choice *b)
{
	if (!counts(a) || !counts(b))
		return counts(a);
	if (a->confirmed != b->confirmed)
		return a->confirmed;
	if (a->same_domain != b->same_domain)
		return a->same_domain;
	if (a->term != b->term)
		return a->term > b->term;
	if (a->complete != b->complete)
		return a->complete;
	return a->serves && !b->serves;
}

size_t kw_choose(const struct kw_choice *tables, size_t count, size_t current)
{
	size_t best = current;

	assert(current < count);
	for (size_t i = 0; i < count; i++)
		if (i != best && is_better(&tables[i], &tables[best]))
			best = i;
	return best;
}
