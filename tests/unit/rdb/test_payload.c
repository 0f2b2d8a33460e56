/* The canonical digest of DUMP payloads, over payloads made by hand in every encoding. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "payload_captured.h"
#include "payload_digest.h"

#define ELEMENTS_MAX 24

static const int64_t EXPIRY = 1893456000123; /* in 2030 */

/* A list of texts with every width of integer and every length class of a string. */
struct texts {
	struct kw_slice at[ELEMENTS_MAX];
	size_t count;
	char *long_text, *longer_text;
};

static void texts_fill(struct texts *texts, char letter)
{
	static const char *const words[] = {"a", "", "0", "12", "13", "-1", "127", "128", "-4096",
		"4095", "-32768", "32767", "8388607", "-8388608", "2147483647", "-2147483648",
		"9223372036854775807", "-9223372036854775808", "007", "1.5"};

	texts->count = 0;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		texts->at[texts->count++] = kw_slice_text(words[i]);
	texts->long_text = kw_alloc(301);
	memset(texts->long_text, letter, 301);
	texts->longer_text = kw_alloc(20000);
	memset(texts->longer_text, letter, 20000);
	texts->at[texts->count++] = kw_slice(texts->long_text, 300);
	texts->at[texts->count++] = kw_slice(texts->long_text, 301);
	texts->at[texts->count++] = kw_slice(texts->longer_text, 5000);
	texts->at[texts->count++] = kw_slice(texts->longer_text, 20000);
}

static void texts_close(struct texts *texts)
{
	free(texts->long_text);
	free(texts->longer_text);
}

typedef void (*pack_fn)(struct kw_buffer *out, const struct kw_slice *elements, size_t count);

static struct kw_hash128 packed_digest(
	uint8_t type, pack_fn pack, const struct kw_slice *elements, size_t count)
{
	struct kw_buffer inner = {0}, payload = {0};
	struct kw_hash128 digest;

	pack(&inner, elements, count);
	build_begin(&payload, type);
	build_string(&payload, build_slice(&inner));
	build_end(&payload, 9);
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&inner);
	kw_buffer_close(&payload);
	return digest;
}

/* Types 1, 2 (group 1), 4 (group 2): strings one after the other. */
static struct kw_hash128 plain_digest(
	uint8_t type, unsigned group, const struct kw_slice *elements, size_t count)
{
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;

	build_begin(&payload, type);
	build_length(&payload, count / group);
	for (size_t i = 0; i < count; i++)
		build_string(&payload, elements[i]);
	build_end(&payload, 9);
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&payload);
	return digest;
}

static struct kw_hash128 quicklist_digest(
	uint8_t type, const struct kw_slice *elements, size_t count, size_t node)
{
	struct kw_buffer payload = {0}, inner = {0};
	size_t nodes = (count + node - 1) / node;
	struct kw_hash128 digest;

	build_begin(&payload, type);
	build_length(&payload, nodes);
	for (size_t i = 0; i < count; i += node) {
		size_t here = count - i < node ? count - i : node;

		kw_buffer_clear(&inner);
		if (type == 14)
			pack_ziplist(&inner, elements + i, here);
		else if (here > 1)
			pack_listpack(&inner, elements + i, here);
		else
			kw_buffer_append(&inner, elements[i].data, elements[i].length);
		if (type == 18)
			build_length(&payload, here > 1 ? 2 : 1);
		build_string(&payload, build_slice(&inner));
	}
	build_end(&payload, 10);
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&payload);
	kw_buffer_close(&inner);
	return digest;
}

static void a_list_is_equal_in_every_encoding(void **state)
{
	struct kw_hash128 digest;
	struct texts texts;

	texts_fill(&texts, 'x');
	digest = plain_digest(1, 1, texts.at, texts.count);
	assert_same(digest, packed_digest(10, pack_ziplist, texts.at, texts.count));
	for (size_t node = 1; node <= texts.count; node++)
		assert_same(digest, quicklist_digest(14, texts.at, texts.count, node));
	for (size_t node = 1; node <= texts.count; node++)
		assert_same(digest, quicklist_digest(18, texts.at, texts.count, node));
	texts_close(&texts);
}

