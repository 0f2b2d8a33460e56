#include "table/view.h"

#include "base/buffer.h"
#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void kw_superblock_seal(struct kw_superblock *superblock)
{
	superblock->checksum = kw_crc32c(0, superblock, offsetof(struct kw_superblock, checksum));
}

/* The superblock is whole. Could a proxy of this layout have written it? */
static int check_values(const struct kw_superblock *superblock, struct kw_error *error)
{
	uint64_t offset = superblock->directory_offset;

	if (superblock->epoch == 0)
		return kw_error_set(error, KW_E_PROTOCOL, "superblock: no table has epoch 0");
	if (superblock->directory_bytes < sizeof(struct kw_directory_header) ||
		superblock->directory_bytes > KW_DIRECTORY_BYTES_MAX ||
		offset < KW_DIRECTORY_OFFSET || offset % KW_RECORD_ALIGN != 0 ||
		offset > UINT64_MAX - superblock->directory_bytes)
		return kw_error_set(error, KW_E_PROTOCOL,
			"superblock: directory of %u bytes at %llu", superblock->directory_bytes,
			(unsigned long long)offset);
	if (superblock->head_segment == 0 || superblock->head_bytes % KW_RECORD_ALIGN != 0)
		return kw_error_set(error, KW_E_PROTOCOL,
			"superblock: head segment %llu ends at %llu",
			(unsigned long long)superblock->head_segment,
			(unsigned long long)superblock->head_bytes);
	return KW_OK;
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
			"%d: upgrade %s",
			superblock->layout_version, KW_LAYOUT_VERSION,
			superblock->layout_version > KW_LAYOUT_VERSION ? "this program"
								       : "the proxy");
	return check_values(superblock, error);
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
	if (root->stripes > KW_INDEX_STRIPES)
		return kw_error_set(error, KW_E_CORRUPT, "index root: %u stripes", root->stripes);
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
			segment->committed % KW_RECORD_ALIGN != 0 ||
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

/* The bytes are whole, and a directory. Is it the one that the superblock names? */
static int check_publication(const struct kw_directory_header *header,
	const struct kw_superblock *superblock, struct kw_error *error)
{
	if (header->epoch == superblock->epoch &&
		header->publication == superblock->directory_publication)
		return KW_OK;
	return kw_error_set(error, KW_E_GONE,
		"directory: publication %llu, but the superblock names %llu",
		(unsigned long long)header->publication,
		(unsigned long long)superblock->directory_publication);
}

static int check_header(
	const struct kw_directory_header *header, size_t length, struct kw_error *error)
{
	const size_t covered = offsetof(struct kw_directory_header, epoch);

	if (length < sizeof *header || header->magic != KW_DIRECTORY_MAGIC ||
		header->bytes != length)
		return kw_error_set(error, KW_E_CORRUPT, "directory: no valid header");
	if (kw_crc32c(0, (const uint8_t *)header + covered, length - covered) != header->checksum)
		return kw_error_set(error, KW_E_CORRUPT, "directory: the checksum does not hold");
	return KW_OK;
}

static int check_counts(
	const struct kw_directory_header *header, size_t length, struct kw_error *error)
{
	uint64_t needed = sizeof *header +
			  (uint64_t)header->segments * sizeof(struct kw_directory_segment) +
			  (uint64_t)header->extents * sizeof(struct kw_extent);

	if (needed != length)
		return kw_error_set(error, KW_E_CORRUPT, "directory: the counts do not fit");
	return KW_OK;
}

int kw_directory_parse(const void *bytes, size_t length, const struct kw_superblock *superblock,
	struct kw_directory *directory, struct kw_error *error)
{
	const struct kw_directory_header *header = bytes;
	int code;

	assert((uintptr_t)bytes % KW_RECORD_ALIGN == 0);
	if ((code = check_header(header, length, error)) ||
		(code = check_publication(header, superblock, error)) ||
		(code = check_counts(header, length, error)))
		return code;
	directory->header = header;
	directory->segments = (const struct kw_directory_segment *)(header + 1);
	directory->extents = (const struct kw_extent *)(directory->segments + header->segments);
	if (check_extents(directory, error) || check_segments(directory, error))
		return KW_E_CORRUPT;
	return kw_directory_match(directory, superblock, error);
}

int kw_directory_match(const struct kw_directory *directory, const struct kw_superblock *superblock,
	struct kw_error *error)
{
	const struct kw_directory_segment *head;
	int code;

	if (!directory->header)
		return kw_error_set(error, KW_E_GONE, "directory: none is known");
	code = check_publication(directory->header, superblock, error);
	if (code)
		return code;
	head = kw_directory_find(directory, superblock->head_segment);
	if (!head || superblock->head_bytes > head->capacity)
		return kw_error_set(error, KW_E_CORRUPT, "directory: no room for head segment %llu",
			(unsigned long long)superblock->head_segment);
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

uint8_t *kw_view_sink(struct kw_view *view, const struct kw_superblock *superblock)
{
	size_t bytes = superblock->directory_bytes;

	assert(bytes >= sizeof(struct kw_directory_header) && bytes <= KW_DIRECTORY_BYTES_MAX);
	if (bytes > view->sink_capacity) {
		free(view->sink);
		view->sink_capacity = bytes * 2; /* tables grow */
		view->sink = kw_alloc(view->sink_capacity);
	}
	return view->sink;
}

int kw_view_take(
	struct kw_view *view, const struct kw_superblock *superblock, struct kw_error *error)
{
	uint8_t *spare = view->known;
	size_t spare_capacity = view->known_capacity;
	struct kw_directory directory;
	int code;

	assert(view->sink_capacity >= superblock->directory_bytes);
	code = kw_directory_parse(
		view->sink, superblock->directory_bytes, superblock, &directory, error);
	if (code)
		return code;
	view->directory = directory;
	view->known = view->sink;
	view->known_capacity = view->sink_capacity;
	/* Memory of the one before takes the next one. */
	view->sink = spare;
	view->sink_capacity = spare_capacity;
	return KW_OK;
}

void kw_view_forget(struct kw_view *view)
{
	view->directory = (struct kw_directory){0};
}

void kw_view_close(struct kw_view *view)
{
	free(view->known);
	free(view->sink);
	*view = (struct kw_view){0};
}
