/*
 * The snapshot's records become an RDB on the link while they are read: nothing of it is kept.
 *
 * What would stop or crash the loading server is kept from it: payloads that do not verify, values
 * of modules that it may not have, databases beyond its own, a key that comes twice. The last is a
 * broken promise of the reader's; which of the two is newer cannot be told any more, so the whole
 * snapshot is doubted and taken again.
 */
#include "replica.h"

#include "base/log.h"
#include "rdb/payload.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

/* From here on a value is sent from where it lies rather than copied first. */
#define LARGE_VALUE ((size_t)32 << 10)

/* An AUX field: the server's own way of writing what a reader may pass over. */
#define FILLER "\xfa\x02kw\x00"

bool kw_snapshot_start(struct kw_replica *replica, struct kw_error *error)
{
	struct kw_buffer *out = kw_downlink_output(&replica->downlink);
	const struct kw_buffer *functions = &replica->takeover.functions;
	const char *name = replica->local->options.cursor_name;
	/* Nor any other agent's cursor: it speaks of data that this snapshot replaces. */
	const struct kw_rdb_except except = {.name = name, .leave = kw_cursor_is_library};
	const struct kw_cursor_progress nothing_yet = {
		.epoch = replica->plan.epoch,
		.bond = KW_BOND_LED,
	};
	struct kw_replica_snapshot *snapshot = &replica->in.snapshot;
	struct kw_local_cursor claim;
	struct kw_buffer code = {0};
	uint8_t random[KW_REPLID_LENGTH / 2];

	*snapshot = (struct kw_replica_snapshot){0};
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return kw_error_set(error, KW_E_IO, "no random bytes"), false;
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(snapshot->eof_mark + 2 * i, 3, "%02x", random[i]);
	kw_buffer_printf(out, "$EOF:%s\r\n", snapshot->eof_mark);
	kw_rdb_begin(
		&snapshot->rdb, kw_server_rdb_version(&replica->local->facts.identity), false, out);
	if (kw_rdb_functions(&snapshot->rdb,
		    kw_slice(kw_buffer_bytes(functions), kw_buffer_length(functions)), &except, out,
		    error)) {
		kw_error_wrap(error, "the local server's function libraries");
		return false;
	}
	kw_local_cursor_now(replica->local, &nothing_yet, &claim);
	kw_cursor_library(name, &claim, &code);
	kw_rdb_function(
		&snapshot->rdb, kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code)), out);
	kw_buffer_close(&code);
	kw_downlink_appended(&replica->downlink);
	return true;
}

void kw_snapshot_close(struct kw_replica *replica)
{
	kw_keyset_close(&replica->in.snapshot.seen);
}

void kw_snapshot_begin(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	if (!kw_replica_is(replica, KW_REPLICA_SNAPSHOT))
		return;
	kw_keyset_close(&replica->in.snapshot.seen);
	kw_keyset_reserve(&replica->in.snapshot.seen, replica->plan.keys);
}

/*
 * The loading server sizes its first table at once, rather than doubling it time and again. Its
 * slots are a power of two: with as many as there are keys it would be filled up to the last, and
 * each insertion would walk through keys that no cache holds (dictAddRaw: 40 % of a load). With
 * half as many more it is filled to two thirds at most; 8 bytes a slot.
 */
static void hint(struct kw_replica *replica, uint32_t database, struct kw_buffer *out)
{
	struct kw_replica_snapshot *snapshot = &replica->in.snapshot;

	if (snapshot->rdb.database < 0 && replica->plan.keys > 0)
		kw_rdb_sizes(&snapshot->rdb, database, replica->plan.keys + replica->plan.keys / 2,
			0, out);
}

static int put(
	struct kw_replica *replica, const struct kw_record_view *record, struct kw_error *error)
{
	struct kw_buffer *out = kw_downlink_output(&replica->downlink);
	struct kw_replica_snapshot *snapshot = &replica->in.snapshot;
	const struct kw_rdb_entry entry = {
		.database = record->database,
		.expires_ms = record->expires_ms,
		.key = record->key,
		.payload = record->value,
	};
	struct kw_slice value;
	int code;

	hint(replica, record->database, out);
	if (record->value.length < LARGE_VALUE) {
		code = kw_rdb_put(&snapshot->rdb, &entry, out, error);
	} else {
		code = kw_rdb_put_head(&snapshot->rdb, &entry, out, &value, error);
		if (!code)
			kw_downlink_value(&replica->downlink, value);
	}
	kw_downlink_appended(&replica->downlink);
	return code;
}

static void put_once(struct kw_replica *replica, const struct kw_record_view *record, bool fresh)
{
	struct kw_replica_snapshot *snapshot = &replica->in.snapshot;
	struct kw_error error;
	char why[KW_QUARANTINE_REASON];

	if (!kw_replica_fits(replica, record, why, sizeof why))
		kw_replica_refuse(replica, record, why);
	else if (!fresh)
		snprintf(snapshot->doubt, sizeof snapshot->doubt,
			"a key came twice in the snapshot (database %u, version %" PRIu64 ")",
			record->database, record->version);
	else if (put(replica, record, &error))
		kw_replica_refuse(replica, record, error.text);
}

void kw_snapshot_records(
	struct kw_replica *replica, const struct kw_record_view *records, size_t count)
{
	struct kw_replica_snapshot *snapshot = &replica->in.snapshot;
	uint64_t fresh;

	assert(kw_replica_is(replica, KW_REPLICA_SNAPSHOT));
	snapshot->taken += count;
	if (snapshot->doubt[0])
		return;
	fresh = kw_keyset_add_records(&snapshot->seen, records, kw_batch_bits(count));
	for (size_t i = 0; i < count && !snapshot->doubt[0]; i++)
		put_once(replica, &records[i], fresh >> i & 1);
}

void kw_snapshot_end(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;
	struct kw_replica_snapshot *snapshot = &replica->in.snapshot;
	struct kw_buffer *out = kw_downlink_output(&replica->downlink);

	if (!kw_replica_is(replica, KW_REPLICA_SNAPSHOT))
		return;
	kw_keyset_close(&snapshot->seen);
	/* A snapshot in doubt is never ended: the server throws away what it has of it. */
	if (snapshot->doubt[0])
		return;
	kw_rdb_end(&snapshot->rdb, out);
	kw_buffer_append(out, snapshot->eof_mark, KW_REPLID_LENGTH);
	kw_downlink_appended(&replica->downlink);
	kw_replica_move(replica, KW_REPLICA_LOADING, "all of the snapshot is handed on");
	kw_log_info("link", "the snapshot is sent: %" PRIu64 " keys, %" PRIu64 " bytes",
		snapshot->rdb.entries, snapshot->rdb.bytes);
	apply->trouble = KW_TROUBLE_WAIT;
	snprintf(apply->trouble_why, sizeof apply->trouble_why,
		"the local server loads the snapshot");
}

void kw_snapshot_filler(struct kw_replica *replica)
{
	kw_buffer_append(kw_downlink_output(&replica->downlink), FILLER, sizeof FILLER - 1);
	kw_downlink_appended(&replica->downlink);
}
