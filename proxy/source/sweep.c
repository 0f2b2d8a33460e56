#include "source/sweep.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define BOUND_WINDOWS 4           /* keys of a sweep not yet fetched, in windows of the fetcher */
#define UNSEEN_BUDGET 4096        /* records of the table a loop turn */
#define COUNT_BUDGET 16384        /* slots of the index a loop turn */
#define ROW_TO_NAME 3             /* sweeps in a row, each for doubts during the last one */
#define AUDIT_PAUSE_US 1000000    /* between two audits */
#define AUDIT_STEPS_PER_SECOND 10 /* at least; a step is never larger than KW_SCAN_COUNT */
#define AUDIT_KEY_BYTES 10240     /* a larger value counts as several keys: 100 keys/s, 1 MB/s */

static bool holds(const void *owner, int state)
{
	const struct kw_sweep *sweep = owner;

	if ((state == KW_SWEEP_IDLE) != (sweep->kind == KW_SWEEP_NONE))
		return false;
	if (state == KW_SWEEP_IDLE && kw_brake_is_on(&sweep->brake))
		return false;
	switch (state) {
	case KW_SWEEP_ASKING:
		return sweep->answers_owed > 0 && !kw_databases_empty(&sweep->wanted);
	case KW_SWEEP_DRAINING:
		return kw_scan_done(sweep->scan);
	case KW_SWEEP_AWAITING:
		return kw_scan_done(sweep->scan) && sweep->kind == KW_SWEEP_AUDIT;
	case KW_SWEEP_HELD:
		return kw_scan_done(sweep->scan) && kw_sweep_is_mending(sweep) &&
		       kw_brake_is_on(&sweep->brake);
	case KW_SWEEP_EMPTYING:
		return sweep->answers_owed > 0 && !kw_brake_is_on(&sweep->brake);
	case KW_SWEEP_COUNTING:
	case KW_SWEEP_UNSEEN:
		return kw_scan_done(sweep->scan) && sweep->keys_before > 0;
	default:
		return true;
	}
}

#define ANEW (KW_SM_TO(KW_SWEEP_ASKING) | KW_SM_TO(KW_SWEEP_IDLE))

static const struct kw_sm_state states[] = {
	[KW_SWEEP_IDLE] = {"idle", KW_SM_TO(KW_SWEEP_ASKING), KW_SM_INITIAL},
	[KW_SWEEP_ASKING] = {"asking", KW_SM_TO(KW_SWEEP_SCANNING) | ANEW},
	[KW_SWEEP_SCANNING] = {"scanning", KW_SM_TO(KW_SWEEP_DRAINING) | ANEW},
	[KW_SWEEP_DRAINING] = {"draining", KW_SM_TO(KW_SWEEP_AWAITING) |
						   KW_SM_TO(KW_SWEEP_COUNTING) |
						   KW_SM_TO(KW_SWEEP_SETTLING) | ANEW},
	[KW_SWEEP_AWAITING] = {"awaiting", KW_SM_TO(KW_SWEEP_COUNTING) | ANEW},
	[KW_SWEEP_COUNTING] = {"counting", KW_SM_TO(KW_SWEEP_HELD) | KW_SM_TO(KW_SWEEP_EMPTYING) |
						   KW_SM_TO(KW_SWEEP_UNSEEN) | ANEW},
	[KW_SWEEP_HELD] = {"held", KW_SM_TO(KW_SWEEP_COUNTING) | ANEW},
	[KW_SWEEP_EMPTYING] = {"emptying", KW_SM_TO(KW_SWEEP_UNSEEN) | ANEW},
	[KW_SWEEP_UNSEEN] = {"unseen", KW_SM_TO(KW_SWEEP_SETTLING) | ANEW},
	[KW_SWEEP_SETTLING] = {"settling", ANEW},
};

static const struct kw_sm_conf machine = {"sweep", states, KW_SWEEP_SETTLING + 1, holds};

