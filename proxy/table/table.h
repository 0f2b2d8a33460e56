/*
 * The table: a log of records in remotely readable memory, with an index. The writer's side.
 *
 *   put/delete/flush ──▶ head segment ──full──▶ seal, clean (cleaner.c), open a new head
 *          │                  │
 *          └─▶ index (index.h)└─ kw_table_publish ──▶ directory, superblock: readers see it
 *
 * Pure: memory, time and the growth of memory are handed in; tests/sim runs it unchanged.
 * One thread writes; readers elsewhere see only what layout.h promises.
 *
 * Nothing is visible to readers before kw_table_publish, except that superseded records are marked
 * (reading rule 1). Call publish once a batch, not once a record.
 */
#ifndef KW_PROXY_TABLE_H
#define KW_PROXY_TABLE_H

#include "base/error.h"
#include "base/slice.h"
#include "table/history.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kw_table;

/* The memory a table lives in: one reservation of addresses, made usable extent by extent. */
struct kw_table_memory {
	uint8_t *base;          /* of offset 0; `reserve_bytes` of addresses */
	uint64_t reserve_bytes; /* the bound that no change of max_bytes can lift */
	/*
	 * Make [extent->offset, +length) readable remotely: fill address and rkey. The bytes are
	 * zero. Returns 0 or a code with the sentence in *error (memlock too small, device gone).
	 */
	int (*extend)(void *arg, struct kw_extent *extent, struct kw_error *error);
	/*
	 * `extend` might be called for [offset, +length) soon: slow work, such as pinning it for a
	 * device, can begin. Called more than once for the same range. NULL: not needed.
	 */
	void (*expect)(void *arg, uint64_t offset, uint64_t length);
	/*
	 * [offset, +length) of an extent is not needed for now: its pages may go back to the
	 * system. A later read there can find any bytes. False: it cannot be given back (a device
	 * has it pinned), and this is not asked again. NULL: never.
	 */
	bool (*give_back)(void *arg, uint64_t offset, uint64_t length);
	void *arg;
};

struct kw_table_options {
	uint64_t max_bytes;     /* control, index and segments together */
	uint64_t segment_bytes; /* power of two, 4 KiB … 1 GiB; 0: by max_bytes */
	double utilisation;    /* live/used above which memory grows before it is cleaned; 0: 0.9 */
	uint64_t retention_us; /* tombstones are kept at least this long */
	uint32_t held_part;    /* older ones are kept for agents in this part of the memory; 0: 8 */
	uint64_t grace_us;  /* a cleaned segment rests this long before its memory is used again */
	bool functions;     /* it carries function libraries: two areas of KW_FUNCTIONS_BYTES */
	uint64_t epoch;     /* random, not 0 */
	uint64_t hash_seed; /* random */
	uint64_t (*cpu_ns)(void); /* CPU time of the calling thread; NULL: not counted */
	/* Do different bytes say the same value? Asked only of two with the same expiry. NULL:
	 * never. */
	bool (*same_value)(struct kw_slice held, struct kw_slice put);
};

enum kw_put_result {
	KW_PUT_STORED,    /* a new version stands in the log */
	KW_PUT_UNCHANGED, /* equal to what is published: nothing was written */
	KW_PUT_FULL,      /* no room below max_bytes: nothing was written; try again later */
	KW_PUT_TOO_LARGE, /* larger than a record can be, or than max_bytes: it never fits */
};

struct kw_table_stats {
	uint64_t keys;             /* live keys */
	uint64_t tombstones;       /* still in the log */
	uint64_t version;          /* highest given, published or not */
	uint64_t live_bytes;       /* records that are live, tombstones included */
	uint64_t payload_bytes;    /* keys and values of live keys */
	uint64_t used_bytes;       /* memory in use: segments, index, directories */
	uint64_t capacity_bytes;   /* max_bytes */
	uint64_t given_back_bytes; /* free memory that the system has: not in used_bytes */
	uint64_t segments, free_segments, resting_segments;
	uint64_t cleaned_segments, cleaned_bytes; /* copied by the cleaner */
	uint64_t cleaner_us;                      /* CPU time it took; 0 without options.cpu_ns */
	uint64_t written_bytes;                   /* records appended by put, delete, flush */
	uint64_t tombstone_floor;
	uint64_t let_go_version; /* up to it tombstones were too many to be kept for agents */
	uint64_t index_slots;
};

struct kw_table *kw_table_new(const struct kw_table_options *options,
	const struct kw_table_memory *memory, uint64_t now_us, struct kw_error *error);
void kw_table_free(struct kw_table *table);

/* Was it adopted (keep.h)? Then the process before has filled it. */
bool kw_table_is_kept(const struct kw_table *table);
uint64_t kw_table_epoch(const struct kw_table *table);

/* The clock the table goes by (monotonic); set it before a batch. */
void kw_table_set_time(struct kw_table *table, uint64_t now_us);

enum kw_put_result kw_table_put(struct kw_table *table, uint32_t database, struct kw_slice key,
	struct kw_slice value, uint64_t expires_ms);

/*
 * The key is gone. A key that is not live writes nothing (KW_PUT_UNCHANGED). Deletes may use the
 * reserve that puts must not use; KW_PUT_FULL only when even that is exhausted.
 */
enum kw_put_result kw_table_delete(struct kw_table *table, uint32_t database, struct kw_slice key);

/* One put or delete of a batch. Key and value belong to the caller; valid during the call. */
struct kw_table_change {
	enum kw_record_kind kind; /* KW_RECORD_PUT or KW_RECORD_DELETE, which has no value */
	uint32_t database;
	struct kw_slice key, value;
	uint64_t expires_ms;       /* absolute, 0: never */
	enum kw_put_result result; /* set by the table */
};

