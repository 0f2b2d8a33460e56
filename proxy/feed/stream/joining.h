/*
 * May a reader of the replication stream be one of the server's replicas now? It holds none of the
 * data that the server thinks it holds, and never acknowledges any.
 *
 *   shutting down       the server waits for it: not now (KW_E_STATE)
 *   FAILOVER            the server waits for a replica, and could choose it: not now
 *   min-replicas-to-…   the server would count it: never (KW_E_REFUSED)
 *   writable replica    its own writes are not in its stream: never
 *
 * Pure. Any thread.
 */
#ifndef KW_PROXY_FEED_STREAM_JOINING_H
#define KW_PROXY_FEED_STREAM_JOINING_H

#include "base/error.h"
#include "redis/server.h"

/* KW_OK, KW_E_STATE or KW_E_REFUSED; the sentence begins with the address. */
int kw_joining_check(
	const struct kw_server_identity *server, const char *address, struct kw_error *why);

/* The sentence about a server that shuts down. KW_E_STATE. */
int kw_joining_leaves(const char *address, struct kw_error *why);

#endif
