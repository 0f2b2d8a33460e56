/*
 * Walks over the index of a real table, still and moving: between any two READs, and in the middle
 * of one, the writer puts, deletes, cleans, and grows its index.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "table/lookup.h"
#include "table/table.h"
#include "table/view.h"
#include "table/walk.h"

#define RESERVE (UINT64_C(1) << 30)
#define KEYS_MAX 60000
#define STEADY 400
#define OTHERS 3000
#define SEED UINT64_C(4711)

/* One READ, executed when the test says so. */
struct pending {
	struct kw_walk *walk;          /* its own; NULL: */
	struct kw_lookup_read *looked; /* of the lookups */
	uint64_t offset, length;
	uint8_t *buffer;
};

struct world {
	uint8_t *base;
	struct kw_table *table;
	struct kw_walk *walk;
	struct kw_lookups *lookups;
	struct pending pending;
	bool has_pending;

	/* the block told last */
	struct kw_index_slot entries[KW_WALK_SLOTS_MAX];
	size_t count;
	uint64_t from, next;
	enum kw_code code;
	bool told;

	/* the lookup's end */
	char key[32];
	enum kw_lookup_outcome outcome;

	uint32_t met[KEYS_MAX];
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

static void note(struct world *world, const struct pending *pending)
{
	assert_false(world->has_pending);
	assert_true(pending->length > 0 && pending->offset + pending->length <= RESERVE);
	world->has_pending = true;
	world->pending = *pending;
}

static void walk_reads(
	void *arg, struct kw_walk *walk, uint64_t offset, uint64_t length, uint8_t *buffer)
{
	note(arg, &(struct pending){walk, NULL, offset, length, buffer});
}

static void lookups_read(void *arg, struct kw_lookup_read *const *reads, int count)
{
	assert_int_equal(count, 1);
	note(arg, &(struct pending){
			  NULL, reads[0], reads[0]->offset, reads[0]->length, reads[0]->buffer});
}

static void on_extents(void *arg, const struct kw_extent *extents, int count)
{
}

static void world_open(struct world *world, uint64_t max_bytes, uint64_t segment_bytes)
{
	const struct kw_walk_io io = {walk_reads, world};
	const struct kw_lookups_io lookups_io = {lookups_read, on_extents, world};
	const struct kw_lookups_options lookups_options = {0};
	struct kw_table_memory memory = {.reserve_bytes = RESERVE, .extend = extend, .arg = world};
	const struct kw_table_options options = {.max_bytes = max_bytes,
		.segment_bytes = segment_bytes,
		.retention_us = 1000,
		.grace_us = 1000,
		.epoch = 42,
		.hash_seed = SEED};
	struct kw_error error = {0};

	memset(world, 0, sizeof *world);
	world->random = 88172645463325252;
	world->now_us = 1;
	world->base = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(world->base, MAP_FAILED);
	memory.base = world->base;
	world->table = kw_table_new(&options, &memory, world->now_us, &error);
	if (!world->table)
		fail_msg("%s", error.text);
	world->walk = kw_walk_new(&io);
	world->lookups = kw_lookups_new(&lookups_options, &lookups_io);
}

static struct world *open_world(uint64_t max_bytes, uint64_t segment_bytes)
{
	struct world *world = malloc(sizeof *world);

