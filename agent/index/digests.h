/*
 * The digest index: what this agent has put into the local server, as 16 bytes a key. A snapshot of
 * another table is compared with it, so that only differences reach the server.
 *
 *   from       to         when
 *   EMPTY      BUILDING   records are handed on, or compared
 *   BUILDING   SOUND      all keys of a snapshot, or of a round of the audit, are there
 *   SOUND      BUILDING   a snapshot begins, or a local key may have no entry
 *   both       DOUBTED    the local data may have changed without us
 *   DOUBTED    both       a round of the audit is over: as it was before the doubt; or a snapshot
 *   each       EMPTY      these are other data
 *   OFF        (stays)    there is to be no index
 *
 * An entry says: the last thing that was handed on for this key was this value with this expiry. It
 * is written before the record is handed on. The appliers keep the order, so what was handed on is
 * what the server holds in the end, unless one of the events below happens. Each of them is told,
 * and an entry is believed in BUILDING and SOUND only. SOUND says more: each local key has an
 * entry.
 *
 * A value of 63 bits is equal by chance once in 2^63 keys that differ; keys of 64 bits collide once
 * in 2^64 pairs. The hashes have a random seed. A value without a canonical digest (rdb/payload.h)
 * equals nothing, so it is always handed on. The time of a field of a hash takes part as it is.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_INDEX_DIGESTS_H
#define KW_AGENT_INDEX_DIGESTS_H

#include "shard.h"

#include "base/hash.h"
#include "base/sm.h"
#include "table/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_DIGESTS_SHARDS 256
/* Deletions that are remembered for comparisons under way. */
#define KW_DIGESTS_REMOVALS 256

enum kw_digests_state {
	KW_DIGESTS_OFF,
	KW_DIGESTS_EMPTY,    /* nothing is known */
	KW_DIGESTS_BUILDING, /* what is there is true, and keys are missing */
	KW_DIGESTS_SOUND,    /* every local key is there */
	KW_DIGESTS_DOUBTED,  /* the local server may have changed without us: nothing is believed */
};

/* How the local data can change, or be lost, without a record that was handed on. */
enum kw_digests_event {
	/* DOUBTED: some keys may be others now. */
	KW_DIGESTS_EVICTED, /* the server evicted keys */
	KW_DIGESTS_WRITTEN, /* other clients wrote */
	KW_DIGESTS_RESET,   /* the server's counts began anew: they do not tell of the two above */
	KW_DIGESTS_OWED,    /* values were passed over, because the server had no memory */
	KW_DIGESTS_SUSPECTED, /* the audit has a cause: a clock jumped, too many keys expired, … */
	KW_DIGESTS_DIFFERED,  /* the audit found a key that differs */
	KW_DIGESTS_UNAUDITED, /* there is no audit that would find what the counts do not tell */
	KW_DIGESTS_AGAIN, /* all is read again, and the cause does not say that the data are whole
			   */

	/* EMPTY: these are other data, or what was handed on is lost. */
	KW_DIGESTS_ASSESSED, /* another run or another server, or another agent wrote, or a flush */
	KW_DIGESTS_FLUSHED,  /* other clients flushed or swapped databases */
	KW_DIGESTS_LOST,     /* what was handed on is lost, or was refused on a replication link */
	KW_DIGESTS_REPLACED, /* a snapshot that replaces everything was given up */
	KW_DIGESTS_RESYNC,   /* the operator wants all of it */
};
#define KW_DIGESTS_EVENTS (KW_DIGESTS_RESYNC + 1)

struct kw_digests_database {
	struct kw_digests_shard shards[KW_DIGESTS_SHARDS];
	uint64_t keys;
};

