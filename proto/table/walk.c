#include "table/walk.h"

#include "base/buffer.h"
#include "table/view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 16
/* No place in a table has a higher address (layout.h), so no index is larger. */
#define INDEX_OFFSET_MAX ((UINT64_C(1) << KW_PLACE_OFFSET_BITS) * KW_RECORD_ALIGN)
#define INDEX_SLOTS_MAX (INDEX_OFFSET_MAX / sizeof(struct kw_index_slot))

enum phase {
	PHASE_IDLE,
	PHASE_ROOT,
	PHASE_SLOTS,
	PHASE_CONFIRM, /* the root again: did the index stand still meanwhile? */
};

struct kw_walk {
	struct kw_walk_io io;
	enum phase phase;
	bool reading; /* a READ is out */
	bool stopped; /* and what it brings is not wanted any more */
	kw_walk_fn fn;
	void *arg;
	uint32_t tries;
	uint64_t from;
	struct kw_index_root root;  /* verified, when `known` */
	struct kw_index_root fresh; /* a READ ends here */
	bool known;
	struct kw_index_slot *slots;
	size_t capacity;
	uint64_t position; /* of slots[0] in the index */
	size_t count;      /* slots read */
};

struct kw_walk *kw_walk_new(const struct kw_walk_io *io)
{
	struct kw_walk *walk = kw_zalloc(sizeof *walk);

	walk->io = *io;
	walk->capacity = KW_WALK_SLOTS;
	walk->slots = kw_alloc(walk->capacity * sizeof *walk->slots);
	return walk;
}

void kw_walk_free(struct kw_walk *walk)
{
	if (!walk)
		return;
	free(walk->slots);
	free(walk);
}

bool kw_walk_busy(const struct kw_walk *walk)
{
	return walk->reading || walk->phase != PHASE_IDLE;
}

void kw_walk_stop(struct kw_walk *walk)
{
	walk->phase = PHASE_IDLE;
	walk->stopped = walk->reading;
	walk->known = false;
}

static void post(
	struct kw_walk *walk, enum phase phase, uint64_t offset, uint64_t length, void *buffer)
{
	walk->phase = phase;
	walk->reading = true;
	walk->io.read(walk->io.arg, walk, offset, length, buffer);
}

static void read_root(struct kw_walk *walk, enum phase phase)
{
	post(walk, phase, KW_INDEX_ROOT_OFFSET, sizeof walk->fresh, &walk->fresh);
}

static void finish(
	struct kw_walk *walk, const struct kw_walk_block *block, const struct kw_error *error)
{
	walk->phase = PHASE_IDLE;
	if (error)
		walk->known = false;
	walk->fn(walk->arg, block, error);
}

/* May it be tried once more? Ends the block otherwise. */
static bool try_again(struct kw_walk *walk, enum kw_code code, const char *why)
{
	struct kw_error error;

	if (++walk->tries < TRIES)
		return true;
	kw_error_set(&error, code, "walk: %s, still so after %u tries", why, walk->tries);
	finish(walk, NULL, &error);
	return false;
}

/* Read the root again, and all that follows from it. */
static void start_over(struct kw_walk *walk, enum kw_code code, const char *why)
{
	walk->known = false;
	if (try_again(walk, code, why))
		read_root(walk, PHASE_ROOT);
}

/* ---- hashes and their homes ---- */

static uint64_t home(const struct kw_index_root *root, uint64_t hash)
{
	uint64_t slots = hash >= root->boundary ? root->grown_slots : root->slots;

	return (uint64_t)((unsigned __int128)hash * slots >> 64);
}

/* The smallest hash whose home is `slot` or above; UINT64_MAX: there is none. */
static uint64_t lowest_hash(const struct kw_index_root *root, uint64_t slot)
{
	const unsigned __int128 all = (unsigned __int128)slot << 64;
	unsigned __int128 old = (all + root->slots - 1) / root->slots;
	unsigned __int128 grown = (all + root->grown_slots - 1) / root->grown_slots;

	if (old < root->boundary)
		return (uint64_t)old;
	if (grown < root->boundary)
		grown = root->boundary;
	return grown < UINT64_MAX ? (uint64_t)grown : UINT64_MAX;
}

/* ---- a block ---- */

