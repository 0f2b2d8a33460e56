#include "source/store.h"

#include "base/clock.h"
#include "base/log.h"
#include "rdb/payload.h"
#include "rdb/payload_string.h"
#include "source/missing.h"
#include "source/source.h"

#include <assert.h>

#define UNPARK_EVERY_US 50000 /* while the table is full */
#define UNPARK_KEYS 1024      /* a time */
#define LOGS_PER_SECOND 1
#define EXPIRY_SLACK_MS 1000 /* of the clocks */

void kw_store_init(struct kw_store *store, struct kw_table *table, struct kw_dirty *dirty,
	struct kw_unreadable *unreadable, uint64_t seed)
{
	*store = (struct kw_store){.table = table, .dirty = dirty, .unreadable = unreadable};
	kw_key_table_init(&store->too_large, sizeof(struct kw_key), seed);
	kw_values_init(&store->values, store, seed);
	kw_found_init(&store->found, seed);
	kw_bucket_init(&store->logs, LOGS_PER_SECOND, kw_clock_us());
	kw_bucket_init(&store->walks, KW_STORE_WALKED, kw_clock_us());
}

void kw_store_close(struct kw_store *store)
{
	kw_values_close(&store->values);
	kw_found_close(&store->found);
	kw_key_table_close(&store->too_large);
	kw_databases_close(&store->held);
	kw_databases_close(&store->expiring);
}

/* The key is not too large (any more), and can be read. */
static void fits(struct kw_store *store, uint32_t database, struct kw_slice key)
{
	kw_missing_remove(&store->too_large, database, key);
	kw_missing_remove(&store->unreadable->keys, database, key);
}

static enum kw_put_result too_large(
	struct kw_store *store, uint32_t database, struct kw_slice key, uint64_t bytes)
{
	uint64_t now_us = kw_clock_us();

	kw_missing_remove(&store->unreadable->keys, database, key);
	if (!kw_missing_find(&store->too_large, database, key)) {
		kw_missing_add(&store->too_large, database, key);
		if (kw_bucket_allows(&store->logs, now_us)) {
			kw_bucket_spend(&store->logs, 1);
			kw_log_warn("source",
				"key '%.*s' of database %u is larger than the table can hold (%llu "
				"bytes): it is not replicated; raise table.max_bytes",
				kw_shown(key), (const char *)key.data, database,
				(unsigned long long)bytes);
		}
	}
	return kw_table_delete(store->table, database, key);
}

static void removed(struct kw_store *store, const struct kw_table_change *change)
{
	kw_feed_stored(store->feed, change->database, change->key, NULL);
	fits(store, change->database, change->key);
}

static void note_stored(struct kw_store *store, const struct kw_table_change *change)
{
	if (!kw_databases_has(&store->held, change->database))
		kw_databases_add(&store->held, change->database);
	if (change->expires_ms > 0 && !kw_databases_has(&store->expiring, change->database))
		kw_databases_add(&store->expiring, change->database);
	fits(store, change->database, change->key);
	kw_feed_stored(store->feed, change->database, change->key, &change->value);
}

static void was_put(struct kw_store *store, struct kw_table_change *change)
{
	assert(change->value.length > 0);
	if (change->result == KW_PUT_TOO_LARGE) {
		change->result =
			too_large(store, change->database, change->key, change->value.length);
	} else if (change->result == KW_PUT_FULL) {
		/* The walk for unseen keys must not take the table's record of it for gone. */
		kw_table_mark(store->table, change->database, change->key);
	} else {
		note_stored(store, change);
	}
}

bool kw_source_same_value(struct kw_slice held, struct kw_slice put)
{
	return kw_payload_is_repacked(held, put, KW_VALUES_LARGEST);
}

void kw_store_put(struct kw_store *store, struct kw_table_change *changes, size_t count)
{
	kw_table_change_all(store->table, changes, count);
	for (size_t i = 0; i < count; i++) {
		if (changes[i].kind == KW_RECORD_PUT)
			was_put(store, &changes[i]);
		else
			removed(store, &changes[i]);
	}
}

static uint64_t expiry(void *arg, uint32_t database, struct kw_slice key)
{
	const struct kw_store *store = arg;
	struct kw_slice value;
	uint64_t expires_ms;

	return kw_table_get(store->table, database, key, &value, &expires_ms) ? expires_ms : 0;
}

/* What an answer is to an audit that asked for it. */
enum answer {
	ANSWER_TOLD,  /* something else named the key, too; or there is no audit */
	ANSWER_SAME,  /* another form of the value that the table has: a set in another order */
	ANSWER_LATE,  /* it is gone, or fields of it, because their time is over: that is told later
		       */
	ANSWER_FOUND, /* nothing but the audit named the key */
};

static bool same_digest(struct kw_slice one, struct kw_slice other, uint64_t now_ms)
{
	struct kw_hash128 digests[2];
	struct kw_error error;

	return !kw_payload_digest_at(one, now_ms, &digests[0], NULL, &error) &&
	       !kw_payload_digest_at(other, now_ms, &digests[1], NULL, &error) &&
	       memcmp(&digests[0], &digests[1], sizeof digests[0]) == 0;
}

