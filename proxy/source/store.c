/* What was fetched goes into the table; what does not fit waits for room. */
#include "source/internal.h"

#include "base/clock.h"
#include "base/log.h"

#define RECORD_BYTES 128      /* of a record besides key and value, rounded up */
#define UNPARK_EVERY_US 50000 /* while the table is full */
#define UNPARK_KEYS 1024      /* a time */
#define SHOWN_BYTES 80        /* of a key's name in the log */

static struct kw_key *find(
	const struct kw_keyset *set, uint32_t database, struct kw_slice key, uint64_t *hash)
{
	*hash = kw_keyset_hash(set, database, key);
	return kw_keyset_find(set, *hash, database, key);
}

static void remove_from(
	struct kw_source *source, struct kw_keyset *set, uint32_t database, struct kw_slice key)
{
	struct kw_key *known;
	uint64_t hash;

	if (set->count == 0)
		return;
	known = find(set, database, key, &hash);
	if (!known)
		return;
	kw_keyset_remove(set, known);
}

/* The key is not too large (any more), and can be read. */
static void fits(struct kw_source *source, uint32_t database, struct kw_slice key)
{
	remove_from(source, &source->too_large, database, key);
	remove_from(source, &source->unreadable, database, key);
}

/* It was not in the set, and a line may be logged about it. */
static bool add_to(
	struct kw_source *source, struct kw_keyset *set, uint32_t database, struct kw_slice key)
{
	uint64_t hash, now_us = kw_clock_us();

	if (find(set, database, key, &hash))
		return false;
	kw_keyset_add(set, hash, database, key);
	if (!kw_bucket_allows(&source->too_large_log, now_us))
		return false;
	kw_bucket_spend(&source->too_large_log, 1);
	return true;
}

static int shown(struct kw_slice key)
{
	return (int)(key.length < SHOWN_BYTES ? key.length : SHOWN_BYTES);
}

/* It never fits. What the table has of it is old, and goes: nothing is better than something wrong.
 */
static enum kw_put_result too_large(
	struct kw_source *source, uint32_t database, struct kw_slice key, uint64_t bytes)
{
	remove_from(source, &source->unreadable, database, key);
	if (add_to(source, &source->too_large, database, key))
		kw_log_warn("source",
			"key '%.*s' of database %u is larger than the table can hold (%llu "
			"bytes): it is not replicated; raise table.max_bytes",
			shown(key), (const char *)key.data, database, (unsigned long long)bytes);
	return kw_table_delete(source->table, database, key);
}

static enum kw_put_result forget(struct kw_source *source, uint32_t database, struct kw_slice key)
{
	enum kw_put_result result = kw_table_delete(source->table, database, key);

	if (result == KW_PUT_STORED)
		source->stats.deletes++;
	kw_feed_stored(source->feed, database, key, NULL);
	fits(source, database, key);
	return result;
}

enum kw_put_result kw_source_store(void *arg, uint32_t database, struct kw_slice key,
	const struct kw_slice *payload, uint64_t expires_ms)
{
	struct kw_source *source = arg;
	enum kw_put_result result;

	if (!payload)
		return forget(source, database, key);
	result = kw_table_put(source->table, database, key, *payload, expires_ms);
	switch (result) {
	case KW_PUT_UNCHANGED:
		source->stats.unchanged++;
		break;
	case KW_PUT_STORED:
		break;
	case KW_PUT_FULL:
		/* The walk for unseen keys must not take what the table has of it for gone. */
		kw_table_mark(source->table, database, key);
		return result;
	case KW_PUT_TOO_LARGE:
		return too_large(source, database, key, payload->length);
	}
	if (!kw_databases_has(&source->held, database))
		kw_databases_add(&source->held, database);
	if (expires_ms > 0 && !kw_databases_has(&source->expiring, database))
		kw_databases_add(&source->expiring, database);
	fits(source, database, key);
	kw_feed_stored(source->feed, database, key, payload);
	return result;
}

uint64_t kw_source_expiry(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_source *source = arg;
	struct kw_slice value;
	uint64_t expires_ms;

	return kw_table_get(source->table, database, key, &value, &expires_ms) ? expires_ms : 0;
}

/*
 * The table is as good a witness as the server: it has every key's expiry as of the last fetch, and
 * no event since could have set one, or the key would carry KW_DIRTY_TTL. Of keys too large for it,
 * or unreadable until now, the table has nothing. While events may have been missed, scans ask for
 * every expiry.
 */
bool kw_source_expires(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_source *source = arg;
	uint64_t hash;

	if (source->too_large.count > 0 && find(&source->too_large, database, key, &hash))
		return true;
	if (source->unreadable.count > 0 && find(&source->unreadable, database, key, &hash))
		return true;
	return kw_databases_has(&source->expiring, database) &&
	       kw_source_expiry(source, database, key) > 0;
}

uint64_t kw_source_expect(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_source *source = arg;

	return kw_table_expect(source->table, database, key);
}

void kw_source_expect_again(void *arg, uint64_t expected)
{
	struct kw_source *source = arg;

	kw_table_expect_again(source->table, expected);
}

void kw_source_approach(void *arg, uint64_t expected)
{
	struct kw_source *source = arg;

	kw_table_approach(source->table, expected);
}

struct emptying {
	struct kw_source *source;
	struct kw_keyset *set;
	uint32_t database;
};

static void drop(void *arg, struct kw_key *key)
{
	struct emptying *emptying = arg;

	if (key->database != emptying->database)
		return;
	kw_keyset_remove(emptying->set, key);
}

static void empty_set(struct kw_source *source, struct kw_keyset *set, uint32_t database)
{
	struct emptying emptying = {source, set, database};

	kw_keyset_each(set, drop, &emptying);
}

bool kw_source_empty_database(struct kw_source *source, uint32_t database)
{
	if (kw_table_flush(source->table, database) == KW_PUT_FULL)
		return false;
	kw_databases_remove(&source->expiring, database);
	kw_feed_emptied(source->feed, database);
	empty_set(source, &source->too_large, database);
	empty_set(source, &source->unreadable, database);
	return true;
}

struct looking {
	struct kw_source *source;
	const struct kw_keyset *set;
};

static void look_again(void *arg, struct kw_key *key)
{
	const struct looking *looking = arg;

	if (kw_databases_has(&looking->source->sweep.wanted, key->database))
		kw_dirty_add(looking->source->dirty, key->database,
			kw_keyset_name(looking->set, key), KW_DIRTY_SCAN | KW_DIRTY_TTL);
}

void kw_source_look_at_lacking(struct kw_source *source)
{
	struct kw_keyset *sets[] = {&source->too_large, &source->unreadable};

	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		struct looking looking = {source, sets[i]};

		kw_keyset_each(sets[i], look_again, &looking);
	}
}

struct room {
	struct kw_table *table;
	uint64_t promised; /* bytes of those let go before */
};

static bool has_room(void *arg, uint64_t bytes)
{
	struct room *room = arg;

	if (!kw_table_has_room(room->table, room->promised + bytes + RECORD_BYTES))
		return false;
	room->promised += bytes + RECORD_BYTES;
	return true;
}

void kw_source_unpark(struct kw_source *source, uint64_t now_us)
{
	struct room room = {.table = source->table};

	if (now_us < source->unpark_us || kw_dirty_count(source->dirty, KW_DIRTY_PARKED) == 0)
		return;
	source->unpark_us = now_us + UNPARK_EVERY_US;
	kw_dirty_unpark(source->dirty, UNPARK_KEYS, has_room, &room);
}
