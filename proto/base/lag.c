#include "base/lag.h"

#include <assert.h>

#define SUB_COUNT (1u << KW_LAG_SUB_BITS)

void kw_lag_reset(struct kw_lag *lag)
{
	*lag = (struct kw_lag){0};
}

/* Values below SUB_COUNT have a bucket each; above, the leading bits choose. */
static unsigned bucket_of(uint64_t value)
{
	unsigned exponent;

	if (value < SUB_COUNT)
		return (unsigned)value;
	exponent = 63 - (unsigned)__builtin_clzll(value);
	return ((exponent - KW_LAG_SUB_BITS + 1) << KW_LAG_SUB_BITS) +
	       (unsigned)(value >> (exponent - KW_LAG_SUB_BITS) & (SUB_COUNT - 1));
}

static uint64_t highest_in(unsigned bucket)
{
	unsigned exponent;
	uint64_t lowest;

	if (bucket < SUB_COUNT)
		return bucket;
	exponent = (bucket >> KW_LAG_SUB_BITS) - 1;
	lowest = (uint64_t)(SUB_COUNT + (bucket & (SUB_COUNT - 1))) << exponent;
	return lowest + ((UINT64_C(1) << exponent) - 1);
}

void kw_lag_add(struct kw_lag *lag, uint64_t lag_us)
{
	lag->buckets[bucket_of(lag_us)]++;
	lag->count++;
	lag->sum_us += lag_us;
	if (lag_us > lag->max_us)
		lag->max_us = lag_us;
}

uint64_t kw_lag_quantile_us(const struct kw_lag *lag, double share)
{
	uint64_t wanted = (uint64_t)(share * (double)lag->count + 0.5);
	uint64_t seen = 0;

	if (lag->count == 0)
		return 0;
	if (wanted < 1)
		wanted = 1;
	for (unsigned i = 0; i < KW_LAG_BUCKETS; i++) {
		seen += lag->buckets[i];
		if (seen >= wanted)
			return highest_in(i) < lag->max_us ? highest_in(i) : lag->max_us;
	}
	return lag->max_us;
}

uint64_t kw_lag_count_below(const struct kw_lag *lag, uint64_t limit_us)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < KW_LAG_BUCKETS && highest_in(i) < limit_us; i++)
		count += lag->buckets[i];
	return count;
}

void kw_lag_since(const struct kw_lag *lag, const struct kw_lag *before, struct kw_lag *since)
{
	*since = (struct kw_lag){
		.count = lag->count - before->count,
		.sum_us = lag->sum_us - before->sum_us,
	};
	for (unsigned i = 0; i < KW_LAG_BUCKETS; i++) {
		assert(lag->buckets[i] >= before->buckets[i]);
		since->buckets[i] = lag->buckets[i] - before->buckets[i];
		if (since->buckets[i] > 0)
			since->max_us = highest_in(i) < lag->max_us ? highest_in(i) : lag->max_us;
	}
}
