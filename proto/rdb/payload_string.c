#include "rdb/payload_string.h"

#include "base/hash.h"
#include "rdb/payload.h"
#include "rdb/payload_type.h"

#include <assert.h>
#include <limits.h>
#include <lzf.h>

/* The first byte of a string that is none of a length (RDB_ENC_* in rdb.h). */
#define AS_INT8 0xc0
#define AS_INT16 0xc1
#define AS_INT32 0xc2
#define AS_LZF 0xc3

#define LENGTH_BYTES 9
#define INTEGER_BYTES 11 /* "-2147483648" */
#define LZF_SAVES 4      /* at least, or the string stays as it is */

static void put(struct kw_buffer *out, uint64_t value, unsigned bytes)
{
	uint8_t *at = kw_buffer_reserve(out, bytes);

	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * i));
	kw_buffer_filled(out, bytes);
}

/* Most significant byte first. Returns how many bytes it takes. */
static size_t encode_length(uint64_t length, uint8_t at[LENGTH_BYTES])
{
	uint64_t bits = length < 16384 ? 0x4000 | length : length;
	size_t first = 1, bytes = length <= UINT32_MAX ? 4 : 8;

	if (length < 64) {
		at[0] = (uint8_t)length;
		return 1;
	}
	if (length < 16384) {
		first = 0;
		bytes = 2;
	} else {
		at[0] = length <= UINT32_MAX ? 0x80 : 0x81;
	}
	for (size_t i = bytes; i > 0; i--, bits >>= 8)
		at[first + i - 1] = (uint8_t)bits;
	return first + bytes;
}

static void put_plain(struct kw_buffer *out, struct kw_slice text)
{
	uint8_t head[LENGTH_BYTES];

	kw_buffer_append(out, head, encode_length(text.length, head));
	if (text.length > 0)
		kw_buffer_append(out, text.data, text.length);
}

/* Is it the shortest decimal form of an integer of 32 bits? */
static bool is_integer(struct kw_slice text, int64_t *number)
{
	const uint8_t *at = text.data, *end = at + text.length;
	bool negative = text.length > 0 && *at == '-';

	at += negative;
	if (text.length > INTEGER_BYTES || at == end || (*at == '0' && (negative || at + 1 < end)))
		return false;
	for (*number = 0; at < end; at++) {
		if (*at < '0' || *at > '9')
			return false;
		*number = *number * 10 + (*at - '0');
	}
	if (negative)
		*number = -*number;
	return *number >= INT32_MIN && *number <= INT32_MAX;
}

static void put_integer(struct kw_buffer *out, int64_t number)
{
	if (number >= INT8_MIN && number <= INT8_MAX) {
		put(out, AS_INT8, 1);
		put(out, (uint64_t)number, 1);
	} else if (number >= INT16_MIN && number <= INT16_MAX) {
		put(out, AS_INT16, 1);
		put(out, (uint64_t)number, 2);
	} else {
		put(out, AS_INT32, 1);
		put(out, (uint64_t)number, 4);
	}
}

/* False: it would not pay. The lengths before the packed bytes are known only after these. */
static bool put_compressed(struct kw_buffer *out, struct kw_slice text)
{
	uint8_t head[1 + 2 * LENGTH_BYTES] = {AS_LZF};
	unsigned room, length;
	size_t bytes = 1;
	uint8_t *at;

	if (text.length <= KW_PAYLOAD_LZF_OVER || text.length > UINT_MAX)
		return false;
	room = (unsigned)text.length - LZF_SAVES;
	at = kw_buffer_reserve(out, sizeof head + room);
	length = lzf_compress(text.data, (unsigned)text.length, at + sizeof head, room);
	if (length == 0)
		return false;
	bytes += encode_length(length, head + bytes);
	bytes += encode_length(text.length, head + bytes);
	memcpy(at, head, bytes);
	memmove(at + bytes, at + sizeof head, length);
	kw_buffer_filled(out, bytes + length);
	return true;
}

static bool is_string_as(struct kw_slice payload, bool packed)
{
	const uint8_t *bytes = payload.data;

	return payload.length > 2 && bytes[0] == KW_RDB_STRING && (bytes[1] == AS_LZF) == packed;
}

bool kw_payload_is_repacked(struct kw_slice one, struct kw_slice other, size_t most)
{
	bool packed = is_string_as(one, true);
	struct kw_slice plain = packed ? other : one, lzf = packed ? one : other;
	struct kw_buffer text = {0}, wanted = {0};
	struct kw_error error;
	bool same;

	/* What is plain is longer, by what LZF saved. */
	if (!is_string_as(plain, false) || !is_string_as(lzf, true) || plain.length < lzf.length)
		return false;
	same = !kw_payload_text(plain, most, &text, &error) &&
	       !kw_payload_text(lzf, kw_buffer_length(&text), &wanted, &error) &&
	       kw_slice_equal(kw_slice(kw_buffer_bytes(&text), kw_buffer_length(&text)),
		       kw_slice(kw_buffer_bytes(&wanted), kw_buffer_length(&wanted)));
	kw_buffer_close(&text);
	kw_buffer_close(&wanted);
	return same;
}

void kw_payload_of_string(
	struct kw_slice text, uint16_t rdb_version, bool compress, struct kw_buffer *out)
{
	size_t before = kw_buffer_length(out);
	int64_t number;

	put(out, KW_RDB_STRING, 1);
	if (is_integer(text, &number)) {
		put_integer(out, number);
	} else if (!compress || !put_compressed(out, text)) {
		put_plain(out, text);
	}
	put(out, rdb_version, 2);
	put(out, kw_crc64(0, kw_buffer_bytes(out) + before, kw_buffer_length(out) - before), 8);
	assert(kw_buffer_length(out) - before <= text.length + KW_PAYLOAD_STRING_MORE);
}
