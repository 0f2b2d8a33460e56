/*
 * A table as a reader sees it who may read a part of it only.
 *
 * Such a reader gets copies of bytes, never the memory. Superblock and history are copied as they
 * are, and the directory that counts without addresses and rkeys. In segments of the directory, a
 * record that the judge allows is copied up to its length, and one that it does not allow is
 * replaced by a hidden one: header with version and length, then zeros (record.h). All else is
 * zeros: the index, which tells whether a key exists, and bytes of segments that no superblock
 * covers yet.
 *
 * A READ can begin and end within a record. Its beginning is found by walking over the headers,
 * from the last ones that were seen or from the segment's first record. So a READ costs at most one
 * walk over a segment. The records up to the superblock's head never change, so their headers can
 * be trusted as long as the directory lists the segment. That is looked up again after the copy. If
 * there is another directory by then, the memory might have been recycled meanwhile: the copy is
 * thrown away and made anew.
 *
 * Pure: bytes in, bytes out. One thread, while another one writes the table.
 */
#ifndef KW_TABLE_REDACT_H
#define KW_TABLE_REDACT_H

#include "base/slice.h"
#include "table/view.h"

#include <stdbool.h>
#include <stdint.h>

/* A judge is given no more of a key than this. */
#define KW_REDACT_KEY_FRONT 512

struct kw_redact {
	const uint8_t *base;
	/* memcpy out of memory that is being written */
	void (*copy)(void *to, const void *from, size_t length);
	struct kw_superblock superblock; /* the last one seen */
	struct kw_view view;             /* its directory */
};

/* Where a record begins. Zeroed memory is none: no segment has the id 0. */
struct kw_redact_border {
	uint64_t epoch, segment, offset;
};

/* One reader: what it may see, and where it was. */
struct kw_redact_reader {
	/* May it see this key? Only the key's front is given. */
	bool (*allows)(void *arg, uint32_t database, struct kw_slice front);
	/* May it see that all keys of this database are gone? */
	bool (*allows_flush)(void *arg, uint32_t database);
	void *arg;
	struct kw_redact_border before, last; /* of the READ before and of the last one */
};

static inline void kw_redact_init(struct kw_redact *redact, const uint8_t *base,
	void (*copy)(void *to, const void *from, size_t length))
{
	*redact = (struct kw_redact){.base = base, .copy = copy};
}

void kw_redact_close(struct kw_redact *redact);

/*
 * What the reader may see of [offset, offset + length) of the memory file. False: the table changed
 * faster than it could be copied, and all of `out` is zeros.
 */
bool kw_redact_copy(struct kw_redact *redact, struct kw_redact_reader *reader, uint64_t offset,
	uint64_t length, uint8_t *out);

#endif
