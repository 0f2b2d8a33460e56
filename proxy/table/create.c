/* Making a table in new memory: its layout in the memory file, and the first segment. */
#include "table/table.h"

#include "base/buffer.h"
#include "table/table_internal.h"

#include <stdlib.h>

/* Tombstones that only agents still need may take this part of the data memory. */
#define HELD_PART 8
#define SEGMENT_BYTES_LEAST (UINT64_C(4) << 10)
#define SEGMENT_BYTES_MOST (UINT64_C(1) << 30)
#define SEGMENT_BYTES_AUTO_LEAST (UINT64_C(1) << 20)
#define SEGMENT_BYTES_AUTO_MOST (UINT64_C(32) << 20)
#define SEGMENTS_AUTO 2048
#define GRANULE_MOST (UINT64_C(64) << 10)
#define GRANULE_LEAST (UINT64_C(4) << 10)
#define PAGE UINT64_C(4096)
#define INDEX_SHARE 6 /* 1/6 of the reservation: enough for records of 80 bytes */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t auto_segment_bytes(uint64_t max_bytes)
{
	uint64_t bytes = SEGMENT_BYTES_AUTO_LEAST;

	/* A small table, too, has its few segments, and as much again. */
	while (bytes > SEGMENT_BYTES_LEAST && bytes * KW_LEAST_SEGMENTS * 2 > max_bytes)
		bytes /= 2;
	while (bytes < SEGMENT_BYTES_AUTO_MOST && bytes * SEGMENTS_AUTO < max_bytes)
		bytes *= 2;
	return bytes;
}

static int check_options(
	struct kw_table_options *o, const struct kw_table_memory *memory, struct kw_error *error)
{
	if (o->segment_bytes == 0)
		o->segment_bytes = auto_segment_bytes(o->max_bytes);
	if (o->utilisation == 0)
		o->utilisation = 0.9;
	if (o->held_part == 0)
		o->held_part = HELD_PART;
	if (o->segment_bytes < SEGMENT_BYTES_LEAST || o->segment_bytes > SEGMENT_BYTES_MOST ||
		(o->segment_bytes & (o->segment_bytes - 1)) != 0)
		return kw_error_set(error, KW_E_CONFIG,
			"table.segment_bytes: %llu is not a power of two between 4 KiB and 1 GiB",
			(unsigned long long)o->segment_bytes);
	if (o->utilisation < 0.3 || o->utilisation > 0.95)
		return kw_error_set(error, KW_E_CONFIG,
			"table.utilisation: %.2f is not between 0.30 and 0.95", o->utilisation);
	if (o->max_bytes > memory->reserve_bytes)
		return kw_error_set(error, KW_E_ARGUMENT,
			"table.max_bytes: %llu is more than the %llu bytes of addresses reserved",
			(unsigned long long)o->max_bytes,
			(unsigned long long)memory->reserve_bytes);
	if (o->epoch == 0)
		return kw_error_set(error, KW_E_ARGUMENT, "table: the epoch must not be 0");
	return KW_OK;
}

/* Lay the memory file out: superblock, index root, directories, functions, index, segments. */
static int lay_out(struct kw_table *table, struct kw_error *error)
{
	const struct kw_table_options *o = &table->options;
	uint64_t reserve = table->memory.reserve_bytes, granule = o->segment_bytes / 16, data;
	size_t most;

	if (granule > GRANULE_MOST)
		granule = GRANULE_MOST;
	if (granule < GRANULE_LEAST)
		granule = GRANULE_LEAST;
	most = (size_t)(reserve / (granule * KW_SINGLE_GRANULES)) + 1024;
	table->directory_capacity = round_up(
		sizeof(struct kw_directory_header) + most * sizeof(struct kw_directory_segment) +
			KW_TABLE_EXTENTS_MAX * sizeof(struct kw_extent),
		PAGE);
	table->index_offset = KW_DIRECTORY_OFFSET + 2 * table->directory_capacity;
	if (o->functions) {
		table->functions_offset = table->index_offset;
		table->index_offset += 2 * KW_FUNCTIONS_BYTES;
	}
	table->index_reserve = round_up(reserve / INDEX_SHARE, PAGE);
	data = round_up(table->index_offset + table->index_reserve, granule);
	if (data + KW_LEAST_SEGMENTS * o->segment_bytes > reserve)
		return kw_error_set(error, KW_E_CONFIG,
			"table.max_bytes: %llu is too small for segments of %llu bytes",
			(unsigned long long)o->max_bytes, (unsigned long long)o->segment_bytes);
	kw_segments_init(&table->segments, &table->memory, data, granule, most);
	return KW_OK;
}

struct kw_table *kw_table_prepare(const struct kw_table_options *options,
	const struct kw_table_memory *memory, struct kw_error *error)
{
	struct kw_table_options checked = *options;
	struct kw_table *table;

	if (check_options(&checked, memory, error))
		return NULL;
	table = kw_zalloc(sizeof *table);
	table->options = checked;
	table->memory = *memory;
	table->passed = UINT64_MAX;
	table->superblock = (struct kw_superblock *)memory->base;
	if (lay_out(table, error) == KW_OK)
		return table;
	kw_table_free(table);
	return NULL;
}

static void init_index(struct kw_table *table)
{
	uint8_t *base = table->memory.base;

	kw_index_init(&table->index, (struct kw_index_root *)(base + KW_INDEX_ROOT_OFFSET),
		(struct kw_index_slot *)(base + table->index_offset), table->index_offset,
		table->index_reserve / sizeof(struct kw_index_slot), table->options.hash_seed);
	kw_index_count_stripes(&table->index, (uint64_t *)(base + KW_INDEX_STRIPES_OFFSET));
}

static int open_first(struct kw_table *table, struct kw_error *error)
{
	const struct kw_table_options *o = &table->options;

	init_index(table);
	if (!kw_room_index_slots(table, kw_index_memory_slots(&table->index)) ||
		kw_data_limit(table) <
			KW_LEAST_SEGMENTS * (o->segment_bytes / table->segments.granule_bytes))
		return kw_error_set(error, KW_E_CONFIG,
			"table.max_bytes: %llu is too small for %d segments of %llu bytes",
			(unsigned long long)o->max_bytes, KW_LEAST_SEGMENTS,
			(unsigned long long)o->segment_bytes);
	table->head = kw_segments_open(
		&table->segments, o->segment_bytes, o->segment_bytes, kw_data_limit(table));
	if (!table->head)
		return kw_error_set(error, KW_E_NOMEM, "table: no memory for the first segment");
	return KW_OK;
}

struct kw_table *kw_table_new(const struct kw_table_options *options,
	const struct kw_table_memory *memory, uint64_t now_us, struct kw_error *error)
{
	struct kw_table *table = kw_table_prepare(options, memory, error);

	if (!table)
		return NULL;
	table->now_us = now_us;
	if (kw_segments_extend(&table->segments, 0, table->index_offset) ||
		open_first(table, error)) {
		if (kw_table_refused(table))
			*error = *kw_table_refused(table);
		kw_table_free(table);
		return NULL;
	}
	table->directory_stale = true;
	kw_table_publish(table, 0);
	return table;
}

void kw_table_free(struct kw_table *table)
{
	if (!table)
		return;
	kw_index_close(&table->index);
	kw_segments_close(&table->segments);
	free(table->database_keys);
	free(table->flushes);
	free(table);
}
