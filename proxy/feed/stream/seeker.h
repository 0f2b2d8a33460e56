/*
 * Finds out in which database the replication stream is, where PUBLISH cannot tell it (locator.h):
 * on a replica, or without the permission. A full synchronisation without keys, on a connection of
 * its own, begins with an RDB that names the database (stream/preamble.h).
 *
 *   ┌──────┐ ask ┌────────────┐ ready ┌─────────┐ the RDB, or it failed ┌─────────┐
 *   │ IDLE │────▶│ CONNECTING │──────▶│ SYNCING │──────────────────────▶│ CLOSING │
 *   └──────┘     └────────────┘       └─────────┘                       └─────────┘
 *       ▲                                        closed                      │
 *       └────────────────────────────────────────────────────────────────────┘
 *
 * What it finds holds at one offset of the data of one replication id. If the stream of the feed
 * has told no SELECT until it has passed that offset, it is in that database there, and still.
 *
 * The server forks once for it, so the owner asks only if not knowing costs more. After each one
 * there is a pause (forks.h). A server that cannot leave the keys out is not asked again before the
 * next stop, and that is logged once.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_SEEKER_H
#define KW_PROXY_FEED_STREAM_SEEKER_H

#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Without an end for so long it has failed. A server can wait for more replicas before it forks. */
#define KW_SEEKER_PATIENCE_US UINT64_C(60000000)

struct kw_seeker;

struct kw_seeker_handlers {
	/* The data of this id are in this database at this offset. */
	void (*found)(void *arg, const char *id, uint64_t offset, uint32_t database);
	void (*closed)(void *arg); /* it is idle again */
	void *arg;
};

/* options are copied, but not what they point to. */
struct kw_seeker *kw_seeker_new(uv_loop_t *loop, const struct kw_redis_options *options,
	const struct kw_seeker_handlers *handlers);
/* It must be idle. NULL is accepted. */
void kw_seeker_free(struct kw_seeker *seeker);

/* Nothing happens if it is under way, or too early for the next one. */
void kw_seeker_ask(struct kw_seeker *seeker, const char *address, uint64_t now_us);

/* Let go of the server; `closed` follows if it is not idle. */
void kw_seeker_stop(struct kw_seeker *seeker);
bool kw_seeker_is_idle(const struct kw_seeker *seeker);

uint64_t kw_seeker_synchronisations(const struct kw_seeker *seeker);

/* UINT64_MAX: nothing is due. */
void kw_seeker_turn(struct kw_seeker *seeker, uint64_t now_us);
uint64_t kw_seeker_ready_us(const struct kw_seeker *seeker);

#endif
