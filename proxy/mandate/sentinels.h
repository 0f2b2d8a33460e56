/*
 * The sentinels: a connection to each, and the questions. What they answer is put into the view of
 * a mandate (mandate.h), which judges it.
 *
 *   ┌──────┐ open, or after ┌─────────┐  ready   ┌────┐
 *   │ IDLE │───────────────▶│ OPENING │─────────▶│ UP │  SENTINEL MASTER each interval,
 *   └──────┘  a second      └─────────┘          └────┘  MYID and SENTINELS each ten seconds
 *      ▲                         │ lost, or dropped │
 *      │        closed      ┌─────────┐             │
 *      └────────────────────│ CLOSING │◀────────────┘
 *                           └─────────┘
 *
 * Those in sentinel.addresses are asked always. If these are a closed list (sentinel_view.h), no
 * others are. Otherwise those that they know are asked as well, 32 in all. One that is not
 * configured, and was neither heard nor told of for a minute, is dropped. One that is told of under
 * another address, and was not heard for ten seconds, is asked there. A question that gets no
 * answer does no harm: answers are as old as their questions. Four questions can be under way to
 * each. One of those that answer is subscribed to besides, for hints (hint.h).
 *
 * The cost: two to ten small commands a second to each sentinel, and none to the primary.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_MANDATE_SENTINELS_H
#define KW_PROXY_MANDATE_SENTINELS_H

#include "base/error.h"
#include "mandate/mandate.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kw_sentinels_options {
	const char *const *addresses; /* tcp://host:port or unix:///path; copied */
	size_t count;                 /* 1 … KW_SENTINELS_MAX */
	const char *username;         /* of the sentinels, as the password; copied */
	struct kw_slice password;
	const struct kw_tls_current *tls; /* certificates for rediss://; outlives them */
	struct kw_port_memory *ports;     /* as in kw_redis_options; NULL: none */
	uint32_t interval_ms;
};

struct kw_sentinels_handlers {
	void (*answered)(void *arg); /* the view has changed */
	void *arg;
};

/* One of them, for the status. */
struct kw_sentinel_info {
	const char *address;
	bool configured;
	const char *state; /* "idle", "opening", "up", "closing" */
	const char *why;   /* why it was lost, or what is wrong with its answers; "" */
	const struct kw_sentinel *sentinel;
};

struct kw_sentinels;

/* mandate outlives them. KW_E_CONFIG: an address is none. */
int kw_sentinels_new(uv_loop_t *loop, const struct kw_sentinels_options *options,
	struct kw_mandate *mandate, const struct kw_sentinels_handlers *handlers,
	struct kw_sentinels **sentinels, struct kw_error *error);

/* The first questions go out. */
void kw_sentinels_start(struct kw_sentinels *sentinels);

/* The password for connections from now on; copied. Those that stand stay. */
void kw_sentinels_set_password(struct kw_sentinels *sentinels, struct kw_slice password);

/* Ask all of them now. */
void kw_sentinels_ask(struct kw_sentinels *sentinels);

/* The i-th, below KW_SENTINELS_MAX. False: there is none. */
bool kw_sentinels_info(
	const struct kw_sentinels *sentinels, size_t i, struct kw_sentinel_info *info);

/* For the status. */
struct kw_hint;
const struct kw_hint *kw_sentinels_hint(const struct kw_sentinels *sentinels);

/* Close connections; done when they are freed. */
void kw_sentinels_close(struct kw_sentinels *sentinels, void (*done)(void *arg), void *arg);

#endif
