#include "digests.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "rdb/payload.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the states ---- */

static bool holds(const void *owner, int state)
{
	const struct kw_digests *index = owner;

	switch ((enum kw_digests_state)state) {
	case KW_DIGESTS_OFF:
	case KW_DIGESTS_EMPTY:
		return index->keys == 0;
	case KW_DIGESTS_BUILDING:
	case KW_DIGESTS_SOUND:
		return true;
	case KW_DIGESTS_DOUBTED:
		return index->doubts > 0 && (index->doubted_from == KW_DIGESTS_BUILDING ||
						    index->doubted_from == KW_DIGESTS_SOUND);
	}
	return false;
}

#define TO(state) KW_SM_TO(KW_DIGESTS_##state)
static const struct kw_sm_state states[] = {
	[KW_DIGESTS_OFF] = {"off", 0, KW_SM_INITIAL},
	[KW_DIGESTS_EMPTY] = {"empty", TO(BUILDING), KW_SM_INITIAL},
	[KW_DIGESTS_BUILDING] = {"building", TO(SOUND) | TO(DOUBTED) | TO(EMPTY)},
	[KW_DIGESTS_SOUND] = {"sound", TO(BUILDING) | TO(DOUBTED) | TO(EMPTY)},
	[KW_DIGESTS_DOUBTED] = {"doubted", TO(BUILDING) | TO(SOUND) | TO(EMPTY)},
};
static const struct kw_sm_conf machine = {"index", states, KW_DIGESTS_DOUBTED + 1, holds};

static const struct {
	enum kw_digests_state ends_in;
	const char *text;
} events[KW_DIGESTS_EVENTS] = {
	[KW_DIGESTS_EVICTED] = {KW_DIGESTS_DOUBTED, "the local server evicted keys"},
	[KW_DIGESTS_WRITTEN] = {KW_DIGESTS_DOUBTED, "other clients wrote to the local server"},
	[KW_DIGESTS_RESET] = {KW_DIGESTS_DOUBTED, "the counts of the local server began anew"},
	[KW_DIGESTS_OWED] = {KW_DIGESTS_DOUBTED, "the local server had no memory for some values"},
	[KW_DIGESTS_SUSPECTED] = {KW_DIGESTS_DOUBTED, "the audit must compare all keys"},
	[KW_DIGESTS_DIFFERED] = {KW_DIGESTS_DOUBTED, "the audit found a key that differs"},
	[KW_DIGESTS_UNAUDITED] = {KW_DIGESTS_DOUBTED, "there is no audit"},
	[KW_DIGESTS_AGAIN] = {KW_DIGESTS_DOUBTED, "all is read again"},
	[KW_DIGESTS_ASSESSED] = {KW_DIGESTS_EMPTY, "the local data may be others"},
	[KW_DIGESTS_FLUSHED] = {KW_DIGESTS_EMPTY, "other clients flushed the local server"},
	[KW_DIGESTS_LOST] = {KW_DIGESTS_EMPTY, "changes that were handed on are lost"},
	[KW_DIGESTS_REPLACED] = {KW_DIGESTS_EMPTY, "a snapshot was given up in its midst"},
	[KW_DIGESTS_RESYNC] = {KW_DIGESTS_EMPTY, "the operator wants a snapshot"},
};

const char *kw_digests_event_text(enum kw_digests_event event)
{
	assert((unsigned)event < KW_DIGESTS_EVENTS);
	return events[event].text;
}

static void move(struct kw_digests *index, enum kw_digests_state state, const char *why)
{
	kw_sm_move(&index->sm, (int)state, why);
}

/* ---- memory ---- */

static void free_database(struct kw_digests *index, uint32_t number)
{
	struct kw_digests_database *database =
		number < index->database_count ? index->databases[number] : NULL;

	if (!database)
		return;
	for (size_t i = 0; i < KW_DIGESTS_SHARDS; i++) {
		index->bytes -= database->shards[i].capacity * sizeof(struct kw_digests_entry);
		kw_shard_close(&database->shards[i]);
	}
	index->keys -= database->keys;
	index->bytes -= sizeof *database;
	index->databases[number] = NULL;
	free(database);
}