static uint64_t bound(const struct kw_sweep *sweep)
{
	return (uint64_t)BOUND_WINDOWS * sweep->parts.window;
}

/* Keys of one step of the scan, at most. */
static uint64_t step_most(const struct kw_sweep *sweep)
{
	return KW_SCAN_COUNT < bound(sweep) / 2 ? KW_SCAN_COUNT : bound(sweep) / 2;
}

/* INFO keyspace: which databases have keys, and how many. */

struct listing {
	struct kw_sweep *sweep;
	struct kw_databases listed;
	uint32_t *scan; /* those to be scanned */
	uint32_t count;
};

static void list_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	struct listing *listing = arg;
	struct kw_sweep *sweep = listing->sweep;

	if (!kw_databases_add(&listing->listed, database)) {
		if (kw_databases_has(&sweep->parts.scope->databases, database))
			sweep->beyond = database;
		kw_log_database(KW_LOG_WARN, "source", database,
			"database %u is not replicated: only those below %d can be", database,
			KW_DATABASES_MOST);
		return;
	}
	if (!kw_databases_has(&sweep->parts.scope->databases, database) ||
		!kw_databases_has(&sweep->wanted, database))
		return;
	listing->scan = kw_realloc(listing->scan, (listing->count + 1) * sizeof *listing->scan);
	listing->scan[listing->count++] = database;
	sweep->scan_total += keys;
	if (expires == 0)
		kw_databases_add(&sweep->lasting, database);
}

/*
 * A database that is not listed is empty as of this reply: fetches asked for earlier were answered
 * earlier. If a flush was counted, one record says the same to all replicas. Otherwise nothing says
 * why the database is empty, so it stays as it is until its keys are counted.
 */
static void note_absent(struct kw_sweep *sweep, const struct kw_databases *listed)
{
	struct kw_databases held = {0};

	kw_databases_clear(&sweep->absent);
	kw_store_held(sweep->parts.store, &held);
	for (uint32_t db = 0; kw_databases_next(&held, &db); db++) {
		if (kw_databases_has(listed, db))
			continue;
		kw_databases_add(&sweep->wanted, db);
		if (!kw_databases_has(&sweep->explained, db) ||
			!kw_store_empty(sweep->parts.store, db))
			kw_databases_add(&sweep->absent, db);
	}
	kw_databases_close(&held);
}

static void note_listed(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	kw_databases_add(arg, database);
}

/* Their keys were counted, and may go. One that has keys by now is walked over like the others. */
static void empty_absent(struct kw_sweep *sweep, struct kw_slice keyspace)
{
	struct kw_databases listed = {0};

	kw_info_keyspace(keyspace, note_listed, &listed);
	for (uint32_t db = 0; kw_databases_next(&sweep->absent, &db); db++)
		if (!kw_databases_has(&listed, db))
			kw_store_empty(sweep->parts.store, db);
	kw_databases_close(&listed);
	kw_sm_move(&sweep->sm, KW_SWEEP_UNSEEN, "");
}

static void begin_scan(struct kw_sweep *sweep, struct kw_slice keyspace)
{
	struct listing listing = {.sweep = sweep};
	struct kw_table_stats table;

	sweep->scanned = 0;
	sweep->scan_total = 0;
	sweep->beyond = 0;
	kw_databases_clear(&sweep->lasting);
	kw_info_keyspace(keyspace, list_database, &listing);
	note_absent(sweep, &listing.listed);
	kw_table_stats(sweep->parts.table, &table);
	sweep->keys_before = table.keys;
	sweep->emptied_before = sweep->parts.store->emptied;
	/* What was answered before this listing counts as before: the marks make it unseen. */
	kw_store_settle(sweep->parts.store);
	kw_table_marks_begin(sweep->parts.table);
	if (kw_sweep_is_mending(sweep))
		kw_store_sweep_missing(sweep->parts.store, &sweep->wanted);
	kw_scan_begin(sweep->scan, listing.scan, listing.count);
	kw_sm_move(&sweep->sm, KW_SWEEP_SCANNING, "");
	kw_databases_close(&listing.listed);
	free(listing.scan);
}

