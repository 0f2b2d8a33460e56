/*
 * Looking at the tail of the log alone: what it saves, what it may cost at most, and what it must
 * leave to the superblock.
 */
#include "fixture.h"

#include "table/record.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What is asked for after small changes, and how often in vain. */
#define ACTIVE_LEAST 512
#define ACTIVE_LOOKS (KW_READER_AHEAD_IN_VAIN / ACTIVE_LEAST)

static const struct kw_reader_options by_default;

/* A follower that saw a change lately, and a superblock right behind it. */
static void prepare(struct fixture *fixture, struct follower *follower)
{
	follower_begin(fixture, follower, &by_default, 100);
	follower_poll(follower);
	follower->postings = 0;
	follower->log_reads = 0;
}

static void done(struct fixture *fixture, struct follower *follower)
{
	follower_poll(follower);
	follower_poll(follower);
	follower_finish(fixture, follower);
}

/* So many looks in vain, until a glance is all that they are. */
static void bring_to_rest(struct fixture *fixture, struct follower *follower)
{
	for (uint32_t i = 0; i < ACTIVE_LOOKS + KW_READER_LOOKS; i++) {
		fixture_publish(fixture); /* the heartbeat */
		follower_look(follower);
	}
}

/* Where the next record will stand. */
static void tail_of(const struct fixture *fixture, struct kw_place *place, uint64_t *offset)
{
	const struct kw_superblock *superblock = fixture_superblock(fixture);
	const struct kw_directory_header *directory =
		(const void *)(fixture->memory.base + superblock->directory_offset);
	const struct kw_directory_segment *segment = (const void *)(directory + 1);

	while (segment->id != superblock->head_segment)
		segment++;
	*place = (struct kw_place){superblock->epoch, segment->id, superblock->head_bytes};
	*offset = segment->offset + superblock->head_bytes;
}

/* Write a whole record there that the table knows nothing of. */
static void forge(struct fixture *fixture, uint64_t version, int64_t elsewhere)
{
	const struct kw_record_fields fields = {
		.kind = KW_RECORD_PUT, .key = fixture_key(7), .value = fixture_value(666, 20)};
	struct kw_place place;
	uint64_t offset;

	tail_of(fixture, &place, &offset);
	place.segment += (uint64_t)elsewhere;
	kw_record_write(
		(struct kw_record *)(fixture->memory.base + offset), &fields, version, &place);
}

/* The record is handed on when one READ has ended, whatever is read behind it. */
static void a_small_change_takes_one_read(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower);
	for (uint32_t i = 1; i <= 40; i++) {
		fixture_change(&fixture, i, 2000 + i);
		kw_reader_poll(follower.reader);
		assert_int_equal(follower.queued, 1);
		assert_int_not_equal(follower.queue[0]->offset, KW_SUPERBLOCK_OFFSET);
		follower_end(&follower, 0);
		assert_true(follower_has(&follower, i, 2000 + i, 100));
		follower_run(&follower);
	}
	assert_int_equal(kw_reader_stats(follower.reader)->retries, 0);
	done(&fixture, &follower);
}

/* So it is after any time without a change, if the record is small enough for a glance. */
static void also_after_a_long_rest(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower);
	for (uint32_t i = 1; i <= 3; i++) {
		bring_to_rest(&fixture, &follower);
		follower_poll(&follower); /* the superblock's turn is over */
		fixture_put(&fixture, i, 3000 + i, 60);
		kw_reader_poll(follower.reader);
		assert_int_equal(follower.queued, 1);
		assert_int_equal(follower.queue[0]->length, KW_READER_GLANCE_BYTES);
		follower_end(&follower, 0);
		assert_true(follower_has(&follower, i, 3000 + i, 60));
		follower_run(&follower);
		fixture_publish(&fixture);
	}
	done(&fixture, &follower);
}

