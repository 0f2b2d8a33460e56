#include "lookup_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

uint64_t dice(struct world *world, uint64_t sides)
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

struct kw_lookup_read *take_read(struct world *world)
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

void open_table(struct world *world, uint64_t epoch, uint64_t max_bytes, uint64_t segment_bytes)
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

void connect_lookups(struct world *world, const struct kw_lookups_options *options)
{
	struct kw_lookups_io io = {on_read, on_extents, world};

	kw_lookups_free(world->lookups);
	world->lookups = kw_lookups_new(options, &io);
}

void world_open(struct world *world, uint64_t max_bytes, uint64_t segment_bytes)
{
	*world = (struct world){.random = 88172645463325252, .now_us = 1};
	world->base = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(world->base, MAP_FAILED);
	open_table(world, 42, max_bytes, segment_bytes);
	connect_lookups(world, &(struct kw_lookups_options){0});
}

void world_close(struct world *world)
{
	kw_lookups_free(world->lookups);
	kw_table_free(world->table);
	kw_buffer_close(&world->value);
	munmap(world->base, RESERVE);
}

void on_done(void *arg, const struct kw_lookup_result *result)
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

void answer(struct world *world)
{
	struct kw_lookup_read *read = take_read(world);

	memcpy(read->buffer, world->base + read->offset, read->length);
	kw_lookups_complete(read, NULL);
	kw_lookups_post(world->lookups);
}

void begin(struct world *world, uint32_t database, const char *key)
{
	world->done = false;
	kw_lookups_begin(world->lookups, database, kw_slice_text(key), on_done, world);
	kw_lookups_post(world->lookups);
}

void finish(struct world *world)
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

enum kw_lookup_outcome look_up(struct world *world, uint32_t database, const char *key)
{
	begin(world, database, key);
	finish(world);
	return world->result.outcome;
}

void put(struct world *world, uint32_t database, const char *key, const char *value)
{
	assert_int_equal(
		kw_table_put(world->table, database, kw_slice_text(key), kw_slice_text(value), 0),
		KW_PUT_STORED);
}

void tick(struct world *world)
{
	world->now_us += 10000;
	kw_table_set_time(world->table, world->now_us);
	kw_table_publish(world->table, world->now_us);
}

void write_some(struct world *world)
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

void fill(struct world *world, int keys)
{
	char key[32];

	for (int i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		put(world, 0, key, key);
	}
	tick(world);
}
