/*
 * A reader who may see a part of the table: it gets that, and no byte of the rest. Keys of database
 * 0 from 100 to 199 are allowed; the values of all others are long rows of one byte.
 */
#include "fixture.h"
#include "table/history.h"
#include "table/redact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NUMBERS 400
#define ALLOWED "key:00001" /* the numbers from 100 to 199 */
#define ANY "key:0000"
#define MARK 0xee
#define LARGE 30000

struct scene {
	struct fixture fixture;
	struct follower follower;
	struct kw_redact redact;
	struct kw_redact_reader reader;
	uint64_t tags[NUMBERS];
	uint32_t lengths[NUMBERS]; /* 0: not there */
};

static const uint8_t three[3] = {MARK, MARK, MARK};

static bool number_allowed(uint32_t number)
{
	return memcmp(fixture_key(number).data, ALLOWED, strlen(ALLOWED)) == 0;
}

static bool allows(void *arg, uint32_t database, struct kw_slice front)
{
	(void)arg;
	return database == 0 && front.length >= strlen(ALLOWED) &&
	       memcmp(front.data, ALLOWED, strlen(ALLOWED)) == 0;
}

static bool allows_flush(void *arg, uint32_t database)
{
	(void)arg;
	return database == 0;
}

static void copy(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
}

/* Neither a name nor a value that is not allowed, nor a remnant of one. */
static void assert_innocent(const uint8_t *bytes, uint64_t length)
{
	const uint8_t *end = bytes + length;

	assert_null(memmem(bytes, (size_t)length, three, sizeof three));
	for (const uint8_t *at = bytes; (at = memmem(at, (size_t)(end - at), ANY, strlen(ANY)));
		at++)
		assert_true(end - at < 9 || at[strlen(ANY)] == '1');
}

static void bend(struct follower *follower, struct kw_read *read)
{
	struct scene *scene = follower->bend_arg;

	assert_true(kw_redact_copy(
		&scene->redact, &scene->reader, read->offset, read->length, read->buffer));
	assert_innocent(read->buffer, read->length);
}

static void put(struct scene *scene, uint32_t number, uint64_t tag, uint32_t length)
{
	static uint8_t marks[LARGE];

	if (number_allowed(number)) {
		/* Who looks for marks must not meet them by chance. */
		if (memmem(fixture_value(tag, length).data, length, three, sizeof three))
			return;
		assert_int_not_equal(
			fixture_put(&scene->fixture, number, tag, length), KW_PUT_FULL);
		scene->tags[number] = tag;
		scene->lengths[number] = length;
		return;
	}
	memset(marks, MARK, sizeof marks);
	assert_int_not_equal(kw_table_put(scene->fixture.table, number % 3 == 0,
				     fixture_key(number), kw_slice(marks, length), 0),
		KW_PUT_FULL);
}

/* The directory that counts, in the memory itself. */
static struct kw_directory directory_of(const struct scene *scene)
{
	const struct kw_superblock *superblock = fixture_superblock(&scene->fixture);
	struct kw_directory directory;

	assert_int_equal(
		kw_directory_parse(scene->fixture.memory.base + superblock->directory_offset,
			superblock->directory_bytes, superblock, &directory, NULL),
		KW_OK);
	return directory;
}

/* The end of the extents: all of the table lies before it. */
static uint64_t end_of(const struct scene *scene)
{
	struct kw_directory directory = directory_of(scene);
	const struct kw_extent *last = &directory.extents[directory.header->extents - 1];

	return last->offset + last->length;
}

static void scene_open(struct scene *scene)
{
	const struct kw_table_options options = {0};
	const struct kw_reader_options reader = {.chunk_bytes = 4096, .depth = 4};

	memset(scene, 0, sizeof *scene);
	fixture_open(&scene->fixture, &options);
	kw_redact_init(&scene->redact, scene->fixture.memory.base, copy);
	scene->reader = (struct kw_redact_reader){.allows = allows, .allows_flush = allows_flush};
	follower_open(&scene->follower, &scene->fixture, &reader);
	scene->follower.bend = bend;
	scene->follower.bend_arg = scene;
}

static void scene_close(struct scene *scene)
{
	follower_close(&scene->follower);
	kw_redact_close(&scene->redact);
	fixture_close(&scene->fixture);
}

static void assert_has_its_part(const struct scene *scene)
{
	const struct follower *follower = &scene->follower;

	assert_int_equal(follower->failures, 0);
	assert_int_equal(follower->other_databases, 0);
	for (uint32_t number = 0; number < NUMBERS; number++)
		if (scene->lengths[number] > 0)
			assert_true(follower_has(
				follower, number, scene->tags[number], scene->lengths[number]));
		else
			assert_true(follower_lacks(follower, number));
}

static uint32_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

