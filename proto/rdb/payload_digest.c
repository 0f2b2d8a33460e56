#include "rdb/payload.h"
#include "rdb/payload_fold.h"
#include "rdb/payload_pack.h"
#include "rdb/payload_type.h"

#include <math.h>
#include <stdlib.h>

#define SCORE_TEXT_MAX 255 /* of a score as text: type 3 gives its length in one byte */

#define EXPIRY_DIGITS_MAX 19 /* of a positive 64-bit number, always */

/* In place of the length of a type 3 score. */
enum { SCORE_NAN = 253, SCORE_INFINITE = 254, SCORE_MINUS_INFINITE = 255 };

/* quicklist nodes of type 18 */
enum { NODE_PLAIN = 1, NODE_PACKED = 2 };

static struct kw_hash128 hash_bytes(struct kw_slice bytes)
{
	return kw_fold_bytes(KW_FOLD_BYTES, bytes);
}

static int fold_member(
	struct kw_fold *fold, struct kw_hash128 member, double score, struct kw_error *error)
{
	struct kw_hash128 none = {0, 0};
	union {
		double number;
		uint64_t bits;
	} canonical = {.number = score == 0 ? 0 : score}; /* -0 scores as 0 does */

	if (isnan(score))
		return kw_error_set(error, KW_E_CORRUPT, "payload: a score that is no number");
	kw_fold_unordered(fold, kw_fold_join(KW_FOLD_MEMBER, member, none, canonical.bits));
	return KW_OK;
}

static void fold_field(
	struct kw_fold *fold, struct kw_hash128 field, struct kw_hash128 value, uint64_t expires_ms)
{
	kw_fold_unordered(fold, kw_fold_join(KW_FOLD_FIELD, field, value, expires_ms));
}

/* A score as text: "1.5", "inf". The C locale's decimal point: the daemons set no other. */
static int parse_score(struct kw_slice text, double *score, struct kw_error *error)
{
	char copy[SCORE_TEXT_MAX + 1];
	char *end;

	if (text.length == 0 || text.length > SCORE_TEXT_MAX)
		return kw_error_set(
			error, KW_E_CORRUPT, "payload: a score of %zu characters", text.length);
	memcpy(copy, text.data, text.length);
	copy[text.length] = '\0';
	*score = strtod(copy, &end);
	if (end != copy + text.length)
		return kw_error_set(error, KW_E_CORRUPT, "payload: a score that is no number");
	return KW_OK;
}

static int parse_expiry(struct kw_slice text, uint64_t *expires_ms, struct kw_error *error)
{
	const char *digits = text.data;

	*expires_ms = 0;
	for (size_t i = 0; i < text.length; i++) {
		if (digits[i] < '0' || digits[i] > '9' || i >= EXPIRY_DIGITS_MAX)
			return kw_error_set(
				error, KW_E_CORRUPT, "payload: a field's expiry that is no time");
		*expires_ms = *expires_ms * 10 + (uint64_t)(digits[i] - '0');
	}
	return KW_OK;
}

/* --- one string after the other (types 1 to 5, 22 and 24) --- */

static int take_score_text(struct kw_payload_input *input, double *score)
{
	const uint8_t *bytes;
	uint8_t length;

	if (kw_payload_take(input, 1, &bytes))
		return KW_E_CORRUPT;
	length = bytes[0];
	if (length == SCORE_INFINITE || length == SCORE_MINUS_INFINITE) {
		*score = length == SCORE_INFINITE ? INFINITY : -INFINITY;
		return KW_OK;
	}
	if (length == SCORE_NAN)
		return kw_error_set(
			input->error, KW_E_CORRUPT, "payload: a score that is no number");
	if (kw_payload_take(input, length, &bytes))
		return KW_E_CORRUPT;
	return parse_score(kw_slice(bytes, length), score, input->error);
}

static int take_score(struct kw_payload_input *input, unsigned type, double *score)
{
	union {
		uint64_t bits;
		double number;
	} binary;

	if (type == KW_RDB_ZSET)
		return take_score_text(input, score);
	if (kw_payload_u64(input, &binary.bits))
		return KW_E_CORRUPT;
	*score = binary.number;
	return KW_OK;
}

