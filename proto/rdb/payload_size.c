#include "rdb/payload.h"
#include "rdb/payload_pack.h"
#include "rdb/payload_type.h"
#include "rdb/payload_visit.h"

#include <stdbool.h>

/* A node of a quicklist that is one element. */
#define NODE_PLAIN 1

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

/*
 * Types whose elements stand in packs that tell their number, and how many elements of a pack make
 * one of the value's.
 */
static bool is_counted_pack(unsigned type, enum kw_pack_kind *kind, unsigned *parts)
{
	*parts = 1;
	*kind = KW_PACK_LISTPACK;
	switch (type) {
	case KW_RDB_SET_INTSET:
		*kind = KW_PACK_INTSET;
		return true;
	case KW_RDB_LIST_QUICKLIST_2:
	case KW_RDB_SET_LISTPACK:
		return true;
	case KW_RDB_HASH_LISTPACK:
	case KW_RDB_ZSET_LISTPACK:
		*parts = 2;
		return true;
	default:
		return false;
	}
}

/* The next string is a pack: add what its header tells. KW_E_PROTOCOL: it does not tell. */
static int add_pack(struct kw_payload_input *input, enum kw_pack_kind kind, uint64_t *size)
{
	struct kw_slice bytes;
	struct kw_pack pack;
	int code = kw_payload_string(input, &bytes);

	if (!code)
		code = kw_pack_open(&pack, kind, bytes, input->error);
	if (code)
		return code;
	if (pack.announced == UINT64_MAX)
		return KW_E_PROTOCOL;
	*size += pack.announced;
	return KW_OK;
}

static int add_nodes(struct kw_payload_input *input, uint64_t *size)
{
	uint64_t nodes, form;
	int code = kw_payload_count(input, 1, &nodes);

	for (; !code && nodes > 0; nodes--) {
		code = kw_payload_length(input, &form);
		if (code)
			return code;
		if (form == NODE_PLAIN) {
			++*size;
			code = kw_payload_skip(input);
		} else {
			code = add_pack(input, KW_PACK_LISTPACK, size);
		}
	}
	return code;
}

/* False: the headers do not tell, or are not well formed. Then the walk tells what is wrong. */
static bool size_of_packs(struct kw_slice value, unsigned type, uint64_t *size)
{
	struct kw_payload_input input;
	struct kw_error error;
	enum kw_pack_kind kind;
	unsigned parts;
	int code;

	if (!is_counted_pack(type, &kind, &parts))
		return false;
	kw_payload_input_init(&input, value, &error);
	code = type == KW_RDB_LIST_QUICKLIST_2 ? add_nodes(&input, size)
					       : add_pack(&input, kind, size);
	if (!code && *size % parts != 0)
		code = KW_E_CORRUPT;
	*size = code ? 0 : *size / parts;
	kw_payload_input_close(&input);
	return !code;
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
	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return kw_payload_visit(payload, &visitor, error);
	if (size_of_packs(
		    kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), bytes[0], size))
		return KW_OK;
	if (!begins_with_count(bytes[0], &before))
		return kw_payload_visit(payload, &visitor, error);
	kw_payload_input_init(
		&input, kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), error);
	code = kw_payload_take(&input, before, &bytes);
	if (!code)
		code = kw_payload_count(&input, 1, size);
	kw_payload_input_close(&input);
	return code;
}
