/*
 * The dirty set: which keys must be read again. Pure; the time is handed in.
 *
 *        add                take                    done
 *   ─────────▶ WAITING ───────────▶ IN FLIGHT ───────────────▶ (gone)
 *                 ▲ ▲  dirty again,  │   │  │
 *                 │ └──────done──────┘   │  └─park──▶ PARKED (no room in the table)
 *                 │                      │                │ add, unpark
 *                 │◀─────────────────────│────────────────┘
 *                 └─ its time came ── DELAYED
 *
 *   WAITING ── overtake ──▶ (gone)      IN FLIGHT ── overtake ──▶ its answer is not used
 *
 * Each (database, key) is in it once, however often it is added. So the number of distinct keys
 * bounds the set, not the rate of writes, and a hot key absorbs its own events. A key added while
 * it is in flight is fetched again, because its answer can be older than the event.
 *
 * WAITING is first in, first out. One thread.
 */
#ifndef KW_PROXY_KEYS_DIRTY_H
#define KW_PROXY_KEYS_DIRTY_H

#include "base/slice.h"
#include "keys/databases.h"
#include "keys/key_table.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_dirty_state {
	KW_DIRTY_WAITING,
	KW_DIRTY_FLYING,
	KW_DIRTY_DELAYED,
	KW_DIRTY_PARKED,
	KW_DIRTY_STATES,
};

#define KW_DIRTY_TTL 1u       /* its expiry must be read too, whatever is known of it */
#define KW_DIRTY_SCAN 2u      /* a scan waits for it: counted until it is done or parked */
#define KW_DIRTY_ROOM 4u      /* unpark let it go: counted until it is done or parked again */
#define KW_DIRTY_LOST 8u      /* the connection broke while it was in flight */
#define KW_DIRTY_EVENT 16u    /* an event named it */
#define KW_DIRTY_STALE 32u    /* it was added before kw_dirty_stale, and not since */
#define KW_DIRTY_COUNTED 64u  /* a sweep counted it as missing, and it may go */
#define KW_DIRTY_SUSPECT 128u /* the connection broke again while it was in flight */

struct kw_dirty_entry {
	struct kw_key key;
	struct kw_dirty_entry *next, *prev; /* in the list of its state; not when delayed */
	uint64_t since;                     /* sequence of the oldest add not yet answered */
	uint64_t again;                     /* sequence of the first add while in flight; 0: none */
	union {
		uint64_t until_us; /* delayed: not before */
		uint64_t bytes;    /* parked: what the table had no room for */
	};
	uint32_t place; /* in the heap of the delayed */
	uint8_t state;
	uint8_t flags;
	uint8_t again_flags;   /* of the adds while in flight */
	uint8_t strikes : 6;   /* the fetcher's: it broke the connection so often, alone */
	uint8_t watched : 1;   /* kw_dirty_watch */
	uint8_t overtaken : 1; /* FLYING: kw_dirty_overtake; the answer must not be used */
};

struct kw_dirty;

struct kw_dirty *kw_dirty_new(uint64_t seed);
void kw_dirty_free(struct kw_dirty *dirty);

/* The key must be read (again). */
void kw_dirty_add(struct kw_dirty *dirty, uint32_t database, struct kw_slice key, unsigned flags);

/* One key of a batch. The name belongs to the caller and is valid during the call. */
struct kw_dirty_key {
	struct kw_slice name;
	uint32_t database;
	unsigned flags;
};

/*
 * Add all, in this order. The result is that of adding one after the other. But the set loads what
 * a few keys touch while it works on others, because a set of a million keys is in no cache. A key
 * that waits already with these flags costs hardly more than its hash.
 */
void kw_dirty_add_all(struct kw_dirty *dirty, const struct kw_dirty_key *keys, size_t count);

/*
 * Would adding this key change nothing, because it waits already, with these flags? The answer
 * comes from a small memory of the keys that were added last and still wait: a no can be wrong, a
 * yes never is.
 */
bool kw_dirty_absorbs(struct kw_dirty *dirty, const struct kw_dirty_key *key);

/*
 * The server might have lost the data of these databases (NULL: of all) since their keys were
 * added: what named them does not explain any more why one is gone. Each has the flag
 * KW_DIRTY_STALE until it is added again. The caller sweeps the same databases, or such a key stays
 * in the table.
 */
void kw_dirty_stale(struct kw_dirty *dirty, const struct kw_databases *databases);

/* The next key to fetch, in flight from now on; NULL when none is due. */
struct kw_dirty_entry *kw_dirty_take(struct kw_dirty *dirty, uint64_t now_us);

/* Each of these ends the flight of a key; the entry can be gone afterwards. */

