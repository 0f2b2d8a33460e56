/*
 * The stream of commands after the snapshot: what a replica is sent, by replication offset.
 *
 *        offset                         sent_end
 *          ├── sent, not acknowledged ─────┼── not yet sent ──┤
 *     SELECT 3 │ RESTORE … │ UNLINK … │ GETACK │ RESTORE …    │     window.h: each entry one
 * command
 *
 * Commands are kept until they are acknowledged, so the window is the backlog too. A replica that
 * comes back and asks for an offset in it is sent the same bytes again. Every byte counts in the
 * offset; a replica's applied offset always lies between two commands. The stream itself selects
 * databases. After a batch, REPLCONF GETACK asks how far the replica has come (its answer leaves
 * out the GETACK's own bytes).
 *
 * A fence keeps back what follows it. So a command can stand alone between two of them: nothing
 * else is on its way while it is carried out.
 *
 *     … │ GETACK ║ the command │ GETACK ║ RESTORE …        ║ a fence, one at a time
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_APPLY_FEED_H
#define KW_AGENT_APPLY_FEED_H

#include "table/record.h"
#include "window.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct kw_feed {
	struct kw_window window;
	uint64_t offset;      /* before the first entry kept */
	uint64_t sent_end;    /* after the last entry sent whole */
	size_t partial;       /* bytes of the next entry that were written already */
	int64_t database;     /* selected by what was added last; -1: none */
	uint64_t awaited;     /* sequence number after the newest entry that is waited for */
	uint64_t asked_at;    /* sequence number of the newest GETACK */
	uint64_t flushes_out; /* FLUSHDBs sent and not acknowledged */
	uint64_t fence;       /* nothing from this sequence number on is sent; 0: there is none */
};

void kw_feed_close(struct kw_feed *feed);

/* Forget everything; what is added from now on begins after `offset` with a SELECT. */
void kw_feed_reset(struct kw_feed *feed, uint64_t offset);

/* Nothing was sent yet (since the reset): what is there begins after this offset instead. */
bool kw_feed_untouched(const struct kw_feed *feed);
void kw_feed_begin(struct kw_feed *feed, uint64_t offset);

/* A change: RESTORE, UNLINK or FLUSHDB, after a SELECT if the database changes. */
void kw_feed_change(struct kw_feed *feed, const struct kw_record_view *record);

/* A change that is not sent (given up): counts as done when all before it is. No bytes. */
void kw_feed_nothing(struct kw_feed *feed, uint32_t database);

/* Any other command, of no database, that is waited for. Returns its sequence number. */
uint64_t kw_feed_command(struct kw_feed *feed, int argc, const struct kw_slice *argv);

/* A sign of life for the replica. */
void kw_feed_ping(struct kw_feed *feed);

/* An entry after the last GETACK is waited for, and no other GETACK is on its way: add one. */
void kw_feed_ask(struct kw_feed *feed);

/*
 * Ask how far the replica has come, and let nothing pass that is added from now on. Returns the
 * sequence number of that: all before it is acknowledged when kw_feed_reached says so.
 */
uint64_t kw_feed_fence(struct kw_feed *feed);
/* The fence is moved, further on; 0: it is taken away. */
void kw_feed_move_fence(struct kw_feed *feed, uint64_t fence);
/* Is all acknowledged before the GETACK that stands before this sequence number? */
static inline bool kw_feed_reached(const struct kw_feed *feed, uint64_t sequence)
{
	return feed->window.first + 1 >= sequence;
}

/* One after the last entry that may be sent. */
static inline uint64_t kw_feed_sendable(const struct kw_feed *feed)
{
	return feed->fence > 0 && feed->fence < feed->window.end ? feed->fence : feed->window.end;
}

static inline bool kw_feed_unsent(const struct kw_feed *feed)
{
	return feed->window.sent < kw_feed_sendable(feed);
}

/* The unsent bytes as at most `max` vectors of about `limit` bytes together. */
int kw_feed_gather(struct kw_feed *feed, struct iovec *vectors, int max, size_t limit);
void kw_feed_wrote(struct kw_feed *feed, size_t bytes);

/*
 * The replica has applied everything before `offset`: done is called for each command of it. False:
 * so much was never sent.
 */
typedef void (*kw_feed_done_fn)(void *arg, const struct kw_window_entry *entry, uint64_t sequence);
bool kw_feed_ack(struct kw_feed *feed, uint64_t offset, kw_feed_done_fn done, void *arg);

/*
 * The replica comes back having applied everything before `offset`: send again from there. False:
 * the window does not begin there, and no command ends there; nothing was changed.
 */
bool kw_feed_rewind(struct kw_feed *feed, uint64_t offset, kw_feed_done_fn done, void *arg);

#endif
