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
#include <sys/mman.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "table/lookup.h"
#include "table/table.h"
#include "table/view.h"

#define RESERVE (UINT64_C(1) << 30)

#define READS_MAX 128

struct world {
	uint8_t *base;
	struct kw_table *table;
	struct kw_lookups *lookups;
	struct kw_lookup_read *reads[READS_MAX]; /* each is executed when the test says so */
	int count;
	int postings;
	uint64_t readable; /* highest end of an extent that was announced */
	struct kw_lookup_result result;
	struct kw_buffer value;
	bool done;
	uint64_t random, now_us;
};

static uint64_t dice(struct world *world, uint64_t sides)
{
	world->random ^= world->random << 13;
	world->random ^= world->random >> 7;
	world->random ^= world->random << 17;
	return world->random % sides;
}

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	extent->address = extent->rkey = 0;
	return 0;
}

static void on_read(void *arg, struct kw_lookup_read *const *reads, int count)
{
	struct world *world = arg;

	world->postings++;
	for (int i = 0; i < count; i++) {
		assert_true(world->count < READS_MAX);
		assert_true(reads[i]->length > 0);
		assert_true(reads[i]->offset + reads[i]->length <= RESERVE);
		world->reads[world->count++] = reads[i];
	}
}

/* The next READ that is out. */
static struct kw_lookup_read *take_read(struct world *world)
{
	struct kw_lookup_read *read = world->reads[0];

	assert_true(world->count > 0);
	world->count--;
	memmove(world->reads, world->reads + 1, (size_t)world->count * sizeof *world->reads);
	return read;
}

static void on_extents(void *arg, const struct kw_extent *extents, int count)
{
	struct world *world = arg;

	world->readable = extents[count - 1].offset + extents[count - 1].length;
}

static void open_table(
	struct world *world, uint64_t epoch, uint64_t max_bytes, uint64_t segment_bytes)
{
	const struct kw_table_memory memory = {
		.base = world->base, .reserve_bytes = RESERVE, .extend = extend, .arg = world};
	const struct kw_table_options options = {.max_bytes = max_bytes,
		.segment_bytes = segment_bytes,
		.retention_us = 1000,
		.grace_us = 1000,
		.epoch = epoch,
		.hash_seed = epoch * 77};
	struct kw_error error = {0};

	world->table = kw_table_new(&options, &memory, world->now_us, &error);
	if (!world->table)
		fail_msg("%s", error.text);
}

static void connect_lookups(struct world *world, const struct kw_lookups_options *options)
{
	struct kw_lookups_io io = {on_read, on_extents, world};

	kw_lookups_free(world->lookups);
	world->lookups = kw_lookups_new(options, &io);
}

static void world_open(struct world *world, uint64_t max_bytes, uint64_t segment_bytes)
{
	*world = (struct world){.random = 88172645463325252, .now_us = 1};
	world->base = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(world->base, MAP_FAILED);
	open_table(world, 42, max_bytes, segment_bytes);
	connect_lookups(world, &(struct kw_lookups_options){0});
}

static void world_close(struct world *world)
{
	kw_lookups_free(world->lookups);
	kw_table_free(world->table);
	kw_buffer_close(&world->value);
	munmap(world->base, RESERVE);
}

static void on_done(void *arg, const struct kw_lookup_result *result)
{
	struct world *world = arg;

	assert_false(world->done);
	world->done = true;
	world->result = *result;
	kw_buffer_clear(&world->value);
	if (result->outcome == KW_LOOKUP_FOUND)
		kw_buffer_append(
			&world->value, result->record.value.data, result->record.value.length);
}

static void answer(struct world *world)
{
	struct kw_lookup_read *read = take_read(world);

	memcpy(read->buffer, world->base + read->offset, read->length);
	kw_lookups_complete(read, NULL);
	kw_lookups_post(world->lookups);
}

static void begin(struct world *world, uint32_t database, const char *key)
{
	world->done = false;
	kw_lookups_begin(world->lookups, database, kw_slice_text(key), on_done, world);
	kw_lookups_post(world->lookups);
}

