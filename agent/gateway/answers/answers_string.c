/* Answers about strings. */
#include "answers.h"
#include "words.h"

#include <string.h>

#define NO_INTEGER "ERR value is not an integer or out of range"

/* One answer, and what it does with the string once it is unpacked. */
struct answering {
	const struct kw_ask *ask;
	void (*say)(const struct kw_ask *ask, struct kw_slice bytes);
};

static enum kw_visit on_string(void *arg, struct kw_slice bytes)
{
	const struct answering *answering = arg;

	answering->say(answering->ask, bytes);
	return KW_VISIT_ON;
}

void kw_answer_string(
	const struct kw_ask *ask, void (*say)(const struct kw_ask *ask, struct kw_slice bytes))
{
	struct answering answering = {ask, say};
	const struct kw_visitor visitor = {.string = on_string, .arg = &answering};
	struct kw_error error;

	if (kw_ask_is_missing(ask))
		say(ask, kw_slice(NULL, 0));
	else if (kw_payload_visit(ask->payload, &visitor, &error))
		kw_answer_unreadable(ask, &error);
}

static void say_all(const struct kw_ask *ask, struct kw_slice bytes)
{
	if (kw_ask_is_missing(ask))
		kw_reply_nil(ask->to);
	else
		kw_reply_bulk(ask->to, bytes);
}

void kw_answer_get(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_all);
}

static void say_length(const struct kw_ask *ask, struct kw_slice bytes)
{
	kw_reply_integer(ask->to, (int64_t)bytes.length);
}

void kw_answer_strlen(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_length);
}

/* The bytes from start to end, both included and both counted from the end if negative. */
static struct kw_slice range_of(struct kw_slice bytes, int64_t start, int64_t end)
{
	int64_t length = (int64_t)bytes.length;

	if (start < 0 && end < 0 && start > end)
		return kw_slice(NULL, 0);
	kw_answer_clamp_bytes(&start, &end, length);
	if (length == 0 || start > end)
		return kw_slice(NULL, 0);
	return kw_slice((const char *)bytes.data + start, (size_t)(end - start + 1));
}

static void say_range(const struct kw_ask *ask, struct kw_slice bytes)
{
	int64_t start = 0, end = 0;

	if (!kw_answer_number(ask->words[2], &start) || !kw_answer_number(ask->words[3], &end))
		kw_reply_error(ask->to, NO_INTEGER);
	else
		kw_reply_bulk(ask->to, range_of(bytes, start, end));
}

void kw_answer_getrange(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_range);
}

static void say_bit(const struct kw_ask *ask, struct kw_slice bytes)
{
	const uint8_t *bits = bytes.data;
	int64_t at = 0;

	if (!kw_answer_number(ask->words[2], &at) || at < 0 || at >> 3 >= KW_STRING_MAX)
		kw_reply_error(ask->to, "ERR bit offset is not an integer or out of range");
	else if ((size_t)(at >> 3) >= bytes.length)
		kw_reply_integer(ask->to, 0);
	else
		kw_reply_integer(ask->to, bits[at >> 3] >> (7 - (at & 7)) & 1);
}

void kw_answer_getbit(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_bit);
}

/* ---- BITCOUNT key [start end [BYTE|BIT]] ---- */

static int64_t ones_of(const uint8_t *bytes, size_t length)
{
	int64_t ones = 0;

	for (; length >= 8; bytes += 8, length -= 8) {
		uint64_t word;

		memcpy(&word, bytes, sizeof word);
		ones += __builtin_popcountll(word);
	}
	for (; length > 0; bytes++, length--)
		ones += __builtin_popcount(*bytes);
	return ones;
}

/* Of `count` bits from bit `from` on, within the bytes. */
static int64_t ones_between(const uint8_t *bytes, int64_t from, int64_t to)
{
	int64_t first = from >> 3, last = to >> 3;
	int64_t ones = ones_of(bytes + first, (size_t)(last - first + 1));

	/* Bits before the first and after the last were counted with their bytes. */
	ones -= __builtin_popcount(bytes[first] & ~(0xffu >> (from & 7)) & 0xffu);
	ones -= __builtin_popcount(bytes[last] & (0xffu >> ((to & 7) + 1)));
	return ones;
}

static void count_range(
	const struct kw_ask *ask, struct kw_slice bytes, const int64_t ends[2], bool by_bits)
{
	int64_t total = (int64_t)bytes.length * (by_bits ? 8 : 1);
	int64_t start = ends[0], end = ends[1];

	if (start < 0 && end < 0 && start > end) {
		kw_reply_integer(ask->to, 0);
		return;
	}
	kw_answer_clamp_bytes(&start, &end, total);
	if (start > end)
		kw_reply_integer(ask->to, 0);
	else if (by_bits)
		kw_reply_integer(ask->to, ones_between(bytes.data, start, end));
	else
		kw_reply_integer(ask->to,
			ones_of((const uint8_t *)bytes.data + start, (size_t)(end - start + 1)));
}

static void say_count(const struct kw_ask *ask, struct kw_slice bytes)
{
	bool by_bits = ask->count == 5 && kw_word_is(ask->words[4], "bit");
	bool may_lack_end = kw_release_since(ask->to->release, KW_RELEASE_NEVER, KW_RELEASE(8, 1));
	int64_t ends[2] = {0, -1};

	/* The key is looked up first, so that a missing one makes all words right. */
	if (kw_ask_is_missing(ask) &&
		!kw_release_since(ask->to->release, KW_RELEASE(7, 4), KW_RELEASE(8, 0)))
		kw_reply_integer(ask->to, 0);
	else if (ask->count == 2)
		kw_reply_integer(ask->to, ones_of(bytes.data, bytes.length));
	else if (ask->count > 5 || (ask->count == 3 && !may_lack_end))
		kw_reply_error(ask->to, "ERR syntax error");
	else if (!kw_answer_number(ask->words[2], &ends[0]))
		kw_reply_error(ask->to, NO_INTEGER);
	else if (ask->count > 3 && !kw_answer_number(ask->words[3], &ends[1]))
		kw_reply_error(ask->to, NO_INTEGER);
	else if (ask->count == 5 && !by_bits && !kw_word_is(ask->words[4], "byte"))
		kw_reply_error(ask->to, "ERR syntax error");
	else
		count_range(ask, bytes, ends, by_bits);
}

void kw_answer_bitcount(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_count);
}
