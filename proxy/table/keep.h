/*
 * Keeping a table over a restart of the proxy: the seal that a clean end puts into the memory file,
 * and the checks before the next process adopts it.
 *
 *   ┌──────┐ kw_table_adopt ┌──────┐ kw_table_seal, at the clean end ┌───────┐
 *   │ none │                │ OPEN │────────────────────────────────▶│ CLEAN │
 *   └──────┘                └──────┘◀────────────────────────────────└───────┘
 *                                              kw_table_adopt
 *
 * A table whose process was killed has no seal, or an open one: nobody knows which writes it was in
 * the middle of, so it is not adopted. An adopted table goes on in its epoch. Its readers go on
 * from their cursors, and find nothing to apply if nothing was written.
 *
 * A table is adopted however long ago it was sealed. Its age is no danger: nothing of it is said to
 * be fresh before the primary was compared with it, and no process but its own wrote to its epoch
 * meanwhile. A limit would go by a clock that can be set, and would cost a scan after a long
 * maintenance, which is the one that a kept table saves.
 *
 * Pure, as the rest of the table. One thread.
 */
#ifndef KW_PROXY_TABLE_KEEP_H
#define KW_PROXY_TABLE_KEEP_H

#include "base/error.h"
#include "table/layout.h"
#include "table/table.h"

#include <stdint.h>

#define KW_KEEP_MAGIC UINT32_C(0x31574b43) /* "CKW1" */
#define KW_KEEP_VERSION 1
#define KW_KEEP_CLEAN 1 /* nothing was written after the seal */
#define KW_KEEP_OPEN 2  /* a process has adopted the table, and writes it */

/* As it lies in the memory file. Only proxies read it. */
struct kw_keep_seal {
	uint32_t magic;
	uint32_t checksum; /* CRC32C of all that follows */
	uint32_t keep_version;
	uint32_t state;
	uint64_t epoch, publication; /* of the superblock that this seal was put beside */
	uint64_t reserve_bytes;      /* the layout, which must come to the same again */
	uint64_t segment_bytes, granule_bytes, index_offset, index_reserve;
	uint64_t frontier;        /* granules from here on were never used */
	uint64_t next_segment_id; /* ids below it were given already */
	uint64_t identity, scope; /* struct kw_keep_terms */
	uint64_t wall_us;         /* when it was sealed: for the log alone */
	uint32_t superblock;      /* checksum of the superblock */
	uint32_t reserved_word;
	uint64_t readers; /* struct kw_keep_terms; of an earlier version: 0 */
	uint8_t reserved[128];
};

static_assert(sizeof(struct kw_keep_seal) == 256, "");
static_assert(KW_KEEP_OFFSET + sizeof(struct kw_keep_seal) <= KW_INDEX_STRIPES_OFFSET, "it fits");

/* What must be as it was. */
struct kw_keep_terms {
	uint64_t identity; /* of the proxy: a hash of its name */
	uint64_t scope;    /* a hash of which keys are replicated at all */
	/*
	 * A hash of who may map the memory; 0: one who may not any more might still map it. With
	 * other readers the table is adopted all the same, in other memory (kw_keep_read_by).
	 */
	uint64_t readers;
};

/* Was this memory, which has more than a page, mapped by none but these? */
bool kw_keep_read_by(const uint8_t *base, uint64_t readers);

/* Publish what was written, and seal the table. Nothing is written to it from now on. */
void kw_table_seal(struct kw_table *table, const struct kw_keep_terms *terms, uint64_t wall_us);

/*
 * Go on with the table that stands in this memory. Of the options, epoch and hash_seed are ignored,
 * and segment_bytes 0 means: as it was. `extend` is called for each extent that the table had; here
 * the memory is not zero. Marks of a reconcile are those of before. The facts are those that were
 * published, except that the source is CONNECTING and nothing is fresh. The caller publishes.
 *
 * NULL: the table cannot be used. The sentence says why, and names the key that was changed. The
 * codes are KW_E_GONE (no clean seal), KW_E_CONFIG (other settings), KW_E_CORRUPT (damaged), and
 * those of `extend`. The memory must not be used for another table, either.
 */
struct kw_table *kw_table_adopt(const struct kw_table_options *options,
	const struct kw_table_memory *memory, const struct kw_keep_terms *terms,
	struct kw_error *error);

/* When an adopted table was sealed, by the wall clock of then. */
uint64_t kw_table_sealed_us(const struct kw_table *table);

#endif
