#include "table/runs.h"
#include "table/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SEGMENTS 3
#define EXTENTS 2
#define SEGMENT_BYTES 4096

/* A directory of known shape, for tests that bend one thing in it. */
struct image {
	struct kw_directory_header header;
	struct kw_directory_segment segments[SEGMENTS];
	struct kw_extent extents[EXTENTS];
};

static struct kw_superblock superblock;
static struct image image;

static int build(void **state)
{
	image = (struct image){
		.header =
			{
				.magic = KW_DIRECTORY_MAGIC,
				.epoch = 5,
				.publication = 9,
				.bytes = sizeof image,
				.segments = SEGMENTS,
				.extents = EXTENTS,
			},
		.segments =
			{
				{3, 65536, SEGMENT_BYTES, 104, 1, 7},
				{4, 16384, SEGMENT_BYTES, SEGMENT_BYTES, 2, 2},
				{9, 20480, SEGMENT_BYTES, 0, 0, 0},
			},
		.extents = {{0, 32768, 0, 0, 0}, {65536, 32768, 0, 0, 0}},
	};
	superblock = (struct kw_superblock){
		.magic = KW_SUPERBLOCK_MAGIC,
		.layout_version = KW_LAYOUT_VERSION,
		.epoch = 5,
		.publication = 30,
		.head_segment = 9,
		.head_bytes = 16,
		.directory_publication = 9,
		.directory_offset = 4096,
		.directory_bytes = sizeof image,
	};
	return 0;
}

static int parse(struct kw_directory *directory)
{
	struct kw_error error = {0};
	int code;

	kw_directory_seal(&image.header);
	code = kw_directory_parse(&image, sizeof image, &superblock, directory, &error);
	if (code != KW_OK) {
		assert_int_equal(error.code, code);
		assert_true(strlen(error.text) > 0);
	}
	return code;
}

static int refused(void)
{
	struct kw_directory directory;

	return parse(&directory);
}

static void a_whole_directory_is_found_through(void **state)
{
	struct kw_directory directory;

	assert_int_equal(parse(&directory), KW_OK);
	assert_ptr_equal(directory.segments, image.segments);
	assert_ptr_equal(directory.extents, image.extents);
	assert_ptr_equal(kw_directory_find(&directory, 3), &directory.segments[0]);
	assert_ptr_equal(kw_directory_find(&directory, 4), &directory.segments[1]);
	assert_ptr_equal(kw_directory_find(&directory, 9), &directory.segments[2]);
	assert_null(kw_directory_find(&directory, 0));
	assert_null(kw_directory_find(&directory, 5));
	assert_null(kw_directory_find(&directory, 10));
	assert_null(kw_directory_find(&directory, UINT64_MAX));
}

static void an_offset_leads_to_the_segment_that_holds_it(void **state)
{
	struct kw_directory directory;
	struct kw_runs runs = {0};

	assert_int_equal(parse(&directory), KW_OK);
	kw_runs_make(&runs, &directory);
	assert_ptr_equal(kw_runs_find(&runs, &directory, 16384), &directory.segments[1]);
	assert_ptr_equal(kw_runs_find(&runs, &directory, 20479), &directory.segments[1]);
	assert_ptr_equal(kw_runs_find(&runs, &directory, 20480), &directory.segments[2]);
	assert_ptr_equal(kw_runs_find(&runs, &directory, 65536 + 4095), &directory.segments[0]);
	assert_null(kw_runs_find(&runs, &directory, 0));
	assert_null(kw_runs_find(&runs, &directory, 16383));
	assert_null(kw_runs_find(&runs, &directory, 65536 + 4096));
	assert_null(kw_runs_find(&runs, &directory, UINT64_MAX));
	kw_runs_close(&runs);
}

/* Against a scan of all segments, with random gaps between them. */
static void any_number_of_segments_is_found_by_offset(void **state)
{
	struct kw_directory_segment segments[200];
	struct kw_directory_header header = {0};
	const struct kw_directory directory = {&header, segments, NULL};
	struct kw_runs runs = {0};

	srand(1);
	for (uint32_t count = 0; count <= 200; count++) {
		uint64_t end = 0;

		for (uint32_t i = 0; i < count; i++) {
			segments[i] = (struct kw_directory_segment){
				.offset = end + (uint64_t)(rand() % 3) * 64,
				.capacity = (uint64_t)(rand() % 5) * 64};
			end = segments[i].offset + segments[i].capacity;
		}
		for (uint32_t i = count; i > 1; i--) { /* ids are in no order of the offsets */
			uint32_t other = (uint32_t)rand() % i;
			struct kw_directory_segment moved = segments[i - 1];

			segments[i - 1] = segments[other];
			segments[other] = moved;
		}
		header.segments = count;
		kw_runs_make(&runs, &directory);
		for (uint64_t offset = 0; offset < end + 128; offset += 32) {
			const struct kw_directory_segment *found = NULL;

			for (uint32_t i = 0; i < count; i++)
				if (offset >= segments[i].offset &&
					offset < segments[i].offset + segments[i].capacity)
					found = &segments[i];
			assert_ptr_equal(kw_runs_find(&runs, &directory, offset), found);
		}
	}
	kw_runs_close(&runs);
}

