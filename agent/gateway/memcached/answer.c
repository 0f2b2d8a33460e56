#include "answer.h"
#include "base64.h"
#include "meta.h"

#include <assert.h>
#include <string.h>

#define DIGITS_MAX 20
/* All but the value: a code, a size, flags with numbers, the opaque and the key. */
#define HEAD_MAX                                                                                   \
	(64 + KW_MEMCACHED_RETURNED * (2 + DIGITS_MAX) + KW_MEMCACHED_OPAQUE_MAX +                 \
		KW_BASE64_LENGTH(KW_MEMCACHED_KEY_MAX))
#define SENTENCE_MAX 400

/* One answer that is being written. */
struct answering {
	const struct kw_memcached_how *how;
	const struct kw_memcached_found *found;
	struct kw_buffer *out;
};

/* ---- writing into memory that is reserved ---- */

static char *put(char *at, const void *bytes, size_t length)
{
	if (length > 0)
		memcpy(at, bytes, length);
	return at + length;
}

static char *put_text(char *at, const char *text)
{
	return put(at, text, strlen(text));
}

static char *put_number(char *at, uint64_t number)
{
	char digits[DIGITS_MAX], *first = digits + sizeof digits;

	do {
		*--first = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	return put(at, first, (size_t)(digits + sizeof digits - first));
}

/* The value and its line end, after the head's. Then all that was reserved and written counts. */
static void put_value(const struct answering *answering, char *at, struct kw_slice bytes)
{
	char *begin = (char *)answering->out->data + answering->out->end;

	at = put(at, bytes.data, bytes.length);
	at = put(at, "\r\n", 2);
	kw_buffer_filled(answering->out, (size_t)(at - begin));
}

static char *reserve(const struct answering *answering, size_t value_length)
{
	return (char *)kw_buffer_reserve(answering->out, HEAD_MAX + value_length);
}

/* ---- get, gets ---- */

static enum kw_visit say_get(void *arg, struct kw_slice bytes)
{
	const struct answering *answering = arg;
	const struct kw_memcached_found *found = answering->found;
	char *at = reserve(answering, bytes.length);

	at = put(at, "VALUE ", 6);
	at = put(at, found->key.data, found->key.length);
	at = put(at, " 0 ", 3);
	at = put_number(at, bytes.length);
	if (answering->how->verb == KW_MEMCACHED_GETS) {
		*at++ = ' ';
		at = put_number(at, found->version);
	}
	at = put(at, "\r\n", 2);
	put_value(answering, at, bytes);
	return KW_VISIT_ON;
}

/* ---- mg, me ---- */

static char *put_key(char *at, const struct answering *answering)
{
	struct kw_slice key = answering->found->key;

	if (answering->how->base64)
		return at + kw_base64_encode(key, at);
	return put(at, key.data, key.length);
}

/* Seconds; -1: it never expires. */
static char *put_seconds(char *at, const struct kw_memcached_found *found)
{
	if (found->expires_ms == 0)
		return put(at, "-1", 2);
	if (found->expires_ms <= found->now_ms)
		return put(at, "0", 1);
	return put_number(at, (found->expires_ms - found->now_ms - 1) / 1000 + 1);
}

static char *put_flag(char *at, char flag, const struct answering *answering, size_t length)
{
	*at++ = ' ';
	*at++ = flag;
	switch (flag) {
	case 's':
		return put_number(at, length);
	case 't':
		return put_seconds(at, answering->found);
	case 'c':
		return put_number(at, answering->found->version);
	case 'O':
		return put(at, answering->found->opaque.data, answering->found->opaque.length);
	case 'k':
		at = put_key(at, answering);
		return answering->how->base64 ? put(at, " b", 2) : at;
	default:
		assert(flag == 'f');
		return put(at, "0", 1);
	}
}

static enum kw_visit say_meta_get(void *arg, struct kw_slice bytes)
{
	const struct answering *answering = arg;
	const struct kw_memcached_how *how = answering->how;
	char *at = reserve(answering, bytes.length);

	if (how->value) {
		at = put(at, "VA ", 3);
		at = put_number(at, bytes.length);
	} else {
		at = put(at, "HD", 2);
	}
	for (int i = 0; i < KW_MEMCACHED_RETURNED && how->returned[i]; i++)
		at = put_flag(at, how->returned[i], answering, bytes.length);
	if (how->value)
		at = put(at, "\r\n", 2);
	put_value(answering, at, how->value ? bytes : kw_slice(NULL, 0));
	return KW_VISIT_ON;
}

static enum kw_visit say_meta_debug(void *arg, struct kw_slice bytes)
{
	const struct answering *answering = arg;
	char *at = reserve(answering, 0);

	at = put(at, "ME ", 3);
	at = put_key(at, answering);
	at = put_seconds(put_text(at, " exp="), answering->found);
	at = put_number(put_text(at, " cas="), answering->found->version);
	at = put_number(put_text(at, " size="), bytes.length);
	put_value(answering, at, kw_slice(NULL, 0));
	return KW_VISIT_ON;
}

/* ---- every verb ---- */

static void say_missing(const struct answering *answering)
{
	const struct kw_memcached_how *how = answering->how;
	char *at;

	if (how->verb == KW_MEMCACHED_GET || how->verb == KW_MEMCACHED_GETS || how->quiet)
		return;
	at = put(reserve(answering, 0), "EN", 2);
	for (int i = 0; i < KW_MEMCACHED_RETURNED && how->returned[i]; i++)
		if (how->returned[i] == 'O' || how->returned[i] == 'k')
			at = put_flag(at, how->returned[i], answering, 0);
	put_value(answering, at, kw_slice(NULL, 0));
}

int kw_memcached_answer(const struct kw_memcached_how *how, const struct kw_memcached_found *found,
	struct kw_buffer *out, struct kw_error *error)
{
	static enum kw_visit (*const say[])(void *arg, struct kw_slice bytes) = {
		[KW_MEMCACHED_GET] = say_get,
		[KW_MEMCACHED_GETS] = say_get,
		[KW_MEMCACHED_META_GET] = say_meta_get,
		[KW_MEMCACHED_META_DEBUG] = say_meta_debug,
	};
	struct answering answering = {how, found, out};
	const struct kw_visitor visitor = {.string = say[how->verb], .arg = &answering};
	size_t before = kw_buffer_length(out);
	int code = KW_OK;

	assert(found->key.length <= KW_MEMCACHED_KEY_MAX);
	assert(found->opaque.length <= KW_MEMCACHED_OPAQUE_MAX);
	if (found->payload.length == 0)
		say_missing(&answering);
	else if (found->kind != KW_VALUE_STRING)
		return kw_error_set(
			error, KW_E_ARGUMENT, "the key holds no string: read it by a Redis client");
	else if ((code = kw_payload_visit(found->payload, &visitor, error))) {
		out->end = out->start + before;
		return kw_error_wrap(error, "the gateway cannot read this value");
	}
	if (how->ends && (how->verb == KW_MEMCACHED_GET || how->verb == KW_MEMCACHED_GETS))
		kw_buffer_append(out, "END\r\n", 5);
	return KW_OK;
}

/* The sentence can quote anything: no line end of it may end the reply. */
void kw_memcached_append_error(struct kw_buffer *out, const char *sentence)
{
	size_t length = strnlen(sentence, SENTENCE_MAX);
	uint8_t *text;

	kw_buffer_append(out, "SERVER_ERROR ", 13);
	text = kw_buffer_reserve(out, length + 2);
	for (size_t i = 0; i < length; i++)
		text[i] = sentence[i] == '\r' || sentence[i] == '\n' ? ' ' : (uint8_t)sentence[i];
	memcpy(text + length, "\r\n", 2);
	kw_buffer_filled(out, length + 2);
}
