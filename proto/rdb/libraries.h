/*
 * The function libraries of a server, as FUNCTION DUMP tells them.
 *
 *   { F5 code } … │ RDB version, 2 bytes │ CRC64 of all before, 8 bytes
 *
 * A server writes equal sets in different ways: in the order of a hash table, packed or plain, and
 * with the version of its own RDB. Here a set is in the order of its names, and written plain. So
 * equal sets have equal bytes, but for the footer.
 *
 * An agent keeps its cursor in a library of its server (agent/local/cursor.h). It speaks of that
 * server's data alone, so it is left out of every set: whoever reads or writes a set never sees it,
 * and never replaces or deletes it.
 *
 * Pure. Memory is taken for `most` bytes of code, and for one packed string: KW_PAYLOAD_EXPANSION
 * times the payload at most (payload.h). Any thread.
 */
#ifndef KW_RDB_LIBRARIES_H
#define KW_RDB_LIBRARIES_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A set of more libraries is refused: each of them is at least a line. */
#define KW_LIBRARIES_MAX 4096

/* Stands before each of them, also in a snapshot: the servers' rdb.h. */
#define KW_LIBRARY_OPCODE 245

struct kw_library {
	struct kw_slice name; /* letters, digits and '_'; a part of code */
	struct kw_slice code;
};

/* Zeroed memory is an empty set. */
struct kw_libraries {
	struct kw_library *all; /* by rising name */
	size_t count;
	struct kw_library *cursors; /* of agents: left out of the set */
	size_t cursor_count;
	struct kw_buffer text; /* what the slices above point into */
};

/*
 * Take the payload apart into *libraries, which is zero; it must be closed in either case.
 * KW_E_CORRUPT: it does not verify, or holds anything but libraries with names that differ.
 * KW_E_FULL: more than `most` bytes of code, or than KW_LIBRARIES_MAX. KW_E_NOMEM. The payload may
 * be of any version: how libraries are written has not changed since there are any.
 */
int kw_libraries_read(
	struct kw_libraries *libraries, struct kw_slice dump, size_t most, struct kw_error *error);
void kw_libraries_close(struct kw_libraries *libraries);

struct kw_payload_input;

/* The next library of a payload: its code, until the next is taken. Errors as payload_input.h. */
int kw_libraries_next(struct kw_payload_input *input, struct kw_slice *code);

/* Is it the payload of no library? It is the footer alone, too short for a value's payload. */
bool kw_libraries_is_empty(struct kw_slice dump);

/* The library of this name; NULL: the set has none. Cursors are not looked at. */
const struct kw_library *kw_libraries_find(
	const struct kw_libraries *libraries, struct kw_slice name);

/* Has a cursor this name? */
bool kw_libraries_has_cursor(const struct kw_libraries *libraries, struct kw_slice name);

/* Equal for equal sets, whatever server wrote them. */
struct kw_hash128 kw_libraries_digest(const struct kw_libraries *libraries);

/*
 * A payload for FUNCTION RESTORE, appended to out: begin, one call for each library, end. All of
 * them are in the payload that begins at the buffer's present end.
 */
void kw_libraries_put(struct kw_slice code, struct kw_buffer *out);
void kw_libraries_end(uint16_t rdb_version, size_t begun_at, struct kw_buffer *out);

/* The whole set so. */
void kw_libraries_write(
	const struct kw_libraries *libraries, uint16_t rdb_version, struct kw_buffer *out);

/*
 * The name that a library's first line gives it, "#!lua name=NAME …" with or without quotes. False:
 * it gives none.
 */
bool kw_library_name(struct kw_slice code, struct kw_slice *name);

/* Is it a cursor, of any version? By the shape of its code: a later agent may say more in it. */
bool kw_library_is_cursor(struct kw_slice code);

#endif