struct kw_digests {
	struct kw_sm sm; /* enum kw_digests_state */
	uint64_t seed;
	struct kw_digests_database **databases; /* by number; NULL: none of its keys is there */
	uint32_t database_count;
	uint64_t keys, bytes;
	uint64_t mark;   /* of entries that the present snapshot has shown */
	uint64_t nonce;  /* of values that equal nothing */
	uint64_t doubts; /* events that ended in DOUBTED, ever */
	enum kw_digests_state doubted_from;
	uint64_t losses;                       /* times that it began EMPTY, or ended there */
	uint64_t removed[KW_DIGESTS_REMOVALS]; /* keys of the last deletions, a ring */
	uint64_t removals;                     /* so many were handed on, ever */
	uint64_t compares;                     /* snapshots that were compared, ever */
	uint64_t compared, differing;          /* their records */
};

/* Either OFF, for good, or EMPTY. seed: random. */
void kw_digests_init(struct kw_digests *index, bool on, uint64_t seed);
void kw_digests_close(struct kw_digests *index);

static inline enum kw_digests_state kw_digests_state(const struct kw_digests *index)
{
	return (enum kw_digests_state)index->sm.state;
}

static inline bool kw_digests_is_on(const struct kw_digests *index)
{
	return kw_digests_state(index) != KW_DIGESTS_OFF;
}

/* Are its entries true? */
static inline bool kw_digests_is_believed(const struct kw_digests *index)
{
	return kw_digests_state(index) == KW_DIGESTS_BUILDING ||
	       kw_digests_state(index) == KW_DIGESTS_SOUND;
}

/* ---- what happens to the local data ---- */

void kw_digests_tell(struct kw_digests *index, enum kw_digests_event event);
/* For the log. */
const char *kw_digests_event_text(enum kw_digests_event event);

/*
 * The value of this key was refused, or is in doubt: it equals nothing from now on. False: it has
 * no entry.
 */
bool kw_digests_disbelieve(struct kw_digests *index, uint32_t database, struct kw_slice key);

/* A whole round of the audit is over that began when `doubts` was this: all keys are equal. */
void kw_digests_proven(struct kw_digests *index, uint64_t doubts);

/* There may be a local key that has no entry: SOUND no more, until a snapshot is complete. */
void kw_digests_incomplete(struct kw_digests *index);

/* All keys of the local server were handed on, or compared, since it was empty. */
void kw_digests_complete(struct kw_digests *index);

/* ---- records ---- */

/*
 * A snapshot begins. compares: its records may be compared. If they cannot be, because the entries
 * are not believed, or must not be, it begins empty. Returns whether they are compared. Not OFF.
 */
bool kw_digests_begin(struct kw_digests *index, bool compares);

/* Changes, which are handed on after this call. In EMPTY, BUILDING begins. */
void kw_digests_note(struct kw_digests *index, const struct kw_record_view *records, size_t count);

/*
 * Records of a snapshot that is compared, at most KW_RECORD_BATCH_MAX. Returns the bits of those
 * that differ: they are noted, and must be handed on. Also in DOUBTED: the snapshot that follows
 * mends what this one passed over by mistake.
 */
uint64_t kw_digests_compare(
	struct kw_digests *index, const struct kw_record_view *records, size_t count);

/* A key that was compared: the local server holds what the table has. */
struct kw_digests_found {
	uint32_t database;
	struct kw_slice key;
	struct kw_hash128 digest; /* of the table's value */
	uint64_t expires_ms;
	uint64_t since; /* `removals` before the table was asked */
};

/*
 * Learn it, in EMPTY and BUILDING, if nothing was handed on for this key since the index is kept.
 * The table's record is no newer than what was handed on. A deletion that came while the key was
 * compared could still be on its way to the server: then nothing is learned.
 */
void kw_digests_learn(struct kw_digests *index, const struct kw_digests_found *found);

/*
 * Forget all keys that this snapshot, and what was noted since, has not shown. Before the first of
 * them is deleted: one that is deleted must not be believed to be there. Returns how many. If there
 * are any, the index is incomplete: they may still be there, until the prune is over.
 */
uint64_t kw_digests_sweep(struct kw_digests *index);

bool kw_digests_has(const struct kw_digests *index, uint32_t database, struct kw_slice key);

/* Keys of a database. */
uint64_t kw_digests_database_keys(const struct kw_digests *index, uint32_t database);

#endif
