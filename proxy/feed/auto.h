/*
 * The feed of source.feed=auto: the replication stream, if the server and its user allow it; else
 * keyspace notifications.
 *
 * choice.h has the rules. The feed changes only between a stop and a start, so the connection is
 * given up at a refusal, and the next one has the other feed. The status says which feed it is, and
 * why.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FEED_AUTO_H
#define KW_PROXY_FEED_AUTO_H

#include "feed/feed.h"

struct kw_feed *kw_auto_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers);

#endif
