#include "request.h"
#include "command.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

#define KEPT_KEYS 16 /* memory for more is given back */
#define BINARY_REQUEST 0x80
#define TOO_LONG "CLIENT_ERROR line too long\r\n"

void kw_memcached_request_close(struct kw_memcached_request *request)
{
	free(request->keys);
	*request = (struct kw_memcached_request){0};
}

/* The call begins: nothing came of it yet, and there is room for one key. */
static void begin(struct kw_memcached_request *request)
{
	request->bytes = request->count = 0;
	request->says = request->opaque = kw_slice(NULL, 0);
	if (request->capacity > KEPT_KEYS || request->capacity == 0) {
		free(request->keys);
		request->capacity = 4;
		request->keys = kw_alloc(request->capacity * sizeof *request->keys);
	}
}

static void add_key(struct kw_memcached_request *request, struct kw_slice key)
{
	if (request->count == request->capacity) {
		request->capacity *= 2;
		request->keys =
			kw_realloc(request->keys, request->capacity * sizeof *request->keys);
	}
	request->keys[request->count++] = key;
}

static enum kw_memcached_act close_with(struct kw_memcached_request *request, const char *text)
{
	request->expects = KW_MEMCACHED_AT_END;
	return kw_memcached_say(request, KW_MEMCACHED_CLOSE, text);
}

/* ---- the binary protocol ---- */

/* magic, opcode, key length 2, extras, data type, status 2, body length 4, opaque 4, cas 8 */
static enum kw_memcached_act refuse_binary(
	struct kw_memcached_request *request, const uint8_t *asked, size_t length)
{
	static const char text[] = KW_MEMCACHED_BINARY_TEXT;
	uint8_t *reply = request->binary;

	if (length < KW_MEMCACHED_BINARY_HEADER)
		return KW_MEMCACHED_PARTIAL;
	memset(reply, 0, KW_MEMCACHED_BINARY_HEADER);
	reply[0] = 0x81;
	reply[1] = asked[1];
	reply[7] = 0x81;
	reply[11] = sizeof text - 1;
	memcpy(reply + 12, asked + 12, 4);
	memcpy(reply + KW_MEMCACHED_BINARY_HEADER, text, sizeof text - 1);
	request->bytes = length;
	close_with(request, "");
	request->says = kw_slice(reply, sizeof request->binary);
	return KW_MEMCACHED_CLOSE;
}

/* ---- words ---- */

/* The next word at or after *at, which moves behind it; none: no bytes. */
static struct kw_slice next_word(struct kw_slice line, size_t *at)
{
	const char *bytes = line.data;
	size_t from;

	while (*at < line.length && bytes[*at] == ' ')
		++*at;
	from = *at;
	while (*at < line.length && bytes[*at] != ' ')
		++*at;
	return *at > from ? kw_slice(bytes + from, *at - from) : kw_slice(NULL, 0);
}

static enum kw_memcached_act run_command(
	struct kw_memcached_request *request, uint8_t *base, size_t length)
{
	struct kw_memcached_line line = {.base = base};
	struct kw_slice text = kw_slice(base, length);
	enum kw_memcached_act act;
	size_t at = 0;

	for (struct kw_slice word; (word = next_word(text, &at)).length > 0; line.count++)
		if (line.count < KW_MEMCACHED_WORDS_MAX)
			line.words[line.count] = word;
	act = kw_memcached_command(request, &line);
	if (act == KW_MEMCACHED_CLOSE)
		request->expects = KW_MEMCACHED_AT_END;
	return act;
}

/* ---- get, gets ---- */

/* The keys from `at` on. */
static enum kw_memcached_act keys_of(struct kw_memcached_request *request,
	enum kw_memcached_part part, struct kw_slice line, size_t at)
{
	request->part = part;
	request->how.ends = part == KW_MEMCACHED_WHOLE || part == KW_MEMCACHED_LAST;
	for (struct kw_slice key; (key = next_word(line, &at)).length > 0;) {
		if (kw_memcached_is_key(key))
			add_key(request, key);
		else if (part == KW_MEMCACHED_WHOLE)
			return kw_memcached_say(request, KW_MEMCACHED_SAY, KW_MEMCACHED_BAD_LINE);
		else
			return close_with(request, KW_MEMCACHED_BAD_LINE);
	}
	if (request->count == 0)
		return kw_memcached_say(request, KW_MEMCACHED_SAY, "ERROR\r\n");
	return KW_MEMCACHED_KEYS;
}

/* Is it get or gets? Then `at` is behind that word. */
static bool begins_get(struct kw_memcached_request *request, struct kw_slice line, size_t *at)
{
	struct kw_slice name;

	*at = 0;
	name = next_word(line, at);
	if (name.length < 3 || name.length > 4 || memcmp(name.data, "gets", name.length) != 0)
		return false;
	request->how = (struct kw_memcached_how){
		.verb = name.length == 3 ? KW_MEMCACHED_GET : KW_MEMCACHED_GETS,
	};
	return true;
}

/* ---- lines ---- */

