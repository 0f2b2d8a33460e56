/*
 * Any command of one key on any payload: never crash, never read outside of it, say the same twice,
 * and write exactly one well-formed reply.
 *
 *   words, each ended by a zero byte │ an empty word │ version, release, payload
 */
#include "fuzz.h"

#include "gateway/answers/command.h"
#include "rdb/payload.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 16
#define DEPTH_MAX 8

/* One value of each form. The footer is added. */
static const struct kw_fuzz_bytes values[] = {
	KW_FUZZ_BYTES("\x00\x05hello"),
	KW_FUZZ_BYTES("\x00\xc2\x70\x11\x01\x00"),
	KW_FUZZ_BYTES("\x00\x12HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"),
	KW_FUZZ_BYTES("\x01\x03\x01"
		      "a\xc0\x05\xc1\x00\x10"),
	KW_FUZZ_BYTES("\x02\x02\x01"
		      "a\x01"
		      "b"),
	KW_FUZZ_BYTES("\x04\x01\x05"
		      "field\x05value"),
	KW_FUZZ_BYTES("\x05\x02\x01m\x00\x00\x00\x00\x00\x00\xf8\x3f\x01n\x00\x00\x00\x00\x00\x00"
		      "\x08\x43"),
	KW_FUZZ_BYTES("\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\xff\x7f"),
	KW_FUZZ_BYTES("\x10\x0d\x0d\x00\x00\x00\x02\x00\x81\x66\x02\xc1\x2c\x02\xff"),
	KW_FUZZ_BYTES("\x11\x0c\x0c\x00\x00\x00\x02\x00\x81\x6d\x02\x05\x01\xff"),
	KW_FUZZ_BYTES(
		"\x12\x02\x01\x05plain\x02\x0c\x0c\x00\x00\x00\x02\x00\x81\x6d\x02\x05\x01\xff"),
	/* a stream of two entries that share the field f, and one of its own */
	KW_FUZZ_BYTES(
		"\x15\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"
		"\x3a\x3a\x00\x00\x00\x19\x00\x03\x01\x00\x01\x01\x01\x81"
		"f\x02\x00\x01"
		"\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\x02\x01\x00\x01\x01\x01\x81w\x02\x04"
		"\x01\x00\x01\x01\x01\x00\x01\x01\x01\x81g\x02\x07\x01\x06\x01\xff\x03"),
	KW_FUZZ_BYTES(
		"\x18\x7b\xb4\xc5\xda\xb8\x01\x00\x00\x02\x01\x01\x61\xc0\x01\x00\x01\x62\x03two"),
};

/* Zero bytes end words, so a line is written with blanks. */
static const char *const lines[] = {"get k", "strlen k", "getrange k 1 3", "bitcount k 0 -1 bit",
	"bitpos k 0 2 30 bit", "bitfield_ro k get i7 3", "pfcount k", "lrange k 0 -1",
	"lindex k -1", "lpos k a count 0", "hgetall k", "hget k f", "hmget k f g",
	"httl k fields 1 f", "hlen k", "hscan k 0 match f*", "hrandfield k -3 withvalues",
	"smembers k", "smismember k a b", "srandmember k 2", "zrange k 0 -1 withscores",
	"zrangebyscore k 1 2 limit -1 2", "zrangebylex k - +", "zrank k m", "zscore k m",
	"zscan k 0", "zrandmember k 1 withscores", "geopos k m n", "geodist k m n km",
	"geohash k m", "geosearch k frommember m bybox 9 9 km",
	"georadius_ro k 1 1 9000 km withdist", "xlen k", "xrange k - +",
	"xrevrange k + (1-1 count 1", "type k", "ttl k", "dump k"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	const struct kw_fuzz_bytes *value = &values[n % COUNT(values)];
	const char *line = lines[n / COUNT(values) % COUNT(lines)];
	size_t length = strlen(line) + 1;

	if (n >= COUNT(values) * COUNT(lines) ||
		length + 3 + value->length + KW_PAYLOAD_FOOTER > most)
		return 0;
	memcpy(data, line, length);
	for (size_t i = 0; i < length; i++)
		if (data[i] == ' ')
			data[i] = '\0';
	data[length++] = '\0';
	data[length++] = (uint8_t)n;
	data[length++] = (uint8_t)(n >> 2);
	memcpy(data + length, value->bytes, value->length);
	length += value->length;
	memset(data + length, 0, KW_PAYLOAD_FOOTER);
	data[length] = 12;
	return length + KW_PAYLOAD_FOOTER;
}

