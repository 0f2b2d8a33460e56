/*
 * The loader `rdb`: the snapshot's records become an RDB on the link while they are read; nothing
 * of it is kept.
 *
 * Records that would stop or crash the loading server are left out: payloads that do not verify,
 * values of modules that it might not have, databases beyond its own, a key that comes twice. The
 * last breaks a promise of the reader. Then it is not known which of the two is newer, so the whole
 * snapshot is in doubt and is taken again.
 */
#include "load.h"

#include "apply/screen.h"
#include "base/log.h"
#include "keys/keyset.h"
#include "rdb/payload.h"
#include "rdb/rdb.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* From this size on, a value is sent in place rather than copied first. */
#define LARGE_VALUE ((size_t)32 << 10)

/* An AUX field: the server's own form for data that a reader may pass over. */
#define FILLER "\xfa\x02kw\x00"

#define EOF_MARK_LENGTH KW_REPLID_LENGTH

struct rdb {
	struct kw_loader base;
	struct kw_replica *replica;
	struct kw_quarantine *quarantine;
	uint64_t limit_bytes;
	struct kw_load_plan plan;
	struct kw_rdb file;
	struct kw_keyset seen; /* keys sent */
	char eof_mark[EOF_MARK_LENGTH + 1];
};

static struct rdb *of(struct kw_loader *loader)
{
	return (struct rdb *)loader;
}

static bool is_sending(const struct rdb *rdb)
{
	return kw_replica_is(rdb->replica, KW_REPLICA_SNAPSHOT);
}

static bool is_in_doubt(const struct rdb *rdb)
{
	assert(is_sending(rdb));
	return rdb->replica->in.snapshot.doubt[0] != '\0';
}

/* ---- the head ---- */

static bool make_eof_mark(struct rdb *rdb)
{
	uint8_t random[EOF_MARK_LENGTH / 2];

	if (getrandom(random, sizeof random, 0) != sizeof random)
		return false;
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(rdb->eof_mark + 2 * i, 3, "%02x", random[i]);
	return true;
}

/* The claim: a cursor of no position, for a server that is led. */
static void put_cursor(struct rdb *rdb, struct kw_buffer *out)
{
	struct kw_local *local = rdb->replica->local;
	const struct kw_cursor_progress nothing_yet = {
		.epoch = rdb->plan.epoch,
		.bond = KW_BOND_LED,
		.consented = rdb->plan.consented,
	};
	struct kw_local_cursor claim;
	struct kw_buffer code = {0};

	kw_local_cursor_now(local, &nothing_yet, &claim);
	kw_cursor_library(local->options.cursor_name, &claim, &code);
	kw_rdb_function(&rdb->file, kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code)), out);
	kw_buffer_close(&code);
}

static int on_start(void *arg, struct kw_buffer *out, struct kw_error *error)
{
	struct rdb *rdb = arg;
	const struct kw_local *local = rdb->replica->local;
	const struct kw_buffer *functions = &rdb->replica->takeover.functions;
	/* Nor any other agent's cursor: it describes data that this snapshot replaces. */
	const struct kw_rdb_except except = {
		.name = local->options.cursor_name, .leave = kw_cursor_is_library};

	if (!make_eof_mark(rdb))
		return kw_error_set(error, KW_E_IO, "no random bytes");
	kw_buffer_printf(out, "$EOF:%s\r\n", rdb->eof_mark);
	kw_rdb_begin(&rdb->file, kw_server_rdb_version(&local->facts.identity), false, out);
	if (kw_rdb_functions(&rdb->file,
		    kw_slice(kw_buffer_bytes(functions), kw_buffer_length(functions)), &except, out,
		    error)) {
		kw_error_wrap(error, "the local server's function libraries");
		return error->code;
	}
	put_cursor(rdb, out);
	return KW_OK;
}

/* ---- the records ---- */

static void rdb_begin(struct kw_loader *loader)
{
	struct rdb *rdb = of(loader);

	assert(loader->taken == 0);
	kw_keyset_close(&rdb->seen);
	if (is_sending(rdb))
		kw_keyset_reserve(&rdb->seen, rdb->plan.keys);
}

/*
 * The loading server sizes its first table at once, rather than doubling it time and again. Its
 * slots are a power of two. With as many slots as keys it would fill up to the last one. Each
 * insertion would then walk through keys that no cache holds (dictAddRaw: 40 % of a load). With
 * half as many more it is filled to two thirds at most; 8 bytes a slot.
 */
static void hint(struct rdb *rdb, uint32_t database, struct kw_buffer *out)
{
	if (rdb->file.database < 0 && rdb->plan.keys > 0)
		kw_rdb_sizes(&rdb->file, database, rdb->plan.keys + rdb->plan.keys / 2, 0, out);
}

static int put(struct rdb *rdb, const struct kw_record_view *record, struct kw_error *error)
{
	struct kw_downlink *downlink = &rdb->replica->downlink;
	struct kw_buffer *out = kw_downlink_output(downlink);
	const struct kw_rdb_entry entry = {
		.database = record->database,
		.expires_ms = record->expires_ms,
		.key = record->key,
		.payload = record->value,
	};
	struct kw_slice value;
	int code;

	hint(rdb, record->database, out);
	if (record->value.length < LARGE_VALUE) {
		code = kw_rdb_put(&rdb->file, &entry, out, error);
	} else {
		code = kw_rdb_put_head(&rdb->file, &entry, out, &value, error);
		if (!code)
			kw_downlink_value(downlink, value);
	}
	kw_downlink_appended(downlink);
	return code;
}

