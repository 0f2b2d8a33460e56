/*
 * Sweeps: every key of some databases is read again, and keys of the table that the scan did not
 * see are asked for by name. Three things are done this way: the first scan, a reconcile, the
 * audit.
 *
 * What makes it complete: subscribed before it began, so that changes during it raise events; keys
 * that went before it began are in the table without a mark, and found by the walk at the end.
 */
#include "source/internal.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"

#include <stdio.h>
#include <stdlib.h>

#define BOUND_WINDOWS 4           /* keys of a sweep not yet fetched, in windows of the fetcher */
#define UNSEEN_BUDGET 4096        /* records of the table a loop turn */
#define ROW_TO_NAME 3             /* doubts that came up during the sweep before, one by one */
#define AUDIT_PAUSE_US 1000000    /* between two audits */
#define AUDIT_STEPS_PER_SECOND 10 /* at least; a step is never larger than KW_SCAN_COUNT */
#define AUDIT_KEY_BYTES 10240     /* a larger value counts as several keys: 100 keys/s, 1 MB/s */

static uint64_t bound(const struct kw_source *source)
{
	return (uint64_t)BOUND_WINDOWS * source->options.window;
}

struct listing {
	struct kw_source *source;
	struct kw_databases listed;
	uint32_t *scan; /* those to be scanned */
	uint32_t count;
};

static void list_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	struct listing *listing = arg;
	struct kw_source *source = listing->source;

	if (!kw_databases_add(&listing->listed, database)) {
		kw_log_warn("source", "database %u is not replicated: only those below %d can be",
			database, KW_DATABASES_MOST);
		return;
	}
	if (!kw_databases_has(&source->scope.databases, database) ||
		!kw_databases_has(&source->sweep.wanted, database))
		return;
	listing->scan = kw_realloc(listing->scan, (listing->count + 1) * sizeof(*listing->scan));
	listing->scan[listing->count++] = database;
	source->stats.scan_total += keys;
	if (expires == 0)
		kw_databases_add(&source->sweep.lasting, database);
}

/*
 * A database that is not listed is empty as of this reply; fetches asked for before have been
 * answered before. One record then does what a delete for each of its keys would do.
 */
static void empty_absent(struct kw_source *source, const struct kw_databases *listed)
{
	for (uint32_t db = 0; kw_databases_next(&source->held, &db); db++)
		if (kw_table_database_keys(source->table, db) > 0 && !kw_databases_has(listed, db))
			kw_source_empty_database(source, db);
}

static void keyspace_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	struct kw_sweep *sweep = &source->sweep;
	struct listing listing = {.source = source};
	struct kw_table_stats table;

	if (sweep->strays > 0) {
		sweep->strays--;
		return;
	}
	sweep->asked = false;
	reply = kw_lane_reply(&source->lane, reply);
	if (!reply || sweep->phase != KW_SWEEP_ASKING)
		return;
	if (reply->type != KW_REPLY_STRING) {
		kw_lane_refused(&source->lane, "INFO keyspace", "+info", reply);
		return;
	}
	source->stats.scanned = 0;
	source->stats.scan_total = 0;
	kw_databases_clear(&sweep->lasting);
	kw_info_keyspace(reply->text, list_database, &listing);
	empty_absent(source, &listing.listed);
	kw_table_stats(source->table, &table);
	sweep->from_nothing = table.keys == 0;
	kw_table_marks_begin(source->table);
	if (kw_sweep_mending(source))
		kw_source_look_at_lacking(source);
	kw_scan_begin(source->scan, listing.scan, listing.count);
	sweep->phase = KW_SWEEP_SCANNING;
	kw_databases_close(&listing.listed);
	free(listing.scan);
	kw_source_want_turn(source);
}

/*
 * Not the phase says whether an answer is owed: of a connection that broke none is, and that is
 * told before the connection is.
 */
static void give_up(struct kw_source *source)
{
	source->sweep.strays += source->sweep.asked;
	source->sweep.asked = false;
	kw_scan_stop(source->scan);
}

