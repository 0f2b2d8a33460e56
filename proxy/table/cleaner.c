/*
 * The cleaner: makes free memory of segments in which much is dead.
 *
 *   victims  |a.b...|  |..c...|        ──▶   dest |a'b'c'          |  = the new head
 *             old places, still readable           same versions, new places
 *
 * What is moved keeps its version, so a reader that has passed it skips it. The victims stay in the
 * directory until the publication whose head covers the new places (reading rule 2). The
 * destination becomes the head: ids are log order, and a record written later must come after what
 * was moved.
 */
#include "table/table_internal.h"

#include "table/fault.h"

#include <assert.h>
#include <string.h>

#define VICTIMS_MOST 64
/* A record is moved once so many more were found: by then its index slot is in the cache. */
#define MOVED_AHEAD 16
/*
 * So much is moved at a time, or a segment's worth: it takes some milliseconds and little memory.
 */
#define MOVED_MOST (UINT64_C(8) << 20)
#define MOVED_SEGMENTS 16
/* Go on while this part of what is moved is gained. */
#define GAINED_PART 8
/* Above this share of live bytes a segment is not worth moving unless memory is short. */
#define WORTH_PERCENT 97
/* Tombstones that agents hold back are too many: so much of their share stays, and the search is
 * not made for each segment. */
#define HELD_PERCENT_LEFT 90

/* The newest version that is older than the retention time; 0 when none is known to be. */
static uint64_t retained_up_to(const struct kw_table *table)
{
	uint64_t best = 0;
	uint64_t count = table->age_count < KW_AGE_SAMPLES ? table->age_count : KW_AGE_SAMPLES;

	for (uint64_t i = 0; i < count; i++) {
		const struct kw_age_sample *sample = &table->ages[i];

		if (sample->at_us + table->options.retention_us <= table->now_us &&
			sample->version > best)
			best = sample->version;
	}
	return best;
}

/* Can a reader that has not seen this delete by now be sent to a reconcile? */
static bool droppable(struct kw_table *table, uint64_t version, bool hard)
{
	if (kw_fault_drops())
		return true;
	if (hard && !kw_log_may_grow(table, table->options.segment_bytes, false))
		return true;
	return version <= table->droppable_up_to;
}

void kw_table_raise_floor(struct kw_table *table, uint64_t version)
{
	if (version > table->floor)
		table->floor = version;
}

/* False: a later flush has replaced it already (if a test marks it later: fault.h). */
static bool drop_flush(struct kw_table *table, uint64_t offset)
{
	for (size_t i = 0; i < table->flush_count; i++)
		if (table->flushes[i].offset == offset) {
			kw_table_raise_floor(table, table->flushes[i].version);
			table->flushes[i] = table->flushes[--table->flush_count];
			return true;
		}
	return false;
}

/*
 * Bytes of tombstones above `version` that have outlived the retention time. A segment counts by
 * its newest tombstone.
 */
static uint64_t held_above(const struct kw_table *table, uint64_t version, uint64_t retained)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < table->segments.count; i++) {
		const struct kw_segment *segment = table->segments.all[i];

		if (segment->tombstones_up_to > version && segment->tombstones_up_to <= retained)
			bytes += segment->tombstone_bytes;
	}
	return bytes;
}

/* The lowest version above which they take no more than `most`. */
static uint64_t let_go_up_to(
	const struct kw_table *table, uint64_t version, uint64_t retained, uint64_t most)
{
	uint64_t low = version, high = retained;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (held_above(table, middle, retained) > most)
			low = middle + 1;
		else
			high = middle;
	}
	return high;
}

/*
 * Up to which version has every agent passed the tombstones? An agent that reports an old version
 * for ever would otherwise fill the table with them. So beyond a part of the data memory the oldest
 * go, as if it had passed them. If it has not, it finds the floor above itself, and reconciles.
 */
