/* DUMP payloads that are damaged, unknown or too large: refused, and never read beyond their end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "payload_digest.h"

typedef void (*pack_fn)(struct kw_buffer *out, const struct kw_slice *elements, size_t count);

static void the_text_of_a_string_is_handed_out_up_to_its_bound(void **state)
{
	struct kw_buffer payload = {0}, text = {0};
	char value[300];

	memset(value, 'k', sizeof value);
	kw_buffer_append(&text, "=", 1);
	build_begin(&payload, 0);
	build_lzf(&payload, kw_slice(value, sizeof value));
	build_end(&payload, 9);
	assert_int_equal(kw_payload_text(build_slice(&payload), 299, &text, NULL), KW_E_FULL);
	assert_int_equal(kw_buffer_length(&text), 1);
	assert_int_equal(kw_payload_text(build_slice(&payload), 300, &text, NULL), KW_OK);
	assert_int_equal(kw_buffer_length(&text), 301);
	assert_memory_equal(kw_buffer_bytes(&text) + 1, value, sizeof value);
	build_begin(&payload, 1);
	build_end(&payload, 9);
	assert_int_equal(kw_payload_text(build_slice(&payload), 300, &text, NULL), KW_E_ARGUMENT);
	kw_buffer_close(&payload);
	kw_buffer_close(&text);
}

static void check_refuses_every_flipped_bit(void **state)
{
	struct kw_buffer payload = {0};
	struct kw_error error;
	uint16_t version = 0;
	uint8_t *bytes;

	build_begin(&payload, 0);
	build_text(&payload, "hello");
	build_end(&payload, 80);
	assert_int_equal(kw_payload_check(build_slice(&payload), &version, &error), KW_OK);
	assert_int_equal(version, 80);
	bytes = payload.data + payload.start;
	for (size_t bit = 0; bit < 8 * kw_buffer_length(&payload); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(
			kw_payload_check(build_slice(&payload), &version, &error), KW_E_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t length = 0; length < kw_buffer_length(&payload); length++)
		assert_int_equal(
			kw_payload_check(kw_slice(bytes, length), NULL, &error), KW_E_CORRUPT);
	kw_buffer_close(&payload);
}

static void the_type_is_named_in_the_words_of_type(void **state)
{
	static const char *const names[] = {"string", "list", "set", "zset", "hash", "zset",
		"unknown", "module", "unknown", "hash", "list", "set", "zset", "hash", "list",
		"stream", "hash", "zset", "list", "stream", "set", "stream", "hash", "hash", "hash",
		"hash", "stream", "stream", "unknown"};
	struct kw_buffer payload = {0};

	for (uint8_t type = 0; type < sizeof names / sizeof *names; type++) {
		build_begin(&payload, type);
		build_end(&payload, 12);
		assert_string_equal(kw_payload_type_name(build_slice(&payload)), names[type]);
		build_begin(&payload, type);
		build_end(&payload, 80);
		assert_string_equal(kw_payload_type_name(build_slice(&payload)),
			type > 22 ? "unknown" : names[type]);
	}
	assert_string_equal(kw_payload_type_name(kw_slice("", 0)), "unknown");
	kw_buffer_close(&payload);
}

static void a_type_nobody_knows_is_left_to_the_caller(void **state)
{
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;
	struct kw_error error;

	build_begin(&payload, 28);
	build_text(&payload, "array");
	build_end(&payload, 14);
	assert_int_equal(kw_payload_digest(build_slice(&payload), &digest, &error), KW_E_PROTOCOL);
	assert_non_null(strstr(error.text, "28"));
	kw_buffer_close(&payload);
}

static void lengths_that_lie_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
	} bodies[] = {
		{"\x00\xc3\x04\x81\x7f\xff\xff\xff\xff\xff\xff\xff"
		 "abcd",
			16},                                              /* unpacks to 2^63 */
		{"\x00\xc3\x81\xff\xff\xff\xff\xff\xff\xff\xff\x05", 12}, /* packed: 2^64 - 1 */
		{"\x00\xc3\x02\x00"
		 "ab",
			6},                                           /* unpacks to nothing */
		{"\x00\xc4\x01", 3},                                  /* no such string encoding */
		{"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", 10},     /* string of 2^64 - 1 */
		{"\x00\x82\x01\x02\x03\x04", 6},                      /* no such length */
		{"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11}, /* 2^64 - 1 elements */
		{"\x04\x80\x80\x00\x00\x00\x01\x61", 8},              /* 2^31 fields */
		{"\x02\xc0\x05", 3},                                  /* an integer as a count */
		{"\x0b\x10\x03\x00\x00\x00\x01\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08", 18},
		{"\x0b\x10\x08\x00\x00\x00\xff\xff\xff\xff\x01\x02\x03\x04\x05\x06\x07\x08", 18},
		{"\x10\x07\x07\x00\x00\x00\x01\x00\xff", 9}, /* one element, none there */
		{"\x10\x0a\x0a\x00\x00\x00\x01\x00\x81\x61\x02\xff", 12}, /* field without value */
		{"\x10\x0a\x0a\x00\x00\x00\x01\x00\xf0\xff\x02\xff", 12}, /* text cut off */
		{"\x0a\x0e\x0e\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x05\xf1\xff", 15},
		{"\x12\x01\x03\x01\x61", 5}, /* no such list node */
		{"\x00\x01\x61\x62", 4},     /* a byte too many */
	};
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;
	struct kw_error error;

	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		build_begin(&payload, (uint8_t)bodies[i].bytes[0]);
		kw_buffer_append(&payload, bodies[i].bytes + 1, bodies[i].length - 1);
		build_end(&payload, 10);
		assert_int_equal(
			kw_payload_digest(build_slice(&payload), &digest, &error), KW_E_CORRUPT);
	}
	kw_buffer_close(&payload);
}

