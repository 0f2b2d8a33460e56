/*
 * Reading ahead, with the superblock: what it may cost at most, and that what it brought counts
 * only where the plain way would have read the same.
 */
#include "fixture.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct kw_reader_options by_default;

/* A follower to whom much came lately, so it reads ahead and does not look at the tail alone. */
static void prepare(
	struct fixture *fixture, struct follower *follower, const struct kw_reader_options *options)
{
	follower_begin(fixture, follower, options, KW_READER_AHEAD_BYTES + 1000);
	follower->postings = 0;
	follower->log_reads = 0;
}

static void the_plain_way_takes_two(void **state)
{
	const struct kw_reader_options off = {.ahead = KW_AHEAD_OFF};
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower, &off);
	for (uint32_t i = 1; i <= 20; i++) {
		fixture_change(&fixture, i, 2000 + i);
		follower_poll(&follower);
		assert_int_equal(follower.postings, 2 * i);
	}
	assert_int_equal(kw_reader_stats(follower.reader)->ahead, 0);
	follower_finish(&fixture, &follower);
}

static bool within_one_segment(const struct fixture *fixture, uint64_t offset, uint64_t length)
{
	const struct kw_directory_header *directory =
		(const void *)(fixture->memory.base +
			       fixture_superblock(fixture)->directory_offset);
	const struct kw_directory_segment *segments = (const void *)(directory + 1);

	for (uint32_t i = 0; i < directory->segments; i++)
		if (offset >= segments[i].offset &&
			offset + length <= segments[i].offset + segments[i].capacity)
			return true;
	return false;
}

/* Twice what came last, but no less than 512 bytes, no more than 4 KiB, none beyond the segment. */
static void what_is_asked_for_is_bounded(void **state)
{
	static const uint32_t sizes[] = {10, 300, 700, 1500, 3000, 9000};
	struct follower follower;
	struct fixture fixture;
	uint64_t asked = 0;

	prepare(&fixture, &follower, &by_default);
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t size = sizes[i % 6];

		fixture_put(&fixture, i % 50, 5000 + i, size);
		fixture_publish(&fixture);
		kw_reader_poll(follower.reader);
		for (int at = 0; at < follower.queued; at++) {
			const struct kw_read *read = follower.queue[at];

			assert_in_range(at, 0, 1);
			if (read->offset == KW_SUPERBLOCK_OFFSET)
				continue;
			assert_in_range(read->length, 1, KW_READER_AHEAD_BYTES);
			assert_true(within_one_segment(&fixture, read->offset, read->length));
			asked++;
		}
		follower_run(&follower);
		follower_poll(&follower);
		assert_true(follower_has(&follower, i % 50, 5000 + i, size));
	}
	assert_true(asked > 100);
	follower_finish(&fixture, &follower);
}

/* The bytes are there, whole, and READ; but no superblock covers them yet. */
static void what_is_not_published_does_not_count(void **state)
{
	for (int published = 0; published < 2; published++) {
		struct follower follower;
		struct fixture fixture;
		uint64_t records;

		prepare(&fixture, &follower, &by_default);
		records = follower.records;
		fixture_put(&fixture, 3, 3000, 100);
		if (published) {
			fixture_publish(&fixture);
			fixture_put(&fixture, 4, 4000, 100);
		}
		follower_poll(&follower);
		assert_int_equal(follower.records, records + (uint64_t)published);
		assert_int_equal(follower_has(&follower, 3, 3000, 100), published);
		assert_int_equal(kw_reader_stats(follower.reader)->ahead_used, published);
		fixture_publish(&fixture);
		follower_poll(&follower);
		follower_finish(&fixture, &follower);
	}
}

/* The log may be sampled before the superblock. Then the reader reads it again, plainly. */
static void what_was_sampled_too_early_is_read_again(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower, &by_default);
	kw_reader_poll(follower.reader);
	assert_int_equal(follower.queued, 2);
	follower_end(&follower, 1);
	fixture_change(&fixture, 5, 5000);
	follower_run(&follower);
	assert_true(follower_has(&follower, 5, 5000, 100));
	assert_int_equal(kw_reader_stats(follower.reader)->retries, 0);
	assert_int_equal(kw_reader_stats(follower.reader)->ahead_used, 0);
	follower_finish(&fixture, &follower);
}

