#include "table/table_internal.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "table/fault.h"

#include <assert.h>
#include <string.h>

/* Live data may fill so much of the data memory: beyond, cleaning costs more than it yields. */
#define PUT_FILL_PERCENT 93
/* Each try cleans a segment or more: after one for each segment, no more can be gained. */
#define HARD_TRIES_BEYOND 8
#define DIRECTORY_AHEAD 8
/* A segment is cut down to the table's size: to a part of it, so many granules and records. */
#define SEGMENTS_LEAST 512
#define SEGMENT_GRANULES_LEAST 4
#define SEGMENT_RECORDS_LEAST 8
/* When there is less live data than before, memory in use follows within so long. */
#define HELD_US 60e6
#define HELD_SEGMENTS 8 /* in use varies by so much */
/* Free memory is given back, all but a little, after it was free for once or twice so long. */
#define UNUSED_US 1000000
#define KEPT_SEGMENTS 1
/* So much of the memory rests at the most. */
#define RESTING_PART 128
#define TIDY_BYTES (UINT64_C(16) << 20) /* a millisecond or two of the kernel's time */
/* A put that was just refused is not tried again, at the price of a whole cleaning, for so long. */
#define REFUSAL_HOLDS_US 100000

uint64_t kw_table_hash(const struct kw_table *table, uint32_t database, struct kw_slice key)
{
	return kw_hash_key(table->options.hash_seed, database, key.data, key.length);
}

struct kw_index_slot *kw_table_find(
	const struct kw_table *table, uint64_t hash, uint32_t database, struct kw_slice key)
{
	struct kw_index_slot *slot = kw_index_first(&table->index, hash);

	for (; slot; slot = kw_index_next(&table->index, slot, hash)) {
		const struct kw_record *record = kw_record_at(table, kw_place_offset(slot->place));

		if (kw_record_database(record) == database &&
			kw_slice_equal(kw_record_key(record), key))
			return slot;
	}
	return NULL;
}

struct kw_index_slot *kw_table_find_at(const struct kw_table *table, uint64_t hash, uint64_t offset)
{
	struct kw_index_slot *slot = kw_index_first(&table->index, hash);

	while (slot && kw_place_offset(slot->place) != offset)
		slot = kw_index_next(&table->index, slot, hash);
	return slot;
}

/* Both directories as they will be once a few more segments are open. */
static uint64_t directories(const struct kw_table *table)
{
	const struct kw_segments *segments = &table->segments;

	return 2 *
	       (sizeof(struct kw_directory_header) +
		       (segments->count + DIRECTORY_AHEAD) * sizeof(struct kw_directory_segment) +
		       (size_t)segments->extent_count * sizeof(struct kw_extent));
}

uint64_t kw_data_limit(const struct kw_table *table)
{
	uint64_t index = (table->index.root->grown_slots * 5 / 4 + KW_INDEX_OVERFLOW) *
			 sizeof(struct kw_index_slot);
	uint64_t control = KW_DIRECTORY_OFFSET + directories(table) + index +
			   (table->functions_offset ? 2 * KW_FUNCTIONS_BYTES : 0);

	if (control >= table->options.max_bytes)
		return 0;
	return (table->options.max_bytes - control) / table->segments.granule_bytes;
}

static uint64_t segment_granules(const struct kw_table *table)
{
	return table->options.segment_bytes / table->segments.granule_bytes;
}

/* Live bytes less what the cleaner may drop; the survey can be older than the latest writes. */
static uint64_t needed_bytes(const struct kw_table *table)
{
	return table->live_bytes > table->droppable_bytes
		       ? table->live_bytes - table->droppable_bytes
		       : 0;
}

bool kw_log_may_grow(const struct kw_table *table, uint64_t bytes, bool for_delete)
{
	uint64_t data = kw_data_limit(table) * table->segments.granule_bytes;
	uint64_t kept = KW_CLEANER_SEGMENTS * table->options.segment_bytes;
	uint64_t usable = (data > kept ? data - kept : 0) / 100 * PUT_FILL_PERCENT;
	uint64_t live = needed_bytes(table);

	/* A tombstone weighs no more than the put it replaces: it only needs a place. */
	if (for_delete)
		return true;
	return live + bytes <= usable;
}

/*
 * The sum of free memory was enough, but the pieces were too small: rests at the ends of segments,
 * fragments. Another try costs a whole cleaning, so none is made before as much came free.
 */
static void remember_refusal(struct kw_table *table, uint64_t stride)
{
	table->refused_bytes = stride;
	table->refused_live = needed_bytes(table);
	table->refused_free = table->segments.free_granules;
	table->refused_us = table->now_us;
}