/*
 * Carry out all of them, in this order, each as kw_table_put or kw_table_delete does. With many
 * keys neither index nor records are in a cache. So the table loads what the next few changes touch
 * while it works on one.
 */
void kw_table_change_all(struct kw_table *table, struct kw_table_change *changes, size_t count);

/* Every key of the database is gone: one record, and a walk over the index. */
enum kw_put_result kw_table_flush(struct kw_table *table, uint32_t database);

/* Is the key live, and what is published for it? Slices point into the table; valid until a write.
 */
bool kw_table_get(const struct kw_table *table, uint32_t database, struct kw_slice key,
	struct kw_slice *value, uint64_t *expires_ms);

/*
 * Call fn for each live key of the database, until it returns false: then so does this. Slices
 * point into the table, and fn must not write to it. A walk over the index of all databases.
 */
typedef bool (*kw_table_each_fn)(
	void *arg, struct kw_slice key, struct kw_slice value, uint64_t expires_ms);
bool kw_table_each(const struct kw_table *table, uint32_t database, kw_table_each_fn fn, void *arg);

/* Live keys of a database. */
uint64_t kw_table_database_keys(const struct kw_table *table, uint32_t database);

/*
 * Reconcile marks. begin turns the mark over: every live key is then "not seen". put, delete and
 * mark make a key seen. unseen walks the log from *cursor (0 to begin) and hands out live keys not
 * seen; one call looks at no more than `budget` records. It returns false when the walk is
 * complete. A key that is moved meanwhile can be handed out twice; none is left out.
 */
void kw_table_marks_begin(struct kw_table *table);
void kw_table_mark(struct kw_table *table, uint32_t database, struct kw_slice key);
typedef void (*kw_table_key_fn)(void *arg, uint32_t database, struct kw_slice key);
bool kw_table_unseen(
	struct kw_table *table, uint64_t *cursor, uint32_t budget, kw_table_key_fn fn, void *arg);

/*
 * Count live keys not seen, with the expiry of each, before any is asked for. The walk goes over
 * the index from *cursor (0 to begin), and one call looks at no more than `budget` slots. It
 * returns false when the walk is complete. Keys that writes move meanwhile can be counted twice or
 * not at all: the result is a number to judge by.
 */
typedef void (*kw_table_unseen_fn)(void *arg, uint32_t database, uint64_t expires_ms);
bool kw_table_count_unseen(const struct kw_table *table, uint64_t *cursor, uint32_t budget,
	kw_table_unseen_fn fn, void *arg);

/* What the superblock says besides head and directory. Visible at the next publish. */
struct kw_table_facts {
	enum kw_source_state source_state;
	bool complete;
	uint16_t rdb_version;
	uint16_t ticket;
	uint64_t fresh_us;  /* wall clock */
	uint64_t source_id; /* kw_server_id of the primary; 0: unknown */
};
const struct kw_table_facts *kw_table_facts(const struct kw_table *table);
void kw_table_set_facts(struct kw_table *table, const struct kw_table_facts *facts);

/*
 * Whose data are written from now on. Readers know it before they get the next record. The standing
 * is not NONE. Nothing happens if it is the present one.
 */
void kw_table_set_history(struct kw_table *table, const struct kw_history *history);
const struct kw_history *kw_table_history(const struct kw_table *table);

/*
 * The function libraries of the primary are these bytes from now on: 1 to KW_FUNCTIONS_BYTES, of a
 * table that carries functions. Nothing happens if the table has just these, of this origin.
 * Records are not judged by them, so they go on in the segment in which they are.
 */
void kw_table_set_functions(
	struct kw_table *table, struct kw_slice bytes, enum kw_functions_origin origin);
/* They are not known any more, or too large: readers are told of none. */
void kw_table_forget_functions(struct kw_table *table);
/* The bytes that were set last; empty: none are carried. They point into the table. */
struct kw_slice kw_table_functions(const struct kw_table *table);

/* The highest version given, published or not. */
uint64_t kw_table_version(const struct kw_table *table);

/* Make all written so far visible, and the heartbeat new. wall_us: the wall clock. */
void kw_table_publish(struct kw_table *table, uint64_t wall_us);

/*
 * Housekeeping that no write waits for: cleaning, and giving memory back. Call it some times a
 * second. The work of one call is bounded by a segment's worth. What it moved becomes visible at
 * the next publish.
 */
void kw_table_tidy(struct kw_table *table);

/* Something was written or a fact changed since the last publish. */
bool kw_table_unpublished(const struct kw_table *table);

/*
 * The lowest version that every connected agent has passed (UINT64_MAX: no agent). Tombstones above
 * it are kept, but those that have outlived the retention time take an eighth of the data memory at
 * most (options.held_part). Beyond that the oldest go.
 */
void kw_table_set_passed(struct kw_table *table, uint64_t version);

/*
 * Extents were registered anew (or no longer are): take over address and rkey of those among
 * `places`. The directory of the next publication has them.
 */
void kw_table_set_places(struct kw_table *table, const struct kw_extent *places, int count);

/* Change table.max_bytes; KW_E_ARGUMENT beyond the reservation. Lower than used: stays full. */
int kw_table_set_max(struct kw_table *table, uint64_t max_bytes, struct kw_error *error);

/* Could a put of this many bytes be stored now (after cleaning)? Asked to leave `table_full`. */
bool kw_table_has_room(struct kw_table *table, uint64_t bytes);

/*
 * Why memory that max_bytes allows could not be had (it cannot be registered with a device, say):
 * then raising max_bytes makes no room. NULL: it could always be had.
 */
const struct kw_error *kw_table_refused(const struct kw_table *table);

void kw_table_stats(const struct kw_table *table, struct kw_table_stats *stats);

#endif