static void keyspace_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_sweep *sweep = arg;

	assert(sweep->answers_owed > 0);
	sweep->answers_owed--;
	reply = kw_data_reply(sweep->parts.data, reply);
	if (!reply || sweep->answers_owed > 0)
		return; /* of a sweep that was given up, or the connection is */
	if (sweep->sm.state != KW_SWEEP_ASKING && sweep->sm.state != KW_SWEEP_EMPTYING)
		return;
	if (reply->type != KW_REPLY_STRING)
		kw_data_refused(sweep->parts.data, "INFO keyspace", "+info", reply);
	else if (sweep->sm.state == KW_SWEEP_ASKING)
		begin_scan(sweep, reply->text);
	else
		empty_absent(sweep, reply->text);
}

static void ask_keyspace(struct kw_sweep *sweep)
{
	sweep->answers_owed++;
	kw_data_info(sweep->parts.data, keyspace_answered, sweep, "keyspace");
}

/* Beginning and ending. */

void kw_sweep_begin(struct kw_sweep *sweep, enum kw_sweep_kind kind,
	const struct kw_databases *databases, const char *why)
{
	assert(kind != KW_SWEEP_NONE && (kind != KW_SWEEP_AUDIT || !kw_sweep_is_mending(sweep)));
	if (kw_sweep_is_mending(sweep))
		sweep->renewals++;
	else
		kw_databases_clear(&sweep->wanted);
	if (kind > sweep->kind)
		sweep->kind = kind;
	if (databases) {
		kw_databases_merge(&sweep->wanted, databases);
	} else {
		kw_databases_add_all(&sweep->wanted);
		kw_databases_clear(&sweep->later.databases); /* this sweep covers them */
		kw_databases_clear(&sweep->later.explained);
	}
	snprintf(sweep->why, sizeof sweep->why, "%s", why);
	kw_scan_stop(sweep->scan);
	ask_keyspace(sweep);
	kw_sm_move(&sweep->sm, KW_SWEEP_ASKING, why);
}

static void rest(struct kw_sweep *sweep, const char *why)
{
	kw_scan_stop(sweep->scan);
	sweep->kind = KW_SWEEP_NONE;
	sweep->renewals = 0;
	kw_databases_clear(&sweep->wanted);
	kw_brake_release(&sweep->brake);
	kw_sm_move(&sweep->sm, KW_SWEEP_IDLE, why);
}

/* What is explained stays so: the table can still have those keys. */
void kw_sweep_stop(struct kw_sweep *sweep)
{
	rest(sweep, "stopped");
	sweep->row = 0;
	kw_databases_clear(&sweep->later.databases);
	kw_databases_merge(&sweep->explained, &sweep->later.explained);
	kw_databases_clear(&sweep->later.explained);
}

static void add(struct kw_databases *to, const struct kw_databases *databases)
{
	if (databases)
		kw_databases_merge(to, databases);
	else
		kw_databases_add_all(to);
}

/* A sweep that was postponed finds the same keys gone, after this one has ended. */
void kw_sweep_explain(struct kw_sweep *sweep, const struct kw_databases *databases)
{
	add(&sweep->explained, databases);
	if (!kw_databases_empty(&sweep->later.databases))
		add(&sweep->later.explained, databases);
	sweep->brake.rescan_us = 0;
}

void kw_sweep_unexplain(struct kw_sweep *sweep, const struct kw_databases *databases)
{
	uint32_t db = 0;

	if (databases->all) {
		kw_sweep_forget_explanations(sweep);
		return;
	}
	for (; kw_databases_next(databases, &db); db++) {
		kw_databases_remove(&sweep->explained, db);
		kw_databases_remove(&sweep->later.explained, db);
	}
}

void kw_sweep_forget_explanations(struct kw_sweep *sweep)
{
	kw_databases_clear(&sweep->explained);
	kw_databases_clear(&sweep->later.explained);
}

