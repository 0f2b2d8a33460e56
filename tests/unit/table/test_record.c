#include "table/record.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROOM 4096

static const struct kw_place home = {.epoch = 77, .segment = 12, .offset = 640};
static const char key[] = "user:1000";
static const char value[] = "\x00\x0ahelloworld\x0b\x00";

/* A sealed record in `bytes`; its length. */
static uint32_t build_expiring(uint8_t bytes[ROOM], enum kw_record_kind kind, size_t key_length,
	size_t value_length, uint64_t expires_ms)
{
	struct kw_record *record = (struct kw_record *)bytes;
	uint8_t key_bytes[ROOM], value_bytes[ROOM];

	for (size_t i = 0; i < key_length; i++)
		key_bytes[i] = (uint8_t)key[i % sizeof key];
	for (size_t i = 0; i < value_length; i++)
		value_bytes[i] = (uint8_t)value[i % sizeof value];
	memset(bytes, 0, ROOM);
	kw_record_write(record,
		&(struct kw_record_fields){kind, 9, kw_slice(key_bytes, key_length),
			kw_slice(value_bytes, value_length), expires_ms},
		500, &home);
	return record->length;
}

static uint32_t build(
	uint8_t bytes[ROOM], enum kw_record_kind kind, size_t key_length, size_t value_length)
{
	return build_expiring(bytes, kind, key_length, value_length, 1790000000000);
}

/* As a reader does it: plausible first, then the checksum. */
static int take(const uint8_t *bytes, const struct kw_place *place, struct kw_record_view *view)
{
	if (!kw_record_plausible(bytes, ROOM, ROOM))
		return KW_E_CORRUPT;
	return kw_record_parse(bytes, place, view);
}

static void a_whole_record_is_described_exactly(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record_view view;
	uint32_t length = build(bytes, KW_RECORD_PUT, 9, 13);

	assert_int_equal(take(bytes, &home, &view), KW_OK);
	assert_int_equal(view.length, length);
	assert_int_equal(length, KW_RECORD_HEADER + 8 + 22);
	assert_int_equal(view.version, 500);
	assert_int_equal(view.superseded_by, 0);
	assert_true(view.expires_ms == 1790000000000);
	assert_int_equal(view.database, 9);
	assert_int_equal(view.kind, KW_RECORD_PUT);
	assert_true(kw_slice_equal(view.key, kw_slice(key, 9)));
	assert_true(kw_slice_equal(view.value, kw_slice(value, 13)));
}

static void empty_keys_and_values_are_records_too(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record_view view;

	for (int shape = 0; shape < 4; shape++) {
		build(bytes, KW_RECORD_PUT, shape & 1 ? 5 : 0, shape & 2 ? 7 : 0);
		assert_int_equal(take(bytes, &home, &view), KW_OK);
		assert_int_equal(view.key.length, shape & 1 ? 5 : 0);
		assert_int_equal(view.value.length, shape & 2 ? 7 : 0);
	}
}

