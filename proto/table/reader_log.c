#include "table/fault.h"
#include "table/reader_internal.h"

#include <assert.h>
#include <string.h>

/* Carry memory beyond this is given back once the large record it was for is done. */
#define CARRY_KEEP_BYTES (1u << 20)

static uint32_t ring_at(const struct kw_reader *reader, uint32_t index)
{
	return (reader->chunk_first + index) % reader->options.depth;
}

/* Take [start, ...) of the next range; false when all of the plan is posted. */
static bool next_chunk(struct kw_reader *reader, struct chunk *chunk)
{
	const struct range *range;
	uint64_t length;

	if (reader->post_range == reader->range_count)
		return false;
	range = &reader->ranges[reader->post_range];
	assert(reader->post_offset >= range->start && reader->post_offset < range->end);
	length = range->end - reader->post_offset;
	if (length > reader->options.chunk_bytes)
		length = reader->options.chunk_bytes;
	chunk->range = reader->post_range;
	chunk->start = reader->post_offset;
	chunk->arrived = false;
	chunk->read.offset = range->base + reader->post_offset;
	chunk->read.length = length;
	chunk->read.reader = reader;
	chunk->read.internal = (void *)(uintptr_t)reader->generation;
	reader->post_offset += length;
	if (reader->post_offset == range->end && ++reader->post_range < reader->range_count)
		reader->post_offset = reader->ranges[reader->post_range].start;
	return true;
}

/* Post READs in log order, up to the depth and to what the sink has room for. */
void kw_reader_log_post(struct kw_reader *reader)
{
	struct kw_read *reads[KW_READER_DEPTH_MAX];
	int count = 0;

	while (reader->chunk_count < reader->options.depth && count < KW_READER_DEPTH_MAX &&
		reader->post_range < reader->range_count) {
		struct chunk *chunk = &reader->chunks[ring_at(reader, reader->chunk_count)];

		/* The first READ goes out with any room at all: a bound smaller than a READ must
		 * not stop the reader for ever. */
		if (reader->sink.room(reader->sink.arg) <= reader->posted_bytes)
			break;
		if (!next_chunk(reader, chunk))
			break;
		reader->chunk_count++;
		reader->posted_bytes += chunk->read.length;
		reader->outstanding++;
		reads[count++] = &chunk->read;
	}
	if (count > 0)
		reader->io.read(reader->io.arg, reads, count);
}

static void post_from(struct kw_reader *reader, uint32_t range, uint64_t offset)
{
	assert(reader->chunk_count == 0);
	reader->phase = PHASE_LOG;
	reader->post_range = range;
	reader->post_offset = offset;
	if (range == reader->range_count) {
		kw_reader_log_done(reader);
		return;
	}
	kw_reader_log_post(reader);
}

void kw_reader_log_begin(struct kw_reader *reader)
{
	if (kw_reader_ahead_begin(reader))
		return;
	post_from(reader, 0, reader->range_count ? reader->ranges[0].start : 0);
}

/* Go on at this record after a recheck; offset 0 of a later range means its start. */
void kw_reader_log_restart(struct kw_reader *reader, uint32_t range, uint64_t offset)
{
	if (range < reader->range_count && offset < reader->ranges[range].start)
		offset = reader->ranges[range].start;
	post_from(reader, range, offset);
}

/* Is this record news to the sink? Reading rule 4 is here. */
static bool is_news(const struct kw_reader *reader, const struct kw_record_view *view)
{
	bool tail = reader->tailing || !reader->snapshot;
	uint64_t skip_up_to = kw_fault_leaves_out(4) ? reader->highest : reader->consistent;

	if (view->kind == KW_RECORD_HIDDEN || (tail && view->version <= skip_up_to))
		return false;
	if (!tail && view->kind != KW_RECORD_PUT)
		return false;
	return kw_record_live(view, reader->superblock.version);
}

void kw_reader_collect(struct kw_reader *reader, struct batch *batch)
{
	const struct kw_record_view *view = &batch->views[batch->count];
	bool news = is_news(reader, view);

	assert(batch->count < KW_READER_BATCH);
	reader->stats.skipped += !news;
	if (view->version > reader->highest)
		reader->highest = view->version;
	batch->count += news;
}

bool kw_reader_hand_on(struct kw_reader *reader, struct batch *batch)
{
	uint64_t generation = reader->generation;
	uint32_t count = batch->count;

	assert(count <= KW_READER_BATCH);
	if (count == 0)
		return true;
	batch->count = 0;
	reader->stats.records += count;
	reader->handed_on += count;
	reader->sink.records(reader->sink.arg, batch->views, count);
	return reader->generation == generation;
}

enum verdict { RECORD_DONE, RECORD_INCOMPLETE, RECORD_BAD, RECORD_STOPPED };

/* Bytes of a range, which lie at `offset` of its segment. */
struct span {
	const struct range *range;
	uint64_t offset;
	const uint8_t *bytes;
	size_t length;
};

/* The record at the front. */
static enum verdict parse_record(const struct kw_reader *reader, const struct span *span,
	struct kw_record_view *view, size_t *stride)
{
	struct kw_place place = {reader->superblock.epoch, span->range->segment, span->offset};
	uint64_t limit = span->range->end - span->offset;
	const uint8_t *bytes = span->bytes;
	size_t available = span->length;
	uint32_t length;

	if (limit < KW_RECORD_HEADER)
		return RECORD_BAD;
	if (available < KW_RECORD_HEADER) {
		*stride = KW_RECORD_HEADER;
		return RECORD_INCOMPLETE;
	}
	if (!kw_record_readable(bytes, available, limit))
		return RECORD_BAD;
	memcpy(&length, bytes + offsetof(struct kw_record, length), sizeof length);
	*stride = kw_record_stride(length);
	if (*stride > limit)
		return RECORD_BAD;
	if (*stride > available)
		return RECORD_INCOMPLETE;
	return kw_record_parse(bytes, &place, view) ? RECORD_BAD : RECORD_DONE;
}