	assert_non_null(world);
	world_open(world, max_bytes, segment_bytes);
	return world;
}

static void close_world(struct world *world)
{
	kw_walk_free(world->walk);
	kw_lookups_free(world->lookups);
	kw_table_free(world->table);
	munmap(world->base, RESERVE);
	free(world);
}

static void tick(struct world *world)
{
	world->now_us += 10000;
	kw_table_set_time(world->table, world->now_us);
	kw_table_publish(world->table, world->now_us);
}

static void put(struct world *world, const char *key)
{
	assert_int_equal(kw_table_put(world->table, 0, kw_slice_text(key), kw_slice_text(key), 0),
		KW_PUT_STORED);
}

/* ---- the end of a READ ---- */

static void end_read(struct world *world, const struct kw_error *error)
{
	struct pending ended = world->pending;

	world->has_pending = false;
	if (ended.walk) {
		kw_walk_complete(ended.walk, error);
		return;
	}
	kw_lookups_complete(ended.looked, error);
	kw_lookups_post(world->lookups);
}

static void answer(struct world *world)
{
	memcpy(world->pending.buffer, world->base + world->pending.offset, world->pending.length);
	end_read(world, NULL);
}

static void write_some(struct world *world)
{
	char key[32];

	for (uint64_t n = dice(world, 6); n > 0; n--) {
		snprintf(key, sizeof key, "other-%llu", (unsigned long long)dice(world, OTHERS));
		if (dice(world, 3) == 0)
			kw_table_delete(world->table, 0, kw_slice_text(key));
		else
			kw_table_put(world->table, 0, kw_slice_text(key), kw_slice_text(key), 0);
		if (dice(world, 4) == 0) {
			snprintf(key, sizeof key, "steady-%llu",
				(unsigned long long)dice(world, STEADY));
			kw_table_put(world->table, 0, kw_slice_text(key), kw_slice_text(key), 0);
		}
	}
	if (dice(world, 4) == 0)
		tick(world);
}

/* Sample the READ in pieces, forwards or backwards; now and then the writer goes on meanwhile. */
static void answer_torn(struct world *world)
{
	struct pending read = world->pending;
	uint64_t pieces = dice(world, 4) + 1;
	bool backwards = dice(world, 2), busy = dice(world, 2);

	for (uint64_t i = 0; i < pieces; i++) {
		uint64_t piece = backwards ? pieces - 1 - i : i;
		uint64_t from = read.length * piece / pieces / 8 * 8;
		uint64_t to = piece + 1 == pieces ? read.length
						  : read.length * (piece + 1) / pieces / 8 * 8;

		memcpy(read.buffer + from, world->base + read.offset + from, to - from);
		if (busy && dice(world, 3) == 0)
			write_some(world);
	}
	end_read(world, NULL);
}

/* ---- walks ---- */

static void on_block(void *arg, const struct kw_walk_block *block, const struct kw_error *error)
{
	struct world *world = arg;

	assert_false(world->told);
	world->told = true;
	world->code = error ? error->code : KW_OK;
	if (error)
		return;
	assert_int_equal(block->hash_seed, SEED);
	assert_true(block->next > block->from);
	world->from = block->from;
	world->next = block->next;
	world->count = block->count;
	memcpy(world->entries, block->entries, block->count * sizeof *block->entries);
}

static void on_found(void *arg, const struct kw_lookup_result *result)
{
	struct world *world = arg;

	world->told = true;
	world->outcome = result->outcome;
	world->key[0] = '\0';
	if (result->outcome == KW_LOOKUP_FOUND) {
		assert_true(kw_slice_equal(result->record.key, result->record.value));
		snprintf(world->key, sizeof world->key, "%.*s", (int)result->record.key.length,
			(const char *)result->record.key.data);
	}
}

/* The block from here on, by READs that `step` carries out. */
static enum kw_code read_block(
	struct world *world, uint64_t from, void (*step)(struct world *world))
{
	world->told = false;
	kw_walk_begin(world->walk, from, on_block, world);
	while (!world->told)
		step(world);
	if (world->code == KW_OK)
		assert_int_equal(world->from, from);
	return world->code;
}

/* A lookup that waits for a publication has no READ out. */
static void step_or_tick(struct world *world, void (*step)(struct world *world))
{
	if (world->has_pending) {
		step(world);
		return;
	}
	assert_true(kw_lookups_parked(world->lookups));
	tick(world);
	kw_lookups_tick(world->lookups);
	kw_lookups_post(world->lookups);
}

/* Look up the key of each entry of the block; note which of `prefix`-N were met. */
static void look_up_block(
	struct world *world, const char *prefix, void (*step)(struct world *world))
{
	for (size_t i = 0; i < world->count; i++) {
		const struct kw_index_slot slot = world->entries[i];
		size_t length = strlen(prefix);

		assert_true(slot.hash >= world->from && slot.hash < world->next);
		world->told = false;
		kw_lookups_begin_slot(world->lookups, &slot, on_found, world);
		kw_lookups_post(world->lookups);
		while (!world->told)
			step_or_tick(world, step);
		assert_int_not_equal(world->outcome, KW_LOOKUP_FAILED);
		if (world->outcome != KW_LOOKUP_FOUND)
			continue;
		assert_int_equal(slot.hash, kw_hash_key(SEED, 0, world->key, strlen(world->key)));
		if (strncmp(world->key, prefix, length) == 0)
			world->met[atoi(world->key + length)]++;
	}
}

static void every_key_is_met_once_whatever_the_size(void **state)
{
	static const int sizes[] = {0, 1, 500, 869, 871, 2000, 5000, 40000};
	struct world *world = open_world(256 << 20, 64 << 10);
	char key[32];
	int keys = 0;

	tick(world);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		for (; keys < sizes[i]; keys++) {
			snprintf(key, sizeof key, "key-%d", keys);
			put(world, key);
		}
		tick(world);
		memset(world->met, 0, sizeof world->met);
		for (uint64_t from = 0; from != UINT64_MAX; from = world->next) {
			assert_int_equal(read_block(world, from, answer), KW_OK);
			look_up_block(world, "key-", answer);
		}
		for (int n = 0; n < keys; n++)
			assert_int_equal(world->met[n], 1);
	}
	close_world(world);
}