static void tick(struct world *world);

/* Until the lookup is done. If it waits for a publication, there is one. */
static void finish(struct world *world)
{
	while (!world->done) {
		if (world->count > 0) {
			answer(world);
			continue;
		}
		assert_true(kw_lookups_parked(world->lookups));
		tick(world);
		kw_lookups_tick(world->lookups);
		kw_lookups_post(world->lookups);
	}
}

static enum kw_lookup_outcome look_up(struct world *world, uint32_t database, const char *key)
{
	begin(world, database, key);
	finish(world);
	return world->result.outcome;
}

static void put(struct world *world, uint32_t database, const char *key, const char *value)
{
	assert_int_equal(
		kw_table_put(world->table, database, kw_slice_text(key), kw_slice_text(value), 0),
		KW_PUT_STORED);
}

static void tick(struct world *world)
{
	world->now_us += 10000;
	kw_table_set_time(world->table, world->now_us);
	kw_table_publish(world->table, world->now_us);
}

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

/*
 * 400 keys are never deleted, their values only change; around them keys come and go, so that the
 * index grows and closes gaps, and the cleaner moves records. A value begins with its key.
 */
#define STEADY 400
#define OTHERS 3000

static void write_some(struct world *world)
{
	char key[32], value[400];

	for (uint64_t n = dice(world, 12); n > 0; n--) {
		uint64_t which = dice(world, OTHERS);

		snprintf(key, sizeof key, "other-%llu", (unsigned long long)which);
		if (dice(world, 3) == 0)
			kw_table_delete(world->table, 0, kw_slice_text(key));
		else
			kw_table_put(world->table, 0, kw_slice_text(key),
				kw_slice_text("some value of another key"), 0);
		if (dice(world, 4) == 0) {
			snprintf(key, sizeof key, "steady-%llu",
				(unsigned long long)dice(world, STEADY));
			snprintf(value, sizeof value, "%s=%0*llu", key, (int)dice(world, 300) + 1,
				(unsigned long long)world->random);
			kw_table_put(world->table, 0, kw_slice_text(key), kw_slice_text(value), 0);
		}
	}
	if (dice(world, 4) == 0)
		tick(world);
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
#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

static size_t allocated(void)
{
#ifdef __SANITIZE_ADDRESS__
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

/* ---- many at once ---- */

struct many {
	struct world *world;
	uint64_t outcomes[4];
};

static void on_one_of_many(void *arg, const struct kw_lookup_result *result)
{
	struct many *many = arg;

	many->outcomes[result->outcome]++;
}

static void fill(struct world *world, int keys)
{
	char key[32];

	for (int i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		put(world, 0, key, key);
	}
	tick(world);
}

static void begin_many(struct world *world, struct many *many, int from, int count)
{
	char key[32];

	for (int i = from; i < from + count; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		assert_true(kw_lookups_have_room(world->lookups));
		kw_lookups_begin(world->lookups, 0, kw_slice_text(key), on_one_of_many, many);
	}
	kw_lookups_post(world->lookups);
}

static void lookups_share_what_is_known_of_the_table(void **state)
{
	const struct kw_lookups_stats *stats;
	struct many many = {0};
	struct world world;

	world_open(&world, 64 << 20, 64 << 10);
	connect_lookups(&world, &(struct kw_lookups_options){.depth = 64});
	fill(&world, 10000);
	begin_many(&world, &many, 0, 64);
	assert_false(kw_lookups_have_room(world.lookups));
	assert_int_equal(world.count, 1); /* superblock and root, once for all */
	answer(&world);
	assert_int_equal(world.count, 1); /* the directory, once for all */
	world.postings = 0;
	answer(&world);
	assert_int_equal(world.count, 64); /* the slots of all, in one posting */
	assert_int_equal(world.postings, 1);
	while (world.count > 0)
		answer(&world);
	assert_int_equal(many.outcomes[KW_LOOKUP_FOUND], 64);
	stats = kw_lookups_stats(world.lookups);
	assert_int_equal(stats->views, 2);
	begin_many(&world, &many, 64, 64);
	while (world.count > 0)
		answer(&world);
	assert_int_equal(many.outcomes[KW_LOOKUP_FOUND], 128);
	assert_int_equal(stats->views, 2);
	world_close(&world);
}

static void a_get_costs_little_more_than_two_reads_and_its_record(void **state)
{
	struct kw_lookups_stats before, after;
	struct world world;
	char key[32];
	const int keys = 100000;
	uint64_t records = 0;

	world_open(&world, 256 << 20, 1 << 20);
	fill(&world, keys);
	assert_int_equal(look_up(&world, 0, "key-0"), KW_LOOKUP_FOUND);
	before = *kw_lookups_stats(world.lookups);
	for (int i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		assert_int_equal(look_up(&world, 0, key), KW_LOOKUP_FOUND);
		records += world.result.record.length;
	}
	after = *kw_lookups_stats(world.lookups);
	print_message("%.3f READs a get, %.0f bytes beyond the record\n",
		(double)(after.reads - before.reads) / keys,
		(double)(after.bytes - before.bytes - records) / keys);
	assert_true(after.reads - before.reads <= keys * 2.05);
	assert_true(after.bytes - before.bytes <= records + keys * UINT64_C(320));
	world_close(&world);
}

/* ---- guesses ---- */

/* What a look at the superblock does. */
static void see(struct world *world)
{
	kw_lookups_seen(world->lookups, (const struct kw_superblock *)world->base);
	kw_lookups_post(world->lookups);
	while (world->count > 0)
		answer(world);
}

static void world_open_with_places(struct world *world)
{
	world_open(world, 8 << 20, 16 << 10);
	connect_lookups(world, &(struct kw_lookups_options){.places = 1 << 16});
}

static void a_key_whose_place_is_known_costs_one_read(void **state)
{
	struct kw_lookups_stats before;
	struct world world;

	world_open_with_places(&world);
	fill(&world, 1000);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	before = *kw_lookups_stats(world.lookups);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	assert_memory_equal(kw_buffer_bytes(&world.value), "key-7", 5);
	assert_int_equal(kw_lookups_stats(world.lookups)->reads, before.reads + 1);
	assert_int_equal(kw_lookups_stats(world.lookups)->guesses, 1);
	assert_int_equal(kw_lookups_stats(world.lookups)->misses, 0);
	world_close(&world);
}

static void a_guess_of_a_key_that_changed_or_went_is_noticed(void **state)
{
	struct world world;

	world_open_with_places(&world);
	fill(&world, 1000);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	put(&world, 0, "key-7", "other");
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	assert_memory_equal(kw_buffer_bytes(&world.value), "other", 5);
	kw_table_delete(world.table, 0, kw_slice_text("key-7"));
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_ABSENT);
	put(&world, 0, "key-7", "back");
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	kw_table_flush(world.table, 0);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_ABSENT);
	world_close(&world);
}