/* Step over one reply; NULL: it is not one. */
static const uint8_t *skip_reply(const uint8_t *at, const uint8_t *end, int depth)
{
	const uint8_t *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
	long count;

	if (!stop || stop == at || stop[-1] != '\r' || depth > DEPTH_MAX)
		return NULL;
	at = stop + 1;
	switch (line[0]) {
	case '+':
	case '-':
	case ':':
	case ',':
	case '_':
		return at;
	case '$':
		count = strtol((const char *)line + 1, NULL, 10);
		if (count < 0)
			return at;
		return end - at >= count + 2 && memcmp(at + count, "\r\n", 2) == 0 ? at + count + 2
										   : NULL;
	case '*':
	case '~':
	case '%':
		count = strtol((const char *)line + 1, NULL, 10) * (line[0] == '%' ? 2 : 1);
		for (; at && count > 0; count--)
			at = at < end ? skip_reply(at, end, depth + 1) : NULL;
		return at;
	default:
		return NULL;
	}
}

static size_t take_words(const uint8_t **at, const uint8_t *end, struct kw_slice words[WORDS_MAX])
{
	size_t count = 0;

	while (*at < end && count < WORDS_MAX) {
		const uint8_t *stop = memchr(*at, '\0', (size_t)(end - *at));
		size_t length = (size_t)((stop ? stop : end) - *at);

		words[count] = kw_slice(*at, length);
		*at += stop ? length + 1 : length;
		if (length == 0)
			break;
		count++;
	}
	return count;
}

static void answer(const struct kw_command *command, struct kw_ask *ask, struct kw_buffer *out)
{
	const uint8_t *bytes, *end;

	kw_command_answer(command, ask);
	bytes = kw_buffer_bytes(out);
	end = bytes + kw_buffer_length(out);
	if (bytes == end || skip_reply(bytes, end, 0) != end)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kw_release releases[] = {{0}, {KW_FORK_REDIS, KW_RELEASE(8, 0)},
		{KW_FORK_VALKEY, KW_RELEASE(8, 1)}, {KW_FORK_VALKEY, KW_RELEASE(9, 0)}};
	const uint8_t *at = data, *end = data + size;
	struct kw_slice words[WORDS_MAX];
	struct kw_buffer once = {0}, again = {0};
	struct kw_reply_to to = {.out = &once};
	struct kw_ask ask = {.words = words, .now_ms = 1790000000000, .random = size, .to = &to};
	const struct kw_command *command;

	ask.count = take_words(&at, end, words);
	command = ask.count > 0 ? kw_command_find(words[0]) : NULL;
	if (!command || !kw_command_fits(command, ask.count) || end - at < 2 ||
		kw_command_keys(command, ask.count) != 1)
		return 0;
	to.version = *at++ & 1 ? KW_RESP_3 : KW_RESP_2;
	to.release = releases[*at++ % COUNT(releases)];
	ask.payload = kw_slice(at, (size_t)(end - at));
	ask.kind = kw_payload_kind(ask.payload);
	answer(command, &ask, &once);
	to.out = &again;
	answer(command, &ask, &again);
	if (!kw_slice_equal(kw_slice(kw_buffer_bytes(&once), kw_buffer_length(&once)),
		    kw_slice(kw_buffer_bytes(&again), kw_buffer_length(&again))))
		abort();
	kw_buffer_close(&once);
	kw_buffer_close(&again);
	return 0;
}
