/*
 * A feed that tells what a test says: the second implementation of feed.h. It has no connection of
 * its own. There is one of it.
 */
#ifndef KW_TEST_FAKE_FEED_H
#define KW_TEST_FAKE_FEED_H

#include "feed/feed.h"
#include "fixture.h"
#include "redis/server.h"

#include <stdbool.h>
#include <stdint.h>

enum fake_feed_state { FAKE_STOPPED, FAKE_STARTING, FAKE_RUNNING, FAKE_STOPPING };

/* PASS: a barrier or an examination passes at the end of the loop turn in which it was asked for.
 */
enum fake_feed_barriers { FAKE_PASS, FAKE_HOLD };

/* What its owner told last of waiting before it reads. */
enum fake_feed_waits { FAKE_WAITS, FAKE_READS_AT_ONCE };

struct fake_feed {
	struct kw_feed feed; /* first */
	struct kw_feed_options options;
	struct kw_feed_handlers handlers;
	enum fake_feed_state state;
	enum fake_feed_barriers barriers;
	enum fake_feed_waits waits;
	struct kw_server_identity identity; /* of the server, as it is told */
	/* What it was asked, and told by its owner. */
	uint32_t starts, stops, looks, frees;
	uint32_t examinations;
	uint32_t orders;
	uint32_t barriers_owed, examinations_owed, orders_owed;
	uint64_t stored, removed, emptied;
	uint64_t offset;     /* of the stream: each value is told one further */
	uint64_t silent_us;  /* what it tells: silent since then; 0: it is not */
	uint64_t silent_due; /* … and so much of silent commands is still to be told */
	int64_t skew_us;     /* … and the server's clock less ours */
};

extern struct fake_feed fake_feed;

/* For kw_source_options: everything counted so far is forgotten. */
struct kw_feed *fake_feed_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers);

/* It tells these. */
void fake_feed_ready(enum kw_feed_server server);
void fake_feed_dirty(const struct kw_dirty_key *keys, size_t count);
/* Begin and end, unless it has them, are of the stream. */
void fake_feed_value(const struct kw_feed_value *value);
/* The server did nothing that is not told, or (at) its offset is this. */
void fake_feed_ordered(void);
void fake_feed_ordered_at(uint64_t offset);
/* Each value before it was told one further; it is told there. */
bool fake_feed_flushed(uint32_t database);
bool fake_feed_swapped(uint32_t one, uint32_t other);
bool fake_feed_empty(uint32_t database);
/* database < 0: all. */
void fake_feed_doubt(enum kw_doubt cause, int database);
void fake_feed_passed(void);
void fake_feed_examined(void);
void fake_feed_lost(const char *why);
void fake_feed_stopped(void);

/* To be waited for. */
bool fake_feed_is_starting(struct test *test);
bool fake_feed_is_stopping(struct test *test);

/* Ends the source, which waits for the feed, and then the test. */
void fake_feed_end(struct test *test);

#endif