static void clear(struct kw_digests *index)
{
	for (uint32_t i = 0; i < index->database_count; i++)
		free_database(index, i);
	free(index->databases);
	index->databases = NULL;
	index->database_count = 0;
	assert(index->keys == 0 && index->bytes == 0);
}

static void reach(struct kw_digests *index, uint32_t number)
{
	uint32_t count = number + 1;

	if (number < index->database_count)
		return;
	index->databases = kw_realloc(index->databases, count * sizeof *index->databases);
	memset(index->databases + index->database_count, 0,
		(count - index->database_count) * sizeof *index->databases);
	index->database_count = count;
}

static struct kw_digests_database *database_of(const struct kw_digests *index, uint32_t number)
{
	return number < index->database_count ? index->databases[number] : NULL;
}

static struct kw_digests_database *make_database(struct kw_digests *index, uint32_t number)
{
	reach(index, number);
	if (!index->databases[number]) {
		index->databases[number] = kw_zalloc(sizeof *index->databases[number]);
		index->bytes += sizeof *index->databases[number];
	}
	return index->databases[number];
}

/* ---- entries ---- */

static uint64_t key_of(const struct kw_digests *index, uint32_t database, struct kw_slice key)
{
	uint64_t hash = kw_hash_key(index->seed, database, key.data, key.length);

	return hash ? hash : 1;
}

static struct kw_digests_shard *shard_of(struct kw_digests_database *database, uint64_t key)
{
	return &database->shards[key >> 56];
}

static struct kw_digests_entry *find(const struct kw_digests *index, uint32_t number, uint64_t key)
{
	struct kw_digests_database *database = database_of(index, number);

	return database ? kw_shard_find(shard_of(database, key), key) : NULL;
}

static uint64_t value_of_words(
	const struct kw_digests *index, uint64_t first, uint64_t second, uint64_t third)
{
	const uint64_t words[] = {first, second, third};

	return kw_hash_key(index->seed, 0, words, sizeof words) & ~KW_DIGESTS_MARK;
}

/* A value that equals no other, as far as 63 bits can tell. */
static uint64_t value_of_nothing(struct kw_digests *index)
{
	return value_of_words(index, index->seed, UINT64_MAX, ++index->nonce);
}

/* False: it has no digest. */
static bool digest_of(
	const struct kw_digests *index, const struct kw_record_view *record, uint64_t *value)
{
	struct kw_hash128 digest;

	if (kw_payload_digest(record->value, &digest, NULL))
		return false;
	*value = value_of_words(index, digest.low, digest.high, record->expires_ms);
	return true;
}

static void put(struct kw_digests *index, uint32_t number, uint64_t key, uint64_t value)
{
	struct kw_digests_database *database = make_database(index, number);
	struct kw_digests_shard *shard = shard_of(database, key);
	uint32_t before = shard->capacity;
	bool fresh;

	kw_shard_put(shard, key, &fresh)->value = value | index->mark;
	index->bytes += (uint64_t)(shard->capacity - before) * sizeof(struct kw_digests_entry);
	database->keys += fresh;
	index->keys += fresh;
}

static void remove_key(struct kw_digests *index, uint32_t number, uint64_t key)
{
	struct kw_digests_database *database = database_of(index, number);

	if (!database || !kw_shard_remove(shard_of(database, key), key))
		return;
	database->keys--;
	index->keys--;
}

/* ---- what happens to the local data ---- */