/* Digest a copy of exactly this length, so that ASan sees one byte too far. */
static void digest_copy(const uint8_t *bytes, size_t length)
{
	struct kw_buffer text = {0};
	struct kw_hash128 digest;
	uint8_t *copy = malloc(length ? length : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, length);
	kw_payload_digest(kw_slice(copy, length), &digest, NULL);
	kw_payload_text(kw_slice(copy, length), 64, &text, NULL);
	kw_payload_type_name(kw_slice(copy, length));
	kw_buffer_close(&text);
	free(copy);
}

static void damage(struct kw_buffer *payload)
{
	uint8_t *bytes = payload->data + payload->start;
	size_t length = kw_buffer_length(payload);

	for (size_t cut = 0; cut <= length; cut++)
		digest_copy(bytes, cut);
	for (size_t bit = 0; bit < 8 * length; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		digest_copy(bytes, length);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void damaged_payloads_are_refused_or_read_but_never_overrun(void **state)
{
	static const struct {
		uint8_t type;
		pack_fn pack;
	} packs[] = {{9, pack_zipmap}, {10, pack_ziplist}, {12, pack_ziplist}, {13, pack_ziplist},
		{16, pack_listpack}, {17, pack_listpack}, {20, pack_listpack}, {23, pack_listpack}};
	const struct kw_slice elements[] = {kw_slice_text("abc"), kw_slice_text("12"),
		kw_slice_text("300"), kw_slice_text("70000"), kw_slice_text("-9000000"),
		kw_slice_text("123456789012")};
	struct kw_buffer payload = {0}, inner = {0};

	for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) {
		kw_buffer_clear(&inner);
		packs[i].pack(&inner, elements, 6);
		build_begin(&payload, packs[i].type);
		build_string(&payload, build_slice(&inner));
		build_end(&payload, 10);
		damage(&payload);
	}
	for (uint8_t type = 15; type <= 21; type += type == 15 ? 4 : 2) {
		stream_build(&payload, type, 5, 6, type == 21);
		damage(&payload);
	}
	zset_begin(&payload, 3, "member", 1.5, "1.5");
	damage(&payload);
	build_begin(&payload, 24);
	build_u64(&payload, 1000);
	build_length(&payload, 1);
	build_length(&payload, 1);
	build_text(&payload, "field");
	build_integer(&payload, 70000);
	build_end(&payload, 12);
	damage(&payload);
	kw_buffer_close(&payload);
	kw_buffer_close(&inner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_of_a_string_is_handed_out_up_to_its_bound),
		cmocka_unit_test(check_refuses_every_flipped_bit),
		cmocka_unit_test(the_type_is_named_in_the_words_of_type),
		cmocka_unit_test(a_type_nobody_knows_is_left_to_the_caller),
		cmocka_unit_test(lengths_that_lie_are_refused),
		cmocka_unit_test(damaged_payloads_are_refused_or_read_but_never_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
