#include "table/keep.h"

#include "base/hash.h"
#include "table/table_internal.h"
#include "table/view.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static struct kw_keep_seal *seal_of(const struct kw_table_memory *memory)
{
	return (struct kw_keep_seal *)(memory->base + KW_KEEP_OFFSET);
}

static uint32_t checksum_of(const struct kw_keep_seal *seal)
{
	const size_t covered = offsetof(struct kw_keep_seal, keep_version);

	return kw_crc32c(0, (const uint8_t *)seal + covered, sizeof *seal - covered);
}

void kw_table_seal(struct kw_table *table, const struct kw_keep_terms *terms, uint64_t wall_us)
{
	const struct kw_segments *segments = &table->segments;
	struct kw_keep_seal seal = {
		.magic = KW_KEEP_MAGIC,
		.keep_version = KW_KEEP_VERSION,
		.state = KW_KEEP_CLEAN,
		.epoch = table->options.epoch,
		.reserve_bytes = table->memory.reserve_bytes,
		.segment_bytes = table->options.segment_bytes,
		.granule_bytes = segments->granule_bytes,
		.index_offset = table->index_offset,
		.index_reserve = table->index_reserve,
		.identity = terms->identity,
		.scope = terms->scope,
		.readers = terms->readers,
		.wall_us = wall_us,
	};

	/* The head's entry in the directory is stale otherwise. */
	table->directory_stale = true;
	kw_table_publish(table, wall_us);
	seal.publication = table->publication;
	seal.frontier = segments->frontier;
	seal.next_segment_id = segments->next_id;
	seal.superblock = table->superblock->checksum;
	seal.checksum = checksum_of(&seal);
	*seal_of(&table->memory) = seal;
	kw_publish_barrier();
}

/* Before anything is changed: if this process ends by force, no other may adopt the table. */
static void open_seal(const struct kw_table_memory *memory)
{
	struct kw_keep_seal *seal = seal_of(memory);

	seal->state = KW_KEEP_OPEN;
	seal->checksum = checksum_of(seal);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static int check_seal(const struct kw_keep_seal *seal, struct kw_error *error)
{
	if (seal->magic != KW_KEEP_MAGIC)
		return kw_error_set(error, KW_E_GONE, "it has no seal");
	if (checksum_of(seal) != seal->checksum)
		return kw_error_set(error, KW_E_CORRUPT, "the checksum of its seal does not hold");
	if (seal->keep_version != KW_KEEP_VERSION)
		return kw_error_set(error, KW_E_CONFIG,
			"its seal is of version %u, and this program reads version %d",
			seal->keep_version, KW_KEEP_VERSION);
	if (seal->state != KW_KEEP_CLEAN)
		return kw_error_set(
			error, KW_E_GONE, "the proxy that wrote it did not end in good order");
	return KW_OK;
}

/* The keys whose change gives the table another layout, or other contents. */
static int check_terms(const struct kw_keep_seal *seal, const struct kw_table_options *options,
	const struct kw_table_memory *memory, const struct kw_keep_terms *terms,
	struct kw_error *error)
{
	if (options->max_bytes > seal->reserve_bytes)
		return kw_error_set(error, KW_E_CONFIG,
			"table.max_bytes was raised to %llu, and it has addresses for %llu bytes",
			(unsigned long long)options->max_bytes,
			(unsigned long long)seal->reserve_bytes);
	if (memory->reserve_bytes != seal->reserve_bytes)
		return kw_error_set(error, KW_E_CORRUPT, "it is %llu bytes long, not %llu",
			(unsigned long long)memory->reserve_bytes,
			(unsigned long long)seal->reserve_bytes);
	if (options->segment_bytes != 0 && options->segment_bytes != seal->segment_bytes)
		return kw_error_set(error, KW_E_CONFIG,
			"table.segment_bytes is %llu now, and was %llu",
			(unsigned long long)options->segment_bytes,
			(unsigned long long)seal->segment_bytes);
	if (terms->identity != seal->identity)
		return kw_error_set(error, KW_E_CONFIG,
			"name was changed (or redis.address or the host's name, if name is not "
			"set)");
	if (terms->scope != seal->scope)
		return kw_error_set(error, KW_E_CONFIG,
			"source.databases, source.cursor_name, source.canary_key or "
			"source.functions was changed");
	return KW_OK;
}

/* The superblock is the one that the seal was put beside, and names a directory in the memory. */
static int check_superblock(const struct kw_keep_seal *seal, const struct kw_superblock *superblock,
	const struct kw_table *table, struct kw_error *error)
{
	int code = kw_superblock_check(superblock, error);

	if (code)
		return code;
	if (superblock->checksum != seal->superblock || superblock->epoch != seal->epoch ||
		superblock->publication != seal->publication ||
		superblock->directory_offset !=
			kw_directory_offset(table, superblock->directory_publication) ||
		superblock->directory_bytes > table->directory_capacity ||
		superblock->version > KW_VERSION_MASK ||
		superblock->tombstone_floor > superblock->version)
		return kw_error_set(error, KW_E_CORRUPT, "it was published after it was sealed");
	return KW_OK;
}

static int check_layout(
	const struct kw_keep_seal *seal, const struct kw_table *table, struct kw_error *error)
{
	if (table->segments.granule_bytes == seal->granule_bytes &&
		table->index_offset == seal->index_offset &&
		table->index_reserve == seal->index_reserve)
		return KW_OK;
	return kw_error_set(
		error, KW_E_CONFIG, "this version of keywake lays the memory out in another way");
}

/* The index does not shrink: a lower table.max_bytes can leave no room beside it. */
static int check_room(const struct kw_table *table, struct kw_error *error)
{
	if (kw_data_limit(table) * table->segments.granule_bytes >=
		KW_LEAST_SEGMENTS * table->options.segment_bytes)
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"table.max_bytes was lowered to %llu, too little beside the index that it has",
		(unsigned long long)table->options.max_bytes);
}

