/*
 * Going on with a table that another process wrote: what only that process knew is computed again.
 *
 *   directory ──▶ segments, extents        log, record by record ──▶ counts, live bytes, flushes
 *   index root ─▶ index                         each live one ◀──▶ one slot of the index
 *
 * Only bytes that readers trust are trusted: each is covered by a checksum, or is a slot that must
 * name a record that verifies. So a table that is not whole is refused, and never adopted wrongly.
 */
#include "table/table_internal.h"

#include "table/view.h"

#include <assert.h>

static int broken(struct kw_error *error, const char *what)
{
	return kw_error_set(error, KW_E_CORRUPT, "%s", what);
}

/* The extents as the process before had asked for them: control, then index, then data. */
static int take_extents(
	struct kw_table *table, const struct kw_directory *directory, struct kw_error *error)
{
	struct kw_segments *segments = &table->segments;
	const uint64_t granule = segments->granule_bytes;

	for (uint32_t i = 0; i < directory->header->extents; i++) {
		uint64_t offset = directory->extents[i].offset;
		uint64_t length = directory->extents[i].length;
		bool control = i == 0 && offset == 0 && length == table->index_offset;
		bool index = i > 0 && offset == table->index_offset + table->index_extended &&
			     length <= table->index_reserve - table->index_extended;
		bool data = i > 0 &&
			    offset == segments->data_offset + segments->extended * granule &&
			    length % granule == 0 &&
			    length / granule <= segments->reserve_granules - segments->extended;

		if (!control && !index && !data)
			return broken(error, "an extent of the directory is not where it must be");
		if (kw_segments_extend(segments, offset, length)) {
			*error = segments->refused;
			return (int)error->code;
		}
		if (index)
			table->index_extended += length;
		else if (data)
			segments->extended += length / granule;
	}
	return KW_OK;
}

static int take_index(struct kw_table *table, struct kw_error *error)
{
	uint8_t *base = table->memory.base;

	if (!kw_index_resume(&table->index, (struct kw_index_root *)(base + KW_INDEX_ROOT_OFFSET),
		    (struct kw_index_slot *)(base + table->index_offset),
		    (uint64_t *)(base + KW_INDEX_STRIPES_OFFSET), table->index_offset,
		    table->index_extended / sizeof(struct kw_index_slot)))
		return broken(error, "the index root is not whole");
	table->index.reserve_slots = table->index_reserve / sizeof(struct kw_index_slot);
	table->options.hash_seed = table->index.root->hash_seed;
	return KW_OK;
}

static int take_flush(struct kw_table *table, struct kw_segment *segment,
	const struct kw_record_view *view, uint64_t offset)
{
	for (size_t i = 0; i < table->flush_count; i++)
		if (table->flushes[i].database == view->database)
			return KW_E_CORRUPT; /* the later one supersedes the earlier */
	*kw_table_add_flush(table) = (struct kw_flush_place){view->database, offset, view->version};
	segment->flushes++;
	return KW_OK;
}

/* A record that nothing has replaced: the index must lead to it. */
static int take_live(struct kw_table *table, struct kw_segment *segment,
	const struct kw_record_view *view, uint64_t offset)
{
	const struct kw_record *record = kw_record_at(table, offset);
	uint64_t weight = kw_log_weight(segment, record);
	const struct kw_index_slot *slot;

	segment->live_bytes += weight;
	table->live_bytes += weight;
	if (view->kind == KW_RECORD_FLUSH)
		return take_flush(table, segment, view, offset);
	slot = kw_table_find_at(table, kw_table_hash(table, view->database, view->key), offset);
	if (!slot || (slot->place & ~KW_PLACE_MARK) != kw_place_make(offset, view->length))
		return KW_E_CORRUPT;
	table->index.entries++;
	if (view->kind == KW_RECORD_PUT) {
		kw_table_count_key(table, record, 1);
		return KW_OK;
	}
	table->tombstones++;
	segment->tombstone_bytes += weight;
	if (view->version > segment->tombstones_up_to)
		segment->tombstones_up_to = view->version;
	return KW_OK;
}

/* The record at `at` bytes of the segment; 0: it does not verify. Otherwise its stride. */
static uint64_t take_record(struct kw_table *table, struct kw_segment *segment, uint64_t at)
{
	const struct kw_place place = {table->options.epoch, segment->id, at};
	const uint64_t left = segment->committed - at, offset = segment->offset + at;
	const struct kw_record *record = kw_record_at(table, offset);
	struct kw_record_view view;
	uint64_t stride;

	if (!kw_record_plausible(record, left, left) || kw_record_parse(record, &place, &view))
		return 0;
	stride = kw_record_stride(view.length);
	if (stride > left || view.version == 0 || view.version > table->version ||
		view.superseded_by > table->version)
		return 0;
	if (kw_log_is_large(table, stride)) { /* it has the run to itself */
		if (at != 0 || stride != segment->committed)
			return 0;
		segment->single = true;
	}
	if (segment->lowest == 0 || view.version < segment->lowest)
		segment->lowest = view.version;
	if (view.version > segment->highest)
		segment->highest = view.version;
	if (view.superseded_by == 0 && take_live(table, segment, &view, offset))
		return 0;
	return stride;
}

