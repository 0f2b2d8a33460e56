/*
 * The inside of the audit, shared by its parts:
 *
 *   audit.c     the states, the rounds, the pace, the end
 *   lanes.c     keys that are compared now, some at a time
 *   mend.c      suspects: second looks, and what is handed on to mend
 *   scan.c      the local keys
 *   link.c      the connection to the local server
 *   doubt.c     what the server tells of itself, and the causes that follow
 *
 * Databases and keys have the names of the table. They are exchanged at the two doors to the local
 * server: kw_ask_key (compare/ask.h), and scan.c.
 *
 * No other file includes this.
 */
#ifndef KW_AGENT_AUDIT_INTERNAL_H
#define KW_AGENT_AUDIT_INTERNAL_H

#include "audit.h"
#include "cover.h"
#include "proof.h"
#include "suspects.h"

#include "base/backoff.h"
#include "base/bucket.h"
#include "base/buffer.h"
#include "base/sm.h"
#include "compare/ask.h"
#include "follow/reads.h"
#include "index/digests.h"
#include "table/walk.h"

/* Keys that are compared at a time: so many questions to the local server are in flight. */
#define KW_AUDIT_LANES 16
/* A value counts as one key, and one more for each so many bytes. */
#define KW_AUDIT_KEY_BYTES 10240
/* Values in flight, as the index tells their sizes; one larger value is carried alone. */
#define KW_AUDIT_FLIGHT_BYTES (UINT64_C(4) << 20)
/*
 * The pace of the first round after a snapshot was compared with the digest index, if that is more:
 * keys that were passed over are looked at soon. Also of the first round of an agent that resumed,
 * because the index learns from it. It costs the local server some 3 % of a core.
 */
#define KW_AUDIT_COMPARED_RATE 5000
/* To see whether the table has a local key costs a fraction of a comparison. */
#define KW_AUDIT_LOCAL_KEYS 4

struct kw_lane {
	struct kw_audit *audit;
	bool busy;
	struct kw_audit_suspect *suspect; /* NULL: a key that is looked at for the first time */
	uint64_t bytes;                   /* about so many of a value */
	unsigned range;
	uint32_t database;
	struct kw_buffer key;
	struct kw_expected expected;
	uint64_t removals; /* of the index, before the table was asked */
};

enum kw_audit_link {
	KW_AUDIT_LINK_DOWN,
	KW_AUDIT_LINK_OPENING,
	KW_AUDIT_LINK_READY,
	KW_AUDIT_LINK_CLOSING,
};

/* A walk over the table: a block of entries, and where the next one begins. */
struct kw_audit_table {
	uint64_t epoch;
	uint64_t from, next; /* of the block; next UINT64_MAX: it is the last one */
	uint64_t began_us;   /* when the block was asked for */
	uint64_t retry_us;   /* ask for the next block not before */
	struct kw_index_slot *entries;
	size_t count, at, capacity;
	bool blocked; /* a block is there, not all of it handed out */
	bool over;    /* the last block is handed out */
};

/* A walk over the local keys. */
struct kw_audit_scan {
	struct kw_audit_scan_database {
		uint32_t local, table; /* its numbers */
	} * databases;
	size_t count, at, capacity;
	char cursor[24];
	bool asking;           /* an answer is awaited */
	bool begun;            /* `cursor` is of an answer of this database */
	bool over;             /* all keys were shown */
	struct kw_buffer keys; /* of databases[at]: a length of 4 bytes, and the key */
	struct kw_buffer name; /* of a key in the table, while it is looked at */
	uint32_t free_keys;    /* that the last token still pays for */
};

struct kw_audit {
	struct kw_audit_options options;
	struct kw_sm sm; /* enum kw_audit_state */
	uv_timer_t timer;
	bool timing; /* the timer runs */
	void (*done)(void *arg);
	void *done_arg;

	struct kw_reads reads;
	struct kw_walk *walk;
	struct kw_lookups *lookups; /* one for each lane */
	struct kw_lane lanes[KW_AUDIT_LANES];
	unsigned busy;         /* lanes */
	uint64_t flight_bytes; /* of all lanes */

	enum kw_audit_link link;
	struct kw_redis *redis;
	struct kw_ask ask;
	struct kw_buffer name; /* of a key in the local server, while it is looked at */
	struct kw_backoff backoff;
	uint64_t connect_us;            /* not before */
	char refusal[KW_AUDIT_REFUSAL]; /* of a question in this round; "": there was none */

	struct kw_audit_table table;
	struct kw_audit_scan scan;
	struct kw_suspects suspects;
	struct kw_proof proof;
	struct kw_cover cover;
	struct kw_causes causes;
	uint64_t snapshots; /* of the sync, as far as the causes know */
	struct kw_bucket bucket;
	uint64_t slot_end_us; /* full speed: jobs begin until then */
	uint64_t rest_us;     /* REST: the next round begins then */

