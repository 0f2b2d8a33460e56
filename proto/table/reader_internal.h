/*
 * The inside of the reader, shared by its parts. reader.c reads superblock and directory, and
 * begins and ends passes. reader_history.c reads whose data they are. reader_plan.c says which
 * parts of the log a pass must read. reader_log.c reads these and hands on the records.
 * reader_ahead.c asks for the next bytes of the log along with the superblock, reader_tail.c in its
 * place. No other file includes this.
 */
#ifndef KW_TABLE_READER_INTERNAL_H
#define KW_TABLE_READER_INTERNAL_H

#include "base/buffer.h"
#include "table/reader.h"
#include "table/view.h"

#include <stdalign.h>

/* A run of one segment's bytes to be read in this pass. */
struct range {
	uint64_t segment;
	uint64_t base;       /* of the segment in the memory file */
	uint64_t start, end; /* in the segment */
};

/* One READ of the log: posted in order, consumed in order, told back in any order. */
struct chunk {
	struct kw_read read;
	uint32_t range;
	uint64_t start; /* in the segment */
	bool arrived;
};

/*
 * The READ of the log that goes with the superblock's, or in its place. It has memory of its own,
 * so that an abandoned READ that is still out delays nothing.
 */
struct ahead {
	struct kw_read read;
	uint64_t segment, start; /* where it begins, in the segment */
	uint64_t end;            /* of the segment */
	uint32_t left;           /* bytes that may be read in vain until the next change */
	uint32_t bytes;          /* asked for by the next one, unless at rest */
	uint32_t looks;          /* at the tail alone, since the superblock was read */
	bool large;              /* what came last was more than one READ ahead can bring */
	bool again;              /* the present look at the tail has asked twice */
	bool out;                /* not told back */
	bool counts;             /* it is of the present pass, and not yet consumed */
	alignas(KW_RECORD_ALIGN) uint8_t buffer[KW_READER_AHEAD_BYTES];
};

/* Records that were verified and are news to the sink. */
struct batch {
	struct kw_record_view views[KW_READER_BATCH];
	uint32_t count;
};

enum phase {
	PHASE_IDLE,
	PHASE_TAIL,       /* the READ of the log's next bytes is out, in the superblock's place */
	PHASE_SUPERBLOCK, /* its READ is out */
	PHASE_HISTORY,    /* its READ is out */
	PHASE_DIRECTORY,  /* its READ is out */
	PHASE_AHEAD,      /* the plan begins with what was read ahead, and that is still out */
	PHASE_LOG,        /* ranges are being read */
	PHASE_WAITING,    /* between passes */
};

/* Why superblock and directory are being read. */
enum purpose {
	PURPOSE_PASS,    /* to begin a pass */
	PURPOSE_RECHECK, /* a record did not verify: has its segment been recycled? */
};

struct kw_reader {
	struct kw_reader_options options;
	struct kw_reader_io io;
	struct kw_reader_driver driver;
	struct kw_reader_sink sink;
	struct kw_reader_stats stats;

	enum phase phase;
	enum purpose purpose;
	uint64_t generation; /* moves when what was under way no longer counts */
	int outstanding;     /* READs not told back */
	bool start_waits;    /* start was called while READs of before were still out */
	bool has_cursor;
	struct kw_cursor cursor_given;

	/* what is known of the table */
	struct kw_superblock superblock; /* of the present pass */
	struct kw_superblock probe;      /* sink of the superblock's READ */
	struct kw_read superblock_read;
	struct kw_history history;               /* that `superblock` names */
	uint32_t history_checksum;               /* of it; 0: none */
	struct kw_history_record history_record; /* sink of its READ */
	struct kw_read history_read;
	struct kw_read directory_read;
	struct kw_view view;
	uint32_t mismatches; /* in a row, of the present question */
	uint32_t torn_looks; /* in a row: each ended because all its tries were mismatches */

	/* the position (reading rules 3, 4 and 5) */
	bool tailing;             /* the snapshot, or the resumed pass, is done */
	bool snapshot;            /* the present pass is a snapshot */
	bool vanished;            /* in the present pass */
	uint64_t segment, offset; /* cursor in the log */
	uint64_t newest;          /* version of the last record before it */
	uint64_t consistent;
	uint64_t deletes_known;
	uint64_t highest;    /* version handed on; counts only with rule 4 left out */
	uint64_t handed_on;  /* records, in the present pass or look */
	uint64_t tailed;     /* bytes of the log taken by looking at the tail, in it */
	bool superblock_due; /* the owner wants it read by the next look */

