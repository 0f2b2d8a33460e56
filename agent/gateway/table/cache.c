#include "cache.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "table/layout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A larger entry would push out too many others. */
#define LARGEST_SHARE 8
/* An entry of a small value takes so much: a chain is about one entry long then. */
#define BYTES_A_BUCKET 256
/* What the allocator keeps beside an entry. */
#define ALLOCATED_BESIDE 16
#define LINE_BYTES 64
#define LINES_AHEAD 4

/* Last changes that are remembered, by hash. */
#define CHANGES 16384
#define CHANGES_A_BUCKET 4 /* buckets for each, in a small cache */

struct entry {
	struct entry *next; /* of its bucket */
	uint64_t hash;
	uint64_t version;
	uint64_t expires_ms;
	uint32_t database;
	uint32_t life; /* of the database; another one now: the entry was flushed */
	uint32_t key_length;
	uint32_t payload_length;
	uint8_t kind;
	bool asked; /* since the clock's hand passed */
	uint8_t bytes[];
};

/* A flush ends the life of all entries of the database at once. */
struct database {
	uint32_t life;
	uint64_t entries;
};

struct kw_cache {
	uint64_t limit, seed;
	struct entry **buckets;
	uint64_t mask; /* number of buckets less one */
	uint64_t hand; /* the bucket where the next eviction looks */
	uint64_t *changes;
	uint64_t changes_mask;
	struct database *databases;
	uint32_t database_count;

	/* Changes that were told are numbered: `told` is the last. */
	uint64_t told, told_version;
	uint64_t covered; /* those up to here are covered by a superblock that lookups know */
	uint64_t cleared; /* a ticket below this is void */
	struct kw_cache_stats stats;
};

static uint64_t power_of_two(uint64_t least)
{
	uint64_t number = 64;

	while (number < least)
		number *= 2;
	return number;
}

struct kw_cache *kw_cache_new(uint64_t bytes, uint64_t seed)
{
	struct kw_cache *cache = kw_zalloc(sizeof *cache);
	uint64_t buckets = power_of_two(bytes / BYTES_A_BUCKET);
	uint64_t changes = power_of_two(buckets / CHANGES_A_BUCKET);

	assert(bytes >= KW_CACHE_BYTES_LEAST);
	if (changes > CHANGES)
		changes = CHANGES;
	cache->limit = bytes;
	cache->seed = seed;
	cache->mask = buckets - 1;
	cache->buckets = kw_zalloc(buckets * sizeof(struct entry *));
	cache->changes_mask = changes - 1;
	cache->changes = kw_zalloc(changes * sizeof *cache->changes);
	cache->stats.bytes = buckets * sizeof(struct entry *) + changes * sizeof *cache->changes;
	assert(cache->stats.bytes < bytes);
	return cache;
}

/* ---- entries ---- */

static uint64_t size_of(const struct entry *entry)
{
	return sizeof *entry + entry->key_length + entry->payload_length + ALLOCATED_BESIDE;
}

static bool is_alive(const struct kw_cache *cache, const struct entry *entry)
{
	return entry->life == cache->databases[entry->database].life;
}

static bool is_of(const struct entry *entry, uint64_t hash, uint32_t database, struct kw_slice key)
{
	return entry->hash == hash && entry->database == database &&
	       entry->key_length == key.length && memcmp(entry->bytes, key.data, key.length) == 0;
}

/* Take out what the link points to. */
static void drop(struct kw_cache *cache, struct entry **link)
{
	struct entry *entry = *link;

	if (is_alive(cache, entry)) {
		cache->databases[entry->database].entries--;
		cache->stats.entries--;
	}
	cache->stats.bytes -= size_of(entry);
	*link = entry->next;
	free(entry);
}

static struct entry **find_link(
	struct kw_cache *cache, uint64_t hash, uint32_t database, struct kw_slice key)
{
	struct entry **link = &cache->buckets[hash & cache->mask];

	while (*link && !is_of(*link, hash, database, key))
		link = &(*link)->next;
	return link;
}

