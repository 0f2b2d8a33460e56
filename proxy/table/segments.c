#include "table/segments.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define EXTENTS_OF_DATA 128 /* the data area grows in so many steps at the most */
#define LEAST_EXTENT_SEGMENTS 8
/* A free run of this part of what is wanted is taken before memory that has no pages. */
#define FRAGMENT_PART 2

void kw_segments_init(struct kw_segments *segments, const struct kw_table_memory *memory,
	uint64_t data_offset, uint64_t granule_bytes, size_t most)
{
	uint64_t granules = (memory->reserve_bytes - data_offset) / granule_bytes;

	assert(granule_bytes > 0 && (granule_bytes & (granule_bytes - 1)) == 0);
	assert(data_offset % granule_bytes == 0 && data_offset < memory->reserve_bytes);
	*segments = (struct kw_segments){
		.memory = memory,
		.data_offset = data_offset,
		.granule_bytes = granule_bytes,
		.reserve_granules = granules,
		.extent_granules = granules / EXTENTS_OF_DATA + 1,
		.most = most,
		.next_id = 1,
	};
	if (segments->extent_granules < LEAST_EXTENT_SEGMENTS * 16)
		segments->extent_granules = LEAST_EXTENT_SEGMENTS * 16;
	segments->owner = kw_zalloc(granules * sizeof *segments->owner);
	segments->given = kw_zalloc(granules);
	segments->keeps_all = !memory->give_back;
	segments->extents = kw_zalloc(KW_TABLE_EXTENTS_MAX * sizeof *segments->extents);
}

void kw_segments_close(struct kw_segments *segments)
{
	for (size_t i = 0; i < segments->count; i++)
		free(segments->all[i]);
	free(segments->all);
	free(segments->owner);
	free(segments->given);
	free(segments->free);
	free(segments->resting);
	free(segments->extents);
}

/* Extents stand in order of their offsets; the control area's grow as well as the data's. */
int kw_segments_extend(struct kw_segments *segments, uint64_t offset, uint64_t length)
{
	struct kw_error *error = &segments->refused;
	struct kw_extent extent = {.offset = offset, .length = length};
	int at = segments->extent_count;

	assert(length > 0 && offset + length <= segments->memory->reserve_bytes);
	if (segments->extent_count == KW_TABLE_EXTENTS_MAX)
		return kw_error_set(
			error, KW_E_FULL, "table: no more than %d extents", KW_TABLE_EXTENTS_MAX);
	if (segments->memory->extend(segments->memory->arg, &extent, error))
		return kw_error_wrap(
			error, "table: memory at offset %llu", (unsigned long long)offset);
	while (at > 0 && segments->extents[at - 1].offset > offset) {
		segments->extents[at] = segments->extents[at - 1];
		at--;
	}
	/* Readers refuse a directory whose extents overlap. */
	assert(at == 0 ||
		segments->extents[at - 1].offset + segments->extents[at - 1].length <= offset);
	assert(at == segments->extent_count || offset + length <= segments->extents[at + 1].offset);
	segments->extents[at] = extent;
	segments->extent_count++;
	*error = (struct kw_error){0};
	return KW_OK;
}

void kw_segments_expect(const struct kw_segments *segments, uint64_t touch_limit)
{
	const struct kw_table_memory *memory = segments->memory;
	uint64_t left = segments->extended - segments->frontier;
	uint64_t grow = segments->extent_granules;

	if (grow > segments->reserve_granules - segments->extended)
		grow = segments->reserve_granules - segments->extended;
	if (!memory->expect || grow == 0 || left > segments->extent_granules / 2 ||
		kw_segments_touched(segments) + left >= touch_limit)
		return;
	memory->expect(memory->arg,
		segments->data_offset + segments->extended * segments->granule_bytes,
		grow * segments->granule_bytes);
}

static uint64_t granules_of(const struct kw_segments *segments, uint64_t bytes)
{
	return (bytes + segments->granule_bytes - 1) / segments->granule_bytes;
}

static uint64_t granule_at(const struct kw_segments *segments, uint64_t offset)
{
	return (offset - segments->data_offset) / segments->granule_bytes;
}

static struct kw_run run_of(const struct kw_segments *segments, const struct kw_segment *segment)
{
	return (struct kw_run){
		granule_at(segments, segment->offset), granules_of(segments, segment->capacity), 0};
}

static void insert_run(struct kw_segments *segments, size_t at, struct kw_run run)
{
	if (segments->free_count == segments->free_capacity) {
		segments->free_capacity =
			segments->free_capacity ? 2 * segments->free_capacity : 16;
		segments->free = kw_realloc(
			segments->free, segments->free_capacity * sizeof *segments->free);
	}
	memmove(segments->free + at + 1, segments->free + at,
		(segments->free_count - at) * sizeof *segments->free);
	segments->free[at] = run;
	segments->free_count++;
}