static int fold_strings(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	struct kw_slice string;
	double score = 0;
	uint64_t count;

	if (kw_payload_count(input, 1, &count))
		return KW_E_CORRUPT;
	for (; count > 0; count--) {
		struct kw_hash128 hash;
		int code = kw_payload_string(input, &string);

		if (code)
			return code;
		hash = hash_bytes(string);
		if (type == KW_RDB_LIST)
			kw_fold_ordered(fold, hash);
		else if (type == KW_RDB_SET)
			kw_fold_unordered(fold, hash);
		else if (take_score(input, type, &score) ||
			 fold_member(fold, hash, score, input->error))
			return KW_E_CORRUPT;
	}
	return KW_OK;
}

/* How the fields' expiry times stand in a hash. */
enum expiry_form {
	EXPIRY_NONE,     /* type 4 */
	EXPIRY_BEHIND,   /* Valkey: 8 bytes after the value, -1 none */
	EXPIRY_ABSOLUTE, /* Redis 7.4 candidates: a length before the field, 0 none */
	EXPIRY_RELATIVE, /* Redis 7.4: the same, less the lowest of all (8 bytes first), plus 1 */
};

static int take_expiry_before(struct kw_payload_input *input, enum expiry_form form,
	uint64_t lowest, uint64_t *expires_ms)
{
	*expires_ms = 0;
	if (form != EXPIRY_ABSOLUTE && form != EXPIRY_RELATIVE)
		return KW_OK;
	if (kw_payload_length(input, expires_ms))
		return KW_E_CORRUPT;
	if (form == EXPIRY_RELATIVE && *expires_ms != 0)
		*expires_ms += lowest - 1;
	return KW_OK;
}

static int take_expiry_behind(
	struct kw_payload_input *input, enum expiry_form form, uint64_t *expires_ms)
{
	if (form != EXPIRY_BEHIND)
		return KW_OK;
	if (kw_payload_u64(input, expires_ms))
		return KW_E_CORRUPT;
	if (*expires_ms == UINT64_MAX)
		*expires_ms = 0;
	return KW_OK;
}

static int fold_fields(struct kw_payload_input *input, enum expiry_form form, struct kw_fold *fold)
{
	uint64_t count, expires_ms, lowest = 0;
	struct kw_hash128 field, value;
	struct kw_slice string;
	int code;

	if (form == EXPIRY_RELATIVE && kw_payload_u64(input, &lowest))
		return KW_E_CORRUPT;
	if (kw_payload_count(input, 2, &count))
		return KW_E_CORRUPT;
	for (; count > 0; count--) {
		if (take_expiry_before(input, form, lowest, &expires_ms))
			return KW_E_CORRUPT;
		code = kw_payload_string(input, &string);
		if (code)
			return code;
		field = hash_bytes(string);
		code = kw_payload_string(input, &string);
		if (code)
			return code;
		value = hash_bytes(string);
		if (take_expiry_behind(input, form, &expires_ms))
			return KW_E_CORRUPT;
		fold_field(fold, field, value, expires_ms);
	}
	return KW_OK;
}

/* --- several elements in one string --- */

enum shape { SHAPE_LIST, SHAPE_SET, SHAPE_PAIRS, SHAPE_TRIPLES, SHAPE_SCORES };

static const unsigned shape_elements[] = {
	[SHAPE_LIST] = 1,
	[SHAPE_SET] = 1,
	[SHAPE_PAIRS] = 2,   /* field, value */
	[SHAPE_TRIPLES] = 3, /* field, value, expiry */
	[SHAPE_SCORES] = 2,  /* member, score */
};

/* The element that is not the first of its group. */
static int fold_rest(struct kw_pack *pack, enum shape shape, struct kw_hash128 first,
	struct kw_fold *fold, struct kw_error *error)
{
	struct kw_hash128 value;
	struct kw_slice element;
	uint64_t expires_ms = 0;
	double score = 0;

	if (kw_pack_next(pack, &element, error))
		return KW_E_CORRUPT;
	if (shape == SHAPE_SCORES) {
		if (parse_score(element, &score, error))
			return KW_E_CORRUPT;
		return fold_member(fold, first, score, error);
	}
	value = hash_bytes(element);
	if (shape == SHAPE_TRIPLES) {
		if (kw_pack_next(pack, &element, error) ||
			parse_expiry(element, &expires_ms, error))
			return KW_E_CORRUPT;
	}
	fold_field(fold, first, value, expires_ms);
	return KW_OK;
}

