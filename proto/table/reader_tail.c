/*
 * A look at the tail alone: the next bytes of the log are read in the superblock's place.
 *
 *   plain   poll ──superblock──▶ ◀── grown ──log──▶ ◀── records     two round trips
 *   tail    poll ──log──▶ ◀── records                               one, of one READ
 *
 * If the next record is in the position's segment, it can stand in one place only, with one version
 * only. While a segment is the head every record goes there, one after the other, each with the
 * next version. Once a record goes elsewhere, that segment is sealed. So if a record at the
 * position has the next version and verifies for this place, it is published, or will be: the
 * writer never takes one back. Bytes of an earlier life of the memory cannot be taken for it,
 * whatever their checksum: versions only grow, so theirs are lower.
 *
 * The tail does not tell whether the log goes on in another segment, which deletes were dropped,
 * the state of the source, or the age of all this. The superblock does. It is read at the latest
 * every KW_READER_LOOKS looks, and at once if a record there cannot be taken. Until it has covered
 * them, records taken here move no version that a cursor or the owner is told.
 */
#include "table/reader_internal.h"

enum verdict {
	TAIL_TAKEN,   /* the next record was there */
	TAIL_QUIET,   /* nothing follows what was taken */
	TAIL_MORE,    /* the next record is there, and longer than what was read */
	TAIL_UNSURE,  /* it is there and does not verify: being written, or torn */
	TAIL_STOPPED, /* the sink stopped the reader */
};

static bool post(struct kw_reader *reader, uint64_t length)
{
	struct kw_read *read = kw_reader_ahead_aim(reader, length);

	if (!read)
		return false;
	reader->phase = PHASE_TAIL;
	reader->outstanding++;
	reader->io.read(reader->io.arg, &read, 1);
	return true;
}

bool kw_reader_tail_look(struct kw_reader *reader)
{
	struct ahead *ahead = &reader->ahead;
	bool active = kw_reader_ahead_active(reader);
	bool due = reader->superblock_due || ahead->looks + 1 >= KW_READER_LOOKS;
	uint64_t length = active ? ahead->bytes : KW_READER_GLANCE_BYTES;

	/* Much is coming, or something is amiss: superblock and directory say what to read. */
	if (reader->options.ahead != KW_AHEAD_FREE || !reader->tailing || reader->vanished ||
		ahead->large || ahead->out)
		return false;
	/*
	 * At rest a look is one READ in either case; and soon the log will go on in another
	 * segment.
	 */
	if ((due && !active) || kw_reader_ahead_left(reader) < length)
		return false;
	ahead->again = false;
	if (!post(reader, length))
		return false;
	ahead->looks++;
	if (active)
		ahead->left -= (uint32_t)ahead->read.length;
	return true;
}

/*
 * Verify the record at `at` of what was read into the batch's next place. TAIL_TAKEN, or why there
 * is none; *stride: of a record that is there.
 */
static enum verdict take_one(
	struct kw_reader *reader, struct batch *batch, uint64_t at, uint64_t *stride)
{
	const struct ahead *ahead = &reader->ahead;
	const uint8_t *bytes = ahead->buffer + at;
	uint64_t left = ahead->read.length - at;
	struct kw_place place = {reader->superblock.epoch, ahead->segment, ahead->start + at};
	struct kw_record_front front;

	if (!kw_record_peek(bytes, (size_t)left, ahead->end - place.offset, &front) ||
		front.version != reader->newest + 1)
		return TAIL_QUIET;
	*stride = front.stride;
	if (front.stride > left)
		return TAIL_MORE;
	if (kw_record_parse(bytes, &place, &batch->views[batch->count]))
		return TAIL_UNSURE;
	reader->newest = reader->deletes_known = front.version;
	reader->offset = place.offset + front.stride;
	reader->tailed += front.stride;
	kw_reader_collect(reader, batch);
	return TAIL_TAKEN;
}

/* The records at the front of what was read; *stride: of the next one, if there is MORE. */
static enum verdict take(struct kw_reader *reader, uint64_t *stride)
{
	enum verdict verdict;
	struct batch batch;

	batch.count = 0;
	for (uint64_t at = 0;; at += *stride) {
		verdict = take_one(reader, &batch, at, stride);
		if (verdict != TAIL_TAKEN)
			break;
		if (batch.count == KW_READER_BATCH && !kw_reader_hand_on(reader, &batch))
			return TAIL_STOPPED;
	}
	return kw_reader_hand_on(reader, &batch) ? verdict : TAIL_STOPPED;
}

/* A second READ, no more, for a record that the first one was too short for. */
static bool ask_again(struct kw_reader *reader, uint64_t stride)
{
	struct ahead *ahead = &reader->ahead;

	if (ahead->again || stride > KW_READER_AHEAD_BYTES)
		return false;
	ahead->again = true;
	return post(reader, stride > ahead->bytes ? stride : ahead->bytes);
}

void kw_reader_tail_arrived(struct kw_reader *reader)
{
	struct ahead *ahead = &reader->ahead;
	uint64_t before = reader->tailed, stride = 0;
	enum verdict verdict;
	bool brought, all;

	ahead->counts = false;
	/* Paused, or filled up, since it was asked for: thrown away, and read again later. */
	if (reader->sink.room(reader->sink.arg) == 0) {
		kw_reader_looked(reader, false);
		return;
	}
	verdict = take(reader, &stride);
	if (verdict == TAIL_STOPPED)
		return;
	brought = reader->tailed > before;
	reader->stats.ahead_used += brought;
	if (verdict == TAIL_MORE && ask_again(reader, stride))
		return;
	/* It was full to the end: there is more than small changes. */
	all = reader->tailed == before + ahead->read.length &&
	      ahead->read.length == KW_READER_AHEAD_BYTES;
	kw_reader_looked(reader,
		verdict != TAIL_QUIET || all || reader->superblock_due ||
			ahead->looks >= KW_READER_LOOKS ||
			(reader->handed_on == 0 && reader->newest > reader->superblock.version));
}