/* Put a run among the free ones, joined with its neighbours. */
static void free_run(struct kw_segments *segments, struct kw_run run)
{
	struct kw_run *free = segments->free;
	size_t at = segments->free_count;

	segments->free_granules += run.granules;
	while (at > 0 && free[at - 1].start > run.start)
		at--;
	assert(run.granules > 0 && run.start + run.granules <= segments->frontier);
	assert(at == 0 || free[at - 1].start + free[at - 1].granules <= run.start);
	assert(at == segments->free_count || run.start + run.granules <= free[at].start);
	if (at > 0 && free[at - 1].start + free[at - 1].granules == run.start) {
		free[at - 1].granules += run.granules;
		if (at < segments->free_count &&
			free[at - 1].start + free[at - 1].granules == free[at].start) {
			free[at - 1].granules += free[at].granules;
			segments->free_count--;
			memmove(free + at, free + at + 1,
				(segments->free_count - at) * sizeof *free);
		}
		return;
	}
	if (at < segments->free_count && run.start + run.granules == free[at].start) {
		free[at].start = run.start;
		free[at].granules += run.granules;
		return;
	}
	insert_run(segments, at, run);
}

/*
 * The longest piece of a free run, up to `wanted` granules, that lacks no more than `lacking`
 * pages; the first of equally long ones.
 */
static struct kw_run fitting(const struct kw_segments *segments, const struct kw_run *run,
	uint64_t wanted, uint64_t lacking)
{
	uint64_t end = run->start + run->granules, from = run->start, lacks = 0;
	struct kw_run best = {0};

	for (uint64_t to = from; to < end && best.granules < wanted; to++) {
		lacks += segments->given[to];
		while (lacks > lacking)
			lacks -= segments->given[from++];
		if (to + 1 - from > best.granules)
			best = (struct kw_run){from, to + 1 - from, 0};
	}
	return best;
}

/* Take a piece out of a free run. Its pages come back by being written. */
static void take_piece(struct kw_segments *segments, size_t at, struct kw_run piece)
{
	struct kw_run *run = &segments->free[at];
	uint64_t end = piece.start + piece.granules;
	struct kw_run behind = {end, run->start + run->granules - end, 0};

	assert(piece.start >= run->start && end <= run->start + run->granules);
	assert(segments->free_granules >= piece.granules);
	for (uint64_t g = piece.start; g < end; g++) {
		segments->given_granules -= segments->given[g];
		segments->given[g] = 0;
	}
	segments->free_granules -= piece.granules;
	run->granules = piece.start - run->start;
	if (run->granules == 0 && behind.granules > 0) {
		*run = behind;
	} else if (behind.granules > 0) {
		insert_run(segments, at + 1, behind);
	} else if (run->granules == 0) {
		segments->free_count--;
		memmove(run, run + 1, (segments->free_count - at) * sizeof *run);
	}
}

/* The first free piece of `wanted` granules, or else the longest of at least `least`. */
static bool take_free(struct kw_segments *segments, uint64_t wanted, uint64_t least,
	uint64_t touch_limit, struct kw_run *taken)
{
	uint64_t touched = kw_segments_touched(segments);
	uint64_t lacking = touch_limit > touched ? touch_limit - touched : 0;
	struct kw_run best = {0};
	size_t at = 0;

	for (size_t i = 0; i < segments->free_count && best.granules < wanted; i++) {
		struct kw_run piece;

		if (segments->free[i].granules < least)
			continue;
		piece = fitting(segments, &segments->free[i], wanted, lacking);
		if (piece.granules > best.granules) {
			best = piece;
			at = i;
		}
	}
	if (best.granules < least || best.granules == 0)
		return false;
	take_piece(segments, at, best);
	*taken = best;
	return true;
}

static bool take_virgin(
	struct kw_segments *segments, uint64_t wanted, uint64_t touch_limit, struct kw_run *taken)
{
	uint64_t end = segments->frontier + wanted;

	if (end > segments->reserve_granules ||
		kw_segments_touched(segments) + wanted > touch_limit)
		return false;
	if (end > segments->extended) {
		uint64_t grow = end - segments->extended;

		if (grow < segments->extent_granules)
			grow = segments->extent_granules;
		if (grow > segments->reserve_granules - segments->extended)
			grow = segments->reserve_granules - segments->extended;
		if (kw_segments_extend(segments,
			    segments->data_offset + segments->extended * segments->granule_bytes,
			    grow * segments->granule_bytes))
			return false;
		segments->extended += grow;
	}
	assert(end <= segments->extended);
	*taken = (struct kw_run){segments->frontier, wanted, 0};
	segments->frontier = end;
	return true;
}

