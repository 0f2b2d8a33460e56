/* Answers about lists. */
#include "answers.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

#define NO_INTEGER "ERR value is not an integer or out of range"

/* A visit of the elements from `first` to `last`. */
struct visiting {
	const struct kw_ask *ask;
	int64_t at, first, last;
};

static enum kw_visit say_range(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	if (visiting->at >= visiting->first && visiting->at <= visiting->last)
		kw_reply_bulk(visiting->ask->to, bytes);
	return visiting->at++ < visiting->last ? KW_VISIT_ON : KW_VISIT_STOP;
}

static bool size_of(const struct kw_ask *ask, int64_t *size)
{
	struct kw_error error;
	uint64_t found = 0;

	*size = 0;
	if (!kw_ask_is_missing(ask) && kw_payload_size(ask->payload, &found, &error)) {
		kw_answer_unreadable(ask, &error);
		return false;
	}
	*size = (int64_t)found;
	return true;
}

/* The range lies within the list, so it must be reached. */
static void say(struct visiting *visiting)
{
	const struct kw_visitor visitor = {.element = say_range, .arg = visiting};
	struct kw_error error;

	if (kw_payload_visit(visiting->ask->payload, &visitor, &error))
		kw_answer_unreadable(visiting->ask, &error);
	else if (visiting->at <= visiting->last)
		kw_answer_miscounted(visiting->ask);
}

void kw_answer_lindex(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask};
	int64_t size, at = 0;

	if (kw_ask_is_missing(ask)) {
		kw_reply_nil(ask->to);
		return;
	}
	if (!kw_answer_number(ask->words[2], &at)) {
		kw_reply_error(ask->to, NO_INTEGER);
		return;
	}
	if (!size_of(ask, &size))
		return;
	if (at < 0)
		at += size;
	if (at < 0 || at >= size) {
		kw_reply_nil(ask->to);
		return;
	}
	visiting.first = visiting.last = at;
	say(&visiting);
}

void kw_answer_lrange(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask};
	int64_t size;

	if (!kw_answer_number(ask->words[2], &visiting.first) ||
		!kw_answer_number(ask->words[3], &visiting.last)) {
		kw_reply_error(ask->to, NO_INTEGER);
		return;
	}
	if (!size_of(ask, &size))
		return;
	kw_answer_clamp(&visiting.first, &visiting.last, size);
	if (visiting.first > visiting.last) {
		kw_reply_array(ask->to, 0);
		return;
	}
	kw_reply_array(ask->to, (size_t)(visiting.last - visiting.first + 1));
	say(&visiting);
}

/* ---- LPOS key element [RANK r] [COUNT n] [MAXLEN m] ---- */

struct positions {
	const struct kw_ask *ask;
	int64_t rank, count, most; /* count -1: the first one, not in an array */
	int64_t *found;
	size_t founds, room;
	int64_t at;
};

static enum kw_visit note_position(void *arg, struct kw_slice bytes)
{
	struct positions *positions = arg;
	int64_t at = positions->at++;

	if (!kw_slice_equal(bytes, positions->ask->words[2]))
		return KW_VISIT_ON;
	if (positions->founds == positions->room) {
		positions->room = positions->room ? 2 * positions->room : 16;
		positions->found =
			kw_realloc(positions->found, positions->room * sizeof *positions->found);
	}
	positions->found[positions->founds++] = at;
	return KW_VISIT_ON;
}

static bool read_rank(struct positions *positions, int64_t number)
{
	const struct kw_reply_to *to = positions->ask->to;

	if (number == 0)
		kw_reply_error(to, "ERR RANK can't be zero: use 1 to start from the first "
				   "match, 2 from the second ... or use negative to start "
				   "from the end of the list");
	else if (number == INT64_MIN && kw_release_since(to->release, KW_RELEASE(7, 2), 0))
		kw_reply_error(to, "ERR value is out of range, value must between "
				   "-9223372036854775807 and 9223372036854775807");
	else
		positions->rank = number == INT64_MIN ? -1 : number; /* as it overflows there */
	return number != 0 &&
	       (number != INT64_MIN || !kw_release_since(to->release, KW_RELEASE(7, 2), 0));
}

static bool read_position_option(struct positions *positions, size_t at)
{
	const struct kw_ask *ask = positions->ask;
	struct kw_slice name = ask->words[at];
	int64_t number = 0;

	if (at + 1 == ask->count || (!kw_word_is(name, "rank") && !kw_word_is(name, "count") &&
					    !kw_word_is(name, "maxlen"))) {
		kw_reply_error(ask->to, "ERR syntax error");
		return false;
	}
	if (!kw_answer_number(ask->words[at + 1], &number)) {
		kw_reply_error(ask->to, NO_INTEGER);
		return false;
	}
	if (kw_word_is(name, "rank"))
		return read_rank(positions, number);
	if (number < 0) {
		kw_reply_error(ask->to, "ERR %s can't be negative",
			kw_word_is(name, "count") ? "COUNT" : "MAXLEN");
		return false;
	}
	*(kw_word_is(name, "count") ? &positions->count : &positions->most) = number;
	return true;
}

/* Those within MAXLEN of the end that is counted from, from RANK on, COUNT of them. */
static void say_positions(const struct positions *positions)
{
	const struct kw_ask *ask = positions->ask;
	bool backwards = positions->rank < 0;
	int64_t skip = (backwards ? -positions->rank : positions->rank) - 1;
	size_t said = 0;
	struct kw_buffer out = {0};
	const struct kw_reply_to to = {.out = &out, .version = ask->to->version};

	for (size_t i = 0; i < positions->founds; i++) {
		int64_t at = positions->found[backwards ? positions->founds - 1 - i : i];
		int64_t distance = backwards ? positions->at - 1 - at : at;

		if (positions->most > 0 && distance >= positions->most)
			break;
		if (skip-- > 0)
			continue;
		if (positions->count > 0 && said == (size_t)positions->count)
			break;
		kw_reply_integer(&to, at);
		said++;
		if (positions->count < 0)
			break;
	}
	if (positions->count >= 0)
		kw_reply_array(ask->to, said);
	else if (said == 0)
		kw_reply_nil(ask->to);
	if (said > 0)
		kw_buffer_append(ask->to->out, kw_buffer_bytes(&out), kw_buffer_length(&out));
	kw_buffer_close(&out);
}

void kw_answer_lpos(const struct kw_ask *ask)
{
	struct positions positions = {.ask = ask, .rank = 1, .count = -1};
	const struct kw_visitor visitor = {.element = note_position, .arg = &positions};
	struct kw_error error;

	for (size_t at = 3; at < ask->count; at += 2)
		if (!read_position_option(&positions, at))
			return;
	if (!kw_ask_is_missing(ask) && kw_payload_visit(ask->payload, &visitor, &error))
		kw_answer_unreadable(ask, &error);
	else
		say_positions(&positions);
	free(positions.found);
}
