#include "table/index.h"

#include "base/buffer.h"
#include "table/record.h"
#include "table/view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Grow by a quarter at a load of 0.85; sweep so fast that the load stays below 0.9 meanwhile. */
#define GROW_AT_PERCENT 85
#define SWEEP_SLOTS 32
/* Without memory to grow into: beyond this, runs get so long that a lookup is no longer short. */
#define FULL_AT_PERCENT 96
/*
 * If memory came late, growth begins late and goes faster, but never at once: with 256 slots an
 * insert, it takes as many inserts as 0.4 % of the slots.
 */
#define LATE_AT_PERCENT 90
#define SWEEP_LATE_SLOTS 256
#define FULL_GROWING_AT_PERCENT 97

static uint64_t scale(uint64_t hash, uint64_t slots)
{
	return (uint64_t)((unsigned __int128)hash * slots >> 64);
}

static bool growing(const struct kw_index *index)
{
	return index->root->grown_slots != index->root->slots;
}

static uint64_t home(const struct kw_index *index, uint64_t hash)
{
	const struct kw_index_root *root = index->root;

	return scale(hash, hash >= root->boundary ? root->grown_slots : root->slots);
}

/* All ones is the boundary "nothing moved yet": no hash may reach it. */
static uint64_t usable(uint64_t hash)
{
	return hash == UINT64_MAX ? UINT64_MAX - 1 : hash;
}

static uint64_t end_slot(const struct kw_index *index)
{
	return index->root->grown_slots + KW_INDEX_OVERFLOW;
}

/* The stripes of hashes that a move can touch: both included. */
struct stripes {
	uint32_t first, last;
};

#define NO_STRIPE ((struct stripes){UINT32_MAX, 0})

static void touch(struct stripes *stripes, uint64_t hash)
{
	uint32_t stripe = kw_index_stripe(KW_INDEX_STRIPES, hash);

	if (stripe < stripes->first)
		stripes->first = stripe;
	if (stripe > stripes->last)
		stripes->last = stripe;
}

static void count_stripes(struct kw_index *index, struct stripes stripes)
{
	for (uint64_t i = stripes.first; index->stripes && i <= stripes.last; i++)
		__atomic_store_n(&index->stripes[i], index->stripes[i] + 1, __ATOMIC_RELAXED);
}

