/*
 * Folding the parts of a value into one digest: in order, or so that order does not matter.
 *
 * Every hash is 128 bits of XXH3. The seed says what is hashed (enum kw_fold_part), so that a set
 * of two members and a hash of one field get different hashes. Unordered parts are added up: unlike
 * exclusive or, a sum does not cancel two equal parts.
 *
 * Used by the payload_*.c files only.
 */
#ifndef KW_RDB_PAYLOAD_FOLD_H
#define KW_RDB_PAYLOAD_FOLD_H

#include "base/hash.h"
#include "base/slice.h"

#include <stdint.h>

/* Part of the digest: a changed number makes digests of two versions of this program differ. */
enum kw_fold_part {
	KW_FOLD_BYTES = 1, /* a string within a value */
	KW_FOLD_STRING,
	KW_FOLD_LIST,
	KW_FOLD_SET,
	KW_FOLD_HASH,
	KW_FOLD_ZSET,
	KW_FOLD_STREAM,
	KW_FOLD_RAW,
	KW_FOLD_LINK,   /* one step of an ordered fold */
	KW_FOLD_FIELD,  /* field, value, expiry */
	KW_FOLD_MEMBER, /* member, score */
};

struct kw_fold {
	struct kw_hash128 state;
	uint64_t count;
};

static inline struct kw_hash128 kw_fold_bytes(enum kw_fold_part part, struct kw_slice bytes)
{
	return kw_hash128_key(part, bytes.length ? bytes.data : "", bytes.length);
}

static inline struct kw_hash128 kw_fold_join(
	enum kw_fold_part part, struct kw_hash128 a, struct kw_hash128 b, uint64_t number)
{
	uint64_t words[5] = {a.low, a.high, b.low, b.high, number};

	return kw_hash128_key(part, words, sizeof words);
}

/* The next of parts whose order counts. */
static inline void kw_fold_ordered(struct kw_fold *fold, struct kw_hash128 part)
{
	fold->state = kw_fold_join(KW_FOLD_LINK, fold->state, part, ++fold->count);
}

static inline void kw_fold_number(struct kw_fold *fold, uint64_t number)
{
	struct kw_hash128 none = {0, 0};

	fold->state = kw_fold_join(KW_FOLD_LINK, fold->state, none, number);
}

/* One of parts whose order does not count. */
static inline void kw_fold_unordered(struct kw_fold *fold, struct kw_hash128 part)
{
	fold->state.low += part.low;
	fold->state.high += part.high;
	fold->count++;
}

static inline struct kw_hash128 kw_fold_end(const struct kw_fold *fold, enum kw_fold_part part)
{
	struct kw_hash128 none = {0, 0};

	return kw_fold_join(part, fold->state, none, fold->count);
}

#endif
