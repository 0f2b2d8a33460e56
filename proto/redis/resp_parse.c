#include "redis/resp_parse.h"

#include <assert.h>

#define DIGITS_MOST 18 /* no overflow in 64 bits; hiredis takes longer ones */

struct cursor {
	const uint8_t *at, *end;
	size_t needed; /* from `at` on */
};

/* The rest of the line, without CR LF; the cursor moves past it. */
static enum kw_resp_parsed take_line(struct cursor *cursor, struct kw_slice *line)
{
	const uint8_t *cr = memchr(cursor->at, '\r', (size_t)(cursor->end - cursor->at));

	if (!cr || cr + 1 == cursor->end)
		return KW_RESP_PARTIAL;
	if (cr[1] != '\n')
		return KW_RESP_OTHER;
	*line = kw_slice(cursor->at, (size_t)(cr - cursor->at));
	cursor->at = cr + 2;
	return KW_RESP_DONE;
}

/* Lengths have one to three digits nearly always: no search for the line's end. */
static enum kw_resp_parsed take_number(struct cursor *cursor, int64_t *number)
{
	const uint8_t *at = cursor->at;
	bool negative = at < cursor->end && *at == '-';
	const uint8_t *digits = at += negative;
	int64_t value = 0;

	for (; at < cursor->end && *at >= '0' && *at <= '9'; at++) {
		if (at - digits == DIGITS_MOST)
			return KW_RESP_OTHER;
		value = value * 10 + (*at - '0');
	}
	if (cursor->end - at < 2)
		return at == cursor->end || *at == '\r' ? KW_RESP_PARTIAL : KW_RESP_OTHER;
	if (at == digits || at[0] != '\r' || at[1] != '\n')
		return KW_RESP_OTHER;
	*number = negative ? -value : value;
	cursor->at = at + 2;
	return KW_RESP_DONE;
}

static enum kw_resp_parsed take_bulk(struct cursor *cursor, struct kw_reply *reply)
{
	int64_t length;
	enum kw_resp_parsed result = take_number(cursor, &length);

	if (result != KW_RESP_DONE)
		return result;
	if (length == -1) {
		*reply = (struct kw_reply){.type = KW_REPLY_NIL};
		return KW_RESP_DONE;
	}
	if (length < 0)
		return KW_RESP_OTHER;
	if (cursor->end - cursor->at < length + 2) {
		cursor->needed = (size_t)length + 2;
		return KW_RESP_PARTIAL;
	}
	if (cursor->at[length] != '\r' || cursor->at[length + 1] != '\n')
		return KW_RESP_OTHER;
	*reply = (struct kw_reply){
		.type = KW_REPLY_STRING, .text = kw_slice(cursor->at, (size_t)length)};
	cursor->at += length + 2;
	return KW_RESP_DONE;
}

static enum kw_resp_parsed take_text(
	struct cursor *cursor, struct kw_reply *reply, enum kw_reply_type type)
{
	*reply = (struct kw_reply){.type = type};
	return take_line(cursor, &reply->text);
}

static enum kw_resp_parsed take_integer(struct cursor *cursor, struct kw_reply *reply)
{
	*reply = (struct kw_reply){.type = KW_REPLY_INTEGER};
	return take_number(cursor, &reply->integer);
}

static enum kw_resp_parsed take_scalar(struct cursor *cursor, struct kw_reply *reply)
{
	if (cursor->at == cursor->end)
		return KW_RESP_PARTIAL;
	switch (*cursor->at++) {
	case '$':
		return take_bulk(cursor, reply);
	case ':':
		return take_integer(cursor, reply);
	case '+':
		return take_text(cursor, reply, KW_REPLY_STATUS);
	case '-':
		return take_text(cursor, reply, KW_REPLY_ERROR);
	default:
		return KW_RESP_OTHER;
	}
}

static enum kw_resp_parsed take_array(
	struct cursor *cursor, struct kw_reply *reply, struct kw_reply *elements)
{
	int64_t count;
	enum kw_resp_parsed result = take_number(cursor, &count);

	if (result == KW_RESP_DONE && (count < 0 || count > KW_RESP_ELEMENTS))
		return KW_RESP_OTHER;
	for (int64_t i = 0; result == KW_RESP_DONE && i < count; i++)
		result = take_scalar(cursor, &elements[i]);
	if (result == KW_RESP_DONE)
		*reply = (struct kw_reply){.type = KW_REPLY_ARRAY,
			.elements = count > 0 ? elements : NULL,
			.count = (size_t)count};
	return result;
}

enum kw_resp_parsed kw_resp_parse(const uint8_t *data, size_t length, struct kw_reply *reply,
	struct kw_reply elements[KW_RESP_ELEMENTS], size_t *used, size_t *needed)
{
	struct cursor cursor = {.at = data, .end = data + length};
	enum kw_resp_parsed result;

	if (length > 0 && *data == '*') {
		cursor.at++;
		result = take_array(&cursor, reply, elements);
	} else {
		result = take_scalar(&cursor, reply);
	}
	assert(cursor.at <= cursor.end);
	*used = (size_t)(cursor.at - data);
	*needed = *used + (cursor.needed > 0 ? cursor.needed : 1);
	return result;
}
