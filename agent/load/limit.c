#include "limit.h"

#include "apply/apply.h"

void kw_limit_set(struct kw_limit *limit, uint64_t bytes_per_second, uint64_t now_us)
{
	kw_bucket_init(&limit->bucket, bytes_per_second, now_us);
	limit->held_us = 0;
}

static uint64_t grant(const struct kw_limit *limit)
{
	uint64_t burst = limit->bucket.per_second / 1000 * KW_BUCKET_BURST_MS;

	return burst > KW_LIMIT_GRANT_LEAST ? burst : KW_LIMIT_GRANT_LEAST;
}

uint64_t kw_limit_room(struct kw_limit *limit, uint64_t room, uint64_t now_us)
{
	/* Without room the server is what holds back. */
	if (limit->bucket.per_second == 0 || room == 0)
		return room;
	if (!kw_bucket_allows(&limit->bucket, now_us)) {
		limit->held_us = now_us;
		return 0;
	}
	return room < grant(limit) ? room : grant(limit);
}

void kw_limit_spend(
	struct kw_limit *limit, const struct kw_record_view *records, size_t count, uint64_t now_us)
{
	uint64_t bytes = count * KW_LIMIT_RECORD;

	for (size_t i = 0; i < count; i++)
		bytes += records[i].key.length + records[i].value.length;
	limit->bytes += bytes;
	/* What was earned until now comes first: a debt ends the saving. */
	kw_bucket_allows(&limit->bucket, now_us);
	kw_bucket_spend(&limit->bucket, bytes);
}