void kw_digests_tell(struct kw_digests *index, enum kw_digests_event event)
{
	enum kw_digests_state state = kw_digests_state(index);

	if (state == KW_DIGESTS_OFF || state == KW_DIGESTS_EMPTY)
		return;
	if (events[event].ends_in == KW_DIGESTS_EMPTY) {
		clear(index);
		index->losses++;
		move(index, KW_DIGESTS_EMPTY, events[event].text);
		return;
	}
	index->doubts++;
	if (state != KW_DIGESTS_DOUBTED)
		index->doubted_from = state;
	move(index, KW_DIGESTS_DOUBTED, events[event].text);
}

bool kw_digests_disbelieve(struct kw_digests *index, uint32_t database, struct kw_slice key)
{
	struct kw_digests_entry *entry = find(index, database, key_of(index, database, key));

	if (entry)
		entry->value = value_of_nothing(index) | (entry->value & KW_DIGESTS_MARK);
	return entry != NULL;
}

void kw_digests_incomplete(struct kw_digests *index)
{
	if (kw_digests_state(index) == KW_DIGESTS_SOUND)
		move(index, KW_DIGESTS_BUILDING, "a local key may have no entry");
	else if (kw_digests_state(index) == KW_DIGESTS_DOUBTED)
		index->doubted_from = KW_DIGESTS_BUILDING;
}

void kw_digests_proven(struct kw_digests *index, uint64_t doubts)
{
	if (kw_digests_state(index) == KW_DIGESTS_DOUBTED && index->doubts == doubts)
		move(index, index->doubted_from, "a round of the audit is over");
}

void kw_digests_complete(struct kw_digests *index)
{
	if (kw_digests_state(index) == KW_DIGESTS_BUILDING)
		move(index, KW_DIGESTS_SOUND, "all keys are there");
	else if (kw_digests_state(index) == KW_DIGESTS_DOUBTED)
		index->doubted_from = KW_DIGESTS_SOUND;
}

/* ---- records ---- */

bool kw_digests_begin(struct kw_digests *index, bool compares)
{
	assert(kw_digests_is_on(index));
	if (!compares || !kw_digests_is_believed(index)) {
		clear(index);
		index->mark = 0;
		move(index, KW_DIGESTS_BUILDING, "a snapshot begins");
		return false;
	}
	for (uint32_t i = 0; i < index->database_count; i++)
		for (size_t k = 0; index->databases[i] && k < KW_DIGESTS_SHARDS; k++)
			kw_shard_mark(&index->databases[i]->shards[k], index->mark);
	index->mark ^= KW_DIGESTS_MARK;
	index->compares++;
	return true;
}

/* The slots of a large index are in no cache: load those of the batch before the first is used. */
static void hash_keys(const struct kw_digests *index, const struct kw_record_view *records,
	size_t count, uint64_t *keys)
{
	for (size_t i = 0; i < count; i++) {
		struct kw_digests_database *database = database_of(index, records[i].database);

		keys[i] = 0;
		if (records[i].kind == KW_RECORD_FLUSH)
			continue;
		keys[i] = key_of(index, records[i].database, records[i].key);
		if (database)
			kw_shard_prefetch(shard_of(database, keys[i]), keys[i]);
	}
}

/* A flush, key 0, is a deletion of all of them. */
static void remember_removal(struct kw_digests *index, uint64_t key)
{
	index->removals += key ? 0 : KW_DIGESTS_REMOVALS;
	index->removed[index->removals++ % KW_DIGESTS_REMOVALS] = key;
}

static bool was_removed(const struct kw_digests *index, uint64_t key, uint64_t since)
{
	if (index->removals - since > KW_DIGESTS_REMOVALS)
		return true;
	for (uint64_t i = since; i < index->removals; i++)
		if (index->removed[i % KW_DIGESTS_REMOVALS] == key)
			return true;
	return false;
}

