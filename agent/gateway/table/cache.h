/*
 * The near cache: values that were read before, in the gateway's own memory. A hit takes no READ.
 *
 * The log of the table says what changed, so it keeps the cache right. Each record that is newer
 * than an entry of its key drops the entry, and a flush drops those of its database. No other
 * notice is needed, and none can be lost: if the owner has missed a part of the log, it empties the
 * cache.
 *
 *   begin a lookup: ticket ──────────▶ its end: put(ticket) ──▶ entry ──find──▶ hit
 *                     ▲                     │ refused             │
 *   log ──records─────┴─────────────────────┴─────────────────────┘ dropped
 *
 * A lookup can bring an old value after the record that replaced it has come. No other record would
 * ever drop that entry. So a put says by its ticket when its lookup began. It is refused if a
 * record of a key with the same bits of hash came after that. It is also refused if the record came
 * before, but no superblock that covers it had been told yet: until then a lookup might not see it.
 *
 * What a hit proves: the value is no older than the last record that the cache was told. The owner
 * knows how far in the log that is, and when it looked there.
 *
 * Entries that were not asked for since the clock's hand passed go first (CLOCK). The memory is
 * bounded: entries, with all that is kept beside their bytes. Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_TABLE_CACHE_H
#define KW_AGENT_GATEWAY_TABLE_CACHE_H

#include "base/slice.h"
#include "rdb/payload_visit.h"
#include "table/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kw_cache;

/* Less than this holds nothing worth the looks. */
#define KW_CACHE_BYTES_LEAST 65536

struct kw_cache_value {
	struct kw_slice payload;
	enum kw_value_kind kind;
	uint64_t expires_ms; /* by the proxy's clock; 0: never */
	uint64_t version;
};

/* bytes: at least KW_CACHE_BYTES_LEAST. seed: random, so that no one can choose keys that meet. */
struct kw_cache *kw_cache_new(uint64_t bytes, uint64_t seed);
void kw_cache_free(struct kw_cache *cache); /* NULL is accepted */

/*
 * A find of this key comes soon: finding it in memory takes longer than all else. First for some
 * keys aim, which returns a hash, then for each approach with that hash, then find.
 */
uint64_t kw_cache_aim(const struct kw_cache *cache, uint32_t database, struct kw_slice key);
void kw_cache_approach(const struct kw_cache *cache, uint64_t hash);

/* The payload is valid until the next call of another function. */
bool kw_cache_find(struct kw_cache *cache, uint32_t database, struct kw_slice key,
	struct kw_cache_value *value);

/* A lookup begins at this moment. */
uint64_t kw_cache_ticket(const struct kw_cache *cache);

/*
 * What that lookup has found; copied. Refused if it might be old already, or takes more than an
 * eighth of the memory. An older entry is dropped in any case.
 */
void kw_cache_put(struct kw_cache *cache, uint64_t ticket, uint32_t database, struct kw_slice key,
	const struct kw_cache_value *value);

/*
 * A lookup has found no such key: the log will say so, too, but perhaps later. Until then a lookup
 * that began before can still bring a value; it is refused.
 */
void kw_cache_forget(struct kw_cache *cache, uint32_t database, struct kw_slice key);

/* Records of the log's tail, as the reader hands them on. */
void kw_cache_records(struct kw_cache *cache, const struct kw_record_view *records, size_t count);

/* The lookups know a superblock of this version from now on. */
void kw_cache_covered(struct kw_cache *cache, uint64_t version);

/* A part of the log was missed, or it is another table: nothing of it counts any more. */
void kw_cache_clear(struct kw_cache *cache);

struct kw_cache_stats {
	uint64_t hits, misses;
	uint64_t puts, refused;        /* entries made; values that might have been old, or large */
	uint64_t invalidated, evicted; /* by a record or flush; for room */
	uint64_t entries, bytes;       /* at this moment: those that can be hit; all memory */
};
void kw_cache_stats(const struct kw_cache *cache, struct kw_cache_stats *stats);

#endif
