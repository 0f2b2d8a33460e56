/*
 * An event feed tells which keys of the primary changed. This is its interface. There are notify.h
 * (keyspace notifications), stream.h (the replication stream), and auto.h, which is one of these at
 * a time. The unit tests have a scripted one.
 *
 *              start          told: ready
 *   ┌─────────┐     ┌──────────┐     ┌─────────┐
 *   │ STOPPED │────▶│ STARTING │────▶│ RUNNING │
 *   └─────────┘     └──────────┘     └─────────┘
 *        ▲               │                │
 *        │ told: stopped ▼  told: lost,   ▼
 *        │          ┌──────────┐ or stop  │
 *        └──────────│ STOPPING │◀─────────┘
 *                   └──────────┘
 *
 * From `ready` on the feed tells every change, or it tells a doubt. It does not tell earlier
 * changes: the source reads all keys after each `ready`, unless the feed goes on where it was.
 *
 * Changes are told in the order in which the server made them. Handlers are called from the loop,
 * or from within kw_feed_turn; never from within start, barrier or examine. From within stop only
 * `dirty` is called, for changes that were collected and not told yet. Loop thread only.
 *
 * A feed that knows values as well (the replication stream) tells them in place of dirty keys.
 * Nothing else here depends on how a feed learns of changes.
 */
#ifndef KW_PROXY_FEED_FEED_H
#define KW_PROXY_FEED_FEED_H

#include "base/error.h"
#include "base/slice.h"
#include "feed/doubt.h"
#include "feed/flags.h"
#include "feed/policy.h"
#include "fetch/data.h"
#include "keys/databases.h"
#include "keys/dirty.h"
#include "keys/scope.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct kw_server_identity;
struct kw_wanted;
struct kw_feed_chooser;

/* What a feed is made with. */
struct kw_feed_options {
	uv_loop_t *loop;
	struct kw_redis_options redis; /* of a connection of its own; the password is not copied */
	const char
		*address; /* of the server; outlives the feed, and can change while it is stopped */
	struct kw_data_connection *data; /* the data connection; outlives the feed */
	const struct kw_scope *scope;    /* outlives the feed */
	uint32_t watch_interval_ms;      /* from look to look */
	enum kw_source_flags flags;
	uint64_t seed;                         /* unpredictable: of hash tables of keys */
	const struct kw_feed_chooser *chooser; /* NULL: none; outlives the feed */
};

/* Which server answers, compared with the last one that the feed was ready for. In the order of
 * weight: of several findings the last in this list is told. */
enum kw_feed_server {
	KW_FEED_CONTINUED_SERVER, /* the same, and each change since the last `ready` is told */
	KW_FEED_SAME_SERVER,      /* … or it is the first one */
	KW_FEED_FLUSHED_SERVER,   /* the same, and it counted a flush or SWAPDB since */
	KW_FEED_ANOTHER_SERVER,   /* another run, another history or another role */
};

/* Of a feed that is one of several at a time (auto.h). Each is called before the same is told. */
struct kw_feed_chooser {
	/* The feed is about to be lost: it was refused (KW_E_REFUSED), or it could not begin. */
	void (*failed)(void *arg, const struct kw_error *why);
	/* It is about to be ready. Returns which server that is, seen over all feeds. */
	enum kw_feed_server (*readies)(void *arg, enum kw_feed_server server);
	void *arg;
};

static inline void kw_feed_failed(const struct kw_feed_chooser *chooser, const struct kw_error *why)
{
	if (chooser)
		chooser->failed(chooser->arg, why);
}

static inline enum kw_feed_server kw_feed_readies(
	const struct kw_feed_chooser *chooser, enum kw_feed_server server)
{
	return chooser ? chooser->readies(chooser->arg, server) : server;
}

