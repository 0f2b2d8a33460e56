#include "table/record.h"

#include "base/hash.h"

#include <stddef.h>
#include <string.h>

uint32_t kw_record_checksum(const struct kw_record *record, const struct kw_place *place)
{
	/* All that follows the checksum lies in one piece. */
	return kw_crc32c_bound(place->epoch, place->segment, place->offset,
		record->version_database, &record->length,
		record->length - offsetof(struct kw_record, length));
}

/*
 * Readers look at the tail of the log before it is published. Until its end is written the record
 * is to be one that nobody takes, whatever stood here: replaced by version 1, which is above none.
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

bool kw_record_plausible(const void *bytes, size_t available, uint64_t limit)
{
	const struct kw_record *record = bytes;
	uint32_t length, what, body;

	if (available < KW_RECORD_HEADER)
		return false;
	/* The bytes may change meanwhile, and lie at any address: each field is read once. */
	memcpy(&length, &record->length, sizeof length);
	memcpy(&what, &record->what, sizeof what);
	if (length < KW_RECORD_HEADER || length > limit || length > KW_RECORD_LENGTH_MAX)
		return false;
	body = (what & KW_RECORD_KEY_MAX) + (what & KW_RECORD_EXPIRES ? sizeof(uint64_t) : 0);
	return body <= length - KW_RECORD_HEADER && what >> KW_RECORD_KIND_SHIFT != 0;
}

bool kw_record_peek(
	const void *bytes, size_t available, uint64_t limit, struct kw_record_front *front)
{
	struct kw_record record;

	if (!kw_record_plausible(bytes, available, limit))
		return false;
	memcpy(&record, bytes, KW_RECORD_HEADER);
	*front = (struct kw_record_front){
		kw_record_version(&record), kw_record_stride(record.length)};
	return front->stride <= limit;
}

int kw_record_parse(const void *bytes, const struct kw_place *place, struct kw_record_view *view)
{
	const struct kw_record *record = bytes;
	uint64_t superseded_by = record->superseded_by & KW_VERSION_MASK;

	if (kw_record_checksum(record, place) != record->checksum ||
		kw_superseded_word(record->checksum, superseded_by) != record->superseded_by)
		return KW_E_CORRUPT;
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

void kw_superblock_seal(struct kw_superblock *superblock)
{
	superblock->checksum = kw_crc32c(0, superblock, offsetof(struct kw_superblock, checksum));
}

int kw_superblock_check(const struct kw_superblock *superblock, struct kw_error *error)
{
	uint32_t checksum = kw_crc32c(0, superblock, offsetof(struct kw_superblock, checksum));

	if (checksum != superblock->checksum)
		return kw_error_set(error, KW_E_CORRUPT, "superblock: the checksum does not hold");
	if (superblock->magic != KW_SUPERBLOCK_MAGIC)
		return kw_error_set(error, KW_E_PROTOCOL,
			"superblock: this is not a keywake table (magic 0x%08x)",
			superblock->magic);
	if (superblock->layout_version != KW_LAYOUT_VERSION)
		return kw_error_set(error, KW_E_PROTOCOL,
			"superblock: the proxy writes table layout %u, this program reads layout "
			"%d: upgrade the older of the two",
			superblock->layout_version, KW_LAYOUT_VERSION);
	return KW_OK;
}

void kw_index_root_seal(struct kw_index_root *root)
{
	root->checksum = kw_crc32c(0, root, offsetof(struct kw_index_root, checksum));
}

int kw_index_root_check(const struct kw_index_root *root, struct kw_error *error)
{
	if (kw_crc32c(0, root, offsetof(struct kw_index_root, checksum)) != root->checksum)
		return kw_error_set(error, KW_E_CORRUPT, "index root: the checksum does not hold");
	if (root->magic != KW_INDEX_MAGIC)
		return kw_error_set(error, KW_E_PROTOCOL, "index root: magic 0x%08x", root->magic);
	if (root->slots == 0 || root->grown_slots < root->slots)
		return kw_error_set(error, KW_E_CORRUPT, "index root: %llu slots growing to %llu",
			(unsigned long long)root->slots, (unsigned long long)root->grown_slots);
	return KW_OK;
}

void kw_directory_seal(struct kw_directory_header *header)
{
	const size_t covered = offsetof(struct kw_directory_header, epoch);

	header->checksum = kw_crc32c(0, (const uint8_t *)header + covered, header->bytes - covered);
}

static int check_extents(const struct kw_directory *directory, struct kw_error *error)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < directory->header->extents; i++) {
		const struct kw_extent *extent = &directory->extents[i];

		if (extent->offset < end || extent->length == 0 ||
			extent->offset + extent->length < extent->offset)
			return kw_error_set(error, KW_E_CORRUPT,
				"directory: extent %u overlaps the one before or is empty", i);
		end = extent->offset + extent->length;
	}
	return KW_OK;
}

