#include "table/reader.h"

#include "base/secret.h"
#include "table/fault.h"
#include "table/reader_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CHUNK_BYTES (128u << 10)
#define DEFAULT_DEPTH 8
#define DEFAULT_TRIES 16
#define CHUNK_ALIGN 64

static void begin_pass(struct kw_reader *reader);

/* ---- a driver that needs no progress ---- */

static void ignore_superblock(
	void *arg, const struct kw_superblock *superblock, const struct kw_history *history)
{
	(void)arg;
	(void)superblock;
	(void)history;
}

static void ignore_done(void *arg, bool found)
{
	(void)arg;
	(void)found;
}

static void ignore_failed(void *arg, const struct kw_error *error)
{
	(void)arg;
	(void)error;
}

static const struct kw_reader_driver no_driver = {
	ignore_superblock, ignore_done, ignore_done, ignore_failed, NULL};

struct kw_reader *kw_reader_new(const struct kw_reader_options *options,
	const struct kw_reader_io *io, const struct kw_reader_sink *sink)
{
	struct kw_reader *reader = kw_zalloc(sizeof *reader);
	struct kw_reader_options *o = &reader->options;

	*o = *options;
	reader->io = *io;
	reader->sink = *sink;
	reader->driver = no_driver;
	if (o->chunk_bytes == 0)
		o->chunk_bytes = DEFAULT_CHUNK_BYTES;
	if (o->depth == 0)
		o->depth = DEFAULT_DEPTH;
	if (o->tries == 0)
		o->tries = DEFAULT_TRIES;
	o->chunk_bytes = (o->chunk_bytes + CHUNK_ALIGN - 1) / CHUNK_ALIGN * CHUNK_ALIGN;
	reader->chunks = kw_zalloc(o->depth * sizeof *reader->chunks);
	/* Values end there: core dumps leave it out. */
	reader->arena = kw_secret_new((size_t)o->depth * o->chunk_bytes);
	for (uint32_t i = 0; i < o->depth; i++)
		reader->chunks[i].read.buffer = reader->arena + (size_t)i * o->chunk_bytes;
	return reader;
}

void kw_reader_set_driver(struct kw_reader *reader, const struct kw_reader_driver *driver)
{
	assert(reader->phase == PHASE_IDLE);
	assert(driver->superblock && driver->pass_done && driver->look_done && driver->failed);
	reader->driver = *driver;
}

void kw_reader_free(struct kw_reader *reader)
{
	if (!reader)
		return;
	kw_buffer_close(&reader->carry);
	free(reader->ranges);
	kw_view_close(&reader->view);
	free(reader->chunks);
	kw_secret_free(reader->arena, (size_t)reader->options.depth * reader->options.chunk_bytes);
	free(reader);
}

bool kw_reader_idle(const struct kw_reader *reader)
{
	return reader->phase == PHASE_IDLE && !reader->start_waits;
}

bool kw_reader_waiting(const struct kw_reader *reader)
{
	return reader->phase == PHASE_WAITING;
}

const struct kw_reader_stats *kw_reader_stats(const struct kw_reader *reader)
{
	return &reader->stats;
}

int kw_reader_outstanding(const struct kw_reader *reader)
{
	return reader->outstanding;
}

static void go_idle(struct kw_reader *reader)
{
	reader->phase = PHASE_IDLE;
	reader->generation++;
	reader->chunk_count = 0;
	reader->posted_bytes = 0;
	kw_buffer_close(&reader->carry);
}

void kw_reader_stop(struct kw_reader *reader)
{
	reader->start_waits = false;
	go_idle(reader);
}

void kw_reader_fail(struct kw_reader *reader, const struct kw_error *error)
{
	go_idle(reader);
	reader->driver.failed(reader->driver.arg, error);
	reader->sink.failed(reader->sink.arg, error);
}

static void lapse(struct kw_reader *reader, const char *why)
{
	go_idle(reader);
	reader->sink.lapsed(reader->sink.arg, why);
}

static void start_now(struct kw_reader *reader)
{
	reader->start_waits = false;
	reader->tailing = false;
	reader->snapshot = !reader->has_cursor;
	kw_view_forget(&reader->view);
	kw_reader_history_forget(reader); /* the table can be another proxy's */
	reader->consistent = reader->deletes_known = reader->highest =
		reader->has_cursor ? reader->cursor_given.version : 0;
	reader->ahead.left = reader->ahead.bytes = reader->ahead.looks = 0;
	reader->ahead.large = reader->superblock_due = false;
	reader->torn_looks = 0;
	begin_pass(reader);
}

