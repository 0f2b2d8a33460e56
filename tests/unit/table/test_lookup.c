/*
 * Lookups against a real table that goes on changing: between any two READs, and in the middle of
 * one, the writer puts, deletes, cleans, grows its index.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <malloc.h>

#include "lookup_world.h"
#include "table/view.h"

static void every_key_is_found_and_no_other(void **state)
{
	struct world world;
	char key[32], value[64];

	world_open(&world, 256 << 20, 64 << 10);
	for (int i = 0; i < 50000; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		snprintf(value, sizeof value, "value of %d in database %d", i, i % 3);
		put(&world, i % 3, key, value);
	}
	tick(&world);
	for (int i = 0; i < 60000; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		snprintf(value, sizeof value, "value of %d in database %d", i, i % 3);
		assert_int_equal(look_up(&world, i % 3, key),
			i < 50000 ? KW_LOOKUP_FOUND : KW_LOOKUP_ABSENT);
		if (i < 50000)
			assert_true(kw_slice_equal(
				kw_slice_text(value), kw_slice(kw_buffer_bytes(&world.value),
							      kw_buffer_length(&world.value))));
		assert_int_equal(look_up(&world, i % 3 + 1, key), KW_LOOKUP_ABSENT);
	}
	assert_int_equal(kw_lookups_stats(world.lookups)->retries, 0);
	world_close(&world);
}

static void a_hit_costs_two_reads(void **state)
{
	struct world world;
	uint64_t reads;

	world_open(&world, 64 << 20, 64 << 10);
	put(&world, 0, "", "the empty key");
	put(&world, 0, "a", "b");
	tick(&world);
	assert_int_equal(look_up(&world, 0, ""), KW_LOOKUP_FOUND);
	reads = kw_lookups_stats(world.lookups)->reads;
	assert_int_equal(look_up(&world, 0, "a"), KW_LOOKUP_FOUND);
	assert_int_equal(kw_lookups_stats(world.lookups)->reads, reads + 2);
	world_close(&world);
}

static void a_deleted_and_a_flushed_key_are_absent(void **state)
{
	struct world world;

	world_open(&world, 64 << 20, 64 << 10);
	put(&world, 0, "a", "1");
	put(&world, 1, "a", "2");
	put(&world, 1, "b", "3");
	kw_table_delete(world.table, 0, kw_slice_text("a"));
	tick(&world);
	assert_int_equal(look_up(&world, 0, "a"), KW_LOOKUP_ABSENT);
	assert_int_equal(look_up(&world, 1, "a"), KW_LOOKUP_FOUND);
	kw_table_flush(world.table, 1);
	assert_int_equal(look_up(&world, 1, "a"), KW_LOOKUP_ABSENT);
	put(&world, 1, "b", "4");
	tick(&world);
	assert_int_equal(look_up(&world, 1, "a"), KW_LOOKUP_ABSENT);
	assert_int_equal(look_up(&world, 1, "b"), KW_LOOKUP_FOUND);
	assert_memory_equal(kw_buffer_bytes(&world.value), "4", 1);
	world_close(&world);
}

static bool is_present(struct world *world, uint32_t database, const char *key)
{
	world->done = false;
	kw_lookups_begin_presence(world->lookups, database, kw_slice_text(key), on_done, world);
	kw_lookups_post(world->lookups);
	finish(world);
	assert_true(world->result.outcome == KW_LOOKUP_FOUND ||
		    world->result.outcome == KW_LOOKUP_ABSENT);
	return world->result.outcome == KW_LOOKUP_FOUND;
}

static void presence_tells_a_key_from_a_tombstone_and_reads_no_large_value(void **state)
{
	struct world world;
	char large[4000];
	uint64_t reads;

	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	world_open(&world, 64 << 20, 64 << 10);
	put(&world, 0, "tiny", "");
	put(&world, 0, "large", large);
	put(&world, 0, "deleted", large);
	put(&world, 1, "flushed", large);
	tick(&world);
	kw_table_delete(world.table, 0, kw_slice_text("deleted"));
	kw_table_flush(world.table, 1);
	tick(&world);
	assert_true(is_present(&world, 0, "tiny"));
	assert_false(is_present(&world, 0, "deleted"));
	assert_false(is_present(&world, 1, "flushed"));
	assert_false(is_present(&world, 0, "never there"));
	assert_false(is_present(&world, 1, "large"));
	reads = kw_lookups_stats(world.lookups)->reads;
	assert_true(is_present(&world, 0, "large"));
	assert_int_equal(kw_lookups_stats(world.lookups)->reads, reads + 1);
	assert_int_equal(world.result.record.length, 0);
	world_close(&world);
}

static void values_of_every_size_are_found(void **state)
{
	static const size_t sizes[] = {0, 1, 7, 8, 15, 16, 1000, 65535, 65536, 1048575, 1048576,
		1048577, 8388000, 8388568, 8388600, 8388608, 8390000, 30000000};
	struct world world;
	char key[32];
	char *bytes = malloc(30000000);

	assert_non_null(bytes);
	for (size_t i = 0; i < 30000000; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	world_open(&world, 512 << 20, 1 << 20);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		snprintf(key, sizeof key, "size-%zu", sizes[i]);
		assert_int_equal(kw_table_put(world.table, 0, kw_slice_text(key),
					 kw_slice(bytes, sizes[i]), 99),
			KW_PUT_STORED);
	}
	tick(&world);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		snprintf(key, sizeof key, "size-%zu", sizes[i]);
		assert_int_equal(look_up(&world, 0, key), KW_LOOKUP_FOUND);
		assert_int_equal(world.result.record.expires_ms, 99);
		assert_int_equal(kw_buffer_length(&world.value), sizes[i]);
		if (sizes[i])
			assert_memory_equal(kw_buffer_bytes(&world.value), bytes, sizes[i]);
	}
	free(bytes);
	world_close(&world);
}

/* Sample the READ in pieces, forwards or backwards, while the writer goes on. */
static void answer_torn(struct world *world)
{
	struct kw_lookup_read *read = take_read(world);
	uint64_t pieces = dice(world, 4) + 1;
	bool backwards = dice(world, 2);

	write_some(world);
	for (uint64_t i = 0; i < pieces; i++) {
		uint64_t piece = backwards ? pieces - 1 - i : i;
		uint64_t from = read->length * piece / pieces / 8 * 8;
		uint64_t to = piece + 1 == pieces ? read->length
						  : read->length * (piece + 1) / pieces / 8 * 8;

		memcpy(read->buffer + from, world->base + read->offset + from, to - from);
		if (dice(world, 3) == 0)
			write_some(world);
	}
	kw_lookups_complete(read, NULL);
	kw_lookups_post(world->lookups);
}