static void change_some(struct scene *scene, uint64_t *seed, uint32_t round)
{
	for (int i = 0; i < 40; i++) {
		uint32_t number = draw(seed) % NUMBERS;
		uint32_t length = draw(seed) % 50 == 0 ? LARGE : 1 + draw(seed) % 60;

		if (draw(seed) % 5 > 0) {
			put(scene, number, draw(seed), length);
			continue;
		}
		kw_table_delete(scene->fixture.table, !number_allowed(number) && number % 3 == 0,
			fixture_key(number));
		scene->lengths[number] = 0;
	}
	if (round % 50 == 49)
		kw_table_flush(scene->fixture.table, 1);
	if (round % 90 == 89) {
		kw_table_flush(scene->fixture.table, 0);
		memset(scene->lengths, 0, sizeof scene->lengths);
	}
	fixture_advance(&scene->fixture, 1000000);
	fixture_publish(&scene->fixture);
}

static void a_reader_gets_its_part_and_no_byte_of_the_rest(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	uint64_t seed = 7;

	(void)state;
	scene_open(scene);
	for (uint32_t number = 0; number < NUMBERS; number++)
		put(scene, number, number, 20);
	fixture_publish(&scene->fixture);
	follower_start(&scene->follower, NULL);
	assert_has_its_part(scene);
	for (uint32_t round = 0; round < 300; round++) {
		change_some(scene, &seed, round);
		follower_poll(&scene->follower);
		if (kw_reader_idle(scene->follower.reader))
			follower_start(&scene->follower, NULL);
		assert_has_its_part(scene);
	}
	/* The cleaner was at work: memory that others' values stood in was used again. */
	assert_true(fixture_stats(&scene->fixture).cleaned_segments > 10);
	assert_true(scene->follower.records > 1000);
	scene_close(scene);
	free(scene);
}

/* Wherever a READ begins and ends, within a record too, it brings the same bytes. */
static void a_read_may_begin_and_end_anywhere(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	uint64_t seed = 11, end;
	uint8_t *whole, *piece;

	(void)state;
	scene_open(scene);
	for (uint32_t round = 0; round < 20; round++)
		change_some(scene, &seed, round);
	end = end_of(scene);
	whole = malloc(end);
	piece = malloc(end);
	assert_true(kw_redact_copy(&scene->redact, &scene->reader, 0, end, whole));
	assert_innocent(whole, end);
	for (int i = 0; i < 20000; i++) {
		uint64_t from = draw(&seed) % end, length = 1 + draw(&seed) % 3000;

		if (length > end - from)
			length = end - from;
		assert_true(kw_redact_copy(&scene->redact, &scene->reader, from, length, piece));
		assert_memory_equal(piece, whole + from, length);
	}
	free(whole);
	free(piece);
	scene_close(scene);
	free(scene);
}

/* It could be asked whether a key exists, by its hash. */
static void the_index_is_not_shown(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	uint8_t bytes[KW_DIRECTORY_OFFSET];
	struct kw_index_root root;
	uint64_t length;
	uint8_t *slots;

	(void)state;
	scene_open(scene);
	put(scene, 2, 2, 20);
	put(scene, 101, 1, 20);
	fixture_publish(&scene->fixture);
	assert_true(kw_redact_copy(&scene->redact, &scene->reader, 0, sizeof bytes, bytes));
	assert_memory_equal(bytes, scene->fixture.memory.base, sizeof(struct kw_superblock));
	for (size_t i = sizeof(struct kw_superblock); i < sizeof bytes; i++)
		if (i < KW_HISTORY_OFFSET ||
			i >= KW_HISTORY_OFFSET + sizeof(struct kw_history_record))
			assert_int_equal(bytes[i], 0);
	memcpy(&root, scene->fixture.memory.base + KW_INDEX_ROOT_OFFSET, sizeof root);
	length = (root.grown_slots + root.overflow) * sizeof(struct kw_index_slot);
	slots = malloc(length);
	assert_true(kw_redact_copy(&scene->redact, &scene->reader, root.offset, length, slots));
	for (uint64_t i = 0; i < length; i++)
		assert_int_equal(slots[i], 0);
	free(slots);
	scene_close(scene);
	free(scene);
}

