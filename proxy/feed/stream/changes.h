/*
 * What the effects of the replication stream are to the source: dirty keys, flushes and doubts.
 *
 *   VALUE, PAYLOAD, EXPIRY, DELETE, ADD, APPEND, WRITE   a value
 *   COPY      a value of the key that it was copied to
 *   MOVE      the same, and then the key is gone
 *   TOUCH     the key is dirty, in all databases if its own is not known yet
 *   FLUSH     the end of each key; if that cannot be used, flushed.h asks which are empty
 *   SWAP      both databases change places; if that cannot be used, both are in doubt
 *   DOUBT     a doubt of the database, or of all
 *   FUNCTIONS told as such: the libraries are read whole
 *
 * An expiry is asked for with the value if the effect may have set one. Otherwise the table knows
 * whether the key has one.
 *
 * A server can write faster than values can be stored. It keeps what this reader has not read, and
 * cuts the connection beyond client-output-buffer-limit. So while the stream is further behind the
 * server than KW_CHANGES_BEHIND, keys are told as dirty in place of values. That takes a tenth of
 * the time for large ones, and the dirty set absorbs what comes again.
 *
 * The owner provides the struct, zeroed but for its first members. Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_CHANGES_H
#define KW_PROXY_FEED_STREAM_CHANGES_H

#include "feed/batch.h"
#include "feed/feed.h"
#include "feed/stream/flushed.h"
#include "feed/watch/watch.h"
#include "stream/meaning.h"

/* Bytes of the stream: an eighth of what the server's default limit lets it keep. */
#define KW_CHANGES_BEHIND ((uint64_t)32 << 20)

struct kw_changes {
	const struct kw_feed_handlers *handlers;
	const struct kw_scope *scope;
	const struct kw_watch *watch;
	void (*unknown)(void *arg); /* a command was not understood; its doubt was told */
	void *arg;

	struct kw_feed_batch batch;
	struct kw_flushed flushed;
	uint64_t begin, end;    /* of what is told now, as in struct kw_feed_value */
	uint64_t server_offset; /* … up to which the server is known to have come */
	uint64_t count;         /* of keys told dirty, and of flushes */
	uint64_t shed;          /* of values that were told as dirty keys: the stream was behind */
	uint64_t everywhere;    /* since the last stop, keys that were told in each database */
};

void kw_changes_init(struct kw_changes *changes, struct kw_data_connection *data);
void kw_changes_close(struct kw_changes *changes);

/* Dirty keys are collected: kw_feed_batch_tell(&changes->batch) tells them. */
void kw_changes_tell(struct kw_changes *changes, const struct kw_repl_effect *effect);

/* A doubt, after the keys that were collected. */
void kw_changes_doubt(struct kw_changes *changes, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why);

/* How many databases are followed. */
uint32_t kw_changes_databases(const struct kw_changes *changes);

/* The data connection is gone. False: a flush was not told to its end, and never will be. */
bool kw_changes_stop(struct kw_changes *changes);

#endif
