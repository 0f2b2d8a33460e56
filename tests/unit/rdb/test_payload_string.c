/* Strings as DUMP payloads: the bytes of each encoding, and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdb/payload.h"
#include "rdb/payload_string.h"

#define BYTES(text) text, sizeof text - 1

struct string_case {
	const char *text;
	const char *encoded; /* type byte and string */
	size_t encoded_bytes;
};

static const struct string_case cases[] = {
	{"", BYTES("\0\0")},
	{"a", BYTES("\0\1a")},
	/* Integers in their shortest form. */
	{"0", BYTES("\0\xc0\0")},
	{"-1", BYTES("\0\xc0\xff")},
	{"127", BYTES("\0\xc0\x7f")},
	{"128", BYTES("\0\xc1\x80\0")},
	{"-128", BYTES("\0\xc0\x80")},
	{"-129", BYTES("\0\xc1\x7f\xff")},
	{"32767", BYTES("\0\xc1\xff\x7f")},
	{"32768", BYTES("\0\xc2\0\x80\0\0")},
	{"-32769", BYTES("\0\xc2\xff\x7f\xff\xff")},
	{"2147483647", BYTES("\0\xc2\xff\xff\xff\x7f")},
	{"-2147483648", BYTES("\0\xc2\0\0\0\x80")},
	/* What looks like one and is none. */
	{"2147483648", BYTES("\0\x0a"
			     "2147483648")},
	{"-2147483649", BYTES("\0\x0b-2147483649")},
	{"-", BYTES("\0\1-")},
	{"-0", BYTES("\0\2-0")},
	{"00", BYTES("\0\2"
		     "00")},
	{"01", BYTES("\0\2"
		     "01")},
	{"-01", BYTES("\0\3-01")},
	{"+1", BYTES("\0\2+1")},
	{" 1", BYTES("\0\2 1")},
	{"1 ", BYTES("\0\2"
		     "1 ")},
	{"1.0", BYTES("\0\3"
		      "1.0")},
	/* Too short to compress. */
	{"aaaaaaaaaaaaaaaaaaaa", BYTES("\0\x14"
				       "aaaaaaaaaaaaaaaaaaaa")},
};

static void assert_back(const struct kw_buffer *payload, struct kw_slice text)
{
	const struct kw_slice whole = kw_slice(kw_buffer_bytes(payload), kw_buffer_length(payload));
	struct kw_buffer back = {0};
	struct kw_error error;
	uint16_t version;

	assert_int_equal(kw_payload_check(whole, &version, &error), KW_OK);
	assert_int_equal(version, 80);
	assert_int_equal(kw_payload_text(whole, text.length, &back, &error), KW_OK);
	assert_true(
		kw_slice_equal(kw_slice(kw_buffer_bytes(&back), kw_buffer_length(&back)), text));
	assert_true(whole.length <= text.length + KW_PAYLOAD_STRING_MORE);
	kw_buffer_close(&back);
}

static void each_string_has_the_bytes_that_a_server_writes(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct string_case *one = &cases[i];
		struct kw_buffer payload = {0};

		kw_payload_of_string(kw_slice_text(one->text), 80, i % 2, &payload);
		assert_int_equal(
			kw_buffer_length(&payload), one->encoded_bytes + KW_PAYLOAD_FOOTER);
		assert_memory_equal(kw_buffer_bytes(&payload), one->encoded, one->encoded_bytes);
		assert_back(&payload, kw_slice_text(one->text));
		kw_buffer_close(&payload);
	}
}

static void every_length_comes_back_whether_it_is_compressed_or_not(void **state)
{
	static const size_t lengths[] = {20, 21, 22, 63, 64, 65, 263, 16383, 16384, 16385, 300000};
	uint8_t *text = malloc(300000);

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		for (int kind = 0; kind < 4; kind++) {
			struct kw_buffer payload = {0};
			size_t n = 0;

			for (uint32_t dice = 7; n < lengths[i]; n++) {
				dice = dice * 1664525 + 1013904223;
				text[n] = kind < 2 ? 'a' : (uint8_t)(dice >> 24);
			}
			kw_payload_of_string(kw_slice(text, n), 80, kind % 2, &payload);
			assert_back(&payload, kw_slice(text, n));
			if (kind == 0 || kind == 3) /* not compressed, or nothing to gain */
				assert_true(kw_buffer_length(&payload) > n);
			if (kind == 1 && n > 20)
				assert_true(kw_buffer_length(&payload) <= n + 8);
			if (kind == 1 && n > 63)
				assert_true(kw_buffer_length(&payload) < n);
			kw_buffer_close(&payload);
		}
	}
	free(text);
}

static void a_payload_is_appended_after_what_is_there(void **state)
{
	struct kw_buffer out = {0}, alone = {0};

	kw_buffer_append(&out, "before", 6);
	kw_payload_of_string(kw_slice_text("value"), 11, true, &out);
	kw_payload_of_string(kw_slice_text("value"), 11, true, &alone);
	assert_int_equal(kw_buffer_length(&out), 6 + kw_buffer_length(&alone));
	assert_memory_equal(kw_buffer_bytes(&out), "before", 6);
	assert_memory_equal(
		kw_buffer_bytes(&out) + 6, kw_buffer_bytes(&alone), kw_buffer_length(&alone));
	kw_buffer_close(&out);
	kw_buffer_close(&alone);
}

static bool repacked(const struct kw_buffer *one, const struct kw_buffer *other, size_t most)
{
	return kw_payload_is_repacked(kw_slice(kw_buffer_bytes(one), kw_buffer_length(one)),
		kw_slice(kw_buffer_bytes(other), kw_buffer_length(other)), most);
}

static void a_string_is_the_same_packed_and_plain(void **state)
{
	static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	static const char longer[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	struct kw_buffer plain = {0}, packed = {0}, other = {0}, number = {0};

	kw_payload_of_string(kw_slice_text(text), 11, false, &plain);
	kw_payload_of_string(kw_slice_text(text), 80, true, &packed);
	kw_payload_of_string(kw_slice_text(longer), 11, true, &other);
	kw_payload_of_string(kw_slice_text("12345"), 11, false, &number);
	assert_true(repacked(&plain, &packed, 100));
	assert_true(repacked(&packed, &plain, 100));
	assert_true(repacked(&packed, &plain, sizeof text - 1));
	assert_false(repacked(&packed, &plain, sizeof text - 2));
	assert_false(repacked(&plain, &plain, 100)); /* equal bytes are the caller's business */
	assert_false(repacked(&plain, &other, 100));
	assert_false(repacked(&other, &plain, 100));
	assert_false(repacked(&number, &packed, 100));
	((uint8_t *)kw_buffer_bytes(&packed))[4] ^= 0x40; /* no LZF any more */
	assert_false(repacked(&plain, &packed, 100));
	assert_false(kw_payload_is_repacked(kw_slice("", 0), kw_slice("\0\xc3", 2), 100));
	kw_buffer_close(&plain);
	kw_buffer_close(&packed);
	kw_buffer_close(&other);
	kw_buffer_close(&number);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_string_has_the_bytes_that_a_server_writes),
		cmocka_unit_test(every_length_comes_back_whether_it_is_compressed_or_not),
		cmocka_unit_test(a_payload_is_appended_after_what_is_there),
		cmocka_unit_test(a_string_is_the_same_packed_and_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
