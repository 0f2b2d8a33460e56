#include "rdb/payload.h"
#include "rdb/payload_fold.h"
#include "rdb/payload_type.h"
#include "rdb/payload_visit.h"

/* The value as it is visited: the digest of the name waits for its value or score. */
struct digesting {
	struct kw_fold fold;
	struct kw_hash128 name;
	uint64_t now_ms; /* a field that expires until then is left out */
	uint64_t left_out;
};

static struct kw_hash128 hash_bytes(struct kw_slice bytes)
{
	return kw_fold_bytes(KW_FOLD_BYTES, bytes);
}

static enum kw_visit on_ordered(void *arg, struct kw_slice bytes)
{
	struct digesting *digesting = arg;

	kw_fold_ordered(&digesting->fold, hash_bytes(bytes));
	return KW_VISIT_ON;
}

static enum kw_visit on_unordered(void *arg, struct kw_slice bytes)
{
	struct digesting *digesting = arg;

	kw_fold_unordered(&digesting->fold, hash_bytes(bytes));
	return KW_VISIT_ON;
}

static enum kw_visit on_name(void *arg, struct kw_slice bytes)
{
	struct digesting *digesting = arg;

	digesting->name = hash_bytes(bytes);
	return KW_VISIT_ON;
}

static enum kw_visit on_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	struct digesting *digesting = arg;

	if (expires_ms != 0 && expires_ms <= digesting->now_ms) {
		digesting->left_out++;
		return KW_VISIT_ON;
	}
	kw_fold_unordered(&digesting->fold,
		kw_fold_join(KW_FOLD_FIELD, digesting->name, hash_bytes(bytes), expires_ms));
	return KW_VISIT_ON;
}

static enum kw_visit on_score(void *arg, double score)
{
	struct digesting *digesting = arg;
	struct kw_hash128 none = {0, 0};
	union {
		double number;
		uint64_t bits;
	} canonical = {.number = score == 0 ? 0 : score}; /* -0 scores as 0 does */

	kw_fold_unordered(&digesting->fold,
		kw_fold_join(KW_FOLD_MEMBER, digesting->name, none, canonical.bits));
	return KW_VISIT_ON;
}

static int fold_visited(struct kw_slice payload, enum kw_value_kind kind,
	struct digesting *digesting, struct kw_error *error)
{
	const struct kw_visitor visitor = {
		.string = on_ordered,
		.element = kind == KW_VALUE_LIST ? on_ordered : on_unordered,
		.name = on_name,
		.value = on_value,
		.score = on_score,
		.arg = digesting,
	};

	return kw_payload_visit(payload, &visitor, error);
}

static int fold_stream(struct kw_slice payload, struct kw_fold *fold, struct kw_error *error)
{
	const uint8_t *bytes = payload.data;
	struct kw_payload_input input;
	int code;

	kw_payload_input_init(
		&input, kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), error);
	code = kw_payload_fold_stream(&input, bytes[0], fold);
	if (!code && kw_payload_left(&input) != 0)
		code = kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes stand behind the value", kw_payload_left(&input));
	kw_payload_input_close(&input);
	return code;
}

/* The type byte and all of the value's bytes, as they are. */
static void fold_raw(struct kw_slice payload, struct kw_fold *fold)
{
	kw_fold_ordered(
		fold, hash_bytes(kw_slice(payload.data, payload.length - KW_PAYLOAD_FOOTER)));
}

/* Streams of Redis 8.6 and later, too. (From Valkey these numbers would be unknown.) */
static bool is_raw(enum kw_value_kind kind, unsigned type)
{
	return kind == KW_VALUE_MODULE || (kind == KW_VALUE_STREAM && type >= KW_RDB_STREAM_4);
}

int kw_payload_digest_at(struct kw_slice payload, uint64_t now_ms, struct kw_hash128 *digest,
	bool *over, struct kw_error *error)
{
	static const enum kw_fold_part parts[] = {
		[KW_VALUE_UNKNOWN] = KW_FOLD_RAW, /* refused by the visit */
		[KW_VALUE_STRING] = KW_FOLD_STRING,
		[KW_VALUE_LIST] = KW_FOLD_LIST,
		[KW_VALUE_SET] = KW_FOLD_SET,
		[KW_VALUE_HASH] = KW_FOLD_HASH,
		[KW_VALUE_ZSET] = KW_FOLD_ZSET,
		[KW_VALUE_STREAM] = KW_FOLD_STREAM,
	};
	enum kw_value_kind kind = kw_payload_kind(payload);
	struct digesting digesting = {.now_ms = now_ms};
	int code = KW_OK;
	bool raw;

	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes are too few for a DUMP payload", payload.length);
	raw = is_raw(kind, *(const uint8_t *)payload.data);
	if (raw)
		fold_raw(payload, &digesting.fold);
	else if (kind == KW_VALUE_STREAM)
		code = fold_stream(payload, &digesting.fold, error);
	else
		code = fold_visited(payload, kind, &digesting, error);
	if (!code)
		*digest = kw_fold_end(&digesting.fold, raw ? KW_FOLD_RAW : parts[kind]);
	if (!code && over)
		*over = digesting.left_out > 0 && digesting.fold.count == 0;
	return code;
}

int kw_payload_digest(struct kw_slice payload, struct kw_hash128 *digest, struct kw_error *error)
{
	return kw_payload_digest_at(payload, 0, digest, NULL, error);
}