static void answer_torn_or_tick(struct world *world)
{
	if (world->count > 0) {
		answer_torn(world);
		return;
	}
	write_some(world);
	kw_lookups_tick(world->lookups);
	kw_lookups_post(world->lookups);
}

static void a_key_that_is_there_is_never_called_absent_while_all_moves(void **state)
{
	uint64_t outcomes[4] = {0};
	struct world world;
	char key[32];

	world_open(&world, 8 << 20, 16 << 10);
	for (int i = 0; i < STEADY; i++) {
		snprintf(key, sizeof key, "steady-%d", i);
		put(&world, 0, key, key);
	}
	tick(&world);
	for (int round = 0; round < 60000; round++) {
		snprintf(key, sizeof key, "steady-%llu", (unsigned long long)dice(&world, STEADY));
		begin(&world, 0, key);
		while (!world.done)
			answer_torn_or_tick(&world);
		outcomes[world.result.outcome]++;
		if (world.result.outcome == KW_LOOKUP_FOUND) {
			assert_true(kw_buffer_length(&world.value) >= strlen(key));
			assert_memory_equal(kw_buffer_bytes(&world.value), key, strlen(key));
		}
	}
	print_message("found %llu, uncertain %llu, started over %llu times\n",
		(unsigned long long)outcomes[KW_LOOKUP_FOUND],
		(unsigned long long)outcomes[KW_LOOKUP_UNCERTAIN],
		(unsigned long long)kw_lookups_stats(world.lookups)->retries);
	assert_int_equal(outcomes[KW_LOOKUP_ABSENT], 0);
	assert_int_equal(outcomes[KW_LOOKUP_FAILED], 0);
	assert_true(outcomes[KW_LOOKUP_FOUND] > 59000);
	assert_true(kw_lookups_stats(world.lookups)->retries > 100);
	world_close(&world);
}