/* Answered: gone, or waiting again if it got dirty meanwhile. */
void kw_dirty_done(struct kw_dirty *dirty, struct kw_dirty_entry *entry);

/* All of them are answered. The set loads what their ends touch before it ends the first. */
void kw_dirty_done_all(struct kw_dirty *dirty, struct kw_dirty_entry *const *entries, size_t count);

/* Not answered: waiting again, after the others. flags are added. */
void kw_dirty_retry(struct kw_dirty *dirty, struct kw_dirty_entry *entry, unsigned flags);

/* Not to be fetched before a time. Adds meanwhile are absorbed. */
void kw_dirty_delay(struct kw_dirty *dirty, struct kw_dirty_entry *entry, uint64_t until_us);

/* Answered, but the table has no room for its `bytes`; waiting again if it got dirty meanwhile. */
void kw_dirty_park(struct kw_dirty *dirty, struct kw_dirty_entry *entry, uint64_t bytes);

/*
 * Look at up to `most` parked keys. Those for which room(arg, bytes) holds wait to be fetched
 * again; the others go to the end of the parked. Returns how many were let go.
 */
uint32_t kw_dirty_unpark(
	struct kw_dirty *dirty, uint32_t most, bool (*room)(void *arg, uint64_t bytes), void *arg);

/*
 * The value of a key came by another way than a fetch, and is as of a moment after all adds. This
 * says whether it may be used: a key that is delayed or parked is fetched, and so says no.
 */
bool kw_dirty_may_overtake(const struct kw_dirty *dirty, uint32_t database, struct kw_slice key);

/*
 * It was used, so all adds up to now are answered. A key that waits is gone from the set. One that
 * is in flight stays until it is answered, but that answer, which may be older, must not be used.
 * Nothing happens if the key is not in the set. kw_dirty_may_overtake held.
 */
void kw_dirty_overtake(struct kw_dirty *dirty, uint32_t database, struct kw_slice key);

/*
 * The same for each key of these databases that may be overtaken: all of them are gone. But a key
 * that only a scan named is fetched from now on: it may have seen what no stream tells.
 */
void kw_dirty_overtake_databases(struct kw_dirty *dirty, const struct kw_databases *databases);

/*
 * Is a change of it told that neither an answer nor a value has covered? A key in flight that was
 * overtaken since owes nothing.
 */
bool kw_dirty_owes(const struct kw_dirty *dirty, uint32_t database, struct kw_slice key);
/* … of any key of these databases? A walk over the set. */
bool kw_dirty_owes_any(struct kw_dirty *dirty, const struct kw_databases *databases);

/* When the first delayed key is due; UINT64_MAX when there is none. */
uint64_t kw_dirty_due_us(const struct kw_dirty *dirty);

/* Keys in a state; in all; keys with the flag KW_DIRTY_SCAN, with KW_DIRTY_ROOM. */
uint64_t kw_dirty_count(const struct kw_dirty *dirty, enum kw_dirty_state state);
uint64_t kw_dirty_total(const struct kw_dirty *dirty);
uint64_t kw_dirty_scanned(const struct kw_dirty *dirty);
uint64_t kw_dirty_released(const struct kw_dirty *dirty);

/*
 * The freshness barrier. mark remembers this moment (and forgets the last one); passed says whether
 * everything added before it has been answered. Both in constant time.
 */
void kw_dirty_mark(struct kw_dirty *dirty);
bool kw_dirty_passed(const struct kw_dirty *dirty);

/*
 * A few keys can be watched on their way to an answer that covers all that was added before the
 * watch began. This is for measurements, and costs each answer the test of one bit.
 */
#define KW_DIRTY_WATCHES 16

enum kw_dirty_sight {
	KW_DIRTY_UNSEEN,   /* none is watched; or it was parked, and is not watched any more */
	KW_DIRTY_WAITS,    /* for its flight; or the answer of this flight can be too old */
	KW_DIRTY_FLIES,    /* the answer of this flight covers it */
	KW_DIRTY_ANSWERED, /* done; it is not watched any more */
};

/*
 * Watch this key from now on in place of the one before. watch: below KW_DIRTY_WATCHES. False: it
 * is not in the set, or it is watched already; none is watched in that place then.
 */
bool kw_dirty_watch(struct kw_dirty *dirty, uint32_t watch, uint32_t database, struct kw_slice key);
enum kw_dirty_sight kw_dirty_watched(const struct kw_dirty *dirty, uint32_t watch);

struct kw_slice kw_dirty_name(const struct kw_dirty *dirty, const struct kw_dirty_entry *entry);

/* Memory held. */
size_t kw_dirty_bytes(const struct kw_dirty *dirty);

#endif
