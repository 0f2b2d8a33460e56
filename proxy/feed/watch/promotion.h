/*
 * Does the promotion of a replica go on with the data that were followed?
 *
 * A replica that is promoted makes a new replication id, and keeps the id of its primary as its
 * second one. If it is the same run, and that second id is the one that was followed, its data went
 * on where they stood: the feed heard every change, before and after. So nothing is in doubt.
 *
 * It must not have been in a full synchronisation since it was last known to follow its primary:
 * its data can then be a part of what was loaded. That the link to its primary was down does no
 * harm: the primary was dead, and its data stood still.
 *
 * Pure. Any thread.
 */
#ifndef KW_PROXY_FEED_WATCH_PROMOTION_H
#define KW_PROXY_FEED_WATCH_PROMOTION_H

#include "redis/server.h"

#include <stdbool.h>

/* What was seen of a replica's data, from look to look. */
enum kw_promotion_data {
	KW_PROMOTION_DATA_WHOLE,
	KW_PROMOTION_DATA_LOADING, /* a full synchronisation was seen, and not its end */
};

/* After a look at the server. */
enum kw_promotion_data kw_promotion_seen(
	enum kw_promotion_data before, enum kw_server_upstream upstream);

/* old, now: two looks of one connection that was never broken; data: as of the look at `old`. */
bool kw_promotion_goes_on(const struct kw_server_identity *old,
	const struct kw_server_identity *now, enum kw_promotion_data data);

#endif