/*
 * The one case in which superseded_by does not tell: the cleaner moved the record, and the key was
 * written after that. What was seen says that the copy's segment is gone.
 */
static void a_copy_that_the_cleaner_left_behind_is_not_taken_for_the_newest(void **state)
{
	uint64_t stale_places = 0;
	struct world world;
	char key[32];

	world_open_with_places(&world);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 40; i++) {
			snprintf(key, sizeof key, "steady-%d", i);
			if (round % 7 == i % 7)
				put(&world, 0, key, key + (round + i) % 3);
		}
		for (int i = 0; i < 40; i++)
			write_some(&world);
		tick(&world);
		see(&world);
		for (int i = 0; i < 40; i++) {
			struct kw_slice value;
			uint64_t expires_ms;
			uint64_t misses = kw_lookups_stats(world.lookups)->misses;

			snprintf(key, sizeof key, "steady-%d", i);
			if (!kw_table_get(world.table, 0, kw_slice_text(key), &value, &expires_ms))
				continue;
			assert_int_equal(look_up(&world, 0, key), KW_LOOKUP_FOUND);
			assert_true(kw_slice_equal(value, kw_slice(kw_buffer_bytes(&world.value),
								  kw_buffer_length(&world.value))));
			stale_places += kw_lookups_stats(world.lookups)->misses - misses;
		}
	}
	print_message("%llu guesses, %llu of them did not hold\n",
		(unsigned long long)kw_lookups_stats(world.lookups)->guesses,
		(unsigned long long)stale_places);
	assert_true(kw_lookups_stats(world.lookups)->guesses > 1000);
	assert_true(stale_places > 10);
	assert_true(stale_places < kw_lookups_stats(world.lookups)->guesses / 2);
	world_close(&world);
}

