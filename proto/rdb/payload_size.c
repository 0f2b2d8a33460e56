#include "rdb/payload.h"
#include "rdb/payload_type.h"
#include "rdb/payload_visit.h"

#include <stdbool.h>

/* Types that begin with the number of their elements, and with how many bytes before it. */
static bool begins_with_count(unsigned type, uint64_t *before)
{
	*before = type == KW_RDB_HASH_METADATA ? 8 : 0;
	return type == KW_RDB_LIST || type == KW_RDB_SET || type == KW_RDB_ZSET ||
	       type == KW_RDB_ZSET_2 || type == KW_RDB_HASH || type == KW_RDB_HASH_2_OR_PRE_GA ||
	       type == KW_RDB_HASH_METADATA;
}

static enum kw_visit add_bytes(void *arg, struct kw_slice bytes)
{
	*(uint64_t *)arg += bytes.length;
	return KW_VISIT_ON;
}

static enum kw_visit add_one(void *arg, struct kw_slice bytes)
{
	++*(uint64_t *)arg;
	return KW_VISIT_ON;
}

static enum kw_visit pass_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	return KW_VISIT_ON;
}

static enum kw_visit pass_score(void *arg, double score)
{
	return KW_VISIT_ON;
}

int kw_payload_size(struct kw_slice payload, uint64_t *size, struct kw_error *error)
{
	const struct kw_visitor visitor = {
		.string = add_bytes,
		.element = add_one,
		.name = add_one,
		.value = pass_value,
		.score = pass_score,
		.arg = size,
	};
	const uint8_t *bytes = payload.data;
	struct kw_payload_input input;
	uint64_t before;
	int code;

	*size = 0;
	if (payload.length < KW_PAYLOAD_FOOTER + 1 || !begins_with_count(bytes[0], &before))
		return kw_payload_visit(payload, &visitor, error);
	kw_payload_input_init(
		&input, kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), error);
	code = kw_payload_take(&input, before, &bytes);
	if (!code)
		code = kw_payload_count(&input, 1, size);
	kw_payload_input_close(&input);
	return code;
}