bool kw_log_refused(const struct kw_table *table, uint64_t bytes)
{
	return table->refused_bytes > 0 && bytes >= table->refused_bytes &&
	       needed_bytes(table) + table->refused_bytes > table->refused_live &&
	       table->segments.free_granules <= table->refused_free;
}

/* Bytes left in the head. One that is sealed takes nothing else: a run of one large record, say. */
static uint64_t head_room(const struct kw_table *table)
{
	return table->head->sealed ? 0 : table->head->capacity - table->head->committed;
}

/* Granules that may be opened for records, the cleaner's own left out. */
static bool may_open(const struct kw_table *table, uint64_t granules)
{
	const struct kw_segments *segments = &table->segments;
	uint64_t limit = kw_data_limit(table);
	uint64_t touched = kw_segments_touched(segments);
	uint64_t untouched = limit > touched ? limit - touched : 0;

	return kw_segments_kept(segments) + untouched >=
	       granules + KW_CLEANER_SEGMENTS * segment_granules(table);
}

static struct kw_segment *open_for_records(struct kw_table *table, uint64_t wanted, uint64_t least)
{
	struct kw_segments *segments = &table->segments;
	uint64_t granules = (wanted + segments->granule_bytes - 1) / segments->granule_bytes;
	struct kw_segment *segment;

	if (!may_open(table, granules))
		return NULL;
	segment = kw_segments_open(segments, wanted, least, kw_data_limit(table));
	if (segment) {
		table->directory_stale = true;
		table->refused_bytes = 0; /* memory can be had again */
	}
	return segment;
}

/*
 * The size of a new segment. It is so small a part of the table that a few segments more or less do
 * not count, however large the table becomes. It holds so many records that the rest at its end
 * does not count.
 */
uint64_t kw_log_segment_bytes(const struct kw_table *table)
{
	uint64_t least = SEGMENT_GRANULES_LEAST * table->segments.granule_bytes;
	uint64_t records = table->keys + table->tombstones + 1;
	uint64_t bytes = table->options.segment_bytes;

	if (least < SEGMENT_RECORDS_LEAST * table->live_bytes / records)
		least = SEGMENT_RECORDS_LEAST * table->live_bytes / records;
	while (bytes / 2 >= least && bytes * SEGMENTS_LEAST > table->live_bytes)
		bytes /= 2;
	return bytes;
}

static uint64_t present_granules(const struct kw_table *table)
{
	return kw_log_segment_bytes(table) / table->segments.granule_bytes;
}

/* Granules of segments that stay, and of one more. */
static double in_use(const struct kw_table *table)
{
	const struct kw_segments *segments = &table->segments;
	uint64_t leaving = segments->free_granules + segments->resting_granules +
			   table->victim_bytes / segments->granule_bytes;

	return (double)(segments->frontier + present_granules(table)) - (double)leaving;
}

static double allowance(const struct kw_table *table)
{
	return (double)needed_bytes(table) / table->options.utilisation /
		       (double)table->segments.granule_bytes +
	       (double)(KW_SLACK_SEGMENTS * present_granules(table));
}

/*
 * When values get shorter or keys go, while there are writes, memory in use need not shrink at
 * once. A full log is expensive to clean, and the memory was in use a moment ago. So the earlier
 * allowance is kept, and lowered slowly.
 */
static void lower_held(struct kw_table *table)
{
	double allowed = allowance(table), passed = (double)(table->now_us - table->tidied_us);
	double most = in_use(table) + (double)(HELD_SEGMENTS * present_granules(table));

	table->held -= (table->held - allowed) * (passed < HELD_US ? passed / HELD_US : 1.0);
	if (table->held > most)
		table->held = most;
	if (table->held < allowed)
		table->held = allowed;
	table->tidied_us = table->now_us;
}

static void wake(struct kw_table *table)
{
	uint64_t most = table->segments.frontier / RESTING_PART;

	if (most < 2 * present_granules(table))
		most = 2 * present_granules(table);
	kw_segments_wake(&table->segments, table->now_us, most);
}

/*
 * Free granules that have pages and were unused for a second or two: the lowest number in that
 * time. Memory that is given back and taken again a moment later costs a page fault for each 4 KiB.
 */
static uint64_t unused_granules(struct kw_table *table)
{
	struct kw_segments *segments = &table->segments;
	uint64_t least = segments->least_kept;

	if (least > kw_segments_kept(segments))
		least = kw_segments_kept(segments);
	if (least > table->unused_before)
		least = table->unused_before;
	if (table->now_us - table->unused_since_us >= UNUSED_US) {
		table->unused_before = segments->least_kept;
		table->unused_since_us = table->now_us;
		segments->least_kept = kw_segments_kept(segments);
	}
	return least;
}

