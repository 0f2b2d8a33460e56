/* Answers about sorted sets. */
#include "answers.h"
#include "words.h"
#include "zset.h"

#include <stdlib.h>
#include <string.h>

#define NO_INTEGER "ERR value is not an integer or out of range"

/* ---- the score of one member, or of several ---- */

static void say_score(const struct kw_ask *ask, const struct kw_member_score *found)
{
	if (found->there)
		kw_reply_double(ask->to, found->score);
	else
		kw_reply_nil(ask->to);
}

void kw_answer_zscore(const struct kw_ask *ask)
{
	struct kw_member_score *found = kw_zset_scores(ask, 2, 1);

	if (found)
		say_score(ask, found);
	free(found);
}

void kw_answer_zmscore(const struct kw_ask *ask)
{
	size_t count = ask->count - 2;
	struct kw_member_score *found = kw_zset_scores(ask, 2, count);

	if (found) {
		kw_reply_array(ask->to, count);
		for (size_t i = 0; i < count; i++)
			say_score(ask, &found[i]);
	}
	free(found);
}

/* ---- ranks ---- */

static void answer_rank(const struct kw_ask *ask, bool reversed)
{
	bool with_score = ask->count == 4 && kw_word_is(ask->words[3], "withscore");
	struct kw_zset zset = {0};
	size_t at;

	if (ask->count > 4 ||
		(ask->count == 4 && !kw_release_since(ask->to->release, KW_RELEASE(7, 2), 0))) {
		kw_command_refuse(kw_command_find(ask->words[0]), ask->to);
		return;
	}
	if (ask->count == 4 && !with_score) {
		kw_reply_error(ask->to, "ERR syntax error");
		return;
	}
	if (!kw_zset_read(&zset, ask))
		return;
	for (at = 0; at < zset.count; at++)
		if (kw_slice_equal(kw_zset_member(&zset, at), ask->words[2]))
			break;
	if (at == zset.count && with_score) {
		kw_reply_nil_array(ask->to);
	} else if (at == zset.count) {
		kw_reply_nil(ask->to);
	} else {
		if (with_score)
			kw_reply_array(ask->to, 2);
		kw_reply_integer(ask->to, (int64_t)(reversed ? zset.count - 1 - at : at));
		if (with_score)
			kw_reply_double(ask->to, zset.entries[at].score);
	}
	kw_zset_close(&zset);
}

void kw_answer_zrank(const struct kw_ask *ask)
{
	answer_rank(ask, false);
}

void kw_answer_zrevrank(const struct kw_ask *ask)
{
	answer_rank(ask, true);
}

/* ---- counts ---- */

static void answer_count(const struct kw_ask *ask, enum kw_zset_by by)
{
	struct kw_zset_range range = {.by = by, .count = -1};
	struct kw_zset zset = {0};

	if (!kw_zset_ends(&range, ask, ask->words[2], ask->words[3]) || !kw_zset_read(&zset, ask))
		return;
	kw_zset_select(&zset, &range);
	kw_reply_integer(ask->to, (int64_t)(zset.last - zset.first));
	kw_zset_close(&zset);
}

void kw_answer_zcount(const struct kw_ask *ask)
{
	answer_count(ask, KW_ZSET_BY_SCORE);
}

void kw_answer_zlexcount(const struct kw_ask *ask)
{
	answer_count(ask, KW_ZSET_BY_LEX);
}

/* ---- ranges ---- */

static void answer_range(const struct kw_ask *ask, struct kw_zset_range *range,
	struct kw_slice from, struct kw_slice to)
{
	bool pairs = range->with_scores && ask->to->version == KW_RESP_3;
	size_t selected;
	struct kw_zset zset = {0};

	/* In reverse the larger end comes first, except where the ends are ranks. */
	bool swapped = range->reversed && range->by != KW_ZSET_BY_RANK;

	if (!kw_zset_ends(range, ask, swapped ? to : from, swapped ? from : to) ||
		!kw_zset_read(&zset, ask))
		return;
	kw_zset_select(&zset, range);
	selected = zset.last - zset.first;
	kw_reply_array(ask->to, range->with_scores && !pairs ? 2 * selected : selected);
	for (size_t i = 0; i < selected; i++) {
		size_t at = range->reversed ? zset.last - 1 - i : zset.first + i;

		if (pairs)
			kw_reply_array(ask->to, 2);
		kw_reply_bulk(ask->to, kw_zset_member(&zset, at));
		if (range->with_scores)
			kw_reply_double(ask->to, zset.entries[at].score);
	}
	kw_zset_close(&zset);
}

/* ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES] */
void kw_answer_zrange(const struct kw_ask *ask)
{
	struct kw_zset_range range = {.by = KW_ZSET_BY_RANK, .count = -1};

	if (kw_zset_options(&range, ask, KW_ZSET_ANY))
		answer_range(ask, &range, ask->words[2], ask->words[3]);
}

void kw_answer_zrevrange(const struct kw_ask *ask)
{
	struct kw_zset_range range = {.by = KW_ZSET_BY_RANK, .reversed = true, .count = -1};

	if (kw_zset_options(&range, ask, KW_ZSET_SCORES))
		answer_range(ask, &range, ask->words[2], ask->words[3]);
}

static void answer_range_by(const struct kw_ask *ask, enum kw_zset_by by, bool reversed)
{
	struct kw_zset_range range = {.by = by, .reversed = reversed, .count = -1};

	if (kw_zset_options(&range, ask, KW_ZSET_SCORES))
		answer_range(ask, &range, ask->words[2], ask->words[3]);
}

void kw_answer_zrangebyscore(const struct kw_ask *ask)
{
	answer_range_by(ask, KW_ZSET_BY_SCORE, false);
}

void kw_answer_zrevrangebyscore(const struct kw_ask *ask)
{
	answer_range_by(ask, KW_ZSET_BY_SCORE, true);
}

void kw_answer_zrangebylex(const struct kw_ask *ask)
{
	answer_range_by(ask, KW_ZSET_BY_LEX, false);
}

void kw_answer_zrevrangebylex(const struct kw_ask *ask)
{
	answer_range_by(ask, KW_ZSET_BY_LEX, true);
}

/* ---- scan ---- */

/* ZSCAN hands out what stands in a listpack as it stands there. */
static size_t scanned_text(const struct kw_ask *ask, double score, char text[KW_NUMBER_TEXT])
{
	return kw_payload_is_packed(ask->payload) ? kw_packed_text(score, ask->to->release, text)
						  : kw_long_text(score, text);
}

void kw_answer_zscan(const struct kw_ask *ask)
{
	struct kw_scan_words scan;
	struct kw_zset zset = {0};
	size_t count = 0;

	if (!kw_zset_read(&zset, ask))
		return;
	if (!kw_answer_scan(ask, &scan)) {
		kw_zset_close(&zset);
		return;
	}
	for (size_t i = 0; i < zset.count; i++)
		count += !scan.pattern.data ||
			 kw_word_matches(kw_zset_member(&zset, i), scan.pattern);
	kw_reply_array(ask->to, 2 * count);
	for (size_t i = 0; i < zset.count; i++) {
		char text[KW_NUMBER_TEXT];

		if (scan.pattern.data && !kw_word_matches(kw_zset_member(&zset, i), scan.pattern))
			continue;
		kw_reply_bulk(ask->to, kw_zset_member(&zset, i));
		kw_reply_bulk(
			ask->to, kw_slice(text, scanned_text(ask, zset.entries[i].score, text)));
	}
	kw_zset_close(&zset);
}
