/*
 * The last lines of a log, in a fixed piece of memory. The oldest lines make room for a new one.
 *
 *   bytes    │ w t │ w t │ ... │ w t │ free │      `where` and `text` of a line, as two strings
 *   places   number modulo KW_LOG_RING_LINES: where a line stands, its time and its level
 *
 * A line stands in one piece. If it does not fit behind the newest one, it goes to the beginning,
 * and the lines in the rest at the end are forgotten with those that it overwrites.
 *
 * Pure; the caller locks.
 */
#ifndef KW_BASE_LOG_RING_H
#define KW_BASE_LOG_RING_H

#include "base/log.h"

#include <stddef.h>

#define KW_LOG_RING_BYTES ((size_t)128 << 10)
#define KW_LOG_RING_LINES 1024

struct kw_log_place {
	uint64_t at_us;
	enum kw_log_level level;
	uint32_t offset, length; /* of both strings, with their terminators */
};

/* Zeroed: no line yet. */
struct kw_log_ring {
	uint64_t last;  /* number of the newest line; the first one ever has the number 1 */
	uint32_t count; /* lines that are kept, up to `last` */
	char bytes[KW_LOG_RING_BYTES];
	struct kw_log_place places[KW_LOG_RING_LINES];
};

/* Longer strings are cut to KW_LOG_WHERE and KW_LOG_TEXT. */
void kw_log_ring_add(struct kw_log_ring *ring, uint64_t now_us, enum kw_log_level level,
	const char *where, const char *text);

/* The first line that is kept, from this number on; false: there is none yet. */
bool kw_log_ring_get(const struct kw_log_ring *ring, uint64_t from, struct kw_log_line *line);

#endif
