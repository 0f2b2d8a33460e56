#include "export.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "keys/keyset.h"
#include "rdb/payload.h"
#include "rdb/rdb.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_MS 20
#define READER_DEPTH 4                       /* READs in flight: the agent's own keeps its share */
#define WRITE_BYTES ((size_t)256 << 10)      /* gathered before they are written */
#define KEEP_BYTES ((size_t)8 << 20)         /* of a buffer, after a larger value */
#define RESERVE_KEYS_MAX (UINT64_C(1) << 24) /* believed of what the superblock says */
#define TAILS_MAX 100                        /* passes behind a snapshot, while segments vanish */
#define SNAPSHOTS_MAX 3  /* begun anew because the table went past what was read */
#define OLDEST_VERSION 9 /* of an empty stream when nobody knows better: every server loads it */
#define NAMED_BYTES 60   /* of a key in a sentence */

enum phase { READING, FLUSHING, CLOSING };

struct kw_export {
	struct kw_export_options options;
	struct kw_export_handlers handlers;
	enum phase phase;
	struct kw_export_result result;
	struct kw_error error; /* code KW_OK: none */
	uint64_t begun_us, told_us;

	uv_timer_t tick;
	uv_pipe_t pipe;
	bool pipe_closing, tick_closing;
	int handles;                   /* of these two, not yet closed */
	struct kw_buffer out, writing; /* appended to; being written */
	uv_write_t write;
	bool write_busy;

	struct kw_reads reads;
	struct kw_reader *reader;
	struct kw_superblock superblock; /* the latest of the reader's */
	uint32_t snapshots, tails;
	struct kw_keyset seen; /* a key that came twice would make a server panic */
	struct kw_rdb rdb;
};

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle)
{
	struct kw_export *export = handle->data;
	bool failed = export->error.code != KW_OK;

	if (--export->handles > 0)
		return;
	kw_export_result(export);
	export->handlers.done(
		export->handlers.arg, &export->result, failed ? &export->error : NULL);
	kw_reader_free(export->reader);
	kw_reads_close(&export->reads);
	kw_keyset_close(&export->seen);
	kw_buffer_close(&export->out);
	kw_buffer_close(&export->writing);
	free(export);
}

/*
 * The pipe goes at once: the other side learns of the end by it. Memory stays until every READ was
 * told back (the carrier writes into it); the tick goes on until then: it tells back what was
 * refused.
 */
static void close_when_quiet(struct kw_export *export)
{
	kw_reader_stop(export->reader);
	if (!export->pipe_closing) {
		export->pipe_closing = true;
		uv_close((uv_handle_t *)&export->pipe, on_closed);
	}
	if (export->reads.outstanding > 0 || export->tick_closing)
		return;
	export->tick_closing = true;
	uv_close((uv_handle_t *)&export->tick, on_closed);
}

static void fail(struct kw_export *export, const struct kw_error *error)
{
	if (export->phase == CLOSING)
		return;
	export->error = *error;
	export->phase = CLOSING;
	close_when_quiet(export);
}

void kw_export_cancel(struct kw_export *export, const char *why)
{
	struct kw_error error;

	kw_error_set(&error, KW_E_STATE, "export: %s", why);
	fail(export, &error);
}

const struct kw_export_result *kw_export_result(struct kw_export *export)
{
	const struct kw_reader_stats *stats = kw_reader_stats(export->reader);
	double progress = 0;

	if (stats->snapshot_bytes)
		progress = (double)stats->snapshot_done / (double)stats->snapshot_bytes;
	export->result.progress = export->phase == READING && progress < 1 ? progress : 1;
	export->result.keys = export->rdb.entries;
	export->result.bytes = export->rdb.bytes;
	export->result.seconds = (double)(kw_clock_us() - export->begun_us) / 1e6;
	return &export->result;
}

/* ---- bytes out ---- */

static size_t queued(const struct kw_export *export)
{
	return kw_buffer_length(&export->out) + kw_buffer_length(&export->writing);
}

static void flush(struct kw_export *export);

