#include "recent.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "rdb/payload.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define JUDGED UINT64_C(1)
#define DELETED UINT64_C(0) /* … but for JUDGED */
#define WITHOUT_DIGEST (~JUDGED)

static uint64_t key_of(const struct kw_recent *recent, const struct kw_record_view *record)
{
	uint64_t key =
		kw_hash_key(recent->seed, record->database, record->key.data, record->key.length);

	return key ? key : 1;
}

static uint64_t value_of(const struct kw_recent *recent, const struct kw_record_view *record)
{
	struct kw_hash128 digest;
	uint64_t words[3], value;

	if (record->kind != KW_RECORD_PUT)
		return DELETED;
	if (kw_payload_digest(record->value, &digest, NULL))
		return WITHOUT_DIGEST;
	words[0] = digest.low;
	words[1] = digest.high;
	words[2] = record->expires_ms;
	value = kw_hash_key(recent->seed, 0, words, sizeof words) & ~JUDGED;
	return value == DELETED || value == WITHOUT_DIGEST ? 2 : value;
}

/* Its place, or the free one where it belongs. */
static struct kw_recent_entry *place_of(const struct kw_recent_generation *generation, uint64_t key)
{
	uint64_t at = key % KW_RECENT_SLOTS;

	while (generation->slots[at].key != 0 && generation->slots[at].key != key)
		at = (at + 1) % KW_RECENT_SLOTS;
	return &generation->slots[at];
}

static struct kw_recent_entry *find_in(const struct kw_recent_generation *generation, uint64_t key)
{
	struct kw_recent_entry *entry;

	if (generation->count == 0)
		return NULL;
	entry = place_of(generation, key);
	return entry->key ? entry : NULL;
}

static struct kw_recent_entry *find(const struct kw_recent *recent, uint64_t key)
{
	struct kw_recent_entry *entry = find_in(&recent->newer, key);

	return entry ? entry : find_in(&recent->older, key);
}

static void empty(struct kw_recent_generation *generation)
{
	if (generation->slots)
		memset(generation->slots, 0, KW_RECENT_SLOTS * sizeof *generation->slots);
	generation->count = 0;
	generation->last = 0;
}

static void make_room(struct kw_recent *recent)
{
	struct kw_recent_generation older = recent->older;

	if (recent->newer.count < KW_RECENT_KEYS)
		return;
	if (older.last > recent->forgotten)
		recent->forgotten = older.last;
	empty(&older);
	recent->older = recent->newer;
	recent->newer = older;
}

void kw_recent_close(struct kw_recent *recent)
{
	free(recent->newer.slots);
	free(recent->older.slots);
	recent->newer = recent->older = (struct kw_recent_generation){0};
}

void kw_recent_clear(struct kw_recent *recent)
{
	empty(&recent->newer);
	empty(&recent->older);
	recent->forgotten = 0;
	memset(recent->flushed, 0, sizeof recent->flushed);
	recent->last_flush = 0;
}

void kw_recent_note(struct kw_recent *recent, const struct kw_record_view *record)
{
	struct kw_recent_entry *entry;
	uint64_t key;

	if (record->kind == KW_RECORD_FLUSH) {
		if (record->database < KW_RECENT_DATABASES)
			recent->flushed[record->database] = record->version;
		recent->last_flush = record->version;
		return;
	}
	make_room(recent);
	if (!recent->newer.slots)
		recent->newer.slots = kw_zalloc(KW_RECENT_SLOTS * sizeof *entry);
	key = key_of(recent, record);
	entry = place_of(&recent->newer, key);
	recent->newer.count += entry->key == 0;
	*entry = (struct kw_recent_entry){
		key, value_of(recent, record), record->version, record->expires_ms};
	if (record->version > recent->newer.last)
		recent->newer.last = record->version;
	assert(recent->newer.count <= KW_RECENT_KEYS);
}

static bool is_within(const struct kw_recent_span *span, uint64_t version)
{
	return version > span->after && version <= span->until;
}

/* A flush took the key away, and nothing was written to it since. */
static bool was_flushed(const struct kw_recent *recent, const struct kw_record_view *record,
	const struct kw_recent_entry *entry, const struct kw_recent_span *span)
{
	uint64_t version =
		record->database < KW_RECENT_DATABASES ? recent->flushed[record->database] : 0;

	return is_within(span, version) && (!entry || entry->version < version);
}

bool kw_recent_is_lost(struct kw_recent *recent, const struct kw_record_view *record,
	const struct kw_recent_span *span)
{
	struct kw_recent_entry *entry;
	uint64_t value;
	bool differs;

	if (record->kind == KW_RECORD_FLUSH)
		return false;
	entry = find(recent, key_of(recent, record));
	if (was_flushed(recent, record, entry, span)) {
		if (entry && (entry->value & JUDGED))
			return false;
		if (entry)
			entry->value |= JUDGED;
		return record->kind == KW_RECORD_PUT;
	}
	if (!entry || (entry->value & JUDGED) || !is_within(span, entry->version))
		return false;
	value = value_of(recent, record);
	differs =
		value != entry->value && value != WITHOUT_DIGEST && entry->value != WITHOUT_DIGEST;
	entry->value |= JUDGED;
	return differs;
}

static uint64_t missing_in(const struct kw_recent *recent, struct kw_recent_generation *generation,
	const struct kw_recent_span *span, uint64_t now_ms)
{
	uint64_t missing = 0;

	for (size_t i = 0; generation->count > 0 && i < KW_RECENT_SLOTS; i++) {
		struct kw_recent_entry *entry = &generation->slots[i];

		/* An older value of a key that the newer generation has says nothing. */
		if (entry->key == 0 || entry->value == DELETED || (entry->value & JUDGED) ||
			!is_within(span, entry->version) || entry->version < recent->last_flush ||
			find(recent, entry->key) != entry)
			continue;
		entry->value |= JUDGED;
		missing += entry->expires_ms == 0 || entry->expires_ms > now_ms;
	}
	return missing;
}

uint64_t kw_recent_missing(
	struct kw_recent *recent, const struct kw_recent_span *span, uint64_t now_ms)
{
	return missing_in(recent, &recent->newer, span, now_ms) +
	       missing_in(recent, &recent->older, span, now_ms);
}
