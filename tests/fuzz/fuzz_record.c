/*
 * Bytes of anybody's as a record, superblock, directory or index root.
 *
 * The first byte chooses which, and whether the checksum is mended first: what a torn READ gives
 * fails by its checksum, what a broken or hostile proxy gives does not. Whatever is accepted must
 * lie within the bytes that were given.
 */
#include "fuzz.h"

#include "table/record.h"
#include "table/runs.h"
#include "table/view.h"

#include <stdlib.h>
#include <string.h>

#define MEND 0x80
#define SCRATCH_MAX 65536

enum target { RECORD, SUPERBLOCK, DIRECTORY, INDEX_ROOT, TARGETS };

static const struct kw_place home = {7, 3, 4096};

static bool within(struct kw_slice inner, const uint8_t *bytes, size_t size)
{
	const uint8_t *start = inner.data;

	return start >= bytes && inner.length <= size &&
	       (size_t)(start - bytes) <= size - inner.length;
}

static void try_record(uint8_t *bytes, size_t size, bool mend)
{
	struct kw_record *record = (struct kw_record *)bytes;
	struct kw_record_view view;

	/* The reader's order: plausible from what is there of it, then all of it. */
	if (!kw_record_plausible(bytes, size, size))
		return;
	must(record->length <= size);
	if (mend) {
		uint64_t by = record->superseded_by & KW_VERSION_MASK;

		record->checksum = kw_record_checksum(record, &home);
		record->superseded_by = kw_superseded_word(record->checksum, by);
	}
	if (kw_record_parse(bytes, &home, &view))
		return;
	must(within(view.key, bytes, size));
	must(within(view.value, bytes, size));
	must(view.length ==
		KW_RECORD_HEADER + (view.expires_ms ? 8 : 0) + view.key.length + view.value.length);
	must(view.kind >= KW_RECORD_PUT && view.kind <= KW_RECORD_FLUSH);
	must(view.superseded_by == 0 || view.superseded_by > view.version);
}

static void try_superblock(uint8_t *bytes, size_t size, bool mend)
{
	struct kw_superblock superblock;
	struct kw_error error = {0};

	if (size < sizeof superblock)
		return;
	memcpy(&superblock, bytes, sizeof superblock);
	if (mend)
		kw_superblock_seal(&superblock);
	if (kw_superblock_check(&superblock, &error))
		must(error.text[0] != '\0');
	else
		must(superblock.layout_version == KW_LAYOUT_VERSION);
}

static void use_directory(const struct kw_directory *directory, const uint8_t *bytes, size_t size)
{
	struct kw_runs runs = {0};
	uint64_t before = 0;

	kw_runs_make(&runs, directory);
	must(within(kw_slice(directory->segments,
			    directory->header->segments * sizeof *directory->segments),
		bytes, size));
	must(within(kw_slice(directory->extents,
			    directory->header->extents * sizeof *directory->extents),
		bytes, size));
	for (uint32_t i = 0; i < directory->header->segments; i++) {
		const struct kw_directory_segment *segment = &directory->segments[i];

		must(segment->id > before);
		must(segment->committed <= segment->capacity);
		must(kw_directory_covers(directory, segment->offset, segment->capacity));
		must(kw_directory_find(directory, segment->id) == segment);
		must(segment->capacity == 0 || kw_runs_find(&runs, directory, segment->offset));
		before = segment->id;
	}
	must(!kw_directory_find(directory, 0));
	must(!kw_directory_covers(directory, UINT64_MAX, 1));
	must(!kw_runs_find(&runs, directory, UINT64_MAX));
	kw_runs_close(&runs);
}

static void try_directory(uint8_t *bytes, size_t size, bool mend)
{
	struct kw_directory_header *header = (struct kw_directory_header *)bytes;
	struct kw_superblock superblock = {.epoch = 7, .directory_publication = 3};
	struct kw_directory directory;
	struct kw_error error = {0};

	if (mend && size >= sizeof *header) {
		header->bytes = (uint32_t)size;
		superblock.epoch = header->epoch;
		superblock.directory_publication = header->publication;
		if (size >= sizeof *header + sizeof(struct kw_directory_segment))
			superblock.head_segment = ((struct kw_directory_segment *)(header + 1))->id;
		kw_directory_seal(header);
	}
	if (kw_directory_parse(bytes, size, &superblock, &directory, &error))
		must(error.text[0] != '\0');
	else
		use_directory(&directory, bytes, size);
}

