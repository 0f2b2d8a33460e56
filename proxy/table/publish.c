#include "table/fault.h"
#include "table/table_internal.h"
#include "table/view.h"

#include <assert.h>
#include <string.h>

/*
 * Earlier stores must be visible before later ones, to readers on other CPUs and to a NIC that
 * reads by DMA. x86 keeps the order of stores. arm64 needs a barrier whose domain reaches devices
 * (outer shareable), which no C11 fence promises.
 */
void kw_publish_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

uint64_t kw_directory_offset(const struct kw_table *table, uint64_t publication)
{
	return KW_DIRECTORY_OFFSET + (publication & 1) * table->directory_capacity;
}

/* The directory of the next publication, into the copy that the superblock does not name. */
static void write_directory(struct kw_table *table)
{
	const struct kw_segments *segments = &table->segments;
	uint64_t publication = table->directory_publication + 1;
	struct kw_directory_header *header =
		(struct kw_directory_header *)(table->memory.base +
					       kw_directory_offset(table, publication));
	struct kw_directory_segment *entry = (struct kw_directory_segment *)(header + 1);
	uint32_t count = 0;

	for (size_t i = 0; i < segments->count; i++) {
		const struct kw_segment *segment = segments->all[i];

		if (segment->victim)
			continue;
		assert(count == 0 || entry[count - 1].id < segment->id);
		entry[count++] = (struct kw_directory_segment){
			.id = segment->id,
			.offset = segment->offset,
			.capacity = segment->capacity,
			.committed = segment->committed,
			.lowest_version = segment->lowest,
			.highest_version = segment->highest,
		};
	}
	memcpy(entry + count, segments->extents,
		(size_t)segments->extent_count * sizeof(struct kw_extent));
	table->directory_bytes = sizeof *header + count * sizeof *entry +
				 (size_t)segments->extent_count * sizeof(struct kw_extent);
	assert(table->directory_bytes <= table->directory_capacity);
	header->magic = KW_DIRECTORY_MAGIC;
	header->epoch = table->options.epoch;
	header->publication = publication;
	header->bytes = (uint32_t)table->directory_bytes;
	header->segments = count;
	header->extents = (uint32_t)segments->extent_count;
	header->reserved = 0;
	kw_directory_seal(header);
	table->directory_publication = publication;
	table->directory_stale = false;
}

/*
 * A reader that looks at the tail alone does not see the superblock that names the history. So the
 * records that come from now on stand in another segment, which only the superblock leads to (rule
 * 7).
 */
void kw_table_set_history(struct kw_table *table, const struct kw_history *history)
{
	const bool same = kw_history_published_equal(history, &table->history);
	const struct kw_history_functions functions = table->history.functions;

	assert(history->standing != KW_HISTORY_NONE);
	if (same && memcmp(&history->server, &table->history.server, sizeof history->server) == 0 &&
		history->looked.version == table->history.looked.version &&
		history->looked.offset == table->history.looked.offset)
		return;
	table->history = *history;
	table->history.functions = functions;
	table->history_stale = true;
	/* What the server is tells a reader nothing about the records that it finds. */
	if (!same && !kw_fault_leaves_out(7))
		kw_log_break(table);
}

uint64_t kw_table_version(const struct kw_table *table)
{
	return table->version;
}

const struct kw_history *kw_table_history(const struct kw_table *table)
{
	return &table->history;
}

/* In place: a reader takes it only if the superblock names it. */
static void write_history(struct kw_table *table)
{
	struct kw_history_record *record =
		(struct kw_history_record *)(table->memory.base + KW_HISTORY_OFFSET);

	kw_history_record_make(record, &table->history);
	table->history_checksum = record->checksum;
	if (table->history.functions.version > 0)
		table->functions_published = table->history.functions.offset;
	table->history_stale = false;
}

static void write_superblock(struct kw_table *table)
{
	struct kw_superblock next = {
		.magic = KW_SUPERBLOCK_MAGIC,
		.layout_version = KW_LAYOUT_VERSION,
		.source_state = (uint8_t)table->facts.source_state,
		.complete = table->facts.complete,
		.epoch = table->options.epoch,
		.publication = ++table->publication,
		.head_segment = table->head->id,
		.head_bytes = table->head->committed,
		.version = table->version,
		.tombstone_floor = table->floor,
		.directory_publication = table->directory_publication,
		.directory_offset = kw_directory_offset(table, table->directory_publication),
		.directory_bytes = (uint32_t)table->directory_bytes,
		.rdb_version = table->facts.rdb_version,
		.ticket = table->facts.ticket,
		.heartbeat_us = table->wall_us,
		.fresh_us = table->facts.fresh_us,
		.published_us = table->published_us,
		.keys = table->keys,
		.source_id = table->facts.source_id,
		.history_checksum = table->history_checksum,
	};

	/* A reader must be able to verify it: view.h. */
	assert(!table->head->victim && table->head->committed <= table->head->capacity);
	assert(table->head->committed % KW_RECORD_ALIGN == 0);
	assert(table->floor <= table->version && table->published_version <= table->version);
	kw_superblock_seal(&next);
	*table->superblock = next;
}

/* Remember when which version was the newest, for the age of tombstones. */
static void sample_age(struct kw_table *table)
{
	uint64_t step = table->options.retention_us / (KW_AGE_SAMPLES / 2) + 1;
	const struct kw_age_sample *last =
		&table->ages[(table->age_count + KW_AGE_SAMPLES - 1) % KW_AGE_SAMPLES];

	if (table->age_count > 0 && table->now_us < last->at_us + step)
		return;
	table->ages[table->age_count++ % KW_AGE_SAMPLES] =
		(struct kw_age_sample){table->now_us, table->version};
	kw_clean_survey(table);
}

void kw_table_publish(struct kw_table *table, uint64_t wall_us)
{
	table->wall_us = wall_us;
	if (table->version != table->published_version)
		table->published_us = wall_us;
	if (table->directory_stale)
		write_directory(table);
	if (table->history_stale)
		write_history(table);
	kw_publish_barrier();
	write_superblock(table);
	kw_publish_barrier();
	table->published_version = table->version;
	table->dirty = false;
	kw_segments_retire_victims(&table->segments, table->now_us + table->options.grace_us);
	table->victim_bytes = 0;
	sample_age(table);
}

bool kw_table_unpublished(const struct kw_table *table)
{
	return table->dirty || table->directory_stale || table->history_stale;
}