/* A change that a feed knows without a fetch. Below the line: if the value before it is known. */
enum kw_feed_value_kind {
	KW_FEED_STRING,  /* the key has the string `bytes`, and expires as told */
	KW_FEED_PAYLOAD, /* … the value of the DUMP payload `bytes`, which nobody has verified */
	KW_FEED_GONE,    /* the key is gone, if it was there */
	/* ---- */
	KW_FEED_EXPIRY,  /* its value stays, and it expires as told */
	KW_FEED_KEEPTTL, /* it has the string `bytes`, and expires as before */
	KW_FEED_ADD,     /* `number` was added to its integer; a missing key was 0 */
	KW_FEED_APPEND,  /* `bytes` was appended to its string; a missing key was empty */
	KW_FEED_WRITE,   /* `bytes` was written at the byte `number` of its string; the same */
	KW_FEED_COPY,    /* it has the value and the expiry of the key `from` */
};

/* What a command did to function libraries. */
enum kw_feed_functions {
	KW_FEED_FUNCTIONS_CHANGED, /* there may be others now, also fewer */
	KW_FEED_FUNCTIONS_FLUSHED, /* FUNCTION FLUSH was carried out: that there is none is meant */
};

struct kw_feed_value {
	enum kw_feed_value_kind kind;
	uint32_t database;
	struct kw_slice name, bytes;
	uint64_t expires_ms; /* absolute; 0: never */
	int64_t number;
	uint32_t from_database;
	struct kw_slice from;
	/* Offsets of the stream between which it was told; end UINT64_MAX: it is not known yet. */
	uint64_t begin, end;
};

/* Can it have set an expiry? Then the expiry is fetched with the value, if the key is fetched. */
static inline bool kw_feed_value_expires(const struct kw_feed_value *value)
{
	return value->kind == KW_FEED_EXPIRY || value->kind == KW_FEED_COPY ||
	       value->expires_ms > 0;
}

/* What a feed tells. All are required. */
struct kw_feed_handlers {
	void (*ready)(void *arg, enum kw_feed_server server);
	/* These keys changed; names are valid during the call. Some can be out of scope. */
	void (*dirty)(void *arg, const struct kw_dirty_key *keys, size_t count);
	/*
	 * This key changed so, after all that was told before. Its texts are valid during the call.
	 * From the first value on, no change of any key is left out before `ready` or a doubt.
	 */
	void (*value)(void *arg, const struct kw_feed_value *value);
	/*
	 * These databases were emptied, after all that was told before: as if each of their keys
	 * was told as gone. begin: as of a value. False: this cannot be used now.
	 */
	bool (*flushed)(void *arg, const struct kw_databases *databases, uint64_t begin);
	/*
	 * These two databases changed places, after all that was told before. Both are followed.
	 * begin and False: as of flushed.
	 */
	bool (*swapped)(void *arg, const uint32_t databases[2], uint64_t begin);
	/*
	 * This database is empty as of the last answer on the data connection, which can be ahead
	 * of what is told. False: the table has no room even to say so.
	 */
	bool (*empty)(void *arg, uint32_t database);
	/* Changes in these databases might have been missed (NULL: in all). why: a sentence. */
	void (*doubt)(void *arg, enum kw_doubt cause, const struct kw_databases *databases,
		const char *why);
	/* All that the server did before the barrier was asked for has been told. */
	void (*passed)(void *arg);
	/* All that silent commands did before the examination was asked for has been told. */
	void (*examined)(void *arg);
	/*
	 * The server answered to the order, on the data connection, in the order of its answers:
	 * all that it did before is in the stream up to this offset, and all that it does later is
	 * beyond.
	 */
	void (*ordered)(void *arg, uint64_t offset);
	/* The feed cannot go on; the owner stops it. Not told after a stop. */
	void (*lost)(void *arg, const struct kw_error *why);
	/* The feed has let go of everything. Follows a stop unless that stopped it at once. */
	void (*stopped)(void *arg);
	/* The feed has work for the end of this loop turn: call kw_feed_turn then. */
	void (*turn_wanted)(void *arg);
	/* A question: add the databases of which the table holds keys. */
	void (*held)(void *arg, struct kw_databases *databases);
	/* A question: add those of which it lacks keys, too large for it or unreadable. */
	void (*lacking)(void *arg, struct kw_databases *databases);
	/*
	 * A question: add the databases whose missing keys are explained by what was told before,
	 * and are not mended yet.
	 */
	void (*explained)(void *arg, struct kw_databases *databases);
	/* A question: is a doubt that was told not mended yet? */
	bool (*mends)(void *arg);
	/*
	 * A command of which the server told only now explains why keys of these are gone. A sweep
	 * that is under way, an audit too, may have found them gone before.
	 */
	void (*explain)(void *arg, const struct kw_databases *databases);
	/* That is used up: the table has none of those keys any more, or a doubt follows. */
	void (*unexplain)(void *arg, const struct kw_databases *databases);
	/*
	 * A question: was it known before this moment (monotonic) that keys are missing on the
	 * server, and does nothing explain why? Then a command that came later does not, either.
	 */
	bool (*lacked)(void *arg, uint64_t before_us);
	/*
	 * A question: may a key of the proxy's own be written to the server now? Not to one that is
	 * not confirmed as the primary, and not while the proxy lets the writes of all clients
	 * wait.
	 */
	bool (*may_write)(void *arg);
	/*
	 * The server carried out a command that changes function libraries, or counted one. An
	 * examination is over after what it found of them was told.
	 */
	void (*functions)(void *arg, enum kw_feed_functions what);
	void *arg;
};