static uint64_t passed_up_to(struct kw_table *table, uint64_t retained)
{
	uint64_t data = kw_data_limit(table) * table->segments.granule_bytes;
	uint64_t most = data / table->options.held_part;
	uint64_t passed = table->passed > table->let_go ? table->passed : table->let_go;

	if (passed >= retained || held_above(table, passed, retained) <= most)
		return passed;
	table->let_go = let_go_up_to(table, passed, retained, most / 100 * HELD_PERCENT_LEFT);
	assert(table->let_go > passed && table->let_go <= retained);
	return table->let_go;
}

void kw_clean_survey(struct kw_table *table)
{
	uint64_t up_to = retained_up_to(table);
	uint64_t passed = passed_up_to(table, up_to);

	if (up_to > passed)
		up_to = passed;
	table->droppable_up_to = up_to;
	table->droppable_bytes = 0;
	for (size_t i = 0; i < table->segments.count; i++) {
		const struct kw_segment *segment = table->segments.all[i];

		if (segment->sealed && segment->tombstones_up_to <= up_to)
			table->droppable_bytes += segment->tombstone_bytes;
	}
}

/* What cleaning a segment must move. */
static uint64_t burden(const struct kw_table *table, const struct kw_segment *segment)
{
	assert(segment->live_bytes >= segment->tombstone_bytes);
	return segment->tombstones_up_to <= table->droppable_up_to
		       ? segment->live_bytes - segment->tombstone_bytes
		       : segment->live_bytes;
}

/* Flush records keep their place: moved after newer puts they would delete those. */
static bool flushes_droppable(struct kw_table *table, const struct kw_segment *segment, bool hard)
{
	for (size_t i = 0; i < table->flush_count; i++)
		if (kw_segments_at(&table->segments, table->flushes[i].offset) == segment &&
			!droppable(table, table->flushes[i].version, hard))
			return false;
	return true;
}

static void make_victim(struct kw_table *table, struct kw_segment *segment)
{
	assert(!segment->victim);
	assert(segment != table->head);
	segment->victim = true;
	table->victim_bytes += segment->capacity;
	table->directory_stale = true;
	table->cleaned_segments++;
}

static void free_early(struct kw_table *table)
{
	kw_segments_free_victims_early(&table->segments);
	table->victim_bytes = 0;
}

void kw_clean_dead(struct kw_table *table)
{
	for (size_t i = 0; i < table->segments.count; i++) {
		struct kw_segment *segment = table->segments.all[i];

		if (segment->live_bytes == 0 && segment->sealed && segment != table->head &&
			!segment->victim)
			make_victim(table, segment);
	}
	if (kw_fault_leaves_out(2))
		free_early(table);
}

/* Benefit over cost, as in log-structured file systems: (1 - u) * age / (1 + u). */
static double score(const struct kw_table *table, const struct kw_segment *segment)
{
	double u = (double)burden(table, segment) / (double)segment->capacity;
	double age = (double)(table->version - segment->filled_at + 1);

	return (1.0 - u) * age / (1.0 + u);
}

static bool eligible(const struct kw_table *table, const struct kw_segment *segment, bool hard)
{
	if (segment == table->head || !segment->sealed || segment->victim || segment->single)
		return false;
	return hard ? burden(table, segment) < segment->capacity
		    : burden(table, segment) < segment->capacity / 100 * WORTH_PERCENT;
}

/* The best segments whose live bytes fit into `room` together. Returns how many. */
static int choose(
	struct kw_table *table, uint64_t room, bool hard, struct kw_segment **victims, int most)
{
	int count = 0;

	while (count < most) {
		struct kw_segment *best = NULL;
		double best_score = 0;

		for (size_t i = 0; i < table->segments.count; i++) {
			struct kw_segment *segment = table->segments.all[i];
			double s;
			bool chosen = false;

			if (burden(table, segment) > room || !eligible(table, segment, hard))
				continue;
			s = score(table, segment);
			if (best && s <= best_score)
				continue;
			for (int v = 0; v < count; v++)
				chosen |= victims[v] == segment;
			if (chosen ||
				!(segment->flushes == 0 || flushes_droppable(table, segment, hard)))
				continue;
			best = segment;
			best_score = s;
		}
		if (!best)
			break;
		victims[count++] = best;
		room -= burden(table, best);
	}
	return count;
}

