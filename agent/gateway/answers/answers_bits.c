/* BITPOS and BITFIELD_RO. Bits count from the left of the first byte; beyond the end all are 0. */
#include "answers.h"
#include "words.h"

#include <string.h>

#define NO_INTEGER "ERR value is not an integer or out of range"

/* ---- BITPOS key bit [start [end [BYTE|BIT]]] ---- */

struct position {
	int64_t bit, start, end;
	bool by_bits;
};

static bool refuse(const struct kw_ask *ask, const char *error)
{
	kw_reply_error(ask->to, "%s", error);
	return false;
}

static bool read_position(const struct kw_ask *ask, struct position *position)
{
	const struct kw_slice *words = ask->words;

	*position = (struct position){.end = -1};
	if (!kw_answer_number(words[2], &position->bit))
		return refuse(ask, NO_INTEGER);
	if (position->bit != 0 && position->bit != 1)
		return refuse(ask, "ERR The bit argument must be 1 or 0.");
	if (ask->count > 6)
		return refuse(ask, "ERR syntax error");
	if (ask->count > 3 && !kw_answer_number(words[3], &position->start))
		return refuse(ask, NO_INTEGER);
	position->by_bits = ask->count == 6 && kw_word_is(words[5], "bit");
	if (ask->count == 6 && !position->by_bits && !kw_word_is(words[5], "byte"))
		return refuse(ask, "ERR syntax error");
	if (ask->count > 4 && !kw_answer_number(words[4], &position->end))
		return refuse(ask, NO_INTEGER);
	return true;
}

static bool bit_at(struct kw_slice bytes, int64_t at)
{
	return ((const uint8_t *)bytes.data)[at >> 3] >> (7 - (at & 7)) & 1;
}

/* The first such bit from `at` to `last`; -1: there is none. */
static int64_t find_bit(struct kw_slice bytes, int64_t at, int64_t last, bool bit)
{
	const uint8_t *all = bytes.data;
	uint8_t without = bit ? 0 : 0xff;

	while (at <= last) {
		if ((at & 7) == 0 && at + 7 <= last && all[at >> 3] == without)
			at += 8;
		else if (bit_at(bytes, at) == bit)
			return at;
		else
			at++;
	}
	return -1;
}

static void say_position(const struct kw_ask *ask, struct kw_slice bytes)
{
	int64_t total = (int64_t)bytes.length, found;
	struct position position;

	/* Older servers look the key up before they read the words. */
	if (kw_ask_is_missing(ask) &&
		!kw_release_since(ask->to->release, KW_RELEASE(7, 4), KW_RELEASE(8, 0)) &&
		kw_answer_number(ask->words[2], &position.bit) &&
		(position.bit == 0 || position.bit == 1)) {
		kw_reply_integer(ask->to, position.bit ? -1 : 0);
		return;
	}
	if (!read_position(ask, &position))
		return;
	if (kw_ask_is_missing(ask)) {
		kw_reply_integer(ask->to, position.bit ? -1 : 0);
		return;
	}
	if (position.by_bits)
		total *= 8;
	kw_answer_clamp_bytes(&position.start, &position.end, total);
	if (position.start > position.end) {
		kw_reply_integer(ask->to, -1);
		return;
	}
	if (!position.by_bits) {
		position.start *= 8;
		position.end = position.end * 8 + 7;
	}
	found = find_bit(bytes, position.start, position.end, position.bit);
	/* If no end was said, zeros follow the string. */
	if (found < 0 && !position.bit && ask->count < 5)
		found = position.end + 1;
	kw_reply_integer(ask->to, found);
}

void kw_answer_bitpos(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_position);
}

/* ---- BITFIELD_RO key [GET type offset]… ---- */

struct field {
	bool is_signed;
	int64_t bits;
	int64_t at;
};

static bool read_type(const struct kw_ask *ask, struct kw_slice word, struct field *field)
{
	const char *text = word.data;

	if (word.length > 1 && (text[0] == 'i' || text[0] == 'u') &&
		kw_answer_number(kw_slice(text + 1, word.length - 1), &field->bits) &&
		field->bits >= 1 && field->bits <= (text[0] == 'i' ? 64 : 63)) {
		field->is_signed = text[0] == 'i';
		return true;
	}
	return refuse(ask, "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is "
			   "not supported but i64 is.");
}

static bool read_offset(const struct kw_ask *ask, struct kw_slice word, struct field *field)
{
	const char *text = word.data;
	bool counted = word.length > 0 && text[0] == '#';

	if (kw_answer_number(kw_slice(text + counted, word.length - counted), &field->at) &&
		(!counted || !__builtin_mul_overflow(field->at, field->bits, &field->at)) &&
		field->at >= 0 && field->at >> 3 < KW_STRING_MAX)
		return true;
	return refuse(ask, "ERR bit offset is not an integer or out of range");
}

/* A subcommand that writes is read like any other, so that its own faults are said first. */
static bool read_field(const struct kw_ask *ask, size_t *at, struct field *field, bool *writes)
{
	size_t left = ask->count - *at - 1;
	struct kw_slice word = ask->words[*at];
	bool set = kw_word_is(word, "set") || kw_word_is(word, "incrby");
	int64_t value;

	if (!(kw_word_is(word, "get") && left >= 2) && !(set && left >= 3))
		return refuse(ask, "ERR syntax error");
	if (!read_type(ask, ask->words[*at + 1], field) ||
		!read_offset(ask, ask->words[*at + 2], field))
		return false;
	if (set && !kw_answer_number(ask->words[*at + 3], &value))
		return refuse(ask, NO_INTEGER);
	*writes |= set;
	*at += set ? 4 : 3;
	return true;
}

/* OVERFLOW says nothing about reading. False after an error. */
static bool skip_overflow(const struct kw_ask *ask, size_t *at)
{
	while (*at + 1 < ask->count && kw_word_is(ask->words[*at], "overflow")) {
		struct kw_slice how = ask->words[*at + 1];

		if (!kw_word_is(how, "wrap") && !kw_word_is(how, "sat") && !kw_word_is(how, "fail"))
			return refuse(ask, "ERR Invalid OVERFLOW type specified");
		*at += 2;
	}
	return true;
}

static int64_t value_of(const struct field *field, struct kw_slice bytes)
{
	int64_t total = (int64_t)bytes.length * 8;
	uint64_t value = 0;

	for (int64_t i = field->at; i < field->at + field->bits; i++)
		value = value << 1 | (i < total && bit_at(bytes, i));
	if (field->is_signed && field->bits < 64 && value >> (field->bits - 1))
		value |= UINT64_MAX << field->bits;
	return (int64_t)value;
}

/* All words are read before the first value is said: `bytes` NULL only reads them. */
static bool each_field(const struct kw_ask *ask, const struct kw_slice *bytes, size_t *fields)
{
	bool writes = false;
	size_t at = 2;

	*fields = 0;
	for (;;) {
		struct field field;

		if (!skip_overflow(ask, &at))
			return false;
		if (at >= ask->count)
			break;
		if (!read_field(ask, &at, &field, &writes))
			return false;
		++*fields;
		if (bytes)
			kw_reply_integer(ask->to, value_of(&field, *bytes));
	}
	return !writes || refuse(ask, "ERR BITFIELD_RO only supports the GET subcommand");
}

static void say_fields(const struct kw_ask *ask, struct kw_slice bytes)
{
	size_t fields;

	if (!each_field(ask, NULL, &fields))
		return;
	kw_reply_array(ask->to, fields);
	each_field(ask, &bytes, &fields);
}

void kw_answer_bitfield(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_fields);
}
