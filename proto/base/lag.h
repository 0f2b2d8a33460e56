/*
 * A histogram of lags in microseconds: fixed buckets, sixteen to each power of two. So every value
 * is kept to within 1/16 of itself, in about 8 KiB. To add one costs a few instructions and
 * allocates nothing. Pure; one thread.
 */
#ifndef KW_BASE_LAG_H
#define KW_BASE_LAG_H

#include <stdint.h>

#define KW_LAG_SUB_BITS 4
#define KW_LAG_BUCKETS ((64 - KW_LAG_SUB_BITS + 1) << KW_LAG_SUB_BITS)

struct kw_lag {
	uint64_t buckets[KW_LAG_BUCKETS];
	uint64_t count;
	uint64_t sum_us;
	uint64_t max_us;
};

void kw_lag_reset(struct kw_lag *lag);
void kw_lag_add(struct kw_lag *lag, uint64_t lag_us);

/* The value that `share` (0..1) of all lags do not exceed; at most 1/16 too high. 0 when empty. */
uint64_t kw_lag_quantile_us(const struct kw_lag *lag, double share);

/*
 * How many were below the limit, which is a power of two from 16 on; of another one, those of whole
 * buckets.
 */
uint64_t kw_lag_count_below(const struct kw_lag *lag, uint64_t limit_us);

/*
 * What was added since `before` was a copy of `lag`. The largest is not known then: max_us is the
 * end of the highest bucket with such a lag, or that of `lag` if this is less.
 */
void kw_lag_since(const struct kw_lag *lag, const struct kw_lag *before, struct kw_lag *since);

#endif