struct kw_feed_stats {
	uint64_t events;           /* changes told, flushes too, before equal ones are merged */
	uint64_t silent_refetches; /* keys told dirty for commands that raise no event */
	uint64_t silent_due;   /* … and those, and searches for some, that are still to be told */
	uint64_t values_shed;  /* keys told dirty in place of a value: the feed was far behind */
	uint64_t behind_bytes; /* that the server has written and that are not told yet */
	uint64_t synchronisations; /* full ones: the server forked for it */
	int64_t clock_skew_us;     /* the server's clock less ours */
	enum kw_feed_flags flags;
	kw_flag_classes flags_proven; /* by a key of the proxy's own */
	uint64_t arrived_us; /* our clock when the first of the changes that are told now, or were
				told last, was read from the server; 0: not known */
	enum kw_source_feed feed; /* never auto */
	const char *feed_why;     /* why this one, as a sentence; "": it was asked for */
};

struct kw_feed;

/* What a feed is asked. All are required. */
struct kw_feed_operations {
	/* The data connection is new and ready. `ready` or a failure follows. */
	void (*start)(struct kw_feed *feed);
	/* Let go of the server; a barrier under way is forgotten. Harmless if stopped. */
	void (*stop)(struct kw_feed *feed);
	/* Is it stopped, so that it may be started or freed? */
	bool (*is_stopped)(const struct kw_feed *feed);
	/* Tell `passed` when the barrier is passed. One at a time; only after `ready`. */
	void (*barrier)(struct kw_feed *feed);
	/*
	 * Ask the server for the offset of its stream: tell `ordered`. One at a time; only after a
	 * value was told. A stop forgets it.
	 */
	void (*order)(struct kw_feed *feed);
	/* Look for changes that the server does not tell by itself. Called each watch interval. */
	void (*look)(struct kw_feed *feed);
	/*
	 * The same at once, and tell `examined` when all of them have been told. One at a time;
	 * only after `ready`. A stop forgets it.
	 */
	void (*examine)(struct kw_feed *feed);
	/*
	 * May the feed wait for more before it reads what the server told, or must it read at once
	 * (false, as after each start)? The wait is lag, and can spare a saturated server. A feed
	 * whose server gains nothing by it reads at once always.
	 */
	void (*let_wait)(struct kw_feed *feed, bool may);
	/*
	 * Since when (kw_clock_us) the server owes the feed something on a connection of its own,
	 * and no byte of it has come; UINT64_MAX: it owes nothing. The data connection is not
	 * looked at.
	 */
	uint64_t (*silent_since)(const struct kw_feed *feed);
	/* Tell what was collected in this loop turn. */
	void (*turn)(struct kw_feed *feed, uint64_t now_us);
	/* When it needs a turn of its own; UINT64_MAX: never. */
	uint64_t (*ready_us)(const struct kw_feed *feed, uint64_t now_us);
	/* The table has this value of the key now; payload NULL: it has none any more. */
	void (*stored)(struct kw_feed *feed, uint32_t database, struct kw_slice key,
		const struct kw_slice *payload);
	/* The table has no key of this database any more. */
	void (*emptied)(struct kw_feed *feed, uint32_t database);
	/* The server as it was looked at last, and how many databases it has. */
	const struct kw_server_identity *(*server)(const struct kw_feed *feed);
	uint32_t (*databases)(const struct kw_feed *feed);
	void (*stats)(const struct kw_feed *feed, struct kw_feed_stats *stats);
	/* What the user needs on the server, for the next start; returns how many. */
	size_t (*permissions)(const struct kw_feed *feed, const struct kw_wanted **first);
	/* It must be stopped. */
	void (*free)(struct kw_feed *feed);
};

