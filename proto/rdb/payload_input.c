#include "rdb/payload_input.h"

#include "rdb/payload.h"

#include <assert.h>
#include <lzf.h>
#include <stdlib.h>

/* The two top bits of a length's first byte, and the forms that follow (the server's rdb.h). */
enum { LENGTH_6_BITS = 0, LENGTH_14_BITS = 1, LENGTH_WIDE = 2, LENGTH_SPECIAL = 3 };
#define LENGTH_32_BITS 0x80
#define LENGTH_64_BITS 0x81

enum { NO_ENCODING = -1, SPECIAL_INT8 = 0, SPECIAL_INT16 = 1, SPECIAL_INT32 = 2, SPECIAL_LZF = 3 };

void kw_payload_input_init(
	struct kw_payload_input *input, struct kw_slice value, struct kw_error *error)
{
	assert(value.data || value.length == 0);
	*input = (struct kw_payload_input){
		.at = value.data,
		.end = (const uint8_t *)value.data + value.length,
		.error = error,
	};
}

void kw_payload_input_close(struct kw_payload_input *input)
{
	free(input->scratch);
	input->scratch = NULL;
	input->scratch_bytes = 0;
}

uint64_t kw_little_endian(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	assert(bytes <= sizeof value);
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

static uint64_t big_endian(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	assert(bytes <= sizeof value);
	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

int64_t kw_sign_extend(uint64_t value, unsigned bits)
{
	uint64_t sign = UINT64_C(1) << (bits - 1);

	assert(bits > 0 && bits <= 64);
	return (int64_t)((value ^ sign) - sign);
}

struct kw_slice kw_digits(int64_t value, char digits[KW_DIGITS_MAX])
{
	uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char *at = digits + KW_DIGITS_MAX;

	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest != 0);
	if (value < 0)
		*--at = '-';
	assert(at >= digits);
	return kw_slice(at, (size_t)(digits + KW_DIGITS_MAX - at));
}

int kw_payload_take(struct kw_payload_input *input, uint64_t count, const uint8_t **bytes)
{
	if (count > kw_payload_left(input)) {
		kw_error_set(input->error, KW_E_CORRUPT,
			"payload: %llu bytes are announced where %zu are left",
			(unsigned long long)count, kw_payload_left(input));
		return KW_E_CORRUPT; /* told to the compiler too: *bytes is not set */
	}
	*bytes = input->at;
	input->at += count;
	assert(input->at <= input->end);
	return KW_OK;
}

/* A length and NO_ENCODING, or the number of the encoding of what follows. */
static int take_length(struct kw_payload_input *input, int *encoding, uint64_t *length)
{
	const uint8_t *bytes;
	unsigned wide = 0;
	uint8_t first;

	if (kw_payload_take(input, 1, &bytes))
		return KW_E_CORRUPT;
	first = bytes[0];
	*encoding = first >> 6 == LENGTH_SPECIAL ? first & 0x3f : NO_ENCODING;
	*length = first & 0x3f;
	if (*encoding != NO_ENCODING || first >> 6 == LENGTH_6_BITS)
		return KW_OK;
	if (first >> 6 == LENGTH_14_BITS) {
		if (kw_payload_take(input, 1, &bytes))
			return KW_E_CORRUPT;
		*length = *length << 8 | bytes[0];
		return KW_OK;
	}
	if (first == LENGTH_32_BITS)
		wide = 4;
	else if (first == LENGTH_64_BITS)
		wide = 8;
	else
		return kw_error_set(input->error, KW_E_CORRUPT,
			"payload: 0x%02x does not begin a length", first);
	if (kw_payload_take(input, wide, &bytes))
		return KW_E_CORRUPT;
	*length = big_endian(bytes, wide);
	return KW_OK;
}

int kw_payload_length(struct kw_payload_input *input, uint64_t *length)
{
	int encoding;

	if (take_length(input, &encoding, length))
		return KW_E_CORRUPT;
	if (encoding != NO_ENCODING)
		return kw_error_set(input->error, KW_E_CORRUPT,
			"payload: a specially encoded string where a length belongs");
	return KW_OK;
}

int kw_payload_count(struct kw_payload_input *input, size_t least, uint64_t *count)
{
	assert(least > 0);
	if (kw_payload_length(input, count))
		return KW_E_CORRUPT;
	if (*count > kw_payload_left(input) / least)
		return kw_error_set(input->error, KW_E_CORRUPT,
			"payload: %llu elements are announced where %zu bytes are left",
			(unsigned long long)*count, kw_payload_left(input));
	return KW_OK;
}

int kw_payload_u64(struct kw_payload_input *input, uint64_t *value)
{
	const uint8_t *bytes;

	if (kw_payload_take(input, 8, &bytes))
		return KW_E_CORRUPT;
	*value = kw_little_endian(bytes, 8);
	return KW_OK;
}

static int take_integer(struct kw_payload_input *input, unsigned bytes, struct kw_slice *string)
{
	const uint8_t *at;

	if (kw_payload_take(input, bytes, &at))
		return KW_E_CORRUPT;
	*string = kw_digits(kw_sign_extend(kw_little_endian(at, bytes), 8 * bytes), input->digits);
	return KW_OK;
}

static int reserve_scratch(struct kw_payload_input *input, size_t bytes)
{
	if (bytes <= input->scratch_bytes)
		return KW_OK;
	/* The old content is not needed: free and malloc instead of a realloc that copies it. */
	free(input->scratch);
	input->scratch_bytes = 0;
	input->scratch = malloc(bytes);
	if (!input->scratch)
		return kw_error_set(input->error, KW_E_NOMEM,
			"payload: no memory to unpack a string of %zu bytes", bytes);
	input->scratch_bytes = bytes;
	return KW_OK;
}

static int take_lzf(struct kw_payload_input *input, struct kw_slice *string)
{
	uint64_t packed, unpacked;
	const uint8_t *bytes;
	int code;

	if (kw_payload_length(input, &packed) || kw_payload_length(input, &unpacked) ||
		kw_payload_take(input, packed, &bytes))
		return KW_E_CORRUPT;
	/* packed is at most the payload's length by now; liblzf counts in unsigned int. */
	if (packed > UINT32_MAX || unpacked == 0 || unpacked > UINT32_MAX ||
		unpacked > packed * KW_PAYLOAD_EXPANSION)
		return kw_error_set(input->error, KW_E_CORRUPT,
			"payload: %llu compressed bytes cannot become %llu",
			(unsigned long long)packed, (unsigned long long)unpacked);
	code = reserve_scratch(input, unpacked);
	if (code)
		return code;
	if (lzf_decompress(bytes, (unsigned)packed, input->scratch, (unsigned)unpacked) != unpacked)
		return kw_error_set(input->error, KW_E_CORRUPT,
			"payload: a compressed string does not unpack to its %llu bytes",
			(unsigned long long)unpacked);
	assert(unpacked <= input->scratch_bytes);
	*string = kw_slice(input->scratch, unpacked);
	return KW_OK;
}

int kw_payload_skip(struct kw_payload_input *input)
{
	static const uint8_t integer_bytes[] = {
		[SPECIAL_INT8] = 1, [SPECIAL_INT16] = 2, [SPECIAL_INT32] = 4};
	const uint8_t *bytes;
	uint64_t length, unpacked;
	int encoding;

	if (take_length(input, &encoding, &length))
		return KW_E_CORRUPT;
	if (encoding == SPECIAL_LZF &&
		(kw_payload_length(input, &length) || kw_payload_length(input, &unpacked)))
		return KW_E_CORRUPT;
	if (encoding > SPECIAL_LZF)
		return kw_error_set(input->error, KW_E_CORRUPT,
			"payload: string encoding %d does not exist", encoding);
	if (encoding != NO_ENCODING && encoding != SPECIAL_LZF)
		length = integer_bytes[encoding];
	return kw_payload_take(input, length, &bytes);
}

int kw_payload_string(struct kw_payload_input *input, struct kw_slice *string)
{
	const uint8_t *bytes;
	uint64_t length;
	int encoding;

	if (take_length(input, &encoding, &length))
		return KW_E_CORRUPT;
	switch (encoding) {
	case NO_ENCODING:
		if (kw_payload_take(input, length, &bytes))
			return KW_E_CORRUPT;
		*string = kw_slice(bytes, length);
		return KW_OK;
	case SPECIAL_INT8:
		return take_integer(input, 1, string);
	case SPECIAL_INT16:
		return take_integer(input, 2, string);
	case SPECIAL_INT32:
		return take_integer(input, 4, string);
	case SPECIAL_LZF:
		return take_lzf(input, string);
	default:
		return kw_error_set(input->error, KW_E_CORRUPT,
			"payload: string encoding %d does not exist", encoding);
	}
}