static void the_order_of_a_list_counts(void **state)
{
	struct kw_slice swapped[ELEMENTS_MAX];
	struct texts texts;

	texts_fill(&texts, 'x');
	for (size_t i = 0; i + 1 < texts.count; i++) {
		memcpy(swapped, texts.at, sizeof swapped);
		swapped[i] = texts.at[i + 1];
		swapped[i + 1] = texts.at[i];
		assert_other(plain_digest(1, 1, texts.at, texts.count),
			packed_digest(10, pack_ziplist, swapped, texts.count));
	}
	assert_other(plain_digest(1, 1, texts.at, texts.count),
		plain_digest(1, 1, texts.at, texts.count - 1));
	texts_close(&texts);
}

static void a_set_is_equal_in_every_encoding_and_order(void **state)
{
	struct kw_slice turned[ELEMENTS_MAX];
	struct kw_hash128 digest;
	struct texts texts;

	texts_fill(&texts, 'x');
	for (size_t i = 0; i < texts.count; i++)
		turned[i] = texts.at[texts.count - 1 - i];
	digest = plain_digest(2, 1, texts.at, texts.count);
	assert_same(digest, plain_digest(2, 1, turned, texts.count));
	assert_same(digest, packed_digest(20, pack_listpack, texts.at, texts.count));
	assert_same(digest, packed_digest(20, pack_listpack, turned, texts.count));
	assert_other(digest, plain_digest(2, 1, turned, texts.count - 1));
	assert_other(digest, plain_digest(1, 1, texts.at, texts.count));
	texts_close(&texts);
}

static struct kw_hash128 intset_digest(const int64_t *integers, size_t count, unsigned width)
{
	struct kw_buffer inner = {0}, payload = {0};
	struct kw_hash128 digest;

	pack_intset(&inner, integers, count, width);
	build_begin(&payload, 11);
	build_string(&payload, build_slice(&inner));
	build_end(&payload, 9);
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&inner);
	kw_buffer_close(&payload);
	return digest;
}

static void a_set_of_integers_is_equal_in_every_width(void **state)
{
	static const int64_t integers[] = {-32768, -1, 0, 7, 32767};
	const struct kw_slice texts[] = {kw_slice_text("7"), kw_slice_text("-1"),
		kw_slice_text("0"), kw_slice_text("32767"), kw_slice_text("-32768")};
	struct kw_hash128 digest = plain_digest(2, 1, texts, 5);

	assert_same(digest, intset_digest(integers, 5, 2));
	assert_same(digest, intset_digest(integers, 5, 4));
	assert_same(digest, intset_digest(integers, 5, 8));
	assert_same(digest, packed_digest(20, pack_listpack, texts, 5));
}

static void a_hash_is_equal_in_every_encoding_and_order(void **state)
{
	struct kw_slice turned[ELEMENTS_MAX], swapped[ELEMENTS_MAX];
	struct kw_hash128 digest;
	struct texts texts;

	texts_fill(&texts, 'x');
	for (size_t i = 0; i < texts.count; i += 2) {
		turned[i] = texts.at[texts.count - 2 - i];
		turned[i + 1] = texts.at[texts.count - 1 - i];
		swapped[i] = texts.at[i + 1];
		swapped[i + 1] = texts.at[i];
	}
	digest = plain_digest(4, 2, texts.at, texts.count);
	assert_same(digest, plain_digest(4, 2, turned, texts.count));
	assert_same(digest, packed_digest(9, pack_zipmap, texts.at, texts.count));
	assert_same(digest, packed_digest(13, pack_ziplist, turned, texts.count));
	assert_same(digest, packed_digest(16, pack_listpack, texts.at, texts.count));
	assert_other(digest, plain_digest(4, 2, swapped, texts.count));
	assert_other(digest, plain_digest(4, 2, texts.at, texts.count - 2));
	texts_close(&texts);
}

/* field, value, expiry in each of the forms that servers write. */
static struct kw_hash128 expiring_digest(uint8_t type, uint16_t version, int64_t expires_ms)
{
	const char *const fields[] = {"f1", "17", "f3"}, *const values[] = {"v1", "v2", "-5"};
	struct kw_buffer payload = {0}, inner = {0};
	struct kw_hash128 digest;
	char digits[32];