/* Where records are moved to: after what dest holds, and once that is full, into spill. */
struct destination {
	struct kw_segment *dest, *spill; /* spill NULL: dest has room for all */
	uint64_t full;                   /* bytes of those that were dest before */
};

static struct kw_segment *place_for(struct destination *to, uint64_t stride)
{
	if (to->dest->capacity - to->dest->committed < stride && to->spill) {
		to->full += to->dest->capacity;
		to->dest = to->spill;
		to->spill = NULL;
	}
	return to->dest;
}

/* A live record that will be moved: its index slot is on the way into the cache. */
struct moving {
	struct kw_record *record;
	uint64_t hash;
};

/* One live record to the destination; tombstones that no reader needs end here. */
static void move_record(struct kw_table *table, struct kw_segment *from, struct destination *to,
	const struct moving *moving, bool hard)
{
	struct kw_record *record = moving->record;
	uint64_t offset = (uint64_t)((uint8_t *)record - table->memory.base);
	struct kw_index_slot *slot = kw_table_find_at(table, moving->hash, offset);
	bool tombstone = kw_record_kind(record) == KW_RECORD_DELETE;
	uint64_t weight = kw_log_weight(from, record), mark, moved;
	uint64_t version = kw_record_version(record);

	if (!slot) /* superseded, if a test marks it later (fault.h) */
		return;
	assert(from->live_bytes >= weight && table->live_bytes >= weight);
	from->live_bytes -= weight;
	table->live_bytes -= weight;
	if (tombstone)
		from->tombstone_bytes -= weight;
	if (tombstone && droppable(table, version, hard)) {
		kw_table_raise_floor(table, version);
		kw_index_remove(&table->index, slot);
		assert(table->tombstones > 0);
		table->tombstones--;
		return;
	}
	mark = slot->place & KW_PLACE_MARK;
	moved = kw_log_copy(table, place_for(to, kw_record_stride(record->length)), record);
	kw_index_set(slot, kw_place_make(moved, record->length) | mark);
	table->cleaned_bytes += kw_record_stride(record->length);
}

static void clean_segment(
	struct kw_table *table, struct kw_segment *segment, struct destination *to, bool hard)
{
	struct moving ring[MOVED_AHEAD];
	uint64_t met = 0, moved = 0;

	for (uint64_t at = 0; at < segment->committed;) {
		uint64_t offset = segment->offset + at;
		struct kw_record *record = kw_record_at(table, offset);

		at += kw_record_stride(record->length);
		if (kw_record_superseded(record))
			continue;
		if (kw_record_kind(record) != KW_RECORD_FLUSH) {
			struct moving *next = &ring[met++ % MOVED_AHEAD];

			if (met - moved > MOVED_AHEAD)
				move_record(table, segment, to, &ring[moved++ % MOVED_AHEAD], hard);
			next->record = record;
			next->hash = kw_table_hash(
				table, kw_record_database(record), kw_record_key(record));
			kw_index_prefetch(&table->index, next->hash);
			continue;
		}
		if (drop_flush(table, offset)) {
			segment->live_bytes -= kw_record_stride(record->length);
			table->live_bytes -= kw_record_stride(record->length);
		}
	}
	while (moved < met)
		move_record(table, segment, to, &ring[moved++ % MOVED_AHEAD], hard);
	assert(segment->live_bytes == 0);
	make_victim(table, segment);
}

/* Is cleaning these worth it: a granule comes free, or the destination keeps room for the record?
 */
static bool gains(const struct kw_table *table, struct kw_segment *const *victims, int count,
	uint64_t capacity, uint64_t least)
{
	uint64_t dead = 0, live = 0;

	for (int i = 0; i < count; i++) {
		dead += victims[i]->capacity - burden(table, victims[i]);
		live += burden(table, victims[i]);
	}
	return dead >= table->segments.granule_bytes || capacity - live >= least;
}

/* Granules that may be touched when only fragments are left: the limit and one segment. */
static uint64_t borrowing_limit(const struct kw_table *table)
{
	uint64_t limit = kw_data_limit(table);

	if (limit < table->touched_then)
		limit = table->touched_then;
	return limit + table->options.segment_bytes / table->segments.granule_bytes;
}

