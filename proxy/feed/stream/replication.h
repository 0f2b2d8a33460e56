/*
 * The connection on which the replication stream comes: logged in as all are, then taken over.
 *
 *   ┌────────┐ open ┌────────────┐ ready ┌─────────┐ same run ┌───────────┐ attached ┌───────────┐
 *   │ CLOSED │─────▶│ CONNECTING │──────▶│ PROVING │─────────▶│ ATTACHING │─────────▶│ FOLLOWING │
 *   └────────┘      └────────────┘       └─────────┘          └───────────┘          └───────────┘
 *       ▲                 │                   │ told: lost          │                    │  ▲   │
 *       │ told: closed    └─────────┬─────────┴─────────────────────┴────────────────────┘  │   │
 *       └───────────┌─────────┐◀────┘ close     ▲                             ┌─────────┐   │   │
 *                   │ CLOSING │                 └─────────────────────────────│ TELLING │───┘   │
 *                   └─────────┘                                               └─────────┘◀──────┘
 *                                     a command has more keys than are told in one loop turn
 *
 * One address can lead to two servers: a proxy between, a service address that just moved, a second
 * record in DNS. Values of one and changes of the other would be taken for one. So this connection
 * asks for the run_id itself, and goes on only if it is that of the data connection.
 *
 * Each open asks the server to go on: where the last connection ended, if it was one to the same
 * run of the server; at the offset that INFO tells, if not. If the server does not have these bytes
 * any more, a full synchronisation without keys follows (stream/attach.h).
 *
 * The server counts this connection as a replica. It is sent ACK 0 each second, or it would close
 * the connection after its repl-timeout.
 *
 * A stream that goes on begins without a SELECT, so its database may not be known. Then the owner
 * runs `PUBLISH KW_REPLICATION_CHANNEL <locator>` in database 0, which a primary puts into the
 * stream: after a SELECT 0, or without one if it is at 0 already. The locator is unpredictable, so
 * no other client can make this one believe in a wrong database.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_REPLICATION_H
#define KW_PROXY_FEED_STREAM_REPLICATION_H

#include "base/error.h"
#include "redis/redis.h"
#include "stream/effects.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_REPLICATION_CHANNEL "keywake:database"
#define KW_REPLICATION_LOCATOR 17 /* 16 digits and the end */

struct kw_server_identity;

/* How the stream begins. */
enum kw_replication_start {
	KW_REPLICATION_ANEW, /* changes may have been missed, also by a server that was demoted */
	KW_REPLICATION_GOES_ON, /* exactly where the one before it ended */
};

struct kw_replication_handlers {
	/* The stream follows. */
	void (*attached)(void *arg, enum kw_replication_start start);
	/* The next effects. Not after lost, and not after close. */
	void (*batch)(void *arg, const struct kw_repl_batch *batch);
	/* Bytes came, and batches that they complete were told. */
	void (*moved)(void *arg);
	/* The server asks how far this reader is; it was answered. */
	void (*ack_asked)(void *arg);
	/* It cannot go on; the owner closes it. KW_E_REFUSED: a later attempt will not succeed. */
	void (*lost)(void *arg, const struct kw_error *why);
	/* It has let go of everything; follows a close, unless there was nothing open. */
	void (*closed)(void *arg);
	void *arg;
};

struct kw_replication;

/* options are copied, but not what they point to. */
struct kw_replication *kw_replication_new(uv_loop_t *loop, const struct kw_redis_options *options,
	uint64_t seed, const struct kw_replication_handlers *handlers);
/* It must be closed. NULL is accepted. */
void kw_replication_free(struct kw_replication *replication);

/* address: of the server. server: as it was looked at just now. attached or lost follows. */
void kw_replication_open(struct kw_replication *replication, const char *address,
	const struct kw_server_identity *server);
void kw_replication_close(struct kw_replication *replication);
bool kw_replication_is_closed(const struct kw_replication *replication);

/* What was told since the last `attached` does not count: the next stream begins anew. */
void kw_replication_forget(struct kw_replication *replication);

/* What the server says of its commands; outlives the replication, until the next one. */
void kw_replication_catalog(
	struct kw_replication *replication, const struct kw_repl_catalog *catalog);

/*
 * How many the server has, and how many of them are followed: in each of these a key changes while
 * the database is not known. With one alone it is known.
 */
void kw_replication_databases(
	struct kw_replication *replication, uint32_t there, uint32_t followed);

/* All effects up to here were told. */
uint64_t kw_replication_offset(const struct kw_replication *replication);

/* Full ones since the start: the server forked for each. */
uint64_t kw_replication_synchronisations(const struct kw_replication *replication);

/* The id of the data whose stream it is. */
const char *kw_replication_id(const struct kw_replication *replication);

/* When bytes came last (or the connection was opened), by kw_clock_us. */
uint64_t kw_replication_heard_us(const struct kw_replication *replication);

/* Is what came last still being told? Then the socket is not read, and nothing more can come. */
bool kw_replication_is_telling(const struct kw_replication *replication);

/* Is the database of the next command known? The locator tells it: see above. */
bool kw_replication_is_located(const struct kw_replication *replication);
/*
 * The data of this id are in this database at this offset. If the stream is of them, and tells no
 * SELECT before it has passed the offset, it is there, too.
 */
void kw_replication_locate(
	struct kw_replication *replication, const char *id, uint64_t offset, uint32_t database);
const char *kw_replication_locator(const struct kw_replication *replication);

/* Acknowledgements and deadlines. UINT64_MAX: nothing is due. */
void kw_replication_turn(struct kw_replication *replication, uint64_t now_us);
uint64_t kw_replication_ready_us(const struct kw_replication *replication);

#endif
