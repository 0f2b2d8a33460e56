/*
 * Replies of a sentinel, checked. They come from outside: every field has a bound, and what no
 * sentinel sends is refused. Pure.
 */
#ifndef KW_PROXY_MANDATE_SENTINEL_REPLY_H
#define KW_PROXY_MANDATE_SENTINEL_REPLY_H

#include "base/error.h"
#include "mandate/sentinel_view.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>

/* SENTINEL MASTER. */
struct kw_sentinel_master {
	struct kw_sentinel_primary primary;
	uint64_t epoch, others;
};

/* KW_E_REFUSED: an error, quoted with its remedy. KW_E_PROTOCOL: no sentinel sends this. */
int kw_sentinel_reply_master(const struct kw_reply *reply, const char *name,
	struct kw_sentinel_master *master, struct kw_error *error);

/* SENTINEL MYID. */
int kw_sentinel_reply_id(
	const struct kw_reply *reply, char id[KW_SENTINEL_ID + 1], struct kw_error *error);

/* One element of SENTINEL SENTINELS. False: it is none, or it has no id or address yet. */
struct kw_sentinel_peer {
	char id[KW_SENTINEL_ID + 1];
	char host[KW_SENTINEL_HOST];
	uint16_t port;
};
bool kw_sentinel_reply_peer(const struct kw_reply *element, struct kw_sentinel_peer *peer);

#endif