void kw_digests_learn(struct kw_digests *index, const struct kw_digests_found *found)
{
	uint64_t key = key_of(index, found->database, found->key);

	if ((kw_digests_state(index) != KW_DIGESTS_EMPTY &&
		    kw_digests_state(index) != KW_DIGESTS_BUILDING) ||
		find(index, found->database, key) || was_removed(index, key, found->since))
		return;
	move(index, KW_DIGESTS_BUILDING, "a key was compared");
	put(index, found->database, key,
		value_of_words(index, found->digest.low, found->digest.high, found->expires_ms));
}

/* Returns whether it differs from the entry, which says the record afterwards. */
static bool note(struct kw_digests *index, const struct kw_record_view *record, uint64_t key)
{
	struct kw_digests_entry *entry;
	uint64_t value;
	bool equal;

	switch (record->kind) {
	case KW_RECORD_PUT:
		entry = find(index, record->database, key);
		equal = digest_of(index, record, &value);
		if (!equal)
			value = value_of_nothing(index);
		equal = equal && entry && (entry->value & ~KW_DIGESTS_MARK) == value;
		put(index, record->database, key, value);
		return !equal;
	case KW_RECORD_DELETE:
		remove_key(index, record->database, key);
		remember_removal(index, key);
		return true;
	case KW_RECORD_FLUSH:
		remember_removal(index, 0);
		free_database(index, record->database);
		return true;
	default:
		return true;
	}
}

void kw_digests_note(struct kw_digests *index, const struct kw_record_view *records, size_t count)
{
	uint64_t keys[KW_RECORD_BATCH_MAX];

	assert(count <= KW_RECORD_BATCH_MAX);
	if (!kw_digests_is_on(index))
		return;
	if (kw_digests_state(index) == KW_DIGESTS_EMPTY)
		move(index, KW_DIGESTS_BUILDING, "changes are handed on");
	hash_keys(index, records, count, keys);
	for (size_t i = 0; i < count; i++)
		note(index, &records[i], keys[i]);
}

uint64_t kw_digests_compare(
	struct kw_digests *index, const struct kw_record_view *records, size_t count)
{
	uint64_t keys[KW_RECORD_BATCH_MAX], differing = 0;

	assert(count <= KW_RECORD_BATCH_MAX && kw_digests_is_on(index));
	hash_keys(index, records, count, keys);
	for (size_t i = 0; i < count; i++)
		differing |= (uint64_t)note(index, &records[i], keys[i]) << i;
	index->compared += count;
	index->differing += (uint64_t)__builtin_popcountll(differing);
	return differing;
}

uint64_t kw_digests_sweep(struct kw_digests *index)
{
	uint64_t swept = 0;

	for (uint32_t i = 0; i < index->database_count; i++) {
		struct kw_digests_database *database = index->databases[i];

		for (size_t k = 0; database && k < KW_DIGESTS_SHARDS; k++) {
			struct kw_digests_shard *shard = &database->shards[k];
			uint32_t before = shard->capacity;
			uint32_t removed = kw_shard_sweep(shard, index->mark);

			index->bytes -= (uint64_t)(before - shard->capacity) *
					sizeof(struct kw_digests_entry);
			database->keys -= removed;
			swept += removed;
		}
	}
	index->keys -= swept;
	if (swept > 0)
		kw_digests_incomplete(index);
	return swept;
}

bool kw_digests_has(const struct kw_digests *index, uint32_t database, struct kw_slice key)
{
	return find(index, database, key_of(index, database, key)) != NULL;
}

uint64_t kw_digests_database_keys(const struct kw_digests *index, uint32_t database)
{
	const struct kw_digests_database *found = database_of(index, database);

	return found ? found->keys : 0;
}

/* ---- the beginning and the end ---- */

void kw_digests_init(struct kw_digests *index, bool on, uint64_t seed)
{
	*index = (struct kw_digests){.seed = seed, .losses = 1};
	kw_sm_init(&index->sm, &machine, index, on ? KW_DIGESTS_EMPTY : KW_DIGESTS_OFF);
}

void kw_digests_close(struct kw_digests *index)
{
	clear(index);
}