static struct kw_segment *add(struct kw_segments *segments, uint64_t offset, uint64_t capacity)
{
	struct kw_segment *segment = kw_zalloc(sizeof *segment);
	uint64_t first = granule_at(segments, offset);

	if (segments->count == segments->capacity) {
		segments->capacity = segments->capacity ? 2 * segments->capacity : 64;
		segments->all =
			kw_realloc(segments->all, segments->capacity * sizeof(struct kw_segment *));
	}
	/* Ids never come again: readers take an id for the generation of the memory. */
	assert(segments->count == 0 || segments->all[segments->count - 1]->id < segments->next_id);
	segment->id = segments->next_id++;
	segment->offset = offset;
	segment->capacity = capacity;
	segments->all[segments->count++] = segment;
	for (uint64_t i = 0; i < granules_of(segments, capacity); i++)
		segments->owner[first + i] = segment;
	return segment;
}

struct kw_segment *kw_segments_open(
	struct kw_segments *segments, uint64_t wanted, uint64_t least, uint64_t touch_limit)
{
	uint64_t fragment;
	struct kw_run run;

	wanted = granules_of(segments, wanted);
	least = granules_of(segments, least);
	fragment = (wanted + FRAGMENT_PART - 1) / FRAGMENT_PART;
	if (segments->count >= segments->most)
		return NULL;
	/* Memory with pages first, even a fragment of it: other pages cost a fault each. */
	if (!take_free(segments, wanted, wanted, 0, &run) &&
		!take_free(segments, wanted, fragment > least ? fragment : least, 0, &run) &&
		!take_free(segments, wanted, wanted, touch_limit, &run) &&
		!take_virgin(segments, wanted, touch_limit, &run) &&
		!take_free(segments, wanted, least, touch_limit, &run))
		return NULL;
	if (kw_segments_kept(segments) < segments->least_kept)
		segments->least_kept = kw_segments_kept(segments);
	return add(segments, segments->data_offset + run.start * segments->granule_bytes,
		run.granules * segments->granule_bytes);
}

/* Can a segment lie there? Below the frontier, on whole granules that no other one has. */
static bool is_vacant(const struct kw_segments *segments, uint64_t offset, uint64_t capacity)
{
	const uint64_t granule = segments->granule_bytes;
	const uint64_t end = segments->data_offset + segments->frontier * granule;

	if (offset < segments->data_offset || (offset - segments->data_offset) % granule != 0 ||
		capacity == 0 || capacity % granule != 0 || offset > end || capacity > end - offset)
		return false;
	for (uint64_t g = 0; g < capacity / granule; g++)
		if (segments->owner[granule_at(segments, offset) + g])
			return false;
	return true;
}

struct kw_segment *kw_segments_restore(
	struct kw_segments *segments, uint64_t id, uint64_t offset, uint64_t capacity)
{
	assert(segments->frontier <= segments->extended);
	if (id < segments->next_id || segments->count >= segments->most ||
		!is_vacant(segments, offset, capacity))
		return NULL;
	segments->next_id = id;
	return add(segments, offset, capacity);
}

void kw_segments_free_rest(struct kw_segments *segments)
{
	uint64_t start = 0;

	assert(segments->free_count == 0 && segments->given_granules == 0);
	for (uint64_t g = 0; g <= segments->frontier; g++) {
		if (g < segments->frontier && !segments->owner[g])
			continue;
		if (g > start)
			free_run(segments, (struct kw_run){start, g - start, 0});
		start = g + 1;
	}
}

void kw_segments_cancel(struct kw_segments *segments, struct kw_segment *segment)
{
	struct kw_run run = run_of(segments, segment);

	assert(segments->all[segments->count - 1] == segment);
	assert(segment->committed == 0);
	for (uint64_t g = 0; g < run.granules; g++)
		segments->owner[run.start + g] = NULL;
	free_run(segments, run);
	segments->count--;
	segments->next_id--;
	free(segment);
}

struct kw_segment *kw_segments_split(struct kw_segments *segments, struct kw_segment *segment)
{
	uint64_t keep = granules_of(segments, segment->committed) * segments->granule_bytes;
	uint64_t rest = segment->capacity - keep;

	if (rest == 0 || segments->count >= segments->most)
		return NULL;
	segment->capacity = keep;
	return add(segments, segment->offset + keep, rest);
}