static uint64_t hash_of(const struct kw_cache *cache, uint32_t database, struct kw_slice key)
{
	return kw_hash_key(cache->seed, database, key.data, key.length);
}

static struct database *database_of(struct kw_cache *cache, uint32_t database)
{
	if (database >= cache->database_count) {
		uint32_t count = database + 1;

		cache->databases = kw_realloc(cache->databases, count * sizeof *cache->databases);
		memset(cache->databases + cache->database_count, 0,
			(count - cache->database_count) * sizeof *cache->databases);
		cache->database_count = count;
	}
	return &cache->databases[database];
}

uint64_t kw_cache_aim(const struct kw_cache *cache, uint32_t database, struct kw_slice key)
{
	uint64_t hash = hash_of(cache, database, key);

	__builtin_prefetch(&cache->buckets[hash & cache->mask]);
	return hash;
}

void kw_cache_approach(const struct kw_cache *cache, uint64_t hash)
{
	const char *entry = (const char *)cache->buckets[hash & cache->mask];

	/* Of most values these lines hold all that a hit looks at. */
	for (size_t line = 0; entry && line < LINES_AHEAD; line++)
		__builtin_prefetch(entry + line * LINE_BYTES);
}

bool kw_cache_find(struct kw_cache *cache, uint32_t database, struct kw_slice key,
	struct kw_cache_value *value)
{
	struct entry *entry = *find_link(cache, hash_of(cache, database, key), database, key);

	if (!entry || !is_alive(cache, entry)) {
		cache->stats.misses++;
		return false;
	}
	cache->stats.hits++;
	entry->asked = true;
	*value = (struct kw_cache_value){
		.payload = kw_slice(entry->bytes + entry->key_length, entry->payload_length),
		.kind = (enum kw_value_kind)entry->kind,
		.expires_ms = entry->expires_ms,
		.version = entry->version,
	};
	return true;
}

/* The hand passes one bucket. Two rounds drop every entry. */
static void evict(struct kw_cache *cache)
{
	struct entry **link = &cache->buckets[cache->hand++ & cache->mask];

	while (*link) {
		struct entry *entry = *link;

		if (entry->asked && is_alive(cache, entry)) {
			entry->asked = false;
			link = &entry->next;
			continue;
		}
		cache->stats.evicted += is_alive(cache, entry);
		drop(cache, link);
	}
}

static bool make_room(struct kw_cache *cache, uint64_t bytes)
{
	for (uint64_t steps = 0; cache->stats.bytes + bytes > cache->limit; steps++) {
		if (steps > 2 * (cache->mask + 1))
			return false;
		evict(cache);
	}
	return true;
}

static struct entry *make_entry(
	uint64_t hash, uint32_t database, struct kw_slice key, const struct kw_cache_value *value)
{
	struct entry *entry = kw_alloc(sizeof *entry + key.length + value->payload.length);

	*entry = (struct entry){
		.hash = hash,
		.version = value->version,
		.expires_ms = value->expires_ms,
		.database = database,
		.key_length = (uint32_t)key.length,
		.payload_length = (uint32_t)value->payload.length,
		.kind = (uint8_t)value->kind,
	};
	memcpy(entry->bytes, key.data, key.length);
	memcpy(entry->bytes + key.length, value->payload.data, value->payload.length);
	return entry;
}

/* A lookup that began before now does not bring the newest value of such keys. */
static void note_change(struct kw_cache *cache, uint64_t hash)
{
	cache->changes[hash & cache->changes_mask] = cache->told;
}

/* Something newer was told to a client that is not kept here: nothing older may be kept either. */
static void note_newer(struct kw_cache *cache, uint64_t hash)
{
	cache->told++;
	note_change(cache, hash);
}

static bool might_be_old(const struct kw_cache *cache, uint64_t ticket, uint64_t hash)
{
	return ticket < cache->cleared || ticket < cache->changes[hash & cache->changes_mask];
}

static bool is_small(const struct kw_cache *cache, uint64_t bytes)
{
	return bytes <= cache->limit / LARGEST_SHARE;
}