/* Free granules that are kept: those in use now and then, and what the cleaner begins with. */
static uint64_t kept_at_hand(struct kw_table *table)
{
	uint64_t touched = kw_segments_touched(&table->segments);
	uint64_t reserve = KW_CLEANER_SEGMENTS * segment_granules(table);
	uint64_t kept = kw_segments_kept(&table->segments) - unused_granules(table) +
			KEPT_SEGMENTS * present_granules(table);

	if (touched + reserve >= kw_data_limit(table) && kept < reserve)
		return reserve;
	return kept;
}

static void give_back(struct kw_table *table)
{
	struct kw_segments *segments = &table->segments;
	uint64_t keep = kept_at_hand(table), given = segments->given_granules;

	kw_segments_give_back(segments, keep, TIDY_BYTES / segments->granule_bytes);
	given = segments->given_granules - given;
	segments->least_kept -= given < segments->least_kept ? given : segments->least_kept;
	table->unused_before -= given < table->unused_before ? given : table->unused_before;
}

void kw_table_tidy(struct kw_table *table)
{
	kw_clean_survey(table);
	kw_clean_dead(table);
	/* While there are writes, they clean as much as they need. */
	if (table->tidied_version == table->version &&
		(in_use(table) > allowance(table) ||
			table->droppable_bytes >= kw_log_segment_bytes(table)))
		kw_clean(table, 0, KW_CLEANING_IDLE);
	table->tidied_version = table->version;
	lower_held(table);
	wake(table);
	give_back(table);
	if (table->touched_then > kw_segments_touched(&table->segments))
		table->touched_then = kw_segments_touched(&table->segments);
	kw_room_announce(table);
}

/* Open memory by cleaning until there is some, or nothing is gained any more. */
static struct kw_segment *open_hard(
	struct kw_table *table, uint64_t wanted, uint64_t least, bool head_will_do)
{
	size_t most = table->segments.count + HARD_TRIES_BEYOND;

	for (size_t tries = 0; tries < most; tries++) {
		struct kw_segment *segment;

		/* Segments cleaned before might only wait for a publication, or rest. */
		kw_table_publish(table, table->wall_us);
		kw_segments_wake(&table->segments, table->now_us, 0);
		segment = open_for_records(table, wanted, least);
		if (segment)
			return segment;
		if (!kw_clean(table, least, KW_CLEANING_HARD))
			return NULL;
		if (head_will_do && head_room(table) >= least)
			return table->head;
	}
	return NULL;
}

/*
 * Cleaning gains nothing any more: free memory lies in fragments too small for a segment's records.
 * Then tombstones may use the cleaner's own memory, all but its last granule: the records they kill
 * make segments worth cleaning again.
 */
static struct kw_segment *open_last(struct kw_table *table, uint64_t stride)
{
	struct kw_segments *segments = &table->segments;
	struct kw_segment *segment = NULL;

	if (segments->free_granules * segments->granule_bytes >=
		stride + 2 * segments->granule_bytes)
		segment = kw_segments_open(segments, stride, stride, kw_data_limit(table));
	if (segment)
		table->directory_stale = true;
	return segment;
}

/* The head has no room: clean if more is in use than it should be, and open another. */
static struct kw_segment *roll(struct kw_table *table, uint64_t stride, bool for_delete)
{
	uint64_t bytes = kw_log_segment_bytes(table);
	struct kw_segment *segment;

	if (bytes < stride)
		bytes = stride;

	kw_clean_survey(table);
	kw_clean_dead(table);
	wake(table);
	if (in_use(table) > allowance(table) && in_use(table) > table->held) {
		kw_clean(table, stride, KW_CLEANING_NORMAL);
		if (head_room(table) >= stride)
			return table->head;
	}
	segment = open_for_records(table, bytes, stride);
	if (!segment)
		segment = open_hard(table, bytes, stride, true);
	if (!segment && for_delete)
		segment = open_last(table, stride);
	if (!segment)
		return NULL;
	assert(segment->id >= table->head->id); /* log order is id order */
	table->head->sealed = segment != table->head;
	table->head = segment;
	return segment;
}

/*
 * The rest of the head goes on under a later id: as a segment of its own, or renumbered while it is
 * still empty. False: there is no memory for it, and the head is sealed all the same.
 */
static bool renew_head(struct kw_table *table)
{
	struct kw_segment *rest;

	table->directory_stale = true;
	if (table->head->committed == 0) {
		kw_segments_renumber(&table->segments, table->head);
		return true;
	}
	rest = kw_segments_split(&table->segments, table->head);
	if (!rest)
		rest = open_for_records(
			table, kw_log_segment_bytes(table), table->segments.granule_bytes);
	table->head->sealed = true;
	if (rest)
		table->head = rest;
	return rest != NULL;
}

void kw_log_break(struct kw_table *table)
{
	renew_head(table);
}

