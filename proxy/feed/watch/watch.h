/*
 * Watching the server for what raises no event: who it is, its notification flags, and the counters
 * of the commands that change keys silently.
 *
 * A look is INFO (server, replication, persistence, commandstats), CONFIG GET if it is allowed
 * (conf.h) and now and then TIME, pipelined on the data connection. The first look at a connection
 * decides whether the server can be followed at all, and turns missing flags on; later ones
 * compare. If the proxy cannot mend it, it gives up the connection, with a sentence that says who
 * can.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FEED_WATCH_H
#define KW_PROXY_FEED_WATCH_H

#include "feed/feed.h"
#include "feed/watch/silent.h"
#include "fetch/data.h"
#include "redis/server.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_watch_handlers {
	/* The first look at a connection is over and found nothing against the server. */
	void (*welcome)(void *arg, enum kw_feed_server server);
	/* Events might have been missed. */
	void (*doubt)(void *arg, enum kw_doubt cause, const char *why);
	/* Keys of this kind might have changed. */
	void (*stir)(void *arg, enum kw_silent_kind kind);
	/* A command that changes function libraries was called, or might have been. */
	void (*functions)(void *arg, enum kw_feed_functions what);
	/* A look is over, and all that it found was told. Not the first of a connection. */
	void (*looked)(void *arg);
	/* A question: events of changes that were heard, ever. */
	uint64_t (*events)(void *arg);
	void *arg;
};

struct kw_watch;

struct kw_watch *kw_watch_new(struct kw_data_connection *data, enum kw_source_flags flags,
	const struct kw_watch_handlers *handlers);
void kw_watch_free(struct kw_watch *watch);

/* There is a new data connection: the first look. welcome or the connection's failure follows. */
void kw_watch_begin(struct kw_watch *watch);

/* Another look. False: one is under way that began before, or the connection is gone. */
bool kw_watch_look(struct kw_watch *watch);

/*
 * The server was shown to raise no events of these classes: the connection fails, and the server is
 * not followed for a minute, unless its flags were changed meanwhile. source.flags=trust only.
 */
void kw_watch_lacks_flags(struct kw_watch *watch, kw_flag_classes classes);

/*
 * The server has named the history of its data since the last look, and all of it is read now, so
 * the new name is no doubt. A primary without a backlog takes a new id when it makes one.
 */
void kw_watch_named(struct kw_watch *watch, const char *replid);

/* Another run, another history or another role? Not compared with none. */
bool kw_watch_is_another(
	const struct kw_server_identity *old, const struct kw_server_identity *now);

/* The server as of the last look. */
const struct kw_server_identity *kw_watch_identity(const struct kw_watch *watch);

/* How many databases the server has; KW_DATABASES_MOST while that is not known. */
uint32_t kw_watch_databases(const struct kw_watch *watch);

/* The server's clock less ours. */
int64_t kw_watch_skew_us(const struct kw_watch *watch);

/*
 * Calls that the server counted and that were not told yet. Counted over connections, but only
 * within one run of the server.
 */
struct kw_watch_flushes {
	uint64_t all, one; /* calls of FLUSHALL, of FLUSHDB */
	uint64_t swaps;    /* calls of SWAPDB: the next look tells of them */
	uint64_t since_us; /* our clock: FLUSHALL and FLUSHDB among them came later */
};
/* As of the last look, or of a commandstats that was seen since. */
struct kw_watch_flushes kw_watch_flushes(const struct kw_watch *watch);

/* INFO commandstats asked after a flush was noticed. */
void kw_watch_see_flushes(struct kw_watch *watch, struct kw_slice commandstats);

/* What kw_watch_flushes returns was told. */
void kw_watch_flushes_told(struct kw_watch *watch);

/*
 * For a feed that tells flushes by itself, in the order of replication offsets: all up to this
 * offset was told. Calls that a look counted were told, too, once that is beyond the offset of the
 * look after it. source.flags=none only.
 */
void kw_watch_told_up_to(struct kw_watch *watch, uint64_t offset);

/*
 * Could DEBUG RELOAD or LOADAOF have caused a flush seen just now? commandstats: INFO commandstats
 * asked after the flush. True also when a look within the last `recent_us` saw DEBUG called.
 */
bool kw_watch_debugged(
	const struct kw_watch *watch, struct kw_slice commandstats, uint64_t recent_us);

#endif
