#include "feed/watch/silent.h"

#include "base/buffer.h"
#include "keys/key_table.h"
#include "rdb/payload.h"
#include "rdb/payload_type.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Lengths in an RDB (rdb.h of the servers). */
#define RDB_LENGTH_6 0x00  /* top two bits of a length byte: it is in the other six */
#define RDB_LENGTH_14 0x40 /* … and in the next byte */
#define RDB_LENGTH_32 0x80 /* four more bytes */
#define RDB_STRING_LZF 0xc3

static const char hll_magic[4] = "HYLL";

struct entry {
	struct kw_key key;
	struct entry *next, *prev; /* the ring of its kind */
	uint8_t kind;
};

struct ring {
	struct entry *at; /* the next to hand out */
	uint64_t count;
	uint64_t due;    /* keys still to hand out in this round */
	uint64_t marked; /* of them, those that were due at the mark: they are the first */
};

struct kw_silent {
	struct kw_key_table keys;
	struct ring rings[KW_SILENT_KINDS];
};

/* Bytes of the length field that starts here, 0 when it is not of a plain kind. */
static size_t length_bytes(uint8_t first)
{
	if (first == RDB_LENGTH_32)
		return 5;
	if ((first & 0xc0) == RDB_LENGTH_6)
		return 1;
	if ((first & 0xc0) == RDB_LENGTH_14)
		return 2;
	return 0;
}

/*
 * LZF begins with a run of literal bytes (a control byte below 32). The first four bytes of a
 * HyperLogLog repeat nothing, so the magic stands there uncompressed.
 */
static bool is_hll(const uint8_t *string, size_t length)
{
	size_t at = 0;

	if (length > 0 && string[0] == RDB_STRING_LZF) {
		at = 1;
		for (int field = 0; field < 2; field++) {
			size_t bytes = at < length ? length_bytes(string[at]) : 0;

			if (bytes == 0)
				return false;
			at += bytes;
		}
		if (at >= length || string[at] < sizeof hll_magic - 1 || string[at] >= 32)
			return false;
		at++;
	} else if (length > 0) {
		at = length_bytes(string[0]);
		if (at == 0)
			return false;
	}
	return at < length && length - at >= sizeof hll_magic &&
	       memcmp(string + at, hll_magic, sizeof hll_magic) == 0;
}

enum kw_silent_kind kw_silent_classify(struct kw_slice payload)
{
	const uint8_t *bytes = payload.data;

	if (payload.length == 0)
		return KW_SILENT_NONE;
	switch (bytes[0]) {
	case KW_RDB_STRING:
		return is_hll(bytes + 1, payload.length - 1) ? KW_SILENT_HLL : KW_SILENT_NONE;
	case KW_RDB_STREAM:
	case KW_RDB_STREAM_2:
	case KW_RDB_STREAM_3:
	case KW_RDB_STREAM_4:
	case KW_RDB_STREAM_5:
		return KW_SILENT_STREAM;
	case KW_RDB_MODULE_2:
		return kw_payload_is_vector_set(payload, NULL) ? KW_SILENT_VECTOR : KW_SILENT_NONE;
	default:
		return KW_SILENT_NONE;
	}
}

struct kw_silent *kw_silent_new(uint64_t seed)
{
	struct kw_silent *silent = kw_zalloc(sizeof *silent);

	kw_key_table_init(&silent->keys, sizeof(struct entry), seed);
	return silent;
}

void kw_silent_free(struct kw_silent *silent)
{
	if (!silent)
		return;
	kw_key_table_close(&silent->keys);
	free(silent);
}

static void ring_add(struct ring *ring, struct entry *entry)
{
	if (ring->at) {
		/* After all others: before the one that is next. */
		entry->next = ring->at;
		entry->prev = ring->at->prev;
		entry->prev->next = entry;
		entry->next->prev = entry;
	} else {
		entry->next = entry->prev = entry;
		ring->at = entry;
	}
	ring->count++;
}