	build_begin(&payload, type);
	if (type == 24 || type == 25)
		build_u64(&payload, (uint64_t)expires_ms);
	if (type == 23 || type == 25) {
		struct kw_slice elements[9];

		snprintf(digits, sizeof digits, "%lld", (long long)expires_ms);
		for (int i = 0; i < 3; i++) {
			elements[3 * i] = kw_slice_text(fields[i]);
			elements[3 * i + 1] = kw_slice_text(values[i]);
			elements[3 * i + 2] = kw_slice_text(i == 1 ? digits : "0");
		}
		pack_listpack(&inner, elements, 9);
		build_string(&payload, build_slice(&inner));
	} else {
		build_length(&payload, 3);
		for (int i = 0; i < 3; i++) {
			uint64_t mine = i == 1 ? (uint64_t)expires_ms : 0;

			if (type == 24)
				build_length(&payload, mine ? 1 : 0);
			else if (type == 22 && version < 80)
				build_length(&payload, mine);
			build_text(&payload, fields[i]);
			build_text(&payload, values[i]);
			if (type == 22 && version >= 80)
				build_u64(&payload, mine ? mine : UINT64_MAX);
		}
	}
	build_end(&payload, version);
	assert_string_equal(kw_payload_type_name(build_slice(&payload)), "hash");
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&payload);
	kw_buffer_close(&inner);
	return digest;
}

static void the_expiry_of_a_field_is_part_of_the_digest(void **state)
{
	static const struct {
		uint8_t type;
		uint16_t version;
	} forms[] = {{22, 12}, {22, 80}, {23, 12}, {24, 12}, {25, 12}};
	struct kw_hash128 digest = expiring_digest(24, 12, EXPIRY);

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		assert_same(digest, expiring_digest(forms[i].type, forms[i].version, EXPIRY));
		assert_other(digest, expiring_digest(forms[i].type, forms[i].version, EXPIRY + 1));
	}
}

static void a_hash_whose_fields_do_not_expire_equals_a_plain_one(void **state)
{
	const struct kw_slice elements[] = {kw_slice_text("17"), kw_slice_text("v2"),
		kw_slice_text("f1"), kw_slice_text("v1"), kw_slice_text("f3"), kw_slice_text("-5")};
	struct kw_hash128 digest = plain_digest(4, 2, elements, 6);

	assert_same(digest, expiring_digest(22, 80, 0));
	assert_same(digest, expiring_digest(22, 12, 0));
	assert_same(digest, expiring_digest(25, 12, 0));
	assert_other(digest, expiring_digest(22, 80, EXPIRY));
}

static void what_redis_8_wrote_is_understood(void **state)
{
	struct kw_slice packed = kw_slice(captured_listpack_ex, sizeof captured_listpack_ex);
	struct kw_slice plain = kw_slice(captured_metadata, sizeof captured_metadata);

	assert_int_equal(captured_listpack_ex[0], 25);
	assert_int_equal(captured_metadata[0], 24);
	assert_same(digest_of(packed), digest_of(plain));
}

static struct kw_hash128 zset_digest(
	uint8_t type, const char *member, double score, const char *text)
{
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;

	zset_begin(&payload, type, member, score, text);
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&payload);
	return digest;
}

static void a_score_is_equal_in_every_form(void **state)
{
	static const struct {
		double number;
		const char *text;
	} scores[] = {{0, "0"}, {-0.0, "-0"}, {1, "1"}, {-17, "-17"}, {1.5, "1.5"},
		{0.1, "0.10000000000000001"}, {0.1, "0.1"}, {1e20, "1e+20"},
		{9007199254740992.0, "9007199254740992"}, {3.0517578125e-05, "3.0517578125e-05"},
		{INFINITY, "inf"}, {-INFINITY, "-inf"},
		{4611686018427387904.0, "4611686018427387904"},
		{1.7976931348623157e308, "1.7976931348623157e+308"},
		{5e-324, "4.9406564584124654e-324"}};
	static const uint8_t types[] = {3, 12, 17};

	for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
		struct kw_hash128 digest = zset_digest(5, "m", scores[i].number, NULL);

		for (size_t t = 0; t < sizeof types; t++)
			assert_same(digest,
				zset_digest(types[t], "m", scores[i].number, scores[i].text));
		assert_other(digest, zset_digest(5, "n", scores[i].number, NULL));
		assert_other(digest, zset_digest(5, "m", 2.25, NULL));
	}
	assert_same(zset_digest(5, "m", 0.0, NULL), zset_digest(5, "m", -0.0, NULL));
}

