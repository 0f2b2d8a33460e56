#include "base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 64 and above: it is no digit. */
static unsigned value_of(uint8_t digit)
{
	if (digit >= 'A' && digit <= 'Z')
		return digit - 'A';
	if (digit >= 'a' && digit <= 'z')
		return digit - 'a' + 26U;
	if (digit >= '0' && digit <= '9')
		return digit - '0' + 52U;
	return digit == '+' ? 62 : digit == '/' ? 63 : 64;
}

size_t kw_base64_decode(struct kw_slice text, uint8_t *bytes)
{
	const uint8_t *from = text.data;
	size_t length = text.length, padding = 0, out = 0;
	uint32_t group = 0;

	if (length == 0 || length % 4 != 0)
		return 0;
	while (padding < 2 && from[length - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < length; i++) {
		unsigned value = i < length - padding ? value_of(from[i]) : 0;

		if (value > 63)
			return 0;
		group = group << 6 | value;
		for (int shift = 16; i % 4 == 3 && shift >= 0; shift -= 8)
			if (out < length / 4 * 3 - padding)
				bytes[out++] = (uint8_t)(group >> shift);
	}
	return out;
}

size_t kw_base64_encode(struct kw_slice bytes, char *text)
{
	const uint8_t *from = bytes.data;
	size_t out = 0;

	for (size_t i = 0; i < bytes.length; i += 3) {
		size_t left = bytes.length - i;
		uint32_t group = (uint32_t)from[i] << 16 |
				 (uint32_t)(left > 1 ? from[i + 1] : 0) << 8 |
				 (uint32_t)(left > 2 ? from[i + 2] : 0);

		text[out++] = digits[group >> 18];
		text[out++] = digits[group >> 12 & 63];
		text[out++] = left > 1 ? digits[group >> 6 & 63] : '=';
		text[out++] = left > 2 ? digits[group & 63] : '=';
	}
	return out;
}