static void reads_are_bounded_by_the_extents(void **state)
{
	struct kw_directory directory;

	assert_int_equal(parse(&directory), KW_OK);
	assert_true(kw_directory_covers(&directory, 0, 32768));
	assert_true(kw_directory_covers(&directory, 65536, 32768));
	assert_true(kw_directory_covers(&directory, 98303, 1));
	assert_false(kw_directory_covers(&directory, 0, 32769));
	assert_false(kw_directory_covers(&directory, 98303, 2));
	assert_false(kw_directory_covers(&directory, 40000, 8));
	assert_false(kw_directory_covers(&directory, 32760, 40000));
	assert_false(kw_directory_covers(&directory, UINT64_MAX - 7, 8));
	assert_false(kw_directory_covers(&directory, 8, UINT64_MAX));
	assert_false(kw_directory_covers(&directory, 65536, UINT64_MAX - 65535));
}

static void adjoining_extents_count_as_one(void **state)
{
	struct kw_directory directory;

	image.extents[1].offset = 32768;
	image.segments[0].offset = 32768 - 2048;
	assert_int_equal(parse(&directory), KW_OK);
	assert_true(kw_directory_covers(&directory, 0, 65536));
	assert_false(kw_directory_covers(&directory, 0, 65537));
}

static void no_bit_can_flip_unnoticed(void **state)
{
	struct kw_directory directory;
	struct kw_error error;
	uint8_t *bytes = (uint8_t *)&image;

	kw_directory_seal(&image.header);
	for (size_t bit = 0; bit < sizeof image * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(
			kw_directory_parse(&image, sizeof image, &superblock, &directory, &error),
			KW_OK);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(
		kw_directory_parse(&image, sizeof image, &superblock, &directory, &error), KW_OK);
}

static void no_cut_is_taken_for_the_whole(void **state)
{
	struct kw_directory directory;

	kw_directory_seal(&image.header);
	for (size_t length = 0; length < sizeof image; length += 8)
		assert_int_equal(kw_directory_parse(&image, length, &superblock, &directory, NULL),
			KW_E_CORRUPT);
}

static void a_directory_of_another_publication_or_epoch_is_gone(void **state)
{
	superblock.directory_publication = 10;
	assert_int_equal(refused(), KW_E_GONE);
	build(state);
	superblock.epoch = 6;
	assert_int_equal(refused(), KW_E_GONE);
}

static void lying_counts_are_refused(void **state)
{
	const uint32_t lies[] = {0, 1, SEGMENTS - 1, SEGMENTS + 1, 0x55555556, UINT32_MAX};

	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		build(state);
		image.header.segments = lies[i];
		assert_int_equal(refused(), KW_E_CORRUPT);
		build(state);
		if (lies[i] == EXTENTS)
			continue;
		image.header.extents = lies[i];
		assert_int_equal(refused(), KW_E_CORRUPT);
	}
	/* Two counts that cancel out in 32 bits: 2^28 more segments of 48 bytes are 0 modulo 2^32.
	 */
	build(state);
	image.header.segments += UINT32_C(1) << 28;
	assert_int_equal(refused(), KW_E_CORRUPT);
}

static void impossible_extents_are_refused(void **state)
{
	image.extents[1].offset = 32767;
	assert_int_equal(refused(), KW_E_CORRUPT); /* overlaps the first */
	build(state);
	image.extents[0] = (struct kw_extent){65536, 32768, 0, 0, 0};
	image.extents[1] = (struct kw_extent){0, 32768, 0, 0, 0};
	assert_int_equal(refused(), KW_E_CORRUPT); /* out of order */
	build(state);
	image.extents[1].length = 0;
	assert_int_equal(refused(), KW_E_CORRUPT);
	build(state);
	image.extents[1].length = UINT64_MAX - 65535;
	assert_int_equal(refused(), KW_E_CORRUPT); /* runs over the end of all offsets */
}

