/* Answers that hold for a key of any kind. */
#include "answers.h"
#include "rdb/payload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 20
#define DOUBLE_WORD_MAX 256
#define UNSIGNED_WORD_MAX 128

void kw_answer_unreadable(const struct kw_ask *ask, const struct kw_error *error)
{
	/* Half a reply would put all later ones out of step. */
	ask->to->out->end = ask->to->out->start + ask->begun;
	kw_reply_error(ask->to, "TRYAGAIN the gateway cannot read this value: %s", error->text);
}

void kw_answer_miscounted(const struct kw_ask *ask)
{
	struct kw_error error;

	kw_error_set(&error, KW_E_CORRUPT, "it announces another number of elements than it has");
	kw_answer_unreadable(ask, &error);
}

int kw_answer_number(struct kw_slice word, int64_t *number)
{
	const char *text = word.data;
	size_t at = word.length > 0 && text[0] == '-';
	bool negative = at == 1;
	uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;

	if (word.length == at || word.length > DIGITS_MAX)
		return 0;
	if (text[at] == '0' && (negative || word.length > 1))
		return 0; /* leading zeros, -0 */
	for (; at < word.length; at++) {
		uint64_t digit = (uint64_t)(text[at] - '0');

		if (digit > 9 || value > (most - digit) / 10)
			return 0;
		value = value * 10 + digit;
	}
	*number = negative ? (int64_t)(0 - value) : (int64_t)value;
	return 1;
}

/* What is no proper number is left to strtoull, which takes blanks, signs and leading zeros. */
int kw_answer_unsigned(struct kw_slice word, uint64_t *number)
{
	char text[UNSIGNED_WORD_MAX], *stop;
	int64_t proper;

	if (kw_answer_number(word, &proper)) {
		*number = (uint64_t)proper;
		return proper >= 0;
	}
	if (word.length == 0 || word.length >= sizeof text)
		return 0;
	memcpy(text, word.data, word.length);
	text[word.length] = '\0';
	errno = 0;
	*number = strtoull(text, &stop, 10);
	return errno == 0 && text[0] != '\0' && *stop == '\0';
}

int kw_answer_double(const struct kw_ask *ask, struct kw_slice word, double *number)
{
	char text[DOUBLE_WORD_MAX], *stop;

	if (word.length >= sizeof text)
		return 0;
	memcpy(text, word.length ? word.data : "", word.length);
	text[word.length] = '\0';
	if (strpbrk(text, "xX") &&
		kw_release_since(ask->to->release, KW_RELEASE(8, 0), KW_RELEASE(9, 0)))
		return 0;
	*number = strtod(text, &stop);
	return stop == text + word.length;
}

void kw_answer_clamp_bytes(int64_t *start, int64_t *end, int64_t total)
{
	if (*start < 0)
		*start = *start + total < 0 ? 0 : *start + total;
	if (*end < 0)
		*end = *end + total < 0 ? 0 : *end + total;
	if (*end >= total)
		*end = total - 1;
}

void kw_answer_clamp(int64_t *first, int64_t *last, int64_t count)
{
	if (*first < 0)
		*first = *first + count < 0 ? 0 : *first + count;
	if (*last < 0)
		*last += count;
	if (*last >= count)
		*last = count - 1;
}

void kw_answer_dump(const struct kw_ask *ask)
{
	if (kw_ask_is_missing(ask))
		kw_reply_nil(ask->to);
	else
		kw_reply_bulk(ask->to, ask->payload);
}

/* One key's share of the sum. */
void kw_answer_exists(const struct kw_ask *ask)
{
	kw_reply_integer(ask->to, !kw_ask_is_missing(ask));
}

/* -2: no such key; -1: it never expires. */
static bool says_no_time(const struct kw_ask *ask)
{
	if (kw_ask_is_missing(ask))
		kw_reply_integer(ask->to, -2);
	else if (ask->expires_ms == 0)
		kw_reply_integer(ask->to, -1);
	return kw_ask_is_missing(ask) || ask->expires_ms == 0;
}

void kw_answer_pexpiretime(const struct kw_ask *ask)
{
	if (!says_no_time(ask))
		kw_reply_integer(ask->to, (int64_t)ask->expires_ms);
}

void kw_answer_expiretime(const struct kw_ask *ask)
{
	if (!says_no_time(ask))
		kw_reply_integer(ask->to, (int64_t)((ask->expires_ms + 500) / 1000));
}

static uint64_t left_ms(const struct kw_ask *ask)
{
	return ask->expires_ms > ask->now_ms ? ask->expires_ms - ask->now_ms : 0;
}

void kw_answer_pttl(const struct kw_ask *ask)
{
	if (!says_no_time(ask))
		kw_reply_integer(ask->to, (int64_t)left_ms(ask));
}

void kw_answer_ttl(const struct kw_ask *ask)
{
	if (!says_no_time(ask))
		kw_reply_integer(ask->to, (int64_t)((left_ms(ask) + 500) / 1000));
}

void kw_answer_type(const struct kw_ask *ask)
{
	kw_reply_simple(
		ask->to, kw_ask_is_missing(ask) ? "none" : kw_payload_type_name(ask->payload));
}