static void try_index_root(uint8_t *bytes, size_t size, bool mend)
{
	struct kw_index_root root;
	struct kw_error error = {0};

	if (size < sizeof root)
		return;
	memcpy(&root, bytes, sizeof root);
	if (mend)
		kw_index_root_seal(&root);
	if (kw_index_root_check(&root, &error))
		must(error.text[0] != '\0');
	else
		must(root.slots > 0 && root.grown_slots >= root.slots);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const tries[TARGETS])(uint8_t *, size_t, bool) = {
		[RECORD] = try_record,
		[SUPERBLOCK] = try_superblock,
		[DIRECTORY] = try_directory,
		[INDEX_ROOT] = try_index_root,
	};
	uint8_t *bytes, choice;

	if (size == 0 || size > SCRATCH_MAX)
		return 0;
	choice = data[0];
	/* Aligned, as the reader's buffers are, and not a byte larger. */
	bytes = malloc(size > 1 ? size - 1 : 1);
	if (!bytes)
		abort();
	memcpy(bytes, data + 1, size - 1);
	tries[(choice & ~MEND) % TARGETS](bytes, size - 1, choice & MEND);
	free(bytes);
	return 0;
}

/* ---- seeds: one whole thing of each kind ---- */

static size_t seed_record(uint8_t *bytes)
{
	_Alignas(8) uint8_t whole[KW_RECORD_HEADER + 8 + 16] = {0};
	struct kw_record *record = (struct kw_record *)whole;

	kw_record_write(record,
		&(struct kw_record_fields){
			KW_RECORD_PUT, 1, kw_slice_text("a key "), kw_slice_text("ten bytes."), 5},
		9, &home);
	record->superseded_by = kw_superseded_word(record->checksum, 12);
	memcpy(bytes, whole, sizeof whole);
	return sizeof whole;
}

static size_t seed_superblock(uint8_t *bytes)
{
	struct kw_superblock superblock = {
		.magic = KW_SUPERBLOCK_MAGIC,
		.layout_version = KW_LAYOUT_VERSION,
		.epoch = 7,
		.directory_publication = 3,
	};

	kw_superblock_seal(&superblock);
	memcpy(bytes, &superblock, sizeof superblock);
	return sizeof superblock;
}

static size_t seed_directory(uint8_t *bytes)
{
	struct {
		struct kw_directory_header header;
		struct kw_directory_segment segments[2];
		struct kw_extent extents[2];
	} whole = {
		{KW_DIRECTORY_MAGIC, 0, 7, 3, sizeof whole, 2, 2, 0},
		{{3, 8192, 4096, 100, 1, 7}, {4, 12288, 4096, 0, 0, 0}},
		{{0, 16384, 0, 0, 0}, {16384, 16384, 0, 0, 0}},
	};

	kw_directory_seal(&whole.header);
	memcpy(bytes, &whole, sizeof whole);
	return sizeof whole;
}

static size_t seed_index_root(uint8_t *bytes)
{
	struct kw_index_root root = {
		.magic = KW_INDEX_MAGIC,
		.overflow = 64,
		.offset = 65536,
		.slots = 1024,
		.grown_slots = 1280,
	};

	kw_index_root_seal(&root);
	memcpy(bytes, &root, sizeof root);
	return sizeof root;
}

size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	static size_t (*const seeds[TARGETS])(uint8_t *) = {
		[RECORD] = seed_record,
		[SUPERBLOCK] = seed_superblock,
		[DIRECTORY] = seed_directory,
		[INDEX_ROOT] = seed_index_root,
	};

	if (n >= 2 * TARGETS || most < 1024)
		return 0;
	data[0] = (uint8_t)(n % TARGETS | (n >= TARGETS ? MEND : 0));
	return 1 + seeds[n % TARGETS](data + 1);
}