static enum kw_memcached_act whole_line(
	struct kw_memcached_request *request, uint8_t *base, size_t length)
{
	struct kw_slice line = kw_slice(base, length);
	size_t at = 0;

	if (request->expects == KW_MEMCACHED_AT_KEYS) {
		request->expects = KW_MEMCACHED_AT_LINE;
		return keys_of(request, KW_MEMCACHED_LAST, line, at);
	}
	if (begins_get(request, line, &at))
		return keys_of(request, KW_MEMCACHED_WHOLE, line, at);
	return run_command(request, base, length);
}

/* Where the last whole key begins; after it comes what there is of another. */
static size_t before_last_key(const uint8_t *line, size_t length)
{
	while (length > 0 && line[length - 1] != ' ')
		length--;
	while (length > 0 && line[length - 1] == ' ')
		length--;
	while (length > 0 && line[length - 1] != ' ')
		length--;
	return length;
}

/* No line end within the first bytes: only a line of many keys goes on. Its last part gets a key.
 */
static enum kw_memcached_act long_line(
	struct kw_memcached_request *request, uint8_t *base, size_t length)
{
	const bool goes_on = request->expects == KW_MEMCACHED_AT_KEYS;
	const size_t front = before_last_key(base, length);
	enum kw_memcached_act act;
	size_t at = 0;

	request->bytes = length;
	if (!goes_on && !begins_get(request, kw_slice(base, length), &at))
		return close_with(request, TOO_LONG);
	if (front <= at)
		return close_with(request, TOO_LONG);
	act = keys_of(request, goes_on ? KW_MEMCACHED_MIDDLE : KW_MEMCACHED_FRONT,
		kw_slice(base, front), at);
	if (request->count == 0)
		return close_with(request, TOO_LONG);
	if (act == KW_MEMCACHED_KEYS) {
		request->expects = KW_MEMCACHED_AT_KEYS;
		request->bytes = front;
	}
	return act;
}

static enum kw_memcached_act parse_line(
	struct kw_memcached_request *request, uint8_t *input, size_t length)
{
	size_t most = length < KW_MEMCACHED_LINE_MAX ? length : KW_MEMCACHED_LINE_MAX, line;
	uint8_t *end;

	assert(request->looked <= most);
	end = memchr(input + request->looked, '\n', most - request->looked);
	if (!end && length < KW_MEMCACHED_LINE_MAX) {
		request->looked = length;
		return KW_MEMCACHED_PARTIAL;
	}
	request->looked = 0;
	if (!end)
		return long_line(request, input, most);
	line = (size_t)(end - input);
	request->bytes = line + 1;
	if (line > 0 && input[line - 1] == '\r')
		line--;
	return whole_line(request, input, line);
}

/* ---- data blocks ---- */

/* Pass it over as it comes; its last two bytes are looked at together. */
static enum kw_memcached_act pass_data(
	struct kw_memcached_request *request, const uint8_t *input, size_t length)
{
	if (length < request->data_left) {
		uint64_t rest = request->data_left - 2;
		size_t passed = length < rest ? length : (size_t)rest;

		request->bytes += passed;
		request->data_left -= passed;
		return KW_MEMCACHED_PARTIAL;
	}
	request->bytes += (size_t)request->data_left;
	request->expects = KW_MEMCACHED_AT_LINE;
	request->says = request->after;
	if (request->after.length > 0 && memcmp(input + request->data_left - 2, "\r\n", 2) != 0)
		request->says = kw_slice_text("CLIENT_ERROR bad data chunk\r\n");
	return KW_MEMCACHED_REFUSE;
}

/* A line, and the front of the data block that follows it. */
static enum kw_memcached_act parse_from_line(
	struct kw_memcached_request *request, uint8_t *input, size_t length)
{
	enum kw_memcached_act act = parse_line(request, input, length);

	if (request->expects != KW_MEMCACHED_AT_DATA)
		return act;
	return pass_data(request, input + request->bytes, length - request->bytes);
}

static enum kw_memcached_act go_on(
	struct kw_memcached_request *request, uint8_t *input, size_t length)
{
	switch (request->expects) {
	case KW_MEMCACHED_AT_BEGINNING:
		if (*input == BINARY_REQUEST)
			return refuse_binary(request, input, length);
		request->expects = KW_MEMCACHED_AT_LINE;
		return parse_from_line(request, input, length);
	case KW_MEMCACHED_AT_LINE:
	case KW_MEMCACHED_AT_KEYS:
		return parse_from_line(request, input, length);
	case KW_MEMCACHED_AT_DATA:
		return pass_data(request, input, length);
	case KW_MEMCACHED_AT_END:
		break;
	}
	request->bytes = length;
	return KW_MEMCACHED_PARTIAL;
}

enum kw_memcached_act kw_memcached_parse(
	struct kw_memcached_request *request, uint8_t *input, size_t length)
{
	enum kw_memcached_act act = KW_MEMCACHED_PARTIAL;

	begin(request);
	if (length > 0)
		act = go_on(request, input, length);
	if (act != KW_MEMCACHED_KEYS)
		request->count = 0;
	return act;
}