void kw_sweep_begin(struct kw_source *source, enum kw_sweep_kind kind,
	const struct kw_databases *databases, const char *why)
{
	struct kw_sweep *sweep = &source->sweep;

	if (sweep->kind <= KW_SWEEP_AUDIT)
		kw_databases_clear(&sweep->wanted);
	if (kind > sweep->kind)
		sweep->kind = kind;
	if (databases) {
		kw_databases_merge(&sweep->wanted, databases);
	} else {
		kw_databases_add_all(&sweep->wanted);
		kw_databases_clear(&sweep->later); /* this is it */
	}
	snprintf(sweep->why, sizeof(sweep->why), "%s", why);
	give_up(source);
	sweep->phase = KW_SWEEP_ASKING;
	sweep->asked = true;
	kw_lane_info(&source->lane, keyspace_answered, source, "keyspace");
	kw_source_want_turn(source);
}

void kw_sweep_stop(struct kw_source *source)
{
	struct kw_sweep *sweep = &source->sweep;

	give_up(source);
	sweep->phase = KW_SWEEP_IDLE;
	sweep->kind = KW_SWEEP_NONE;
	sweep->renewed = false;
	sweep->row = 0;
	kw_databases_clear(&sweep->later);
	kw_databases_clear(&sweep->wanted);
}

void kw_sweep_later(struct kw_source *source, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why)
{
	struct kw_sweep *sweep = &source->sweep;

	if (databases)
		kw_databases_merge(&sweep->later, databases);
	else
		kw_databases_add_all(&sweep->later);
	sweep->later_cause = cause;
	snprintf(sweep->later_why, sizeof(sweep->later_why), "%s", why);
}

/* What came up during the sweep that has just ended. */
static void begin_later(struct kw_source *source)
{
	struct kw_databases later = source->sweep.later;
	char why[KW_ERROR_TEXT];

	if (kw_databases_empty(&later)) {
		source->sweep.row = 0;
		return;
	}
	source->sweep.later = (struct kw_databases){0};
	snprintf(why, sizeof(why), "%s", source->sweep.later_why);
	if (++source->sweep.row >= ROW_TO_NAME)
		snprintf(why, sizeof(why),
			"%.300s (%u scans in a row now: who calls CONFIG SET, CONFIG RESETSTAT, "
			"SWAPDB or FLUSHDB so often?)",
			source->sweep.later_why, source->sweep.row + 1);
	kw_source_doubt(source, source->sweep.later_cause, later.all ? NULL : &later, why);
	kw_databases_close(&later);
}

/* Auditing large values is paced by their bytes, as the table knows them. */
static void spend_bytes(struct kw_source *source, uint32_t database, struct kw_slice key)
{
	struct kw_slice value;
	uint64_t expires_ms;

	if (kw_table_get(source->table, database, key, &value, &expires_ms))
		kw_bucket_spend(&source->sweep.pace, value.length / AUDIT_KEY_BYTES);
}

/* Keys of a step of the audit: fewer, where values are large. */
static uint64_t audit_step(const struct kw_source *source)
{
	uint64_t keys = source->sweep.pace.per_second / AUDIT_STEPS_PER_SECOND + 1;
	struct kw_table_stats table;
	uint64_t bytes;

	kw_table_stats(source->table, &table);
	bytes = table.keys ? table.payload_bytes / table.keys : 0;
	if (bytes > AUDIT_KEY_BYTES)
		keys = keys * AUDIT_KEY_BYTES / bytes;
	return keys ? keys : 1;
}

void kw_sweep_scanned(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_source *source = arg;
	unsigned flags = KW_DIRTY_SCAN;

	if (!kw_scope_has(&source->scope, database, key))
		return;
	source->stats.scanned++;
	/* Where nothing had an expiry when the sweep began, one that is set since raises an event.
	 */
	if (!kw_databases_has(&source->sweep.lasting, database))
		flags |= KW_DIRTY_TTL;
	if (source->sweep.kind == KW_SWEEP_AUDIT)
		spend_bytes(source, database, key);
	kw_dirty_add(source->dirty, database, key, flags);
	kw_source_want_turn(source);
}

static void unseen(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_source *source = arg;

	if (kw_databases_has(&source->sweep.wanted, database))
		kw_dirty_add(source->dirty, database, key, KW_DIRTY_SCAN | KW_DIRTY_TTL);
}