static void impossible_segments_are_refused(void **state)
{
	image.segments[1].id = 3;
	assert_int_equal(refused(), KW_E_CORRUPT); /* the same id twice */
	build(state);
	image.segments[0].id = 5;
	assert_int_equal(refused(), KW_E_CORRUPT); /* out of order */
	build(state);
	image.segments[0].id = 0;
	assert_int_equal(refused(), KW_E_CORRUPT); /* no generation */
	build(state);
	image.segments[0].committed = SEGMENT_BYTES + 1;
	assert_int_equal(refused(), KW_E_CORRUPT);
	build(state);
	image.segments[0].committed = 100;
	assert_int_equal(refused(), KW_E_CORRUPT); /* ends within a record */
	build(state);
	image.segments[0].lowest_version = 8;
	assert_int_equal(refused(), KW_E_CORRUPT);
	build(state);
	image.segments[0].offset = 65540;
	assert_int_equal(refused(), KW_E_CORRUPT); /* records would not be aligned */
	build(state);
	image.segments[0].offset = 98304 - SEGMENT_BYTES + 8;
	assert_int_equal(refused(), KW_E_CORRUPT); /* beyond the extent */
	build(state);
	image.segments[0].offset = 40000;
	assert_int_equal(refused(), KW_E_CORRUPT); /* between the extents */
	build(state);
	image.segments[0].offset = UINT64_MAX - 7;
	assert_int_equal(refused(), KW_E_CORRUPT);
	build(state);
	image.segments[0].capacity = UINT64_MAX - 7;
	image.segments[0].committed = UINT64_MAX - 7;
	assert_int_equal(refused(), KW_E_CORRUPT);
}

/* Sealed and of the right publication, yet with one thing in it that no proxy writes. */
static void a_directory_without_room_for_the_head_is_refused(void **state)
{
	static const struct {
		uint64_t segment, bytes;
		int code;
	} cases[] = {
		{9, 0, KW_OK},
		{9, SEGMENT_BYTES, KW_OK},
		{3, 16, KW_OK},
		{9, SEGMENT_BYTES + 8, KW_E_CORRUPT},
		{9, UINT64_MAX - 7, KW_E_CORRUPT},
		{8, 16, KW_E_CORRUPT},
		{10, 16, KW_E_CORRUPT},
		{UINT64_MAX, 16, KW_E_CORRUPT},
	};
	struct kw_directory directory;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		build(state);
		assert_int_equal(parse(&directory), KW_OK);
		superblock.head_segment = cases[i].segment;
		superblock.head_bytes = cases[i].bytes;
		assert_int_equal(kw_directory_match(&directory, &superblock, NULL), cases[i].code);
		assert_int_equal(refused(), cases[i].code);
	}
}

static void a_known_directory_is_matched_with_each_superblock(void **state)
{
	struct kw_directory directory, none = {0};

	assert_int_equal(parse(&directory), KW_OK);
	assert_int_equal(kw_directory_match(&directory, &superblock, NULL), KW_OK);
	assert_int_equal(kw_directory_match(&none, &superblock, NULL), KW_E_GONE);
	superblock.directory_publication++;
	assert_int_equal(kw_directory_match(&directory, &superblock, NULL), KW_E_GONE);
	build(state);
	superblock.epoch++;
	assert_int_equal(kw_directory_match(&directory, &superblock, NULL), KW_E_GONE);
	build(state);
	superblock.publication++; /* a later superblock, the same directory */
	assert_int_equal(kw_directory_match(&directory, &superblock, NULL), KW_OK);
}

/* The checksum holds in all of them. */
static void a_superblock_tells_only_what_a_proxy_can_write(void **state)
{
	static const struct {
		uint64_t offset, head_segment, head_bytes;
		uint32_t bytes;
		int code;
	} cases[] = {
		{4096, 9, 16, sizeof image, KW_OK},
		{4096, 1, 0, sizeof(struct kw_directory_header), KW_OK},
		{4104, 9, 16, KW_DIRECTORY_BYTES_MAX, KW_OK}, {4096, 9, 16, 0, KW_E_PROTOCOL},
		{4096, 9, 16, sizeof(struct kw_directory_header) - 1, KW_E_PROTOCOL},
		{4096, 9, 16, KW_DIRECTORY_BYTES_MAX + 1, KW_E_PROTOCOL},
		{4096, 9, 16, UINT32_MAX, KW_E_PROTOCOL},
		{4100, 9, 16, sizeof image, KW_E_PROTOCOL}, /* not aligned */
		{4088, 9, 16, sizeof image, KW_E_PROTOCOL}, /* within superblock and root */
		{0, 9, 16, sizeof image, KW_E_PROTOCOL},
		{UINT64_MAX - 7, 9, 16, sizeof image, KW_E_PROTOCOL}, /* runs over the end */
		{4096, 0, 16, sizeof image, KW_E_PROTOCOL},           /* no segment has this id */
		{4096, 9, 20, sizeof image, KW_E_PROTOCOL},           /* ends within a record */
	};
	struct kw_error error;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		superblock.directory_offset = cases[i].offset;
		superblock.directory_bytes = cases[i].bytes;
		superblock.head_segment = cases[i].head_segment;
		superblock.head_bytes = cases[i].head_bytes;
		kw_superblock_seal(&superblock);
		assert_int_equal(kw_superblock_check(&superblock, &error), cases[i].code);
		assert_int_equal(kw_superblock_check(&superblock, NULL), cases[i].code);
	}
}

