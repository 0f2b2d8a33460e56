#include "payload_build.h"

#include "base/hash.h"
#include "rdb/payload_input.h"

#include <errno.h>
#include <lzf.h>
#include <stdio.h>
#include <stdlib.h>

static void put_byte(struct kw_buffer *out, unsigned byte)
{
	uint8_t one = (uint8_t)byte;

	kw_buffer_append(out, &one, 1);
}

static void put_little(struct kw_buffer *out, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		put_byte(out, (unsigned)(value >> (8 * i)) & 0xff);
}

static void put_big(struct kw_buffer *out, uint64_t value, unsigned bytes)
{
	for (unsigned i = bytes; i > 0; i--)
		put_byte(out, (unsigned)(value >> (8 * (i - 1))) & 0xff);
}

struct kw_slice build_slice(const struct kw_buffer *payload)
{
	return kw_slice(kw_buffer_bytes(payload), kw_buffer_length(payload));
}

void build_begin(struct kw_buffer *payload, uint8_t type)
{
	kw_buffer_clear(payload);
	put_byte(payload, type);
}

void build_end(struct kw_buffer *payload, uint16_t rdb_version)
{
	put_little(payload, rdb_version, 2);
	put_little(payload, kw_crc64(0, kw_buffer_bytes(payload), kw_buffer_length(payload)), 8);
}

void build_length(struct kw_buffer *out, uint64_t length)
{
	if (length < 64) {
		put_byte(out, (unsigned)length);
	} else if (length < 16384) {
		put_big(out, 0x4000 | length, 2);
	} else if (length <= UINT32_MAX) {
		put_byte(out, 0x80);
		put_big(out, length, 4);
	} else {
		put_byte(out, 0x81);
		put_big(out, length, 8);
	}
}

void build_u64(struct kw_buffer *out, uint64_t value)
{
	put_little(out, value, 8);
}

void build_double(struct kw_buffer *out, double value)
{
	kw_buffer_append(out, &value, sizeof value);
}

void build_string(struct kw_buffer *out, struct kw_slice string)
{
	build_length(out, string.length);
	kw_buffer_append(out, string.data, string.length);
}

void build_text(struct kw_buffer *out, const char *text)
{
	build_string(out, kw_slice_text(text));
}

void build_lzf(struct kw_buffer *out, struct kw_slice string)
{
	uint8_t *packed = kw_alloc(string.length);
	unsigned length = lzf_compress(
		string.data, (unsigned)string.length, packed, (unsigned)string.length - 1);

	if (length == 0)
		abort();
	put_byte(out, 0xc3);
	build_length(out, length);
	build_length(out, string.length);
	kw_buffer_append(out, packed, length);
	free(packed);
}

void build_integer(struct kw_buffer *out, int64_t value)
{
	if (value >= INT8_MIN && value <= INT8_MAX) {
		put_byte(out, 0xc0);
		put_little(out, (uint64_t)value, 1);
	} else if (value >= INT16_MIN && value <= INT16_MAX) {
		put_byte(out, 0xc1);
		put_little(out, (uint64_t)value, 2);
	} else {
		put_byte(out, 0xc2);
		put_little(out, (uint64_t)value, 4);
	}
}

/* Is the text exactly what an integer prints as? */
static bool is_integer(struct kw_slice text, int64_t *value)
{
	char copy[KW_DIGITS_MAX], again[KW_DIGITS_MAX];
	char *end;

	if (text.length == 0 || text.length >= sizeof copy)
		return false;
	memcpy(copy, text.data, text.length);
	copy[text.length] = '\0';
	errno = 0;
	*value = strtoll(copy, &end, 10);
	snprintf(again, sizeof again, "%lld", (long long)*value);
	return errno == 0 && *end == '\0' && strcmp(copy, again) == 0;
}

static bool fits(int64_t value, unsigned bits)
{
	return kw_sign_extend((uint64_t)value & (UINT64_MAX >> (64 - bits)), bits) == value;
}

static void put_listpack_integer(struct kw_buffer *out, int64_t value)
{
	if (value >= 0 && value < 128) {
		put_byte(out, (unsigned)value);
	} else if (fits(value, 13)) {
		put_big(out, 0xc000 | ((uint64_t)value & 0x1fff), 2);
	} else if (fits(value, 16)) {
		put_byte(out, 0xf1);
		put_little(out, (uint64_t)value, 2);
	} else if (fits(value, 24)) {
		put_byte(out, 0xf2);
		put_little(out, (uint64_t)value, 3);
	} else if (fits(value, 32)) {
		put_byte(out, 0xf3);
		put_little(out, (uint64_t)value, 4);
	} else {
		put_byte(out, 0xf4);
		put_little(out, (uint64_t)value, 8);
	}
}

