#include "table/record.h"

#include "base/hash.h"

#include <stddef.h>
#include <string.h>

uint32_t kw_record_checksum(const struct kw_record *record, const struct kw_place *place)
{
	/* One run of bytes rather than five calls: the place and the fixed header together. */
	struct {
		uint64_t epoch, segment, offset;
		uint32_t length;
		uint32_t key_length;
		uint64_t version, expires_ms;
		uint16_t database;
		uint8_t kind, reserved;
		uint32_t pad;
	} bound = {
		.epoch = place->epoch,
		.segment = place->segment,
		.offset = place->offset,
		.length = record->length,
		.key_length = record->key_length,
		.version = record->version,
		.expires_ms = record->expires_ms,
		.database = record->database,
		.kind = record->kind,
		.reserved = record->reserved,
	};

	return kw_crc32c(
		kw_crc32c(0, &bound, sizeof bound), record + 1, record->length - sizeof *record);
}

uint64_t kw_superseded_word(uint32_t checksum, uint64_t version)
{
	uint32_t check = kw_crc32c(checksum, &version, sizeof version);

	return version | (uint64_t)(check >> 16 ^ (check & 0xffff)) << KW_VERSION_BITS;
}

bool kw_record_plausible(const void *bytes, size_t available, uint64_t limit)
{
	struct kw_record record;

	if (available < sizeof record)
		return false;
	memcpy(&record, bytes, sizeof record);
	if (record.length < sizeof record || record.length > limit ||
		record.length > KW_RECORD_LENGTH_MAX)
		return false;
	if (record.key_length > record.length - sizeof record)
		return false;
	return record.kind >= KW_RECORD_PUT && record.kind <= KW_RECORD_FLUSH;
}

int kw_record_parse(const void *bytes, const struct kw_place *place, struct kw_record_view *view)
{
	const struct kw_record *record = bytes;
	const uint8_t *key = (const uint8_t *)(record + 1);
	uint32_t value_length = record->length - (uint32_t)sizeof *record - record->key_length;

	uint64_t word = record->superseded_by;
	uint64_t superseded_by = word & ((UINT64_C(1) << KW_VERSION_BITS) - 1);

	if (kw_record_checksum(record, place) != record->checksum ||
		kw_superseded_word(record->checksum, superseded_by) != word)
		return KW_E_CORRUPT;
	*view = (struct kw_record_view){
		.version = record->version,
		.superseded_by = superseded_by,
		.expires_ms = record->expires_ms,
		.database = record->database,
		.kind = record->kind,
		.key = kw_slice(key, record->key_length),
		.value = kw_slice(key + record->key_length, value_length),
		.length = record->length,
	};
	if (view->superseded_by != 0 && view->superseded_by <= view->version)
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