static void give_up(struct rdb *rdb, const struct kw_record_view *record, const char *why)
{
	kw_screen_quarantine(rdb->quarantine, record->database, record->key, kw_slice_text(why));
}

static void put_once(struct rdb *rdb, const struct kw_record_view *record, bool fresh)
{
	struct kw_error error;
	char why[KW_QUARANTINE_REASON];

	if (!kw_link_screen(rdb->replica->link, record, why, sizeof why))
		give_up(rdb, record, why);
	else if (!fresh)
		kw_replica_doubt(rdb->replica,
			"a key came twice in the snapshot (database %u, version %" PRIu64 ")",
			record->database, record->version);
	else if (put(rdb, record, &error))
		give_up(rdb, record, error.text);
}

/* Records of a snapshot that was given up meanwhile are only counted. */
static void rdb_records(
	struct kw_loader *loader, const struct kw_record_view *records, size_t count)
{
	struct rdb *rdb = of(loader);
	uint64_t fresh;

	if (!is_sending(rdb)) {
		kw_link_count(rdb->replica->link, count, 0);
		return;
	}
	loader->taken += count;
	if (is_in_doubt(rdb))
		return;
	fresh = kw_keyset_add_records(&rdb->seen, records, kw_batch_bits(count));
	for (size_t i = 0; i < count && !is_in_doubt(rdb); i++)
		put_once(rdb, &records[i], fresh >> i & 1);
}

static uint64_t rdb_room(const struct kw_loader *loader)
{
	const struct rdb *rdb = (const struct rdb *)loader;
	uint64_t used = kw_buffer_length(&rdb->replica->downlink.output);

	/* A database that the server lacks must never be selected. */
	if (rdb->replica->link->databases == 0)
		return 0;
	return used < rdb->limit_bytes ? rdb->limit_bytes - used : 0;
}

static void rdb_end(struct kw_loader *loader)
{
	struct rdb *rdb = of(loader);
	struct kw_buffer *out = kw_downlink_output(&rdb->replica->downlink);

	kw_keyset_close(&rdb->seen);
	/* A snapshot in doubt is never completed: the server throws away what it has of it. */
	if (!is_sending(rdb) || is_in_doubt(rdb))
		return;
	kw_rdb_end(&rdb->file, out);
	kw_buffer_append(out, rdb->eof_mark, EOF_MARK_LENGTH);
	kw_downlink_appended(&rdb->replica->downlink);
	kw_replica_sent(rdb->replica);
	kw_log_info("link", "the snapshot is sent: %" PRIu64 " keys, %" PRIu64 " bytes",
		rdb->file.entries, rdb->file.bytes);
}

/* ---- what the replica tells ---- */

/*
 * The applier of the link counts the records that went into the server, and those that never will.
 */
static void hand_count(struct rdb *rdb, uint64_t applied)
{
	uint64_t taken = rdb->base.taken;

	kw_keyset_close(&rdb->seen);
	rdb->base.taken = 0;
	kw_link_count(rdb->replica->link, taken, applied);
}

static void on_loaded(void *arg)
{
	struct rdb *rdb = arg;

	hand_count(rdb, rdb->base.taken);
}

static void on_dropped(void *arg)
{
	hand_count(arg, 0);
}

static void on_idle(void *arg, struct kw_buffer *out)
{
	assert(is_sending(arg));
	kw_buffer_append(out, FILLER, sizeof FILLER - 1);
}

/* ---- the rest ---- */

static void rdb_prepare(
	struct kw_loader *loader, const struct kw_load_plan *plan, kw_local_done_fn done, void *arg)
{
	struct rdb *rdb = of(loader);

	rdb->plan = *plan;
	kw_replica_prepare(rdb->replica, done, arg);
}

static void rdb_abandon(struct kw_loader *loader)
{
	kw_replica_abandon(of(loader)->replica);
}

static void rdb_set_window(struct kw_loader *loader, uint64_t bytes)
{
	of(loader)->limit_bytes = bytes;
}

static void rdb_free(struct kw_loader *loader)
{
	kw_keyset_close(&of(loader)->seen);
	free(loader);
}

static const struct kw_loader_ops ops = {
	.prepare = rdb_prepare,
	.begin = rdb_begin,
	.records = rdb_records,
	.room = rdb_room,
	.end = rdb_end,
	.abandon = rdb_abandon,
	.set_window = rdb_set_window,
	.free = rdb_free,
};

struct kw_loader *kw_loader_rdb(
	struct kw_replica *replica, struct kw_quarantine *quarantine, uint64_t window_bytes)
{
	struct rdb *rdb = kw_zalloc(sizeof *rdb);
	const struct kw_replica_snapshot_hooks hooks = {
		.start = on_start,
		.loaded = on_loaded,
		.dropped = on_dropped,
		.idle = on_idle,
		.arg = rdb,
	};

	rdb->base.ops = &ops;
	rdb->replica = replica;
	rdb->quarantine = quarantine;
	rdb->limit_bytes = window_bytes;
	kw_replica_hook(replica, &hooks);
	return &rdb->base;
}
