/*
 * The feed of keyspace notifications: flags make the server raise an event for each change, and a
 * second connection, the events connection, is subscribed to them.
 *
 *   watch looks at the server, sets flags ─▶ events: CLIENT ID ─▶ data: CLIENT TRACKING ON REDIRECT
 *     id OPTIN ─▶ events: SUBSCRIBE, PSUBSCRIBE ─▶ both confirmed: ready
 *                              │ no permission
 *                              └─▶ PSUBSCRIBE of the long pattern
 *
 * What raises no event is found in other ways: a flush by the tracking message and flush.h, silent
 * commands and SWAPDB by counters (watch.h, silent.h).
 *
 * Barrier: a PING on the events connection. Events come before the pong. So all that the server did
 * before it read the PING has raised its events by then.
 */
#ifndef KW_PROXY_FEED_NOTIFY_H
#define KW_PROXY_FEED_NOTIFY_H

#include "feed/feed.h"

struct kw_feed *kw_notify_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers);

#endif
