#include "rdb/payload.h"

#include "rdb/payload_type.h"
#include "rdb/payload_visit.h"

/* The footer's version; 0 when there is no footer. */
static uint16_t footer_version(struct kw_slice payload)
{
	const uint8_t *bytes = payload.data;

	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return 0;
	return (uint16_t)kw_little_endian(bytes + payload.length - KW_PAYLOAD_FOOTER, 2);
}

int kw_payload_check(struct kw_slice payload, uint16_t *rdb_version, struct kw_error *error)
{
	const uint8_t *bytes = payload.data;
	size_t covered;

	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes are too few for a DUMP payload", payload.length);
	covered = payload.length - 8;
	if (kw_crc64(0, bytes, covered) != kw_little_endian(bytes + covered, 8))
		return kw_error_set(error, KW_E_CORRUPT,
			"payload: the CRC64 of its %zu bytes does not hold", payload.length);
	if (rdb_version)
		*rdb_version = footer_version(payload);
	return KW_OK;
}

/*
 * A module's value begins with the id of its type: 54 bits for nine characters of the name, 10 for
 * the encoding (moduleTypeEncodeId in module.c). These are "vectorset".
 */
#define MODULE_ID_BYTES 8
#define ENCODING_BITS 10
#define VECTOR_SET_ID UINT64_C(0xbde72da2bb1eb400)
#define RDB_LENGTH_64 0x81 /* a length byte: eight more bytes follow, big-endian */

bool kw_payload_is_vector_set(struct kw_slice payload, unsigned *encoding)
{
	const uint8_t *bytes = payload.data;
	uint64_t id = 0;

	if (payload.length < 2 + MODULE_ID_BYTES || bytes[0] != KW_RDB_MODULE_2 ||
		bytes[1] != RDB_LENGTH_64)
		return false;
	for (int i = 0; i < MODULE_ID_BYTES; i++)
		id = id << 8 | bytes[2 + i];
	if (id >> ENCODING_BITS != VECTOR_SET_ID >> ENCODING_BITS)
		return false;
	if (encoding)
		*encoding = (unsigned)(id & ((1 << ENCODING_BITS) - 1));
	return true;
}

enum kw_value_kind kw_payload_kind(struct kw_slice payload)
{
	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return KW_VALUE_UNKNOWN;
	switch (*(const uint8_t *)payload.data) {
	case KW_RDB_STRING:
		return KW_VALUE_STRING;
	case KW_RDB_LIST:
	case KW_RDB_LIST_ZIPLIST:
	case KW_RDB_LIST_QUICKLIST:
	case KW_RDB_LIST_QUICKLIST_2:
		return KW_VALUE_LIST;
	case KW_RDB_SET:
	case KW_RDB_SET_INTSET:
	case KW_RDB_SET_LISTPACK:
		return KW_VALUE_SET;
	case KW_RDB_ZSET:
	case KW_RDB_ZSET_2:
	case KW_RDB_ZSET_ZIPLIST:
	case KW_RDB_ZSET_LISTPACK:
		return KW_VALUE_ZSET;
	case KW_RDB_HASH:
	case KW_RDB_HASH_ZIPMAP:
	case KW_RDB_HASH_ZIPLIST:
	case KW_RDB_HASH_LISTPACK:
	case KW_RDB_HASH_2_OR_PRE_GA:
		return KW_VALUE_HASH;
	case KW_RDB_STREAM:
	case KW_RDB_STREAM_2:
	case KW_RDB_STREAM_3:
		return KW_VALUE_STREAM;
	case KW_RDB_MODULE_2:
		return KW_VALUE_MODULE;
	default:
		break;
	}
	if (footer_version(payload) >= KW_RDB_VERSION_VALKEY)
		return KW_VALUE_UNKNOWN;
	switch (*(const uint8_t *)payload.data) {
	case KW_RDB_HASH_LISTPACK_EX_PRE_GA:
	case KW_RDB_HASH_METADATA:
	case KW_RDB_HASH_LISTPACK_EX:
		return KW_VALUE_HASH;
	case KW_RDB_STREAM_4:
	case KW_RDB_STREAM_5:
		return KW_VALUE_STREAM;
	default:
		return KW_VALUE_UNKNOWN;
	}
}

bool kw_payload_can_expire(struct kw_slice payload)
{
	if (kw_payload_kind(payload) != KW_VALUE_HASH)
		return false;
	switch (*(const uint8_t *)payload.data) {
	case KW_RDB_HASH:
	case KW_RDB_HASH_ZIPMAP:
	case KW_RDB_HASH_ZIPLIST:
	case KW_RDB_HASH_LISTPACK:
		return false;
	default:
		return true;
	}
}

bool kw_payload_is_packed(struct kw_slice payload)
{
	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return false;
	switch (*(const uint8_t *)payload.data) {
	case KW_RDB_HASH_ZIPMAP:
	case KW_RDB_LIST_ZIPLIST:
	case KW_RDB_SET_INTSET:
	case KW_RDB_ZSET_ZIPLIST:
	case KW_RDB_HASH_ZIPLIST:
	case KW_RDB_HASH_LISTPACK:
	case KW_RDB_ZSET_LISTPACK:
	case KW_RDB_SET_LISTPACK:
		return true;
	case KW_RDB_HASH_LISTPACK_EX_PRE_GA:
	case KW_RDB_HASH_LISTPACK_EX:
		return footer_version(payload) < KW_RDB_VERSION_VALKEY;
	default:
		return false;
	}
}

const char *kw_payload_type_name(struct kw_slice payload)
{
	static const char *const names[] = {
		[KW_VALUE_UNKNOWN] = "unknown",
		[KW_VALUE_STRING] = "string",
		[KW_VALUE_LIST] = "list",
		[KW_VALUE_SET] = "set",
		[KW_VALUE_HASH] = "hash",
		[KW_VALUE_ZSET] = "zset",
		[KW_VALUE_STREAM] = "stream",
		[KW_VALUE_MODULE] = "module",
	};

	return names[kw_payload_kind(payload)];
}

int kw_payload_text(
	struct kw_slice payload, size_t most, struct kw_buffer *text, struct kw_error *error)
{
	const uint8_t *bytes = payload.data;
	struct kw_payload_input input;
	struct kw_slice string;
	int code;

	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes are too few for a DUMP payload", payload.length);
	if (bytes[0] != KW_RDB_STRING)
		return kw_error_set(error, KW_E_ARGUMENT, "payload: a %s has no text",
			kw_payload_type_name(payload));
	kw_payload_input_init(
		&input, kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), error);
	code = kw_payload_string(&input, &string);
	if (!code && string.length > most)
		code = kw_error_set(error, KW_E_FULL,
			"payload: the string is %zu bytes long, shown are at most %zu",
			string.length, most);
	if (!code)
		kw_buffer_append(text, string.data, string.length);
	kw_payload_input_close(&input);
	return code;
}
