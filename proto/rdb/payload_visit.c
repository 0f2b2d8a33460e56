#include "rdb/payload_visit.h"

#include "rdb/payload.h"
#include "rdb/payload_pack.h"
#include "rdb/payload_type.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCORE_TEXT_MAX 255 /* of a score as text: type 3 gives its length in one byte */

#define EXPIRY_DIGITS_MAX 19 /* of a positive 64-bit number, always */

/* In place of the length of a type 3 score. */
enum { SCORE_NAN = 253, SCORE_INFINITE = 254, SCORE_MINUS_INFINITE = 255 };

/* quicklist nodes of type 18 */
enum { NODE_PLAIN = 1, NODE_PACKED = 2 };

/* Not an error: the visitor has what it wants. Above all codes of enum kw_code. */
#define STOPPED 1000

/* One visit. */
struct visit {
	const struct kw_visitor *visitor;
	struct kw_payload_input input;
	unsigned type;
	uint16_t version; /* of the RDB */
};

static int told(enum kw_visit answer)
{
	return answer == KW_VISIT_STOP ? STOPPED : KW_OK;
}

static int tell_element(const struct visit *visit, struct kw_slice bytes)
{
	return told(visit->visitor->element(visit->visitor->arg, bytes));
}

static int tell_name(const struct visit *visit, struct kw_slice bytes)
{
	return told(visit->visitor->name(visit->visitor->arg, bytes));
}

static int tell_value(const struct visit *visit, struct kw_slice bytes, uint64_t expires_ms)
{
	return told(visit->visitor->value(visit->visitor->arg, bytes, expires_ms));
}