void kw_sweep_postpone(struct kw_sweep *sweep, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why)
{
	struct kw_sweep_later *later = &sweep->later;

	assert(kw_sweep_is_mending(sweep));
	add(&later->databases, databases);
	if (kw_doubt_explains(cause))
		add(&later->explained, databases);
	later->cause = cause;
	snprintf(later->why, sizeof later->why, "%s", why);
}

/* What an operator can do if scans follow each other. */
static const char *remedy(enum kw_doubt cause)
{
	return cause == KW_DOUBT_COMMAND
		       ? "with source.feed=notifications such a command causes none"
		       : "who calls CONFIG SET, CONFIG RESETSTAT, SWAPDB or FLUSHDB so often?";
}

bool kw_sweep_take_later(struct kw_sweep *sweep, struct kw_sweep_later *later)
{
	if (kw_databases_empty(&sweep->later.databases)) {
		sweep->row = 0;
		return false;
	}
	*later = sweep->later;
	sweep->later.databases = (struct kw_databases){0};
	if (++sweep->row >= ROW_TO_NAME)
		snprintf(later->why, sizeof later->why, "%.300s (%u scans in a row now: %s)",
			sweep->later.why, sweep->row + 1, remedy(later->cause));
	return true;
}

static void finish(struct kw_sweep *sweep, uint64_t now_us)
{
	bool mended = kw_sweep_is_mending(sweep);

	sweep->audit_us = now_us + AUDIT_PAUSE_US;
	rest(sweep, "ended");
	kw_databases_clear(&sweep->explained);
	kw_databases_merge(&sweep->explained, &sweep->later.explained);
	kw_databases_clear(&sweep->later.explained);
	if (!mended)
		return;
	sweep->ended++;
	sweep->clean += kw_databases_empty(&sweep->later.databases);
	assert(sweep->clean <= sweep->ended);
	sweep->parts.ended(sweep->parts.arg);
}

/* The scan's keys. */

/* Auditing large values is paced by their bytes, as the table knows them. */
static void spend_bytes(struct kw_sweep *sweep, uint32_t database, struct kw_slice key)
{
	struct kw_slice value;
	uint64_t expires_ms;

	if (kw_table_get(sweep->parts.table, database, key, &value, &expires_ms))
		kw_bucket_spend(&sweep->audit_pace, value.length / AUDIT_KEY_BYTES);
}

static void scanned(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_sweep *sweep = arg;
	unsigned flags = KW_DIRTY_SCAN;

	if (!kw_scope_has(sweep->parts.scope, database, key))
		return;
	sweep->scanned++;
	/* If no key had an expiry when the sweep began, an event tells of one that is set since. */
	if (!kw_databases_has(&sweep->lasting, database))
		flags |= KW_DIRTY_TTL;
	if (sweep->kind == KW_SWEEP_AUDIT)
		spend_bytes(sweep, database, key);
	kw_dirty_add(sweep->parts.dirty, database, key, flags);
}

static void unseen(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_sweep *sweep = arg;

	if (kw_databases_has(&sweep->wanted, database))
		kw_dirty_add(sweep->parts.dirty, database, key,
			KW_DIRTY_SCAN | KW_DIRTY_TTL | KW_DIRTY_COUNTED);
}

void kw_sweep_expiry_set(struct kw_sweep *sweep, uint32_t database)
{
	kw_databases_remove(&sweep->lasting, database);
}

void kw_sweep_swapped(struct kw_sweep *sweep, const uint32_t databases[2])
{
	kw_databases_swap(&sweep->explained, databases[0], databases[1]);
	kw_databases_swap(&sweep->later.explained, databases[0], databases[1]);
	kw_sweep_expiry_set(sweep, databases[0]);
	kw_sweep_expiry_set(sweep, databases[1]);
}

