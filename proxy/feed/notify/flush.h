/*
 * The flush check: the server said that some database was flushed, or that its data set was loaded
 * anew. Which one?
 *
 *   ┌──────┐ seen ┌─────────┐ listed ┌──────────┐ all answered ┌─────────┐ pong
 *   │ IDLE │─────▶│ LISTING │───────▶│ CANARIES │─────────────▶│ EVENTS  │──────▶ IDLE
 *   └──────┘      └─────────┘        └──────────┘              └─────────┘
 *                 INFO keyspace │    EXISTS                    ▲ PING on the events connection
 *                    │ ▲        └────── none to ask for ───────┘
 *    no call counted ▼ │ asked again
 *                  COUNTING
 *
 * A database that INFO keyspace does not list is empty. It is told as flushed if the server counted
 * as many calls of FLUSHALL, FLUSHDB and SWAPDB as explain that, or if it is explained already. If
 * not, its keys went for another reason
 * (a resync with an empty primary), and it is told as doubted. For a listed one, the server is
 * asked for the canaries (canary.h). If one is there, and no event named it until the pong, the
 * database was spared. All other databases are told as doubted.
 *
 * A server can count a call later than it tells the flush: Redis 8 frees the keys in another
 * thread, and counts the command when that is done. That takes 2 ms for 5000 keys, and 2 s for
 * three million. So it is asked again for about a second (COUNTING). A flush that no call explains
 * then is remembered as uncounted while its doubt is not mended. If a look finds as many calls as
 * are uncounted, the databases that were doubted are told as explained, and after a FLUSHALL all
 * are.
 *
 * Without an invalidation (a server that lacks CLIENT TRACKING), a flush is seen in the counters of
 * a look, up to a watch interval late. A canary can have been written anew meanwhile, so canaries
 * say nothing: every listed database is in doubt.
 *
 * The owner provides the struct. Loop thread only.
 */
#ifndef KW_PROXY_FEED_NOTIFY_FLUSH_H
#define KW_PROXY_FEED_NOTIFY_FLUSH_H

#include "base/sm.h"
#include "feed/feed.h"
#include "feed/notify/canary.h"
#include "feed/watch/watch.h"
#include "fetch/data.h"

#include <stdint.h>

enum kw_flush_state {
	KW_FLUSH_IDLE,
	KW_FLUSH_LISTING,
	KW_FLUSH_COUNTING,
	KW_FLUSH_CANARIES,
	KW_FLUSH_EVENTS,
};

enum kw_flush_extent {
	KW_FLUSH_OF_DATABASES,
	KW_FLUSH_OF_DATA_SET, /* loaded anew: the keys can have other values */
};

struct kw_flush_question;

struct kw_flush_check {
	struct kw_sm sm;
	struct kw_data_connection *data;
	struct kw_canaries *canaries;
	struct kw_watch *watch;
	const struct kw_feed_handlers *handlers;
	uint64_t debug_us; /* a DEBUG that watch saw at most so long ago can be the cause */
	/* Ask the events connection for a pong and call kw_flush_passed then. */
	void (*ask_events)(void *arg);
	/* The check is over; its findings were told. */
	void (*ended)(void *arg);
	void *arg;

	bool late;                           /* flushes are seen late, in counters */
	uint64_t seen;                       /* flushes, ever */
	uint64_t checked;                    /* of them, those seen when this check began */
	enum kw_flush_extent extent;         /* found by this check */
	struct kw_watch_flushes counted;     /* by the server, of FLUSHALL and FLUSHDB */
	uint32_t asked;                      /* so often in this check */
	uint64_t again_us;                   /* by kw_clock_us; in COUNTING */
	bool explained;                      /* those that are empty were flushed */
	struct kw_databases doubted;         /* not shown to have been spared */
	uint64_t told;                       /* flushes whose findings were told */
	uint64_t uncounted;                  /* of them, those that no call was counted for */
	struct kw_databases unexplained;     /* doubted because of those */
	struct kw_flush_question *questions; /* EXISTS of canaries: asked and answered in order */
	uint32_t question_count, answered;
};

/* After the members above the blank line were set; the rest is zeroed. `late` may change later. */
void kw_flush_init(struct kw_flush_check *flush);
void kw_flush_close(struct kw_flush_check *flush);

/* A flush was told by the server. If a check is under way, another one follows it. */
void kw_flush_seen(struct kw_flush_check *flush);

/* All events before the canaries' answers have been read. */
void kw_flush_passed(struct kw_flush_check *flush);

/* Asks again, if that is due. When it is; UINT64_MAX: never. */
void kw_flush_turn(struct kw_flush_check *flush, uint64_t now_us);
uint64_t kw_flush_ready_us(const struct kw_flush_check *flush);

/* A look of watch is over. */
void kw_flush_looked(struct kw_flush_check *flush);

/* A connection is gone: the source reads everything again, so the check ends. */
void kw_flush_abandon(struct kw_flush_check *flush);

static inline bool kw_flush_under_way(const struct kw_flush_check *flush)
{
	return flush->sm.state != KW_FLUSH_IDLE;
}

#endif
