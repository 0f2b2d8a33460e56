/*
 * The inside of the table, shared by its parts:
 *
 *   create.c   a new table: its layout in the memory file
 *   keep.c     the seal of a table that is kept over a restart, and who may adopt it
 *   rebuild.c  what is only in the process, computed again from the bytes that readers trust
 *   table.c    what the outside asks for: put, delete, flush, get, marks, limits
 *   log.c      room for a record, writing it, superseding the one before
 *   cleaner.c  which segments to clean, and moving what lives in them
 *   publish.c  directory and superblock: what readers see
 *   functions.c  the function libraries, beside the log
 *   room.c     memory for the index, and what will be needed next
 *
 * No other file includes this.
 */
#ifndef KW_PROXY_TABLE_INTERNAL_H
#define KW_PROXY_TABLE_INTERNAL_H

#include "table/index.h"
#include "table/record.h"
#include "table/segments.h"
#include "table/table.h"

/* Segments that may be in use beyond live / utilisation; what a young table is allowed to waste. */
#define KW_SLACK_SEGMENTS 2
/* A smaller table cannot be written. */
#define KW_LEAST_SEGMENTS 6
/* Memory reserved for segments of the cleaner, so that it can always begin. */
#define KW_CLEANER_SEGMENTS 2
/* A record of at least so many granules gets a run of its own (waste at most 1/8). */
#define KW_SINGLE_GRANULES 8
/* Moments remembered to tell which versions are older than the retention time. */
#define KW_AGE_SAMPLES 32

struct kw_flush_place {
	uint32_t database;
	uint64_t offset; /* of the newest flush record of this database */
	uint64_t version;
};

struct kw_age_sample {
	uint64_t at_us, version;
};

struct kw_table {
	struct kw_table_options options;
	struct kw_table_memory memory;
	struct kw_superblock *superblock; /* in the memory file */
	uint64_t directory_capacity;      /* bytes of each of the two */
	uint64_t functions_offset;        /* of the first of the two; 0: it carries none */
	uint64_t functions_given;         /* the highest version of a set, ever */
	uint64_t functions_published; /* where the set is that was published last; 0: none was */
	uint64_t index_offset, index_reserve, index_extended;
	struct kw_index index;
	struct kw_segments segments;
	struct kw_segment *head;

	uint64_t now_us, wall_us;
	uint64_t version, published_version, published_us;
	uint64_t publication, directory_publication;
	uint64_t directory_bytes;
	bool directory_stale, dirty;
	bool kept; /* adopted: another process wrote it before */
	uint64_t floor, passed;
	uint64_t let_go; /* cleaner.c: tombstones up to here are kept for no agent any more */
	uint64_t tidied_version, tidied_us;      /* when kw_table_tidy was called last */
	double held;                             /* log.c: lower_held */
	uint64_t unused_since_us, unused_before; /* log.c: unused_granules */
	struct kw_table_facts facts;
	struct kw_history history; /* of the data; standing NONE: none is published */
	uint32_t history_checksum; /* of the record in the memory file; 0: none */
	bool history_stale;        /* the next publication must write it */
	struct kw_age_sample ages[KW_AGE_SAMPLES];
	uint64_t age_count;

	uint64_t *database_keys;
	size_t database_capacity;
	struct kw_flush_place *flushes;
	size_t flush_count, flush_capacity;

	uint64_t keys, tombstones, live_bytes, payload_bytes;
	/*
	 * kw_clean_survey: no reader needs tombstones up to this version; their bytes in sealed
	 * segments in which no tombstone is needed.
	 */
	uint64_t droppable_up_to, droppable_bytes;
	uint64_t cleaned_segments, cleaned_bytes, written_bytes;
	uint64_t victim_bytes; /* of segments that leave with the next publication */
	uint64_t cleaner_ns;   /* of CPU time */
	uint64_t refused_bytes, refused_live, refused_free,
		refused_us;    /* log.c: remember_refusal */
	uint64_t touched_then; /* when max_bytes was set: memory that was in use already */
	uint64_t walk_segment, walk_offset; /* kw_table_unseen */
};

/* create.c */

/* A table with its layout, and no memory yet; NULL: the options are wrong. */
struct kw_table *kw_table_prepare(const struct kw_table_options *options,
	const struct kw_table_memory *memory, struct kw_error *error);

/* table.c */

/* A live key comes (sign 1) or goes (-1). */
void kw_table_count_key(struct kw_table *table, const struct kw_record *record, int sign);

/* One more in table->flushes; the caller fills it. */
struct kw_flush_place *kw_table_add_flush(struct kw_table *table);

/* publish.c */

/* Where the directory of this publication stands: the two are written in turn. */
uint64_t kw_directory_offset(const struct kw_table *table, uint64_t publication);

