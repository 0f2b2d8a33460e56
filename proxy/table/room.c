/* Room for the index below max_bytes, and what memory the table will ask for next. */
#include "table/table_internal.h"

/* After so many cleanings that drop no tombstone, no more are tried. */
#define CLEANED_IN_VAIN 8
#define INDEX_EXTENT_LEAST (UINT64_C(1) << 20)

/* Bytes that the index's memory grows by the next time: it doubles. */
static uint64_t index_growth(const struct kw_table *table)
{
	uint64_t grow = table->index_extended;

	if (grow < INDEX_EXTENT_LEAST)
		grow = INDEX_EXTENT_LEAST;
	if (grow > table->index_reserve - table->index_extended)
		grow = table->index_reserve - table->index_extended;
	return grow;
}

/* Below max_bytes, beside all that is in use? */
static bool index_may_have(const struct kw_table *table, uint64_t bytes)
{
	uint64_t others = KW_DIRECTORY_OFFSET + 2 * table->directory_bytes +
			  kw_segments_touched(&table->segments) * table->segments.granule_bytes;

	return bytes <= table->index_reserve && bytes + others <= table->options.max_bytes;
}

void kw_room_announce(const struct kw_table *table)
{
	const struct kw_table_memory *memory = &table->memory;
	uint64_t used = table->index.limit_slots * sizeof(struct kw_index_slot);
	uint64_t grow = index_growth(table);

	kw_segments_expect(&table->segments, kw_data_limit(table));
	if (memory->expect && grow > 0 && used > table->index_extended / 4 * 3 &&
		index_may_have(table, table->index_extended + 1))
		memory->expect(memory->arg, table->index_offset + table->index_extended, grow);
}

bool kw_room_index_slots(struct kw_table *table, uint64_t slots)
{
	uint64_t bytes = slots * sizeof(struct kw_index_slot);
	uint64_t grow;

	if (!index_may_have(table, bytes))
		return false;
	while (bytes > table->index_extended) {
		grow = index_growth(table);
		if (kw_segments_extend(
			    &table->segments, table->index_offset + table->index_extended, grow))
			return false;
		table->index_extended += grow;
		table->directory_stale = true;
	}
	table->index.limit_slots = slots;
	return true;
}

bool kw_room_index(struct kw_table *table)
{
	const struct kw_index *index = &table->index;
	uint64_t wanted = kw_index_wanted(index);

	if (wanted <= index->limit_slots || kw_room_index_slots(table, wanted))
		return true;
	return index->entries + 1 < index->root->slots / 100 * 96;
}

bool kw_room_index_reclaimed(struct kw_table *table)
{
	uint64_t tombstones;
	int in_vain = 0;

	kw_clean_survey(table);
	while (table->droppable_bytes > 0 && !kw_room_index(table)) {
		tombstones = table->tombstones;
		/* The cleaner chooses by gain: it need not reach the tombstones at all. */
		if (!kw_clean(table, 0, KW_CLEANING_HARD) ||
			(table->tombstones == tombstones && ++in_vain == CLEANED_IN_VAIN))
			return false;
	}
	return kw_room_index(table);
}
