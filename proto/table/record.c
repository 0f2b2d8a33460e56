#include "table/record.h"

#include "base/hash.h"

#include <stddef.h>
#include <string.h>

uint32_t kw_record_checksum(const struct kw_record *record, const struct kw_place *place)
{
	const bool hidden = kw_record_kind(record) == KW_RECORD_HIDDEN;
	const uint32_t end = hidden ? KW_RECORD_HEADER : record->length;

	/* All that follows the checksum lies in one piece. */
	return kw_crc32c_bound(place->epoch, place->segment, place->offset,
		record->version_database, &record->length,
		end - offsetof(struct kw_record, length));
}

/*
 * Readers look at the tail of the log before it is published. Until its end is written, no reader
 * may take the record, whatever stood here before. So it says that version 1 has replaced it: no
 * head is older.
 */
static void begin_writing(struct kw_record *record)
{
	__atomic_store_n(&record->superseded_by, UINT64_C(1), __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void end_writing(struct kw_record *record, const struct kw_place *place)
{
	record->checksum = kw_record_checksum(record, place);
	__atomic_store_n(
		&record->superseded_by, kw_superseded_word(record->checksum, 0), __ATOMIC_RELEASE);
}

void kw_record_copy(
	struct kw_record *to, const struct kw_record *from, const struct kw_place *place)
{
	const size_t kept = offsetof(struct kw_record, version_database);

	begin_writing(to);
	memcpy((uint8_t *)to + kept, (const uint8_t *)from + kept, from->length - kept);
	end_writing(to, place);
}

void kw_record_write(struct kw_record *record, const struct kw_record_fields *fields,
	uint64_t version, const struct kw_place *place)
{
	uint8_t *at = record->body;

	begin_writing(record);
	record->version_database = version | (uint64_t)fields->database << KW_VERSION_BITS;
	record->length = (uint32_t)kw_record_length(
		fields->key.length, fields->value.length, fields->expires_ms);
	record->what = (uint32_t)fields->key.length | (fields->expires_ms ? KW_RECORD_EXPIRES : 0) |
		       (uint32_t)fields->kind << KW_RECORD_KIND_SHIFT;
	if (fields->expires_ms) {
		memcpy(at, &fields->expires_ms, sizeof fields->expires_ms);
		at += sizeof fields->expires_ms;
	}
	if (fields->key.length > 0)
		at = (uint8_t *)memcpy(at, fields->key.data, fields->key.length) +
		     fields->key.length;
	if (fields->value.length > 0)
		memcpy(at, fields->value.data, fields->value.length);
	end_writing(record, place);
}

uint64_t kw_superseded_word(uint32_t checksum, uint64_t version)
{
	uint32_t check = kw_crc32c_word(checksum, version);

	return version | (uint64_t)(check >> 16 ^ (check & 0xffff)) << KW_VERSION_BITS;
}

void kw_record_hide(
	struct kw_record *hidden, const struct kw_record *front, const struct kw_place *place)
{
	hidden->version_database = kw_record_version(front);
	hidden->length = front->length;
	hidden->what = (uint32_t)KW_RECORD_HIDDEN << KW_RECORD_KIND_SHIFT;
	hidden->checksum = kw_record_checksum(hidden, place);
	hidden->superseded_by = kw_superseded_word(hidden->checksum, 0);
}

bool kw_record_readable(const void *bytes, size_t available, uint64_t limit)
{
	const struct kw_record *record = bytes;
	uint32_t length, what, body;

	if (available < KW_RECORD_HEADER)
		return false;
	/* The bytes can change meanwhile, and lie at any address: each field is read once. */
	memcpy(&length, &record->length, sizeof length);
	memcpy(&what, &record->what, sizeof what);
	if (length < KW_RECORD_HEADER || length > limit || length > KW_RECORD_LENGTH_MAX)
		return false;
	body = (what & KW_RECORD_KEY_MAX) + (what & KW_RECORD_EXPIRES ? sizeof(uint64_t) : 0);
	return body <= length - KW_RECORD_HEADER &&
	       (what >> KW_RECORD_KIND_SHIFT != KW_RECORD_HIDDEN || what == 0);
}

bool kw_record_plausible(const void *bytes, size_t available, uint64_t limit)
{
	const struct kw_record *record = bytes;
	uint32_t what;

	if (!kw_record_readable(bytes, available, limit))
		return false;
	memcpy(&what, &record->what, sizeof what);
	return what >> KW_RECORD_KIND_SHIFT != KW_RECORD_HIDDEN;
}

bool kw_record_peek(
	const void *bytes, size_t available, uint64_t limit, struct kw_record_front *front)
{
	struct kw_record record;

	if (!kw_record_readable(bytes, available, limit))
		return false;
	memcpy(&record, bytes, KW_RECORD_HEADER);
	*front = (struct kw_record_front){
		kw_record_version(&record), kw_record_stride(record.length)};
	return front->stride <= limit;
}

/* It holds. Is it as kw_record_hide makes it? */
static int parse_hidden(const struct kw_record *record, struct kw_record_view *view)
{
	*view = (struct kw_record_view){
		.version = kw_record_version(record),
		.kind = KW_RECORD_HIDDEN,
		.length = record->length,
	};
	return record->what == 0 && record->version_database == view->version &&
			       (record->superseded_by & KW_VERSION_MASK) == 0
		       ? KW_OK
		       : KW_E_CORRUPT;
}

int kw_record_parse(const void *bytes, const struct kw_place *place, struct kw_record_view *view)
{
	const struct kw_record *record = bytes;
	uint64_t superseded_by = record->superseded_by & KW_VERSION_MASK;

	if (kw_record_checksum(record, place) != record->checksum ||
		kw_superseded_word(record->checksum, superseded_by) != record->superseded_by)
		return KW_E_CORRUPT;
	if (kw_record_kind(record) == KW_RECORD_HIDDEN)
		return parse_hidden(record, view);
	*view = (struct kw_record_view){
		.version = kw_record_version(record),
		.superseded_by = superseded_by,
		.expires_ms = kw_record_expires(record),
		.database = kw_record_database(record),
		.kind = kw_record_kind(record),
		.key = kw_record_key(record),
		.value = kw_record_value(record),
		.length = record->length,
	};
	if (view->superseded_by != 0 && view->superseded_by <= view->version)
		return KW_E_CORRUPT;
	if (record->what & KW_RECORD_EXPIRES && view->expires_ms == 0)
		return KW_E_CORRUPT;
	return KW_OK;
}