/*
 * A run of its own for a large record. Log order is id order, so the rest of the head goes on under
 * an id after the run's.
 */
static struct kw_segment *single(struct kw_table *table, uint64_t stride)
{
	struct kw_segment *run;

	kw_clean_survey(table);
	kw_clean_dead(table);
	wake(table);
	run = open_for_records(table, stride, stride);
	if (!run)
		run = open_hard(table, stride, stride, false);
	if (!run)
		return NULL;
	run->single = run->sealed = true;
	/* Without memory for another head the run is the head, and takes nothing else. */
	if (!renew_head(table))
		table->head = run;
	return run;
}

bool kw_log_is_large(const struct kw_table *table, uint64_t stride)
{
	uint64_t segment_bytes = table->options.segment_bytes;

	return stride > segment_bytes ||
	       (stride >= KW_SINGLE_GRANULES * table->segments.granule_bytes &&
		       stride > segment_bytes / 8);
}

struct kw_segment *kw_log_room(struct kw_table *table, uint64_t stride, bool for_delete)
{
	struct kw_segment *segment;

	if (!kw_log_may_grow(table, stride, for_delete))
		return NULL;
	if (!for_delete && kw_log_refused(table, stride) &&
		table->now_us < table->refused_us + REFUSAL_HOLDS_US)
		return NULL;
	if (kw_log_is_large(table, stride))
		segment = single(table, stride);
	else if (head_room(table) >= stride)
		return table->head;
	else
		segment = roll(table, stride, for_delete);
	if (!segment && !for_delete)
		remember_refusal(table, stride);
	return segment;
}

uint64_t kw_log_weight(const struct kw_segment *segment, const struct kw_record *record)
{
	return segment->single ? segment->capacity : kw_record_stride(record->length);
}

static struct kw_place end_of(const struct kw_table *table, const struct kw_segment *segment)
{
	return (struct kw_place){table->options.epoch, segment->id, segment->committed};
}

/* The record that was just written after what the segment holds is part of it. */
static uint64_t take_in(
	struct kw_table *table, struct kw_segment *segment, const struct kw_record *record)
{
	uint64_t offset = segment->offset + segment->committed;
	uint64_t version = kw_record_version(record), weight = kw_log_weight(segment, record);

	segment->committed += kw_record_stride(record->length);
	if (segment->lowest == 0 || version < segment->lowest)
		segment->lowest = version;
	if (version > segment->highest)
		segment->highest = version;
	segment->filled_at = table->version;
	segment->live_bytes += weight;
	table->live_bytes += weight;
	assert(segment->committed <= segment->capacity && !segment->victim);
	assert(segment->live_bytes <= segment->capacity);
	assert(version <= table->version);
	if (kw_record_kind(record) == KW_RECORD_DELETE) {
		segment->tombstone_bytes += weight;
		if (version > segment->tombstones_up_to)
			segment->tombstones_up_to = version;
	}
	if (segment != table->head)
		table->directory_stale = true;
	table->dirty = true;
	return offset;
}

uint64_t kw_log_append(struct kw_table *table, struct kw_segment *segment,
	const struct kw_record_fields *fields, uint64_t version)
{
	struct kw_record *record = kw_record_at(table, segment->offset + segment->committed);
	struct kw_place place = end_of(table, segment);
	uint64_t length =
		kw_record_length(fields->key.length, fields->value.length, fields->expires_ms);

	assert(segment->capacity - segment->committed >= kw_record_stride(length));
	kw_record_write(record, fields, version, &place);
	return take_in(table, segment, record);
}

uint64_t kw_log_copy(
	struct kw_table *table, struct kw_segment *segment, const struct kw_record *from)
{
	struct kw_record *record = kw_record_at(table, segment->offset + segment->committed);
	struct kw_place place = end_of(table, segment);

	assert(segment->capacity - segment->committed >= kw_record_stride(from->length));
	kw_record_copy(record, from, &place);
	return take_in(table, segment, record);
}

void kw_log_supersede(struct kw_table *table, uint64_t offset, uint64_t version)
{
	struct kw_record *record = kw_record_at(table, offset);
	struct kw_segment *segment = kw_segments_at(&table->segments, offset);
	uint64_t weight = kw_log_weight(segment, record), word;

	assert(segment->live_bytes >= weight);
	assert(table->live_bytes >= weight);
	segment->live_bytes -= weight;
	table->live_bytes -= weight;
	if (kw_record_kind(record) == KW_RECORD_DELETE) {
		assert(segment->tombstone_bytes >= weight);
		segment->tombstone_bytes -= weight;
	}
	word = kw_superseded_word(record->checksum, version);
	if (!kw_fault_marks(&record->superseded_by, word))
		__atomic_store_n(&record->superseded_by, word, __ATOMIC_RELEASE);
}
