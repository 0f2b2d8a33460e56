/*
 * How a table is seen from outside: superblock, index root and directory are verified here and
 * nowhere else. Writers seal them here too.
 *
 * Three answers tell what a caller can do:
 *   KW_E_CORRUPT   torn, damaged or contradictory: read it again, a bounded number of times
 *   KW_E_GONE      whole, but another publication than the superblock names: read both again
 *   KW_E_PROTOCOL  whole, but no proxy of this layout writes such bytes: reading again is no use
 *
 * A superblock is torn when its checksum fails. Once the checksum holds, a value that no proxy of
 * this layout writes is PROTOCOL. The directory is CORRUPT in that case: it was found through a
 * pointer, which can have led to the wrong place.
 *
 * Everything but struct kw_view is a pure function over bytes, for any thread. `error` may be NULL.
 */
#ifndef KW_TABLE_VIEW_H
#define KW_TABLE_VIEW_H

#include "base/error.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A larger directory is refused: a reader would have to allocate it. */
#define KW_DIRECTORY_BYTES_MAX (UINT32_C(256) << 20)

void kw_superblock_seal(struct kw_superblock *superblock);

/*
 * Checksum, magic, layout version; the epoch, the directory's place and size, and the head's end,
 * as a proxy can write them. source_state is not checked: a later proxy might know more states.
 */
int kw_superblock_check(const struct kw_superblock *superblock, struct kw_error *error);

void kw_index_root_seal(struct kw_index_root *root);
int kw_index_root_check(const struct kw_index_root *root, struct kw_error *error);

/* A directory that was verified; pointers into the bytes it was parsed from. */
struct kw_directory {
	const struct kw_directory_header *header;    /* NULL: there is none */
	const struct kw_directory_segment *segments; /* ascending id */
	const struct kw_extent *extents;             /* ascending offset */
};

/*
 * Verify `length` bytes (8-byte aligned) as the directory that the superblock names. The checksum
 * and the counts against the bytes must hold; epoch and publication must be the superblock's.
 * Extents ascend without overlap. Segments are aligned and within extents, their ids ascend, and
 * there is room for the superblock's head.
 *
 * Segments can overlap in a forged directory. That does no harm: the checksum of a record binds it
 * to one segment and one offset.
 */
int kw_directory_parse(const void *bytes, size_t length, const struct kw_superblock *superblock,
	struct kw_directory *directory, struct kw_error *error);
void kw_directory_seal(struct kw_directory_header *header);

/*
 * Is this verified directory the one that this verified superblock names? KW_OK: they are a pair.
 * KW_E_GONE: the superblock names another. KW_E_CORRUPT: it is that one, but has no room for the
 * superblock's head.
 */
int kw_directory_match(const struct kw_directory *directory, const struct kw_superblock *superblock,
	struct kw_error *error);

/* The segment with this id, or NULL: it was cleaned. */
const struct kw_directory_segment *kw_directory_find(
	const struct kw_directory *directory, uint64_t id);

/* Does [offset, offset + length) lie within the directory's extents (of adjoining ones too)? */
bool kw_directory_covers(const struct kw_directory *directory, uint64_t offset, uint64_t length);

/*
 * The directory that a reader knows, and memory for the READ of the next one.
 *
 *   match: KW_OK ───────────────▶ use view->directory
 *   match: KW_E_GONE ──▶ sink ──READ──▶ take ──▶ use view->directory
 *
 * The owner sets it to zero before use. One thread.
 */
struct kw_view {
	struct kw_directory directory; /* header NULL: none is known */
	uint8_t *known;                /* the bytes that directory points into */
	uint8_t *sink;                 /* the READ of the next one ends here */
	size_t known_capacity, sink_capacity;
};

/*
 * Memory for superblock->directory_bytes, 8-byte aligned, to READ the directory into. It stays
 * valid until the next sink, take or close. The superblock was checked.
 */
uint8_t *kw_view_sink(struct kw_view *view, const struct kw_superblock *superblock);

/*
 * Verify what the READ brought into the sink. KW_OK: it is the known directory from now on. Other
 * codes as kw_directory_parse; the directory known before stays.
 */
int kw_view_take(
	struct kw_view *view, const struct kw_superblock *superblock, struct kw_error *error);

/* No directory is known any more: the next one must be read, whatever its publication. */
void kw_view_forget(struct kw_view *view);
void kw_view_close(struct kw_view *view);

#endif
