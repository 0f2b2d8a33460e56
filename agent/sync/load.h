/*
 * Watching a snapshot that replaces all local data at once. While the server loads it, it reads its
 * link and answers no client until more comes. So a load never waits for a cause that can last: it
 * is given up, and the server keeps the data that it had before.
 *
 *   - Nothing was read for KW_LOAD_IDLE_US, although the server waits for more.
 *   - The snapshot lost a segment: it lacks keys until the tail has brought them, and the old data
 *     are better than that. If the primary overtakes KW_LOAD_GIVEN_UP_MAX snapshots in a row, the
 *     next one is taken as it is.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_SYNC_LOAD_H
#define KW_AGENT_SYNC_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define KW_LOAD_IDLE_US 10000000
#define KW_LOAD_GIVEN_UP_MAX 3

struct kw_load_watch {
	uint64_t bytes;    /* that the reader had read, ever, when it was looked at last */
	uint64_t moved_us; /* our clock when that last grew, or the server had no room */
	uint64_t vanished; /* segments, ever, when the snapshot began */
};

void kw_load_begin(struct kw_load_watch *watch, uint64_t bytes, uint64_t vanished, uint64_t now_us);

/*
 * Does the server wait for data that do not come? Ask repeatedly. room: bytes that it would take
 * now. A slow server has none, and does not wait for us. Bytes that the filter leaves out count,
 * too.
 */
bool kw_load_is_stuck(struct kw_load_watch *watch, uint64_t bytes, uint64_t room, uint64_t now_us);

/* Has the snapshot lost a segment since it began? */
static inline bool kw_load_is_incomplete(const struct kw_load_watch *watch, uint64_t vanished)
{
	return vanished != watch->vanished;
}

/* Should an incomplete one be given up? given_up: in a row; keys: that the server has of before. */
static inline bool kw_load_gives_up(uint32_t given_up, uint64_t keys)
{
	return keys > 0 && given_up < KW_LOAD_GIVEN_UP_MAX;
}

#endif
