#include "fixture.h"
#include "table/view.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KEYS 60
#define TRIES 5

static struct fixture fixture;
static struct follower follower;

/* One segment with a few records of several lengths, published. */
static int prepare(void **state)
{
	fixture_open(&fixture, &(struct kw_table_options){0});
	for (uint32_t number = 0; number < KEYS; number++)
		fixture_put(&fixture, number, number, number * 3 % 50);
	for (uint32_t number = 0; number < KEYS; number += 5)
		fixture_put(&fixture, number, number + 1000, 20);
	fixture_publish(&fixture);
	follower_open(&follower, &fixture, &(struct kw_reader_options){.tries = TRIES});
	return 0;
}

static int clean_up(void **state)
{
	follower_close(&follower);
	fixture_close(&fixture);
	return 0;
}

static struct kw_superblock *superblock(void)
{
	return (struct kw_superblock *)fixture.memory.base;
}

static struct kw_directory_header *directory(void)
{
	return (struct kw_directory_header *)(fixture.memory.base + superblock()->directory_offset);
}

static struct kw_directory_segment *segments(void)
{
	return (struct kw_directory_segment *)(directory() + 1);
}

/* Everything handed on was written so; what is missing may be missing only if `missing` allows. */
static void assert_nothing_false(void)
{
	for (uint32_t number = 0; number < KEYS; number++)
		if (!follower_lacks(&follower, number))
			assert_true(follower_has(&follower, number, number, number * 3 % 50) ||
				    follower_has(&follower, number, number + 1000, 20));
}

/* Where in its record does this byte of the segment lie? */
static uint64_t offset_in_record(const uint8_t *segment, uint64_t byte)
{
	uint64_t at = 0;

	for (;;) {
		const struct kw_record *record = (const struct kw_record *)(segment + at);
		uint64_t stride = kw_record_stride(record->length);

		if (byte < at + stride)
			return byte - at;
		at += stride;
	}
}

static bool is_padding(const uint8_t *segment, uint64_t byte)
{
	uint64_t within = offset_in_record(segment, byte);
	const struct kw_record *record = (const struct kw_record *)(segment + byte - within);

	return within >= record->length;
}

static void no_flipped_byte_of_the_log_is_ever_applied(void **state)
{
	uint8_t *segment = fixture.memory.base + segments()[0].offset;
	uint64_t bytes = superblock()->head_bytes;

	assert_int_equal(directory()->segments, 1);
	assert_in_range(bytes, 1000, 16384);
	for (uint64_t byte = 0; byte < bytes; byte++) {
		bool harmless = is_padding(segment, byte);

		clean_up(state);
		prepare(state);
		segment = fixture.memory.base + segments()[0].offset;
		segment[byte] ^= 0xff;
		follower_start(&follower, NULL);
		assert_nothing_false();
		if (harmless)
			continue;
		assert_int_equal(follower.failures, 1);
		assert_int_equal(follower.error.code, KW_E_CORRUPT);
		assert_int_equal(follower.passes, 0);
		/* Enough to find the place: the segment's id and the offset in it. */
		assert_non_null(strstr(follower.error.text, "segment 1"));
		assert_int_equal(kw_reader_outstanding(follower.reader), 0);
	}
}

static int flips_left;
static uint64_t flip_offset;

/* Bytes that were sampled in the middle of a change: wrong a few times, then right. */
static void flip_a_few_times(struct follower *f, struct kw_read *read)
{
	if (flip_offset < read->offset || flip_offset >= read->offset + read->length ||
		flips_left == 0)
		return;
	flips_left--;
	read->buffer[flip_offset - read->offset] ^= 0x40;
}

static void what_was_torn_is_read_again_and_goes_on(void **state)
{
	const uint64_t places[] = {10, 100, superblock()->directory_offset + 60,
		segments()[0].offset + 500, segments()[0].offset + superblock()->head_bytes - 30};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		uint64_t retries;

		follower_close(&follower);
		follower_open(&follower, &fixture, &(struct kw_reader_options){.tries = TRIES});
		flip_offset = places[i];
		flips_left = TRIES - 2;
		follower.bend = flip_a_few_times;
		follower_start(&follower, NULL);
		retries = kw_reader_stats(follower.reader)->retries;
		assert_int_equal(flips_left, 0);
		assert_int_equal(follower.failures, 0);
		assert_int_equal(follower.passes, 1);
		assert_in_range(retries, TRIES - 2, 2 * TRIES);
		assert_int_equal(follower.records, KEYS);
		follower_assert_equal(&follower, KEYS);
	}
}

static void a_superblock_torn_for_ever_is_given_up(void **state)
{
	flip_offset = 50;
	flips_left = INT32_MAX;
	follower.bend = flip_a_few_times;
	follower_start(&follower, NULL);
	assert_int_equal(follower.failures, 1);
	assert_int_equal(follower.error.code, KW_E_CORRUPT);
	assert_in_range(INT32_MAX - flips_left, TRIES, TRIES + 1);
	assert_int_equal(follower.records, 0);
	assert_int_equal(kw_reader_outstanding(follower.reader), 0);
	/* The next attempt has all its tries again. */
	follower.bend = NULL;
	follower_start(&follower, NULL);
	assert_int_equal(follower.passes, 1);
}