static void on_written(uv_write_t *write, int status)
{
	struct kw_export *export = write->data;
	struct kw_error error;

	export->write_busy = false;
	kw_buffer_clear(&export->writing);
	kw_buffer_trim(&export->writing, KEEP_BYTES);
	if (export->phase == CLOSING)
		return;
	if (status < 0) {
		kw_error_set(&error, KW_E_IO, "export: what takes the bytes does not any more: %s",
			uv_strerror(status));
		fail(export, &error);
		return;
	}
	flush(export);
	if (export->phase == READING)
		kw_reader_resume(export->reader);
	if (export->phase == FLUSHING && queued(export) == 0) {
		export->phase = CLOSING;
		close_when_quiet(export);
	}
}

/* One write at a time; what comes meanwhile goes out together with the next. */
static void flush(struct kw_export *export)
{
	struct kw_buffer swap = export->writing;
	uv_buf_t bytes;
	int code;

	if (export->write_busy || export->phase == CLOSING || kw_buffer_length(&export->out) == 0)
		return;
	export->writing = export->out;
	export->out = swap;
	bytes.base = (char *)export->writing.data + export->writing.start;
	bytes.len = kw_buffer_length(&export->writing);
	export->write.data = export;
	code = uv_write(&export->write, (uv_stream_t *)&export->pipe, &bytes, 1, on_written);
	if (code)
		on_written(&export->write, code);
	else
		export->write_busy = true;
}

/* ---- the stream ---- */

/* The header waits for the first payload only where the proxy does not say what it holds. */
static void begin_stream(struct kw_export *export, uint16_t version)
{
	if (export->result.rdb_version)
		return;
	if (version == 0 || version > KW_RDB_VERSION_MAX)
		version = OLDEST_VERSION;
	export->result.rdb_version = version;
	kw_rdb_begin(&export->rdb, version, true, &export->out);
}

static void append(struct kw_export *export, const struct kw_record_view *record)
{
	const struct kw_rdb_entry entry = {
		record->database, record->expires_ms, record->key, record->value};
	size_t named = record->key.length < NAMED_BYTES ? record->key.length : NAMED_BYTES;
	uint16_t version = export->superblock.rdb_version;
	struct kw_error error;

	if (!export->result.rdb_version && version == 0)
		kw_payload_check(record->value, &version, NULL);
	begin_stream(export, version);
	if (kw_rdb_put(&export->rdb, &entry, &export->out, &error)) {
		kw_error_wrap(&error, "export: database %u, key \"%.*s\"", record->database,
			(int)named, (const char *)record->key.data);
		fail(export, &error);
	}
}

/* A tail after a snapshot that lost a segment brings deletes, too: see the header. */
static bool is_exported(const struct kw_export *export, const struct kw_record_view *record)
{
	const struct kw_filter *filter = export->options.filter;

	return record->kind == KW_RECORD_PUT && kw_filter_has_database(filter, record->database) &&
	       kw_filter_has_key(filter, record->key);
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct kw_export *export = arg;
	uint64_t chosen = 0;

	if (export->phase != READING)
		return;
	for (size_t i = 0; i < count; i++)
		chosen |= (uint64_t)is_exported(export, &records[i]) << i;
	chosen = kw_keyset_add_records(&export->seen, records, chosen);
	for (; chosen && export->phase == READING; chosen &= chosen - 1) {
		append(export, &records[__builtin_ctzll(chosen)]);
		if (kw_buffer_length(&export->out) >= WRITE_BYTES)
			flush(export);
	}
}

static uint64_t on_room(void *arg)
{
	const struct kw_export *export = arg;
	size_t used = queued(export);

	return used < KW_EXPORT_WINDOW_BYTES ? KW_EXPORT_WINDOW_BYTES - used : 0;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct kw_export *export = arg;

	export->superblock = *superblock;
	if (!superblock->complete)
		kw_export_cancel(export,
			"the proxy's table is not complete yet: wait until the proxy is live");
}

static void on_snapshot_begin(void *arg, uint64_t epoch, uint64_t version)
{
	struct kw_export *export = arg;
	struct kw_export_result *result = &export->result;
	uint64_t keys = export->superblock.keys;

	if (export->phase != READING)
		return;
	if (result->epoch && result->epoch != epoch) {
		kw_export_cancel(export, "the proxy began another table meanwhile: try again");
		return;
	}
	if (result->epoch)
		return;
	result->epoch = epoch;
	result->version = version;
	result->fresh_us = export->superblock.fresh_us;
	result->source_state = export->superblock.source_state;
	kw_keyset_reserve(&export->seen, keys < RESERVE_KEYS_MAX ? keys : RESERVE_KEYS_MAX);
}

