/*
 * Tells the replication stream in which database it is: PUBLISH in database 0, which a primary puts
 * into its stream (replication.h).
 *
 * It has a connection of its own for each question (fetch/errand.h). While CLIENT PAUSE or FAILOVER
 * stops writes, PUBLISH waits, and all that is asked on its connection after it. Nothing is asked
 * after it here. After a question there is a pause before the next one. A
 * refusal is logged once, and no more is asked before the next stop.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_LOCATOR_H
#define KW_PROXY_FEED_STREAM_LOCATOR_H

#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_LOCATOR_PAUSE_US UINT64_C(10000000)

struct kw_locator;

/* options are copied, but not what they point to. closed: it is idle again. */
struct kw_locator *kw_locator_new(uv_loop_t *loop, const struct kw_redis_options *options,
	void (*closed)(void *arg), void *arg);
/* It must be idle. NULL is accepted. */
void kw_locator_free(struct kw_locator *locator);

/* Publish this word, unless a question is under way, or it is too early for the next one. */
void kw_locator_ask(struct kw_locator *locator, const char *address, const char *word);

/* Let go of the server; `closed` follows if it is not idle. */
void kw_locator_stop(struct kw_locator *locator);
bool kw_locator_is_idle(const struct kw_locator *locator);

#endif