/* Of a key that the table has, and with the same expiry. */
static enum answer compare(
	struct kw_slice held, const struct kw_table_change *change, uint64_t audit_ms)
{
	if (kw_slice_equal(held, change->value))
		return ANSWER_FOUND; /* the table says that nothing changed */
	if (same_digest(held, change->value, 0))
		return ANSWER_SAME;
	return same_digest(held, change->value, audit_ms) ? ANSWER_LATE : ANSWER_FOUND;
}

static enum answer judge(const struct kw_store *store, const struct kw_table_change *change,
	uint8_t flags, uint64_t audit_ms)
{
	struct kw_slice held;
	uint64_t expires_ms;

	if (audit_ms == 0 || (flags & (KW_DIRTY_SCAN | KW_DIRTY_EVENT)) != KW_DIRTY_SCAN)
		return ANSWER_TOLD;
	if (!kw_table_get(store->table, change->database, change->key, &held, &expires_ms))
		return ANSWER_FOUND;
	if (change->kind == KW_RECORD_DELETE)
		return expires_ms > 0 && expires_ms <= audit_ms + EXPIRY_SLACK_MS ? ANSWER_LATE
										  : ANSWER_FOUND;
	return expires_ms == change->expires_ms ? compare(held, change, audit_ms) : ANSWER_FOUND;
}

/* Nothing is stored of those that say the same. Others are stored in rows, in their order. */
static void put_others(struct kw_store *store, struct kw_table_change *changes,
	const enum answer *answers, size_t count)
{
	size_t from = 0;

	for (size_t i = 0; i <= count; i++) {
		if (i < count && answers[i] != ANSWER_SAME)
			continue;
		if (i > from)
			kw_store_put(store, &changes[from], i - from);
		from = i + 1;
		if (i == count)
			break;
		kw_table_mark(store->table, changes[i].database, changes[i].key);
		changes[i].result = KW_PUT_UNCHANGED;
	}
}

/* Answers of the server. */
static void fetched(void *arg, struct kw_table_change *changes, const uint8_t *flags, size_t count)
{
	struct kw_store *store = arg;
	uint64_t audit_ms = store->audits(store->source) ? store->primary_ms(store->source) : 0;
	enum answer answers[KW_FETCH_BATCH];

	assert(count <= KW_FETCH_BATCH);
	for (size_t i = 0; i < count; i++)
		answers[i] = judge(store, &changes[i], flags[i], audit_ms);
	put_others(store, changes, answers, count);
	for (size_t i = 0; i < count; i++) {
		const struct kw_table_change *change = &changes[i];
		bool gone = change->kind == KW_RECORD_DELETE;

		store->deletes += gone && change->result == KW_PUT_STORED;
		store->unchanged += !gone && change->result == KW_PUT_UNCHANGED;
		if (answers[i] == ANSWER_FOUND && change->result == KW_PUT_STORED)
			kw_found_suspect(&store->found, change->database, change->key,
				store->barriers, kw_clock_us());
		kw_order_fetched(&store->values.order, change->database, change->key);
	}
}

/*
 * The table knows every key's expiry as of the last fetch. No event since could have set one: the
 * key would carry KW_DIRTY_TTL. The table has nothing of keys that are too large for it, or were
 * unreadable until now. While missed events are possible, scans ask for every expiry.
 */
static bool expires(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_store *store = arg;

	if (kw_missing_find(&store->too_large, database, key) ||
		kw_missing_find(&store->unreadable->keys, database, key))
		return true;
	return kw_databases_has(&store->expiring, database) && expiry(store, database, key) > 0;
}

static enum kw_put_result unreadable(
	void *arg, uint32_t database, struct kw_slice key, enum kw_fetch_found found)
{
	struct kw_store *store = arg;

	kw_order_asked_for(&store->values.order, database, key);
	kw_unreadable_found(store->unreadable, database, key, found, kw_clock_us());
	kw_feed_stored(store->feed, database, key, NULL);
	return kw_table_delete(store->table, database, key);
}

/*
 * The server was ahead of the stream: it has deleted or moved the key, which is still to be told.
 * Until then the table's value can be any older one, because a sweep may have asked for the key.
 */
static void spared(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_store *store = arg;

	kw_order_asked_for(&store->values.order, database, key);
}

static enum kw_fetch_mark mark(void *arg, uint32_t database, struct kw_slice key)
{
	const struct kw_store *store = arg;

	if (store->unreadable->keys.count == 0)
		return KW_FETCH_READABLE; /* the common case costs no look at the clock */
	return kw_unreadable_mark(store->unreadable, database, key, kw_clock_us());
}

void kw_store_resume(struct kw_store *store)
{
	for (uint32_t db = 0; db < KW_DATABASES_MOST; db++)
		if (kw_table_database_keys(store->table, db) > 0) {
			kw_databases_add(&store->held, db);
			kw_databases_add(&store->expiring, db);
		}
}

struct kw_fetch_handlers kw_store_handlers(struct kw_store *store)
{
	return (struct kw_fetch_handlers){
		fetched, expiry, expires, unreadable, mark, spared, store};
}