/* False: there is no room for it. */
static bool insert(struct kw_cache *cache, struct entry *entry)
{
	const uint64_t bytes = size_of(entry);
	struct database *of = database_of(cache, entry->database);
	struct entry **bucket = &cache->buckets[entry->hash & cache->mask];

	if (!make_room(cache, bytes))
		return false;
	entry->life = of->life;
	entry->next = *bucket;
	*bucket = entry;
	of->entries++;
	cache->stats.entries++;
	cache->stats.puts++;
	cache->stats.bytes += bytes;
	return true;
}

void kw_cache_put(struct kw_cache *cache, uint64_t ticket, uint32_t database, struct kw_slice key,
	const struct kw_cache_value *value)
{
	uint64_t hash = hash_of(cache, database, key);
	struct entry **link = find_link(cache, hash, database, key), *entry = NULL;
	bool old = might_be_old(cache, ticket, hash);

	assert(database <= KW_DATABASE_MAX && ticket <= cache->told);
	if (*link && is_alive(cache, *link) && (*link)->version >= value->version)
		return; /* two lookups of one key were under way */
	/* Told once, a newer value must not be followed by this one again. */
	if (*link)
		drop(cache, link);
	if (!old && is_small(cache, sizeof *entry + key.length + value->payload.length))
		entry = make_entry(hash, database, key, value);
	if (entry && insert(cache, entry))
		return;
	free(entry);
	cache->stats.refused++;
	if (!old)
		note_newer(cache, hash);
}

void kw_cache_forget(struct kw_cache *cache, uint32_t database, struct kw_slice key)
{
	uint64_t hash = hash_of(cache, database, key);
	struct entry **link = find_link(cache, hash, database, key);

	if (*link)
		drop(cache, link);
	note_newer(cache, hash);
}

/* ---- the log ---- */

uint64_t kw_cache_ticket(const struct kw_cache *cache)
{
	return cache->covered;
}

static void flush(struct kw_cache *cache, uint32_t number)
{
	struct database *database = database_of(cache, number);

	cache->stats.invalidated += database->entries;
	cache->stats.entries -= database->entries;
	database->entries = 0;
	database->life++;
	cache->cleared = cache->told;
}

static void change(struct kw_cache *cache, const struct kw_record_view *record)
{
	uint64_t hash = hash_of(cache, record->database, record->key);
	struct entry **link = find_link(cache, hash, record->database, record->key);

	note_change(cache, hash);
	if (!*link || (*link)->version >= record->version)
		return;
	cache->stats.invalidated += is_alive(cache, *link);
	drop(cache, link);
}

void kw_cache_records(struct kw_cache *cache, const struct kw_record_view *records, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct kw_record_view *record = &records[i];

		cache->told++;
		if (record->version > cache->told_version)
			cache->told_version = record->version;
		if (record->kind == KW_RECORD_FLUSH)
			flush(cache, record->database);
		else
			change(cache, record);
	}
}

void kw_cache_covered(struct kw_cache *cache, uint64_t version)
{
	if (version >= cache->told_version)
		cache->covered = cache->told;
}

void kw_cache_clear(struct kw_cache *cache)
{
	for (uint32_t i = 0; i < cache->database_count; i++) {
		cache->databases[i].life++;
		cache->databases[i].entries = 0;
	}
	cache->stats.invalidated += cache->stats.entries;
	cache->stats.entries = 0;
	cache->cleared = ++cache->told;
	cache->told_version = 0;
	cache->covered = cache->told - 1; /* until a superblock is told again */
}

void kw_cache_free(struct kw_cache *cache)
{
	if (!cache)
		return;
	for (uint64_t i = 0; i <= cache->mask; i++)
		while (cache->buckets[i])
			drop(cache, &cache->buckets[i]);
	free(cache->buckets);
	free(cache->changes);
	free(cache->databases);
	free(cache);
}

void kw_cache_stats(const struct kw_cache *cache, struct kw_cache_stats *stats)
{
	*stats = cache->stats;
}