static void a_slot_costs_one_read_once_the_table_is_known(void **state)
{
	struct world *world = open_world(64 << 20, 64 << 10);
	uint64_t reads;

	put(world, "key-1");
	put(world, "key-2");
	tick(world);
	for (uint64_t from = 0; from != UINT64_MAX; from = world->next) {
		assert_int_equal(read_block(world, from, answer), KW_OK);
		look_up_block(world, "key-", answer);
	}
	reads = kw_lookups_stats(world->lookups)->reads;
	for (uint64_t from = 0; from != UINT64_MAX; from = world->next) {
		assert_int_equal(read_block(world, from, answer), KW_OK);
		look_up_block(world, "key-", answer);
	}
	assert_int_equal(kw_lookups_stats(world->lookups)->reads, reads + 2);
	assert_int_equal(world->met[1], 2);
	close_world(world);
}

/*
 * The promise: 400 keys are never deleted, their values only change. Around them keys come and go,
 * so the index grows and closes gaps. A round meets each of the 400.
 */
static void a_key_that_stays_is_met_in_every_round_while_all_moves(void **state)
{
	struct world *world = open_world(8 << 20, 16 << 10);
	uint64_t busy = 0, twice = 0;
	char key[32];

	for (int i = 0; i < STEADY; i++) {
		snprintf(key, sizeof key, "steady-%d", i);
		put(world, key);
	}
	tick(world);
	for (int round = 0; round < 40; round++) {
		memset(world->met, 0, sizeof world->met);
		for (uint64_t from = 0; from != UINT64_MAX; from = world->next) {
			while (read_block(world, from, answer_torn) != KW_OK)
				busy++;
			look_up_block(world, "steady-", answer_torn);
		}
		for (int i = 0; i < STEADY; i++) {
			assert_true(world->met[i] >= 1);
			twice += world->met[i] > 1;
		}
	}
	print_message("blocks given up %llu, keys met twice %llu\n", (unsigned long long)busy,
		(unsigned long long)twice);
	close_world(world);
}

static void a_walk_begins_anywhere(void **state)
{
	struct world *world = open_world(64 << 20, 64 << 10);
	uint64_t from = UINT64_MAX / 3, hash;
	char key[32];

	for (int i = 0; i < 3000; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		put(world, key);
	}
	tick(world);
	for (; from != UINT64_MAX; from = world->next) {
		assert_int_equal(read_block(world, from, answer), KW_OK);
		look_up_block(world, "key-", answer);
	}
	for (int i = 0; i < 3000; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		hash = kw_hash_key(SEED, 0, key, strlen(key));
		assert_int_equal(world->met[i], hash >= UINT64_MAX / 3);
	}
	close_world(world);
}

