#include "answers.h"
#include "zset.h"

#include <stdlib.h>

struct visiting {
	const struct kw_slice *wanted;
	size_t count;
	size_t at; /* the one named last; count: none */
	struct kw_member_score *found;
	size_t founds;
};

static enum kw_visit on_name(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	visiting->at = 0;
	while (visiting->at < visiting->count &&
		!kw_slice_equal(visiting->wanted[visiting->at], bytes))
		visiting->at++;
	return KW_VISIT_ON;
}

static enum kw_visit on_score(void *arg, double score)
{
	struct visiting *visiting = arg;
	const struct kw_slice *wanted = visiting->wanted;

	if (visiting->at == visiting->count)
		return KW_VISIT_ON;
	/* A request can name a member more than once. */
	for (size_t i = visiting->at; i < visiting->count; i++)
		if (kw_slice_equal(wanted[i], wanted[visiting->at])) {
			visiting->found[i] = (struct kw_member_score){true, score};
			visiting->founds++;
		}
	return visiting->founds == visiting->count ? KW_VISIT_STOP : KW_VISIT_ON;
}

struct kw_member_score *kw_zset_scores(const struct kw_ask *ask, size_t first, size_t count)
{
	struct visiting visiting = {.wanted = ask->words + first,
		.count = count,
		.found = kw_zalloc(count * sizeof *visiting.found)};
	const struct kw_visitor visitor = {.name = on_name, .score = on_score, .arg = &visiting};
	struct kw_error error;

	if (kw_ask_is_missing(ask) || !kw_payload_visit(ask->payload, &visitor, &error))
		return visiting.found;
	kw_answer_unreadable(ask, &error);
	free(visiting.found);
	return NULL;
}
