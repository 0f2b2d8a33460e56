/*
 * A part of the digest index: entries of 16 bytes in open addressing.
 *
 *   key     64 bits that stand for a key; 0 is a free slot
 *   value   bit 0: a mark; bits 1 to 63 stand for the value and its expiry
 *
 * The place of an entry follows from the low 56 bits of its key; the index picks the shard by the
 * high 8. A shard grows by a quarter at a load of 0.85, so its load is 0.68 to 0.85: 18.8 to 23.5
 * bytes a key. A growth copies one shard. Zeroed memory is an empty shard. Pure; one thread.
 */
#ifndef KW_AGENT_INDEX_SHARD_H
#define KW_AGENT_INDEX_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#define KW_DIGESTS_MARK UINT64_C(1)

struct kw_digests_entry {
	uint64_t key, value;
};

struct kw_digests_shard {
	struct kw_digests_entry *slots;
	uint32_t capacity, count;
};

/* The key is not 0 in all of these. */

/* NULL: it is not there. Valid until the next put, remove or sweep. */
struct kw_digests_entry *kw_shard_find(const struct kw_digests_shard *shard, uint64_t key);

/* The entry of the key, a new one (value 0) if there was none. */
struct kw_digests_entry *kw_shard_put(struct kw_digests_shard *shard, uint64_t key, bool *fresh);

/* False: it was not there. */
bool kw_shard_remove(struct kw_digests_shard *shard, uint64_t key);

/* Set the mark of all entries to this one, 0 or KW_DIGESTS_MARK. */
void kw_shard_mark(struct kw_digests_shard *shard, uint64_t mark);

/* Remove each entry whose mark is another. Returns how many. */
uint32_t kw_shard_sweep(struct kw_digests_shard *shard, uint64_t mark);

/* Load the place of the key into the cache. */
void kw_shard_prefetch(const struct kw_digests_shard *shard, uint64_t key);

void kw_shard_close(struct kw_digests_shard *shard);

#endif
