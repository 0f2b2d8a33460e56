/* What a user needs on the primary, for the feed and for the fetches that follow from it. */
#ifndef KW_PROXY_FEED_PERMISSIONS_H
#define KW_PROXY_FEED_PERMISSIONS_H

#include "feed/policy.h"
#include "redis/wanted.h"

/* Returns how many. CONFIG GET comes last; source.flags=trust does without. */
size_t kw_notify_permissions(enum kw_source_flags flags, const struct kw_wanted **first);

/* The same for the replication stream; and what is needed whichever feed there is. */
size_t kw_stream_permissions(const struct kw_wanted **first);
size_t kw_read_permissions(const struct kw_wanted **first);

/* What source.flags=set needs besides, if flags are missing. */
extern const struct kw_wanted kw_notify_set_permission;

/* What source.functions=true needs besides. Without it functions are not carried, and keys are. */
extern const struct kw_wanted kw_functions_permission;

#endif
