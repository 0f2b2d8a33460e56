/*
 * A few commands to the server that is followed, on a connection of their own.
 *
 * It is for commands that the server can hold back: while CLIENT PAUSE or FAILOVER stops writes, a
 * write waits, and all that is asked on its connection after it. And for those that must not wait
 * behind such a one.
 *
 *   ┌──────┐ begin ┌─────────┐ ready, and it is that run ┌──────┐
 *   │ IDLE │──────▶│ OPENING │──────────────────────────▶│ OPEN │ the owner asks
 *   └──────┘       └─────────┘                           └──────┘
 *      ▲                │ another run, lost, end             │ end, lost, KW_ERRAND_ANSWER_MS
 *      │   closed  ┌─────────┐                               │
 *      └───────────│ CLOSING │◀──────────────────────────────┘
 *                  └─────────┘
 *
 * An address can lead to another server than before. So the server says first which run it is. The
 * owner can leave that out if the command harms no other server.
 *
 * A server drops the command that it holds back when its connection is closed.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FETCH_ERRAND_H
#define KW_PROXY_FETCH_ERRAND_H

#include "redis/redis.h"

#include <stdbool.h>
#include <uv.h>

#define KW_ERRAND_ANSWER_MS 5000 /* without a byte while an answer is awaited */

struct kw_errand_handlers {
	/* OPEN: ask now, by kw_errand_redis. Answers come as of any connection. */
	void (*open)(void *arg);
	/* It is idle again. why: it was lost, or another run answers; code KW_OK: the owner's end.
	 */
	void (*closed)(void *arg, const struct kw_error *why);
	void *arg;
};

struct kw_errand;

/*
 * options: of the connections of the feed or the source; copied, but not what they point to. name:
 * what their names end with, in place of what the options have there.
 */
struct kw_errand *kw_errand_new(uv_loop_t *loop, const struct kw_redis_options *options,
	const char *name, const struct kw_errand_handlers *handlers);
/* It must be idle. NULL is accepted. */
void kw_errand_free(struct kw_errand *errand);

/* It must be idle. run_id: "" for any. An error: there is no connection, and it is idle. */
int kw_errand_begin(
	struct kw_errand *errand, const char *address, const char *run_id, struct kw_error *error);

/* `closed` follows; answers that are still owed come as NULL before it. Harmless if idle. */
void kw_errand_end(struct kw_errand *errand);

bool kw_errand_is_idle(const struct kw_errand *errand);
bool kw_errand_is_open(const struct kw_errand *errand);

/* "keywake-proxy-events" becomes "keywake-proxy-fence". For other connections of this kind. */
void kw_errand_name(struct kw_redis_options *options, const char *name);

/* Only while it is open. */
struct kw_redis *kw_errand_redis(struct kw_errand *errand);

#endif
