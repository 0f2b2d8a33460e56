/*
 * Apply mode `replica`: the agent acts as the local server's primary.
 *
 *   snapshot record ──▶ RDB on the link, as it is read          (primary/snapshot.c)
 *   tail record ──────▶ stream: RESTORE, UNLINK, FLUSHDB, kept until acknowledged ──▶ link
 *   cursor ───────────▶ stream: FUNCTION LOAD, behind what it covers
 *   REPLCONF ACK ─────▶ done
 *
 * Errors of commands on a replication link are swallowed by the server, so everything is verified
 * before, and its count of refusals is watched (primary/lead.c).
 */
#include "replica.h"

#include "base/log.h"
#include "rdb/payload.h"

#include <stdio.h>
#include <stdlib.h>

#define REFUSED_LOWEST_MS 1000
#define REFUSED_HIGHEST_MS 60000

/* ---- what may not reach the server ---- */

void kw_replica_refuse(
	struct kw_replica *replica, const struct kw_record_view *record, const char *why)
{
	size_t length =
		record->key.length < KW_QUARANTINE_KEY ? record->key.length : KW_QUARANTINE_KEY;

	kw_quarantine_enter(replica->quarantine, record->database, record->key, kw_slice_text(why));
	if (replica->quarantine->ever <= KW_QUARANTINE_NAMES)
		kw_log_error("apply", "database %u, key %.*s: quarantined: %s", record->database,
			(int)length, length ? (const char *)record->key.data : "", why);
}

bool kw_replica_fits(const struct kw_replica *replica, const struct kw_record_view *record,
	char *why, size_t room)
{
	const char *type;

	/* Not known yet: no room is given, so nothing should come. */
	if (record->database >= replica->takeover.databases) {
		snprintf(why, room,
			"the local server has no database %u: raise its `databases`, or leave it "
			"out by filter.databases",
			record->database);
		return false;
	}
	if (record->kind != KW_RECORD_PUT)
		return true;
	type = record->value.length ? kw_payload_type_name(record->value) : "empty";
	if (strcmp(type, "module") == 0 || strcmp(type, "unknown") == 0) {
		snprintf(why, room,
			"a value of type %s would stop a server that does not know it: use "
			"apply.mode=commands for it",
			type);
		return false;
	}
	return true;
}

/* Would the server take this change? The link has no way to say no. */
static bool may_send(
	struct kw_replica *replica, const struct kw_record_view *record, char *why, size_t room)
{
	uint16_t local = kw_server_rdb_version(&replica->local->facts.identity);
	struct kw_error error;
	uint16_t version;

	if (!kw_replica_fits(replica, record, why, room))
		return false;
	if (record->kind != KW_RECORD_PUT)
		return true;
	if (kw_payload_check(record->value, &version, &error)) {
		snprintf(why, room, "%.*s", (int)room - 1, error.text);
		return false;
	}
	if (kw_server_loads_rdb(local, version))
		return true;
	snprintf(why, room, "a payload of RDB version %u, the local server loads %u", version,
		local);
	return false;
}

/* ---- records ---- */

/*
 * Its place in the feed is taken by nothing: what is ahead of it is still to be acknowledged, and
 * must not take the key out of quarantine again.
 */
static void refuse_change(
	struct kw_replica *replica, const struct kw_record_view *record, const char *why)
{
	struct kw_quarantine *quarantine = replica->quarantine;

	kw_feed_nothing(&replica->feed, record->database);
	/* What the server does not have need not be deleted. */
	quarantine->leaving = UINT64_MAX;
	if (record->kind == KW_RECORD_DELETE)
		kw_quarantine_leave(quarantine, record->database, record->key);
	if (record->kind == KW_RECORD_FLUSH)
		kw_quarantine_leave_database(quarantine, record->database);
	quarantine->entering = replica->feed.window.end;
	if (record->kind == KW_RECORD_PUT)
		kw_replica_refuse(replica, record, why);
	quarantine->entering = 0;
}

static void tail_record(struct kw_replica *replica, const struct kw_record_view *record)
{
	char why[KW_QUARANTINE_REASON];

	if (may_send(replica, record, why, sizeof why))
		kw_feed_change(&replica->feed, record);
	else
		refuse_change(replica, record, why);
	kw_downlink_wake(&replica->downlink);
}

static void replica_records(
	struct kw_apply *apply, const struct kw_record_view *records, size_t count)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	apply->taken += count;
	if (kw_replica_is(replica, KW_REPLICA_SNAPSHOT))
		kw_snapshot_records(replica, records, count);
	else
		for (size_t i = 0; i < count; i++)
			tail_record(replica, &records[i]);
	apply->window_bytes_used = replica->feed.window.bytes;
}

static uint64_t replica_room(const struct kw_apply *apply)
{
	const struct kw_replica *replica = (const struct kw_replica *)apply;
	const struct kw_window *window = &replica->feed.window;
	/* Entries count too: those that stand for nothing have no bytes. */
	uint64_t queued = window->bytes + (window->end - window->first) * sizeof *window->entries;
	uint64_t used = kw_replica_is(replica, KW_REPLICA_SNAPSHOT)
				? kw_buffer_length(&replica->downlink.output)
				: queued;

	/* A database that the server lacks must not come to be selected. */
	if (replica->takeover.databases == 0)
		return 0;
	return used < replica->limit_bytes ? replica->limit_bytes - used : 0;
}

/* ---- acknowledgements ---- */