/* Keys of a step of the audit: fewer if values are large. */
static uint64_t audit_step(const struct kw_sweep *sweep)
{
	uint64_t keys = sweep->audit_pace.per_second / AUDIT_STEPS_PER_SECOND + 1;
	struct kw_table_stats table;
	uint64_t bytes;

	kw_table_stats(sweep->parts.table, &table);
	bytes = table.keys ? table.payload_bytes / table.keys : 0;
	if (bytes > AUDIT_KEY_BYTES)
		keys = keys * AUDIT_KEY_BYTES / bytes;
	return keys ? keys : 1;
}

/* Is the bound on scanned keys that wait to be fetched reached, with so many steps to come? */
static bool is_bound(const struct kw_sweep *sweep, uint64_t steps)
{
	return kw_dirty_scanned(sweep->parts.dirty) + steps * step_most(sweep) > bound(sweep);
}

/* Keys for the next step of the scan; 0: not now. steps: to come, this one included. */
static uint32_t step(struct kw_sweep *sweep, uint64_t steps, uint64_t now_us)
{
	uint64_t keys = step_most(sweep);

	if (kw_scan_done(sweep->scan) || kw_data_is_broken(sweep->parts.data))
		return 0;
	if (is_bound(sweep, steps) || kw_scan_asked(sweep->scan) ||
		!kw_pace_allows(sweep->parts.pace, now_us))
		return 0;
	if (sweep->kind == KW_SWEEP_AUDIT) {
		uint64_t paced = audit_step(sweep);

		if (!kw_bucket_allows(&sweep->audit_pace, now_us))
			return 0;
		keys = keys < paced ? keys : paced;
		kw_bucket_spend(&sweep->audit_pace, keys);
	}
	return (uint32_t)keys;
}

/*
 * Otherwise the server would wait while this step's keys, and the values that came behind them, are
 * worked on. That was a fourth of a first scan.
 */
static void step_answered(void *arg)
{
	struct kw_sweep *sweep = arg;

	assert(sweep->sm.state == KW_SWEEP_SCANNING);
	if (!sweep->parts.may_read(sweep->parts.arg))
		return;
	kw_scan_pump(sweep->scan, step(sweep, 2, kw_clock_us()));
	kw_redis_flush(sweep->parts.data->redis);
}

/* The loop turn. */

static bool audit_is_due(const struct kw_sweep *sweep, uint64_t now_us)
{
	return sweep->sm.state == KW_SWEEP_IDLE && sweep->audit_pace.per_second > 0 &&
	       now_us >= sweep->audit_us;
}

static bool is_drained(const struct kw_sweep *sweep)
{
	return kw_dirty_scanned(sweep->parts.dirty) == 0;
}

/* Keys that wait for room keep a barrier from passing. */
static bool is_told(const struct kw_sweep *sweep)
{
	return sweep->parts.fresh->told > sweep->barrier ||
	       kw_dirty_count(sweep->parts.dirty, KW_DIRTY_PARKED) > 0;
}

/* The brake: keys that would be deleted only because the scan did not see them are counted first.
 */

static uint64_t table_version(const struct kw_sweep *sweep)
{
	struct kw_table_stats table;

	kw_table_stats(sweep->parts.table, &table);
	return table.version;
}

static void begin_count(struct kw_sweep *sweep, uint64_t now_us)
{
	/* A database that was emptied since is not missing, and no part of the whole. */
	uint64_t emptied = sweep->parts.store->emptied - sweep->emptied_before;
	uint64_t before = sweep->keys_before > emptied ? sweep->keys_before - emptied : 0;

	sweep->cursor = 0;
	sweep->primary_ms = sweep->parts.primary_ms(sweep->parts.arg);
	kw_brake_begin(&sweep->brake, before, table_version(sweep), now_us);
	kw_sm_move(&sweep->sm, KW_SWEEP_COUNTING, "");
}

static void drained(struct kw_sweep *sweep, uint64_t now_us)
{
	if (sweep->keys_before == 0) {
		kw_sm_move(&sweep->sm, KW_SWEEP_SETTLING, "");
	} else if (sweep->kind == KW_SWEEP_AUDIT) {
		sweep->barrier = sweep->parts.fresh->asked;
		kw_sm_move(&sweep->sm, KW_SWEEP_AWAITING, "");
	} else {
		begin_count(sweep, now_us);
	}
}

