#include "table/table.h"

#include "base/buffer.h"
#include "table/table_internal.h"

#include <assert.h>
#include <string.h>

#define AHEAD 6 /* changes of a batch: more than a memory access takes */

void kw_table_set_time(struct kw_table *table, uint64_t now_us)
{
	table->now_us = now_us;
}

static uint64_t *keys_of(struct kw_table *table, uint32_t database)
{
	if (database >= table->database_capacity) {
		size_t capacity = (size_t)database + 16;

		table->database_keys =
			kw_realloc(table->database_keys, capacity * sizeof *table->database_keys);
		memset(table->database_keys + table->database_capacity, 0,
			(capacity - table->database_capacity) * sizeof *table->database_keys);
		table->database_capacity = capacity;
	}
	return &table->database_keys[database];
}

void kw_table_count_key(struct kw_table *table, const struct kw_record *record, int sign)
{
	uint64_t payload = kw_record_key(record).length + kw_record_value(record).length;

	assert(sign > 0 || (table->keys > 0 && table->payload_bytes >= payload));
	table->keys += (uint64_t)sign;
	*keys_of(table, kw_record_database(record)) += (uint64_t)sign;
	table->payload_bytes += sign > 0 ? payload : -payload;
}

static void forget_tombstone(struct kw_table *table)
{
	assert(table->tombstones > 0);
	table->tombstones--;
}

static bool same(const struct kw_table *table, const struct kw_record *record,
	struct kw_slice value, uint64_t expires_ms)
{
	bool (*same_value)(struct kw_slice, struct kw_slice) = table->options.same_value;
	struct kw_slice held = kw_record_value(record);

	return kw_record_kind(record) == KW_RECORD_PUT && kw_record_expires(record) == expires_ms &&
	       (kw_slice_equal(held, value) || (same_value && same_value(held, value)));
}

/* Write a new version of a key; update the index and mark the record before. */
static enum kw_put_result store(
	struct kw_table *table, const struct kw_record_fields *fields, uint64_t hash)
{
	bool delete = fields->kind == KW_RECORD_DELETE;
	uint64_t length =
		kw_record_length(fields->key.length, fields->value.length, fields->expires_ms);
	struct kw_segment *segment = kw_log_room(table, kw_record_stride(length), delete);
	struct kw_index_slot *slot;
	struct kw_record *record;
	uint64_t offset, place;

	if (!segment)
		return KW_PUT_FULL;
	assert(segment->capacity - segment->committed >= kw_record_stride(length));
	assert(table->version < KW_VERSION_MASK);
	/* Making room can have moved the record before, and its slot; a tombstone can be gone. */
	slot = kw_table_find(table, hash, fields->database, fields->key);
	if (!slot && !kw_room_index(table))
		return KW_PUT_FULL;
	offset = kw_log_append(table, segment, fields, ++table->version);
	table->written_bytes += kw_record_stride(length);
	place = kw_place_make(offset, length) | KW_PLACE_MARK;
	record = kw_record_at(table, offset);
	if (slot) {
		uint64_t before = kw_place_offset(slot->place);

		if (kw_record_kind(kw_record_at(table, before)) == KW_RECORD_PUT)
			kw_table_count_key(table, kw_record_at(table, before), -1);
		else
			forget_tombstone(table);
		kw_index_set(slot, place);
		kw_log_supersede(table, before, table->version);
	} else {
		bool inserted = kw_index_insert(&table->index, hash, place);

		assert(inserted); /* kw_room_index was asked before */
	}
	if (delete)
		table->tombstones++;
	else
		kw_table_count_key(table, record, 1);
	return KW_PUT_STORED;
}

static bool never_fits(const struct kw_table *table, uint64_t length)
{
	uint64_t data = kw_data_limit(table) * table->segments.granule_bytes;
	uint64_t kept = (KW_CLEANER_SEGMENTS + 1) * table->options.segment_bytes;

	return length > KW_RECORD_LENGTH_MAX || data < kept || length > (data - kept) / 100 * 93;
}