static void a_directory_that_never_matches_is_given_up(void **state)
{
	directory()->publication += 7;
	kw_directory_seal(directory());
	follower_start(&follower, NULL);
	assert_int_equal(follower.failures, 1);
	assert_int_equal(follower.records, 0);
	assert_int_equal(follower.passes, 0);
}

static void another_layout_is_refused_at_once(void **state)
{
	superblock()->layout_version = KW_LAYOUT_VERSION + 1;
	kw_superblock_seal(superblock());
	follower_start(&follower, NULL);
	assert_int_equal(follower.failures, 1);
	assert_int_equal(follower.error.code, KW_E_PROTOCOL);
	assert_int_equal(kw_reader_stats(follower.reader)->retries, 0);
	assert_int_equal(follower.records, 0);
}

static void memory_that_is_no_table_is_refused(void **state)
{
	memset(fixture.memory.base, 0, 8192);
	follower_start(&follower, NULL);
	assert_int_equal(follower.failures, 1);
	memset(fixture.memory.base, 0xff, 8192);
	follower_start(&follower, NULL);
	assert_int_equal(follower.failures, 2);
	assert_int_equal(follower.records, 0);
}

/* Sealed, so the checksums hold: a hostile or broken proxy. */
static void a_lying_superblock_or_directory_leads_nowhere(void **state)
{
	for (int lie = 0; lie < 12; lie++) {
		struct kw_directory_header *header;
		struct kw_directory_segment *segment;

		clean_up(state);
		prepare(state);
		header = directory();
		segment = &segments()[0];
		switch (lie) {
		case 0:
			superblock()->head_bytes = segment->capacity + 8;
			break;
		case 1:
			superblock()->head_bytes = UINT64_MAX;
			break;
		case 2:
			superblock()->head_segment += 5;
			break;
		case 3:
			superblock()->head_bytes -= 4; /* ends within a record */
			break;
		case 4:
			superblock()->directory_bytes = 8;
			break;
		case 5:
			superblock()->directory_offset += 4; /* not aligned */
			break;
		case 6:
			superblock()->directory_bytes = UINT32_MAX;
			break;
		case 7:
			segment->offset = UINT64_MAX - 4095;
			break;
		case 8:
			segment->capacity = UINT64_C(1) << 60;
			break;
		case 9:
			segment->offset += 8; /* every record at another place than sealed for */
			break;
		case 10:
			superblock()->directory_offset = UINT64_C(1) << 50;
			break;
		case 11:
			superblock()->directory_offset = UINT64_MAX - 7;
			break;
		}
		kw_directory_seal(header);
		kw_superblock_seal(superblock());
		follower_start(&follower, NULL);
		assert_int_equal(follower.failures, 1);
		assert_int_equal(follower.passes, 0);
		assert_nothing_false();
		/* A superblock that no proxy writes is refused at once. */
		if (lie == 3 || lie == 4 || lie == 5 || lie == 6 || lie == 11) {
			assert_int_equal(follower.error.code, KW_E_PROTOCOL);
			assert_int_equal(kw_reader_stats(follower.reader)->retries, 0);
		}
	}
}

static void a_lying_head_cannot_reach_beyond_its_segment(void **state)
{
	/* The rest of the segment is zero: no record there, and it must not be taken for one. */
	superblock()->head_bytes = segments()[0].capacity;
	kw_superblock_seal(superblock());
	follower_start(&follower, NULL);
	assert_int_equal(follower.failures, 1);
	assert_int_equal(follower.error.code, KW_E_CORRUPT);
	assert_nothing_false();
}

static void corruption_met_in_the_tail_keeps_the_position(void **state)
{
	struct kw_cursor cursor;
	uint64_t offset;

	follower_start(&follower, NULL);
	cursor = (struct kw_cursor){follower.pass.epoch, follower.pass.consistent};
	offset = segments()[0].offset + superblock()->head_bytes;
	fixture_put(&fixture, 1, 1001, 20);
	fixture_publish(&fixture);
	fixture.memory.base[offset + KW_RECORD_HEADER + 3] ^= 1;
	follower_poll(&follower);
	assert_int_equal(follower.failures, 1);
	assert_int_equal(follower.error.code, KW_E_CORRUPT);
	assert_true(follower_has(&follower, 1, 1, 3));
	/* Mended, the same cursor goes on. */
	fixture.memory.base[offset + KW_RECORD_HEADER + 3] ^= 1;
	follower_start(&follower, &cursor);
	assert_true(follower_has(&follower, 1, 1001, 20));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, clean_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_flipped_byte_of_the_log_is_ever_applied),
		TEST(what_was_torn_is_read_again_and_goes_on),
		TEST(a_superblock_torn_for_ever_is_given_up),
		TEST(a_directory_that_never_matches_is_given_up),
		TEST(another_layout_is_refused_at_once),
		TEST(memory_that_is_no_table_is_refused),
		TEST(a_lying_superblock_or_directory_leads_nowhere),
		TEST(a_lying_head_cannot_reach_beyond_its_segment),
		TEST(corruption_met_in_the_tail_keeps_the_position),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
