/*
 * The reader: follows a table in the memory of another process and hands on what changed.
 *
 * Pure: it does no I/O, knows no clock and no loop. It asks for READs through struct kw_reader_io
 * and is told of their ends; what it finds goes to struct kw_reader_sink. The agent drives it with
 * a carrier, tests/sim with a simulated memory that tears, delays and loses. One thread.
 *
 *                     start(NULL or cursor that says nothing here)
 *      ┌──────┐ start ┌──────────┐  all segments read  ┌──────┐
 *      │ IDLE │──────▶│ SNAPSHOT │────────────────────▶│ TAIL │◀─┐ poll: superblock, directory,
 *      └──────┘       └──────────┘                     └──────┘──┘ the log from cursor to head
 *          ▲  start(cursor of this epoch, above the floor) ▲  │
 *          └───────────────────────────────────────────────┘  │ floor above the deletes known,
 *                                                              │ epoch changed: sink.lapsed()
 *
 * Five of the reading rules (proto/DESIGN.md) are kept here; each has a test that fails without it.
 *
 * A pass ends by sink.pass_done; the next one starts when kw_reader_poll is called. While the sink
 * has no room the reader holds no further READs out; kw_reader_resume lets it go on.
 *
 * A small change takes one round trip and one READ, not two of each. Most polls are a look at the
 * tail alone: they read the next bytes of the log in the superblock's place. Whole, verified
 * records there are handed on. The look ends by sink.look_done, or goes on as a pass if the
 * superblock is due. That is every KW_READER_LOOKS looks, when the owner wants it, and when a
 * record there cannot be taken. It is also due when nothing more came after records that no
 * superblock has covered yet. While much comes, and near the end of a segment, superblock and next
 * bytes are asked for together. If the superblock is due and torn, the look ends by look_done, too,
 * and it is due again in the next one.
 */
#ifndef KW_TABLE_READER_H
#define KW_TABLE_READER_H

#include "base/error.h"
#include "table/history.h"
#include "table/layout.h"
#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_reader;

/* One READ of remote memory: filled in by the reader, carried out by the io, told back once. */
struct kw_read {
	uint64_t offset; /* in the memory file */
	uint64_t length;
	uint8_t *buffer; /* of the reader's; valid until kw_reader_complete */
	struct kw_reader *reader;
	void *internal;
};

struct kw_reader_io {
	/*
	 * Start READs, in order; all-or-nothing is not promised: each gets its own end. They may be
	 * executed in any order, and their ends told in any order, but never from within this call.
	 */
	void (*read)(void *arg, struct kw_read *const *reads, int count);
	/*
	 * A directory was verified: the extents are what may be read from now on. The array is
	 * valid during the call.
	 */
	void (*extents)(void *arg, const struct kw_extent *extents, int count);
	void *arg;
};

struct kw_reader_pass {
	uint64_t epoch;
	uint64_t version;    /* head version of this pass: all up to it has been handed on */
	uint64_t consistent; /* what a cursor can say when all of it is applied; 0: nothing yet */
	bool snapshot;       /* this pass was the snapshot */
	bool vanished;       /* a segment was cleaned away meanwhile; consistent did not advance */
	bool moved;          /* at least one record was handed on, or version moved */
};

/* Records of one call of the sink at most: a set of them fits into 64 bits, one for each. */
#define KW_READER_BATCH 32

struct kw_reader_sink {
	/* A snapshot begins: what is handed on until its pass_done is every live key, each once. */
	void (*snapshot_begin)(void *arg, uint64_t epoch, uint64_t version);
	/*
	 * Verified records to apply, in this order: 1 to KW_READER_BATCH of them, valid during the
	 * call. In a snapshot only puts. A sink that stops the reader in this call does not take
	 * the rest of the batch.
	 */
	void (*records)(void *arg, const struct kw_record_view *records, size_t count);
	/* Bytes of records the sink can take now; asked before further READs are posted. */
	uint64_t (*room)(void *arg);
	/* Each valid superblock, before its pass; state, heartbeat, keys. */
	void (*superblock)(void *arg, const struct kw_superblock *superblock);
	void (*pass_done)(void *arg, const struct kw_reader_pass *pass);
	/*
	 * A look that knows no head is over: at the tail alone, or one that met no superblock that
	 * verifies. found: records were handed on. What was handed on counts (for a cursor, for
	 * being equal) only from the next pass_done on. Never called with KW_AHEAD_OFF: may be NULL
	 * then.
	 */
	void (*look_done)(void *arg, bool found);
	/*
	 * The position is no longer valid: tombstone floor or epoch moved. The reader is IDLE; the
	 * owner decides when to start again (a reconcile).
	 */
	void (*lapsed)(void *arg, const char *why);
	/*
	 * The reader cannot go on and is IDLE: KW_E_IO/KW_E_TIMEOUT/… a READ failed; KW_E_CORRUPT a
	 * record did not verify though its segment had not moved; KW_E_PROTOCOL another layout.
	 */
	void (*failed)(void *arg, const struct kw_error *error);
	void *arg;
};

/*
 * What the owner that polls needs to know. The reader tells it before it tells the sink, so the
 * sink may belong to another module. Optional.
 */