void kw_store_settle(struct kw_store *store)
{
	kw_fetch_settle(store->fetch);
	kw_values_apply(&store->values);
}

bool kw_store_may_walk(struct kw_store *store)
{
	return kw_bucket_allows(&store->walks, kw_clock_us());
}

/* A walk over a very large index is paid for in a second, or none would follow for long. */
void kw_store_walked(struct kw_store *store, uint64_t places)
{
	kw_bucket_spend(&store->walks, places < KW_STORE_WALKED ? places : KW_STORE_WALKED);
}

static void forget_missing(struct kw_store *store, uint32_t database)
{
	kw_missing_remove_database(&store->too_large, database);
	kw_missing_remove_database(&store->unreadable->keys, database);
}

/* The table has no key of it afterwards. False: it has no room to say so. */
static bool empty(struct kw_store *store, uint32_t database)
{
	uint64_t keys = kw_table_database_keys(store->table, database);
	struct kw_table_stats stats;

	if (kw_table_flush(store->table, database) == KW_PUT_FULL)
		return false;
	store->emptied += keys;
	kw_table_stats(store->table, &stats);
	kw_store_walked(store, keys > 0 ? stats.index_slots : 0);
	assert(kw_table_database_keys(store->table, database) == 0);
	kw_databases_remove(&store->expiring, database);
	kw_feed_emptied(store->feed, database);
	forget_missing(store, database);
	return true;
}

bool kw_store_empty(struct kw_store *store, uint32_t database)
{
	if (store->fence && store->fence(store->source) == KW_FENCE_CLOSED)
		return false;
	kw_store_settle(store);
	if (!empty(store, database))
		return false;
	kw_order_emptied(&store->values.order, database);
	return true;
}

/* Those of them of which keys are known. False: the table has no room to say so. */
static bool empty_all(struct kw_store *store, const struct kw_databases *databases)
{
	struct kw_databases known = {0};
	bool whole = true;

	kw_store_held(store, &known);
	kw_store_lacking(store, &known);
	for (uint32_t db = 0; kw_databases_next(&known, &db); db++)
		if (kw_databases_has(databases, db))
			whole &= empty(store, db);
	kw_databases_close(&known);
	return whole;
}

bool kw_store_flush(struct kw_store *store, const struct kw_databases *databases, uint64_t begin)
{
	kw_store_settle(store);
	if (!kw_order_has_passed(&store->values.order, databases, begin) ||
		!kw_store_may_walk(store) || !empty_all(store, databases))
		return false;
	kw_store_walked(store, kw_dirty_total(store->dirty));
	kw_dirty_overtake_databases(store->dirty, databases);
	return true;
}

void kw_store_held(struct kw_store *store, struct kw_databases *databases)
{
	kw_store_settle(store);
	for (uint32_t db = 0; kw_databases_next(&store->held, &db); db++)
		if (kw_table_database_keys(store->table, db) > 0)
			kw_databases_add(databases, db);
}

void kw_store_lacking(struct kw_store *store, struct kw_databases *databases)
{
	kw_missing_databases(&store->too_large, databases);
	kw_missing_databases(&store->unreadable->keys, databases);
}

void kw_store_sweep_missing(struct kw_store *store, const struct kw_databases *databases)
{
	kw_missing_sweep(&store->too_large, databases, store->dirty);
	kw_missing_sweep(&store->unreadable->keys, databases, store->dirty);
}

static void log_difference(void *arg, uint32_t database, struct kw_slice name)
{
	struct kw_store *store = arg;
	uint64_t now_us = kw_clock_us();

	if (!kw_bucket_allows(&store->logs, now_us))
		return;
	kw_bucket_spend(&store->logs, 1);
	kw_log_warn("source",
		"the audit found key '%.*s' of database %u changed, and nothing had told so: it is "
		"mended",
		kw_shown(name), (const char *)name.data, database);
}

void kw_store_passed(struct kw_store *store, uint64_t barriers)
{
	kw_found_passed(&store->found, barriers, kw_clock_us(), log_difference, store);
}

struct room {
	struct kw_table *table;
	uint64_t promised; /* bytes of those let go before */
};

static bool has_room(void *arg, uint64_t bytes)
{
	struct room *room = arg;

	if (!kw_table_has_room(room->table, room->promised + bytes + KW_STORE_RECORD))
		return false;
	room->promised += bytes + KW_STORE_RECORD;
	return true;
}

void kw_store_unpark(struct kw_store *store, uint64_t now_us)
{
	struct room room = {.table = store->table};

	if (now_us < kw_store_ready_us(store))
		return;
	store->unpark_us = now_us + UNPARK_EVERY_US;
	kw_dirty_unpark(store->dirty, UNPARK_KEYS, has_room, &room);
}

uint64_t kw_store_ready_us(const struct kw_store *store)
{
	return kw_dirty_count(store->dirty, KW_DIRTY_PARKED) > 0 ? store->unpark_us : UINT64_MAX;
}

uint64_t kw_store_waiting(const struct kw_store *store)
{
	return kw_dirty_count(store->dirty, KW_DIRTY_PARKED) + kw_dirty_released(store->dirty);
}
