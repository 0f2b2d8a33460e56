/*
 * The index: from a key's hash to the place of its newest record, in remotely readable memory.
 *
 * Open addressing over one array that stays in the order of the hashes: home(h) = h * slots >> 64.
 * Growing by a quarter therefore moves every entry upwards and keeps the order. So it is done in
 * place, a few slots at every insert, from the top down:
 *
 *   slots        |####.##.###.####.##.#|
 *   grown_slots  |####.##.###.#...........####..##.#.|
 *                 below boundary: home by slots  above: home by grown_slots
 *
 * No pause, no second array: 16 bytes an entry at a load of 0.68 to 0.85. Inserting moves nothing;
 * removing and growing do, and make `moves` odd meanwhile, and the number of each stripe of hashes
 * that they move (layout.h says what a reader does).
 *
 * The index knows hashes and places only; comparing keys is the caller's. One thread.
 */
#ifndef KW_PROXY_INDEX_H
#define KW_PROXY_INDEX_H

#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_index {
	struct kw_index_root *root;
	struct kw_index_slot *slots; /* of root->offset */
	uint64_t reserve_slots;      /* addresses there are */
	uint64_t limit_slots;        /* memory that may be used now, overflow included */
	uint64_t entries;
	struct kw_index_slot *scratch; /* entries on the move */
	uint64_t scratch_slots;
	uint64_t *stripes; /* moves by stripe of the hash; NULL: not counted */
};

/* Slots of a new index, and after the end of every one. */
#define KW_INDEX_FIRST_SLOTS 1024
#define KW_INDEX_OVERFLOW 1024

void kw_index_init(struct kw_index *index, struct kw_index_root *root, struct kw_index_slot *slots,
	uint64_t offset, uint64_t reserve_slots, uint64_t hash_seed);
void kw_index_close(struct kw_index *index);

/*
 * The index that a process before left in this memory, `slots_there` of it. False: the root is not
 * one that this program writes, or entries were on the move. The entries are not looked at: the
 * caller counts them.
 */
bool kw_index_resume(struct kw_index *index, struct kw_index_root *root,
	struct kw_index_slot *slots, uint64_t *stripes, uint64_t offset, uint64_t slots_there);

/* Count moves by stripe, too: KW_INDEX_STRIPES of them, which readers see. Once, before any insert.
 */
void kw_index_count_stripes(struct kw_index *index, uint64_t *stripes);

/* The first slot where this hash may stand; go on with kw_index_next while it is not NULL. */
struct kw_index_slot *kw_index_first(const struct kw_index *index, uint64_t hash);
struct kw_index_slot *kw_index_next(
	const struct kw_index *index, struct kw_index_slot *slot, uint64_t hash);

/* A lookup of this hash comes soon. */
void kw_index_prefetch(const struct kw_index *index, uint64_t hash);

/* Slots wanted before the next insert, overflow included: more than limit_slots asks for memory. */
uint64_t kw_index_wanted(const struct kw_index *index);

/* False: no free slot within reach (the memory limit keeps the index from growing). */
bool kw_index_insert(struct kw_index *index, uint64_t hash, uint64_t place);
void kw_index_set(struct kw_index_slot *slot, uint64_t place);
void kw_index_remove(struct kw_index *index, struct kw_index_slot *slot);

/* Walk all entries: the slot at or after *cursor that is in use, or NULL at the end. */
struct kw_index_slot *kw_index_walk(const struct kw_index *index, uint64_t *cursor);

/* Slots in use as memory: what the array takes at present, overflow included. */
uint64_t kw_index_memory_slots(const struct kw_index *index);

static inline uint64_t kw_place_make(uint64_t offset, uint64_t length)
{
	uint64_t units = (length + 15) / 16;

	if (units > KW_PLACE_LENGTH_MAX)
		units = KW_PLACE_LENGTH_MAX;
	return offset / KW_RECORD_ALIGN | units << KW_PLACE_OFFSET_BITS;
}

static inline uint64_t kw_place_offset(uint64_t place)
{
	return (place & ((UINT64_C(1) << KW_PLACE_OFFSET_BITS) - 1)) * KW_RECORD_ALIGN;
}

#endif