static void a_damaged_record_is_never_handed_out(void **state)
{
	const char text[] = "the only record";
	struct kw_slice value;
	struct world world;
	uint64_t expires_ms;
	uint8_t *at;

	world_open(&world, 64 << 20, 64 << 10);
	put(&world, 0, "key", text);
	tick(&world);
	assert_int_equal(look_up(&world, 0, "key"), KW_LOOKUP_FOUND);
	assert_true(kw_table_get(world.table, 0, kw_slice_text("key"), &value, &expires_ms));
	at = (uint8_t *)(uintptr_t)value.data - KW_RECORD_HEADER - 3;
	for (size_t bit = 0; bit < 8 * (KW_RECORD_HEADER + 3 + sizeof text - 1); bit++) {
		at[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(look_up(&world, 0, "key"), KW_LOOKUP_UNCERTAIN);
		at[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(look_up(&world, 0, "key"), KW_LOOKUP_FOUND);
	world_close(&world);
}

static void a_failed_read_ends_the_lookup_with_its_sentence(void **state)
{
	struct world world;
	struct kw_error error;

	world_open(&world, 64 << 20, 64 << 10);
	put(&world, 0, "key", "value");
	tick(&world);
	for (int good = 0; good < 4; good++) {
		kw_lookups_stop(world.lookups);
		begin(&world, 0, "key");
		for (int i = 0; i < good; i++)
			answer(&world);
		assert_false(world.done);
		kw_error_set(&error, KW_E_TIMEOUT, "no answer");
		kw_lookups_complete(take_read(&world), &error);
		kw_lookups_post(world.lookups);
		assert_true(world.done);
		assert_int_equal(world.result.outcome, KW_LOOKUP_FAILED);
		assert_int_equal(world.result.error.code, KW_E_TIMEOUT);
		assert_false(kw_lookups_busy(world.lookups));
	}
	assert_int_equal(look_up(&world, 0, "key"), KW_LOOKUP_FOUND);
	world_close(&world);
}

static void a_stopped_lookup_says_nothing_more(void **state)
{
	struct world world;

	world_open(&world, 64 << 20, 64 << 10);
	put(&world, 0, "key", "value");
	tick(&world);
	begin(&world, 0, "key");
	kw_lookups_stop(world.lookups);
	assert_true(kw_lookups_busy(world.lookups));
	answer(&world);
	assert_false(world.done);
	assert_false(kw_lookups_busy(world.lookups));
	assert_int_equal(look_up(&world, 0, "key"), KW_LOOKUP_FOUND);
	world_close(&world);
}

/* Under a sanitizer the C library's allocator is not the one that is used. gcc has no header. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

static size_t allocated(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	return __sanitizer_get_current_allocated_bytes();
#else
	const struct mallinfo2 info = mallinfo2();

	return info.hblkhd + info.uordblks;
#endif
}

/* A connection that is lost in the midst of a large value: its memory is not kept. */
static void a_stopped_lookup_keeps_little_memory(void **state)
{
	const size_t large = 30000000;
	char *bytes = calloc(1, large);
	struct world world;
	size_t before;

	assert_non_null(bytes);
	world_open(&world, 512 << 20, 1 << 20);
	assert_int_equal(
		kw_table_put(world.table, 0, kw_slice_text("key"), kw_slice(bytes, large), 0),
		KW_PUT_STORED);
	tick(&world);
	before = allocated();
	begin(&world, 0, "key");
	while (world.reads[0]->length < 1 << 20)
		answer(&world);
	assert_true(allocated() >= before + large);
	kw_lookups_stop(world.lookups);
	answer(&world);
	assert_true(allocated() < before + large);
	free(bytes);
	world_close(&world);
}

/* It was the newest when the index was read: that is a true answer, however often it is written. */
static void a_key_that_is_written_all_the_time_is_found(void **state)
{
	struct world world;

	world_open(&world, 64 << 20, 4 << 10);
	put(&world, 0, "key", "first");
	tick(&world);
	for (int i = 0; i < 100; i++) {
		char value[32];

		begin(&world, 0, "key");
		for (int reads = 0; !world.done; reads++) {
			assert_true(reads < 20);
			snprintf(value, sizeof value, "%d", i * 100 + reads);
			put(&world, 0, "key", value);
			if (world.count > 0)
				answer(&world);
			tick(&world);
			kw_lookups_tick(world.lookups);
			kw_lookups_post(world.lookups);
		}
		assert_int_equal(world.result.outcome, KW_LOOKUP_FOUND);
	}
	world_close(&world);
}

/* Entries of other keys move between any two READs. */
static void a_miss_is_proved_while_other_entries_move(void **state)
{
	struct world world;
	char key[32];
	int other = 0;

	world_open(&world, 64 << 20, 64 << 10);
	fill(&world, 20000);
	for (int i = 0; i < 200; i++) {
		snprintf(key, sizeof key, "missing-%d", i);
		begin(&world, 0, key);
		while (!world.done) {
			/* A new key makes the growing index move some, and a tick drops tombstones.
			 */
			snprintf(key, sizeof key, "key-%d", other);
			kw_table_delete(world.table, 0, kw_slice_text(key));
			snprintf(key, sizeof key, "new-%d", other++);
			put(&world, 0, key, "value");
			if (world.count > 0)
				answer(&world);
			else
				tick(&world);
			kw_lookups_tick(world.lookups);
			kw_lookups_post(world.lookups);
		}
		assert_int_equal(world.result.outcome, KW_LOOKUP_ABSENT);
	}
	world_close(&world);
}

static void another_table_in_the_same_memory_is_noticed(void **state)
{
	struct world world;

	world_open(&world, 64 << 20, 64 << 10);
	put(&world, 0, "old", "value");
	tick(&world);
	assert_int_equal(look_up(&world, 0, "old"), KW_LOOKUP_FOUND);
	assert_int_equal(look_up(&world, 0, "new"), KW_LOOKUP_ABSENT);
	kw_table_free(world.table);
	memset(world.base, 0, 64 << 20);
	assert_int_equal(look_up(&world, 0, "old"), KW_LOOKUP_UNCERTAIN);
	open_table(&world, 43, 64 << 20, 64 << 10);
	put(&world, 0, "new", "value");
	tick(&world);
	assert_int_equal(look_up(&world, 0, "new"), KW_LOOKUP_FOUND);
	assert_int_equal(look_up(&world, 0, "old"), KW_LOOKUP_ABSENT);
	world_close(&world);
}

static void a_table_of_another_layout_is_refused(void **state)
{
	struct kw_superblock *superblock;
	struct world world;

	world_open(&world, 64 << 20, 64 << 10);
	superblock = (struct kw_superblock *)world.base;
	superblock->layout_version++;
	kw_superblock_seal(superblock);
	assert_int_equal(look_up(&world, 0, "key"), KW_LOOKUP_FAILED);
	assert_int_equal(world.result.error.code, KW_E_PROTOCOL);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_found_and_no_other),
		cmocka_unit_test(a_hit_costs_two_reads),
		cmocka_unit_test(a_deleted_and_a_flushed_key_are_absent),
		cmocka_unit_test(presence_tells_a_key_from_a_tombstone_and_reads_no_large_value),
		cmocka_unit_test(values_of_every_size_are_found),
		cmocka_unit_test(a_key_that_is_there_is_never_called_absent_while_all_moves),
		cmocka_unit_test(a_damaged_record_is_never_handed_out),
		cmocka_unit_test(a_failed_read_ends_the_lookup_with_its_sentence),
		cmocka_unit_test(a_stopped_lookup_says_nothing_more),
		cmocka_unit_test(a_stopped_lookup_keeps_little_memory),
		cmocka_unit_test(a_key_that_is_written_all_the_time_is_found),
		cmocka_unit_test(a_miss_is_proved_while_other_entries_move),
		cmocka_unit_test(another_table_in_the_same_memory_is_noticed),
		cmocka_unit_test(a_table_of_another_layout_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
