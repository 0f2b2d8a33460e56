#include "verify.h"

#include "base/clock.h"
#include "verify_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define TICK_MS 20
#define READER_DEPTH 4 /* READs in flight: the agent's own reader keeps its share */
#define RESERVE_KEYS_MAX (UINT64_C(1) << 24) /* believed of what the superblock says */
#define TAILS_MAX 100                        /* passes behind a snapshot, while segments vanish */
#define SNAPSHOTS_MAX 3 /* begun anew because the table went past what was read */

static const char too_fast[] = "the table changes faster than it can be read: try again";

static void close_when_quiet(struct kw_verify *verify);

/* ---- what all parts use ---- */

void kw_verify_fail(struct kw_verify *verify, const struct kw_error *error)
{
	if (kw_verify_over(verify))
		return;
	verify->error = *error;
	verify->phase = KW_VERIFY_CLOSING;
	close_when_quiet(verify);
}

void kw_verify_fail_reply(
	struct kw_verify *verify, const char *command, const struct kw_reply *reply)
{
	struct kw_error error;
	bool text = reply->type == KW_REPLY_ERROR || reply->type == KW_REPLY_STATUS;

	kw_error_set(&error, KW_E_REFUSED, "verify: the local server answers %s with \"%.*s\"",
		command, text ? (int)(reply->text.length < 300 ? reply->text.length : 300) : 19,
		text ? (const char *)reply->text.data : "something unexpected");
	kw_verify_fail(verify, &error);
}

static void on_selected(void *arg, const struct kw_reply *reply)
{
	struct kw_verify *verify = arg;

	/* What follows was meant for another database: it must not be believed. */
	if (reply && reply->type != KW_REPLY_STATUS)
		kw_verify_fail_reply(verify, "SELECT", reply);
}

void kw_verify_select(struct kw_verify *verify, uint32_t database)
{
	char number[16];

	if (verify->database == (int64_t)database)
		return;
	verify->database = database;
	snprintf(number, sizeof number, "%u", database);
	kw_redis_words(verify->redis, on_selected, verify, "SELECT", number, NULL);
}

bool kw_verify_wants(const struct kw_verify *verify, uint32_t database, struct kw_slice key)
{
	const char *own = verify->options.cursor_key;

	if (!kw_filter_has_database(verify->options.filter, database) ||
		!kw_filter_has_key(verify->options.filter, key))
		return false;
	return database != 0 || !*own || !kw_slice_equal(key, kw_slice_text(own));
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

static void finish(struct kw_verify *verify)
{
	struct kw_verify_result *result = &verify->result;
	bool failed = verify->error.code != KW_OK;

	result->seconds = (double)(kw_clock_us() - verify->begun_us) / 1e6;
	verify->fn(verify->arg, result, failed ? &verify->error : NULL);
	kw_verify_suspects_close(verify);
	kw_reader_free(verify->reader);
	kw_lookup_free(verify->lookup);
	kw_reads_close(&verify->reads);
	kw_redis_free(verify->redis);
	kw_keyset_close(&verify->seen);
	kw_buffer_close(&verify->asked);
	free(verify->databases);
	free_names(&result->different);
	free_names(&result->missing);
	free_names(&result->extra);
	free(verify);
}

static void on_tick_closed(uv_handle_t *handle)
{
	finish(handle->data);
}

/*
 * Nothing may be freed before every READ was told back (the carrier writes into our memory) and the
 * connection has closed. The tick goes on until then: it tells back what was refused.
 */
static void close_when_quiet(struct kw_verify *verify)
{
	kw_reader_stop(verify->reader);
	kw_lookup_stop(verify->lookup);
	if (verify->redis_open)
		kw_redis_close(verify->redis);
	if (verify->redis_open || verify->reads.outstanding > 0 || !verify->tick_open)
		return;
	verify->tick_open = false;
	uv_close((uv_handle_t *)&verify->tick, on_tick_closed);
}

void kw_verify_cancel(struct kw_verify *verify, const char *why)
{
	struct kw_error error;

	kw_error_set(&error, KW_E_STATE, "verify: %s", why);
	kw_verify_fail(verify, &error);
}

/* ---- phases ---- */

static void succeed(struct kw_verify *verify)
{
	verify->phase = KW_VERIFY_CLOSING;
	close_when_quiet(verify);
}

void kw_verify_step(struct kw_verify *verify)
{
	if (verify->phase == KW_VERIFY_SNAPSHOT) {
		kw_reader_resume(verify->reader);
		if (verify->table_read && kw_buffer_length(&verify->asked) == 0) {
			if (verify->options.sample)
				verify->phase = KW_VERIFY_SETTLE;
			else
				kw_verify_scan_start(verify);
		}
	}
	if (verify->phase == KW_VERIFY_SCAN)
		kw_verify_scan_step(verify);
	if (!kw_verify_over(verify) && verify->phase != KW_VERIFY_CONNECTING)
		kw_verify_suspects_step(verify);
	if (verify->phase == KW_VERIFY_SETTLE && verify->suspects == 0)
		succeed(verify);
}

static void on_tick(uv_timer_t *timer)
{
	struct kw_verify *verify = timer->data;

	kw_reads_tick(&verify->reads);
	if (kw_verify_over(verify))
		close_when_quiet(verify);
	else
		kw_verify_step(verify);
}

/* ---- the reader's sink ---- */

static bool chosen(const struct kw_verify *verify, const struct kw_record_view *record)
{
	if (!verify->options.sample)
		return true;
	return kw_hash_key(verify->sample_seed, record->database, record->key.data,
		       record->key.length) < verify->sample_below;
}

/* A tail after a snapshot that lost a segment brings deletes too: lookups know of them. */
static bool is_compared(const struct kw_verify *verify, const struct kw_record_view *record)
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

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct kw_verify *verify = arg;
	uint64_t sample = verify->options.sample;

	if (!superblock->complete) {
		kw_verify_cancel(verify,
			"the proxy's table is not complete yet: wait until the proxy is live");
		return;
	}
	if (verify->table_known)
		return;
	verify->table_known = true;
	if (!sample)
		kw_keyset_reserve(&verify->seen,
			superblock->keys < RESERVE_KEYS_MAX ? superblock->keys : RESERVE_KEYS_MAX);
	else
		verify->sample_below = sample >= superblock->keys
					       ? UINT64_MAX
					       : UINT64_MAX / superblock->keys * sample;
}