static int fold_pack(struct kw_slice bytes, enum kw_pack_kind kind, enum shape shape,
	struct kw_fold *fold, struct kw_error *error)
{
	struct kw_slice element;
	struct kw_hash128 hash;
	struct kw_pack pack;

	if (kw_pack_open(&pack, kind, bytes, error))
		return KW_E_CORRUPT;
	while (kw_pack_more(&pack)) {
		if (kw_pack_next(&pack, &element, error))
			return KW_E_CORRUPT;
		hash = hash_bytes(element);
		if (shape == SHAPE_LIST)
			kw_fold_ordered(fold, hash);
		else if (shape == SHAPE_SET)
			kw_fold_unordered(fold, hash);
		else if (fold_rest(&pack, shape, hash, fold, error))
			return KW_E_CORRUPT;
	}
	if (pack.counted % shape_elements[shape] != 0)
		return kw_error_set(error, KW_E_CORRUPT, "payload: the last element stands alone");
	return kw_pack_finish(&pack, error);
}

static int fold_packed(struct kw_payload_input *input, enum kw_pack_kind kind, enum shape shape,
	struct kw_fold *fold)
{
	struct kw_slice bytes;
	int code = kw_payload_string(input, &bytes);

	return code ? code : fold_pack(bytes, kind, shape, fold, input->error);
}

static int fold_quicklist(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	enum kw_pack_kind kind = type == KW_RDB_LIST_QUICKLIST ? KW_PACK_ZIPLIST : KW_PACK_LISTPACK;
	uint64_t nodes, node = NODE_PACKED;
	struct kw_slice bytes;
	int code;

	if (kw_payload_count(input, 1, &nodes))
		return KW_E_CORRUPT;
	for (; nodes > 0; nodes--) {
		if (type == KW_RDB_LIST_QUICKLIST_2 && kw_payload_length(input, &node))
			return KW_E_CORRUPT;
		if (node != NODE_PACKED && node != NODE_PLAIN)
			return kw_error_set(input->error, KW_E_CORRUPT,
				"payload: list node form %llu does not exist",
				(unsigned long long)node);
		code = kw_payload_string(input, &bytes);
		if (code)
			return code;
		if (node == NODE_PLAIN)
			kw_fold_ordered(fold, hash_bytes(bytes));
		else if (fold_pack(bytes, kind, SHAPE_LIST, fold, input->error))
			return KW_E_CORRUPT;
	}
	return KW_OK;
}

/* --- by type --- */

static int fold_list(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	switch (type) {
	case KW_RDB_LIST:
		return fold_strings(input, type, fold);
	case KW_RDB_LIST_ZIPLIST:
		return fold_packed(input, KW_PACK_ZIPLIST, SHAPE_LIST, fold);
	default:
		return fold_quicklist(input, type, fold);
	}
}

static int fold_set(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	switch (type) {
	case KW_RDB_SET:
		return fold_strings(input, type, fold);
	case KW_RDB_SET_INTSET:
		return fold_packed(input, KW_PACK_INTSET, SHAPE_SET, fold);
	default:
		return fold_packed(input, KW_PACK_LISTPACK, SHAPE_SET, fold);
	}
}

static int fold_zset(struct kw_payload_input *input, unsigned type, struct kw_fold *fold)
{
	switch (type) {
	case KW_RDB_ZSET_ZIPLIST:
		return fold_packed(input, KW_PACK_ZIPLIST, SHAPE_SCORES, fold);
	case KW_RDB_ZSET_LISTPACK:
		return fold_packed(input, KW_PACK_LISTPACK, SHAPE_SCORES, fold);
	default:
		return fold_strings(input, type, fold);
	}
}

static int fold_hash(
	struct kw_payload_input *input, unsigned type, uint16_t version, struct kw_fold *fold)
{
	const uint8_t *lowest;

