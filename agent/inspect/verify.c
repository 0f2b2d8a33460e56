#include "verify.h"

#include "base/clock.h"
#include "verify_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

/* ---- what all parts use ---- */

void kw_verify_fail_reply(
	struct kw_verify *verify, const char *command, const struct kw_reply *reply)
{
	struct kw_error error;
	struct kw_slice words = kw_ask_words(reply);

	kw_error_set(&error, KW_E_REFUSED, "verify: the local server answers %s with \"%.*s\"",
		command, (int)words.length, words.length ? (const char *)words.data : "");
	kw_run_fail(&verify->run, &error);
}

static void on_ask_failed(void *arg, const char *command, const struct kw_reply *reply)
{
	kw_verify_fail_reply(arg, command, reply);
}

bool kw_verify_wants(struct kw_verify *verify, uint32_t database, struct kw_slice key)
{
	const struct kw_naming *names = &verify->options.filter->names;
	const char *own = verify->options.cursor_key;

	if (!kw_filter_has_database(verify->options.filter, database) ||
		!kw_filter_has_key(verify->options.filter, key))
		return false;
	if (!*own || kw_naming_local_database(names, database) != 0)
		return true;
	return !kw_slice_equal(kw_naming_local_key(names, key, &verify->name), kw_slice_text(own));
}

void kw_verify_name(struct kw_verify_list *list, uint32_t database, struct kw_slice key)
{
	size_t length = key.length < KW_VERIFY_NAME_BYTES ? key.length : KW_VERIFY_NAME_BYTES;
	struct kw_verify_name *name;
	char *copy;

	list->count++;
	if (list->named == KW_VERIFY_NAMES_MAX)
		return;
	copy = kw_alloc(length + 1);
	if (length)
		memcpy(copy, key.data, length);
	name = &list->names[list->named++];
	*name = (struct kw_verify_name){database, kw_slice(copy, length)};
}

uint64_t kw_verify_checked(const struct kw_verify *verify)
{
	return verify->result.checked;
}

/* ---- the end ---- */

static void free_names(struct kw_verify_list *list)
{
	for (int i = 0; i < list->named; i++)
		free((void *)(uintptr_t)list->names[i].key.data);
}

static void on_ending(void *arg)
{
	struct kw_verify *verify = arg;

	kw_lookups_stop(verify->lookups);
	if (verify->redis)
		kw_redis_close(verify->redis);
}

static void on_ended(void *arg, const struct kw_error *error)
{
	struct kw_verify *verify = arg;
	struct kw_verify_result *result = &verify->result;

	assert(!verify->redis);
	result->seconds = kw_run_seconds(&verify->run);
	verify->fn(verify->arg, result, error);
	kw_verify_suspects_close(verify);
	kw_run_close(&verify->run);
	kw_lookups_free(verify->lookups);
	kw_keyset_close(&verify->seen);
	kw_buffer_close(&verify->asked);
	kw_buffer_close(&verify->name);
	kw_buffer_close(&verify->scan_name);
	kw_ask_close(&verify->ask);
	free(verify->databases);
	free_names(&result->different);
	free_names(&result->missing);
	free_names(&result->extra);
	free(verify);
}

void kw_verify_cancel(struct kw_verify *verify, const char *why)
{
	kw_run_cancel(&verify->run, why);
}

/* ---- phases ---- */

static void on_snapshot_compared(struct kw_verify *verify)
{
	assert(verify->phase == KW_VERIFY_SNAPSHOT);
	if (verify->options.sample)
		verify->phase = KW_VERIFY_SETTLE;
	else
		kw_verify_scan_start(verify);
}

void kw_verify_step(struct kw_verify *verify)
{
	if (kw_verify_over(verify) || kw_run_is(&verify->run, KW_RUN_BEGUN))
		return;
	if (verify->phase == KW_VERIFY_SNAPSHOT) {
		kw_run_resume(&verify->run);
		if (kw_run_is(&verify->run, KW_RUN_READ) && kw_buffer_length(&verify->asked) == 0)
			on_snapshot_compared(verify);
	}
	if (verify->phase == KW_VERIFY_SCAN)
		kw_verify_scan_step(verify);
	if (!kw_verify_over(verify))
		kw_verify_suspects_step(verify);
	if (verify->phase == KW_VERIFY_SETTLE && verify->suspects == 0)
		kw_run_succeed(&verify->run);
}

/* ---- progress ---- */

static double share_of(uint64_t part, uint64_t whole)
{
	return part < whole ? (double)part / (double)whole : 1;
}

/* The snapshot is one half, the search for extra keys the other. A sample has only the first. */
static double share(const struct kw_verify *verify)
{
	const struct kw_reader_stats *stats = kw_reader_stats(verify->run.reader);
	double read =
		stats->snapshot_bytes ? share_of(stats->snapshot_done, stats->snapshot_bytes) : 0;

	if (verify->phase == KW_VERIFY_SETTLE)
		return 1;
	if (verify->options.sample)
		return read;
	if (verify->phase == KW_VERIFY_SNAPSHOT)
		return read / 2;
	return 0.5 + share_of(verify->result.scanned, verify->result.checked) / 2;
}