static void on_snapshot_begin(void *arg, uint64_t epoch, uint64_t version)
{
}

static void on_pass_done(void *arg, const struct kw_reader_pass *pass)
{
	struct kw_verify *verify = arg;

	if (kw_verify_over(verify))
		return;
	if (pass->consistent == 0 && pass->vanished) {
		/* Segments were cleaned away unread: their records follow in the tail. */
		if (++verify->tails < TAILS_MAX)
			kw_reader_poll(verify->reader);
		else
			kw_verify_cancel(verify, too_fast);
		return;
	}
	verify->table_read = true;
	kw_verify_step(verify);
}

static void on_lapsed(void *arg, const char *why)
{
	struct kw_verify *verify = arg;

	if (kw_verify_over(verify))
		return;
	if (++verify->snapshots < SNAPSHOTS_MAX)
		kw_reader_start(verify->reader, NULL);
	else
		kw_verify_cancel(verify, too_fast);
}

static void on_reader_failed(void *arg, const struct kw_error *error)
{
	struct kw_error wrapped = *error;

	kw_error_wrap(&wrapped, "verify: the proxy's table");
	kw_verify_fail(arg, &wrapped);
}

/* ---- begin ---- */

static void on_ready(void *arg)
{
	struct kw_verify *verify = arg;

	if (kw_verify_over(verify))
		return;
	verify->phase = KW_VERIFY_SNAPSHOT;
	kw_reader_start(verify->reader, NULL);
}

static void on_redis_closed(void *arg, const struct kw_error *why)
{
	struct kw_verify *verify = arg;
	struct kw_error error = *why;

	verify->redis_open = false;
	if (kw_verify_over(verify)) {
		close_when_quiet(verify);
		return;
	}
	if (error.code == KW_OK)
		kw_error_set(&error, KW_E_IO, "the connection closed");
	kw_error_wrap(&error, "verify: the local server");
	kw_verify_fail(verify, &error);
}

static void make_reader(struct kw_verify *verify)
{
	const struct kw_reader_options options = {.depth = READER_DEPTH, .ahead = KW_AHEAD_OFF};
	const struct kw_lookup_options lookup_options = {0};
	const struct kw_reader_sink sink = {
		.snapshot_begin = on_snapshot_begin,
		.records = on_records,
		.room = on_room,
		.superblock = on_superblock,
		.pass_done = on_pass_done,
		.lapsed = on_lapsed,
		.failed = on_reader_failed,
		.arg = verify,
	};
	const struct kw_reader_io reader_io = kw_reads_reader_io(&verify->reads);
	const struct kw_lookup_io lookup_io = kw_reads_lookup_io(&verify->reads);

	verify->reader = kw_reader_new(&options, &reader_io, &sink);
	verify->lookup = kw_lookup_new(&lookup_options, &lookup_io);
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
	verify->redis_open = true;
	verify->options = *options;
	verify->options.redis.password = kw_slice(NULL, 0); /* kw_redis_open has its own copy */
	verify->fn = fn;
	verify->arg = arg;
	verify->begun_us = kw_clock_us();
	verify->database = -1;
	verify->result.sampled = options->sample != 0;
	if (getrandom(&verify->sample_seed, sizeof verify->sample_seed, GRND_NONBLOCK) < 0)
		verify->sample_seed = kw_wall_us();
	kw_reads_init(&verify->reads, options->remote, options->remote_arg);
	make_reader(verify);
	uv_timer_init(options->loop, &verify->tick);
	verify->tick.data = verify;
	verify->tick_open = true;
	uv_timer_start(&verify->tick, on_tick, TICK_MS, TICK_MS);
	*result = verify;
	return KW_OK;
}
