#include "suspects.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct kw_audit_suspect **bucket_of(
	const struct kw_suspects *suspects, struct kw_hash128 hash)
{
	return &suspects->buckets[hash.low % KW_SUSPECTS_BUCKETS];
}

static struct kw_audit_suspect *find(const struct kw_suspects *suspects, struct kw_hash128 hash)
{
	struct kw_audit_suspect *suspect = *bucket_of(suspects, hash);

	while (suspect && (suspect->hash.low != hash.low || suspect->hash.high != hash.high))
		suspect = suspect->chain;
	return suspect;
}

struct kw_audit_suspect *kw_suspects_find(
	const struct kw_suspects *suspects, uint32_t database, struct kw_slice key)
{
	if (suspects->count == 0)
		return NULL;
	return find(suspects, kw_hash128_key(database, key.data, key.length));
}

struct kw_audit_suspect *kw_suspects_add(
	struct kw_suspects *suspects, uint32_t database, struct kw_slice key, unsigned range)
{
	struct kw_hash128 hash = kw_hash128_key(database, key.data, key.length);
	struct kw_audit_suspect *suspect, **bucket;

	if (!suspects->buckets)
		suspects->buckets = kw_zalloc(KW_SUSPECTS_BUCKETS * sizeof *suspects->buckets);
	if (find(suspects, hash))
		return NULL;
	suspect = kw_zalloc(sizeof *suspect + key.length);
	suspect->hash = hash;
	suspect->range = range;
	suspect->database = database;
	suspect->key_length = key.length;
	if (key.length)
		memcpy(suspect->key, key.data, key.length);
	bucket = bucket_of(suspects, hash);
	suspect->chain = *bucket;
	*bucket = suspect;
	suspects->count++;
	suspects->bytes += key.length;
	kw_suspects_put(suspects, suspect, KW_SUSPECT_LOOK);
	return suspect;
}

struct kw_audit_suspect *kw_suspects_take(struct kw_suspects *suspects, enum kw_suspect_stage stage)
{
	struct kw_audit_suspect *suspect = suspects->first[stage];

	if (!suspect)
		return NULL;
	suspects->first[stage] = suspect->next;
	if (!suspect->next)
		suspects->last[stage] = NULL;
	suspect->next = NULL;
	suspects->staying -= stage == KW_SUSPECT_STAY;
	return suspect;
}

void kw_suspects_put(
	struct kw_suspects *suspects, struct kw_audit_suspect *suspect, enum kw_suspect_stage stage)
{
	assert(!suspect->next && stage < KW_SUSPECT_STAGES);
	suspect->stage = stage;
	suspects->staying += stage == KW_SUSPECT_STAY;
	if (suspects->last[stage])
		suspects->last[stage]->next = suspect;
	else
		suspects->first[stage] = suspect;
	suspects->last[stage] = suspect;
}

static void free_buckets(struct kw_suspects *suspects)
{
	free(suspects->buckets);
	*suspects = (struct kw_suspects){0};
}

void kw_suspects_drop(struct kw_suspects *suspects, struct kw_audit_suspect *suspect)
{
	struct kw_audit_suspect **link = bucket_of(suspects, suspect->hash);

	assert(suspects->count > 0 && !suspect->next);
	while (*link != suspect)
		link = &(*link)->chain;
	*link = suspect->chain;
	suspects->count--;
	suspects->bytes -= suspect->key_length;
	free(suspect);
	if (suspects->count == 0)
		free_buckets(suspects);
}

static void touch_database(struct kw_suspects *suspects, uint32_t database)
{
	for (size_t i = 0; i < KW_SUSPECTS_BUCKETS; i++)
		for (struct kw_audit_suspect *s = suspects->buckets[i]; s; s = s->chain)
			s->touched |= s->database == database;
}

void kw_suspects_touch(struct kw_suspects *suspects, const struct kw_record_view *record)
{
	struct kw_audit_suspect *suspect;

	if (suspects->count == 0)
		return;
	if (record->kind == KW_RECORD_FLUSH) {
		touch_database(suspects, record->database);
		return;
	}
	suspect = find(
		suspects, kw_hash128_key(record->database, record->key.data, record->key.length));
	if (suspect)
		suspect->touched = true;
}

void kw_suspects_keep_failed(struct kw_suspects *suspects)
{
	struct kw_audit_suspect *kept = NULL, *next;

	for (size_t i = 0; suspects->buckets && i < KW_SUSPECTS_BUCKETS; i++)
		for (struct kw_audit_suspect *s = suspects->buckets[i]; s; s = next) {
			next = s->chain;
			s->next = kept;
			kept = s;
		}
	for (int stage = 0; stage < KW_SUSPECT_STAGES; stage++)
		suspects->first[stage] = suspects->last[stage] = NULL;
	suspects->staying = 0;
	for (; kept; kept = next) {
		next = kept->next;
		kept->next = NULL;
		if (kept->failed)
			kw_suspects_put(suspects, kept, KW_SUSPECT_STAY);
		else
			kw_suspects_drop(suspects, kept);
	}
}

void kw_suspects_close(struct kw_suspects *suspects)
{
	for (size_t i = 0; suspects->buckets && i < KW_SUSPECTS_BUCKETS; i++)
		while (suspects->buckets[i]) {
			struct kw_audit_suspect *suspect = suspects->buckets[i];

			suspects->buckets[i] = suspect->chain;
			free(suspect);
		}
	free_buckets(suspects);
}