/* However it went before: at rest a poll is one READ of at most 128 bytes, for ever. */
static void an_idle_poll_is_one_read_of_128_bytes(void **state)
{
	const struct kw_reader_stats *stats;
	struct follower follower;
	struct fixture fixture;
	uint64_t reads, bytes, superblocks;

	prepare(&fixture, &follower);
	stats = kw_reader_stats(follower.reader);
	bytes = stats->bytes;
	bring_to_rest(&fixture, &follower);
	/* What was read in vain for the last change has a bound. */
	assert_in_range(stats->bytes - bytes, KW_READER_AHEAD_IN_VAIN - ACTIVE_LEAST,
		KW_READER_AHEAD_IN_VAIN + (ACTIVE_LOOKS + KW_READER_LOOKS) * 128);
	reads = stats->reads;
	superblocks = follower.superblocks;
	for (int i = 0; i < 500; i++) {
		fixture_publish(&fixture);
		kw_reader_poll(follower.reader);
		assert_int_equal(follower.queued, 1);
		assert_in_range(follower.queue[0]->length, 1, 128);
		follower_run(&follower);
	}
	assert_int_equal(stats->reads, reads + 500);
	assert_in_range(follower.superblocks - superblocks, 500 / KW_READER_LOOKS,
		500 / KW_READER_LOOKS + 1);
	done(&fixture, &follower);
}

/* A stream of changes, each found by a look at the tail, must not keep the superblock away. */
static void the_superblock_is_read_every_few_looks(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t superblocks;

	prepare(&fixture, &follower);
	superblocks = follower.superblocks;
	for (uint32_t i = 0; i < 2 * KW_READER_LOOKS; i++) {
		fixture_change(&fixture, i, 4000 + i);
		follower_look(&follower);
		assert_true(follower_has(&follower, i, 4000 + i, 100));
	}
	assert_int_equal(follower.superblocks, superblocks + 2);
	assert_true(follower.pass.consistent == fixture_stats(&fixture).version);
	done(&fixture, &follower);
}

static void its_owner_may_want_it_sooner(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t passes;

	prepare(&fixture, &follower);
	for (int i = 0; i < 3; i++) {
		passes = follower.passes;
		kw_reader_want_superblock(follower.reader);
		follower_look(&follower);
		assert_int_equal(follower.passes, passes + 1);
		follower_look(&follower);
		assert_int_equal(follower.passes, passes + 1);
	}
	done(&fixture, &follower);
}

/* It is true of the primary already; but who is killed now must find a table that says so. */
static void what_is_not_published_is_handed_on_and_no_cursor_says_so(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t published, found;

	prepare(&fixture, &follower);
	found = follower.found;
	published = fixture_stats(&fixture).version;
	fixture_put(&fixture, 3, 3000, 100);
	follower_look(&follower);
	assert_true(follower_has(&follower, 3, 3000, 100));
	assert_int_equal(follower.found, found + 1);
	for (int i = 0; i < 3; i++) {
		follower_poll(&follower);
		assert_true(follower.pass.version == published);
		assert_true(follower.pass.consistent == published);
		assert_false(follower.pass.moved);
	}
	fixture_publish(&fixture);
	follower_look(&follower);
	assert_true(follower.pass.consistent == published + 1);
	assert_true(follower.pass.moved);
	assert_int_equal(follower.records, 50 + 2);
	done(&fixture, &follower);
}

/* The look after the last record reads the superblock, so that the record soon counts. */
static void what_was_found_is_soon_covered(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t passes;

	prepare(&fixture, &follower);
	fixture_change(&fixture, 4, 4000);
	passes = follower.passes;
	follower_look(&follower);
	assert_int_equal(follower.passes, passes);
	follower_look(&follower);
	assert_int_equal(follower.passes, passes + 1);
	assert_true(follower.pass.consistent == fixture_stats(&fixture).version);
	done(&fixture, &follower);
}

static void a_record_longer_than_the_look_takes_a_second_read(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower);
	bring_to_rest(&fixture, &follower);
	follower_poll(&follower);
	fixture_put(&fixture, 5, 5000, 900);
	kw_reader_poll(follower.reader);
	assert_int_equal(follower.queue[0]->length, KW_READER_GLANCE_BYTES);
	follower_end(&follower, 0);
	assert_int_equal(follower.queued, 1);
	assert_in_range(follower.queue[0]->length, 900, KW_READER_AHEAD_BYTES);
	follower_end(&follower, 0);
	assert_int_equal(follower.queued, 0);
	assert_true(follower_has(&follower, 5, 5000, 900));
	fixture_publish(&fixture);
	done(&fixture, &follower);
}