static void a_root_that_does_not_verify_ends_the_block(void **state)
{
	struct world *world = open_world(64 << 20, 64 << 10);
	struct kw_index_root *root;

	put(world, "key-1");
	tick(world);
	root = (struct kw_index_root *)(world->base + KW_INDEX_ROOT_OFFSET);
	root->slots ^= 1;
	assert_int_equal(read_block(world, 0, answer), KW_E_CORRUPT);
	root->slots ^= 1;
	assert_int_equal(read_block(world, 0, answer), KW_OK);

	/* Sealed, but no proxy writes it. */
	root->grown_slots = UINT64_MAX / 2;
	kw_index_root_seal(root);
	assert_int_equal(read_block(world, 0, answer), KW_E_CORRUPT);
	close_world(world);
}

static void an_index_that_moves_without_end_is_given_up(void **state)
{
	struct world *world = open_world(64 << 20, 64 << 10);
	struct kw_index_root *root = (struct kw_index_root *)(world->base + KW_INDEX_ROOT_OFFSET);

	tick(world);
	world->told = false;
	kw_walk_begin(world->walk, 0, on_block, world);
	while (!world->told) {
		root->moves += 2;
		kw_index_root_seal(root);
		answer(world);
	}
	assert_int_equal(world->code, KW_E_STATE);
	assert_int_equal(read_block(world, 0, answer), KW_OK);
	close_world(world);
}

static void a_failed_read_ends_the_block_and_a_stop_says_nothing(void **state)
{
	struct world *world = open_world(64 << 20, 64 << 10);
	struct kw_error error;

	tick(world);
	kw_error_set(&error, KW_E_TIMEOUT, "no answer");
	for (int good = 0; good < 3; good++) {
		kw_walk_stop(world->walk);
		world->told = false;
		kw_walk_begin(world->walk, 0, on_block, world);
		for (int i = 0; i < good; i++)
			answer(world);
		assert_false(world->told);
		end_read(world, &error);
		assert_true(world->told);
		assert_int_equal(world->code, KW_E_TIMEOUT);
		assert_false(kw_walk_busy(world->walk));
	}
	world->told = false;
	kw_walk_begin(world->walk, 0, on_block, world);
	kw_walk_stop(world->walk);
	assert_true(kw_walk_busy(world->walk));
	answer(world);
	assert_false(world->told);
	assert_false(kw_walk_busy(world->walk));
	assert_int_equal(read_block(world, 0, answer), KW_OK);
	close_world(world);
}

/* Sealed roots with any numbers, and slots of any bytes: each block ends, within its bounds. */
static void a_forged_index_ends_the_walk(void **state)
{
	struct world *world = open_world(64 << 20, 64 << 10);
	struct kw_index_root *root = (struct kw_index_root *)(world->base + KW_INDEX_ROOT_OFFSET);
	const struct kw_index_root honest = *root;
	uint64_t *slots = (uint64_t *)(world->base + honest.offset);
	int told = 0;

	for (int i = 0; i < 5000; i++) {
		uint64_t from = dice(world, 2) ? 0 : world->random;

		*root = honest;
		root->slots = 1 + dice(world, 4096);
		root->grown_slots = root->slots + dice(world, 3) * dice(world, 4096);
		root->boundary = dice(world, 2) ? world->random : 0;
		root->overflow = (uint32_t)dice(world, 2048);
		kw_index_root_seal(root);
		for (int n = 0; n < 4096; n++)
			slots[n] = dice(world, 4) ? world->random : 0;
		if (from == UINT64_MAX)
			continue;
		told += read_block(world, from, answer) == KW_OK;
		assert_true(world->count <= KW_WALK_SLOTS_MAX);
	}
	assert_true(told > 1000);
	*root = honest;
	kw_index_root_seal(root);
	close_world(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_met_once_whatever_the_size),
		cmocka_unit_test(a_slot_costs_one_read_once_the_table_is_known),
		cmocka_unit_test(a_key_that_stays_is_met_in_every_round_while_all_moves),
		cmocka_unit_test(a_walk_begins_anywhere),
		cmocka_unit_test(a_root_that_does_not_verify_ends_the_block),
		cmocka_unit_test(an_index_that_moves_without_end_is_given_up),
		cmocka_unit_test(a_forged_index_ends_the_walk),
		cmocka_unit_test(a_failed_read_ends_the_block_and_a_stop_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