/* A reader may take 0 for "no table is known". */
static void no_table_has_epoch_0(void **state)
{
	struct kw_error error;

	kw_superblock_seal(&superblock);
	assert_int_equal(kw_superblock_check(&superblock, &error), KW_OK);
	superblock.epoch = 0;
	kw_superblock_seal(&superblock);
	assert_int_equal(kw_superblock_check(&superblock, &error), KW_E_PROTOCOL);
	assert_int_equal(kw_superblock_check(&superblock, NULL), KW_E_PROTOCOL);
}

/* As the READ of a directory would: into the sink. */
static int read_into(struct kw_view *view)
{
	kw_directory_seal(&image.header);
	memcpy(kw_view_sink(view, &superblock), &image, sizeof image);
	return kw_view_take(view, &superblock, NULL);
}

static void a_view_keeps_its_directory_until_the_next_one_verifies(void **state)
{
	struct kw_view view = {0};

	assert_int_equal(kw_directory_match(&view.directory, &superblock, NULL), KW_E_GONE);
	assert_int_equal(read_into(&view), KW_OK);
	assert_int_equal(kw_directory_match(&view.directory, &superblock, NULL), KW_OK);
	image.header.extents++;
	assert_int_equal(read_into(&view), KW_E_CORRUPT);
	assert_int_equal(kw_directory_match(&view.directory, &superblock, NULL), KW_OK);
	assert_int_equal(view.directory.segments[2].id, 9);
	build(state);
	image.header.publication = superblock.directory_publication = 10;
	assert_int_equal(read_into(&view), KW_OK);
	assert_int_equal(view.directory.header->publication, 10);
	kw_view_forget(&view);
	assert_int_equal(kw_directory_match(&view.directory, &superblock, NULL), KW_E_GONE);
	kw_view_close(&view);
}

