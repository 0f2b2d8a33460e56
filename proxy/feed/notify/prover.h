/*
 * Proves the notification flags with a key of the proxy's own (source.canary_key): beat.h, and the
 * connection that its writes go over.
 *
 * It writes only while the owner says that it may: to a server that is confirmed as the primary,
 * and not while the proxy lets the writes of all clients wait. If that ends while writes are under
 * way, their connection is closed, so the server drops those that it holds back.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FEED_NOTIFY_PROVER_H
#define KW_PROXY_FEED_NOTIFY_PROVER_H

#include "base/slice.h"
#include "feed/flags.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kw_prover_handlers {
	/* A question: may a key of our own be written now? */
	bool (*may_write)(void *arg);
	/* Ask the connection of the events for a pong; tell kw_prover_passed then. */
	void (*ask_events)(void *arg);
	/* The server has not got the flags of these classes. */
	void (*lacking)(void *arg, kw_flag_classes classes);
	/* It is idle again. */
	void (*closed)(void *arg);
	void *arg;
};

struct kw_prover;

/* options: of the events connection; copied, but not what they point to. key: outlives it; empty:
 * nothing is ever written. */
struct kw_prover *kw_prover_new(uv_loop_t *loop, const struct kw_redis_options *options,
	struct kw_slice key, const struct kw_prover_handlers *handlers);
/* It must be idle. NULL is accepted. */
void kw_prover_free(struct kw_prover *prover);

/* A look of the feed, which runs: go on, or begin if it is time. */
void kw_prover_look(
	struct kw_prover *prover, const char *address, const char *run_id, uint64_t now_us);

/* Once a loop turn: stop if nothing may be written any more. */
void kw_prover_turn(struct kw_prover *prover);

/* The events connection told this event of this key of database 0. */
void kw_prover_heard(struct kw_prover *prover, struct kw_slice event, struct kw_slice key);

/* It answered what ask_events asked; ok: with a pong. */
void kw_prover_passed(struct kw_prover *prover, bool ok);

/* The events connection is gone; `closed` follows if this is not idle. */
void kw_prover_stop(struct kw_prover *prover);
bool kw_prover_is_idle(const struct kw_prover *prover);

/* Is there a key to prove with, and the classes that it has proved. */
bool kw_prover_has_key(const struct kw_prover *prover);
kw_flag_classes kw_prover_proven(const struct kw_prover *prover, uint64_t now_us);

#endif
