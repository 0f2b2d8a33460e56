#include "rdb/rdb.h"

#include "base/hash.h"
#include "rdb/libraries.h"
#include "rdb/payload.h"
#include "rdb/payload_type.h"

#include <assert.h>

/* The opcodes that can stand in the place of a type byte: the servers' rdb.h. */
enum {
	OPCODE_SIZES = 251,
	OPCODE_EXPIRES_MS = 252,
	OPCODE_DATABASE = 254,
	OPCODE_END = 255,
};

/* Types count up from 0, opcodes down from 255 (243 at present): no type is this large. */
#define TYPE_LIMIT 192

/* ---- bytes ---- */

static void put_byte(struct kw_buffer *out, uint8_t byte)
{
	kw_buffer_append(out, &byte, 1);
}

static void put_little_endian(struct kw_buffer *out, uint64_t value)
{
	uint8_t bytes[8];

	for (unsigned i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
	kw_buffer_append(out, bytes, sizeof bytes);
}

static void put_big_endian(struct kw_buffer *out, uint64_t value, unsigned bytes)
{
	assert(bytes <= sizeof value);
	for (unsigned i = bytes; i-- > 0;)
		put_byte(out, (uint8_t)(value >> (8 * i)));
}

/* A length in the RDB's variable form; what kw_payload_length takes apart. */
static void put_length(struct kw_buffer *out, uint64_t length)
{
	if (length < 1 << 6) {
		put_byte(out, (uint8_t)length);
	} else if (length < 1 << 14) {
		put_big_endian(out, 0x4000 | length, 2);
	} else if (length <= UINT32_MAX) {
		put_byte(out, 0x80);
		put_big_endian(out, length, 4);
	} else {
		put_byte(out, 0x81);
		put_big_endian(out, length, 8);
	}
}

static void put_string(struct kw_buffer *out, struct kw_slice string)
{
	put_length(out, string.length);
	kw_buffer_append(out, string.data, string.length);
}

/* These bytes belong to the stream now. */
static void account(struct kw_rdb *rdb, const void *bytes, size_t length)
{
	rdb->bytes += length;
	if (rdb->checksummed)
		rdb->crc = kw_crc64(rdb->crc, bytes, length);
}

/* So does what was appended after the first `before` bytes of out. */
static void account_from(struct kw_rdb *rdb, const struct kw_buffer *out, size_t before)
{
	assert(before <= kw_buffer_length(out));
	account(rdb, kw_buffer_bytes(out) + before, kw_buffer_length(out) - before);
}

/* ---- frame ---- */

void kw_rdb_begin(struct kw_rdb *rdb, uint16_t version, bool checksummed, struct kw_buffer *out)
{
	size_t before = kw_buffer_length(out);

	assert(version > 0 && version <= KW_RDB_VERSION_MAX);
	*rdb = (struct kw_rdb){.version = version, .database = -1, .checksummed = checksummed};
	if (version >= KW_RDB_VERSION_VALKEY)
		kw_buffer_printf(out, "VALKEY%03u", version);
	else
		kw_buffer_printf(out, "REDIS%04u", version);
	account_from(rdb, out, before);
}

void kw_rdb_end(struct kw_rdb *rdb, struct kw_buffer *out)
{
	size_t before = kw_buffer_length(out);

	assert(rdb->version > 0);
	put_byte(out, OPCODE_END);
	account_from(rdb, out, before);
	put_little_endian(out, rdb->checksummed ? rdb->crc : 0);
	rdb->bytes += 8;
}

static void select_database(struct kw_rdb *rdb, uint32_t database, struct kw_buffer *out)
{
	if (rdb->database == (int64_t)database)
		return;
	rdb->database = database;
	put_byte(out, OPCODE_DATABASE);
	put_length(out, database);
}

void kw_rdb_sizes(struct kw_rdb *rdb, uint32_t database, uint64_t keys, uint64_t expires,
	struct kw_buffer *out)
{
	size_t before = kw_buffer_length(out);

	select_database(rdb, database, out);
	put_byte(out, OPCODE_SIZES);
	put_length(out, keys);
	put_length(out, expires);
	account_from(rdb, out, before);
}

/* May these bytes, with DUMP's footer, become a part of the stream? */
static int check(const struct kw_rdb *rdb, struct kw_slice payload, struct kw_error *error)
{
	uint16_t version;
	int code = kw_payload_check(payload, &version, error);

	if (code)
		return code;
	/* The forks number the same things differently from Valkey's 80 on. */
	if (version > rdb->version ||
		(version > KW_RDB_VERSION_FORK && rdb->version >= KW_RDB_VERSION_VALKEY &&
			version < KW_RDB_VERSION_VALKEY))
		return kw_error_set(error, KW_E_PROTOCOL,
			"payload: RDB version %u does not go into a stream of version %u", version,
			rdb->version);
	return KW_OK;
}

/* ---- keys ---- */

int kw_rdb_put_head(struct kw_rdb *rdb, const struct kw_rdb_entry *entry, struct kw_buffer *out,
	struct kw_slice *value, struct kw_error *error)
{
	const uint8_t *bytes = entry->payload.data;
	size_t before = kw_buffer_length(out);
	int code = check(rdb, entry->payload, error);

	if (code)
		return code;
	if (bytes[0] >= TYPE_LIMIT)
		return kw_error_set(error, KW_E_PROTOCOL,
			"payload: begins with %u, which is no type of a value", bytes[0]);
	select_database(rdb, entry->database, out);
	if (entry->expires_ms) {
		put_byte(out, OPCODE_EXPIRES_MS);
		put_little_endian(out, entry->expires_ms);
	}
	put_byte(out, bytes[0]);
	put_string(out, entry->key);
	account_from(rdb, out, before);
	*value = kw_slice(bytes + 1, entry->payload.length - KW_PAYLOAD_FOOTER - 1);
	assert(value->length < entry->payload.length);
	account(rdb, value->data, value->length);
	rdb->entries++;
	return KW_OK;
}

int kw_rdb_put(struct kw_rdb *rdb, const struct kw_rdb_entry *entry, struct kw_buffer *out,
	struct kw_error *error)
{
	struct kw_slice value;
	int code = kw_rdb_put_head(rdb, entry, out, &value, error);

	if (code)
		return code;
	kw_buffer_append(out, value.data, value.length);
	return KW_OK;
}

/* ---- functions ---- */

static bool is_named(struct kw_slice code, const char *name)
{
	struct kw_slice found;

	return kw_library_name(code, &found) && kw_slice_equal(found, kw_slice_text(name));
}

static bool is_left_out(struct kw_slice code, const struct kw_rdb_except *except)
{
	if (!except || code.length == 0)
		return false;
	return (except->name && is_named(code, except->name)) ||
	       (except->leave && except->leave(code));
}

/* The next library: appended as it is, or left out. */
static int put_library(
	struct kw_payload_input *input, const struct kw_rdb_except *except, struct kw_buffer *out)
{
	const uint8_t *begin = input->at;
	struct kw_slice code;
	int failed = kw_libraries_next(input, &code);

	if (failed)
		return failed;
	if (!is_left_out(code, except))
		kw_buffer_append(out, begin, (size_t)(input->at - begin));
	return KW_OK;
}

int kw_rdb_functions(struct kw_rdb *rdb, struct kw_slice dump, const struct kw_rdb_except *except,
	struct kw_buffer *out, struct kw_error *error)
{
	size_t before = kw_buffer_length(out);
	struct kw_payload_input input;
	int code;

	assert(rdb->version > 0 && rdb->entries == 0); /* functions come before keys */
	if (kw_libraries_is_empty(dump))
		return KW_OK;
	code = check(rdb, dump, error);
	if (code)
		return code;
	kw_payload_input_init(&input, kw_slice(dump.data, dump.length - KW_PAYLOAD_FOOTER), error);
	while (!code && kw_payload_left(&input) > 0)
		code = put_library(&input, except, out);
	kw_payload_input_close(&input);
	if (code) {
		assert(before <= kw_buffer_length(out));
		out->end = out->start + before;
		return code;
	}
	account_from(rdb, out, before);
	return KW_OK;
}

void kw_rdb_function(struct kw_rdb *rdb, struct kw_slice code, struct kw_buffer *out)
{
	size_t before = kw_buffer_length(out);

	assert(code.length > 0 && rdb->entries == 0);
	put_byte(out, KW_LIBRARY_OPCODE);
	put_string(out, code);
	account_from(rdb, out, before);
}