static void no_bit_of_a_superblock_can_flip_unnoticed(void **state)
{
	struct kw_error error;
	uint8_t *bytes = (uint8_t *)&superblock;

	kw_superblock_seal(&superblock);
	assert_int_equal(kw_superblock_check(&superblock, &error), KW_OK);
	for (size_t bit = 0; bit < sizeof superblock * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(kw_superblock_check(&superblock, &error), KW_E_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	memset(&superblock, 0, sizeof superblock);
	assert_int_equal(kw_superblock_check(&superblock, &error), KW_E_CORRUPT);
}

static void a_superblock_of_another_layout_names_both_versions(void **state)
{
	struct kw_error error;
	char ours[24], theirs[24];

	snprintf(ours, sizeof ours, "reads layout %d", KW_LAYOUT_VERSION);
	snprintf(theirs, sizeof theirs, "layout %d,", KW_LAYOUT_VERSION + 41);
	superblock.layout_version = KW_LAYOUT_VERSION + 41;
	kw_superblock_seal(&superblock);
	assert_int_equal(kw_superblock_check(&superblock, &error), KW_E_PROTOCOL);
	assert_non_null(strstr(error.text, theirs));
	assert_non_null(strstr(error.text, ours));
	assert_non_null(strstr(error.text, "upgrade this program"));
	superblock.layout_version = KW_LAYOUT_VERSION - 1;
	kw_superblock_seal(&superblock);
	assert_int_equal(kw_superblock_check(&superblock, &error), KW_E_PROTOCOL);
	assert_non_null(strstr(error.text, "upgrade the proxy"));
	superblock.layout_version = KW_LAYOUT_VERSION;
	superblock.magic = 0x12345678;
	kw_superblock_seal(&superblock);
	assert_int_equal(kw_superblock_check(&superblock, &error), KW_E_PROTOCOL);
	assert_int_equal(kw_superblock_check(&superblock, NULL), KW_E_PROTOCOL);
}

static void an_index_root_is_whole_or_refused(void **state)
{
	struct kw_index_root root = {
		.magic = KW_INDEX_MAGIC,
		.overflow = 64,
		.offset = 65536,
		.slots = 1024,
		.grown_slots = 2048,
		.hash_seed = 3,
	};
	struct kw_error error;
	uint8_t *bytes = (uint8_t *)&root;

	kw_index_root_seal(&root);
	assert_int_equal(kw_index_root_check(&root, &error), KW_OK);
	for (size_t bit = 0; bit < sizeof root * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(kw_index_root_check(&root, &error), KW_E_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	root.grown_slots = 1023;
	kw_index_root_seal(&root);
	assert_int_not_equal(kw_index_root_check(&root, &error), KW_OK);
	root.slots = root.grown_slots = 0;
	kw_index_root_seal(&root);
	assert_int_not_equal(kw_index_root_check(&root, &error), KW_OK);
	root.slots = root.grown_slots = 1024;
	root.magic++;
	kw_index_root_seal(&root);
	assert_int_not_equal(kw_index_root_check(&root, &error), KW_OK);
}

/* An upgrade: superblock and index root, recorded from a proxy of version 0.1. */
static void a_table_of_version_0_1_is_read(void **state)
{
	/* clang-format off */
	static const uint8_t recorded[] = {
		0x53, 0x4b, 0x57, 0x31, 0x02, 0x00, 0x02, 0x01, 0x6a, 0x7d, 0xbc, 0x99, 0x99, 0xbe, 0x40, 0x38,
		0x3e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x18, 0xf6, 0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbc, 0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb8, 0x00, 0x00, 0x00, 0x0a, 0x00, 0x00, 0x00,
		0x52, 0x18, 0x06, 0xbb, 0xdf, 0x60, 0x06, 0x00, 0xf5, 0x17, 0x06, 0xbb, 0xdf, 0x60, 0x06, 0x00,
		0xbb, 0x37, 0xe5, 0xba, 0xdf, 0x60, 0x06, 0x00, 0xba, 0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x34, 0x5e, 0x38, 0xbe, 0xe1, 0xac, 0xeb, 0x7e, 0x00, 0x00, 0x00, 0x00, 0x59, 0x4e, 0xef, 0x9d,
		0x49, 0x4b, 0x57, 0x31, 0x00, 0x04, 0x00, 0x00, 0x00, 0xf0, 0x0d, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x42, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x42, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xd8, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x96, 0xed, 0x5e, 0xcb, 0x9f, 0xf7, 0x74, 0xad, 0x00, 0x00, 0x00, 0x00, 0xcd, 0xb9, 0x18, 0xfa,
	};
	/* clang-format on */
	struct kw_superblock old;
	struct kw_index_root root;
	struct kw_error error;

	memcpy(&old, recorded, sizeof old);
	memcpy(&root, recorded + KW_INDEX_ROOT_OFFSET, sizeof root);
	assert_int_equal(kw_superblock_check(&old, &error), KW_OK);
	assert_int_equal(kw_index_root_check(&root, &error), KW_OK);
	assert_int_equal(old.version, 3004);
	assert_int_equal(old.source_state, KW_SOURCE_LIVE);
	assert_int_equal(old.ticket, 0);           /* it has none: clocks are compared */
	assert_int_equal(old.history_checksum, 0); /* it says nothing of whose data they are */
}

#define TEST(name) cmocka_unit_test_setup(name, build)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_whole_directory_is_found_through),
		TEST(an_offset_leads_to_the_segment_that_holds_it),
		TEST(any_number_of_segments_is_found_by_offset),
		TEST(reads_are_bounded_by_the_extents),
		TEST(adjoining_extents_count_as_one),
		TEST(no_bit_can_flip_unnoticed),
		TEST(no_cut_is_taken_for_the_whole),
		TEST(a_directory_of_another_publication_or_epoch_is_gone),
		TEST(lying_counts_are_refused),
		TEST(impossible_extents_are_refused),
		TEST(impossible_segments_are_refused),
		TEST(a_directory_without_room_for_the_head_is_refused),
		TEST(a_known_directory_is_matched_with_each_superblock),
		TEST(a_superblock_tells_only_what_a_proxy_can_write),
		TEST(no_table_has_epoch_0),
		TEST(a_view_keeps_its_directory_until_the_next_one_verifies),
		TEST(no_bit_of_a_superblock_can_flip_unnoticed),
		TEST(a_superblock_of_another_layout_names_both_versions),
		TEST(an_index_root_is_whole_or_refused),
		TEST(a_table_of_version_0_1_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
