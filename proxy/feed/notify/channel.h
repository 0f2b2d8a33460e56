/*
 * The channel of a keyspace notification: `__keyevent@<db>__:<event>`. Pure.
 *
 * The database is read here and not filtered by the subscription's pattern: a glob class cannot
 * tell database 1 from 10.
 */
#ifndef KW_PROXY_FEED_NOTIFY_CHANNEL_H
#define KW_PROXY_FEED_NOTIFY_CHANNEL_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The patterns to subscribe to. The server matches the pattern against every event and sends it
 * along with each. The short one has nothing to match after its star, which saves the server a
 * tenth of the cost of an event. An even shorter one would match keyspace channels, too. Other
 * channels that it matches are not taken for events. The long one is for users who were granted
 * only that: a server compares patterns with the granted ones letter by letter.
 */
#define KW_CHANNEL_EVENTS "__keye*"
#define KW_CHANNEL_EVENTS_LONG "__keyevent@*__:*"
#define KW_CHANNEL_FLUSH "__redis__:invalidate"

/* False if it is no such channel. event: its name, without the channel. */
bool kw_channel_parse(struct kw_slice channel, uint32_t *database, struct kw_slice *event);

/*
 * Does this event say that a key changed? keymiss does not: it tells of a read that found no key
 * (flag m, which is not part of A). Our own DUMP of a key that is gone raises it too, so it must
 * never lead to another DUMP. An event that is not known is taken for a change.
 */
bool kw_channel_is_change(struct kw_slice event);

/*
 * Can a key have an expiry after this event that it had not before? Among the events known to this
 * file, only those of EXPIRE and its kin (SET … EX raises that one too), and of commands that bring
 * a key with its expiry: RESTORE, RENAME, COPY, MOVE. For an unknown event (a module's, a newer
 * server's) it is assumed.
 */
bool kw_channel_may_expire(struct kw_slice event);

#endif