static void ring_remove(struct ring *ring, struct entry *entry)
{
	if (entry->next == entry) {
		ring->at = NULL;
	} else {
		entry->prev->next = entry->next;
		entry->next->prev = entry->prev;
		if (ring->at == entry)
			ring->at = entry->next;
	}
	assert(ring->count > 0);
	ring->count--;
	assert((ring->count == 0) == (ring->at == NULL));
	if (ring->due > ring->count)
		ring->due = ring->count;
	if (ring->marked > ring->due)
		ring->marked = ring->due;
}

void kw_silent_note(
	struct kw_silent *silent, uint32_t database, struct kw_slice key, enum kw_silent_kind kind)
{
	struct entry *entry;
	uint64_t hash;

	if (silent->keys.count == 0 && kind == KW_SILENT_NONE)
		return; /* the common case costs no hash */
	hash = kw_key_table_hash(&silent->keys, database, key);
	entry = (struct entry *)kw_key_table_find(&silent->keys, hash, database, key);
	if (entry && entry->kind == kind)
		return;
	if (entry) {
		ring_remove(&silent->rings[entry->kind], entry);
		if (kind == KW_SILENT_NONE) {
			kw_key_table_remove(&silent->keys, &entry->key);
			return;
		}
	} else if (kind != KW_SILENT_NONE) {
		entry = (struct entry *)kw_key_table_add(&silent->keys, hash, database, key);
	} else {
		return;
	}
	assert(kind > KW_SILENT_NONE && kind < KW_SILENT_KINDS);
	entry->kind = (uint8_t)kind;
	ring_add(&silent->rings[kind], entry);
}

struct forgetting {
	struct kw_silent *silent;
	uint32_t database;
};

static void forget(void *arg, struct kw_key *key)
{
	struct forgetting *forgetting = arg;
	struct entry *entry = (struct entry *)key;

	if (key->database != forgetting->database)
		return;
	ring_remove(&forgetting->silent->rings[entry->kind], entry);
	kw_key_table_remove(&forgetting->silent->keys, key);
}

void kw_silent_forget_database(struct kw_silent *silent, uint32_t database)
{
	struct forgetting forgetting = {silent, database};

	if (silent->keys.count > 0)
		kw_key_table_each(&silent->keys, forget, &forgetting);
}

uint64_t kw_silent_count(const struct kw_silent *silent, enum kw_silent_kind kind)
{
	return silent->rings[kind].count;
}

void kw_silent_stir(struct kw_silent *silent, enum kw_silent_kind kind)
{
	silent->rings[kind].due = silent->rings[kind].count;
}

uint64_t kw_silent_due(const struct kw_silent *silent)
{
	uint64_t due = 0;

	for (int kind = 0; kind < KW_SILENT_KINDS; kind++)
		due += silent->rings[kind].due;
	return due;
}

void kw_silent_mark(struct kw_silent *silent)
{
	for (int kind = 0; kind < KW_SILENT_KINDS; kind++)
		silent->rings[kind].marked = silent->rings[kind].due;
}

bool kw_silent_passed(const struct kw_silent *silent)
{
	for (int kind = 0; kind < KW_SILENT_KINDS; kind++)
		if (silent->rings[kind].marked > 0)
			return false;
	return true;
}

bool kw_silent_knows(const struct kw_silent *silent, uint32_t database, struct kw_slice key,
	enum kw_silent_kind kind)
{
	uint64_t hash = kw_key_table_hash(&silent->keys, database, key);
	const struct entry *entry =
		(const struct entry *)kw_key_table_find(&silent->keys, hash, database, key);

	return entry && entry->kind == kind;
}

bool kw_silent_next(struct kw_silent *silent, uint32_t *database, struct kw_slice *key)
{
	for (int kind = 0; kind < KW_SILENT_KINDS; kind++) {
		struct ring *ring = &silent->rings[kind];

		if (ring->due == 0)
			continue;
		assert(ring->at && ring->due <= ring->count);
		*database = ring->at->key.database;
		*key = kw_key_table_name(&silent->keys, &ring->at->key);
		ring->at = ring->at->next;
		ring->due--;
		if (ring->marked > 0)
			ring->marked--;
		return true;
	}
	return false;
}