	struct {
		bool full;                         /* at full speed, because of a cause */
		uint64_t told;                     /* causes, when it began */
		uint64_t doubts, compares, losses; /* of the index, when it began */
		uint64_t began_us;
		uint64_t differing; /* keys that differed */
		uint64_t deletes;   /* handed on */
		uint64_t keys;      /* local keys, when it began */
		uint64_t hopeless;  /* stay different, and too many to be kept (suspects.h) */
		uint64_t left;      /* keys that could not be compared */
	} round;
	uint64_t compares, losses; /* of the index, that whole rounds have looked at */
	uint64_t mending;          /* suspects whose mend is not proven yet */
	uint64_t hopeless; /* the same of the last whole round, until the next one is over */

	uint64_t rounds, compared, unsettled;
	uint64_t found[KW_AUDIT_KINDS], mended[KW_AUDIT_KINDS];
};

static inline enum kw_audit_state kw_audit_state(const struct kw_audit *audit)
{
	return (enum kw_audit_state)audit->sm.state;
}

static inline struct kw_local *kw_audit_local(const struct kw_audit *audit)
{
	return audit->options.sync->local;
}

/* audit.c: go on with all that can; give up what is under way, and wait in IDLE. */
void kw_audit_go(struct kw_audit *audit);
void kw_audit_abandon(struct kw_audit *audit, const char *why);
/*
 * Is the agent level, or nearly, and does nothing else hold the local server up? Also: may
 * something be handed on to it as a change?
 */
bool kw_audit_may_run(const struct kw_audit *audit);
/* Is the key one that is compared: followed, not our cursor, not in quarantine? */
bool kw_audit_wants(struct kw_audit *audit, uint32_t database, struct kw_slice key);
/*
 * May keys that stay different be tried again now? Not while a round ends: it waits for each that
 * is looked at, and one of many is always due.
 */
bool kw_audit_may_retry(const struct kw_audit *audit);
/*
 * May one more key be deleted in this round? False: they are more than apply.max_prune allows, and
 * a reconcile was begun, which judges all of them.
 */
bool kw_audit_may_delete(struct kw_audit *audit);

/* doubt.c: at each tick, what follows from a cause if the audit is off. */
void kw_audit_doubt(struct kw_audit *audit, uint64_t now_us);

/* A key or a field has expired if its time is over by our clock, or by that of the local server. */
uint64_t kw_audit_clock_ms(const struct kw_audit *audit);

/* lanes.c */
void kw_lanes_open(struct kw_audit *audit);
void kw_lanes_stop(struct kw_audit *audit);
void kw_lanes_close(struct kw_audit *audit);
/* One that is free; NULL: all are busy. */
struct kw_lane *kw_lane_take(struct kw_audit *audit);
void kw_lane_free(struct kw_lane *lane);
/* May the lane carry so much now? Then it counts until the lane is free. */
bool kw_lane_load(struct kw_lane *lane, uint64_t bytes);
/* Compare the key of an entry of the index; see whether the table has a local key. */
void kw_lane_entry(struct kw_lane *lane, const struct kw_index_slot *slot);
void kw_lane_local(struct kw_lane *lane, uint32_t database, struct kw_slice key);
/* Look a key of the lane up in the table. */
void kw_lane_look_up(struct kw_lane *lane, uint32_t database, struct kw_slice key, kw_lookup_fn fn);
/* The local server's side of the key that the lane is about. */
enum kw_verdict_of_key kw_lane_judge(const struct kw_lane *lane);
/* The lookup failed: the connection to the proxy is lost, or its table is none. True then. */
bool kw_lane_lost(struct kw_lane *lane, const struct kw_lookup_result *found);

/* mend.c: can a suspect go on? Then go on with it; forget all but those that stay; all of them. */
bool kw_mend_due(const struct kw_audit *audit);
bool kw_mend_next(struct kw_audit *audit, struct kw_lane *lane); /* false: not now */
void kw_mend_abandon(struct kw_audit *audit);
void kw_mend_forget(struct kw_audit *audit);
/* The key of this lane differed: it is a suspect from now on. Its range stays open. */
void kw_mend_suspect(struct kw_audit *audit, const struct kw_lane *lane, struct kw_slice key);

/* scan.c */
void kw_scan_begin(struct kw_audit *audit);
void kw_scan_step(struct kw_audit *audit); /* ask for more keys, if none are left */
/* The next key; false: there is none now. Valid until it is said to be taken. */
bool kw_scan_next(struct kw_audit *audit, uint32_t *database, struct kw_slice *key);
void kw_scan_taken(struct kw_audit *audit, struct kw_slice key);
void kw_scan_close(struct kw_audit_scan *scan);

/* link.c: connect if it is time; close; the server answers what it should not. */
void kw_audit_connect(struct kw_audit *audit, uint64_t now_us);
void kw_audit_disconnect(struct kw_audit *audit);
void kw_audit_refused(struct kw_audit *audit, const char *command, const struct kw_reply *reply);

#endif
