#include "export.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "keys/keyset.h"
#include "rdb/payload.h"
#include "rdb/rdb.h"
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_BYTES ((size_t)256 << 10) /* gathered before they are written */
#define KEEP_BYTES ((size_t)8 << 20)    /* of a buffer, after a larger value */
#define OLDEST_VERSION 9 /* of an empty stream if no version is known: every server loads it */
#define NAMED_BYTES 60   /* of a key in a sentence */

struct kw_export {
	struct kw_export_options options;
	struct kw_export_handlers handlers;
	struct kw_run run; /* READING; READ: the last bytes are flushed */
	struct kw_export_result result;
	uint64_t told_us;

	uv_pipe_t pipe;
	struct kw_buffer out, writing; /* appended to; being written, empty when nothing is */
	uv_write_t write;

	struct kw_keyset seen; /* a key that comes twice would make a server panic */
	struct kw_rdb rdb;
};

static bool is_reading(const struct kw_export *export)
{
	return kw_run_is(&export->run, KW_RUN_READING);
}

/* ---- the end ---- */

static void on_pipe_closed(uv_handle_t *handle)
{
	struct kw_export *export = handle->data;

	kw_run_release(&export->run);
}

/* Close the pipe at once: it tells the other side of the end. */
static void on_ending(void *arg)
{
	struct kw_export *export = arg;

	uv_close((uv_handle_t *)&export->pipe, on_pipe_closed);
}

static void on_ended(void *arg, const struct kw_error *error)
{
	struct kw_export *export = arg;

	kw_export_result(export);
	export->handlers.done(export->handlers.arg, &export->result, error);
	kw_run_close(&export->run);
	kw_keyset_close(&export->seen);
	kw_buffer_close(&export->out);
	kw_buffer_close(&export->writing);
	free(export);
}

void kw_export_cancel(struct kw_export *export, const char *why)
{
	kw_run_cancel(&export->run, why);
}

const struct kw_export_result *kw_export_result(struct kw_export *export)
{
	const struct kw_reader_stats *stats = kw_reader_stats(export->run.reader);
	double progress = 0;

	if (stats->snapshot_bytes)
		progress = (double)stats->snapshot_done / (double)stats->snapshot_bytes;
	export->result.progress = is_reading(export) && progress < 1 ? progress : 1;
	export->result.keys = export->rdb.entries;
	export->result.bytes = export->rdb.bytes;
	export->result.seconds = kw_run_seconds(&export->run);
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

	kw_buffer_clear(&export->writing);
	kw_buffer_trim(&export->writing, KEEP_BYTES);
	if (kw_run_over(&export->run))
		return;
	if (status < 0) {
		kw_error_set(&error, KW_E_IO, "export: what takes the bytes does not any more: %s",
			uv_strerror(status));
		kw_run_fail(&export->run, &error);
		return;
	}
	flush(export);
	kw_run_resume(&export->run);
	if (kw_run_is(&export->run, KW_RUN_READ) && queued(export) == 0)
		kw_run_succeed(&export->run);
}

/* One write at a time; what comes meanwhile goes out together with the next. */
static void flush(struct kw_export *export)
{
	struct kw_buffer swap = export->writing;
	uv_buf_t bytes;
	int code;

	if (kw_buffer_length(&export->writing) > 0 || kw_run_over(&export->run) ||
		kw_buffer_length(&export->out) == 0)
		return;
	export->writing = export->out;
	export->out = swap;
	bytes.base = (char *)export->writing.data + export->writing.start;
	bytes.len = kw_buffer_length(&export->writing);
	export->write.data = export;
	code = uv_write(&export->write, (uv_stream_t *)&export->pipe, &bytes, 1, on_written);
	if (code)
		on_written(&export->write, code);
}

/* ---- the stream ---- */

/* The header waits for the first payload only if the proxy does not say the version. */
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
	uint16_t version = export->run.superblock.rdb_version;
	struct kw_error error;

	if (!export->result.rdb_version && version == 0)
		kw_payload_check(record->value, &version, NULL);
	begin_stream(export, version);
	if (kw_rdb_put(&export->rdb, &entry, &export->out, &error)) {
		kw_error_wrap(&error, "export: database %u, key \"%.*s\"", record->database,
			(int)named, (const char *)record->key.data);
		kw_run_fail(&export->run, &error);
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

	for (size_t i = 0; i < count; i++)
		chosen |= (uint64_t)is_exported(export, &records[i]) << i;
	chosen = kw_keyset_add_records(&export->seen, records, chosen);
	for (; chosen && is_reading(export); chosen &= chosen - 1) {
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

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
	struct kw_export *export = arg;
	struct kw_export_result *result = &export->result;

	if (result->epoch && result->epoch != epoch) {
		kw_export_cancel(export, "the proxy began another table meanwhile: try again");
		return;
	}
	if (result->epoch)
		return;
	result->epoch = epoch;
	result->version = version;
	result->fresh_us = export->run.superblock.fresh_us;
	result->source_state = export->run.superblock.source_state;
	kw_keyset_reserve(&export->seen, kw_run_keys(&export->run));
}

static void on_read(void *arg)
{
	struct kw_export *export = arg;

	export->result.one_moment = export->run.snapshots == 0 && export->run.tails == 0;
	begin_stream(export, export->run.superblock.rdb_version);
	kw_rdb_end(&export->rdb, &export->out);
	flush(export);
}

/* ---- begin ---- */

static void on_tick(void *arg)
{
	struct kw_export *export = arg;
	uint64_t now = kw_clock_us();

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

static void begin_run(struct kw_export *export)
{
	const struct kw_run_options options = {
		.name = "export",
		.loop = export->options.loop,
		.remote = export->options.remote,
		.remote_arg = export->options.remote_arg,
	};
	const struct kw_run_handlers handlers = {
		.snapshot = on_snapshot,
		.records = on_records,
		.room = on_room,
		.read = on_read,
		.tick = on_tick,
		.ending = on_ending,
		.ended = on_ended,
		.arg = export,
	};

	kw_run_begin(&export->run, &options, &handlers);
	uv_pipe_init(options.loop, &export->pipe, 0);
	export->pipe.data = export;
	kw_run_hold(&export->run); /* the pipe */
}

/* Writing to a file would block the loop: its descriptor cannot be non-blocking. */
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
	export->told_us = kw_clock_us();
	export->result.begun_us = kw_wall_us();
	begin_run(export);
	*result = export;
	code = uv_pipe_open(&export->pipe, options->fd);
	if (code) {
		close(options->fd);
		kw_error_set(&why, KW_E_IO, "export: the descriptor: %s", uv_strerror(code));
		kw_run_fail(&export->run, &why);
	} else {
		kw_run_read(&export->run);
	}
	return KW_OK;
}