static void no_bit_can_flip_unnoticed(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	uint32_t length = build(bytes, KW_RECORD_PUT, 9, 13);
	struct kw_record_view view;

	for (size_t bit = 0; bit < length * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(take(bytes, &home, &view), KW_E_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(take(bytes, &home, &view), KW_OK);
}

static void superseded_by_must_lie_above_the_version(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record *record = (struct kw_record *)bytes;
	struct kw_record_view view;

	build(bytes, KW_RECORD_PUT, 9, 13);
	for (uint64_t by = 1; by <= 500; by++) {
		record->superseded_by = kw_superseded_word(record->checksum, by);
		assert_int_equal(take(bytes, &home, &view), KW_E_CORRUPT);
	}
	record->superseded_by = kw_superseded_word(record->checksum, 501);
	assert_int_equal(take(bytes, &home, &view), KW_OK);
	assert_int_equal(view.superseded_by, 501);
	/* From a head read before the successor was written, the record is still the newest. */
	assert_true(kw_record_live(&view, 500));
	assert_false(kw_record_live(&view, 501));
	view.superseded_by = 0;
	assert_true(kw_record_live(&view, 0));
}

/* A READ torn across a recycling: all checked bytes of the old life, this word of the new one. */
static void the_word_of_another_life_is_refused(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record *record = (struct kw_record *)bytes;
	struct kw_record_view view;
	uint64_t taken = 0;

	build(bytes, KW_RECORD_PUT, 9, 13);
	for (uint64_t other = 1; other <= 1000; other++) {
		record->superseded_by = kw_superseded_word((uint32_t)(other * 2654435761u), 0);
		taken += take(bytes, &home, &view) == KW_OK;
		record->superseded_by = other * 0x9E3779B97F4A7C15;
		taken += take(bytes, &home, &view) == KW_OK;
	}
	assert_in_range(taken, 0, 2); /* one in 65536 */
}

static void a_record_left_over_in_recycled_memory_is_refused(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record_view view;

	build(bytes, KW_RECORD_PUT, 9, 13);
	for (int bit = 0; bit < 64; bit++) {
		uint64_t flip = UINT64_C(1) << bit;
		struct kw_place epoch = home, segment = home, offset = home;

		epoch.epoch ^= flip;
		segment.segment ^= flip;
		offset.offset ^= flip;
		assert_int_equal(take(bytes, &epoch, &view), KW_E_CORRUPT);
		assert_int_equal(take(bytes, &segment, &view), KW_E_CORRUPT);
		assert_int_equal(take(bytes, &offset, &view), KW_E_CORRUPT);
	}
	/* Swapping the three must not come out even. */
	assert_int_equal(take(bytes, &(struct kw_place){12, 77, 640}, &view), KW_E_CORRUPT);
	assert_int_equal(take(bytes, &(struct kw_place){77, 640, 12}, &view), KW_E_CORRUPT);
}

static void a_lying_length_is_not_plausible(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record *record = (struct kw_record *)bytes;
	uint32_t length = build(bytes, KW_RECORD_PUT, 9, 13);

	assert_true(kw_record_plausible(bytes, length, length));
	assert_true(kw_record_plausible(bytes, KW_RECORD_HEADER, length));
	assert_false(kw_record_plausible(bytes, KW_RECORD_HEADER - 1, length));
	assert_false(kw_record_plausible(bytes, 0, length));
	assert_false(kw_record_plausible(bytes, length, length - 1));
	assert_false(kw_record_plausible(bytes, length, 0));
	record->length = KW_RECORD_HEADER - 1;
	assert_false(kw_record_plausible(bytes, ROOM, ROOM));
	record->length = 0;
	assert_false(kw_record_plausible(bytes, ROOM, ROOM));
	record->length = UINT32_MAX;
	assert_false(kw_record_plausible(bytes, ROOM, UINT64_MAX));
	record->length = KW_RECORD_LENGTH_MAX;
	assert_true(kw_record_plausible(bytes, ROOM, UINT64_MAX));
	assert_false(kw_record_plausible(bytes, ROOM, KW_RECORD_LENGTH_MAX - 1));
}

static void a_lying_key_length_is_not_plausible(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record *record = (struct kw_record *)bytes;

	build(bytes, KW_RECORD_PUT, 9, 13);
	for (uint32_t lie = 0; lie < 3; lie++) {
		uint32_t rest = record->what & ~KW_RECORD_KEY_MAX;

		record->what = rest | 22;
		assert_true(kw_record_plausible(bytes, ROOM, ROOM));
		record->what = rest | (lie == 0 ? 23 : lie == 1 ? 1 << 28 : KW_RECORD_KEY_MAX);
		assert_false(kw_record_plausible(bytes, ROOM, ROOM));
	}
}

/* An expiry that is announced takes its eight bytes of the length. */
static void a_lying_expiry_is_not_plausible(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record *record = (struct kw_record *)bytes;
	struct kw_record_view view;

	for (size_t body = 0; body < 16; body++) {
		uint32_t length = build_expiring(bytes, KW_RECORD_PUT, body, 0, 0);

		assert_int_equal(length, KW_RECORD_HEADER + body);
		assert_int_equal(take(bytes, &home, &view), KW_OK);
		assert_true(view.expires_ms == 0);
		record->what = (record->what & ~KW_RECORD_KEY_MAX) | KW_RECORD_EXPIRES;
		assert_int_equal(kw_record_plausible(bytes, ROOM, ROOM), body >= 8);
	}
}

static void unknown_kinds_are_not_plausible(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record *record = (struct kw_record *)bytes;

	for (uint32_t kind = 0; kind < 4; kind++) {
		build(bytes, KW_RECORD_PUT, 0, 0);
		record->what = kind << KW_RECORD_KIND_SHIFT;
		assert_int_equal(kw_record_plausible(bytes, ROOM, ROOM),
			kind >= KW_RECORD_PUT && kind <= KW_RECORD_FLUSH);
	}
}

/* Memory that was never written, or was wiped, must not look like an empty record. */
static void zeros_and_ones_are_no_record(void **state)
{
	_Alignas(8) uint8_t bytes[ROOM];
	struct kw_record_view view;

	memset(bytes, 0, sizeof bytes);
	assert_int_equal(take(bytes, &home, &view), KW_E_CORRUPT);
	memset(bytes, 0xff, sizeof bytes);
	assert_int_equal(take(bytes, &home, &view), KW_E_CORRUPT);
}

static void strides_keep_records_aligned(void **state)
{
	for (uint64_t length = 0; length < 100; length++) {
		assert_int_equal(kw_record_stride(length) % KW_RECORD_ALIGN, 0);
		assert_in_range(kw_record_stride(length), length, length + KW_RECORD_ALIGN - 1);
	}
	assert_true(kw_record_stride(KW_RECORD_LENGTH_MAX) >= KW_RECORD_LENGTH_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_record_is_described_exactly),
		cmocka_unit_test(empty_keys_and_values_are_records_too),
		cmocka_unit_test(no_bit_can_flip_unnoticed),
		cmocka_unit_test(superseded_by_must_lie_above_the_version),
		cmocka_unit_test(the_word_of_another_life_is_refused),
		cmocka_unit_test(a_record_left_over_in_recycled_memory_is_refused),
		cmocka_unit_test(a_lying_length_is_not_plausible),
		cmocka_unit_test(a_lying_key_length_is_not_plausible),
		cmocka_unit_test(a_lying_expiry_is_not_plausible),
		cmocka_unit_test(unknown_kinds_are_not_plausible),
		cmocka_unit_test(zeros_and_ones_are_no_record),
		cmocka_unit_test(strides_keep_records_aligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