static void put_listpack_text(struct kw_buffer *out, struct kw_slice text)
{
	if (text.length < 64) {
		put_byte(out, 0x80 | (unsigned)text.length);
	} else if (text.length < 4096) {
		put_big(out, 0xe000 | text.length, 2);
	} else {
		put_byte(out, 0xf0);
		put_little(out, text.length, 4);
	}
	kw_buffer_append(out, text.data, text.length);
}

/* The length backwards: 7 bits a byte, the last byte without the top bit set first. */
static void put_backwards(struct kw_buffer *out, uint64_t length)
{
	unsigned bytes = length <= 127 ? 1 : length < 16383 ? 2 : length < 2097151 ? 3 : 4;

	for (unsigned i = bytes; i > 0; i--)
		put_byte(out, (unsigned)(length >> (7 * (i - 1)) & 0x7f) | (i == bytes ? 0 : 0x80));
}

void pack_listpack(struct kw_buffer *out, const struct kw_slice *elements, size_t count)
{
	struct kw_buffer body = {0};
	int64_t value;

	for (size_t i = 0; i < count; i++) {
		size_t before = kw_buffer_length(&body);

		if (is_integer(elements[i], &value))
			put_listpack_integer(&body, value);
		else
			put_listpack_text(&body, elements[i]);
		put_backwards(&body, kw_buffer_length(&body) - before);
	}
	put_little(out, 7 + kw_buffer_length(&body), 4);
	put_little(out, count < UINT16_MAX ? count : UINT16_MAX, 2);
	kw_buffer_append(out, kw_buffer_bytes(&body), kw_buffer_length(&body));
	put_byte(out, 0xff);
	kw_buffer_close(&body);
}

static void put_ziplist_entry(struct kw_buffer *out, struct kw_slice text)
{
	int64_t value;

	if (!is_integer(text, &value)) {
		if (text.length < 64) {
			put_byte(out, (unsigned)text.length);
		} else if (text.length < 16384) {
			put_big(out, 0x4000 | text.length, 2);
		} else {
			put_byte(out, 0x80);
			put_big(out, text.length, 4);
		}
		kw_buffer_append(out, text.data, text.length);
	} else if (value >= 0 && value <= 12) {
		put_byte(out, 0xf1 + (unsigned)value);
	} else if (fits(value, 8)) {
		put_byte(out, 0xfe);
		put_little(out, (uint64_t)value, 1);
	} else if (fits(value, 16)) {
		put_byte(out, 0xc0);
		put_little(out, (uint64_t)value, 2);
	} else if (fits(value, 24)) {
		put_byte(out, 0xf0);
		put_little(out, (uint64_t)value, 3);
	} else if (fits(value, 32)) {
		put_byte(out, 0xd0);
		put_little(out, (uint64_t)value, 4);
	} else {
		put_byte(out, 0xe0);
		put_little(out, (uint64_t)value, 8);
	}
}

void pack_ziplist(struct kw_buffer *out, const struct kw_slice *elements, size_t count)
{
	struct kw_buffer body = {0};
	size_t before = 0, last = 0;

	for (size_t i = 0; i < count; i++) {
		last = kw_buffer_length(&body);
		if (before < 254) {
			put_byte(&body, (unsigned)before);
		} else {
			put_byte(&body, 254);
			put_little(&body, before, 4);
		}
		put_ziplist_entry(&body, elements[i]);
		before = kw_buffer_length(&body) - last;
	}
	put_little(out, 11 + kw_buffer_length(&body), 4);
	put_little(out, 10 + last, 4);
	put_little(out, count < UINT16_MAX ? count : UINT16_MAX, 2);
	kw_buffer_append(out, kw_buffer_bytes(&body), kw_buffer_length(&body));
	put_byte(out, 0xff);
	kw_buffer_close(&body);
}

void pack_zipmap(struct kw_buffer *out, const struct kw_slice *elements, size_t count)
{
	put_byte(out, count / 2 < 254 ? (unsigned)count / 2 : 254);
	for (size_t i = 0; i < count; i++) {
		unsigned unused = i % 2 == 1 ? (unsigned)i % 3 : 0; /* some room behind values */

		if (elements[i].length < 254) {
			put_byte(out, (unsigned)elements[i].length);
		} else {
			put_byte(out, 254);
			put_little(out, elements[i].length, 4);
		}
		if (i % 2 == 1)
			put_byte(out, unused);
		kw_buffer_append(out, elements[i].data, elements[i].length);
		kw_buffer_append(out, "???", unused);
	}
	put_byte(out, 0xff);
}

void pack_intset(struct kw_buffer *out, const int64_t *integers, size_t count, unsigned width)
{
	put_little(out, width, 4);
	put_little(out, count, 4);
	for (size_t i = 0; i < count; i++)
		put_little(out, (uint64_t)integers[i], width);
}
