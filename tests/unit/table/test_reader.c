#include "fixture.h"

#include "../vm_flags.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct kw_reader_options by_default;
/* Every poll reads the superblock; looks at the tail alone have tests of their own. */
static const struct kw_reader_options plain = {.ahead = KW_AHEAD_OFF};

static void prepare(struct fixture *fixture, uint32_t keys)
{
	fixture_open(fixture, &(struct kw_table_options){0});
	for (uint32_t number = 0; number < keys; number++)
		assert_int_equal(fixture_put(fixture, number, number, 100), KW_PUT_STORED);
	fixture_publish(fixture);
}

static void a_snapshot_is_every_live_key_once(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, 2000);
	for (uint32_t number = 0; number < 2000; number += 3)
		fixture_put(&fixture, number, 9000 + number, 50);
	for (uint32_t number = 1; number < 2000; number += 3)
		fixture_delete(&fixture, number);
	fixture_publish(&fixture);
	follower_open(&follower, &fixture, &by_default);
	follower_start(&follower, NULL);
	assert_int_equal(follower.begun, 1);
	assert_int_equal(follower.passes, 1);
	assert_true(follower.pass.snapshot);
	assert_false(follower.pass.vanished);
	assert_true(follower.pass.epoch == 4711);
	assert_true(follower.pass.version == fixture_stats(&fixture).version);
	assert_true(follower.pass.consistent == follower.pass.version);
	assert_int_equal(follower.records, fixture_stats(&fixture).keys);
	for (uint32_t number = 0; number < 2000; number++)
		assert_int_equal(follower.seen[number], number % 3 != 1);
	follower_assert_equal(&follower, 2000);
	assert_true(kw_reader_waiting(follower.reader));
	assert_true(kw_reader_stats(follower.reader)->snapshot_done ==
		    kw_reader_stats(follower.reader)->snapshot_bytes);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void records_come_in_batches(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, 1000);
	for (uint32_t number = 0; number < 1000; number += 3)
		fixture_put(&fixture, number, 9000 + number, 50);
	fixture_publish(&fixture);
	follower_open(&follower, &fixture, &by_default);
	follower_start(&follower, NULL);
	assert_int_equal(follower.records, 1000);
	assert_in_range(follower.batches, 1000 / KW_READER_BATCH, 100);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void the_snapshot_of_an_empty_table_is_empty(void **state)
{
	struct follower follower;
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	follower_open(&follower, &fixture, &by_default);
	follower_start(&follower, NULL);
	assert_int_equal(follower.passes, 1);
	assert_int_equal(follower.records, 0);
	assert_true(kw_reader_waiting(follower.reader));
	fixture_put(&fixture, 7, 7, 70);
	fixture_publish(&fixture);
	follower_poll(&follower);
	assert_true(follower_has(&follower, 7, 7, 70));
	follower_close(&follower);
	fixture_close(&fixture);
}

static void the_tail_brings_what_changed_and_nothing_else(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, 1000);
	follower_open(&follower, &fixture, &plain);
	follower_start(&follower, NULL);
	follower.records = 0;
	fixture_put(&fixture, 1, 91, 100);
	fixture_put(&fixture, 2000, 92, 100);
	fixture_delete(&fixture, 2);
	/* Not yet published, not yet seen. */
	follower_poll(&follower);
	assert_int_equal(follower.records, 0);
	assert_false(follower.pass.moved);
	fixture_publish(&fixture);
	follower_poll(&follower);
	assert_int_equal(follower.records, 3);
	assert_true(follower.pass.moved);
	assert_false(follower.pass.snapshot);
	assert_true(follower_has(&follower, 1, 91, 100));
	assert_true(follower_has(&follower, 2000, 92, 100));
	assert_true(follower_lacks(&follower, 2));
	follower_poll(&follower);
	assert_int_equal(follower.records, 3);
	assert_false(follower.pass.moved);
	follower_assert_equal(&follower, FOLLOWER_KEYS);
	follower_close(&follower);
	fixture_close(&fixture);
}

