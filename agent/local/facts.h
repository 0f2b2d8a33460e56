/*
 * What the local server says about itself: plain data from one answer to INFO, and the cursor that
 * was found in it. Conclusions are drawn in continuity.h, not here. No connection; any thread.
 */
#ifndef KW_AGENT_LOCAL_FACTS_H
#define KW_AGENT_LOCAL_FACTS_H

#include "base/slice.h"
#include "cursor.h"
#include "key_counts.h"
#include "keys/filter.h"
#include "redis/server.h"
#include "resets.h"
#include "writers.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct kw_local_facts {
	struct kw_server_identity identity;
	uint64_t keys; /* in the databases of the filter, of any name; without our cursor */
	uint64_t database_keys[KW_KEY_COUNTS_DATABASES]; /* the same by database of this server */
	uint64_t flushes;   /* calls of FLUSHALL, FLUSHDB and SWAPDB, our own among them */
	uint64_t functions; /* calls that can delete a function library, such as the cursor */
	struct kw_writers writers; /* calls by which other clients may have written */
	struct kw_resets signs;    /* they show when the counts began anew */
	uint64_t resets;           /* how often CONFIG RESETSTAT, or a restart, was seen */
	uint64_t maxmemory;
	char policy[32];       /* maxmemory_policy */
	uint64_t evicted;      /* keys that the server evicted (evicted_keys) */
	char master_host[256]; /* of a replica; "" for a master */
	uint64_t master_port;
	bool master_link_up;
	uint64_t clock_us; /* the server's wall clock (server_time_usec); 0: it does not say */
	uint64_t expired;  /* keys that expired there (expired_keys) */
	uint64_t expires;  /* keys with a TTL, in the databases of the filter */
	uint64_t refused;  /* commands of its primary that it refused (unexpected_error_replies) */
	char replid2[41];  /* the replication id before the present one; zeros: none */
	bool aof;          /* the server starts from an AOF, which keeps no replication id */
	bool vector_sets;  /* it has the module for them, which Redis 8 brings along */
	char module[64];   /* a module that makes it load through its disk; "": none */
	enum kw_cursor_kind cursor_kind;
	struct kw_local_cursor cursor; /* KW_CURSOR_OURS: as it was read, or written since */
};

/*
 * Fill in all that INFO (all sections) tells, except the identity and the cursor. Only the keys of
 * databases here in which the filter keeps keys are counted.
 */
void kw_facts_read(
	struct kw_local_facts *facts, struct kw_slice info, const struct kw_filter *filter);

/* The cursor is a key in database 0: it is not data. Take it out of the counts of keys. */
void kw_facts_leave_out_cursor_key(struct kw_local_facts *facts);

/* Does the server make room by evicting keys that it was given? */
bool kw_local_may_evict(const struct kw_local_facts *facts);

/* The replication ids made by agents begin with this: "keywa". */
#define KW_REPLID_MARK "6b65797761"

static inline bool kw_local_replid_ours(const char *replid)
{
	return strncmp(replid, KW_REPLID_MARK, sizeof KW_REPLID_MARK - 1) == 0;
}

#endif