/* The first member of each feed. */
struct kw_feed {
	const struct kw_feed_operations *operations;
};

static inline void kw_feed_start(struct kw_feed *feed)
{
	feed->operations->start(feed);
}

static inline void kw_feed_stop(struct kw_feed *feed)
{
	feed->operations->stop(feed);
}

static inline bool kw_feed_is_stopped(const struct kw_feed *feed)
{
	return feed->operations->is_stopped(feed);
}

static inline void kw_feed_barrier(struct kw_feed *feed)
{
	feed->operations->barrier(feed);
}

static inline void kw_feed_order(struct kw_feed *feed)
{
	feed->operations->order(feed);
}

static inline void kw_feed_look(struct kw_feed *feed)
{
	feed->operations->look(feed);
}

static inline void kw_feed_examine(struct kw_feed *feed)
{
	feed->operations->examine(feed);
}

static inline void kw_feed_let_wait(struct kw_feed *feed, bool may)
{
	feed->operations->let_wait(feed, may);
}

static inline uint64_t kw_feed_silent_since(const struct kw_feed *feed)
{
	return feed->operations->silent_since(feed);
}

static inline void kw_feed_turn(struct kw_feed *feed, uint64_t now_us)
{
	feed->operations->turn(feed, now_us);
}

static inline uint64_t kw_feed_ready_us(const struct kw_feed *feed, uint64_t now_us)
{
	return feed->operations->ready_us(feed, now_us);
}

static inline void kw_feed_stored(struct kw_feed *feed, uint32_t database, struct kw_slice key,
	const struct kw_slice *payload)
{
	feed->operations->stored(feed, database, key, payload);
}

static inline void kw_feed_emptied(struct kw_feed *feed, uint32_t database)
{
	feed->operations->emptied(feed, database);
}

static inline const struct kw_server_identity *kw_feed_server(const struct kw_feed *feed)
{
	return feed->operations->server(feed);
}

static inline uint32_t kw_feed_databases(const struct kw_feed *feed)
{
	return feed->operations->databases(feed);
}

static inline void kw_feed_stats(const struct kw_feed *feed, struct kw_feed_stats *stats)
{
	feed->operations->stats(feed, stats);
}

static inline size_t kw_feed_permissions(const struct kw_feed *feed, const struct kw_wanted **first)
{
	return feed->operations->permissions(feed, first);
}

/* NULL is accepted. */
static inline void kw_feed_free(struct kw_feed *feed)
{
	if (feed)
		feed->operations->free(feed);
}

#endif