void kw_reader_start(struct kw_reader *reader, const struct kw_cursor *cursor)
{
	assert(kw_reader_idle(reader));
	reader->has_cursor = cursor != NULL;
	if (cursor)
		reader->cursor_given = *cursor;
	/* Earlier READs can still write into the buffers: wait for their ends first. */
	reader->start_waits = reader->outstanding > 0;
	if (!reader->start_waits)
		start_now(reader);
}

void kw_reader_poll(struct kw_reader *reader)
{
	if (reader->phase == PHASE_WAITING)
		begin_pass(reader);
}

void kw_reader_want_superblock(struct kw_reader *reader)
{
	reader->superblock_due = true;
}

void kw_reader_resume(struct kw_reader *reader)
{
	if (reader->phase == PHASE_LOG)
		kw_reader_log_post(reader);
}

/* Together with it, what is read ahead (NULL: nothing). */
static void read_superblock(struct kw_reader *reader, struct kw_read *ahead)
{
	struct kw_read *reads[] = {&reader->superblock_read, ahead};
	int count = ahead ? 2 : 1;

	reader->superblock_read = (struct kw_read){
		.offset = KW_SUPERBLOCK_OFFSET,
		.length = sizeof reader->probe,
		.buffer = (uint8_t *)&reader->probe,
		.reader = reader,
		.internal = (void *)(uintptr_t)reader->generation,
	};
	reader->phase = PHASE_SUPERBLOCK;
	reader->outstanding += count;
	reader->io.read(reader->io.arg, reads, count);
}

static void read_directory(struct kw_reader *reader)
{
	struct kw_read *read = &reader->directory_read;

	*read = (struct kw_read){
		.offset = reader->probe.directory_offset,
		.length = reader->probe.directory_bytes,
		.buffer = kw_view_sink(&reader->view, &reader->probe),
		.reader = reader,
		.internal = (void *)(uintptr_t)reader->generation,
	};
	reader->phase = PHASE_DIRECTORY;
	reader->outstanding++;
	reader->io.read(reader->io.arg, &read, 1);
}

static void begin_pass(struct kw_reader *reader)
{
	reader->purpose = PURPOSE_PASS;
	reader->mismatches = 0;
	reader->handed_on = reader->tailed = 0;
	if (!kw_reader_tail_look(reader))
		read_superblock(reader, kw_reader_ahead_ask(reader));
}

void kw_reader_looked(struct kw_reader *reader, bool whole)
{
	if (whole) {
		read_superblock(reader, NULL);
		return;
	}
	kw_reader_ahead_learn(reader, reader->tailed);
	reader->phase = PHASE_WAITING;
	reader->stats.looks++;
	reader->driver.look_done(reader->driver.arg, reader->handed_on > 0);
	reader->sink.look_done(reader->sink.arg, reader->handed_on > 0);
}

/* A record did not verify: ask superblock and directory whether its segment is still there. */
void kw_reader_recheck(struct kw_reader *reader, uint32_t range, uint64_t offset)
{
	assert(range < reader->range_count);
	if (reader->suspect_range != range || reader->suspect_offset != offset) {
		reader->suspect_range = range;
		reader->suspect_offset = offset;
		reader->mismatches = 0;
	}
	reader->purpose = PURPOSE_RECHECK;
	reader->stats.retries++;
	/* Chunks in flight belong to what is given up; their ends are counted and ignored. */
	reader->generation++;
	reader->chunk_count = 0;
	reader->posted_bytes = 0;
	kw_buffer_close(&reader->carry);
	reader->phase = PHASE_SUPERBLOCK;
	if (reader->outstanding == 0)
		read_superblock(reader, NULL);
}

/*
 * The writer lost its processor in the middle of a superblock: it will have one again. The position
 * is not in doubt, so the owner polls once more after its pause.
 */
static bool may_look_later(const struct kw_reader *reader)
{
	return reader->tailing && reader->purpose == PURPOSE_PASS &&
	       reader->options.ahead == KW_AHEAD_FREE && reader->torn_looks < KW_READER_TORN_LOOKS;
}

