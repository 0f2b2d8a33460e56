#include "rdb/payload_fold.h"
#include "rdb/payload_type.h"

#include <assert.h>

/*
 * A stream:
 *
 *   count { master id, listpack } │ length │ last id │ [first id, deleted id, entries added] │
 *   count { group name, last id, [entries read], count { id, time, deliveries }, consumers }
 *   consumers: count { name, seen time, [active time], count { id } }
 *
 * Groups, consumers and pending entries stand in the order of a radix tree, which is the same
 * everywhere; so the whole stream is folded in order. In brackets: from type 19 or 21 on.
 */

#define ID_BYTES 16

static int fold_string(struct kw_payload_input *input, struct kw_fold *fold)
{
	struct kw_slice string;
	int code = kw_payload_string(input, &string);

	if (!code)
		kw_fold_ordered(fold, kw_fold_bytes(KW_FOLD_BYTES, string));
	return code;
}

static int fold_lengths(struct kw_payload_input *input, unsigned count, struct kw_fold *fold)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t number;

		if (kw_payload_length(input, &number))
			return KW_E_CORRUPT;
		kw_fold_number(fold, number);
	}
	return KW_OK;
}

static int fold_count(
	struct kw_payload_input *input, size_t least, uint64_t *count, struct kw_fold *fold)
{
	if (kw_payload_count(input, least, count))
		return KW_E_CORRUPT;
	kw_fold_number(fold, *count);
	return KW_OK;
}

static int fold_raw(struct kw_payload_input *input, size_t bytes, struct kw_fold *fold)
{
	const uint8_t *at;

	if (kw_payload_take(input, bytes, &at))
		return KW_E_CORRUPT;
	kw_fold_ordered(fold, kw_fold_bytes(KW_FOLD_BYTES, kw_slice(at, bytes)));
	return KW_OK;
}

static int fold_nodes(struct kw_payload_input *input, struct kw_fold *fold)
{
	uint64_t nodes;

	if (fold_count(input, 2, &nodes, fold))
		return KW_E_CORRUPT;
	for (; nodes > 0; nodes--) {
		int code = fold_string(input, fold);

		if (!code)
			code = fold_string(input, fold);
		if (code)
			return code;
	}
	return KW_OK;
}

/* The group's pending entries; the consumers tell which are theirs. */
static int fold_pending(struct kw_payload_input *input, struct kw_fold *fold)
{
	uint64_t pending;

	if (fold_count(input, ID_BYTES + 9, &pending, fold))
		return KW_E_CORRUPT;
	for (; pending > 0; pending--) {
		if (fold_raw(input, ID_BYTES + 8, fold) || fold_lengths(input, 1, fold))
			return KW_E_CORRUPT;
	}
	return KW_OK;
}

static int fold_consumer(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	uint64_t seen, active, pending;
	int code = fold_string(input, fold);

	if (code)
		return code;
	if (kw_payload_u64(input, &seen))
		return KW_E_CORRUPT;
	kw_fold_number(fold, seen);
	if (type >= KW_RDB_STREAM_3) {
		if (kw_payload_u64(input, &active))
			return KW_E_CORRUPT;
		/* A server that reads type 19 sets active = seen: equal ones must not show. */
		if (active != seen)
			kw_fold_number(fold, active);
	}
	if (fold_count(input, ID_BYTES, &pending, fold))
		return KW_E_CORRUPT;
	for (; pending > 0; pending--) {
		if (fold_raw(input, ID_BYTES, fold))
			return KW_E_CORRUPT;
	}
	return KW_OK;
}

static int fold_group(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	uint64_t consumers;
	int code = fold_string(input, fold);

	if (code)
		return code;
	if (fold_lengths(input, type >= KW_RDB_STREAM_2 ? 3 : 2, fold) ||
		fold_pending(input, fold) || fold_count(input, 10, &consumers, fold))
		return KW_E_CORRUPT;
	for (; consumers > 0; consumers--) {
		code = fold_consumer(input, type, fold);
		if (code)
			return code;
	}
	return KW_OK;
}

int kw_payload_fold_stream(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	uint64_t groups;
	int code;

	assert(type == KW_RDB_STREAM || type == KW_RDB_STREAM_2 || type == KW_RDB_STREAM_3);
	kw_fold_number(fold, type == KW_RDB_STREAM ? 1 : 2);
	code = fold_nodes(input, fold);
	if (code)
		return code;
	if (fold_lengths(input, type >= KW_RDB_STREAM_2 ? 8 : 3, fold) ||
		fold_count(input, 5, &groups, fold))
		return KW_E_CORRUPT;
	for (; groups > 0; groups--) {
		code = fold_group(input, type, fold);
		if (code)
			return code;
	}
	return KW_OK;
}