static void count_missing(struct kw_sweep *sweep, uint64_t expires_ms)
{
	sweep->brake.count.missing++;
	if (expires_ms > 0)
		kw_brake_note_expiry(&sweep->brake.count, expires_ms, sweep->primary_ms);
}

static void count_unseen(void *arg, uint32_t database, uint64_t expires_ms)
{
	struct kw_sweep *sweep = arg;
	bool expired = expires_ms > 0 && expires_ms <= sweep->primary_ms;

	if (!kw_databases_has(&sweep->wanted, database))
		return;
	if (expired || kw_databases_has(&sweep->explained, database))
		sweep->brake.count.explained++;
	else
		count_missing(sweep, expires_ms);
}

/* Returns true when all are counted. */
static bool count(struct kw_sweep *sweep)
{
	return !kw_table_count_unseen(
		sweep->parts.table, &sweep->cursor, COUNT_BUDGET, count_unseen, sweep);
}

/*
 * The unseen keys may go. Each of them by itself: a replica can have more keys than this table,
 * which its agent holds back, and one record that empties a database would take these along. It is
 * used only if the brake is off.
 */
static void pass(struct kw_sweep *sweep)
{
	kw_brake_release(&sweep->brake);
	sweep->cursor = 0;
	if (kw_databases_empty(&sweep->absent) || sweep->brake.share < 1) {
		kw_sm_move(&sweep->sm, KW_SWEEP_UNSEEN, "");
		return;
	}
	ask_keyspace(sweep);
	kw_sm_move(&sweep->sm, KW_SWEEP_EMPTYING, "");
}

/* An audit that finds so much is no audit any more. Doubts that waited for its end must not wait.
 */
static void hold(struct kw_sweep *sweep, uint64_t now_us)
{
	if (!kw_sweep_is_mending(sweep))
		sweep->kind = KW_SWEEP_RECONCILE;
	sweep->renewals = 0;
	if (!kw_databases_empty(&sweep->later.databases))
		sweep->brake.rescan_us = now_us;
	kw_sm_move(&sweep->sm, KW_SWEEP_HELD, "");
}

static void judge(struct kw_sweep *sweep, uint64_t now_us)
{
	if (kw_brake_judge(&sweep->brake, now_us) == KW_BRAKE_HOLD)
		hold(sweep, now_us);
	else
		pass(sweep);
}

static void look_again(struct kw_sweep *sweep, uint64_t now_us)
{
	switch (kw_brake_due(&sweep->brake, table_version(sweep), now_us)) {
	case KW_BRAKE_NOTHING:
		break;
	case KW_BRAKE_RECOUNT:
		begin_count(sweep, now_us);
		break;
	case KW_BRAKE_RESCAN:
		kw_sweep_begin(sweep, sweep->kind, &sweep->later.databases,
			"looking again for the keys that the primary lacked");
		kw_databases_clear(&sweep->later.databases);
		kw_databases_clear(&sweep->later.explained);
		break;
	}
}

bool kw_sweep_approve(struct kw_sweep *sweep)
{
	return kw_brake_approve(&sweep->brake);
}

void kw_sweep_set_max_missing(struct kw_sweep *sweep, double share)
{
	kw_brake_set_share(&sweep->brake, share);
}

/* Returns true when the walk over the table is complete. */
static bool walk(struct kw_sweep *sweep)
{
	return kw_dirty_scanned(sweep->parts.dirty) < bound(sweep) &&
	       !kw_table_unseen(sweep->parts.table, &sweep->cursor, UNSEEN_BUDGET, unseen, sweep);
}

