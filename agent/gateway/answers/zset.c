#include "zset.h"

#include "answers.h"
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static enum kw_visit on_name(void *arg, struct kw_slice bytes)
{
	struct kw_zset *zset = arg;

	if (zset->count == zset->capacity) {
		zset->capacity = zset->capacity ? 2 * zset->capacity : 64;
		zset->entries = kw_realloc(zset->entries, zset->capacity * sizeof *zset->entries);
	}
	zset->entries[zset->count++] = (struct kw_zset_entry){
		.offset = kw_buffer_length(&zset->bytes), .length = bytes.length};
	kw_buffer_append(&zset->bytes, bytes.data, bytes.length);
	return KW_VISIT_ON;
}

static enum kw_visit on_score(void *arg, double score)
{
	struct kw_zset *zset = arg;

	zset->entries[zset->count - 1].score = score;
	return KW_VISIT_ON;
}

static int compare_bytes(struct kw_slice a, struct kw_slice b)
{
	size_t both = a.length < b.length ? a.length : b.length;
	int order = both ? memcmp(a.data, b.data, both) : 0;

	return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_entries(const void *left, const void *right, void *arg)
{
	const struct kw_zset_entry *a = left, *b = right;
	const uint8_t *bytes = kw_buffer_bytes(arg);

	if (a->score != b->score)
		return a->score < b->score ? -1 : 1;
	return compare_bytes(
		kw_slice(bytes + a->offset, a->length), kw_slice(bytes + b->offset, b->length));
}

/* direction 1: from the first to the last; -1: from the last to the first. */
static bool is_sorted(struct kw_zset *zset, int direction)
{
	for (size_t i = 1; i < zset->count; i++)
		if (direction * compare_entries(
					&zset->entries[i - 1], &zset->entries[i], &zset->bytes) >
			0)
			return false;
	return true;
}

static void reverse(struct kw_zset *zset)
{
	for (size_t low = 0, high = zset->count; low + 1 < high; low++) {
		struct kw_zset_entry entry = zset->entries[low];

		zset->entries[low] = zset->entries[--high];
		zset->entries[high] = entry;
	}
}

bool kw_zset_read(struct kw_zset *zset, const struct kw_ask *ask)
{
	const struct kw_visitor visitor = {.name = on_name, .score = on_score, .arg = zset};
	struct kw_error error;

	*zset = (struct kw_zset){0};
	kw_buffer_reserve(&zset->bytes, 1); /* never NULL, for a set of the empty member */
	if (kw_ask_is_missing(ask))
		return true;
	zset->counts_back = !kw_payload_is_packed(ask->payload) &&
			    kw_release_since(ask->to->release, KW_RELEASE(7, 4), KW_RELEASE(8, 0));
	if (kw_payload_visit(ask->payload, &visitor, &error)) {
		kw_answer_unreadable(ask, &error);
		kw_zset_close(zset);
		return false;
	}
	if (is_sorted(zset, -1))
		reverse(zset);
	else if (!is_sorted(zset, 1))
		qsort_r(zset->entries, zset->count, sizeof *zset->entries, compare_entries,
			&zset->bytes);
	return true;
}

void kw_zset_close(struct kw_zset *zset)
{
	free(zset->entries);
	kw_buffer_close(&zset->bytes);
	*zset = (struct kw_zset){0};
}

/* ---- what is asked ---- */

static bool refuse(const struct kw_ask *ask, const char *error)
{
	kw_reply_error(ask->to, "%s", error);
	return false;
}

static bool read_limit(struct kw_zset_range *range, const struct kw_ask *ask, size_t at)
{
	if (!kw_answer_number(ask->words[at + 1], &range->offset) ||
		!kw_answer_number(ask->words[at + 2], &range->count))
		return refuse(ask, "ERR value is not an integer or out of range");
	return true;
}

bool kw_zset_options(struct kw_zset_range *range, const struct kw_ask *ask, unsigned options)
{
	for (size_t at = 4; at < ask->count; at++) {
		struct kw_slice word = ask->words[at];

		if ((options & KW_ZSET_SCORES) && kw_word_is(word, "withscores")) {
			range->with_scores = true;
		} else if ((options & KW_ZSET_REV) && !range->reversed && kw_word_is(word, "rev")) {
			range->reversed = true;
		} else if ((options & KW_ZSET_BY) && range->by == KW_ZSET_BY_RANK &&
			   kw_word_is(word, "byscore")) {
			range->by = KW_ZSET_BY_SCORE;
		} else if ((options & KW_ZSET_BY) && range->by == KW_ZSET_BY_RANK &&
			   kw_word_is(word, "bylex")) {
			range->by = KW_ZSET_BY_LEX;
		} else if (kw_word_is(word, "limit") && at + 2 < ask->count) {
			if (!read_limit(range, ask, at))
				return false;
			at += 2;
		} else {
			return refuse(ask, "ERR syntax error");
		}
	}
	if (range->count != -1 && range->by == KW_ZSET_BY_RANK)
		return refuse(ask, "ERR syntax error, LIMIT is only supported in combination with "
				   "either BYSCORE or BYLEX");
	if (range->with_scores && range->by == KW_ZSET_BY_LEX)
		return refuse(ask,
			"ERR syntax error, WITHSCORES not supported in combination with BYLEX");
	return true;
}

/* A score, or an open end: (score. */
static bool read_score(const struct kw_ask *ask, struct kw_slice word, struct kw_zset_end *end)
{
	const char *text = word.data;

	end->excluded = word.length > 0 && text[0] == '(';
	return kw_answer_double(ask, kw_slice(text + end->excluded, word.length - end->excluded),
		       &end->score) &&
	       !isnan(end->score);
}

static bool read_member(struct kw_slice word, struct kw_zset_end *end)
{
	const char *text = word.data;

	if (word.length == 1 && (text[0] == '-' || text[0] == '+')) {
		end->infinite = text[0] == '-' ? -1 : 1;
		return true;
	}
	if (word.length == 0 || (text[0] != '(' && text[0] != '['))
		return false;
	end->excluded = text[0] == '(';
	end->member = kw_slice(text + 1, word.length - 1);
	return true;
}

bool kw_zset_ends(struct kw_zset_range *range, const struct kw_ask *ask, struct kw_slice low,
	struct kw_slice high)
{
	switch (range->by) {
	case KW_ZSET_BY_RANK:
		return (kw_answer_number(low, &range->low.rank) &&
			       kw_answer_number(high, &range->high.rank)) ||
		       refuse(ask, "ERR value is not an integer or out of range");
	case KW_ZSET_BY_SCORE:
		return (read_score(ask, low, &range->low) && read_score(ask, high, &range->high)) ||
		       refuse(ask, "ERR min or max is not a float");
	case KW_ZSET_BY_LEX:
		break;
	}
	return (read_member(low, &range->low) && read_member(high, &range->high)) ||
	       refuse(ask, "ERR min or max not valid string range item");
}

/* ---- selecting ---- */

/* Does the entry stand before the low end, or not beyond the high one? */
static bool is_below(
	const struct kw_zset *zset, size_t at, const struct kw_zset_range *range, bool of_low)
{
	const struct kw_zset_end *end = of_low ? &range->low : &range->high;
	double score = zset->entries[at].score;
	int order;

	if (range->by == KW_ZSET_BY_SCORE)
		order = (score > end->score) - (score < end->score);
	else if (end->infinite)
		order = -end->infinite;
	else
		order = compare_bytes(kw_zset_member(zset, at), end->member);
	if (order != 0)
		return order < 0;
	return of_low ? end->excluded : !end->excluded;
}

/* Entries are in order: how many of them stand below? */
static size_t count_below(
	const struct kw_zset *zset, const struct kw_zset_range *range, bool of_low)
{
	size_t low = 0, high = zset->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_below(zset, middle, range, of_low))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void select_ranks(struct kw_zset *zset, const struct kw_zset_range *range)
{
	int64_t first = range->low.rank, last = range->high.rank, count = (int64_t)zset->count;

	kw_answer_clamp(&first, &last, count);
	if (first > last)
		first = last = 0;
	else
		last++;
	zset->first = (size_t)(range->reversed ? count - last : first);
	zset->last = (size_t)(range->reversed ? count - first : last);
}

/* How many are left out by LIMIT's offset, of those that are selected. */
static size_t skipped(const struct kw_zset *zset, const struct kw_zset_range *range)
{
	size_t selected = zset->last - zset->first;
	uint64_t back = range->offset < 0 ? -(uint64_t)range->offset : 0;

	/* Below zero the server counts back from the end of a large set; a small one is passed. */
	if (range->offset < 0)
		return zset->counts_back && back <= selected ? selected - (size_t)back : selected;
	return (uint64_t)range->offset > selected ? selected : (size_t)range->offset;
}

/* LIMIT counts from the end that comes first. */
static void apply_limit(struct kw_zset *zset, const struct kw_zset_range *range)
{
	size_t offset = skipped(zset, range), left = zset->last - zset->first - offset;

	if (range->count >= 0 && (uint64_t)range->count < left)
		left = (size_t)range->count;
	if (range->reversed) {
		zset->last -= offset;
		zset->first = zset->last - left;
	} else {
		zset->first += offset;
		zset->last = zset->first + left;
	}
}

void kw_zset_select(struct kw_zset *zset, const struct kw_zset_range *range)
{
	if (range->by == KW_ZSET_BY_RANK) {
		select_ranks(zset, range);
		return;
	}
	zset->first = count_below(zset, range, true);
	zset->last = count_below(zset, range, false);
	if (zset->first > zset->last)
		zset->last = zset->first;
	apply_limit(zset, range);
}