static void read_slots(struct kw_walk *walk)
{
	const struct kw_index_root *root = &walk->root;
	uint64_t end = root->grown_slots + root->overflow;

	walk->position = home(root, walk->from);
	walk->count = walk->capacity;
	if (end - walk->position < walk->count)
		walk->count = (size_t)(end - walk->position);
	post(walk, PHASE_SLOTS, root->offset + walk->position * sizeof *walk->slots,
		walk->count * sizeof *walk->slots, walk->slots);
}

/* No free slot among them: the entries of one run of slots must be read together. */
static void read_more(struct kw_walk *walk)
{
	if (walk->capacity >= KW_WALK_SLOTS_MAX) {
		start_over(walk, KW_E_STATE, "the index has no free slot within reach");
		return;
	}
	walk->capacity *= 2;
	walk->slots = kw_realloc(walk->slots, walk->capacity * sizeof *walk->slots);
	read_slots(walk);
}

/* The slots after the last free one that was read; 0: none is free. */
static size_t covered(const struct kw_walk *walk)
{
	size_t count = walk->count;

	while (count > 0 && walk->slots[count - 1].place != 0)
		count--;
	return count;
}

/* Keep the entries of the range, at the front of the array. */
static size_t sort_out(struct kw_walk *walk, size_t slots, uint64_t next)
{
	size_t kept = 0;

	for (size_t i = 0; i < slots; i++) {
		const struct kw_index_slot *slot = &walk->slots[i];

		if (slot->place != 0 && slot->hash >= walk->from && slot->hash < next)
			walk->slots[kept++] = *slot;
	}
	return kept;
}

static void hand_out(struct kw_walk *walk)
{
	bool last = walk->position + walk->count == walk->root.grown_slots + walk->root.overflow;
	size_t slots = last ? walk->count : covered(walk);
	struct kw_walk_block block = {
		.entries = walk->slots,
		.hash_seed = walk->root.hash_seed,
		.from = walk->from,
		.next = UINT64_MAX,
	};

	if (slots == 0) {
		read_more(walk);
		return;
	}
	if (!last)
		block.next = lowest_hash(&walk->root, walk->position + slots);
	assert(block.next > block.from);
	block.count = sort_out(walk, slots, block.next);
	finish(walk, &block, NULL);
}

/* ---- READs ---- */

static bool is_root(const struct kw_index_root *root)
{
	return !kw_index_root_check(root, NULL) && root->grown_slots <= INDEX_SLOTS_MAX &&
	       root->offset <= INDEX_OFFSET_MAX;
}

static void on_root(struct kw_walk *walk)
{
	if (!is_root(&walk->fresh)) {
		start_over(walk, KW_E_CORRUPT, "the index root does not verify");
		return;
	}
	if (walk->fresh.moves % 2 != 0) {
		start_over(walk, KW_E_STATE, "the index is being rearranged");
		return;
	}
	walk->root = walk->fresh;
	walk->known = true;
	read_slots(walk);
}

static void on_confirm(struct kw_walk *walk)
{
	if (memcmp(&walk->fresh, &walk->root, sizeof walk->root) == 0)
		hand_out(walk);
	else if (try_again(walk, KW_E_STATE, "the index was being rearranged"))
		on_root(walk);
}

void kw_walk_begin(struct kw_walk *walk, uint64_t from, kw_walk_fn fn, void *arg)
{
	assert(!kw_walk_busy(walk) && from < UINT64_MAX);
	walk->fn = fn;
	walk->arg = arg;
	walk->from = from;
	walk->tries = 0;
	if (walk->known)
		read_slots(walk);
	else
		read_root(walk, PHASE_ROOT);
}

void kw_walk_complete(struct kw_walk *walk, const struct kw_error *error)
{
	assert(walk->reading);
	walk->reading = false;
	if (walk->stopped) {
		walk->stopped = false;
		return;
	}
	if (error) {
		finish(walk, NULL, error);
		return;
	}
	switch (walk->phase) {
	case PHASE_ROOT:
		on_root(walk);
		break;
	case PHASE_SLOTS:
		read_root(walk, PHASE_CONFIRM);
		break;
	case PHASE_CONFIRM:
		on_confirm(walk);
		break;
	case PHASE_IDLE:
		break;
	}
}
