/*
 * The plan of a pass: which ranges of the log to read, in which order, made from superblock and
 * directory alone.
 *
 *   snapshot   every segment up to the head, newest first
 *   resume     those that may hold a version above the cursor's, and the head, in log order
 *   tail       from the position to the head, in log order; a missing id has vanished
 */
#include "table/reader_internal.h"

#include <assert.h>

static void add_range(struct kw_reader *reader, const struct kw_directory_segment *segment,
	uint64_t start, uint64_t end)
{
	assert(end <= segment->capacity); /* view.c has checked this */
	if (start >= end)
		return;
	if (reader->range_count == reader->range_capacity) {
		reader->range_capacity = reader->range_capacity ? 2 * reader->range_capacity : 64;
		reader->ranges =
			kw_realloc(reader->ranges, reader->range_capacity * sizeof *reader->ranges);
	}
	reader->ranges[reader->range_count++] =
		(struct range){segment->id, segment->offset, start, end};
}

static uint64_t readable_end(
	const struct kw_reader *reader, const struct kw_directory_segment *segment)
{
	return segment->id == reader->superblock.head_segment ? reader->superblock.head_bytes
							      : segment->committed;
}

/* Newest segment to oldest: the old ones are more likely to be cleaned meanwhile. */
static void plan_snapshot(struct kw_reader *reader)
{
	const struct kw_directory *directory = &reader->view.directory;

	reader->stats.snapshot_bytes = reader->stats.snapshot_done = 0;
	reader->stats.snapshots++;
	for (uint32_t i = directory->header->segments; i-- > 0;) {
		const struct kw_directory_segment *segment = &directory->segments[i];

		if (segment->id > reader->superblock.head_segment)
			continue;
		add_range(reader, segment, 0, readable_end(reader, segment));
		reader->stats.snapshot_bytes += readable_end(reader, segment);
	}
}

/* All segments that can hold a version above the consistent one, in log order. */
static void plan_resume(struct kw_reader *reader)
{
	const struct kw_directory *directory = &reader->view.directory;

	for (uint32_t i = 0; i < directory->header->segments; i++) {
		const struct kw_directory_segment *segment = &directory->segments[i];
		bool head = segment->id == reader->superblock.head_segment;

		if (segment->id <= reader->superblock.head_segment &&
			(head || segment->highest_version > reader->consistent))
			add_range(reader, segment, 0, readable_end(reader, segment));
	}
}

/* From the cursor to the head; an id that is missing in between was cleaned away unread. */
static void plan_tail(struct kw_reader *reader)
{
	const struct kw_directory *directory = &reader->view.directory;
	uint64_t expected = reader->segment;

	for (uint32_t i = 0; i < directory->header->segments; i++) {
		const struct kw_directory_segment *segment = &directory->segments[i];
		bool head = segment->id == reader->superblock.head_segment;

		if (segment->id < reader->segment || segment->id > reader->superblock.head_segment)
			continue;
		if (segment->id != expected) {
			reader->vanished = true;
			reader->stats.vanished += segment->id - expected;
		}
		expected = segment->id + 1;
		if (head || segment->highest_version > reader->consistent)
			add_range(reader, segment,
				segment->id == reader->segment ? reader->offset : 0,
				readable_end(reader, segment));
	}
}

void kw_reader_plan(struct kw_reader *reader)
{
	reader->range_count = 0;
	reader->vanished = false;
	reader->mismatches = 0;
	reader->suspect_range = UINT32_MAX;
	if (reader->tailing) {
		plan_tail(reader);
	} else if (reader->snapshot) {
		plan_snapshot(reader);
		reader->deletes_known = reader->superblock.version;
		reader->sink.snapshot_begin(
			reader->sink.arg, reader->superblock.epoch, reader->superblock.version);
	} else {
		plan_resume(reader);
	}
}

uint64_t kw_reader_planned_bytes(const struct kw_reader *reader)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < reader->range_count; i++)
		bytes += reader->ranges[i].end - reader->ranges[i].start;
	return bytes;
}
