/* Answers about sets. */
#include "answers.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

struct visiting {
	const struct kw_ask *ask;
	struct kw_slice wanted;
	bool found;
	bool *founds; /* of several wanted members */
	struct kw_slice pattern;
	uint64_t count, said;
};

static bool visit(
	struct visiting *visiting, enum kw_visit (*element)(void *arg, struct kw_slice bytes))
{
	const struct kw_visitor visitor = {.element = element, .arg = visiting};
	struct kw_error error;

	if (kw_ask_is_missing(visiting->ask) ||
		!kw_payload_visit(visiting->ask->payload, &visitor, &error))
		return true;
	kw_answer_unreadable(visiting->ask, &error);
	return false;
}

static enum kw_visit look_for_one(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	visiting->found = kw_slice_equal(bytes, visiting->wanted);
	return visiting->found ? KW_VISIT_STOP : KW_VISIT_ON;
}

void kw_answer_sismember(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .wanted = ask->words[2]};

	if (visit(&visiting, look_for_one))
		kw_reply_integer(ask->to, visiting.found);
}

static enum kw_visit look_for_all(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	for (size_t i = 2; i < visiting->ask->count; i++)
		if (kw_slice_equal(bytes, visiting->ask->words[i]))
			visiting->founds[i - 2] = true;
	return KW_VISIT_ON;
}

void kw_answer_smismember(const struct kw_ask *ask)
{
	size_t count = ask->count - 2;
	struct visiting visiting = {.ask = ask, .founds = kw_zalloc(count)};

	if (visit(&visiting, look_for_all)) {
		kw_reply_array(ask->to, count);
		for (size_t i = 0; i < count; i++)
			kw_reply_integer(ask->to, visiting.founds[i]);
	}
	free(visiting.founds);
}

/* LLEN is the same. */
void kw_answer_size(const struct kw_ask *ask)
{
	struct kw_error error;
	uint64_t size = 0;

	if (!kw_ask_is_missing(ask) && kw_payload_size(ask->payload, &size, &error))
		kw_answer_unreadable(ask, &error);
	else
		kw_reply_integer(ask->to, (int64_t)size);
}

static bool matches(const struct visiting *visiting, struct kw_slice bytes)
{
	return !visiting->pattern.data || kw_word_matches(bytes, visiting->pattern);
}

static enum kw_visit count_member(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	visiting->count += matches(visiting, bytes);
	return KW_VISIT_ON;
}

static enum kw_visit say_member(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	if (!matches(visiting, bytes))
		return KW_VISIT_ON;
	kw_reply_bulk(visiting->ask->to, bytes);
	visiting->said++;
	return KW_VISIT_ON;
}

/* The number of replies comes first: the value tells it, or it is visited twice. */
static bool count_all(struct visiting *visiting)
{
	struct kw_error error;

	if (visiting->pattern.data)
		return visit(visiting, count_member);
	if (kw_ask_is_missing(visiting->ask) ||
		!kw_payload_size(visiting->ask->payload, &visiting->count, &error))
		return true;
	kw_answer_unreadable(visiting->ask, &error);
	return false;
}

static void answer_all(
	struct visiting *visiting, void (*head)(const struct kw_reply_to *to, size_t count))
{
	if (!count_all(visiting))
		return;
	head(visiting->ask->to, visiting->count);
	if (visit(visiting, say_member) && visiting->said != visiting->count)
		kw_answer_miscounted(visiting->ask);
}

void kw_answer_smembers(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask};

	answer_all(&visiting, kw_reply_set);
}

void kw_answer_sscan(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask};
	struct kw_scan_words scan;

	if (!kw_answer_scan(ask, &scan))
		return;
	visiting.pattern = scan.pattern;
	answer_all(&visiting, kw_reply_array);
}