	switch (type) {
	case KW_RDB_HASH:
		return fold_fields(input, EXPIRY_NONE, fold);
	case KW_RDB_HASH_ZIPMAP:
		return fold_packed(input, KW_PACK_ZIPMAP, SHAPE_PAIRS, fold);
	case KW_RDB_HASH_ZIPLIST:
		return fold_packed(input, KW_PACK_ZIPLIST, SHAPE_PAIRS, fold);
	case KW_RDB_HASH_LISTPACK:
		return fold_packed(input, KW_PACK_LISTPACK, SHAPE_PAIRS, fold);
	case KW_RDB_HASH_2_OR_PRE_GA:
		return fold_fields(input,
			version >= KW_RDB_VERSION_VALKEY ? EXPIRY_BEHIND : EXPIRY_ABSOLUTE, fold);
	case KW_RDB_HASH_METADATA:
		return fold_fields(input, EXPIRY_RELATIVE, fold);
	case KW_RDB_HASH_LISTPACK_EX:
		/* The lowest expiry of all comes first; the listpack's own are absolute. */
		if (kw_payload_take(input, 8, &lowest))
			return KW_E_CORRUPT;
		return fold_packed(input, KW_PACK_LISTPACK, SHAPE_TRIPLES, fold);
	default: /* KW_RDB_HASH_LISTPACK_EX_PRE_GA */
		return fold_packed(input, KW_PACK_LISTPACK, SHAPE_TRIPLES, fold);
	}
}

static int fold_string(struct kw_payload_input *input, struct kw_fold *fold)
{
	struct kw_slice string;
	int code = kw_payload_string(input, &string);

	if (!code)
		kw_fold_ordered(fold, hash_bytes(string));
	return code;
}

/* The class a value is digested as; 0: a type that is not known. */
static enum kw_fold_part fold_part(struct kw_slice payload)
{
	static const struct {
		const char *name;
		enum kw_fold_part part;
	} parts[] = {
		{"string", KW_FOLD_STRING},
		{"list", KW_FOLD_LIST},
		{"set", KW_FOLD_SET},
		{"hash", KW_FOLD_HASH},
		{"zset", KW_FOLD_ZSET},
		{"stream", KW_FOLD_STREAM},
		{"module", KW_FOLD_RAW},
	};
	const char *name = kw_payload_type_name(payload);

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (strcmp(parts[i].name, name) == 0)
			return parts[i].part;
	}
	return 0;
}

static int fold_value(struct kw_payload_input *input, enum kw_fold_part part, unsigned type,
	uint16_t version, struct kw_fold *fold)
{
	switch (part) {
	case KW_FOLD_STRING:
		return fold_string(input, fold);
	case KW_FOLD_LIST:
		return fold_list(input, type, fold);
	case KW_FOLD_SET:
		return fold_set(input, type, fold);
	case KW_FOLD_HASH:
		return fold_hash(input, type, version, fold);
	case KW_FOLD_ZSET:
		return fold_zset(input, type, fold);
	case KW_FOLD_STREAM:
		return kw_payload_fold_stream(input, type, fold);
	default: /* raw bytes, the type byte with them */
		kw_fold_ordered(
			fold, hash_bytes(kw_slice(input->at - 1, kw_payload_left(input) + 1)));
		input->at = input->end;
		return KW_OK;
	}
}

int kw_payload_digest(struct kw_slice payload, struct kw_hash128 *digest, struct kw_error *error)
{
	const uint8_t *bytes = payload.data;
	struct kw_payload_input input;
	struct kw_fold fold = {0};
	enum kw_fold_part part;
	uint16_t version;
	int code;

	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes are too few for a DUMP payload", payload.length);
	part = fold_part(payload);
	if (!part)
		return kw_error_set(error, KW_E_PROTOCOL,
			"payload: values of type %u are not known here, only their bytes can be "
			"compared",
			bytes[0]);
	if (bytes[0] == KW_RDB_STREAM_4 || bytes[0] == KW_RDB_STREAM_5)
		part = KW_FOLD_RAW;
	version = (uint16_t)kw_little_endian(bytes + payload.length - KW_PAYLOAD_FOOTER, 2);
	kw_payload_input_init(
		&input, kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), error);
	code = fold_value(&input, part, bytes[0], version, &fold);
	if (!code && kw_payload_left(&input) != 0)
		code = kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes stand behind the value", kw_payload_left(&input));
	if (!code)
		*digest = kw_fold_end(&fold, part);
	kw_payload_input_close(&input);
	return code;
}