void kw_sweep_turn(struct kw_sweep *sweep, uint64_t now_us)
{
	if (audit_is_due(sweep, now_us)) {
		sweep->audits++;
		kw_sweep_begin(sweep, KW_SWEEP_AUDIT, NULL, "audit");
	}
	if (sweep->sm.state == KW_SWEEP_SCANNING) {
		kw_scan_pump(sweep->scan, step(sweep, 1, now_us));
		if (kw_scan_done(sweep->scan))
			kw_sm_move(&sweep->sm, KW_SWEEP_DRAINING, "");
	}
	if (sweep->sm.state == KW_SWEEP_HELD)
		look_again(sweep, now_us);
	if (sweep->sm.state == KW_SWEEP_DRAINING && is_drained(sweep))
		drained(sweep, now_us);
	if (sweep->sm.state == KW_SWEEP_AWAITING && is_told(sweep))
		begin_count(sweep, now_us);
	if (sweep->sm.state == KW_SWEEP_COUNTING && count(sweep))
		judge(sweep, now_us);
	if (sweep->sm.state == KW_SWEEP_UNSEEN && walk(sweep))
		kw_sm_move(&sweep->sm, KW_SWEEP_SETTLING, "");
	if (sweep->sm.state == KW_SWEEP_SETTLING && is_drained(sweep))
		finish(sweep, now_us);
}

/* When the next step of the scan may be asked for. */
static uint64_t step_ready_us(const struct kw_sweep *sweep, uint64_t now_us)
{
	uint64_t pace_us = kw_pace_ready_us(sweep->parts.pace, now_us);
	uint64_t audit_us = sweep->kind == KW_SWEEP_AUDIT
				    ? kw_bucket_ready_us(&sweep->audit_pace, now_us)
				    : now_us;

	/* With enough keys in hand, their fetching brings the next turn. */
	if (kw_scan_asked(sweep->scan) || is_bound(sweep, 1))
		return UINT64_MAX;
	return audit_us > pace_us ? audit_us : pace_us;
}

uint64_t kw_sweep_ready_us(const struct kw_sweep *sweep, uint64_t now_us)
{
	switch (sweep->sm.state) {
	case KW_SWEEP_IDLE:
		return sweep->audit_pace.per_second > 0 ? sweep->audit_us : UINT64_MAX;
	case KW_SWEEP_SCANNING:
		return step_ready_us(sweep, now_us);
	case KW_SWEEP_COUNTING:
		return 0;
	case KW_SWEEP_HELD:
		return kw_brake_ready_us(&sweep->brake, table_version(sweep));
	case KW_SWEEP_UNSEEN:
		return kw_dirty_scanned(sweep->parts.dirty) < bound(sweep) ? 0 : UINT64_MAX;
	default:
		return UINT64_MAX; /* replies will come */
	}
}

void kw_sweep_limit(struct kw_sweep *sweep, uint64_t audit_keys_per_second, uint64_t now_us)
{
	kw_bucket_init(&sweep->audit_pace, audit_keys_per_second, now_us);
	if (audit_keys_per_second == 0 && sweep->kind == KW_SWEEP_AUDIT)
		kw_sweep_stop(sweep);
}

void kw_sweep_init(struct kw_sweep *sweep, const struct kw_sweep_parts *parts)
{
	const struct kw_scan_handlers scan = {
		.key = scanned, .answered = step_answered, .arg = sweep};

	assert(parts->window > 0 && parts->fresh && parts->ended && parts->primary_ms);
	assert(parts->may_read);
	*sweep = (struct kw_sweep){.parts = *parts, .brake = {.share = 1}};
	sweep->scan = kw_scan_new(parts->data, &scan);
	kw_sm_init(&sweep->sm, &machine, sweep, KW_SWEEP_IDLE);
}

void kw_sweep_close(struct kw_sweep *sweep)
{
	kw_scan_free(sweep->scan);
	kw_databases_close(&sweep->wanted);
	kw_databases_close(&sweep->absent);
	kw_databases_close(&sweep->explained);
	kw_databases_close(&sweep->lasting);
	kw_databases_close(&sweep->later.databases);
	kw_databases_close(&sweep->later.explained);
}
