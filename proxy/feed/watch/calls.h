/*
 * Calls of commands that change keys and raise no event for it, as INFO commandstats counts them:
 * what was called between two looks, or might have been.
 *
 * CONFIG RESETSTAT wipes the counters. Our own calls of INFO show that: there are fewer than we
 * asked (redis/counters.h). The first look at a connection has nothing to compare with.
 *
 * Pure. Zeroed memory is one before its first look. Times are of the monotonic clock.
 */
#ifndef KW_PROXY_FEED_WATCH_CALLS_H
#define KW_PROXY_FEED_WATCH_CALLS_H

#include "base/slice.h"
#include "feed/watch/silent.h"
#include "redis/counters.h"

#include <stdbool.h>
#include <stdint.h>

/* The counters. */
enum kw_call {
	KW_CALL_SWAPDB,
	KW_CALL_XACK,
	KW_CALL_XREADGROUP,
	KW_CALL_XCLAIM,
	KW_CALL_XAUTOCLAIM,
	KW_CALL_PFCOUNT,
	KW_CALL_PFDEBUG,
	KW_CALL_VADD,
	KW_CALL_VREM,
	KW_CALL_VSETATTR,
	KW_CALL_DEBUG,
	KW_CALLS
};

struct kw_calls {
	struct kw_counter counters[KW_CALLS];
	struct kw_counter infos; /* of all clients, ours among them: shows resets */
	uint64_t resets;         /* of the server's counters, ever */
	uint64_t infos_looked;   /* ours before the last look */
	uint64_t debugged_us;    /* when DEBUG was last seen called; 0: never */
};

struct kw_calls_found {
	bool first;                  /* nothing to compare with: nothing else is found */
	bool reset;                  /* the counters were wiped since the last look */
	bool any;                    /* one of the commands was called, or might have been */
	bool swapped, may_have_been; /* SWAPDB was called; or its counter was wiped */
	bool kinds[KW_SILENT_KINDS]; /* keys of these kinds might have changed */
};

/*
 * first: of a connection. infos: how often we asked INFO before this one, ever. vectors: does the
 * server have vector sets?
 */
struct kw_calls_found kw_calls_look(struct kw_calls *calls, struct kw_slice commandstats,
	bool first, uint64_t infos, bool vectors, uint64_t now_us);

/* Was DEBUG called since the last look, or did a look of the last `recent_us` see it called? */
bool kw_calls_debugged(const struct kw_calls *calls, struct kw_slice commandstats,
	uint64_t recent_us, uint64_t now_us);

#endif