static void tell_progress(struct kw_verify *verify)
{
	const struct kw_verify_progress so_far = {
		verify->result.checked + verify->result.scanned, share(verify)};
	uint64_t now_us = kw_clock_us();

	if (!verify->options.progress || now_us - verify->told_us < KW_VERIFY_PROGRESS_MS * 1000)
		return;
	verify->told_us = now_us;
	verify->options.progress(verify->arg, &so_far);
}

static void on_tick(void *arg)
{
	struct kw_verify *verify = arg;

	kw_verify_step(verify);
	if (!kw_verify_over(verify) && !kw_run_is(&verify->run, KW_RUN_BEGUN))
		tell_progress(verify);
}

/* ---- what the run tells ---- */

static bool chosen(const struct kw_verify *verify, const struct kw_record_view *record)
{
	if (!verify->options.sample)
		return true;
	return kw_hash_key(verify->sample_seed, record->database, record->key.data,
		       record->key.length) < verify->sample_below;
}

/* A tail after a snapshot that lost a segment brings deletes, too: lookups find them. */
static bool is_compared(struct kw_verify *verify, const struct kw_record_view *record)
{
	return record->kind == KW_RECORD_PUT &&
	       kw_verify_wants(verify, record->database, record->key) && chosen(verify, record);
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct kw_verify *verify = arg;
	uint64_t compared = 0;

	for (size_t i = 0; i < count; i++)
		compared |= (uint64_t)is_compared(verify, &records[i]) << i;
	if (!verify->options.sample)
		compared = kw_keyset_add_records(&verify->seen, records, compared);
	for (; compared && !kw_verify_over(verify); compared &= compared - 1)
		kw_verify_compare(verify, &records[__builtin_ctzll(compared)]);
}

static uint64_t on_room(void *arg)
{
	return kw_verify_room(arg);
}

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
	struct kw_verify *verify = arg;
	uint64_t sample = verify->options.sample, keys = verify->run.superblock.keys;

	/* The choice of keys stays when the table is read anew. */
	if (verify->run.snapshots > 0)
		return;
	if (!sample)
		kw_keyset_reserve(&verify->seen, kw_run_keys(&verify->run));
	else
		verify->sample_below = sample >= keys ? UINT64_MAX : UINT64_MAX / keys * sample;
}

static void on_read(void *arg)
{
	kw_verify_step(arg);
}

/* ---- begin ---- */

static void on_ready(void *arg)
{
	struct kw_verify *verify = arg;

	if (!kw_verify_over(verify))
		kw_run_read(&verify->run);
}

static void on_redis_closed(void *arg, const struct kw_error *why)
{
	struct kw_verify *verify = arg;
	struct kw_error error = *why;

	kw_redis_free(verify->redis);
	verify->redis = NULL;
	if (error.code == KW_OK)
		kw_error_set(&error, KW_E_IO, "the connection closed");
	kw_error_wrap(&error, "verify: the local server");
	kw_run_fail(&verify->run, &error);
	kw_run_release(&verify->run);
}

static void begin_run(struct kw_verify *verify)
{
	const struct kw_run_options options = {
		.name = "verify",
		.loop = verify->options.loop,
		.remote = verify->options.remote,
		.remote_arg = verify->options.remote_arg,
	};
	const struct kw_run_handlers handlers = {
		.snapshot = on_snapshot,
		.records = on_records,
		.room = on_room,
		.read = on_read,
		.tick = on_tick,
		.ending = on_ending,
		.ended = on_ended,
		.arg = verify,
	};
	const struct kw_lookups_options lookups_options = {0};
	struct kw_lookups_io io;

	kw_run_begin(&verify->run, &options, &handlers);
	kw_run_hold(&verify->run); /* the connection */
	io = kw_reads_lookups_io(&verify->run.reads);
	verify->lookups = kw_lookups_new(&lookups_options, &io);
}

int kw_verify_start(const struct kw_verify_options *options, kw_verify_fn fn, void *arg,
	struct kw_verify **result, struct kw_error *error)
{
	struct kw_verify *verify = kw_zalloc(sizeof *verify);
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_redis_closed, .arg = verify};
	int code = kw_redis_open(options->loop, &options->redis, &handlers, &verify->redis, error);

	if (code) {
		free(verify);
		return code;
	}
	verify->options = *options;
	verify->options.redis.password = kw_slice(NULL, 0); /* kw_redis_open has its own copy */
	verify->fn = fn;
	verify->arg = arg;
	verify->ask = (struct kw_ask){
		.redis = verify->redis,
		.names = &options->filter->names,
		.pexpiretime = options->pexpiretime,
		.failed = on_ask_failed,
		.arg = verify,
		.database = -1,
	};
	verify->result.sampled = options->sample != 0;
	if (getrandom(&verify->sample_seed, sizeof verify->sample_seed, GRND_NONBLOCK) < 0)
		verify->sample_seed = kw_wall_us();
	begin_run(verify);
	*result = verify;
	return KW_OK;
}