static void on_pass_done(void *arg, const struct kw_reader_pass *pass)
{
	struct kw_export *export = arg;

	if (export->phase != READING)
		return;
	if (pass->consistent == 0 && pass->vanished) {
		/* Segments were cleaned away unread: their records follow in the tail. */
		if (++export->tails < TAILS_MAX)
			kw_reader_poll(export->reader);
		else
			kw_export_cancel(
				export, "the table changes faster than it can be read: try again");
		return;
	}
	export->result.one_moment = export->snapshots == 0 && export->tails == 0;
	begin_stream(export, export->superblock.rdb_version);
	kw_rdb_end(&export->rdb, &export->out);
	export->phase = FLUSHING;
	flush(export);
}

static void on_lapsed(void *arg, const char *why)
{
	struct kw_export *export = arg;

	if (export->phase != READING)
		return;
	if (++export->snapshots < SNAPSHOTS_MAX)
		kw_reader_start(export->reader, NULL);
	else
		kw_export_cancel(export, "the table changes faster than it can be read: try again");
}

static void on_reader_failed(void *arg, const struct kw_error *error)
{
	struct kw_error wrapped = *error;

	kw_error_wrap(&wrapped, "export: the proxy's table");
	fail(arg, &wrapped);
}

/* ---- begin ---- */

static void on_tick(uv_timer_t *timer)
{
	struct kw_export *export = timer->data;
	uint64_t now = kw_clock_us();

	kw_reads_tick(&export->reads);
	if (export->phase == CLOSING) {
		close_when_quiet(export);
		return;
	}
	if (!export->handlers.wanted(export->handlers.arg)) {
		kw_export_cancel(export, "whoever asked for it is gone");
		return;
	}
	flush(export);
	if (now - export->told_us < KW_EXPORT_PROGRESS_MS * 1000)
		return;
	export->told_us = now;
	export->handlers.progress(export->handlers.arg, kw_export_result(export));
}

static struct kw_reader *make_reader(struct kw_export *export)
{
	const struct kw_reader_options options = {.depth = READER_DEPTH, .ahead = KW_AHEAD_OFF};
	const struct kw_reader_sink sink = {
		.snapshot_begin = on_snapshot_begin,
		.records = on_records,
		.room = on_room,
		.superblock = on_superblock,
		.pass_done = on_pass_done,
		.lapsed = on_lapsed,
		.failed = on_reader_failed,
		.arg = export,
	};
	const struct kw_reader_io io = kw_reads_reader_io(&export->reads);

	return kw_reader_new(&options, &io, &sink);
}

/* Writing to a file would hold the loop up: no descriptor of one can be non-blocking. */
static int check_fd(int fd, struct kw_error *error)
{
	struct stat info;

	if (fstat(fd, &info))
		return kw_error_errno(error, errno, "export: the descriptor");
	if (!S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode))
		return kw_error_set(error, KW_E_ARGUMENT,
			"export: the descriptor is neither a pipe nor a socket: pass the writing "
			"end of a pipe");
	return KW_OK;
}

int kw_export_start(const struct kw_export_options *options,
	const struct kw_export_handlers *handlers, struct kw_export **result,
	struct kw_error *error)
{
	struct kw_export *export;
	struct kw_error why;
	int code = check_fd(options->fd, error);

	if (code)
		return code;
	export = kw_zalloc(sizeof *export);
	export->options = *options;
	export->handlers = *handlers;
	export->begun_us = export->told_us = kw_clock_us();
	export->result.begun_us = kw_wall_us();
	uv_pipe_init(options->loop, &export->pipe, 0);
	uv_timer_init(options->loop, &export->tick);
	export->pipe.data = export->tick.data = export;
	export->handles = 2;
	kw_reads_init(&export->reads, options->remote, options->remote_arg);
	export->reader = make_reader(export);
	uv_timer_start(&export->tick, on_tick, TICK_MS, TICK_MS);
	*result = export;
	code = uv_pipe_open(&export->pipe, options->fd);
	if (code) {
		close(options->fd);
		kw_error_set(&why, KW_E_IO, "export: the descriptor: %s", uv_strerror(code));
		fail(export, &why);
	} else {
		kw_reader_start(export->reader, NULL);
	}
	return KW_OK;
}