struct kw_reader_driver {
	/* history: the one that this superblock names, verified. */
	void (*superblock)(void *arg, const struct kw_superblock *superblock,
		const struct kw_history *history);
	/* A pass, or a look at the tail alone, is over: kw_reader_poll may be called. */
	void (*pass_done)(void *arg, bool moved);
	void (*look_done)(void *arg, bool found);
	void (*failed)(void *arg, const struct kw_error *error);
	void *arg;
};

/*
 * How the next bytes of the log are asked for. The order of log and superblock does not matter: if
 * bytes sampled before the superblock verify, the record never changes again; if they do not, they
 * are read again.
 */
enum kw_ahead {
	KW_AHEAD_FREE, /* the tail alone; while much comes, superblock and tail at once */
	KW_AHEAD_OFF,  /* the log is asked for when the superblock says that it grew */
};

/*
 * At least one look of so many reads the superblock. A change published between the two READs of
 * such a look waits for the second, and for the log's READ. While polls are back to back, that is
 * one change in so many. When they are not, the owner bounds the superblock's age
 * (kw_reader_want_superblock).
 */
#define KW_READER_LOOKS 16

/*
 * So many looks in a row may find no superblock and directory that match. The cause is a writer
 * that lost its processor in the middle of them. With the agent's pauses, which grow while nothing
 * is found, they take some 80 ms. Who looks back to back gives the writer some milliseconds.
 */
#define KW_READER_TORN_LOOKS 64

/* Bytes of the tail to look at when nothing has changed for long: a record of a few dozen bytes. */
#define KW_READER_GLANCE_BYTES 128

/* At most this much is asked for ahead; twice what the last changes took, if that is less. */
#define KW_READER_AHEAD_BYTES 4096

/*
 * Reading ahead rests after so many bytes without a change, so no change costs more than this in
 * vain. With small changes that is 2048 polls: three seconds at the agent's usual pace (1.5 ms),
 * and 10 ms back to back at 5 us. So a table that changes a hundred times a second is always read
 * ahead. At rest a poll is one READ, of the superblock or a glance at the tail.
 */
#define KW_READER_AHEAD_IN_VAIN (UINT32_C(1) << 20)

#define KW_READER_DEPTH_MAX 64

struct kw_reader_options {
	uint32_t chunk_bytes; /* of one READ of the log; 0: 128 KiB */
	uint32_t depth;       /* READs in flight at most, to KW_READER_DEPTH_MAX; 0: 8 */
	/*
	 * Mismatches in a row that are called corruption; 0: 16. While the log is followed (and not
	 * with KW_AHEAD_OFF), those of superblock and directory end the look instead, by look_done.
	 * Only the look after KW_READER_TORN_LOOKS such ones calls them corruption.
	 */
	uint32_t tries;
	enum kw_ahead ahead;
};

/* A place to resume from, as a cursor remembers it. */
struct kw_cursor {
	uint64_t epoch;
	uint64_t version; /* consistent version; all up to it is applied */
};

struct kw_reader_stats {
	uint64_t reads, bytes; /* READs ended well */
	uint64_t records;      /* handed on */
	uint64_t skipped;      /* records read, but older than consistent or superseded */
	uint64_t retries;      /* superblock, directory or record mismatches that were read again */
	uint64_t vanished;     /* segments */
	uint64_t snapshots, passes;
	uint64_t looks;          /* that ended by look_done */
	uint64_t snapshot_bytes; /* to read in the present or last snapshot */
	uint64_t snapshot_done;  /* of them read */
	uint64_t ahead;          /* READs of the log asked for before it was known to have grown */
	uint64_t ahead_used;     /* of them brought records that counted */
};

struct kw_reader *kw_reader_new(const struct kw_reader_options *options,
	const struct kw_reader_io *io, const struct kw_reader_sink *sink);

/* Before the first start. All functions are given. */
void kw_reader_set_driver(struct kw_reader *reader, const struct kw_reader_driver *driver);

/* Every READ was told back, or never will be. */
void kw_reader_free(struct kw_reader *reader);

/*
 * Begin. With a cursor: resume if it is of this epoch and not below the tombstone floor; otherwise
 * sink.lapsed is called and the reader stays IDLE. Without one: a snapshot. Only when IDLE.
 */
void kw_reader_start(struct kw_reader *reader, const struct kw_cursor *cursor);

/*
 * Begin a look, or a pass, if none is under way: read what is new. Only in TAIL between passes;
 * ignored otherwise.
 */
void kw_reader_poll(struct kw_reader *reader);

/* The next poll must read the superblock: what is known of it is too old for the owner. */
void kw_reader_want_superblock(struct kw_reader *reader);

/* The sink has room again. */
void kw_reader_resume(struct kw_reader *reader);

/*
 * Forget what is under way and go IDLE: the connection is lost, or the owner wants to start anew.
 * READs still out are told back later and ignored (their buffers stay until then).
 */
void kw_reader_stop(struct kw_reader *reader);

/* A READ ended: code 0 and the bytes are in its buffer, or error says why not. */
void kw_reader_complete(struct kw_read *read, const struct kw_error *error);

bool kw_reader_idle(const struct kw_reader *reader); /* IDLE: start may be called */
bool kw_reader_waiting(
	const struct kw_reader *reader); /* TAIL between passes: poll may be called */
const struct kw_reader_stats *kw_reader_stats(const struct kw_reader *reader);

/* READs posted and not told back; must be 0 before their memory is released. */
int kw_reader_outstanding(const struct kw_reader *reader);

#endif