void kw_replica_done(void *arg, const struct kw_window_entry *entry, uint64_t sequence)
{
	struct kw_replica *replica = arg;
	struct kw_apply *apply = &replica->base;
	kw_local_done_fn saved = replica->saved;

	if (entry->kind == KW_WINDOW_CONTROL) {
		if (!saved || replica->save_ask || sequence != replica->saved_at)
			return;
		replica->saved = NULL;
		kw_local_cursor_written(replica->local, &replica->saving);
		saved(replica->saved_arg, NULL);
		return;
	}
	apply->done++;
	if (entry->kind == KW_WINDOW_NOTHING)
		return;
	apply->applied++;
	replica->quarantine->leaving = sequence;
	if (entry->kind == KW_WINDOW_FLUSH) {
		kw_local_flushed(replica->local);
		kw_quarantine_leave_database(replica->quarantine, entry->database);
	} else if (replica->quarantine->count > 0) {
		kw_quarantine_leave(replica->quarantine, entry->database, kw_window_key(entry));
	}
}

/* ---- the cursor ---- */

static void send_cursor(struct kw_replica *replica)
{
	struct kw_buffer code = {0};

	kw_cursor_library(replica->local->options.cursor_name, &replica->saving, &code);
	{
		const struct kw_slice argv[] = {
			kw_slice_text("FUNCTION"),
			kw_slice_text("LOAD"),
			kw_slice_text("REPLACE"),
			kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code)),
		};

		replica->saved_at = kw_feed_command(&replica->feed, 4, argv);
	}
	kw_buffer_close(&code);
	replica->save_ask = 0;
	kw_downlink_wake(&replica->downlink);
}

/*
 * An acknowledgement covers what the server refused, too. So the count of refusals is read behind
 * the acknowledgements before a cursor says that all of it is there: whoever finds that cursor, in
 * this run of the server or in a later one, may believe it.
 */
static void replica_save(struct kw_apply *apply, uint64_t epoch, uint64_t version,
	uint64_t quarantined, kw_local_done_fn done, void *arg)
{
	const struct kw_cursor_progress progress = {epoch, version, quarantined, KW_BOND_LED};
	struct kw_replica *replica = (struct kw_replica *)apply;
	struct kw_failure failure;

	if (!kw_replica_is(replica, KW_REPLICA_ONLINE) || !kw_local_ready(replica->local)) {
		kw_failure_set(&failure, KW_E_STATE,
			"waiting for the replication link before the cursor can be written");
		done(arg, &failure);
		return;
	}
	kw_local_cursor_now(replica->local, &progress, &replica->saving);
	replica->saved = done;
	replica->saved_arg = arg;
	replica->save_ask = kw_local_next_look(replica->local);
	kw_refusals_ask(replica);
}

void kw_replica_go_on_saving(struct kw_replica *replica)
{
	if (!replica->saved || replica->save_ask == 0)
		return;
	if (kw_local_looked(replica->local) < replica->save_ask) {
		kw_refusals_ask(replica);
		return;
	}
	/* Doubted by that very look: what follows ends it. */
	if (!kw_replica_is(replica, KW_REPLICA_ONLINE) || kw_local_spoiled(replica->local))
		return;
	replica->saving.refused = replica->refused.last;
	send_cursor(replica);
}

/* ---- the beginning and the end ---- */

static struct kw_apply *replica_create(const struct kw_apply_options *options)
{
	struct kw_replica *replica = kw_zalloc(sizeof *replica);
	struct kw_downlink_handlers handlers = kw_replica_downlink_handlers;

	handlers.arg = replica;
	replica->base.ops = &kw_apply_replica;
	replica->base.whole = replica->base.confirms = true;
	replica->local = options->local;
	kw_local_lead(replica->local);
	replica->quarantine = options->quarantine;
	replica->limit_bytes = options->window_bytes;
	replica->base.promote = options->promote;
	kw_downlink_init(&replica->downlink, options->loop, options->listen, &handlers);
	kw_takeover_init(&replica->takeover, options->local, &replica->downlink.login);
	kw_feed_reset(&replica->feed, 0);
	kw_backoff_init(&replica->refusing, REFUSED_LOWEST_MS, REFUSED_HIGHEST_MS);
	kw_replica_init_phase(replica);
	kw_leave_init(replica);
	kw_possession_init(replica);
	kw_replica_show(replica);
	return &replica->base;
}

static void replica_close(struct kw_apply *apply, void (*closed)(void *arg), void *arg)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	if (replica->base.promote && replica->base.leads && replica->leaving.state != KW_LEAVE_DONE)
		kw_log_error("link", "the local server was not promoted: it did not answer in time "
				     "(send it REPLICAOF NO ONE)");
	replica->closed = closed;
	replica->closed_arg = arg;
	kw_downlink_close(&replica->downlink);
}

static void replica_destroy(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	kw_feed_close(&replica->feed);
	if (kw_replica_loads(replica))
		kw_snapshot_close(replica);
	kw_takeover_close(&replica->takeover);
	free(replica);
}

static void replica_selected(struct kw_apply *apply)
{
}

static void replica_set_window(struct kw_apply *apply, uint64_t bytes)
{
	((struct kw_replica *)apply)->limit_bytes = bytes;
}

const struct kw_apply_ops kw_apply_replica = {
	.mode = "replica",
	.needs_local = true,
	.create = replica_create,
	.destroy = replica_destroy,
	.attach = kw_replica_attach,
	.prepare = kw_replica_prepare,
	.forget = kw_replica_forget,
	.resume = kw_replica_resume,
	.resumable = kw_replica_resumable,
	.begin = kw_snapshot_begin,
	.end = kw_snapshot_end,
	.save = replica_save,
	.looked = kw_replica_looked,
	.resync = kw_replica_resync,
	.leave = kw_replica_leave,
	.close = replica_close,
	.detach = kw_replica_detach,
	.records = replica_records,
	.room = replica_room,
	.tick = kw_replica_tick,
	.selected = replica_selected,
	.set_window = replica_set_window,
};