/*
 * The records at the front, which are taken off the span: verified and handed on in batches.
 * RECORD_DONE, or what became of the record that the span now begins with, which has *stride bytes
 * if it is incomplete.
 */
static enum verdict take_records(struct kw_reader *reader, struct span *span, size_t *stride)
{
	enum verdict verdict = RECORD_DONE;
	struct batch batch;

	batch.count = 0;
	while (verdict == RECORD_DONE && span->length > 0) {
		while (batch.count < KW_READER_BATCH && span->length > 0) {
			verdict = parse_record(reader, span, &batch.views[batch.count], stride);
			if (verdict != RECORD_DONE)
				break;
			span->offset += *stride;
			span->bytes += *stride;
			span->length -= *stride;
			kw_reader_collect(reader, &batch);
		}
		if (!kw_reader_hand_on(reader, &batch))
			return RECORD_STOPPED;
	}
	return verdict;
}

uint64_t kw_reader_log_take(struct kw_reader *reader, const struct range *range, uint64_t offset,
	const uint8_t *bytes, uint64_t length)
{
	struct span span = {range, offset, bytes, (size_t)length};
	size_t stride;

	if (take_records(reader, &span, &stride) == RECORD_STOPPED)
		return UINT64_MAX;
	return span.offset - offset;
}

/*
 * Complete the record whose front is in the carry with bytes of this chunk. Returns how many bytes
 * of the chunk were taken; *verdict says what became of the record.
 */
static size_t feed_carry(struct kw_reader *reader, const struct range *range,
	const struct chunk *chunk, enum verdict *verdict)
{
	size_t taken = 0, needed = KW_RECORD_HEADER;
	struct span span;

	do {
		size_t have = kw_buffer_length(&reader->carry);
		size_t missing = needed > have ? needed - have : 0;
		size_t left = (size_t)chunk->read.length - taken;

		if (missing > left)
			missing = left;
		kw_buffer_append(&reader->carry, chunk->read.buffer + taken, missing);
		taken += missing;
		span = (struct span){range, reader->carry_offset, kw_buffer_bytes(&reader->carry),
			kw_buffer_length(&reader->carry)};
		*verdict = take_records(reader, &span, &needed);
	} while (*verdict == RECORD_INCOMPLETE && taken < chunk->read.length);
	if (*verdict == RECORD_DONE) {
		kw_buffer_clear(&reader->carry);
		kw_buffer_trim(&reader->carry, CARRY_KEEP_BYTES);
	}
	return taken;
}

/* All records of one chunk. False: the reader went another way (recheck, failure, stop). */
static bool consume(struct kw_reader *reader, const struct chunk *chunk)
{
	const struct range *range = &reader->ranges[chunk->range];
	uint64_t at = chunk->start, end = chunk->start + chunk->read.length;
	enum verdict verdict = RECORD_DONE;
	size_t stride;

	if (kw_buffer_length(&reader->carry) > 0)
		at += feed_carry(reader, range, chunk, &verdict);
	if (verdict == RECORD_BAD) {
		kw_reader_recheck(reader, chunk->range, reader->carry_offset);
		return false;
	}
	if (verdict == RECORD_DONE && at < end) {
		struct span span = {
			range, at, chunk->read.buffer + (at - chunk->start), (size_t)(end - at)};

		verdict = take_records(reader, &span, &stride);
		if (verdict == RECORD_INCOMPLETE) {
			reader->carry_offset = span.offset;
			/* Room for all of it at once: a large record would grow by doubling. */
			kw_buffer_reserve(&reader->carry, stride);
			kw_buffer_append(&reader->carry, span.bytes, span.length);
		} else if (verdict == RECORD_BAD) {
			kw_reader_recheck(reader, chunk->range, span.offset);
			return false;
		}
	}
	if (verdict == RECORD_INCOMPLETE && end == range->end) {
		/*
		 * The segment's committed bytes end within a record: they are not of this segment.
		 */
		kw_reader_recheck(reader, chunk->range, reader->carry_offset);
		return false;
	}
	return verdict != RECORD_STOPPED;
}

void kw_reader_log_arrived(struct kw_reader *reader, struct kw_read *read)
{
	struct chunk *arrived = (struct chunk *)((uint8_t *)read - offsetof(struct chunk, read));

	assert(reader->phase == PHASE_LOG && !arrived->arrived);
	assert(arrived >= reader->chunks && arrived < reader->chunks + reader->options.depth);
	assert(reader->chunk_count > 0 && reader->chunk_count <= reader->options.depth);
	arrived->arrived = true;
	while (reader->chunk_count > 0 && reader->chunks[reader->chunk_first].arrived) {
		struct chunk *chunk = &reader->chunks[reader->chunk_first];
		bool last = chunk->range == reader->range_count - 1 &&
			    chunk->start + chunk->read.length == reader->ranges[chunk->range].end;

		if (!consume(reader, chunk))
			return;
		chunk->arrived = false;
		reader->chunk_first = ring_at(reader, 1);
		reader->chunk_count--;
		assert(reader->posted_bytes >= chunk->read.length);
		reader->posted_bytes -= chunk->read.length;
		if (!reader->tailing && reader->snapshot)
			reader->stats.snapshot_done += chunk->read.length;
		if (last) {
			kw_reader_log_done(reader);
			return;
		}
	}
	kw_reader_log_post(reader);
}
