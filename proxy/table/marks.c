/* The mark of each index entry: did the sweep under way see the key? */
#include "table/table_internal.h"

#include "table/record.h"

void kw_table_marks_begin(struct kw_table *table)
{
	struct kw_index_slot *slot;

	for (uint64_t cursor = 0; (slot = kw_index_walk(&table->index, &cursor)); cursor++)
		kw_index_set(slot, slot->place & ~KW_PLACE_MARK);
}

void kw_table_mark(struct kw_table *table, uint32_t database, struct kw_slice key)
{
	struct kw_index_slot *slot =
		kw_table_find(table, kw_table_hash(table, database, key), database, key);

	if (slot)
		kw_index_set(slot, slot->place | KW_PLACE_MARK);
}

/* The segment to walk next: the first with an id of at least `id`; NULL: there is none. */
static const struct kw_segment *segment_from(const struct kw_table *table, uint64_t id)
{
	for (size_t i = 0; i < table->segments.count; i++)
		if (table->segments.all[i]->id >= id && !table->segments.all[i]->victim)
			return table->segments.all[i];
	return NULL;
}

static void hand_out_unseen(const struct kw_table *table, const struct kw_record *record,
	uint64_t offset, kw_table_key_fn fn, void *arg)
{
	struct kw_slice key = kw_record_key(record);
	const struct kw_index_slot *slot;

	if (kw_record_kind(record) != KW_RECORD_PUT || kw_record_superseded(record))
		return;
	slot = kw_table_find_at(
		table, kw_table_hash(table, kw_record_database(record), key), offset);
	if (slot && !(slot->place & KW_PLACE_MARK))
		fn(arg, kw_record_database(record), key);
}

/*
 * In log order: what the cleaner moves meanwhile goes to a higher id and is met there. fn must not
 * write to the table.
 */
bool kw_table_unseen(
	struct kw_table *table, uint64_t *cursor, uint32_t budget, kw_table_key_fn fn, void *arg)
{
	const struct kw_segment *segment;

	if (*cursor == 0) {
		*cursor = 1;
		table->walk_segment = table->walk_offset = 0;
	}
	while ((segment = segment_from(table, table->walk_segment))) {
		if (segment->id != table->walk_segment) {
			table->walk_segment = segment->id;
			table->walk_offset = 0;
		}
		while (table->walk_offset < segment->committed) {
			uint64_t offset = segment->offset + table->walk_offset;
			const struct kw_record *record = kw_record_at(table, offset);

			if (budget-- == 0)
				return true;
			hand_out_unseen(table, record, offset, fn, arg);
			table->walk_offset += kw_record_stride(record->length);
		}
		if (segment == table->head)
			break;
		table->walk_segment++;
		table->walk_offset = 0;
	}
	return false;
}

static void tell_unseen(const struct kw_table *table, const struct kw_index_slot *slot,
	kw_table_unseen_fn fn, void *arg)
{
	const struct kw_record *record = kw_record_at(table, kw_place_offset(slot->place));

	if (kw_record_kind(record) == KW_RECORD_PUT)
		fn(arg, kw_record_database(record), kw_record_expires(record));
}

bool kw_table_count_unseen(const struct kw_table *table, uint64_t *cursor, uint32_t budget,
	kw_table_unseen_fn fn, void *arg)
{
	uint64_t end = kw_index_memory_slots(&table->index);

	for (; *cursor < end && budget > 0; (*cursor)++, budget--) {
		const struct kw_index_slot *slot = &table->index.slots[*cursor];

		if (slot->place != 0 && !(slot->place & KW_PLACE_MARK))
			tell_unseen(table, slot, fn, arg);
	}
	return *cursor < end;
}