static void look_later(struct kw_reader *reader)
{
	reader->torn_looks++;
	reader->superblock_due = true;
	kw_reader_looked(reader, false);
}

/* Superblock or directory were torn or did not match: again, but not for ever. */
static void mismatch(struct kw_reader *reader, const struct kw_error *why)
{
	struct kw_error error = *why;

	reader->stats.retries++;
	if (++reader->mismatches < reader->options.tries) {
		read_superblock(reader, NULL);
		return;
	}
	if (may_look_later(reader)) {
		look_later(reader);
		return;
	}
	kw_error_wrap(&error, "still so after %u READs", reader->mismatches);
	kw_reader_fail(reader, &error);
}

/* Superblock and directory are a pair: begin what they were read for. */
static void pair_known(struct kw_reader *reader)
{
	uint64_t generation = reader->generation;
	struct kw_error error;

	assert(reader->view.directory.header);
	if (reader->purpose == PURPOSE_RECHECK) {
		const struct range *range = &reader->ranges[reader->suspect_range];
		uint64_t offset = reader->suspect_offset;

		if (!kw_directory_find(&reader->view.directory, range->segment)) {
			reader->vanished = true;
			reader->stats.vanished++;
			reader->stats.snapshot_done += range->end - offset;
			kw_reader_log_restart(reader, reader->suspect_range + 1, 0);
		} else if (++reader->mismatches < reader->options.tries) {
			kw_reader_log_restart(reader, reader->suspect_range, offset);
		} else {
			kw_error_set(&error, KW_E_CORRUPT,
				"segment %llu, offset %llu: the record does not verify after %u "
				"READs, and its segment was not recycled",
				(unsigned long long)range->segment, (unsigned long long)offset,
				reader->mismatches);
			kw_reader_fail(reader, &error);
		}
		return;
	}
	reader->superblock = reader->probe;
	reader->superblock_due = false;
	reader->torn_looks = 0;
	reader->ahead.looks = 0;
	reader->driver.superblock(reader->driver.arg, &reader->superblock, &reader->history);
	reader->sink.superblock(reader->sink.arg, &reader->superblock);
	if (reader->generation != generation)
		return;
	kw_reader_plan(reader);
	if (reader->generation == generation)
		kw_reader_log_begin(reader);
}

/* Does the superblock say that this position is no longer valid? */
static bool position_lapsed(struct kw_reader *reader)
{
	const struct kw_superblock *super = &reader->probe;

	if (reader->tailing && super->epoch != reader->superblock.epoch) {
		lapse(reader, "the table began a new epoch");
		return true;
	}
	if (reader->purpose == PURPOSE_RECHECK || (!reader->tailing && reader->snapshot))
		return false;
	if (!reader->tailing && super->epoch != reader->cursor_given.epoch) {
		lapse(reader, "the cursor is of another epoch");
		return true;
	}
	if (super->tombstone_floor > reader->deletes_known && !kw_fault_leaves_out(5)) {
		lapse(reader, "deletes not seen here have left the table (tombstone floor)");
		return true;
	}
	if (!reader->tailing && super->version < reader->cursor_given.version) {
		lapse(reader, "the cursor is ahead of the table");
		return true;
	}
	return false;
}

/* The superblock counts, and what it says of the history is known: on to the directory. */
static void look_for_directory(struct kw_reader *reader)
{
	struct kw_error error;

	switch (kw_directory_match(&reader->view.directory, &reader->probe, &error)) {
	case KW_OK:
		pair_known(reader);
		break;
	case KW_E_GONE:
		read_directory(reader);
		break;
	default:
		mismatch(reader, &error);
	}
}

static void history_arrived(struct kw_reader *reader)
{
	struct kw_error error;

	switch (kw_reader_history_take(reader, &error)) {
	case KW_OK:
		look_for_directory(reader);
		break;
	case KW_E_PROTOCOL:
		kw_reader_fail(reader, &error);
		break;
	default:
		mismatch(reader, &error);
	}
}