/* A key that no record can hold is not even hashed. */
static uint64_t hash_of(const struct kw_table *table, uint32_t database, struct kw_slice key)
{
	return key.length > KW_RECORD_KEY_MAX ? 0 : kw_table_hash(table, database, key);
}

static enum kw_put_result put_record(
	struct kw_table *table, const struct kw_record_fields *fields, uint64_t hash)
{
	struct kw_slice key = fields->key, value = fields->value;
	uint64_t expires_ms = fields->expires_ms;
	struct kw_index_slot *slot;

	if (fields->database > KW_DATABASE_MAX || key.length > KW_RECORD_KEY_MAX)
		return KW_PUT_TOO_LARGE;
	slot = kw_table_find(table, hash, fields->database, key);
	if (slot &&
		same(table, kw_record_at(table, kw_place_offset(slot->place)), value, expires_ms)) {
		kw_index_set(slot, slot->place | KW_PLACE_MARK);
		return KW_PUT_UNCHANGED;
	}
	if (never_fits(table, kw_record_length(key.length, value.length, expires_ms)))
		return KW_PUT_TOO_LARGE;
	if (!slot && !kw_room_index(table) && !kw_room_index_reclaimed(table))
		return KW_PUT_FULL;
	return store(table, fields, hash);
}

enum kw_put_result kw_table_put(struct kw_table *table, uint32_t database, struct kw_slice key,
	struct kw_slice value, uint64_t expires_ms)
{
	const struct kw_record_fields fields = {KW_RECORD_PUT, database, key, value, expires_ms};

	return put_record(table, &fields, hash_of(table, database, key));
}

static enum kw_put_result delete_record(
	struct kw_table *table, const struct kw_record_fields *fields, uint64_t hash)
{
	const struct kw_index_slot *slot =
		kw_table_find(table, hash, fields->database, fields->key);

	if (!slot ||
		kw_record_kind(kw_record_at(table, kw_place_offset(slot->place))) != KW_RECORD_PUT)
		return KW_PUT_UNCHANGED;
	return store(table, fields, hash);
}

enum kw_put_result kw_table_delete(struct kw_table *table, uint32_t database, struct kw_slice key)
{
	const struct kw_record_fields fields = {
		.kind = KW_RECORD_DELETE, .database = database, .key = key};

	return delete_record(table, &fields, kw_table_hash(table, database, key));
}

static void change_one(struct kw_table *table, struct kw_table_change *change, uint64_t hash)
{
	const struct kw_record_fields fields = {
		change->kind, change->database, change->key, change->value, change->expires_ms};

	assert(change->kind == KW_RECORD_PUT || change->kind == KW_RECORD_DELETE);
	change->result = change->kind == KW_RECORD_PUT ? put_record(table, &fields, hash)
						       : delete_record(table, &fields, hash);
}

/* The slot is in the cache by now: load the record that it names. */
static void load_record(const struct kw_table *table, uint64_t hash)
{
	const struct kw_index_slot *slot = kw_index_first(&table->index, hash);
	const struct kw_record *record;

	if (!slot)
		return;
	record = kw_record_at(table, kw_place_offset(slot->place));
	__builtin_prefetch(record, 1);
	__builtin_prefetch((const uint8_t *)record + 64);
}

/*
 * A row of three steps, AHEAD changes apart: load a change's slot, load the record that the slot
 * names, carry the change out. A record that has moved meanwhile is only loaded in vain.
 */
void kw_table_change_all(struct kw_table *table, struct kw_table_change *changes, size_t count)
{
	uint64_t hashes[2 * AHEAD]; /* a ring */

	for (size_t i = 0; i < count + 2 * AHEAD; i++) {
		uint64_t *hash = &hashes[i % (2 * AHEAD)];

		if (i >= 2 * AHEAD)
			change_one(table, &changes[i - 2 * AHEAD], *hash);
		if (i < count) {
			*hash = hash_of(table, changes[i].database, changes[i].key);
			kw_index_prefetch(&table->index, *hash);
		}
		if (i >= AHEAD && i - AHEAD < count)
			load_record(table, hashes[(i - AHEAD) % (2 * AHEAD)]);
	}
}