/* With an rkey, packets in the name of another agent open all of the memory (ReDMArk). */
static void where_memory_is_registered_is_not_shown(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	struct kw_superblock superblock;
	struct kw_directory directory;
	uint64_t *bytes;

	(void)state;
	scene_open(scene);
	put(scene, 101, 1, 20);
	fixture_publish(&scene->fixture);
	kw_table_set_places(scene->fixture.table,
		&(struct kw_extent){.address = UINT64_C(0x7f0000001000), .rkey = 0x1234abcd}, 1);
	fixture_publish(&scene->fixture);
	superblock = *fixture_superblock(&scene->fixture);
	directory = directory_of(scene);
	assert_int_equal(directory.extents[0].rkey, 0x1234abcd);
	bytes = calloc(1, superblock.directory_bytes);
	assert_true(kw_redact_copy(&scene->redact, &scene->reader, superblock.directory_offset,
		superblock.directory_bytes, (uint8_t *)bytes));
	assert_int_equal(kw_directory_parse(
				 bytes, superblock.directory_bytes, &superblock, &directory, NULL),
		KW_OK);
	for (uint32_t i = 0; i < directory.header->extents; i++) {
		assert_int_equal(directory.extents[i].address, 0);
		assert_int_equal(directory.extents[i].rkey, 0);
	}
	free(bytes);
	scene_close(scene);
	free(scene);
}

/* Bytes that no superblock covers yet can be those of any key. */
static void what_is_not_published_is_not_shown(void **state)
{
	struct scene *scene = calloc(1, sizeof *scene);
	const struct kw_superblock *superblock;
	struct kw_directory directory;
	uint8_t bytes[256];
	uint64_t offset;

	(void)state;
	scene_open(scene);
	put(scene, 101, 1, 20);
	fixture_publish(&scene->fixture);
	superblock = fixture_superblock(&scene->fixture);
	directory = directory_of(scene);
	offset = kw_directory_find(&directory, superblock->head_segment)->offset +
		 superblock->head_bytes;
	put(scene, 110, 10, 20);
	assert_true(kw_redact_copy(&scene->redact, &scene->reader, offset, sizeof bytes, bytes));
	for (size_t i = 0; i < sizeof bytes; i++)
		assert_int_equal(bytes[i], 0);
	fixture_publish(&scene->fixture);
	assert_true(kw_redact_copy(&scene->redact, &scene->reader, offset, sizeof bytes, bytes));
	assert_memory_equal(bytes, scene->fixture.memory.base + offset, KW_RECORD_HEADER);
	scene_close(scene);
	free(scene);
}

/* ---- the table changes while it is copied ---- */

static struct scene *racing;
static int race_in;

/* In the middle of a copy: the segment is cleaned, published, and its memory used again. */
static void racing_copy(void *to, const void *from, size_t length)
{
	uint64_t seed = 5;

	if (race_in > 0 && --race_in == 0)
		for (uint32_t round = 0; round < 60; round++)
			change_some(racing, &seed, round);
	memcpy(to, from, length);
}

static void memory_that_is_used_again_meanwhile_shows_nothing(void **state)
{
	for (int when = 1; when < 800; when += 39) {
		struct scene *scene = calloc(1, sizeof *scene);
		uint64_t seed = 3, end;
		uint8_t *bytes;

		(void)state;
		scene_open(scene);
		for (uint32_t round = 0; round < 12; round++)
			change_some(scene, &seed, round);
		end = end_of(scene);
		bytes = malloc(end);
		racing = scene;
		scene->redact.copy = racing_copy;
		race_in = when;
		(void)kw_redact_copy(&scene->redact, &scene->reader, 0, end, bytes);
		assert_innocent(bytes, end);
		free(bytes);
		scene_close(scene);
		free(scene);
	}
}

static void functions_are_not_shown(void **state)
{
	const struct kw_table_options options = {.functions = true};
	const struct kw_history history = {
		.standing = KW_HISTORY_UNTOLD, .proxy = 1, .proxy_name = "x"};
	static uint8_t bytes[2 * KW_FUNCTIONS_BYTES];
	struct kw_redact_reader reader = {.allows = allows, .allows_flush = allows_flush};
	struct fixture fixture;
	struct kw_redact redact;
	struct kw_slice held;

	(void)state;
	fixture_open(&fixture, &options);
	kw_redact_init(&redact, fixture.memory.base, copy);
	kw_table_set_history(fixture.table, &history);
	kw_table_set_functions(
		fixture.table, kw_slice_text("a set of libraries"), KW_FUNCTIONS_FOUND);
	fixture_change(&fixture, 101, 1);
	held = kw_table_functions(fixture.table);
	memset(bytes, MARK, sizeof bytes);
	assert_true(kw_redact_copy(&redact, &reader,
		(uint64_t)((const uint8_t *)held.data - fixture.memory.base), sizeof bytes, bytes));
	for (size_t i = 0; i < sizeof bytes; i++)
		assert_int_equal(bytes[i], 0);
	kw_redact_close(&redact);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_gets_its_part_and_no_byte_of_the_rest),
		cmocka_unit_test(a_read_may_begin_and_end_anywhere),
		cmocka_unit_test(the_index_is_not_shown),
		cmocka_unit_test(functions_are_not_shown),
		cmocka_unit_test(where_memory_is_registered_is_not_shown),
		cmocka_unit_test(what_is_not_published_is_not_shown),
		cmocka_unit_test(memory_that_is_used_again_meanwhile_shows_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