static int tell_score(const struct visit *visit, double score)
{
	if (isnan(score))
		return kw_error_set(
			visit->input.error, KW_E_CORRUPT, "payload: a score that is no number");
	return told(visit->visitor->score(visit->visitor->arg, score));
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

static int visit_strings(struct visit *visit)
{
	struct kw_payload_input *input = &visit->input;
	bool scored = visit->type == KW_RDB_ZSET || visit->type == KW_RDB_ZSET_2;
	struct kw_slice string;
	double score = 0;
	uint64_t count;

	if (kw_payload_count(input, 1, &count))
		return KW_E_CORRUPT;
	for (; count > 0; count--) {
		int code = kw_payload_string(input, &string);

		if (!code)
			code = scored ? tell_name(visit, string) : tell_element(visit, string);
		if (!code && scored)
			code = take_score(input, visit->type, &score);
		if (!code && scored)
			code = tell_score(visit, score);
		if (code)
			return code;
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

static int visit_field(struct visit *visit, enum expiry_form form, uint64_t lowest)
{
	struct kw_payload_input *input = &visit->input;
	struct kw_slice string;
	uint64_t expires_ms;
	int code;

	if (take_expiry_before(input, form, lowest, &expires_ms))
		return KW_E_CORRUPT;
	code = kw_payload_string(input, &string);
	if (!code)
		code = tell_name(visit, string);
	if (!code)
		code = kw_payload_string(input, &string);
	if (!code)
		code = take_expiry_behind(input, form, &expires_ms);
	return code ? code : tell_value(visit, string, expires_ms);
}

static int visit_fields(struct visit *visit, enum expiry_form form)
{
	struct kw_payload_input *input = &visit->input;
	uint64_t count, lowest = 0;

	if (form == EXPIRY_RELATIVE && kw_payload_u64(input, &lowest))
		return KW_E_CORRUPT;
	if (kw_payload_count(input, 2, &count))
		return KW_E_CORRUPT;
	for (; count > 0; count--) {
		int code = visit_field(visit, form, lowest);

		if (code)
			return code;
	}
	return KW_OK;
}

/* --- several elements in one string --- */

enum shape { SHAPE_ELEMENTS, SHAPE_PAIRS, SHAPE_TRIPLES, SHAPE_SCORES };

static const unsigned shape_elements[] = {
	[SHAPE_ELEMENTS] = 1, /* of a list or a set */
	[SHAPE_PAIRS] = 2,    /* field, value */
	[SHAPE_TRIPLES] = 3,  /* field, value, expiry */
	[SHAPE_SCORES] = 2,   /* member, score */
};

/* Is this element the text of an integer? */
static bool is_within(struct kw_slice element, const char digits[KW_DIGITS_MAX])
{
	const char *at = element.data;

	return at >= digits && at + element.length <= digits + KW_DIGITS_MAX;
}

/* The expiry stands after the value, whose bytes are gone by then if it is an integer. */
static int visit_triple(struct visit *visit, struct kw_pack *pack, struct kw_slice value)
{
	struct kw_error *error = visit->input.error;
	char digits[KW_DIGITS_MAX];
	uint64_t expires_ms = 0;
	struct kw_slice expiry;

	if (is_within(value, pack->digits)) {
		memcpy(digits, value.data, value.length);
		value.data = digits;
	}
	if (kw_pack_next(pack, &expiry, error) || parse_expiry(expiry, &expires_ms, error))
		return KW_E_CORRUPT;
	return tell_value(visit, value, expires_ms);
}

/* What follows the first element of a group. */
static int visit_rest(struct visit *visit, struct kw_pack *pack, enum shape shape)
{
	struct kw_error *error = visit->input.error;
	struct kw_slice element;
	double score = 0;

	if (kw_pack_next(pack, &element, error))
		return KW_E_CORRUPT;
	if (shape == SHAPE_TRIPLES)
		return visit_triple(visit, pack, element);
	if (shape == SHAPE_PAIRS)
		return tell_value(visit, element, 0);
	if (parse_score(element, &score, error))
		return KW_E_CORRUPT;
	return tell_score(visit, score);
}

static int visit_pack(
	struct visit *visit, struct kw_slice bytes, enum kw_pack_kind kind, enum shape shape)
{
	struct kw_error *error = visit->input.error;
	struct kw_slice element;
	struct kw_pack pack;

	if (kw_pack_open(&pack, kind, bytes, error))
		return KW_E_CORRUPT;
	while (kw_pack_more(&pack)) {
		int code;

		if (kw_pack_next(&pack, &element, error))
			return KW_E_CORRUPT;
		code = shape == SHAPE_ELEMENTS ? tell_element(visit, element)
					       : tell_name(visit, element);
		if (!code && shape != SHAPE_ELEMENTS)
			code = visit_rest(visit, &pack, shape);
		if (code)
			return code;
	}
	if (pack.counted % shape_elements[shape] != 0)
		return kw_error_set(error, KW_E_CORRUPT, "payload: the last element stands alone");
	return kw_pack_finish(&pack, error);
}

static int visit_packed(struct visit *visit, enum kw_pack_kind kind, enum shape shape)
{
	struct kw_slice bytes;
	int code = kw_payload_string(&visit->input, &bytes);

	return code ? code : visit_pack(visit, bytes, kind, shape);
}

static int visit_node(struct visit *visit, enum kw_pack_kind kind, uint64_t form)
{
	struct kw_slice bytes;
	int code;

	if (form != NODE_PACKED && form != NODE_PLAIN)
		return kw_error_set(visit->input.error, KW_E_CORRUPT,
			"payload: list node form %llu does not exist", (unsigned long long)form);
	code = kw_payload_string(&visit->input, &bytes);
	if (code)
		return code;
	return form == NODE_PLAIN ? tell_element(visit, bytes)
				  : visit_pack(visit, bytes, kind, SHAPE_ELEMENTS);
}

static int visit_quicklist(struct visit *visit)
{
	bool second = visit->type == KW_RDB_LIST_QUICKLIST_2;
	enum kw_pack_kind kind = second ? KW_PACK_LISTPACK : KW_PACK_ZIPLIST;
	uint64_t nodes, form = NODE_PACKED;

	if (kw_payload_count(&visit->input, 1, &nodes))
		return KW_E_CORRUPT;
	for (; nodes > 0; nodes--) {
		int code;

		if (second && kw_payload_length(&visit->input, &form))
			return KW_E_CORRUPT;
		code = visit_node(visit, kind, form);
		if (code)
			return code;
	}
	return KW_OK;
}

/* --- by type --- */

static int visit_list(struct visit *visit)
{
	switch (visit->type) {
	case KW_RDB_LIST:
		return visit_strings(visit);
	case KW_RDB_LIST_ZIPLIST:
		return visit_packed(visit, KW_PACK_ZIPLIST, SHAPE_ELEMENTS);
	default:
		return visit_quicklist(visit);
	}
}

static int visit_set(struct visit *visit)
{
	switch (visit->type) {
	case KW_RDB_SET:
		return visit_strings(visit);
	case KW_RDB_SET_INTSET:
		return visit_packed(visit, KW_PACK_INTSET, SHAPE_ELEMENTS);
	default:
		return visit_packed(visit, KW_PACK_LISTPACK, SHAPE_ELEMENTS);
	}
}

static int visit_zset(struct visit *visit)
{
	switch (visit->type) {
	case KW_RDB_ZSET_ZIPLIST:
		return visit_packed(visit, KW_PACK_ZIPLIST, SHAPE_SCORES);
	case KW_RDB_ZSET_LISTPACK:
		return visit_packed(visit, KW_PACK_LISTPACK, SHAPE_SCORES);
	default:
		return visit_strings(visit);
	}
}

static int visit_hash(struct visit *visit)
{
	const uint8_t *lowest;

	switch (visit->type) {
	case KW_RDB_HASH:
		return visit_fields(visit, EXPIRY_NONE);
	case KW_RDB_HASH_ZIPMAP:
		return visit_packed(visit, KW_PACK_ZIPMAP, SHAPE_PAIRS);
	case KW_RDB_HASH_ZIPLIST:
		return visit_packed(visit, KW_PACK_ZIPLIST, SHAPE_PAIRS);
	case KW_RDB_HASH_LISTPACK:
		return visit_packed(visit, KW_PACK_LISTPACK, SHAPE_PAIRS);
	case KW_RDB_HASH_2_OR_PRE_GA:
		return visit_fields(visit,
			visit->version >= KW_RDB_VERSION_VALKEY ? EXPIRY_BEHIND : EXPIRY_ABSOLUTE);
	case KW_RDB_HASH_METADATA:
		return visit_fields(visit, EXPIRY_RELATIVE);
	case KW_RDB_HASH_LISTPACK_EX:
		/* The lowest expiry of all comes first; the listpack's own are absolute. */
		if (kw_payload_take(&visit->input, 8, &lowest))
			return KW_E_CORRUPT;
		return visit_packed(visit, KW_PACK_LISTPACK, SHAPE_TRIPLES);
	default: /* KW_RDB_HASH_LISTPACK_EX_PRE_GA */
		return visit_packed(visit, KW_PACK_LISTPACK, SHAPE_TRIPLES);
	}
}

static int visit_string(struct visit *visit)
{
	struct kw_slice string;
	int code = kw_payload_string(&visit->input, &string);

	return code ? code : told(visit->visitor->string(visit->visitor->arg, string));
}

static int visit_value(struct visit *visit, enum kw_value_kind kind)
{
	switch (kind) {
	case KW_VALUE_STRING:
		return visit_string(visit);
	case KW_VALUE_LIST:
		return visit_list(visit);
	case KW_VALUE_SET:
		return visit_set(visit);
	case KW_VALUE_HASH:
		return visit_hash(visit);
	case KW_VALUE_ZSET:
		return visit_zset(visit);
	case KW_VALUE_STREAM:
	case KW_VALUE_MODULE:
		return kw_error_set(visit->input.error, KW_E_ARGUMENT,
			"payload: the elements of a %s are not visited",
			kind == KW_VALUE_STREAM ? "stream" : "module's value");
	case KW_VALUE_UNKNOWN:
		break;
	}
	return kw_error_set(visit->input.error, KW_E_PROTOCOL,
		"payload: values of type %u are not known here, only their bytes can be compared",
		visit->type);
}

int kw_payload_visit(
	struct kw_slice payload, const struct kw_visitor *visitor, struct kw_error *error)
{
	const uint8_t *bytes = payload.data;
	struct visit visit = {.visitor = visitor};
	int code;

	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes are too few for a DUMP payload", payload.length);
	visit.type = bytes[0];
	visit.version = (uint16_t)kw_little_endian(bytes + payload.length - KW_PAYLOAD_FOOTER, 2);
	kw_payload_input_init(
		&visit.input, kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), error);
	code = visit_value(&visit, kw_payload_kind(payload));
	if (!code && kw_payload_left(&visit.input) != 0)
		code = kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes stand behind the value", kw_payload_left(&visit.input));
	kw_payload_input_close(&visit.input);
	return code == STOPPED ? KW_OK : code;
}