/* A poll of an idle table costs one READ of the superblock. */
static void an_idle_poll_is_one_read(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t reads;

	prepare(&fixture, 100);
	follower_open(&follower, &fixture, &plain);
	follower_start(&follower, NULL);
	reads = kw_reader_stats(follower.reader)->reads;
	for (int i = 0; i < 50; i++) {
		fixture_publish(&fixture); /* the heartbeat */
		follower_poll(&follower);
	}
	assert_int_equal(kw_reader_stats(follower.reader)->reads, reads + 50);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void a_flush_reaches_the_follower_in_its_place(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, 500);
	follower_open(&follower, &fixture, &by_default);
	follower_start(&follower, NULL);
	fixture_put(&fixture, 1, 91, 100);
	kw_table_flush(fixture.table, 0);
	fixture_put(&fixture, 2, 92, 100);
	fixture_publish(&fixture);
	follower_poll(&follower);
	assert_true(follower_lacks(&follower, 1));
	assert_true(follower_has(&follower, 2, 92, 100));
	follower_assert_equal(&follower, FOLLOWER_KEYS);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void a_cursor_resumes_where_it_was(void **state)
{
	struct follower follower;
	struct kw_cursor cursor;
	struct fixture fixture;

	prepare(&fixture, 2000);
	follower_open(&follower, &fixture, &by_default);
	follower_start(&follower, NULL);
	cursor = (struct kw_cursor){follower.pass.epoch, follower.pass.consistent};
	kw_reader_stop(follower.reader);
	assert_true(kw_reader_idle(follower.reader));
	for (uint32_t number = 0; number < 10; number++)
		fixture_put(&fixture, number, 700 + number, 100);
	fixture_delete(&fixture, 11);
	fixture_publish(&fixture);
	follower.records = 0;
	follower_start(&follower, &cursor);
	assert_int_equal(follower.begun, 1); /* no second snapshot */
	assert_int_equal(follower.records, 11);
	assert_false(follower.pass.snapshot);
	follower_assert_equal(&follower, FOLLOWER_KEYS);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void a_cursor_that_says_nothing_here_lapses(void **state)
{
	struct follower follower;
	struct kw_cursor cursor;
	struct fixture fixture;

	prepare(&fixture, 100);
	follower_open(&follower, &fixture, &by_default);
	cursor = (struct kw_cursor){4712, 50};
	follower_start(&follower, &cursor);
	assert_int_equal(follower.lapses, 1);
	assert_non_null(strstr(follower.why, "epoch"));
	cursor = (struct kw_cursor){4711, 101}; /* ahead of the table: of a life we do not know */
	follower_start(&follower, &cursor);
	assert_int_equal(follower.lapses, 2);
	assert_int_equal(follower.records, 0);
	follower_start(&follower, NULL);
	assert_int_equal(follower.records, 100);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void a_new_epoch_lapses_a_tail(void **state)
{
	struct follower follower;
	struct fixture fixture;
	struct kw_error error;
	struct kw_table_options options;

	prepare(&fixture, 100);
	follower_open(&follower, &fixture, &by_default);
	follower_start(&follower, NULL);
	kw_table_free(fixture.table);
	memset(fixture.memory.base, 0, 1 << 20);
	options = fixture.options;
	options.epoch++;
	fixture.table = kw_table_new(&options, &fixture.memory, 1, &error);
	assert_non_null(fixture.table);
	follower_poll(&follower);
	assert_int_equal(follower.lapses, 1);
	assert_non_null(strstr(follower.why, "epoch"));
	follower_close(&follower);
	fixture_close(&fixture);
}

static void no_room_no_read_of_the_log(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, 2000);
	follower_open(&follower, &fixture, &(struct kw_reader_options){.chunk_bytes = 4096});
	follower.room = 0;
	follower_start(&follower, NULL);
	assert_int_equal(follower.begun, 1);
	assert_int_equal(follower.log_reads, 0);
	assert_int_equal(kw_reader_outstanding(follower.reader), 0);
	kw_reader_resume(follower.reader); /* nothing changed: still none */
	kw_reader_poll(follower.reader);
	assert_int_equal(follower.queued, 0);
	/* Little room at a time goes on little by little, never beyond by more than a READ. */
	for (int turns = 0; follower.passes == 0; turns++) {
		uint64_t reads, bytes = 0;

		assert_in_range(turns, 0, 1000);
		follower.room = 4096;
		kw_reader_resume(follower.reader);
		assert_in_range(follower.queued, 1, 8);
		for (int i = 0; i < follower.queued; i++)
			bytes += follower.queue[i]->length;
		assert_true(bytes < 4096 + 4096);
		reads = follower.log_reads;
		follower.room = 0;
		follower_run(&follower);
		assert_int_equal(follower.log_reads, reads);
	}
	follower_assert_equal(&follower, 2000);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void never_more_reads_out_than_the_depth(void **state)
{
	for (uint32_t depth = 1; depth <= 64; depth *= 4) {
		const struct kw_reader_options options = {.chunk_bytes = 1024, .depth = depth};
		struct follower follower;
		struct fixture fixture;

		prepare(&fixture, 3000);
		follower_open(&follower, &fixture, &options);
		follower_start(&follower, NULL);
		assert_int_equal(follower.most_queued, depth);
		follower_assert_equal(&follower, 3000);
		follower_close(&follower);
		fixture_close(&fixture);
	}
}

/* Records lie across the ends of READs in every way. */
static void the_size_of_reads_does_not_matter(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	for (uint32_t number = 0; number < 600; number++)
		fixture_put(&fixture, number, number, number * 7 % 900);
	fixture_publish(&fixture);
	for (uint32_t chunk = 64; chunk < 100000; chunk = chunk * 5 / 4 + 1) {
		const struct kw_reader_options options = {.chunk_bytes = chunk, .depth = 3};
		struct follower follower;

		follower_open(&follower, &fixture, &options);
		follower_start(&follower, NULL);
		assert_int_equal(follower.records, 600);
		follower_assert_equal(&follower, 600);
		follower_close(&follower);
	}
	fixture_close(&fixture);
}

static void reads_may_end_in_any_order(void **state)
{
	const struct kw_reader_options options = {.chunk_bytes = 1024, .depth = 8};
	struct follower follower;
	struct fixture fixture;
	uint32_t turn = 1;

	prepare(&fixture, 3000);
	for (uint32_t number = 0; number < 3000; number += 2)
		fixture_put(&fixture, number, number + 1, 90);
	fixture_publish(&fixture);
	follower_open(&follower, &fixture, &options);
	kw_reader_start(follower.reader, NULL);
	while (follower.queued > 0) {
		turn = turn * 1103515245 + 12345;
		follower_end(&follower, (int)((turn >> 16) % (uint32_t)follower.queued));
	}
	assert_int_equal(follower.records, 3000);
	follower_assert_equal(&follower, 3000);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void a_lost_read_ends_the_session_with_its_reason(void **state)
{
	struct kw_error lost = {0};
	struct follower follower;
	struct fixture fixture;

	kw_error_set(&lost, KW_E_TIMEOUT, "deadline of 500 ms passed");
	prepare(&fixture, 2000);
	/* Whichever READ it is: superblock, directory, log. */
	for (int nth = 0; nth < 12; nth++) {
		int ends = 0;

		follower_open(&follower, &fixture,
			&(struct kw_reader_options){.chunk_bytes = 16384, .depth = 4});
		kw_reader_start(follower.reader, NULL);
		while (follower.queued > 0) {
			follower.lose = ends++ == nth ? &lost : NULL;
			follower_end(&follower, 0);
		}
		assert_int_equal(follower.failures, 1);
		assert_int_equal(follower.error.code, KW_E_TIMEOUT);
		assert_non_null(strstr(follower.error.text, "deadline of 500 ms passed"));
		assert_int_equal(follower.passes, 0);
		assert_int_equal(kw_reader_outstanding(follower.reader), 0);
		/* And it can start again. */
		follower_start(&follower, NULL);
		assert_int_equal(follower.passes, 1);
		follower_assert_equal(&follower, 2000);
		follower_close(&follower);
	}
	fixture_close(&fixture);
}

static void stopping_with_reads_out_waits_for_them_before_starting_anew(void **state)
{
	const struct kw_reader_options options = {.chunk_bytes = 4096, .depth = 6};
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, 2000);
	follower_open(&follower, &fixture, &options);
	kw_reader_start(follower.reader, NULL);
	while (follower.queued < 6)
		follower_end(&follower, 0);
	assert_int_equal(kw_reader_outstanding(follower.reader), 6);
	kw_reader_stop(follower.reader);
	assert_true(kw_reader_idle(follower.reader));
	assert_int_equal(kw_reader_outstanding(follower.reader), 6);
	follower.records = 0;
	kw_reader_start(follower.reader, NULL);
	assert_false(kw_reader_idle(follower.reader));
	/* Their buffers are the reader's: no READ may go into one while an old one may write to it.
	 */
	assert_int_equal(follower.queued, 6);
	follower_run(&follower);
	assert_int_equal(follower.failures, 0);
	assert_int_equal(follower.passes, 1);
	assert_int_equal(follower.records, 2000);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void what_the_cleaner_moved_is_not_handed_on_again(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t written;

	fixture_open(
		&fixture, &(struct kw_table_options){.max_bytes = 1 << 20, .segment_bytes = 4096});
	for (uint32_t number = 0; number < 2000; number++)
		fixture_put(&fixture, number, number, 100);
	fixture_publish(&fixture);
	follower_open(&follower, &fixture, &by_default);
	follower_start(&follower, NULL);
	follower.records = 0;
	written = fixture_stats(&fixture).version;
	for (uint32_t i = 0; i < 20000; i++) {
		fixture_put(&fixture, i * 7 % 1000, i + 5000, 100);
		if (i % 40 == 0) {
			fixture_publish(&fixture);
			follower_poll(&follower);
		}
	}
	fixture_publish(&fixture);
	follower_poll(&follower);
	assert_true(fixture_stats(&fixture).cleaned_bytes > 100 * 1000);
	assert_true(follower.records <= fixture_stats(&fixture).version - written);
	assert_int_equal(follower.lapses + follower.failures, 0);
	follower_assert_equal(&follower, 2000);
	follower_close(&follower);
	fixture_close(&fixture);
}

/* Records of the table end there. The last READ of a snapshot is one of the log. */
static void buffers_of_reads_are_in_no_core_file(void **state)
{
	struct follower follower;
	struct fixture fixture;
	bool dumped = true;

	prepare(&fixture, 10);
	follower_open(&follower, &fixture, &by_default);
	kw_reader_start(follower.reader, NULL);
	while (follower.queued > 0) {
		dumped = !vm_has_flag(follower.queue[0]->buffer, "dd");
		follower_end(&follower, 0);
	}
	assert_int_equal(follower.log_reads, 1);
	assert_false(dumped);
	follower_close(&follower);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_is_every_live_key_once),
		cmocka_unit_test(records_come_in_batches),
		cmocka_unit_test(the_snapshot_of_an_empty_table_is_empty),
		cmocka_unit_test(the_tail_brings_what_changed_and_nothing_else),
		cmocka_unit_test(an_idle_poll_is_one_read),
		cmocka_unit_test(a_flush_reaches_the_follower_in_its_place),
		cmocka_unit_test(a_cursor_resumes_where_it_was),
		cmocka_unit_test(a_cursor_that_says_nothing_here_lapses),
		cmocka_unit_test(a_new_epoch_lapses_a_tail),
		cmocka_unit_test(no_room_no_read_of_the_log),
		cmocka_unit_test(never_more_reads_out_than_the_depth),
		cmocka_unit_test(the_size_of_reads_does_not_matter),
		cmocka_unit_test(reads_may_end_in_any_order),
		cmocka_unit_test(a_lost_read_ends_the_session_with_its_reason),
		cmocka_unit_test(stopping_with_reads_out_waits_for_them_before_starting_anew),
		cmocka_unit_test(what_the_cleaner_moved_is_not_handed_on_again),
		cmocka_unit_test(buffers_of_reads_are_in_no_core_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