/* Earlier stores are visible before later ones, to other CPUs and to a NIC. */
void kw_publish_barrier(void);

/* functions.c: the history names a set. Is it where this table has it, and whole? KW_E_CORRUPT. */
int kw_table_adopt_functions(struct kw_table *table, struct kw_error *error);

/* rebuild.c */

/*
 * Compute what only the process before knew: segments, index, counts. Every record up to the
 * superblock's head is verified, and every slot of the index must name a record that is live.
 * KW_E_CORRUPT with a sentence: something does not fit, and the table must not be used. The
 * superblock is verified. frontier and next_id are those of the seal.
 */
int kw_table_rebuild(struct kw_table *table, const struct kw_superblock *superblock,
	uint64_t frontier, uint64_t next_id, struct kw_error *error);

/* log.c */

/* Does a record of this stride get a run of its own? */
bool kw_log_is_large(const struct kw_table *table, uint64_t stride);

static inline struct kw_record *kw_record_at(const struct kw_table *table, uint64_t offset)
{
	return (struct kw_record *)(table->memory.base + offset);
}

/* Bytes of data memory that max_bytes leaves, in granules. */
uint64_t kw_data_limit(const struct kw_table *table);

/* The size of the next segment: options.segment_bytes, or less while the table is small. */
uint64_t kw_log_segment_bytes(const struct kw_table *table);

/*
 * The next record goes to another segment than the one before. A reader that looks at the tail
 * alone must read the superblock before it gets that record.
 */
void kw_log_break(struct kw_table *table);

/* A segment with room for a record of this stride (cleaning if need be); NULL: full. */
struct kw_segment *kw_log_room(struct kw_table *table, uint64_t stride, bool for_delete);

/* room.c: let the index have memory for `slots`. False: there is none below max_bytes. */
bool kw_room_index_slots(struct kw_table *table, uint64_t slots);

/* Is there room in the index for one entry more? */
bool kw_room_index(struct kw_table *table);

/* … or can it be made? Tombstones hold slots too: those that no reader needs can go. */
bool kw_room_index_reclaimed(struct kw_table *table);

/* Memory that is likely to be wanted next is announced (kw_table_memory.expect). */
void kw_room_announce(const struct kw_table *table);

/* May so many more live bytes be taken in, given that the cleaner can gather what is dead? */
bool kw_log_may_grow(const struct kw_table *table, uint64_t bytes, bool for_delete);

/* Was a record of this size refused for lack of free runs, and has no memory come free since? */
bool kw_log_refused(const struct kw_table *table, uint64_t bytes);

/*
 * Write a record after what the segment holds; returns its offset in the memory file. Readers look
 * at the tail before it is published (proto/table/FORMAT.md). So a new record has the version after
 * the last one's, goes to the head, or seals it, and is never taken back.
 */
uint64_t kw_log_append(struct kw_table *table, struct kw_segment *segment,
	const struct kw_record_fields *fields, uint64_t version);

/* Write a record that stands elsewhere, with its version, after what the segment holds. */
uint64_t kw_log_copy(
	struct kw_table *table, struct kw_segment *segment, const struct kw_record *from);

/* The record at offset has been replaced by version. */
void kw_log_supersede(struct kw_table *table, uint64_t offset, uint64_t version);

/* What a record counts in live bytes: its stride, or the whole run it has to itself. */
uint64_t kw_log_weight(const struct kw_segment *segment, const struct kw_record *record);

/* The index slot of a key, or of the record at this offset; NULL: none. */
struct kw_index_slot *kw_table_find(
	const struct kw_table *table, uint64_t hash, uint32_t database, struct kw_slice key);
struct kw_index_slot *kw_table_find_at(
	const struct kw_table *table, uint64_t hash, uint64_t offset);
uint64_t kw_table_hash(const struct kw_table *table, uint32_t database, struct kw_slice key);

/*
 * Take the tombstone of this slot out of the index: a reader that has not seen it must reconcile.
 */
void kw_table_raise_floor(struct kw_table *table, uint64_t version);

/* cleaner.c */

enum kw_cleaning {
	KW_CLEANING_NORMAL, /* a write has come while more is in use than utilisation allows */
	KW_CLEANING_HARD,   /* memory is short: clean all that gains; publish, and free at once */
	KW_CLEANING_IDLE,   /* no write waits: only what gives memory back */
};

/*
 * Move the live records of a few segments into a fresh one, which becomes the head of the log with
 * at least `least` bytes left. False: nothing was gained.
 */
bool kw_clean(struct kw_table *table, uint64_t least, enum kw_cleaning how);

/* Sealed segments without a live record become victims at once. */
void kw_clean_dead(struct kw_table *table);

/* Count anew the tombstones that have outlived retention and readers: droppable_bytes. */
void kw_clean_survey(struct kw_table *table);

#endif
