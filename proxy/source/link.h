/*
 * The link to the primary: the data connection and the feed, opened in order, given up together.
 *
 *   ┌──────┐ open, or  ┌─────────┐ data connection ready, ┌────┐
 *   │ IDLE │──────────▶│ OPENING │───────────────────────▶│ UP │
 *   └──────┘ backoff   └─────────┘ feed ready             └────┘
 *      ▲                    │ a connection was lost,        │
 *      │    both      ┌─────────┐ a command was refused     │
 *      └──────────────│ CLOSING │◀──────────────────────────┘
 *           closed    └─────────┘
 *
 *   any ── kw_source_link_close ──▶ ENDING ── both closed ──▶ ENDED
 *
 * The caller owns the struct until `ended`. Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_LINK_H
#define KW_PROXY_SOURCE_LINK_H

#include "base/error.h"
#include "base/sm.h"
#include "feed/feed.h"
#include "fetch/data.h"
#include "redis/redis.h"
#include "redis/wanted.h"
#include "source/completeness.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum kw_source_link_state {
	KW_SOURCE_LINK_IDLE,
	KW_SOURCE_LINK_OPENING,
	KW_SOURCE_LINK_UP,
	KW_SOURCE_LINK_CLOSING,
	KW_SOURCE_LINK_ENDING,
	KW_SOURCE_LINK_ENDED,
};

struct kw_source_link_handlers {
	/* It is up. Before this call up_us is that of the time before. */
	void (*up)(void *arg, enum kw_feed_server server);
	/* It is being given up: no reply comes any more, and the feed tells nothing. */
	void (*down)(void *arg);
	void (*ended)(void *arg);
	void *arg;
};

struct kw_source_link {
	struct kw_sm sm;
	struct kw_data_connection data; /* the data connection */
	struct kw_feed *feed;
	uv_loop_t *loop;
	const struct kw_redis_options *options;
	struct kw_source_link_handlers handlers;
	struct kw_wanted_check permissions; /* OPENING: before the feed starts */
	kw_reply_fn permission_fn;          /* whom their answers are for */
	uv_timer_t retry;
	uint32_t attempts;    /* since it was last well: backoff */
	uint64_t ups;         /* how often it has been up */
	uint64_t up_us;       /* when it came up last */
	struct kw_error down; /* why it was given up last; code KW_OK: it never was */
};

/*
 * options outlive it. Their address may be ""
 * until kw_source_link_moved: until then open does nothing. The feed is set before
 * kw_source_link_open; it uses the data connection.
 */
void kw_source_link_init(struct kw_source_link *link, uv_loop_t *loop,
	const struct kw_redis_options *options, const struct kw_source_link_handlers *handlers);
void kw_source_link_open(struct kw_source_link *link);
void kw_source_link_close(struct kw_source_link *link);

/* options->address has changed: go there at once, and give up what is open because of why. */
void kw_source_link_moved(struct kw_source_link *link, const struct kw_error *why);

/* What the feed told. */
void kw_source_link_ready(struct kw_source_link *link, enum kw_feed_server server);
void kw_source_link_lost(struct kw_source_link *link, const struct kw_error *why);
void kw_source_link_feed_stopped(struct kw_source_link *link);

/* A reconcile ended: the next failure is a new one, whatever failed before. */
static inline void kw_source_link_is_well(struct kw_source_link *link)
{
	link->attempts = 0;
}

static inline bool kw_source_link_is_up(const struct kw_source_link *link)
{
	return link->sm.state == KW_SOURCE_LINK_UP;
}

enum kw_reach kw_source_link_reach(const struct kw_source_link *link);

/* The options of one of its connections: with a name of its own for CLIENT LIST. */
void kw_source_link_options(
	const struct kw_redis_options *common, const char *name, struct kw_redis_options *options);

#endif
