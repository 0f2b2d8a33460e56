/*
 * For tests of the table: one over anonymous memory with a clock of its own, and a follower that
 * reads it through kw_reader with READs carried out at once (or bent by the test first).
 *
 * Not thread-safe; a test fails by cmocka's assertions inside.
 */
#ifndef KW_TESTS_TABLE_FIXTURE_H
#define KW_TESTS_TABLE_FIXTURE_H

#include "table/reader.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

#define FIXTURE_WALL_US UINT64_C(1790000000000000)

struct fixture {
	struct kw_table *table;
	struct kw_table_memory memory;
	struct kw_table_options options;
	uint64_t now_us;
	int extents;
	bool refuse_extents;          /* the next ones fail, as when memlock is too small */
	int extents_most;             /* those beyond fail so; 0: none */
	bool pinned;                  /* memory cannot be given back */
	uint64_t given_back;          /* bytes, wiped with ones */
	struct kw_extent expected[2]; /* the last that the table spoke of */
	int surprises;                /* extents asked for that it did not speak of */
};

/* What is 0 in options gets a value: 64 MiB, segments of 16 KiB, an epoch, a seed. */
void fixture_open(struct fixture *fixture, const struct kw_table_options *options);
void fixture_close(struct fixture *fixture);

/* Publish at the present time. */
void fixture_publish(struct fixture *fixture);
void fixture_advance(struct fixture *fixture, uint64_t us);

/* Key "key:<number>"; its value is `length` bytes that only `tag` has. */
struct kw_slice fixture_key(uint32_t number);
struct kw_slice fixture_value(uint64_t tag, uint32_t length);
enum kw_put_result fixture_put(
	struct fixture *fixture, uint32_t number, uint64_t tag, uint32_t length);
/* Of 100 bytes, stored and published. */
void fixture_change(struct fixture *fixture, uint32_t number, uint64_t tag);
enum kw_put_result fixture_delete(struct fixture *fixture, uint32_t number);

/* Is exactly this value in database 0 of the table? */
bool fixture_has(const struct fixture *fixture, uint32_t number, uint64_t tag, uint32_t length);
bool fixture_gone(const struct fixture *fixture, uint32_t number);

const struct kw_superblock *fixture_superblock(const struct fixture *fixture);
struct kw_table_stats fixture_stats(const struct fixture *fixture);

#define FOLLOWER_KEYS 4096
#define FOLLOWER_READS 256

/* A replica of database 0's first keys, and a count of everything the reader says. */
struct follower {
	struct kw_reader *reader;
	const struct fixture *fixture;
	struct kw_read *queue[FOLLOWER_READS];
	int queued, most_queued;
	/* Called when a READ was copied, before its end is told. */
	void (*bend)(struct follower *follower, struct kw_read *read);
	void *bend_arg;
	/* Said of the next READ's end instead of success, once. */
	const struct kw_error *lose;
	uint64_t room;
	uint64_t versions[FOLLOWER_KEYS]; /* 0: not there */
	uint64_t hashes[FOLLOWER_KEYS];
	int seen[FOLLOWER_KEYS]; /* in the present or last snapshot */
	uint64_t records, begun, passes, lapses, failures, superblocks, extents, other_databases;
	uint64_t looks, found; /* looks at the tail alone; of them brought something */
	uint64_t postings;     /* calls that posted READs */
	uint64_t log_reads;    /* READs posted that are neither superblock nor directory */
	uint64_t batches;      /* calls that handed on records */
	struct kw_reader_pass pass;
	struct kw_superblock superblock;
	struct kw_error error;
	char why[256];
};

void follower_open(struct follower *follower, const struct fixture *fixture,
	const struct kw_reader_options *options);
void follower_close(struct follower *follower);

/* Carry out READs until none is out. */
void follower_run(struct follower *follower);

/* The n-th of those out, in any order. */
void follower_end(struct follower *follower, int at);

/* start, then run. */
void follower_start(struct follower *follower, const struct kw_cursor *cursor);

/* One poll, and run: a look at the tail, or a pass. */
void follower_look(struct follower *follower);

/* As many polls as it takes until a pass is done, or the reader idle. */
void follower_poll(struct follower *follower);

/* Is this value there? length 0 tag 0: is nothing there? */
bool follower_has(const struct follower *follower, uint32_t number, uint64_t tag, uint32_t length);
bool follower_lacks(const struct follower *follower, uint32_t number);

/* Is it so for all keys that the table has, and no others? */
void follower_assert_equal(const struct follower *follower, uint32_t numbers);

/*
 * A table of 50 keys, the first of which was changed since to so many bytes under the tag 1000, and
 * a follower that has seen that by one poll.
 */
void follower_begin(struct fixture *fixture, struct follower *follower,
	const struct kw_reader_options *options, uint32_t bytes);

/* Nothing failed, and the follower has what the table has: close both. */
void follower_finish(struct fixture *fixture, struct follower *follower);

#endif