static void a_score_that_is_no_number_is_refused(void **state)
{
	static const char *const texts[] = {"", "nan", "1.5x", "x", "--1"};
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;

	zset_begin(&payload, 5, "m", NAN, NULL);
	assert_int_equal(kw_payload_digest(build_slice(&payload), &digest, NULL), KW_E_CORRUPT);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		zset_begin(&payload, 17, "m", 0, texts[i]);
		assert_int_equal(
			kw_payload_digest(build_slice(&payload), &digest, NULL), KW_E_CORRUPT);
	}
	kw_buffer_close(&payload);
}

static void a_string_is_equal_in_every_encoding(void **state)
{
	static const int64_t integers[] = {
		0, -1, 127, -128, 128, 32767, -32768, 65536, INT32_MAX, INT32_MIN};
	struct kw_buffer payload = {0};
	char text[1000];

	for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
		struct kw_hash128 digest;

		snprintf(text, sizeof text, "%lld", (long long)integers[i]);
		build_begin(&payload, 0);
		build_text(&payload, text);
		build_end(&payload, 9);
		digest = digest_of(build_slice(&payload));
		build_begin(&payload, 0);
		build_integer(&payload, integers[i]);
		build_end(&payload, 12);
		assert_same(digest, digest_of(build_slice(&payload)));
	}
	memset(text, 'z', sizeof text);
	build_begin(&payload, 0);
	build_string(&payload, kw_slice(text, sizeof text));
	build_end(&payload, 9);
	{
		struct kw_hash128 digest = digest_of(build_slice(&payload));

		build_begin(&payload, 0);
		build_lzf(&payload, kw_slice(text, sizeof text));
		build_end(&payload, 9);
		assert_same(digest, digest_of(build_slice(&payload)));
	}
	kw_buffer_close(&payload);
}

static void a_module_value_is_compared_by_its_bytes(void **state)
{
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;

	build_begin(&payload, 7);
	kw_buffer_append(&payload, "\x81\x01\x02\x03", 4);
	build_end(&payload, 11);
	digest = digest_of(build_slice(&payload));
	build_begin(&payload, 7);
	kw_buffer_append(&payload, "\x81\x01\x02\x03", 4);
	build_end(&payload, 12);
	assert_same(digest, digest_of(build_slice(&payload)));
	build_begin(&payload, 7);
	kw_buffer_append(&payload, "\x81\x01\x02\x04", 4);
	build_end(&payload, 12);
	assert_other(digest, digest_of(build_slice(&payload)));
	kw_buffer_close(&payload);
}

static struct kw_hash128 stream_digest(
	uint8_t type, uint64_t seen, uint64_t active, bool compressed)
{
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;

	stream_build(&payload, type, seen, active, compressed);
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&payload);
	return digest;
}

static void a_stream_is_equal_whether_compressed_or_of_the_version_before(void **state)
{
	struct kw_hash128 digest = stream_digest(21, 77, 77, false);

	assert_same(digest, stream_digest(21, 77, 77, true));
	assert_same(digest, stream_digest(19, 77, 0, false));
	assert_same(stream_digest(15, 77, 0, false), stream_digest(15, 77, 0, true));
	assert_other(digest, stream_digest(21, 77, 78, false));
	assert_other(digest, stream_digest(21, 78, 78, false));
	assert_other(digest, stream_digest(15, 77, 77, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_equal_in_every_encoding),
		cmocka_unit_test(the_order_of_a_list_counts),
		cmocka_unit_test(a_set_is_equal_in_every_encoding_and_order),
		cmocka_unit_test(a_set_of_integers_is_equal_in_every_width),
		cmocka_unit_test(a_hash_is_equal_in_every_encoding_and_order),
		cmocka_unit_test(the_expiry_of_a_field_is_part_of_the_digest),
		cmocka_unit_test(a_hash_whose_fields_do_not_expire_equals_a_plain_one),
		cmocka_unit_test(what_redis_8_wrote_is_understood),
		cmocka_unit_test(a_score_is_equal_in_every_form),
		cmocka_unit_test(a_score_that_is_no_number_is_refused),
		cmocka_unit_test(a_string_is_equal_in_every_encoding),
		cmocka_unit_test(a_module_value_is_compared_by_its_bytes),
		cmocka_unit_test(a_stream_is_equal_whether_compressed_or_of_the_version_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
