/*
 * A sorted set taken out of its payload, in its order: by score, and by bytes among equals. (A
 * large one stands in its payload from the last to the first.) And ranges of it. Pure.
 */
#ifndef KW_AGENT_GATEWAY_ANSWERS_ZSET_H
#define KW_AGENT_GATEWAY_ANSWERS_ZSET_H

#include "base/buffer.h"
#include "command.h"

#include <stdbool.h>

struct kw_zset {
	struct kw_zset_entry {
		double score;
		size_t offset, length; /* of the member, in bytes */
	} * entries;
	size_t count, capacity;
	struct kw_buffer bytes;
	bool counts_back;   /* a negative offset of LIMIT: from Redis 7.4 on, if not packed */
	size_t first, last; /* selected: from first on, before last */
};

/* Of a missing key: empty. False: it was replied that the value cannot be read; it is closed. */
bool kw_zset_read(struct kw_zset *zset, const struct kw_ask *ask);
void kw_zset_close(struct kw_zset *zset);

static inline struct kw_slice kw_zset_member(const struct kw_zset *zset, size_t at)
{
	const struct kw_zset_entry *entry = &zset->entries[at];

	return entry->length
		       ? kw_slice(kw_buffer_bytes(&zset->bytes) + entry->offset, entry->length)
		       : kw_slice("", 0);
}

/*
 * The scores of the members that `count` words from `first` on name; to be freed. The set is walked
 * until all of them are found. NULL: it was replied that the value cannot be read. (zset_scores.c)
 */
struct kw_member_score {
	bool there;
	double score;
};
struct kw_member_score *kw_zset_scores(const struct kw_ask *ask, size_t first, size_t count);

enum kw_zset_by { KW_ZSET_BY_RANK, KW_ZSET_BY_SCORE, KW_ZSET_BY_LEX };

/* One end of a range. */
struct kw_zset_end {
	bool excluded;
	int infinite; /* BY_LEX: -1 before all, 1 after all; 0: the member */
	int64_t rank;
	double score;
	struct kw_slice member;
};

struct kw_zset_range {
	enum kw_zset_by by;
	bool reversed, with_scores;
	int64_t offset, count; /* LIMIT; count negative: all */
	struct kw_zset_end low, high;
};

/* Options that a command takes after its first four words, besides LIMIT. */
enum {
	KW_ZSET_SCORES = 1, /* WITHSCORES */
	KW_ZSET_REV = 2,
	KW_ZSET_BY = 4, /* BYSCORE, BYLEX */
	KW_ZSET_ANY = 7,
};

/* Both: false after an error was replied. */
bool kw_zset_options(struct kw_zset_range *range, const struct kw_ask *ask, unsigned options);
bool kw_zset_ends(struct kw_zset_range *range, const struct kw_ask *ask, struct kw_slice low,
	struct kw_slice high);

/* Set first and last. */
void kw_zset_select(struct kw_zset *zset, const struct kw_zset_range *range);

#endif