/* Superblock and directory say what to read, in READs as large as they may be. */
static void much_is_left_to_a_pass(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t passes;

	prepare(&fixture, &follower);
	passes = follower.passes;
	fixture_put(&fixture, 6, 6000, KW_READER_AHEAD_BYTES + 1000);
	fixture_publish(&fixture);
	follower_look(&follower);
	assert_int_equal(follower.passes, passes + 1);
	assert_true(follower_has(&follower, 6, 6000, KW_READER_AHEAD_BYTES + 1000));
	for (uint32_t number = 0; number < 50; number++)
		fixture_put(&fixture, number, 7000 + number, 100);
	fixture_publish(&fixture);
	follower_look(&follower);
	assert_int_equal(follower.passes, passes + 2);
	assert_true(follower_has(&follower, 49, 7049, 100));
	done(&fixture, &follower);
}

static void bend_the_log(struct follower *follower, struct kw_read *read)
{
	if (follower->bend_arg == read)
		memset(read->buffer + 100, 0x5a, read->length - 100);
}

/* Torn, or being written: no sign of damage. What the superblock covers is read plainly. */
static void what_does_not_verify_is_asked_of_the_superblock(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower);
	fixture_change(&fixture, 8, 8000);
	kw_reader_poll(follower.reader);
	follower.bend = bend_the_log;
	follower.bend_arg = follower.queue[0];
	follower_end(&follower, 0);
	assert_false(follower_has(&follower, 8, 8000, 100));
	assert_int_equal(follower.queued, 1);
	assert_int_equal(follower.queue[0]->offset, KW_SUPERBLOCK_OFFSET);
	follower.bend_arg = NULL;
	follower_run(&follower);
	assert_true(follower_has(&follower, 8, 8000, 100));
	assert_int_equal(kw_reader_stats(follower.reader)->retries, 0);
	done(&fixture, &follower);
}

/* Whole, of this place, its checksum right: but with a version that cannot be the next. */
static void another_version_than_the_next_is_not_taken(void **state)
{
	static const int64_t apart[] = {-40, -1, 0, 2, 1000};
	struct follower follower;
	struct fixture fixture;
	uint64_t version, records;

	prepare(&fixture, &follower);
	version = fixture_stats(&fixture).version;
	records = follower.records;
	for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
		forge(&fixture, version + (uint64_t)apart[i], 0);
		for (int looks = 0; looks < 2 * KW_READER_LOOKS; looks++)
			follower_look(&follower);
		assert_int_equal(follower.records, records);
	}
	done(&fixture, &follower);
}

/* And the next version, whole, but written for another place. */
static void another_place_is_not_taken(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t records;

	prepare(&fixture, &follower);
	records = follower.records;
	forge(&fixture, fixture_stats(&fixture).version + 1, 1);
	for (int looks = 0; looks < 2 * KW_READER_LOOKS; looks++)
		follower_look(&follower);
	assert_int_equal(follower.records, records);
	fixture_change(&fixture, 9, 9000);
	follower_look(&follower);
	assert_true(follower_has(&follower, 9, 9000, 100));
	done(&fixture, &follower);
}

/* Near its end a segment is not relied upon, so the change that opens another is found at once. */
static void the_log_may_go_on_elsewhere(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower);
	for (uint32_t i = 0; i < 2000; i++) {
		fixture_change(&fixture, i % 50, 9000 + i);
		follower_look(&follower);
		assert_true(follower_has(&follower, i % 50, 9000 + i, 100));
	}
	assert_in_range(kw_reader_stats(follower.reader)->ahead_used, 1900, 1999);
	assert_int_equal(kw_reader_stats(follower.reader)->vanished, 0);
	done(&fixture, &follower);
}

/* A large record has a segment to itself, whatever is left of the head: the superblock's turn. */
static void a_segment_may_end_before_its_end(void **state)
{
	struct follower follower;
	struct fixture fixture;

	prepare(&fixture, &follower);
	for (uint32_t i = 0; i < 20; i++) {
		fixture_put(&fixture, i, 100 + i, 40000);
		fixture_change(&fixture, 30, 200 + i);
		for (int looks = 0; looks < KW_READER_LOOKS; looks++)
			follower_look(&follower);
		assert_true(follower_has(&follower, i, 100 + i, 40000));
		assert_true(follower_has(&follower, 30, 200 + i, 100));
	}
	assert_int_equal(kw_reader_stats(follower.reader)->vanished, 0);
	done(&fixture, &follower);
}

