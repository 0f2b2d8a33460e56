#include "fixture.h"

#include "base/buffer.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RESERVE_BYTES (UINT64_C(1) << 30)
#define VALUE_MAX (1u << 20)
#define ENDS_MAX 1000000 /* more READs in one run: the reader does not come to an end */

static bool is_expected(const struct fixture *fixture, uint64_t offset, uint64_t length)
{
	for (int i = 0; i < 2; i++)
		if (fixture->expected[i].offset == offset && fixture->expected[i].length == length)
			return true;
	return false;
}

static void expect(void *arg, uint64_t offset, uint64_t length)
{
	struct fixture *fixture = arg;

	if (is_expected(fixture, offset, length))
		return;
	fixture->expected[0] = fixture->expected[1];
	fixture->expected[1] = (struct kw_extent){.offset = offset, .length = length};
}

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	struct fixture *fixture = arg;

	if (fixture->refuse_extents ||
		(fixture->extents_most && fixture->extents >= fixture->extents_most))
		return kw_error_set(error, KW_E_NOMEM, "the test has no memory to register");
	assert_in_range(extent->offset + extent->length, extent->length, RESERVE_BYTES);
	extent->address = 0;
	extent->rkey = 0;
	fixture->extents++;
	fixture->surprises += !is_expected(fixture, extent->offset, extent->length);
	return 0;
}

static bool give_back(void *arg, uint64_t offset, uint64_t length)
{
	struct fixture *fixture = arg;

	if (fixture->pinned)
		return false;
	memset(fixture->memory.base + offset, 0xff, length);
	fixture->given_back += length;
	return true;
}

void fixture_open(struct fixture *fixture, const struct kw_table_options *options)
{
	struct kw_error error = {0};

	memset(fixture, 0, sizeof *fixture);
	fixture->options = *options;
	if (fixture->options.max_bytes == 0)
		fixture->options.max_bytes = 64 << 20;
	if (fixture->options.segment_bytes == 0)
		fixture->options.segment_bytes = 16 << 10;
	if (fixture->options.epoch == 0)
		fixture->options.epoch = 4711;
	if (fixture->options.hash_seed == 0)
		fixture->options.hash_seed = 815;
	fixture->now_us = 1000000;
	fixture->memory = (struct kw_table_memory){
		.base = mmap(NULL, RESERVE_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
		.reserve_bytes = RESERVE_BYTES,
		.extend = extend,
		.expect = expect,
		.give_back = give_back,
		.arg = fixture,
	};
	assert_ptr_not_equal(fixture->memory.base, MAP_FAILED);
	fixture->table = kw_table_new(&fixture->options, &fixture->memory, fixture->now_us, &error);
	if (!fixture->table)
		fail_msg("%s", error.text);
}

void fixture_close(struct fixture *fixture)
{
	kw_table_free(fixture->table);
	munmap(fixture->memory.base, RESERVE_BYTES);
}

void fixture_publish(struct fixture *fixture)
{
	kw_table_publish(fixture->table, fixture->now_us + FIXTURE_WALL_US);
}

void fixture_advance(struct fixture *fixture, uint64_t us)
{
	fixture->now_us += us;
	kw_table_set_time(fixture->table, fixture->now_us);
}

struct kw_slice fixture_key(uint32_t number)
{
	static char texts[4][24]; /* a few at a time */
	static int turn;
	char *text = texts[turn++ % 4];

	snprintf(text, sizeof texts[0], "key:%07u", number);
	return kw_slice_text(text);
}

struct kw_slice fixture_value(uint64_t tag, uint32_t length)
{
	static uint8_t bytes[VALUE_MAX + 8];
	uint64_t word = tag * UINT64_C(0x9e3779b97f4a7c15) + 1;

	assert_in_range(length, 0, VALUE_MAX);
	for (uint32_t at = 0; at < length; at += 8, word = word * 6364136223846793005u + 1)
		memcpy(bytes + at, &word, sizeof word);
	return kw_slice(bytes, length);
}

enum kw_put_result fixture_put(
	struct fixture *fixture, uint32_t number, uint64_t tag, uint32_t length)
{
	return kw_table_put(fixture->table, 0, fixture_key(number), fixture_value(tag, length), 0);
}

void fixture_change(struct fixture *fixture, uint32_t number, uint64_t tag)
{
	assert_int_equal(fixture_put(fixture, number, tag, 100), KW_PUT_STORED);
	fixture_publish(fixture);
}

enum kw_put_result fixture_delete(struct fixture *fixture, uint32_t number)
{
	return kw_table_delete(fixture->table, 0, fixture_key(number));
}

bool fixture_has(const struct fixture *fixture, uint32_t number, uint64_t tag, uint32_t length)
{
	struct kw_slice value;
	uint64_t expires_ms;

	return kw_table_get(fixture->table, 0, fixture_key(number), &value, &expires_ms) &&
	       expires_ms == 0 && kw_slice_equal(value, fixture_value(tag, length));
}

bool fixture_gone(const struct fixture *fixture, uint32_t number)
{
	struct kw_slice value;
	uint64_t expires_ms;

	return !kw_table_get(fixture->table, 0, fixture_key(number), &value, &expires_ms);
}

const struct kw_superblock *fixture_superblock(const struct fixture *fixture)
{
	return (const struct kw_superblock *)(fixture->memory.base + KW_SUPERBLOCK_OFFSET);
}

struct kw_table_stats fixture_stats(const struct fixture *fixture)
{
	struct kw_table_stats stats;

	kw_table_stats(fixture->table, &stats);
	return stats;
}

/* ---- the follower ---- */

static uint64_t hash_of(struct kw_slice value)
{
	return kw_hash_key(0, 0, value.data, value.length);
}

static void io_read(void *arg, struct kw_read *const *reads, int count)
{
	struct follower *follower = arg;

	follower->postings++;
	for (int i = 0; i < count; i++) {
		assert_in_range(follower->queued, 0, FOLLOWER_READS - 1);
		if (reads[i]->offset != KW_SUPERBLOCK_OFFSET &&
			reads[i]->offset != follower->superblock.directory_offset &&
			follower->superblocks > 0)
			follower->log_reads++;
		follower->queue[follower->queued++] = reads[i];
	}
	if (follower->queued > follower->most_queued)
		follower->most_queued = follower->queued;
}

static void io_extents(void *arg, const struct kw_extent *extents, int count)
{
	((struct follower *)arg)->extents = (uint64_t)count;
}

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
	struct follower *follower = arg;

	follower->begun++;
	memset(follower->seen, 0, sizeof follower->seen);
}