static int take_segment(
	struct kw_table *table, const struct kw_directory_segment *entry, struct kw_error *error)
{
	struct kw_segment *segment =
		kw_segments_restore(&table->segments, entry->id, entry->offset, entry->capacity);
	uint64_t stride;

	if (!segment)
		return broken(error, "a segment of the directory overlaps another one");
	segment->committed = entry->committed;
	for (uint64_t at = 0; at < segment->committed; at += stride) {
		stride = take_record(table, segment, at);
		if (stride == 0)
			return kw_error_set(error, KW_E_CORRUPT,
				"the record at %llu of segment %llu is damaged, or the index does "
				"not lead to it",
				(unsigned long long)at, (unsigned long long)segment->id);
	}
	segment->filled_at = segment->highest;
	segment->sealed = true;
	if (segment->lowest != entry->lowest_version || segment->highest != entry->highest_version)
		return broken(error, "the directory tells other versions than a segment has");
	return KW_OK;
}

/* Do two slots lead to one key? All of them name records that were verified. */
static bool has_twins(const struct kw_table *table, struct kw_index_slot *slot)
{
	const struct kw_record *one = kw_record_at(table, kw_place_offset(slot->place));
	struct kw_index_slot *other = slot;

	while ((other = kw_index_next(&table->index, other, slot->hash))) {
		const struct kw_record *two = kw_record_at(table, kw_place_offset(other->place));

		if (kw_record_database(one) == kw_record_database(two) &&
			kw_slice_equal(kw_record_key(one), kw_record_key(two)))
			return true;
	}
	return false;
}

/* As many slots as live records, each found from its own hash: so each slot names one of them. */
static int check_slots(const struct kw_table *table, struct kw_error *error)
{
	struct kw_index_slot *slot;
	uint64_t count = 0;

	for (uint64_t cursor = 0; (slot = kw_index_walk(&table->index, &cursor)); cursor++)
		count++;
	if (count != table->index.entries)
		return broken(error, "the index has slots that lead to no live record");
	for (uint64_t cursor = 0; (slot = kw_index_walk(&table->index, &cursor)); cursor++)
		if (has_twins(table, slot))
			return broken(error, "two slots of the index lead to one key");
	return KW_OK;
}

/* The segment with the highest id: log order is id order. */
static int take_head(
	struct kw_table *table, const struct kw_superblock *superblock, struct kw_error *error)
{
	struct kw_segments *segments = &table->segments;

	table->head = segments->count ? segments->all[segments->count - 1] : NULL;
	if (!table->head || table->head->id != superblock->head_segment ||
		table->head->committed != superblock->head_bytes)
		return broken(error, "the superblock's head is not the directory's");
	table->head->sealed = table->head->single;
	return KW_OK;
}

static int take_log(struct kw_table *table, const struct kw_superblock *superblock,
	const struct kw_directory *directory, struct kw_error *error)
{
	int code;

	for (uint32_t i = 0; i < directory->header->segments; i++)
		if ((code = take_segment(table, &directory->segments[i], error)))
			return code;
	if ((code = take_head(table, superblock, error)) || (code = check_slots(table, error)))
		return code;
	if (table->keys != superblock->keys)
		return broken(error, "the superblock counts other keys than there are");
	return KW_OK;
}

/* All free memory goes back to the system: which of it had pages was known to the other process. */
static void take_rest(struct kw_table *table)
{
	struct kw_segments *segments = &table->segments;

	kw_segments_free_rest(segments);
	if (segments->free_granules > 0)
		kw_segments_give_back(segments, 0, segments->free_granules);
	segments->least_kept = kw_segments_kept(segments);
}

int kw_table_rebuild(struct kw_table *table, const struct kw_superblock *superblock,
	uint64_t frontier, uint64_t next_id, struct kw_error *error)
{
	struct kw_segments *segments = &table->segments;
	struct kw_directory directory;
	int code = kw_directory_parse(table->memory.base + superblock->directory_offset,
		superblock->directory_bytes, superblock, &directory, error);

	if (code || (code = take_extents(table, &directory, error)) ||
		(code = take_index(table, error)))
		return code;
	if (frontier > segments->extended)
		return broken(error, "the seal names memory that no extent has");
	segments->frontier = frontier;
	code = take_log(table, superblock, &directory, error);
	if (code)
		return code;
	if (next_id < segments->next_id)
		return broken(error, "the seal names an id that a segment has");
	segments->next_id = next_id;
	take_rest(table);
	return KW_OK;
}