/* A fresh segment, and what will be moved there. */
struct plan {
	struct kw_segment *dest; /* NULL: there was no memory for one */
	struct kw_segment *victims[VICTIMS_MOST];
	int count;
};

static void drop(struct kw_table *table, struct plan *plan)
{
	if (plan->dest)
		kw_segments_cancel(&table->segments, plan->dest);
	plan->dest = NULL;
	plan->count = 0;
}

/*
 * What is chosen must fit the destination. In a fragmented table that can be so small that it has
 * no room to keep for the record.
 */
static void make_plan(struct kw_table *table, struct plan *plan, uint64_t wanted, uint64_t smallest,
	uint64_t touch_limit, uint64_t least, bool hard)
{
	uint64_t kept_free = least < wanted / 4 ? least : 0, room;

	drop(table, plan);
	plan->dest = kw_segments_open(&table->segments, wanted, smallest, touch_limit);
	if (!plan->dest)
		return;
	room = plan->dest->capacity;
	if (room > kept_free)
		room -= kept_free;
	plan->count = choose(table, room, hard, plan->victims, VICTIMS_MOST);
}

/*
 * No write waits. Does cleaning free what the destination takes, the rest of the head, and a
 * quarter more? Without this bound one segment would be moved into another for ever.
 */
static bool pays(const struct kw_table *table, const struct plan *plan)
{
	uint64_t taken = plan->dest->capacity + table->head->capacity - table->head->committed;
	uint64_t freed = 0;

	for (int i = 0; i < plan->count; i++)
		freed += plan->victims[i]->capacity;
	return freed >= taken + plan->dest->capacity / 4;
}

static bool clean(struct kw_table *table, uint64_t least, enum kw_cleaning how)
{
	uint64_t granule = table->segments.granule_bytes, whole = table->options.segment_bytes;
	bool hard = how == KW_CLEANING_HARD;
	uint64_t bytes = hard ? whole : kw_log_segment_bytes(table);
	struct plan plan = {0};

	make_plan(table, &plan, bytes, granule, kw_data_limit(table), least, hard);
	if (plan.dest && plan.count == 0 && bytes < whole) {
		/*
		 * A segment can date from when the table was larger: its live records might not fit
		 * one of now.
		 */
		bytes = whole;
		make_plan(table, &plan, bytes, granule, kw_data_limit(table), least, hard);
	}
	if (hard && plan.count == 0 && (!plan.dest || plan.dest->capacity < bytes))
		/*
		 * Only fragments are left. One segment of unused memory may exceed the limit,
		 * because gathering records in it frees whole segments.
		 */
		make_plan(table, &plan, bytes, bytes, borrowing_limit(table), least, hard);
	if (plan.count == 0 ||
		(hard && !gains(table, plan.victims, plan.count, plan.dest->capacity, least)) ||
		(how == KW_CLEANING_IDLE && !pays(table, &plan))) {
		drop(table, &plan);
		return false;
	}
	for (int i = 0; i < plan.count; i++)
		clean_segment(
			table, plan.victims[i], &(struct destination){.dest = plan.dest}, hard);
	/* choose() made sure that all of them fit. */
	assert(plan.dest->committed <= plan.dest->capacity);
	assert(plan.dest->id > table->head->id);
	table->head->sealed = true;
	table->head = plan.dest;
	table->directory_stale = true;
	if (kw_fault_leaves_out(2))
		free_early(table);
	if (hard) {
		kw_table_publish(table, table->wall_us);
		kw_segments_wake(&table->segments, table->now_us, 0);
	}
	kw_clean_survey(table);
	return true;
}

/* The destinations become log: all but the last are full, and that is the head now. */
static void end_with(struct kw_table *table, const struct destination *to, uint64_t first_id)
{
	table->head->sealed = true;
	for (size_t i = table->segments.count; i-- > 0;) {
		struct kw_segment *segment = table->segments.all[i];

		if (segment->id < first_id)
			break;
		segment->sealed = segment != to->dest;
	}
	assert(to->dest->id >= first_id && first_id > table->head->id);
	table->head = to->dest;
	table->directory_stale = true;
	if (kw_fault_leaves_out(2))
		free_early(table);
	kw_clean_survey(table);
}