static void take(struct follower *follower, const struct kw_record_view *record)
{
	char text[16] = "";
	unsigned number;

	follower->records++;
	if (record->database != 0) {
		follower->other_databases++;
		return;
	}
	if (record->kind == KW_RECORD_FLUSH) {
		memset(follower->versions, 0, sizeof follower->versions);
		return;
	}
	assert_in_range(record->key.length, 11, 15);
	memcpy(text, record->key.data, record->key.length);
	assert_int_equal(sscanf(text, "key:%u", &number), 1);
	assert_in_range(number, 0, FOLLOWER_KEYS - 1);
	follower->seen[number]++;
	follower->versions[number] = record->kind == KW_RECORD_PUT ? record->version : 0;
	follower->hashes[number] = hash_of(record->value);
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct follower *follower = arg;

	assert_in_range(count, 1, KW_READER_BATCH);
	follower->batches++;
	for (size_t i = 0; i < count; i++)
		take(follower, &records[i]);
}

static uint64_t on_room(void *arg)
{
	return ((struct follower *)arg)->room;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct follower *follower = arg;

	follower->superblock = *superblock;
	follower->superblocks++;
}

static void on_pass(void *arg, const struct kw_reader_pass *pass)
{
	struct follower *follower = arg;

	follower->pass = *pass;
	follower->passes++;
	for (int i = 0; pass->snapshot && i < FOLLOWER_KEYS; i++)
		if (!follower->seen[i])
			follower->versions[i] = 0;
}

static void on_look(void *arg, bool found)
{
	struct follower *follower = arg;

	follower->looks++;
	follower->found += found;
}

static void on_lapsed(void *arg, const char *why)
{
	struct follower *follower = arg;

	follower->lapses++;
	snprintf(follower->why, sizeof follower->why, "%s", why);
	assert_true(kw_reader_idle(follower->reader));
}

