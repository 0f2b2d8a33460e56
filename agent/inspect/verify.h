/*
 * Verify: is the local server equal to the table?
 *
 *   ┌────────────┐ ready ┌──────────┐ all compared ┌──────┐ every key seen ┌────────┐ none left
 *   │ connecting │──────▶│ SNAPSHOT │─────────────▶│ SCAN │───────────────▶│ SETTLE │──────────▶
 *   └────────────┘       └──────────┘              └──────┘                └────────┘
 *                         the table, against        local keys that are     differences that are
 *                         DUMP and expiry           not in the table        still looked at again
 *
 * The table is read in one inspection run (run.h) and compared with the local server through a
 * connection of its own. The agent goes on following meanwhile, so both sides change. A difference
 * is therefore looked at again before it is reported. The key is looked up in the table, fetched
 * from the local server, and looked up again: three times, with a pause between. If its version
 * moved between the two lookups, the look says nothing, and the key is asked for again. A key that
 * moves each time is counted as unsettled.
 *
 * With a sample, a hash with a random seed chooses the keys. Local keys that the table does not
 * have are then not searched for (no SCAN).
 *
 * Bounded: what is in flight by bytes; differences that wait for another look by
 * KW_VERIFY_SUSPECTS_MAX (the snapshot waits then); names by KW_VERIFY_NAMES_MAX a list. Only the
 * search for extra keys needs memory by the number of keys: about 21 to 43 bytes each.
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_INSPECT_VERIFY_H
#define KW_AGENT_INSPECT_VERIFY_H

#include "follow/reads.h"
#include "keys/filter.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_VERIFY_NAMES_MAX 100
#define KW_VERIFY_NAME_BYTES 1024 /* longer keys are named by their beginning */
#define KW_VERIFY_SUSPECTS_MAX 10000
#define KW_VERIFY_PROGRESS_MS 200

struct kw_verify_progress {
	uint64_t keys; /* looked at so far, on either side */
	double share;  /* 0..1 of the snapshot, and then of the local keys; second looks come after
			*/
};

struct kw_verify_options {
	uv_loop_t *loop;
	kw_reads_remote_fn remote; /* the connection to the proxy; NULL while there is none */
	void *remote_arg;
	struct kw_redis_options redis;  /* the local server; password copied */
	bool pexpiretime;               /* it knows PEXPIRETIME (7.0); otherwise PTTL, to 2 s */
	const struct kw_filter *filter; /* outlives the verify */
	char cursor_key[256];           /* of database 0, ours: not compared; "": none */
	uint64_t sample;                /* about so many keys; 0: all, and local keys too many */
	/* Every KW_VERIFY_PROGRESS_MS, with fn's arg; NULL: not told. */
	void (*progress)(void *arg, const struct kw_verify_progress *so_far);
};

struct kw_verify_name {
	uint32_t database;
	struct kw_slice key;
};

/* Keys of one kind: all counted, the first ones named. */
struct kw_verify_list {
	uint64_t count;
	int named;
	struct kw_verify_name names[KW_VERIFY_NAMES_MAX];
};

struct kw_verify_result {
	uint64_t checked;                /* keys of the table that were compared */
	uint64_t equal;                  /* of them: the same value and the same expiry */
	uint64_t unsettled;              /* of them: they changed at each look */
	uint64_t scanned;                /* local keys that the search for extra keys looked at */
	uint64_t rechecked;              /* second looks taken */
	struct kw_verify_list different; /* another value, or another expiry */
	struct kw_verify_list missing;   /* in the table, not here */
	struct kw_verify_list extra;     /* here, not in the table */
	bool sampled;
	double seconds;
};

/*
 * The end: error NULL, and the result is whole; or the reason why it could not be done. result is
 * valid during the call. The verify is freed after it.
 */
typedef void (*kw_verify_fn)(
	void *arg, const struct kw_verify_result *result, const struct kw_error *error);

struct kw_verify;

/* KW_E_CONFIG: no such address. Nothing was begun then, and fn is not called. */
int kw_verify_start(const struct kw_verify_options *options, kw_verify_fn fn, void *arg,
	struct kw_verify **verify, struct kw_error *error);

/* End it; fn follows from the loop with KW_E_STATE and this sentence. */
void kw_verify_cancel(struct kw_verify *verify, const char *why);

/* Keys compared so far, for progress. */
uint64_t kw_verify_checked(const struct kw_verify *verify);

#endif