static void without_room_nothing_is_asked_for_or_taken(void **state)
{
	struct follower follower;
	struct fixture fixture;
	uint64_t records;

	prepare(&fixture, &follower);
	records = follower.records;
	follower.room = 100;
	kw_reader_poll(follower.reader);
	assert_int_equal(follower.queued, 1);
	assert_int_equal(follower.queue[0]->offset, KW_SUPERBLOCK_OFFSET);
	follower_run(&follower);
	/* Paused while the READ is out: what is taken then would be applied by a paused agent. */
	follower.room = UINT64_C(1) << 40;
	fixture_change(&fixture, 10, 10000);
	kw_reader_poll(follower.reader);
	follower.room = 0;
	follower_run(&follower);
	assert_int_equal(follower.records, records);
	follower.room = UINT64_C(1) << 40;
	follower_look(&follower);
	assert_true(follower_has(&follower, 10, 10000, 100));
	done(&fixture, &follower);
}

static void a_session_may_end_with_it_out(void **state)
{
	for (int lose = 0; lose < 2; lose++) {
		struct kw_error lost = {0};
		struct follower follower;
		struct fixture fixture;
		struct kw_cursor cursor;

		kw_error_set(&lost, KW_E_IO, "gone");
		prepare(&fixture, &follower);
		cursor = (struct kw_cursor){follower.pass.epoch, follower.pass.consistent};
		fixture_change(&fixture, 11, 11000);
		kw_reader_poll(follower.reader);
		assert_int_equal(follower.queued, 1);
		if (lose)
			follower.lose = &lost;
		else
			kw_reader_stop(follower.reader);
		follower_end(&follower, 0);
		assert_false(follower_has(&follower, 11, 11000, 100));
		follower_start(&follower, &cursor);
		assert_true(follower_has(&follower, 11, 11000, 100));
		assert_int_equal(follower.failures, lose);
		follower.failures = 0;
		done(&fixture, &follower);
	}
}

/* The head of before is all that a table which ended may have published. */
static void a_new_epoch_is_noticed_within_a_few_looks(void **state)
{
	struct kw_table_options options;
	struct follower follower;
	struct fixture fixture;
	struct kw_error error;

	prepare(&fixture, &follower);
	kw_table_free(fixture.table);
	options = fixture.options;
	options.epoch++;
	fixture.table = kw_table_new(&options, &fixture.memory, 1, &error);
	assert_non_null(fixture.table);
	for (int looks = 0; looks < KW_READER_LOOKS; looks++)
		follower_look(&follower);
	assert_int_equal(follower.lapses, 1);
	assert_non_null(strstr(follower.why, "epoch"));
	follower_close(&follower);
	fixture_close(&fixture);
}

struct told {
	const struct follower *follower;
	uint64_t superblocks, passes, looks, failures;
};

static void told_superblock(
	void *arg, const struct kw_superblock *superblock, const struct kw_history *history)
{
	struct told *told = arg;

	assert_int_equal(told->superblocks++, told->follower->superblocks);
}

static void told_pass(void *arg, bool moved)
{
	struct told *told = arg;

	assert_int_equal(told->passes++, told->follower->passes);
}

static void told_look(void *arg, bool found)
{
	struct told *told = arg;

	assert_int_equal(told->looks++, told->follower->looks);
}

static void told_failure(void *arg, const struct kw_error *error)
{
	struct told *told = arg;

	assert_int_equal(told->failures++, told->follower->failures);
}

static void the_driver_is_told_before_the_sink(void **state)
{
	struct follower follower;
	struct fixture fixture;
	struct told told = {.follower = &follower};
	const struct kw_reader_driver driver = {
		told_superblock, told_pass, told_look, told_failure, &told};
	struct kw_error lost = {0};

	fixture_open(&fixture, &(struct kw_table_options){0});
	fixture_change(&fixture, 1, 1000);
	follower_open(&follower, &fixture, &(struct kw_reader_options){0});
	kw_reader_set_driver(follower.reader, &driver);
	follower_start(&follower, NULL);
	for (uint32_t i = 0; i < 40; i++) {
		fixture_change(&fixture, i, 2000 + i);
		follower_poll(&follower);
	}
	kw_error_set(&lost, KW_E_IO, "gone");
	follower.lose = &lost;
	follower_poll(&follower);
	assert_true(told.looks > 0);
	assert_int_equal(told.failures, 1);
	assert_int_equal(told.superblocks, follower.superblocks);
	assert_int_equal(told.passes, follower.passes);
	assert_int_equal(told.looks, follower.looks);
	assert_int_equal(told.failures, follower.failures);
	follower_close(&follower);
	fixture_close(&fixture);
}