/* Are as many scanned keys waiting to be fetched as may? */
static bool in_hand(const struct kw_source *source)
{
	uint64_t most = bound(source);
	uint64_t keys = KW_SCAN_COUNT < most / 2 ? KW_SCAN_COUNT : most / 2;

	return kw_dirty_scanned(source->dirty) + keys > most;
}

/* Keys for the next step of the scan; 0: not now. */
static uint32_t step(struct kw_source *source, uint64_t now_us)
{
	struct kw_sweep *sweep = &source->sweep;
	uint64_t most = bound(source);
	uint64_t keys = KW_SCAN_COUNT < most / 2 ? KW_SCAN_COUNT : most / 2;

	if (in_hand(source) || kw_scan_asked(source->scan) ||
		!kw_pace_allows(&source->pace, now_us))
		return 0;
	if (sweep->kind == KW_SWEEP_AUDIT) {
		uint64_t paced = audit_step(source);

		if (!kw_bucket_allows(&sweep->pace, now_us))
			return 0;
		keys = keys < paced ? keys : paced;
		kw_bucket_spend(&sweep->pace, keys);
	}
	return (uint32_t)keys;
}

static void finish(struct kw_source *source, uint64_t now_us)
{
	struct kw_sweep *sweep = &source->sweep;

	if (kw_sweep_mending(source)) {
		source->attempts = 0;
		sweep->ended++;
		sweep->clean += kw_databases_empty(&sweep->later);
	}
	sweep->audit_us = now_us + AUDIT_PAUSE_US;
	sweep->phase = KW_SWEEP_IDLE;
	sweep->kind = KW_SWEEP_NONE;
	kw_databases_clear(&sweep->wanted);
	sweep->renewed = false;
	begin_later(source);
}

static void begin_audit(struct kw_source *source)
{
	source->stats.reconciles_audit++;
	kw_sweep_begin(source, KW_SWEEP_AUDIT, NULL, "audit");
}

void kw_sweep_turn(struct kw_source *source, uint64_t now_us)
{
	struct kw_sweep *sweep = &source->sweep;

	if (sweep->phase == KW_SWEEP_IDLE && sweep->pace.per_second > 0 &&
		now_us >= sweep->audit_us)
		begin_audit(source);
	if (sweep->phase == KW_SWEEP_SCANNING) {
		kw_scan_pump(source->scan, step(source, now_us));
		if (kw_scan_done(source->scan))
			sweep->phase = KW_SWEEP_DRAINING;
	}
	if (sweep->phase == KW_SWEEP_DRAINING && kw_dirty_scanned(source->dirty) == 0) {
		sweep->phase = sweep->from_nothing ? KW_SWEEP_SETTLING : KW_SWEEP_UNSEEN;
		sweep->cursor = 0;
	}
	if (sweep->phase == KW_SWEEP_UNSEEN && kw_dirty_scanned(source->dirty) < bound(source) &&
		!kw_table_unseen(source->table, &sweep->cursor, UNSEEN_BUDGET, unseen, source))
		sweep->phase = KW_SWEEP_SETTLING;
	if (sweep->phase == KW_SWEEP_SETTLING && kw_dirty_scanned(source->dirty) == 0)
		finish(source, now_us);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t kw_sweep_ready_us(const struct kw_source *source, uint64_t now_us)
{
	const struct kw_sweep *sweep = &source->sweep;

	switch (sweep->phase) {
	case KW_SWEEP_IDLE:
		return sweep->pace.per_second > 0 ? sweep->audit_us : UINT64_MAX;
	case KW_SWEEP_SCANNING:
		/* With enough keys in hand it is their fetching that brings the next turn. */
		if (kw_scan_asked(source->scan) || in_hand(source))
			return UINT64_MAX;
		return later(sweep->kind == KW_SWEEP_AUDIT
				     ? kw_bucket_ready_us(&sweep->pace, now_us)
				     : now_us,
			kw_pace_ready_us(&source->pace, now_us));
	case KW_SWEEP_UNSEEN:
		return kw_dirty_scanned(source->dirty) < bound(source) ? 0 : UINT64_MAX;
	default:
		return UINT64_MAX; /* replies will come */
	}
}
