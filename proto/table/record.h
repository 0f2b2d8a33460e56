/*
 * Records: how they are written, and how one that does not verify is refused. Superblock and
 * directory are in view.h. Pure functions over bytes; any thread.
 */
#ifndef KW_TABLE_RECORD_H
#define KW_TABLE_RECORD_H

#include "base/error.h"
#include "base/slice.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Where a record stands; part of its checksum. */
struct kw_place {
	uint64_t epoch;
	uint64_t segment; /* id */
	uint64_t offset;  /* in the segment */
};

/* A verified record; key and value point into the bytes it was parsed from. */
struct kw_record_view {
	uint64_t version;
	uint64_t superseded_by;
	uint64_t expires_ms;
	uint32_t database;
	enum kw_record_kind kind;
	struct kw_slice key, value;
	uint32_t length;
};

/* A set of some records of a batch is a word with a bit for each. This is the first `count`. */
#define KW_RECORD_BATCH_MAX 64

static inline uint64_t kw_batch_bits(size_t count)
{
	return count < KW_RECORD_BATCH_MAX ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
}

/* The bytes a record takes in the log, padding included. */
static inline uint64_t kw_record_stride(uint64_t length)
{
	return (length + KW_RECORD_ALIGN - 1) & ~(uint64_t)(KW_RECORD_ALIGN - 1);
}

static inline uint64_t kw_record_length(size_t key_length, size_t value_length, uint64_t expires_ms)
{
	return KW_RECORD_HEADER + (expires_ms ? sizeof expires_ms : 0) + key_length + value_length;
}

/*
 * What a reader gets in the place of a record that it may not see: version and length are kept, all
 * else is zero, and the checksum covers the header alone. front: the record's header. hidden has
 * room for KW_RECORD_HEADER bytes, which are written.
 */
void kw_record_hide(
	struct kw_record *hidden, const struct kw_record *front, const struct kw_place *place);

/* What a header says of itself; of a record that was parsed, or of the writer's own memory. */
static inline uint64_t kw_record_version(const struct kw_record *record)
{
	return record->version_database & KW_VERSION_MASK;
}

static inline uint16_t kw_record_database(const struct kw_record *record)
{
	return (uint16_t)(record->version_database >> KW_VERSION_BITS);
}

static inline enum kw_record_kind kw_record_kind(const struct kw_record *record)
{
	return (enum kw_record_kind)(record->what >> KW_RECORD_KIND_SHIFT);
}

/* Bytes of the expiry: 8 or none. */
static inline uint32_t kw_record_expiry_bytes(const struct kw_record *record)
{
	return record->what & KW_RECORD_EXPIRES ? sizeof(uint64_t) : 0;
}

/* Absolute, 0: never. */
static inline uint64_t kw_record_expires(const struct kw_record *record)
{
	uint64_t expires_ms = 0;

	if (record->what & KW_RECORD_EXPIRES)
		memcpy(&expires_ms, record->body, sizeof expires_ms);
	return expires_ms;
}

static inline struct kw_slice kw_record_key(const struct kw_record *record)
{
	return kw_slice(
		record->body + kw_record_expiry_bytes(record), record->what & KW_RECORD_KEY_MAX);
}

static inline struct kw_slice kw_record_value(const struct kw_record *record)
{
	uint32_t before = kw_record_expiry_bytes(record) + (record->what & KW_RECORD_KEY_MAX);

	return kw_slice(record->body + before, record->length - KW_RECORD_HEADER - before);
}

/* What a record holds, for the writer. */
struct kw_record_fields {
	enum kw_record_kind kind;
	uint32_t database;
	struct kw_slice key, value;
	uint64_t expires_ms; /* absolute, 0: never */
};

/* The same record, unreplaced as it is, at another place. */
void kw_record_copy(
	struct kw_record *to, const struct kw_record *from, const struct kw_place *place);

/*
 * Write a whole record of kw_record_length bytes at `record` (8-byte aligned), superseded by none.
 * The fields are within their bounds.
 */
void kw_record_write(struct kw_record *record, const struct kw_record_fields *fields,
	uint64_t version, const struct kw_place *place);

uint32_t kw_record_checksum(const struct kw_record *record, const struct kw_place *place);

/* The word superseded_by of a record with this checksum; version 0: it is the newest. */
uint64_t kw_superseded_word(uint32_t checksum, uint64_t version);

/* The writer's own question about its own memory. */
static inline bool kw_record_superseded(const struct kw_record *record)
{
	return (record->superseded_by & KW_VERSION_MASK) != 0;
}

/*
 * Is the header at the front of `available` bytes plausible: does `length` fit between a header and
 * `limit` (the bytes left in the segment), expiry and key within length, kind known? Says nothing
 * about its truth. False also when fewer than a header's bytes are available.
 */
bool kw_record_plausible(const void *bytes, size_t available, uint64_t limit);

/* The same for a reader of the log, to whom a record can be hidden. */
bool kw_record_readable(const void *bytes, size_t available, uint64_t limit);

/* What a record's header says of itself; nothing of it is verified. */
struct kw_record_front {
	uint64_t version;
	uint64_t stride;
};

/* False: the header at the front of these bytes is not readable, or not wholly there. */
bool kw_record_peek(
	const void *bytes, size_t available, uint64_t limit, struct kw_record_front *front);

/*
 * Verify the whole record at bytes (plausible or readable, all its bytes available) and describe it
 * in *view; a hidden one has neither key nor value. KW_E_CORRUPT when the checksum or the rules do
 * not hold: torn, recycled or damaged.
 */
int kw_record_parse(const void *bytes, const struct kw_place *place, struct kw_record_view *view);

/*
 * Is the record the newest of its key, seen from head version `head`? A superseded_by above head
 * was written after the head was read; what replaces the record is then still to come in the log.
 */
static inline bool kw_record_live(const struct kw_record_view *view, uint64_t head)
{
	return view->superseded_by == 0 || view->superseded_by > head;
}

#endif
