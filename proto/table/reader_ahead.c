/*
 * Reading ahead: superblock and the expected next bytes of the log by one posting.
 *
 *   plain   poll ──superblock──▶ ◀── grown ──log──▶ ◀── records      two round trips
 *   ahead   poll ──superblock, log──▶ ◀── grown, records             one, of two READs
 *
 * The reader does this while more comes than a READ ahead can bring. Otherwise it looks at the tail
 * alone (reader_tail.c).
 *
 * What was read ahead is a guess about place and time: that the segment that was the head goes on
 * where it ended, and that it is sampled after the superblock. Neither is relied upon: the plan of
 * the pass is made from superblock and directory alone. The bytes are used only if the plan's first
 * range begins at the guessed place, and only up to the superblock's end. A record that is not
 * whole or does not verify is no sign of damage here: from there on, the log is read in the usual
 * way.
 */
#include "table/reader_internal.h"

#include <assert.h>

#define AHEAD_LEAST 512 /* a few small records */

bool kw_reader_ahead_active(const struct kw_reader *reader)
{
	return reader->ahead.bytes > 0 && reader->ahead.left >= reader->ahead.bytes;
}

uint64_t kw_reader_ahead_left(const struct kw_reader *reader)
{
	const struct kw_directory_segment *segment =
		kw_directory_find(&reader->view.directory, reader->segment);

	return segment && segment->capacity > reader->offset ? segment->capacity - reader->offset
							     : 0;
}

struct kw_read *kw_reader_ahead_aim(struct kw_reader *reader, uint64_t length)
{
	const struct kw_directory_segment *segment =
		kw_directory_find(&reader->view.directory, reader->segment);
	const uint64_t left = kw_reader_ahead_left(reader);
	struct ahead *ahead = &reader->ahead;

	if (left == 0)
		return NULL;
	if (length > left)
		length = left;
	/* Do not read ahead for a sink that is filling up. */
	if (reader->sink.room(reader->sink.arg) < length)
		return NULL;
	assert(!ahead->out && length <= KW_READER_AHEAD_BYTES);
	ahead->segment = segment->id;
	ahead->start = reader->offset;
	ahead->end = segment->capacity;
	ahead->out = ahead->counts = true;
	ahead->read = (struct kw_read){
		.offset = segment->offset + reader->offset,
		.length = length,
		.buffer = ahead->buffer,
		.reader = reader,
		.internal = (void *)(uintptr_t)reader->generation,
	};
	reader->stats.ahead++;
	return &ahead->read;
}

struct kw_read *kw_reader_ahead_ask(struct kw_reader *reader)
{
	struct ahead *ahead = &reader->ahead;
	struct kw_read *read;

	ahead->counts = false;
	if (reader->options.ahead == KW_AHEAD_OFF || !kw_reader_ahead_active(reader) ||
		ahead->out || !reader->tailing || !reader->view.directory.header)
		return NULL;
	read = kw_reader_ahead_aim(reader, ahead->bytes);
	if (read)
		ahead->left -= (uint32_t)read->length;
	return read;
}

/* It is here, and the plan begins with it. */
static void take(struct kw_reader *reader)
{
	struct ahead *ahead = &reader->ahead;
	const struct range *range = &reader->ranges[0];
	uint64_t length = range->end - range->start, taken;

	if (length > ahead->read.length)
		length = ahead->read.length;
	ahead->counts = false;
	taken = kw_reader_log_take(reader, range, range->start, ahead->buffer, length);
	if (taken == UINT64_MAX)
		return;
	reader->stats.ahead_used += taken > 0;
	if (taken == range->end - range->start)
		kw_reader_log_restart(reader, 1, 0);
	else
		kw_reader_log_restart(reader, 0, range->start + taken);
}

bool kw_reader_ahead_begin(struct kw_reader *reader)
{
	struct ahead *ahead = &reader->ahead;
	const struct range *range = reader->ranges;

	if (!ahead->counts || reader->range_count == 0 || range->segment != ahead->segment ||
		range->start != ahead->start || range->base + range->start != ahead->read.offset) {
		ahead->counts = false;
		return false;
	}
	if (ahead->out)
		reader->phase = PHASE_AHEAD;
	else
		take(reader);
	return true;
}

void kw_reader_ahead_arrived(struct kw_reader *reader)
{
	if (reader->phase == PHASE_AHEAD)
		take(reader);
}

void kw_reader_ahead_learn(struct kw_reader *reader, uint64_t grown)
{
	struct ahead *ahead = &reader->ahead;

	ahead->large = grown > KW_READER_AHEAD_BYTES;
	if (grown == 0)
		return;
	ahead->left = KW_READER_AHEAD_IN_VAIN;
	ahead->bytes = grown < AHEAD_LEAST / 2             ? AHEAD_LEAST
		       : grown < KW_READER_AHEAD_BYTES / 2 ? (uint32_t)grown * 2
							   : KW_READER_AHEAD_BYTES;
}