/* Take every entry of the database out of the index, its record superseded by `version`. */
static void flush_entries(struct kw_table *table, uint32_t database, uint64_t version)
{
	struct kw_index_slot *slot;
	uint64_t cursor = 0;

	while ((slot = kw_index_walk(&table->index, &cursor))) {
		uint64_t offset = kw_place_offset(slot->place);
		struct kw_record *record = kw_record_at(table, offset);

		if (kw_record_database(record) != database) {
			cursor++;
			continue;
		}
		if (kw_record_kind(record) == KW_RECORD_PUT)
			kw_table_count_key(table, record, -1);
		else
			forget_tombstone(table);
		kw_log_supersede(table, offset, version);
		/* Removing can bring another entry to this slot: look at it again. */
		kw_index_remove(&table->index, slot);
	}
}

struct kw_flush_place *kw_table_add_flush(struct kw_table *table)
{
	if (table->flush_count == table->flush_capacity) {
		table->flush_capacity += 16;
		table->flushes =
			kw_realloc(table->flushes, table->flush_capacity * sizeof *table->flushes);
	}
	return &table->flushes[table->flush_count++];
}

static void remember_flush(struct kw_table *table, uint32_t database, uint64_t offset)
{
	struct kw_flush_place *place = NULL;

	for (size_t i = 0; i < table->flush_count; i++)
		if (table->flushes[i].database == database)
			place = &table->flushes[i];
	if (place) {
		kw_segments_at(&table->segments, place->offset)->flushes--;
		kw_log_supersede(table, place->offset, table->version);
	} else {
		place = kw_table_add_flush(table);
	}
	kw_segments_at(&table->segments, offset)->flushes++;
	*place = (struct kw_flush_place){database, offset, table->version};
}

enum kw_put_result kw_table_flush(struct kw_table *table, uint32_t database)
{
	const struct kw_record_fields fields = {.kind = KW_RECORD_FLUSH, .database = database};
	struct kw_segment *segment;
	uint64_t offset;

	if (kw_table_database_keys(table, database) == 0)
		return KW_PUT_UNCHANGED;
	segment = kw_log_room(table, kw_record_stride(kw_record_length(0, 0, 0)), true);
	if (!segment)
		return KW_PUT_FULL;
	offset = kw_log_append(table, segment, &fields, ++table->version);
	table->written_bytes += kw_record_stride(kw_record_length(0, 0, 0));
	flush_entries(table, database, table->version);
	assert(kw_table_database_keys(table, database) == 0);
	remember_flush(table, database, offset);
	return KW_PUT_STORED;
}

bool kw_table_get(const struct kw_table *table, uint32_t database, struct kw_slice key,
	struct kw_slice *value, uint64_t *expires_ms)
{
	struct kw_index_slot *slot =
		kw_table_find(table, kw_table_hash(table, database, key), database, key);
	const struct kw_record *record;

	if (!slot)
		return false;
	record = kw_record_at(table, kw_place_offset(slot->place));
	if (kw_record_kind(record) != KW_RECORD_PUT)
		return false;
	*value = kw_record_value(record);
	*expires_ms = kw_record_expires(record);
	return true;
}

bool kw_table_each(const struct kw_table *table, uint32_t database, kw_table_each_fn fn, void *arg)
{
	struct kw_index_slot *slot;

	if (kw_table_database_keys(table, database) == 0)
		return true;
	for (uint64_t at = 0; (slot = kw_index_walk(&table->index, &at)); at++) {
		const struct kw_record *record = kw_record_at(table, kw_place_offset(slot->place));

		if (kw_record_database(record) == database &&
			kw_record_kind(record) == KW_RECORD_PUT &&
			!fn(arg, kw_record_key(record), kw_record_value(record),
				kw_record_expires(record)))
			return false;
	}
	return true;
}

uint64_t kw_table_database_keys(const struct kw_table *table, uint32_t database)
{
	return database < table->database_capacity ? table->database_keys[database] : 0;
}