/* A writer that lost its processor in the middle of the superblock. */
static void tear_superblock(struct follower *follower, struct kw_read *read)
{
	bool *torn = follower->bend_arg;

	if (*torn && read->offset == KW_SUPERBLOCK_OFFSET)
		((uint8_t *)read->buffer)[40] ^= 1;
}

static void a_superblock_that_stays_torn_ends_a_look_and_not_the_session(void **state)
{
	struct follower follower;
	struct fixture fixture;
	bool torn = true;
	uint64_t passes;

	prepare(&fixture, &follower);
	passes = follower.passes;
	follower.bend = tear_superblock;
	follower.bend_arg = &torn;
	for (int look = 0; look < KW_READER_TORN_LOOKS; look++) {
		kw_reader_want_superblock(follower.reader);
		follower_look(&follower);
		assert_true(kw_reader_waiting(follower.reader));
	}
	assert_int_equal(follower.passes, passes);
	/* What the tail brings meanwhile is handed on. */
	fixture_change(&fixture, 9, 9000);
	torn = false;
	follower_look(&follower);
	assert_true(follower_has(&follower, 9, 9000, 100));
	assert_int_equal(follower.passes, passes + 1);
	/* They are counted in a row. */
	torn = true;
	for (int look = 0; look < KW_READER_TORN_LOOKS; look++) {
		kw_reader_want_superblock(follower.reader);
		follower_look(&follower);
	}
	assert_true(kw_reader_waiting(follower.reader));
	torn = false;
	done(&fixture, &follower);
}

static void one_that_never_verifies_is_called_corruption(void **state)
{
	struct follower follower;
	struct fixture fixture;
	bool torn = true;

	prepare(&fixture, &follower);
	follower.bend = tear_superblock;
	follower.bend_arg = &torn;
	for (int look = 0; look <= KW_READER_TORN_LOOKS; look++) {
		assert_int_equal(follower.failures, 0);
		kw_reader_want_superblock(follower.reader);
		follower_look(&follower);
	}
	assert_int_equal(follower.failures, 1);
	assert_int_equal(follower.error.code, KW_E_CORRUPT);
	assert_true(kw_reader_idle(follower.reader));
	follower_close(&follower);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_change_takes_one_read),
		cmocka_unit_test(also_after_a_long_rest),
		cmocka_unit_test(an_idle_poll_is_one_read_of_128_bytes),
		cmocka_unit_test(the_superblock_is_read_every_few_looks),
		cmocka_unit_test(its_owner_may_want_it_sooner),
		cmocka_unit_test(what_is_not_published_is_handed_on_and_no_cursor_says_so),
		cmocka_unit_test(what_was_found_is_soon_covered),
		cmocka_unit_test(a_record_longer_than_the_look_takes_a_second_read),
		cmocka_unit_test(much_is_left_to_a_pass),
		cmocka_unit_test(what_does_not_verify_is_asked_of_the_superblock),
		cmocka_unit_test(another_version_than_the_next_is_not_taken),
		cmocka_unit_test(another_place_is_not_taken),
		cmocka_unit_test(the_log_may_go_on_elsewhere),
		cmocka_unit_test(a_segment_may_end_before_its_end),
		cmocka_unit_test(without_room_nothing_is_asked_for_or_taken),
		cmocka_unit_test(a_session_may_end_with_it_out),
		cmocka_unit_test(a_new_epoch_is_noticed_within_a_few_looks),
		cmocka_unit_test(the_driver_is_told_before_the_sink),
		cmocka_unit_test(a_superblock_that_stays_torn_ends_a_look_and_not_the_session),
		cmocka_unit_test(one_that_never_verifies_is_called_corruption),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
