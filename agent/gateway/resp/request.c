#include "request.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_WORDS 1024 /* memory for more is given back after the request */
#define NUMBER_MAX 20   /* characters of a length, with sign and line end */

void kw_request_close(struct kw_request *request)
{
	free(request->parts);
	free(request->words);
	*request = (struct kw_request){.from = request->from};
}

void kw_request_next(struct kw_request *request)
{
	request->count = request->bytes = 0;
	request->missing = 0;
	request->begun = 0;
	if (request->capacity > KEPT_WORDS)
		kw_request_close(request);
}

static void add_word(struct kw_request *request, size_t offset, size_t length)
{
	if (request->count == request->capacity) {
		request->capacity = request->capacity ? 2 * request->capacity : 16;
		request->parts =
			kw_realloc(request->parts, request->capacity * sizeof *request->parts);
		request->words =
			kw_realloc(request->words, request->capacity * sizeof *request->words);
	}
	request->parts[request->count++] = (struct kw_request_word){offset, length};
}

static enum kw_request_state whole(struct kw_request *request, struct kw_slice input)
{
	for (size_t i = 0; i < request->count; i++)
		request->words[i] = kw_slice((const char *)input.data + request->parts[i].offset,
			request->parts[i].length);
	return KW_REQUEST_WHOLE;
}

static enum kw_request_state broken(struct kw_error *error, const char *why)
{
	kw_error_set(error, KW_E_PROTOCOL, "Protocol error: %s", why);
	return KW_REQUEST_BROKEN;
}

/*
 * The number after the mark at request->bytes, up to its line end, which is passed over. WHOLE: it
 * is there; BROKEN: it is no number. A number of more digits than any length has is none.
 */
static enum kw_request_state take_number(
	struct kw_request *request, struct kw_slice input, int64_t *number)
{
	const char *at = (const char *)input.data + request->bytes + 1;
	size_t left = input.length - request->bytes - 1;
	const char *end = memchr(at, '\n', left < NUMBER_MAX ? left : NUMBER_MAX);
	size_t length;
	bool negative;

	if (!end)
		return left < NUMBER_MAX ? KW_REQUEST_PARTIAL : KW_REQUEST_BROKEN;
	length = (size_t)(end - at);
	if (length < 2 || at[length - 1] != '\r')
		return KW_REQUEST_BROKEN;
	length--;
	negative = at[0] == '-';
	*number = 0;
	for (size_t i = negative; i < length; i++) {
		if (at[i] < '0' || at[i] > '9' || i >= NUMBER_MAX - 4)
			return KW_REQUEST_BROKEN;
		*number = *number * 10 + (at[i] - '0');
	}
	if (length == (size_t)negative)
		return KW_REQUEST_BROKEN;
	if (negative)
		*number = -*number;
	request->bytes += 1 + (size_t)(end - at) + 1;
	return KW_REQUEST_WHOLE;
}

/* The sentence, if there is more than a stranger may send. */
static const char *too_much(const struct kw_request *request, uint64_t words, uint64_t bulk)
{
	if (request->from != KW_REQUEST_FROM_STRANGER)
		return NULL;
	if (words > KW_REQUEST_STRANGER_WORDS_MAX)
		return "unauthenticated multibulk length";
	return bulk > KW_REQUEST_STRANGER_BULK_MAX ? "unauthenticated bulk length" : NULL;
}

/* The next word of an array: its length, then its bytes. */
static enum kw_request_state take_word(
	struct kw_request *request, struct kw_slice input, struct kw_error *error)
{
	size_t before = request->bytes;
	const char *bytes = input.data;
	enum kw_request_state state;
	int64_t length = 0;

	if (before >= input.length)
		return KW_REQUEST_PARTIAL;
	if (bytes[before] != '$')
		return broken(error, "expected '$' before each word");
	state = take_number(request, input, &length);
	if (state == KW_REQUEST_PARTIAL)
		return state;
	if (state == KW_REQUEST_BROKEN || length < 0 || (uint64_t)length > KW_REQUEST_BULK_MAX)
		return broken(error, "invalid bulk length");
	if (too_much(request, 0, (uint64_t)length))
		return broken(error, too_much(request, 0, (uint64_t)length));
	if (input.length - request->bytes < (size_t)length + 2) {
		request->bytes = before; /* the length is read again when its bytes are there */
		return KW_REQUEST_PARTIAL;
	}
	if (memcmp(bytes + request->bytes + length, "\r\n", 2) != 0)
		return broken(error, "a word is longer than its length");
	add_word(request, request->bytes, (size_t)length);
	request->bytes += (size_t)length + 2;
	request->missing--;
	return KW_REQUEST_WHOLE;
}

static enum kw_request_state parse_array(
	struct kw_request *request, struct kw_slice input, struct kw_error *error)
{
	if (!request->begun) {
		enum kw_request_state state = take_number(request, input, &request->missing);

		if (state == KW_REQUEST_PARTIAL)
			return state;
		if (state == KW_REQUEST_BROKEN || request->missing > KW_REQUEST_WORDS_MAX)
			return broken(error, "invalid multibulk length");
		if (request->missing > 0 && too_much(request, (uint64_t)request->missing, 0))
			return broken(error, too_much(request, (uint64_t)request->missing, 0));
		request->begun = 1;
	}
	while (request->missing > 0) {
		enum kw_request_state state = take_word(request, input, error);

		if (state != KW_REQUEST_WHOLE)
			return state;
	}
	return whole(request, input);
}

/* Words between blanks. Quotes are refused: nobody who speaks by program needs them here. */
static enum kw_request_state parse_line(
	struct kw_request *request, struct kw_slice input, struct kw_error *error)
{
	const char *bytes = input.data;
	size_t most = input.length < KW_REQUEST_LINE_MAX ? input.length : KW_REQUEST_LINE_MAX;
	const char *end = memchr(bytes, '\n', most);
	size_t length, from = 0;

	if (!end)
		return input.length < KW_REQUEST_LINE_MAX ? KW_REQUEST_PARTIAL
							  : broken(error, "too big inline request");
	length = (size_t)(end - bytes);
	request->bytes = length + 1;
	if (length > 0 && bytes[length - 1] == '\r')
		length--;
	for (size_t i = 0; i <= length; i++) {
		if (i < length && (bytes[i] == '"' || bytes[i] == '\''))
			return broken(error, "quotes in an inline request are not understood");
		if (i < length && bytes[i] != ' ' && bytes[i] != '\t')
			continue;
		if (i > from)
			add_word(request, from, i - from);
		from = i + 1;
	}
	return whole(request, input);
}

enum kw_request_state kw_request_parse(
	struct kw_request *request, struct kw_slice input, struct kw_error *error)
{
	assert(request->bytes <= input.length);
	if (input.length == 0)
		return KW_REQUEST_PARTIAL;
	if (*(const char *)input.data == '*')
		return parse_array(request, input, error);
	return parse_line(request, input, error);
}
