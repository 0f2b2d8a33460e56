#include "stream/preamble.h"

#include "stream/meaning.h"

#include <string.h>

#define HEADER_BYTES 9 /* of both forks */
#define AUX 0xFA

/* The two high bits of a length (rdbLoadLen in rdb.c). */
enum form { FORM_6_BITS, FORM_14_BITS, FORM_LONG, FORM_ENCODED };

/* … of FORM_LONG and FORM_ENCODED, the other six. */
enum { LONG_32_BITS = 0, LONG_64_BITS = 1 };
enum { ENCODED_8_BITS = 0, ENCODED_16_BITS = 1, ENCODED_32_BITS = 2 };

/* False: there are not so many. */
static bool take(struct kw_slice *rest, size_t count, const uint8_t **bytes)
{
	if (count > rest->length)
		return false;
	*bytes = rest->data;
	*rest = kw_slice(*bytes + count, rest->length - count);
	return true;
}

static uint64_t big_endian(const uint8_t *bytes, size_t count)
{
	uint64_t number = 0;

	for (size_t i = 0; i < count; i++)
		number = number << 8 | bytes[i];
	return number;
}

/* A string that is written as a number of so many bytes, with a sign. */
static bool take_integer(struct kw_slice *rest, unsigned encoding, int64_t *number)
{
	const uint8_t *bytes;
	uint32_t bits = 0;

	if (encoding > ENCODED_32_BITS || !take(rest, (size_t)1 << encoding, &bytes))
		return false;
	for (size_t i = 0; i < (size_t)1 << encoding; i++)
		bits |= (uint32_t)bytes[i] << 8 * i;
	*number = encoding == ENCODED_8_BITS    ? (int8_t)bits
		  : encoding == ENCODED_16_BITS ? (int16_t)bits
						: (int32_t)bits;
	return true;
}

/* Bytes of a string; false: it is written as a number, or not whole. */
static bool take_length(struct kw_slice *rest, uint8_t first, uint64_t *length)
{
	const uint8_t *bytes;
	size_t more = first >> 6 == FORM_14_BITS ? 1 : 0;

	if (first >> 6 == FORM_LONG)
		more = (first & 63) == LONG_32_BITS ? 4 : (first & 63) == LONG_64_BITS ? 8 : 0;
	if (first >> 6 == FORM_ENCODED || (first >> 6 == FORM_LONG && more == 0) ||
		!take(rest, more, &bytes))
		return false;
	*length = big_endian(bytes, more);
	if (first >> 6 != FORM_LONG)
		*length |= (uint64_t)(first & 63) << 8 * more;
	return true;
}

struct value {
	struct kw_slice text; /* empty if it is written as a number */
	int64_t number;       /* -1: it is none */
};

static bool take_value(struct kw_slice *rest, struct value *value)
{
	const uint8_t *bytes;
	uint64_t length;

	*value = (struct value){.number = -1};
	if (!take(rest, 1, &bytes))
		return false;
	if (bytes[0] >> 6 == FORM_ENCODED)
		return take_integer(rest, bytes[0] & 63, &value->number);
	if (!take_length(rest, bytes[0], &length) || length > rest->length ||
		!take(rest, (size_t)length, &bytes))
		return false;
	value->text = kw_slice(bytes, (size_t)length);
	if (!kw_repl_number(value->text, &value->number))
		value->number = -1;
	return true;
}

bool kw_repl_preamble_number(struct kw_slice rdb, const char *field, uint64_t *number)
{
	struct value name, value;
	const uint8_t *bytes;

	if (!take(&rdb, HEADER_BYTES, &bytes) ||
		(memcmp(bytes, "REDIS", 5) != 0 && memcmp(bytes, "VALKEY", 6) != 0))
		return false;
	for (int i = 0; i < KW_REPL_PREAMBLE_FIELDS; i++) {
		if (!take(&rdb, 1, &bytes) || bytes[0] != AUX || !take_value(&rdb, &name) ||
			!take_value(&rdb, &value))
			return false;
		if (!kw_slice_equal(name.text, kw_slice_text(field)))
			continue;
		*number = (uint64_t)value.number;
		return value.number >= 0;
	}
	return false;
}