static int check_segments(const struct kw_directory *directory, struct kw_error *error)
{
	uint64_t id = 0;

	for (uint32_t i = 0; i < directory->header->segments; i++) {
		const struct kw_directory_segment *segment = &directory->segments[i];

		if (segment->id <= id)
			return kw_error_set(error, KW_E_CORRUPT,
				"directory: segment ids do not ascend at entry %u", i);
		if (segment->committed > segment->capacity ||
			segment->offset % KW_RECORD_ALIGN != 0 ||
			segment->lowest_version > segment->highest_version)
			return kw_error_set(error, KW_E_CORRUPT,
				"directory: segment %llu is not possible",
				(unsigned long long)segment->id);
		if (!kw_directory_covers(directory, segment->offset, segment->capacity))
			return kw_error_set(error, KW_E_CORRUPT,
				"directory: segment %llu lies outside the extents",
				(unsigned long long)segment->id);
		id = segment->id;
	}
	return KW_OK;
}

int kw_directory_parse(const void *bytes, size_t length, const struct kw_superblock *superblock,
	struct kw_directory *directory, struct kw_error *error)
{
	const struct kw_directory_header *header = bytes;
	const size_t covered = offsetof(struct kw_directory_header, epoch);
	uint64_t needed;

	if (length < sizeof *header || header->magic != KW_DIRECTORY_MAGIC ||
		header->bytes != length)
		return kw_error_set(error, KW_E_CORRUPT, "directory: no valid header");
	if (kw_crc32c(0, (const uint8_t *)header + covered, length - covered) != header->checksum)
		return kw_error_set(error, KW_E_CORRUPT, "directory: the checksum does not hold");
	if (header->epoch != superblock->epoch ||
		header->publication != superblock->directory_publication)
		return kw_error_set(error, KW_E_GONE,
			"directory: publication %llu, but the superblock names %llu",
			(unsigned long long)header->publication,
			(unsigned long long)superblock->directory_publication);
	needed = sizeof *header + (uint64_t)header->segments * sizeof(struct kw_directory_segment) +
		 (uint64_t)header->extents * sizeof(struct kw_extent);
	if (needed != length)
		return kw_error_set(error, KW_E_CORRUPT, "directory: the counts do not fit");
	directory->header = header;
	directory->segments = (const struct kw_directory_segment *)(header + 1);
	directory->extents = (const struct kw_extent *)(directory->segments + header->segments);
	if (check_extents(directory, error) || check_segments(directory, error))
		return KW_E_CORRUPT;
	return KW_OK;
}

const struct kw_directory_segment *kw_directory_find(
	const struct kw_directory *directory, uint64_t id)
{
	uint32_t low = 0, high = directory->header->segments;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (directory->segments[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == directory->header->segments || directory->segments[low].id != id)
		return NULL;
	return &directory->segments[low];
}

const struct kw_directory_segment *kw_directory_at(
	const struct kw_directory *directory, uint64_t offset)
{
	/* Segments stand in order of id, not of offset; lookups are rare enough for a scan. */
	for (uint32_t i = 0; i < directory->header->segments; i++) {
		const struct kw_directory_segment *segment = &directory->segments[i];

		if (offset >= segment->offset && offset - segment->offset < segment->capacity)
			return segment;
	}
	return NULL;
}

bool kw_directory_covers(const struct kw_directory *directory, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;

	if (end < offset)
		return false;
	for (uint32_t i = 0; i < directory->header->extents && offset < end; i++) {
		const struct kw_extent *extent = &directory->extents[i];

		if (offset >= extent->offset && offset - extent->offset < extent->length)
			offset = extent->offset + extent->length;
	}
	return offset >= end;
}