static void on_failed(void *arg, const struct kw_error *error)
{
	struct follower *follower = arg;

	follower->failures++;
	follower->error = *error;
	assert_true(kw_reader_idle(follower->reader));
	assert_true(strlen(error->text) > 0);
}

void follower_open(struct follower *follower, const struct fixture *fixture,
	const struct kw_reader_options *options)
{
	const struct kw_reader_io io = {io_read, io_extents, follower};
	const struct kw_reader_sink sink = {on_snapshot, on_records, on_room, on_superblock,
		on_pass, on_look, on_lapsed, on_failed, follower};

	memset(follower, 0, sizeof *follower);
	follower->fixture = fixture;
	follower->room = UINT64_C(1) << 40;
	follower->reader = kw_reader_new(options, &io, &sink);
}

void follower_close(struct follower *follower)
{
	kw_reader_free(follower->reader);
}

void follower_end(struct follower *follower, int at)
{
	struct kw_read *read = follower->queue[at];
	const struct kw_error *lost = follower->lose;
	struct kw_error outside;

	memmove(&follower->queue[at], &follower->queue[at + 1],
		(size_t)(follower->queued - at - 1) * sizeof *follower->queue);
	follower->queued--;
	follower->lose = NULL;
	/* What a carrier does with a READ outside the extents: it never leaves this host. */
	if (read->offset > RESERVE_BYTES || read->length > RESERVE_BYTES - read->offset) {
		kw_error_set(&outside, KW_E_ARGUMENT, "READ outside the extents");
		lost = &outside;
	}
	if (!lost)
		memcpy(read->buffer, follower->fixture->memory.base + read->offset, read->length);
	if (!lost && follower->bend)
		follower->bend(follower, read);
	kw_reader_complete(read, lost);
}

void follower_run(struct follower *follower)
{
	for (int ends = 0; follower->queued > 0; ends++) {
		assert_in_range(ends, 0, ENDS_MAX);
		follower_end(follower, 0);
	}
}

void follower_start(struct follower *follower, const struct kw_cursor *cursor)
{
	kw_reader_start(follower->reader, cursor);
	follower_run(follower);
}

void follower_look(struct follower *follower)
{
	kw_reader_poll(follower->reader);
	follower_run(follower);
}

void follower_poll(struct follower *follower)
{
	uint64_t passes = follower->passes, lookless = 0;

	while (follower->passes == passes && kw_reader_waiting(follower->reader)) {
		uint64_t found = follower->found;

		follower_look(follower);
		/* Only what finds something may put the superblock off. */
		lookless = follower->found == found ? lookless + 1 : 0;
		assert_in_range(lookless, 0, KW_READER_LOOKS);
	}
}

bool follower_has(const struct follower *follower, uint32_t number, uint64_t tag, uint32_t length)
{
	return follower->versions[number] != 0 &&
	       follower->hashes[number] == hash_of(fixture_value(tag, length));
}

bool follower_lacks(const struct follower *follower, uint32_t number)
{
	return follower->versions[number] == 0;
}

void follower_assert_equal(const struct follower *follower, uint32_t numbers)
{
	for (uint32_t number = 0; number < numbers; number++) {
		struct kw_slice value;
		uint64_t expires_ms;
		bool live = kw_table_get(
			follower->fixture->table, 0, fixture_key(number), &value, &expires_ms);

		if (live != (follower->versions[number] != 0))
			fail_msg("key %u is %s in the table only by one account", number,
				live ? "live" : "gone");
		if (live)
			assert_true(follower->hashes[number] == hash_of(value));
	}
}

void follower_begin(struct fixture *fixture, struct follower *follower,
	const struct kw_reader_options *options, uint32_t bytes)
{
	fixture_open(fixture, &(struct kw_table_options){0});
	for (uint32_t number = 0; number < 50; number++)
		fixture_put(fixture, number, number, 100);
	fixture_publish(fixture);
	follower_open(follower, fixture, options);
	follower_start(follower, NULL);
	fixture_put(fixture, 0, 1000, bytes);
	fixture_publish(fixture);
	follower_poll(follower);
	assert_true(follower_has(follower, 0, 1000, bytes));
}

void follower_finish(struct fixture *fixture, struct follower *follower)
{
	assert_int_equal(follower->failures + follower->lapses, 0);
	follower_assert_equal(follower, FOLLOWER_KEYS);
	follower_close(follower);
	fixture_close(fixture);
}