	/* the log */
	struct range *ranges;
	uint32_t range_count, range_capacity;
	uint32_t post_range; /* where the next READ starts */
	uint64_t post_offset;
	struct chunk *chunks; /* a ring of `depth` */
	uint32_t chunk_first, chunk_count;
	uint64_t posted_bytes;  /* posted and not yet consumed */
	struct kw_buffer carry; /* front of a record that continues in the next chunk */
	uint64_t carry_offset;  /* where it starts in its segment */
	uint32_t suspect_range; /* the record that did not verify */
	uint64_t suspect_offset;
	uint8_t *arena; /* the chunks' buffers */

	struct ahead ahead;
};

/* reader_plan.c: superblock and directory are a pair: which parts of the log must be read? */
void kw_reader_plan(struct kw_reader *reader);
uint64_t kw_reader_planned_bytes(const struct kw_reader *reader);

/* reader_log.c: read the planned ranges; ends in kw_reader_log_done or a recheck. */
void kw_reader_log_begin(struct kw_reader *reader);
void kw_reader_log_post(struct kw_reader *reader);
void kw_reader_log_arrived(struct kw_reader *reader, struct kw_read *read);
void kw_reader_log_restart(struct kw_reader *reader, uint32_t range, uint64_t offset);

/*
 * Hand on the whole, verified records at the front of these bytes, which lie at `offset` of the
 * range's segment. Returns how many bytes they take; UINT64_MAX: the sink stopped the reader.
 */
uint64_t kw_reader_log_take(struct kw_reader *reader, const struct range *range, uint64_t offset,
	const uint8_t *bytes, uint64_t length);

/* A verified record was parsed into the batch's next place: keep it there if it is news. */
void kw_reader_collect(struct kw_reader *reader, struct batch *batch);
/* Hand on the batch, which is empty afterwards. False: the sink stopped the reader. */
bool kw_reader_hand_on(struct kw_reader *reader, struct batch *batch);

/*
 * reader_history.c: must the history be read before the pass goes on? If the superblock names none,
 * it is forgotten.
 */
bool kw_reader_history_due(struct kw_reader *reader);
void kw_reader_history_read(struct kw_reader *reader);
/* Its READ has ended: codes as kw_history_parse. */
int kw_reader_history_take(struct kw_reader *reader, struct kw_error *error);
void kw_reader_history_forget(struct kw_reader *reader);

/* reader_tail.c: look at the tail alone? False: the superblock must be read. */
bool kw_reader_tail_look(struct kw_reader *reader);
void kw_reader_tail_arrived(struct kw_reader *reader);

/* reader_ahead.c: bytes between the position and the end of its segment; 0: it is gone. */
uint64_t kw_reader_ahead_left(const struct kw_reader *reader);
/*
 * The READ of at most `length` bytes from the position on, out from now on; NULL:
 * nothing of the segment is left, or the sink has no room for it.
 */
struct kw_read *kw_reader_ahead_aim(struct kw_reader *reader, uint64_t length);
/* Have changes come lately, so that more than a glance is worth its bytes? */
bool kw_reader_ahead_active(const struct kw_reader *reader);
/* A pass begins; is there a READ to go with the superblock's? NULL: no. */
struct kw_read *kw_reader_ahead_ask(struct kw_reader *reader);
/* The plan stands: does it begin with what was read ahead? Then it is handled, now or later. */
bool kw_reader_ahead_begin(struct kw_reader *reader);
void kw_reader_ahead_arrived(struct kw_reader *reader);
/* A tail pass, or a look at the tail, is over, in which the log had grown by so much. */
void kw_reader_ahead_learn(struct kw_reader *reader, uint64_t grown);

/* reader.c */
/* The look at the tail ended. `whole`: the superblock must be read in the same pass. */
void kw_reader_looked(struct kw_reader *reader, bool whole);
void kw_reader_log_done(struct kw_reader *reader);
void kw_reader_recheck(struct kw_reader *reader, uint32_t range, uint64_t offset);
void kw_reader_fail(struct kw_reader *reader, const struct kw_error *error);

#endif