/* Is there room for so much after what dest holds, or in a spill? Opens a spill if need be. */
static bool make_room(
	struct kw_table *table, struct destination *to, uint64_t bytes, uint64_t needed)
{
	struct kw_segments *segments = &table->segments;

	if (needed <= to->dest->capacity - to->dest->committed ||
		(to->spill && needed <= to->spill->capacity))
		return true;
	if (to->spill)
		kw_segments_cancel(segments, to->spill);
	to->spill = kw_segments_open(
		segments, bytes > needed ? bytes : needed, needed, kw_data_limit(table));
	return to->spill != NULL;
}

/* The next segment to clean, and room for what lives in it; NULL: there is none. */
static struct kw_segment *next_victim(
	struct kw_table *table, struct destination *to, uint64_t bytes)
{
	uint64_t room = to->dest->capacity - to->dest->committed;
	struct kw_segment *victim;

	if (choose(table, UINT64_MAX, false, &victim, 1) == 0)
		return NULL;
	if (make_room(table, to, bytes, burden(table, victim)))
		return victim;
	/* A smaller one then. */
	return choose(table, room, false, &victim, 1) ? victim : NULL;
}

/*
 * Segment after segment, until what they free makes up for a whole one. Records that are moved will
 * live for long, and get segments to themselves. New records get others, in which most records are
 * soon dead. Mixed, all segments would decay slowly, to the same share.
 *
 * It ends early if it takes too long, or if little is gained: records of some sizes leave the ends
 * of all segments unused.
 */
static bool clean_some(struct kw_table *table)
{
	uint64_t granule = table->segments.granule_bytes, bytes = kw_log_segment_bytes(table);
	uint64_t before = table->cleaned_bytes, freed = 0, moved = 0, gained = 0, first_id;
	struct destination to = {
		.dest = kw_segments_open(&table->segments, bytes, granule, kw_data_limit(table))};
	uint64_t most = MOVED_SEGMENTS * bytes < MOVED_MOST ? MOVED_SEGMENTS * bytes : MOVED_MOST;
	int count = 0;

	if (!to.dest)
		return false;
	first_id = to.dest->id;
	while (count < VICTIMS_MOST && moved < most && gained < bytes &&
		gained >= moved / GAINED_PART) {
		struct kw_segment *victim = next_victim(table, &to, bytes);

		if (!victim)
			break;
		freed += victim->capacity;
		clean_segment(table, victim, &to, false);
		moved = table->cleaned_bytes - before;
		gained = freed > to.full + to.dest->committed ? freed - to.full - to.dest->committed
							      : 0;
		count++;
	}
	if (to.spill)
		kw_segments_cancel(&table->segments, to.spill);
	if (count == 0)
		kw_segments_cancel(&table->segments, to.dest);
	else
		end_with(table, &to, first_id);
	return count > 0;
}

static uint64_t cpu_ns(const struct kw_table *table)
{
	return table->options.cpu_ns ? table->options.cpu_ns() : 0;
}

/*
 * Two ways to clean, and neither serves both needs.
 *
 * clean_some is for writes that have memory to spare. It cleans segment after segment into one
 * destination and, once that is full, into another, and learns on the way whether it pays. It needs
 * free memory for both destinations, and it cannot undo what it has moved.
 *
 * clean is for when memory is short, or when no write waits. It has one destination and no more. So
 * it chooses all victims first: they must fit that destination together, and if the sum gains
 * nothing, nothing is moved. There clean_some would stop in the middle without memory (hard), or
 * move one segment into another for ever (idle). For the usual writes clean would cost more:
 * victims that fit one destination leave it partly empty. The rest takes new records, which then
 * lie among those that live for long.
 */
bool kw_clean(struct kw_table *table, uint64_t least, enum kw_cleaning how)
{
	uint64_t begin_ns = cpu_ns(table);
	bool cleaned = how == KW_CLEANING_NORMAL ? clean_some(table) : clean(table, least, how);

	table->cleaner_ns += cpu_ns(table) - begin_ns;
	return cleaned;
}
