/*
 * HRANDFIELD, SRANDMEMBER and ZRANDMEMBER: some elements of a value, chosen with ask->random.
 *
 *   no count     one element
 *   count ≥ 0    so many different ones, at most all of them
 *   count < 0    so many, each chosen for itself; at most KW_RANDOM_MOST
 */
#include "answers.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

#define NO_INTEGER "ERR value is not an integer or out of range"

/* All elements of the value: parts of `bytes`. */
struct drawing {
	const struct kw_ask *ask;
	struct kw_buffer bytes;
	struct element {
		size_t offset, length, value_offset, value_length;
		double score;
	} * elements;
	size_t count, capacity;
	uint64_t state; /* of the generator */
	bool with_values;
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(struct drawing *drawing)
{
	uint64_t z = drawing->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Below `most`. The 128-bit product has no bias that counts here. */
static size_t draw_below(struct drawing *drawing, size_t most)
{
	return (size_t)((unsigned __int128)draw(drawing) * most >> 64);
}

/* ---- reading ---- */

static size_t keep(struct drawing *drawing, struct kw_slice bytes)
{
	size_t offset = kw_buffer_length(&drawing->bytes);

	kw_buffer_append(&drawing->bytes, bytes.data, bytes.length);
	return offset;
}

static enum kw_visit on_name(void *arg, struct kw_slice bytes)
{
	struct drawing *drawing = arg;

	if (drawing->count == drawing->capacity) {
		drawing->capacity = drawing->capacity ? 2 * drawing->capacity : 64;
		drawing->elements = kw_realloc(
			drawing->elements, drawing->capacity * sizeof *drawing->elements);
	}
	drawing->elements[drawing->count++] =
		(struct element){.offset = keep(drawing, bytes), .length = bytes.length};
	return KW_VISIT_ON;
}

static enum kw_visit on_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	struct drawing *drawing = arg;
	struct element *element = &drawing->elements[drawing->count - 1];

	if (expires_ms != 0 && expires_ms <= drawing->ask->now_ms) {
		drawing->count--;
		return KW_VISIT_ON;
	}
	element->value_offset = keep(drawing, bytes);
	element->value_length = bytes.length;
	return KW_VISIT_ON;
}

static enum kw_visit on_score(void *arg, double score)
{
	struct drawing *drawing = arg;

	drawing->elements[drawing->count - 1].score = score;
	return KW_VISIT_ON;
}

static bool read_all(struct drawing *drawing)
{
	const struct kw_visitor visitor = {.element = on_name,
		.name = on_name,
		.value = on_value,
		.score = on_score,
		.arg = drawing};
	struct kw_error error;

	kw_buffer_reserve(&drawing->bytes, 1); /* never NULL, for an empty element */
	drawing->state = drawing->ask->random;
	if (kw_ask_is_missing(drawing->ask) ||
		!kw_payload_visit(drawing->ask->payload, &visitor, &error))
		return true;
	kw_answer_unreadable(drawing->ask, &error);
	return false;
}

/* ---- saying ---- */

static void say(const struct drawing *drawing, size_t at)
{
	const struct element *element = &drawing->elements[at];
	const uint8_t *bytes = kw_buffer_bytes(&drawing->bytes);
	const struct kw_reply_to *to = drawing->ask->to;

	if (drawing->with_values && to->version == KW_RESP_3)
		kw_reply_array(to, 2);
	kw_reply_bulk(to, kw_slice(bytes + element->offset, element->length));
	if (!drawing->with_values)
		return;
	if (drawing->ask->kind == KW_VALUE_ZSET)
		kw_reply_double(to, element->score);
	else
		kw_reply_bulk(to, kw_slice(bytes + element->value_offset, element->value_length));
}

static void begin(const struct drawing *drawing, size_t count)
{
	bool flat = drawing->with_values && drawing->ask->to->version != KW_RESP_3;

	kw_reply_array(drawing->ask->to, flat ? 2 * count : count);
}

/* Each of those left is taken with the chance that makes all choices equally likely. */
static void say_different(struct drawing *drawing, size_t count)
{
	size_t left = drawing->count;

	begin(drawing, count);
	for (size_t at = 0; count > 0; at++, left--)
		if (draw_below(drawing, left) < count) {
			say(drawing, at);
			count--;
		}
}

static void say_any(struct drawing *drawing, size_t count)
{
	begin(drawing, count);
	for (; count > 0; count--)
		say(drawing, draw_below(drawing, drawing->count));
}

static void answer(struct drawing *drawing, bool counted, int64_t count)
{
	const struct kw_ask *ask = drawing->ask;

	if (!read_all(drawing)) {
		; /* it was said */
	} else if (drawing->count == 0) {
		if (counted)
			kw_reply_array(ask->to, 0);
		else
			kw_reply_nil(ask->to);
	} else if (!counted) {
		say(drawing, draw_below(drawing, drawing->count));
	} else if (count < 0) {
		say_any(drawing, (size_t)-count);
	} else {
		say_different(
			drawing, (uint64_t)count < drawing->count ? (size_t)count : drawing->count);
	}
	kw_buffer_close(&drawing->bytes);
	free(drawing->elements);
}

/* ---- what is asked ---- */

static bool refuse(const struct kw_ask *ask, const char *error)
{
	kw_reply_error(ask->to, "%s", error);
	return false;
}

/* `values`: the word that asks for values or scores; NULL: there is none. */
static bool read_count(const struct kw_ask *ask, const char *values, int64_t *count)
{
	if (!kw_answer_number(ask->words[2], count))
		return refuse(ask, NO_INTEGER);
	if (*count == INT64_MIN)
		return refuse(ask, "ERR value is out of range, value must between "
				   "-9223372036854775807 and 9223372036854775807");
	if (values && (ask->count > 4 || (ask->count == 4 && !kw_word_is(ask->words[3], values))))
		return refuse(ask, "ERR syntax error");
	if (ask->count == 4 && (*count < -INT64_MAX / 2 || *count > INT64_MAX / 2))
		return refuse(ask, "ERR value is out of range");
	return true;
}

static void answer_drawn(const struct kw_ask *ask, const char *values)
{
	struct drawing drawing = {.ask = ask, .with_values = values && ask->count == 4};
	int64_t count = 0;

	if (!values && ask->count > 3)
		refuse(ask, "ERR syntax error");
	else if (ask->count == 2)
		answer(&drawing, false, 0);
	else if (!read_count(ask, values, &count))
		;
	else if (count < -KW_RANDOM_MOST && !kw_ask_is_missing(ask))
		refuse(ask, "ERR the gateway chooses at most 1048576 elements at once");
	else
		answer(&drawing, true, count);
}

void kw_answer_hrandfield(const struct kw_ask *ask)
{
	answer_drawn(ask, "withvalues");
}

void kw_answer_srandmember(const struct kw_ask *ask)
{
	answer_drawn(ask, NULL);
}

void kw_answer_zrandmember(const struct kw_ask *ask)
{
	answer_drawn(ask, "withscores");
}