static void bend_behind_the_first_record(struct follower *follower, struct kw_read *read)
{
	if (read->offset != KW_SUPERBLOCK_OFFSET && follower->bend_arg == read)
		memset(read->buffer + 200, 0x5a, read->length - 200);
}

/* Record by record: the first counts though the second does not verify. */
static void what_does_not_verify_is_read_again_from_there(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t records;

	prepare(&fixture, &follower, &by_default);
	records = follower.records;
	fixture_put(&fixture, 6, 6000, 100);
	fixture_change(&fixture, 7, 7000);
	kw_reader_poll(follower.reader);
	assert_int_equal(follower.queued, 2);
	follower.bend = bend_behind_the_first_record;
	follower.bend_arg = follower.queue[1];
	follower_end(&follower, 0);
	follower_end(&follower, 0);
	assert_int_equal(follower.records, records + 1);
	follower.bend_arg = NULL;
	follower_run(&follower);
	assert_int_equal(follower.records, records + 2);
	assert_true(follower_has(&follower, 7, 7000, 100));
	assert_int_equal(kw_reader_stats(follower.reader)->retries, 0);
	follower_finish(&fixture, &follower);
}

/* One that ends late, after its pass, says nothing about the next one. */
static void what_ends_after_its_pass_does_not_count(void **state)
{
	struct follower follower;
	struct fixture fixture;
	struct kw_read *late;

	prepare(&fixture, &follower, &by_default);
	kw_reader_poll(follower.reader);
	late = follower.queue[1];
	follower_end(&follower, 0);
	assert_true(kw_reader_waiting(follower.reader)); /* nothing new: not waited for */
	fixture_change(&fixture, 8, 8000);
	kw_reader_poll(follower.reader);
	assert_int_equal(follower.queued, 2); /* the late one, and a superblock alone */
	assert_ptr_equal(follower.queue[0], late);
	assert_int_equal(follower.queue[1]->offset, KW_SUPERBLOCK_OFFSET);
	follower_run(&follower);
	assert_true(follower_has(&follower, 8, 8000, 100));
	assert_int_equal(kw_reader_stats(follower.reader)->ahead_used, 0);
	fixture_change(&fixture, 9, 9000);
	follower_poll(&follower);
	assert_int_equal(kw_reader_stats(follower.reader)->ahead_used, 1);
	follower_finish(&fixture, &follower);
}

static void without_room_nothing_is_read_ahead(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower, &by_default);
	follower.room = 100;
	kw_reader_poll(follower.reader);
	assert_int_equal(follower.queued, 1);
	follower_run(&follower);
	follower.room = UINT64_C(1) << 40;
	follower_finish(&fixture, &follower);
}

/* Stopped or lost with both READs out, whichever ends first: the next session is whole. */
static void a_session_may_end_with_it_out(void **state)
{
	for (int first = 0; first < 2; first++) {
		for (int lose = 0; lose < 2; lose++) {
			struct kw_error lost = {0};
			struct follower follower;
			struct fixture fixture;
			struct kw_cursor cursor;

			kw_error_set(&lost, KW_E_IO, "gone");
			prepare(&fixture, &follower, &by_default);
			cursor = (struct kw_cursor){follower.pass.epoch, follower.pass.consistent};
			fixture_change(&fixture, 10, 10000);
			kw_reader_poll(follower.reader);
			assert_int_equal(follower.queued, 2);
			if (lose)
				follower.lose = &lost;
			else
				kw_reader_stop(follower.reader);
			follower_end(&follower, first);
			kw_reader_start(follower.reader, &cursor);
			assert_int_equal(follower.queued, 1); /* the other one is awaited */
			follower_run(&follower);
			assert_true(follower_has(&follower, 10, 10000, 100));
			assert_int_equal(follower.failures, lose);
			follower.failures = 0;
			follower_finish(&fixture, &follower);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_plain_way_takes_two),
		cmocka_unit_test(what_is_asked_for_is_bounded),
		cmocka_unit_test(what_is_not_published_does_not_count),
		cmocka_unit_test(what_was_sampled_too_early_is_read_again),
		cmocka_unit_test(what_does_not_verify_is_read_again_from_there),
		cmocka_unit_test(what_ends_after_its_pass_does_not_count),
		cmocka_unit_test(without_room_nothing_is_read_ahead),
		cmocka_unit_test(a_session_may_end_with_it_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