bool kw_table_is_kept(const struct kw_table *table)
{
	return table->kept;
}

uint64_t kw_table_epoch(const struct kw_table *table)
{
	return table->options.epoch;
}

const struct kw_table_facts *kw_table_facts(const struct kw_table *table)
{
	return &table->facts;
}

void kw_table_set_facts(struct kw_table *table, const struct kw_table_facts *facts)
{
	table->facts = *facts;
	table->dirty = true;
}

void kw_table_set_passed(struct kw_table *table, uint64_t version)
{
	table->passed = version;
}

int kw_table_set_max(struct kw_table *table, uint64_t max_bytes, struct kw_error *error)
{
	uint64_t before = table->options.max_bytes;

	if (max_bytes > table->memory.reserve_bytes)
		return kw_error_set(error, KW_E_ARGUMENT,
			"table.max_bytes: this process reserved addresses for %llu bytes; more "
			"needs a restart",
			(unsigned long long)table->memory.reserve_bytes);
	table->options.max_bytes = max_bytes;
	table->touched_then = kw_segments_touched(&table->segments);
	table->refused_bytes = 0;
	if (kw_data_limit(table) * table->segments.granule_bytes >=
		KW_LEAST_SEGMENTS * table->options.segment_bytes)
		return KW_OK;
	table->options.max_bytes = before;
	return kw_error_set(error, KW_E_ARGUMENT,
		"table.max_bytes: %llu is too small for %d segments of %llu bytes",
		(unsigned long long)max_bytes, KW_LEAST_SEGMENTS,
		(unsigned long long)table->options.segment_bytes);
}

bool kw_table_has_room(struct kw_table *table, uint64_t bytes)
{
	uint64_t stride = kw_record_stride(bytes + KW_RECORD_HEADER + sizeof(uint64_t)) +
			  table->segments.granule_bytes;

	return kw_log_may_grow(table, stride, false) && !kw_log_refused(table, stride) &&
	       kw_room_index(table);
}

void kw_table_stats(const struct kw_table *table, struct kw_table_stats *stats)
{
	const struct kw_segments *segments = &table->segments;

	*stats = (struct kw_table_stats){
		.keys = table->keys,
		.tombstones = table->tombstones,
		.version = table->version,
		.live_bytes = table->live_bytes,
		.payload_bytes = table->payload_bytes,
		.used_bytes = KW_DIRECTORY_OFFSET + 2 * table->directory_bytes +
			      kw_index_memory_slots(&table->index) * sizeof(struct kw_index_slot) +
			      kw_segments_touched(segments) * segments->granule_bytes +
			      kw_table_functions(table).length,
		.given_back_bytes = segments->given_granules * segments->granule_bytes,
		.capacity_bytes = table->options.max_bytes,
		.segments = segments->count,
		.free_segments = segments->free_granules * segments->granule_bytes /
				 table->options.segment_bytes,
		.resting_segments = segments->resting_granules * segments->granule_bytes /
				    table->options.segment_bytes,
		.cleaned_segments = table->cleaned_segments,
		.cleaned_bytes = table->cleaned_bytes,
		.cleaner_us = table->cleaner_ns / 1000,
		.written_bytes = table->written_bytes,
		.tombstone_floor = table->floor,
		.let_go_version = table->let_go,
		.index_slots = table->index.root->grown_slots,
	};
}

void kw_table_set_places(struct kw_table *table, const struct kw_extent *places, int count)
{
	struct kw_segments *segments = &table->segments;

	/* Bounded: KW_TABLE_EXTENTS_MAX squared, only when memory was registered anew. */
	for (int i = 0; i < segments->extent_count; i++)
		for (int j = 0; j < count; j++)
			if (segments->extents[i].offset == places[j].offset) {
				segments->extents[i].address = places[j].address;
				segments->extents[i].rkey = places[j].rkey;
			}
	table->directory_stale = true;
}

const struct kw_error *kw_table_refused(const struct kw_table *table)
{
	return table->segments.refused.code == KW_OK ? NULL : &table->segments.refused;
}