/* What the superblock says is what this process says, until its source knows better. */
static int take_facts(
	struct kw_table *table, const struct kw_superblock *superblock, struct kw_error *error)
{
	int code;

	table->version = table->published_version = superblock->version;
	table->published_us = superblock->published_us;
	table->publication = superblock->publication;
	table->directory_publication = superblock->directory_publication;
	table->directory_bytes = superblock->directory_bytes;
	table->floor = superblock->tombstone_floor;
	table->wall_us = superblock->heartbeat_us;
	table->facts = (struct kw_table_facts){
		.source_state = KW_SOURCE_CONNECTING,
		.complete = superblock->complete,
		.rdb_version = superblock->rdb_version,
		.ticket = superblock->ticket,
		.source_id = superblock->source_id,
	};
	table->history_checksum = superblock->history_checksum;
	if (superblock->history_checksum == 0)
		return KW_OK;
	code = kw_history_parse(
		(const struct kw_history_record *)(table->memory.base + KW_HISTORY_OFFSET),
		superblock->history_checksum, &table->history, error);
	return code ? code : kw_table_adopt_functions(table, error);
}

static int adopt(struct kw_table *table, const struct kw_keep_seal *seal, struct kw_error *error)
{
	const struct kw_superblock superblock = *table->superblock;
	int code = check_superblock(seal, &superblock, table, error);

	if (code || (code = check_layout(seal, table, error)))
		return code;
	open_seal(&table->memory);
	if ((code = take_facts(table, &superblock, error)) ||
		(code = kw_table_rebuild(
			 table, &superblock, seal->frontier, seal->next_segment_id, error)) ||
		(code = check_room(table, error)))
		return code;
	/* So no record is written after bytes that another process wrote. */
	kw_log_break(table);
	table->kept = table->directory_stale = true;
	return KW_OK;
}

struct kw_table *kw_table_adopt(const struct kw_table_options *options,
	const struct kw_table_memory *memory, const struct kw_keep_terms *terms,
	struct kw_error *error)
{
	struct kw_table_options as_it_was = *options;
	struct kw_keep_seal seal;
	struct kw_table *table;

	if (memory->reserve_bytes <= KW_DIRECTORY_OFFSET) {
		kw_error_set(error, KW_E_CORRUPT, "it is only %llu bytes long",
			(unsigned long long)memory->reserve_bytes);
		return NULL;
	}
	seal = *seal_of(memory);
	if (check_seal(&seal, error) || check_terms(&seal, options, memory, terms, error))
		return NULL;
	as_it_was.segment_bytes = seal.segment_bytes;
	as_it_was.epoch = seal.epoch;
	table = kw_table_prepare(&as_it_was, memory, error);
	if (table && adopt(table, &seal, error)) {
		kw_table_free(table);
		table = NULL;
	}
	return table;
}

bool kw_keep_read_by(const uint8_t *base, uint64_t readers)
{
	const struct kw_keep_seal *seal = (const struct kw_keep_seal *)(base + KW_KEEP_OFFSET);

	return readers != 0 && seal->readers == readers;
}

uint64_t kw_table_sealed_us(const struct kw_table *table)
{
	assert(table->kept);
	return seal_of(&table->memory)->wall_us;
}