/* Readers must see `moves` odd before an entry moves, and even only after all are in place. */
static void moving(struct kw_index *index, struct stripes stripes)
{
	assert(index->root->moves % 2 == 0);
	index->root->moves++;
	kw_index_root_seal(index->root);
	count_stripes(index, stripes);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void moved(struct kw_index *index, struct stripes stripes)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	assert(index->root->moves % 2 == 1);
	index->root->moves++;
	kw_index_root_seal(index->root);
	/* The root says where the entries are before their stripes are even. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	count_stripes(index, stripes);
}

void kw_index_init(struct kw_index *index, struct kw_index_root *root, struct kw_index_slot *slots,
	uint64_t offset, uint64_t reserve_slots, uint64_t hash_seed)
{
	*index = (struct kw_index){.root = root, .slots = slots, .reserve_slots = reserve_slots};
	*root = (struct kw_index_root){
		.magic = KW_INDEX_MAGIC,
		.overflow = KW_INDEX_OVERFLOW,
		.offset = offset,
		.slots = KW_INDEX_FIRST_SLOTS,
		.grown_slots = KW_INDEX_FIRST_SLOTS,
		.hash_seed = hash_seed,
	};
	kw_index_root_seal(root);
}

/* Could this program have written it, with no entry on the move? */
static bool is_at_rest(
	const struct kw_index_root *root, const uint64_t *stripes, uint64_t slots_there)
{
	if (kw_index_root_check(root, NULL) || root->overflow != KW_INDEX_OVERFLOW ||
		root->stripes != KW_INDEX_STRIPES || root->moves % 2 != 0 ||
		root->grown_slots > slots_there ||
		KW_INDEX_OVERFLOW > slots_there - root->grown_slots)
		return false;
	if ((root->boundary == 0) != (root->grown_slots == root->slots))
		return false;
	for (int i = 0; i < KW_INDEX_STRIPES; i++)
		if (stripes[i] % 2 != 0)
			return false;
	return true;
}

bool kw_index_resume(struct kw_index *index, struct kw_index_root *root,
	struct kw_index_slot *slots, uint64_t *stripes, uint64_t offset, uint64_t slots_there)
{
	if (root->offset != offset || !is_at_rest(root, stripes, slots_there))
		return false;
	*index = (struct kw_index){.root = root, .slots = slots, .stripes = stripes};
	index->limit_slots = end_slot(index);
	return true;
}

void kw_index_count_stripes(struct kw_index *index, uint64_t *stripes)
{
	assert(index->entries == 0 && index->root->moves == 0);
	index->stripes = stripes;
	memset(stripes, 0, KW_INDEX_STRIPES * sizeof *stripes);
	index->root->stripes = KW_INDEX_STRIPES;
	kw_index_root_seal(index->root);
}

void kw_index_close(struct kw_index *index)
{
	free(index->scratch);
	index->scratch = NULL;
}

uint64_t kw_index_memory_slots(const struct kw_index *index)
{
	return end_slot(index);
}

struct kw_index_slot *kw_index_first(const struct kw_index *index, uint64_t hash)
{
	struct kw_index_slot *slot;

	hash = usable(hash);
	slot = &index->slots[home(index, hash)];
	if (slot->place == 0)
		return NULL;
	return slot->hash == hash ? slot : kw_index_next(index, slot, hash);
}

struct kw_index_slot *kw_index_next(
	const struct kw_index *index, struct kw_index_slot *slot, uint64_t hash)
{
	const struct kw_index_slot *end = index->slots + end_slot(index);

	hash = usable(hash);
	for (slot++; slot < end && slot->place != 0; slot++)
		if (slot->hash == hash)
			return slot;
	return NULL;
}

void kw_index_prefetch(const struct kw_index *index, uint64_t hash)
{
	const struct kw_index_slot *slot = &index->slots[home(index, usable(hash))];

	/* Runs are some slots long: the next cache line is needed as often as not. */
	__builtin_prefetch(slot, 1);
	__builtin_prefetch(slot + 4, 1);
}

static bool place_entry(struct kw_index *index, uint64_t hash, uint64_t place)
{
	uint64_t at = home(index, hash), end = end_slot(index);

	assert(place != 0 && hash != UINT64_MAX);
	while (at < end && index->slots[at].place != 0)
		at++;
	if (at == end)
		return false;
	index->slots[at].hash = hash;
	/* The place makes the entry valid: it goes last. */
	__atomic_store_n(&index->slots[at].place, place, __ATOMIC_RELEASE);
	return true;
}

uint64_t kw_index_wanted(const struct kw_index *index)
{
	uint64_t slots = index->root->slots;

	if (!growing(index) && index->entries + 1 > slots / 100 * GROW_AT_PERCENT)
		return slots + slots / 4 + KW_INDEX_OVERFLOW;
	return end_slot(index);
}

/* Are there as many entries as that share of the slots (while growing: of the old ones)? */
static bool loaded(const struct kw_index *index, unsigned percent)
{
	return index->entries >= index->root->slots / 100 * percent;
}

static void scratch_room(struct kw_index *index, uint64_t slots)
{
	if (slots <= index->scratch_slots)
		return;
	index->scratch_slots = slots * 2;
	index->scratch = kw_realloc(index->scratch, index->scratch_slots * sizeof *index->scratch);
}

/*
 * Lower the boundary by some slots: take out the runs of entries that reach into [from, old
 * boundary) and put each back by its new home. `from` has a free slot (or nothing) before it, so no
 * entry below is touched. The runs end at a free slot, so no entry above is touched either.
 */
static void sweep(struct kw_index *index)
{
	struct kw_index_root *root = index->root;
	uint64_t top =
		root->boundary == UINT64_MAX ? root->slots : scale(root->boundary, root->slots);
	uint64_t slots = loaded(index, LATE_AT_PERCENT) ? SWEEP_LATE_SLOTS : SWEEP_SLOTS;
	uint64_t from = top > slots ? top - slots : 0;
	uint64_t to = top, count = 0;
	struct stripes stripes = NO_STRIPE;

	while (from > 0 && index->slots[from - 1].place != 0)
		from--;
	while (to < end_slot(index) && index->slots[to].place != 0)
		to++;
	scratch_room(index, to - from);
	for (uint64_t at = from; at < to; at++)
		if (index->slots[at].place != 0)
			touch(&stripes, index->slots[at].hash);
	moving(index, stripes);
	for (uint64_t at = from; at < to; at++) {
		if (index->slots[at].place != 0)
			index->scratch[count++] = index->slots[at];
		index->slots[at] = (struct kw_index_slot){0};
	}
	/* The smallest hash whose home by the old size is `from` or above. */
	root->boundary =
		(uint64_t)((((unsigned __int128)from << 64) + root->slots - 1) / root->slots);
	if (root->boundary == 0)
		root->slots = root->grown_slots;
	for (uint64_t i = 0; i < count; i++) {
		bool placed = place_entry(index, index->scratch[i].hash, index->scratch[i].place);

		assert(placed); /* the entries were there before, in less room */
	}
	moved(index, stripes);
}

static void grow_some(struct kw_index *index)
{
	struct kw_index_root *root = index->root;
	uint64_t wanted = kw_index_wanted(index);

	if (!growing(index)) {
		if (wanted == end_slot(index) || wanted > index->limit_slots ||
			wanted > index->reserve_slots)
			return;
		moving(index, NO_STRIPE);
		root->boundary = UINT64_MAX;
		root->grown_slots = wanted - KW_INDEX_OVERFLOW;
		moved(index, NO_STRIPE);
	}
	sweep(index);
}

bool kw_index_insert(struct kw_index *index, uint64_t hash, uint64_t place)
{
	grow_some(index);
	if (loaded(index, growing(index) ? FULL_GROWING_AT_PERCENT : FULL_AT_PERCENT))
		return false;
	if (!place_entry(index, usable(hash), place))
		return false;
	index->entries++;
	return true;
}

void kw_index_set(struct kw_index_slot *slot, uint64_t place)
{
	__atomic_store_n(&slot->place, place, __ATOMIC_RELEASE);
}

/* Close the gap: entries after it that may stand in it move up. */
void kw_index_remove(struct kw_index *index, struct kw_index_slot *slot)
{
	uint64_t gap = (uint64_t)(slot - index->slots), end = end_slot(index);
	struct stripes stripes = NO_STRIPE;

	/* Up to the end of the run: no entry beyond it moves. */
	for (uint64_t at = gap; at < end && index->slots[at].place != 0; at++)
		touch(&stripes, index->slots[at].hash);
	moving(index, stripes);
	for (uint64_t at = gap + 1; at < end && index->slots[at].place != 0; at++) {
		if (home(index, index->slots[at].hash) > gap)
			continue;
		index->slots[gap] = index->slots[at];
		gap = at;
	}
	index->slots[gap] = (struct kw_index_slot){0};
	assert(index->entries > 0);
	index->entries--;
	moved(index, stripes);
}

struct kw_index_slot *kw_index_walk(const struct kw_index *index, uint64_t *cursor)
{
	uint64_t end = end_slot(index);

	while (*cursor < end && index->slots[*cursor].place == 0)
		(*cursor)++;
	return *cursor < end ? &index->slots[*cursor] : NULL;
}
