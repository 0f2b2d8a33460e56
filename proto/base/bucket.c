#include "base/bucket.h"

#include <assert.h>

static double burst(const struct kw_bucket *bucket)
{
	double units = (double)bucket->per_second * KW_BUCKET_BURST_MS / 1000;

	return units < 1 ? 1 : units;
}

void kw_bucket_init(struct kw_bucket *bucket, uint64_t per_second, uint64_t now_us)
{
	*bucket = (struct kw_bucket){.per_second = per_second, .filled_us = now_us};
	bucket->tokens = burst(bucket);
}

bool kw_bucket_allows(struct kw_bucket *bucket, uint64_t now_us)
{
	if (bucket->per_second == 0)
		return true;
	if (now_us > bucket->filled_us) {
		double earned = (double)(now_us - bucket->filled_us) * 1e-6;

		bucket->tokens += earned * (double)bucket->per_second;
		if (bucket->tokens > burst(bucket))
			bucket->tokens = burst(bucket);
		bucket->filled_us = now_us;
	}
	assert(bucket->tokens <= burst(bucket));
	return bucket->tokens >= 1;
}

void kw_bucket_spend(struct kw_bucket *bucket, uint64_t units)
{
	if (bucket->per_second > 0)
		bucket->tokens -= (double)units;
}

uint64_t kw_bucket_ready_us(const struct kw_bucket *bucket, uint64_t now_us)
{
	double missing = 1 - bucket->tokens;

	if (bucket->per_second == 0 || missing <= 0)
		return now_us;
	return bucket->filled_us + (uint64_t)(missing * 1e6 / (double)bucket->per_second) + 1;
}

uint32_t kw_line_limit_left_out(struct kw_line_limit *limit, uint64_t now_us)
{
	const uint32_t lines = limit->lines;

	if (now_us - limit->since_us < 1000000)
		return 0;
	*limit = (struct kw_line_limit){.since_us = now_us};
	return lines > KW_LINES_A_SECOND ? lines - KW_LINES_A_SECOND : 0;
}

bool kw_line_limit_allows(struct kw_line_limit *limit, uint64_t now_us, uint32_t *left_out)
{
	*left_out = kw_line_limit_left_out(limit, now_us);
	return limit->lines++ < KW_LINES_A_SECOND;
}