static void superblock_arrived(struct kw_reader *reader)
{
	struct kw_superblock *super = &reader->probe;
	struct kw_error error;
	int code = kw_superblock_check(super, &error);

	assert(reader->phase == PHASE_SUPERBLOCK);
	if (code == KW_E_PROTOCOL) {
		kw_reader_fail(reader, &error);
		return;
	}
	if (code != KW_OK) {
		mismatch(reader, &error);
		return;
	}
	/* If the epoch changes within a pass, nothing planned can be read any more. */
	if (reader->purpose == PURPOSE_RECHECK && super->epoch != reader->superblock.epoch) {
		lapse(reader, "the table began a new epoch");
		return;
	}
	if (position_lapsed(reader))
		return;
	if (kw_reader_history_due(reader))
		kw_reader_history_read(reader);
	else
		look_for_directory(reader);
}

static void directory_arrived(struct kw_reader *reader)
{
	const struct kw_directory *directory = &reader->view.directory;
	struct kw_superblock expected = reader->probe;
	struct kw_error error;

	assert(reader->phase == PHASE_DIRECTORY);
	if (kw_fault_leaves_out(3))
		expected.directory_publication =
			((struct kw_directory_header *)reader->view.sink)->publication;
	if (kw_view_take(&reader->view, &expected, &error)) {
		mismatch(reader, &error);
		return;
	}
	reader->io.extents(reader->io.arg, directory->extents, (int)directory->header->extents);
	pair_known(reader);
}

/*
 * All up to the head was read: that is the position. A look at the tail can have taken records
 * beyond the head of an older superblock.
 */
static void move_to_head(struct kw_reader *reader)
{
	const struct kw_superblock *super = &reader->superblock;

	if (reader->tailing && (reader->segment > super->head_segment ||
				       (reader->segment == super->head_segment &&
					       reader->offset > super->head_bytes)))
		return;
	reader->segment = super->head_segment;
	reader->offset = super->head_bytes;
	reader->newest = super->version;
}

/* The last range was read: the pass is over. */
void kw_reader_log_done(struct kw_reader *reader)
{
	const struct kw_superblock *super = &reader->superblock;
	uint64_t before = reader->consistent;
	struct kw_reader_pass pass;

	assert(reader->chunk_count == 0 && reader->posted_bytes == 0);
	if (reader->tailing)
		kw_reader_ahead_learn(reader, reader->tailed + kw_reader_planned_bytes(reader));
	move_to_head(reader);
	if (!reader->vanished) {
		reader->consistent = super->version;
		/* Deletes that a look at the tail brought are known, whatever this head is. */
		if (reader->deletes_known < super->version)
			reader->deletes_known = super->version;
	}
	pass = (struct kw_reader_pass){
		.epoch = super->epoch,
		.version = super->version,
		.consistent = reader->consistent,
		.snapshot = !reader->tailing && reader->snapshot,
		.vanished = reader->vanished,
		.moved = reader->handed_on > 0 || reader->consistent != before,
	};
	reader->tailing = true;
	reader->phase = PHASE_WAITING;
	reader->stats.passes++;
	reader->driver.pass_done(reader->driver.arg, pass.moved);
	reader->sink.pass_done(reader->sink.arg, &pass);
}

/* A READ of before a stop, a failure or a recheck: only its end counts. */
static void stale_arrived(struct kw_reader *reader)
{
	if (reader->outstanding > 0)
		return;
	if (reader->start_waits)
		start_now(reader);
	else if (reader->phase == PHASE_SUPERBLOCK)
		read_superblock(reader, NULL);
}

void kw_reader_complete(struct kw_read *read, const struct kw_error *error)
{
	struct kw_reader *reader = read->reader;

	assert(reader->outstanding > 0);
	reader->outstanding--;
	if (read == &reader->ahead.read)
		reader->ahead.out = false;
	if ((uintptr_t)read->internal != (uintptr_t)reader->generation) {
		stale_arrived(reader);
		return;
	}
	if (error) {
		kw_reader_fail(reader, error);
		return;
	}
	reader->stats.reads++;
	reader->stats.bytes += read->length;
	if (read == &reader->superblock_read)
		superblock_arrived(reader);
	else if (read == &reader->history_read)
		history_arrived(reader);
	else if (read == &reader->directory_read)
		directory_arrived(reader);
	else if (reader->phase == PHASE_TAIL)
		kw_reader_tail_arrived(reader);
	else if (read == &reader->ahead.read)
		kw_reader_ahead_arrived(reader);
	else
		kw_reader_log_arrived(reader, read);
}