/* ---- waiting for a publication ---- */

static void a_segment_not_published_yet_is_waited_for(void **state)
{
	struct kw_lookups_stats before;
	struct world world;
	char value[3000];

	memset(value, 'v', sizeof value - 1);
	value[sizeof value - 1] = '\0';
	world_open(&world, 64 << 20, 16 << 10);
	fill(&world, 10);
	assert_int_equal(look_up(&world, 0, "key-1"), KW_LOOKUP_FOUND);
	/* More than the head holds, without a publication. */
	for (int i = 0; i < 40; i++) {
		char key[32];

		snprintf(key, sizeof key, "fresh-%d", i);
		put(&world, 0, key, value);
	}
	before = *kw_lookups_stats(world.lookups);
	begin(&world, 0, "fresh-39");
	while (world.count > 0)
		answer(&world);
	assert_false(world.done);
	assert_true(kw_lookups_parked(world.lookups));
	/* A tick without a publication does not use up the tries at once. */
	kw_lookups_tick(world.lookups);
	kw_lookups_post(world.lookups);
	while (world.count > 0)
		answer(&world);
	assert_true(kw_lookups_parked(world.lookups));
	assert_true(kw_lookups_stats(world.lookups)->reads - before.reads < 12);
	finish(&world);
	assert_int_equal(world.result.outcome, KW_LOOKUP_FOUND);
	world_close(&world);
}

/* ---- ends ---- */

static void stop_from_within(void *arg, const struct kw_lookup_result *result)
{
	struct many *many = arg;

	many->outcomes[result->outcome]++;
	kw_lookups_stop(many->world->lookups);
}

static void all_can_be_stopped_from_within_an_answer(void **state)
{
	struct world world;
	struct many many = {.world = &world};

	world_open(&world, 64 << 20, 64 << 10);
	connect_lookups(&world, &(struct kw_lookups_options){.depth = 8});
	fill(&world, 100);
	kw_lookups_begin(world.lookups, 0, kw_slice_text("key-1"), stop_from_within, &many);
	for (int i = 0; i < 7; i++)
		kw_lookups_begin(world.lookups, 0, kw_slice_text("key-2"), on_one_of_many, &many);
	kw_lookups_post(world.lookups);
	while (world.count > 0)
		answer(&world);
	assert_int_equal(many.outcomes[KW_LOOKUP_FOUND], 1);
	assert_false(kw_lookups_busy(world.lookups));
	assert_int_equal(look_up(&world, 0, "key-3"), KW_LOOKUP_FOUND);
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
		cmocka_unit_test(another_table_in_the_same_memory_is_noticed),
		cmocka_unit_test(a_table_of_another_layout_is_refused),
		cmocka_unit_test(lookups_share_what_is_known_of_the_table),
		cmocka_unit_test(a_get_costs_little_more_than_two_reads_and_its_record),
		cmocka_unit_test(a_key_whose_place_is_known_costs_one_read),
		cmocka_unit_test(a_guess_of_a_key_that_changed_or_went_is_noticed),
		cmocka_unit_test(a_copy_that_the_cleaner_left_behind_is_not_taken_for_the_newest),
		cmocka_unit_test(a_segment_not_published_yet_is_waited_for),
		cmocka_unit_test(all_can_be_stopped_from_within_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
