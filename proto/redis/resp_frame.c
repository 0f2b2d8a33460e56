#include "redis/resp_frame.h"

#include <assert.h>
#include <string.h>

#define DIGITS_MOST 18
#define LINE_END_BYTES 2

static enum kw_resp_frame_result broken(struct kw_error *error, const char *what, unsigned byte)
{
	kw_error_set(error, KW_E_PROTOCOL, "no RESP reply: %s (byte 0x%02x)", what, byte);
	return KW_RESP_FRAME_BROKEN;
}

/* A value is whole, and with it those whose last element it was. */
static enum kw_resp_frame_result ended(struct kw_resp_frame *frame)
{
	frame->state = KW_RESP_FRAME_TYPE;
	while (frame->depth > 0) {
		struct kw_resp_frame_level *level = &frame->levels[frame->depth - 1];

		assert(level->left > 0);
		level->left--;
		if (level->left > 0)
			return KW_RESP_FRAME_PARTIAL;
		frame->depth--;
		if (level->attribute)
			return KW_RESP_FRAME_PARTIAL; /* what it belongs to follows */
	}
	return KW_RESP_FRAME_WHOLE;
}

static enum kw_resp_frame_result begin_elements(struct kw_resp_frame *frame, struct kw_error *error)
{
	bool attribute = frame->type == '|';
	bool pairs = attribute || frame->type == '%';

	if (frame->number == 0 && attribute) {
		frame->state = KW_RESP_FRAME_TYPE;
		return KW_RESP_FRAME_PARTIAL;
	}
	if (frame->number == 0)
		return ended(frame);
	if (frame->depth == KW_RESP_FRAME_DEPTH)
		return broken(error, "nested too deep", frame->type);
	frame->levels[frame->depth++] = (struct kw_resp_frame_level){
		.left = pairs ? frame->number * 2 : frame->number,
		.attribute = attribute,
	};
	frame->state = KW_RESP_FRAME_TYPE;
	return KW_RESP_FRAME_PARTIAL;
}

/* The line of a length or a count is over. */
static enum kw_resp_frame_result counted(struct kw_resp_frame *frame, struct kw_error *error)
{
	bool text = frame->type == '$' || frame->type == '=' || frame->type == '!';

	if (frame->negative) {
		/* RESP 2's nil; no other number below 0 is a length. */
		if (frame->number != 1 || (frame->type != '$' && frame->type != '*'))
			return broken(error, "a length below 0", frame->type);
		return ended(frame);
	}
	if (!text)
		return begin_elements(frame, error);
	frame->number += LINE_END_BYTES;
	frame->state = KW_RESP_FRAME_BYTES;
	return KW_RESP_FRAME_PARTIAL;
}

static enum kw_resp_frame_result take_type(
	struct kw_resp_frame *frame, uint8_t type, struct kw_error *error)
{
	if (frame->depth == 0)
		frame->first = type;
	frame->type = type;
	switch (type) {
	case '+':
	case '-':
	case ':':
	case '_':
	case '#':
	case ',':
	case '(':
		frame->line_bytes = 0;
		frame->state = KW_RESP_FRAME_LINE;
		return KW_RESP_FRAME_PARTIAL;
	case '$':
	case '!':
	case '=':
	case '*':
	case '%':
	case '~':
	case '>':
	case '|':
		frame->negative = false;
		frame->number = frame->digits = 0;
		frame->state = KW_RESP_FRAME_NUMBER;
		return KW_RESP_FRAME_PARTIAL;
	default:
		return broken(error, "an unknown type", type);
	}
}

static enum kw_resp_frame_result take_digit(
	struct kw_resp_frame *frame, uint8_t byte, struct kw_error *error)
{
	if (byte == '-' && frame->digits == 0 && !frame->negative) {
		frame->negative = true;
		return KW_RESP_FRAME_PARTIAL;
	}
	if (byte == '\r' && frame->digits > 0) {
		frame->state = KW_RESP_FRAME_LINE_END;
		return KW_RESP_FRAME_PARTIAL;
	}
	if (byte < '0' || byte > '9' || frame->digits == DIGITS_MOST)
		return broken(error, "a bad length", byte);
	frame->digits++;
	frame->number = frame->number * 10 + (byte - '0');
	return KW_RESP_FRAME_PARTIAL;
}

static enum kw_resp_frame_result take_line_end(
	struct kw_resp_frame *frame, uint8_t byte, struct kw_error *error)
{
	bool line = strchr("+-:_#,(", frame->type) != NULL;

	if (byte != '\n')
		return broken(error, "a line without an end", byte);
	return line ? ended(frame) : counted(frame, error);
}

/* Of the line's text, as much as is there. */
static enum kw_resp_frame_result take_line(struct kw_resp_frame *frame, const uint8_t *data,
	size_t length, size_t *used, struct kw_error *error)
{
	const uint8_t *cr = memchr(data, '\r', length);
	size_t text = cr ? (size_t)(cr - data) : length;

	if (text > KW_RESP_FRAME_LINE_MAX_BYTES - frame->line_bytes)
		return broken(error, "a line above 64 KiB", frame->type);
	frame->line_bytes += text;
	*used += text;
	if (cr) {
		*used += 1;
		frame->state = KW_RESP_FRAME_LINE_END;
	}
	return KW_RESP_FRAME_PARTIAL;
}

/* Of the string's bytes, as much as is there; the line end after them is looked at. */
static enum kw_resp_frame_result take_bytes(struct kw_resp_frame *frame, const uint8_t *data,
	size_t length, size_t *used, struct kw_error *error)
{
	size_t skip = 0;

	if (frame->number > LINE_END_BYTES) {
		skip = frame->number - LINE_END_BYTES < length ? frame->number - LINE_END_BYTES
							       : length;
		frame->number -= skip;
		*used += skip;
	}
	for (; skip < length && frame->number > 0; skip++, ++*used) {
		if (data[skip] != (frame->number == LINE_END_BYTES ? '\r' : '\n'))
			return broken(error, "a string longer than it said", data[skip]);
		frame->number--;
	}
	return frame->number == 0 ? ended(frame) : KW_RESP_FRAME_PARTIAL;
}

static enum kw_resp_frame_result take_some(struct kw_resp_frame *frame, const uint8_t *data,
	size_t length, size_t *used, struct kw_error *error)
{
	switch (frame->state) {
	case KW_RESP_FRAME_LINE:
		return take_line(frame, data, length, used, error);
	case KW_RESP_FRAME_BYTES:
		return take_bytes(frame, data, length, used, error);
	case KW_RESP_FRAME_TYPE:
		++*used;
		return take_type(frame, *data, error);
	case KW_RESP_FRAME_NUMBER:
		++*used;
		return take_digit(frame, *data, error);
	case KW_RESP_FRAME_LINE_END:
		++*used;
		return take_line_end(frame, *data, error);
	}
	return broken(error, "no state", 0);
}

enum kw_resp_frame_result kw_resp_frame_take(struct kw_resp_frame *frame, const uint8_t *data,
	size_t length, size_t *used, struct kw_error *error)
{
	enum kw_resp_frame_result result = KW_RESP_FRAME_PARTIAL;

	*used = 0;
	while (result == KW_RESP_FRAME_PARTIAL && *used < length)
		result = take_some(frame, data + *used, length - *used, used, error);
	assert(result != KW_RESP_FRAME_WHOLE ||
		(frame->depth == 0 && frame->state == KW_RESP_FRAME_TYPE));
	return result;
}