void kw_segments_renumber(struct kw_segments *segments, struct kw_segment *segment)
{
	size_t at = segments->count;

	assert(segment->committed == 0);
	while (at > 0 && segments->all[at - 1] != segment)
		at--;
	assert(at > 0);
	memmove(segments->all + at - 1, segments->all + at,
		(segments->count - at) * sizeof(struct kw_segment *));
	segments->all[segments->count - 1] = segment;
	segment->id = segments->next_id++;
}

struct kw_segment *kw_segments_at(const struct kw_segments *segments, uint64_t offset)
{
	return segments->owner[granule_at(segments, offset)];
}

static void rest_run(struct kw_segments *segments, struct kw_run run)
{
	if (segments->resting_count == segments->resting_capacity) {
		segments->resting_capacity =
			segments->resting_capacity ? 2 * segments->resting_capacity : 16;
		segments->resting = kw_realloc(
			segments->resting, segments->resting_capacity * sizeof *segments->resting);
	}
	segments->resting[segments->resting_count++] = run;
	segments->resting_granules += run.granules;
}

void kw_segments_retire_victims(struct kw_segments *segments, uint64_t until_us)
{
	size_t kept = 0;

	for (size_t i = 0; i < segments->count; i++) {
		struct kw_segment *segment = segments->all[i];
		struct kw_run run;

		if (!segment->victim) {
			segments->all[kept++] = segment;
			continue;
		}
		run = run_of(segments, segment);
		run.until_us = until_us;
		if (segment->capacity > 0)
			rest_run(segments, run);
		for (uint64_t g = 0; g < run.granules; g++)
			if (segments->owner[run.start + g] == segment)
				segments->owner[run.start + g] = NULL;
		free(segment);
	}
	segments->count = kept;
}

void kw_segments_wake(struct kw_segments *segments, uint64_t now_us, uint64_t most)
{
	size_t woken = 0;

	while (woken < segments->resting_count && (segments->resting[woken].until_us <= now_us ||
							  segments->resting_granules > most)) {
		segments->resting_granules -= segments->resting[woken].granules;
		free_run(segments, segments->resting[woken]);
		woken++;
	}
	if (woken == 0)
		return;
	segments->resting_count -= woken;
	memmove(segments->resting, segments->resting + woken,
		segments->resting_count * sizeof *segments->resting);
}

/* The last piece of a free run, up to `end`, that the system does not have yet; false: none. */
static bool last_kept(const struct kw_segments *segments, const struct kw_run *run, uint64_t end,
	struct kw_run *kept)
{
	uint64_t start;

	while (end > run->start && segments->given[end - 1])
		end--;
	for (start = end; start > run->start && !segments->given[start - 1];)
		start--;
	*kept = (struct kw_run){start, end - start, 0};
	return end > start;
}

/* Give back the end of a piece, at most `most` granules of it. */
static bool give_piece(struct kw_segments *segments, struct kw_run kept, uint64_t most)
{
	const struct kw_table_memory *memory = segments->memory;

	if (kept.granules > most) {
		kept.start += kept.granules - most;
		kept.granules = most;
	}
	assert(kept.granules > 0 && kept.start + kept.granules <= segments->frontier);
	if (!memory->give_back(memory->arg,
		    segments->data_offset + kept.start * segments->granule_bytes,
		    kept.granules * segments->granule_bytes)) {
		segments->keeps_all = true;
		return false;
	}
	memset(segments->given + kept.start, 1, kept.granules);
	segments->given_granules += kept.granules;
	assert(segments->given_granules <= segments->free_granules);
	return true;
}

void kw_segments_give_back(struct kw_segments *segments, uint64_t keep, uint64_t most)
{
	uint64_t target = segments->given_granules + most;

	if (segments->keeps_all || kw_segments_kept(segments) <= keep)
		return;
	if (target > segments->free_granules - keep)
		target = segments->free_granules - keep;
	for (size_t i = segments->free_count; i-- > 0;) {
		const struct kw_run *run = &segments->free[i];
		uint64_t end = run->start + run->granules;
		struct kw_run kept;

		while (segments->given_granules < target && last_kept(segments, run, end, &kept)) {
			if (!give_piece(segments, kept, target - segments->given_granules))
				return;
			end = kept.start;
		}
	}
}

void kw_segments_free_victims_early(struct kw_segments *segments)
{
	for (size_t i = 0; i < segments->count; i++) {
		struct kw_segment *segment = segments->all[i];

		if (!segment->victim || segment->capacity == 0)
			continue;
		free_run(segments, run_of(segments, segment));
		segment->capacity = segment->committed = 0;
	}
}
