/*
 * The feed of the replication stream: the server tells this connection each command that changed a
 * key, as it tells its replicas.
 *
 *   watch looks at the server ─▶ data: ROLE, COMMAND ─▶ replication.h attaches ─▶ ready
 *
 * A whole value is told with its key; any other key that a command names is told as dirty, and
 * fetched (changes.h). What is not understood is a doubt. So no command is silent, no flag of the
 * server is needed, and a broken connection costs no scan while the server's backlog has what was
 * missed (KW_FEED_CONTINUED_SERVER).
 *
 * *Its parts*: replication.h (the connection), changes.h (what its effects are to the source),
 * awaited.h (offsets that are waited for), locator.h and seeker.h (in which database the stream
 * is), commands.h (COMMAND), joining.h and leaving.h (when it must not be a replica of the server).
 *
 * *Refused* (KW_E_REFUSED): a user that lacks a permission; a server that lacks the commands, or
 * that would count this connection as a replica with data (joining.h).
 *
 * Barrier: ROLE on the data connection tells the offset of all that the server did before. It is
 * passed when the stream has been told up to there, and the flushes before it are answered. Silent
 * commands are in the stream as others are, so an examination is the same.
 */
#ifndef KW_PROXY_FEED_STREAM_H
#define KW_PROXY_FEED_STREAM_H

#include "feed/feed.h"

struct kw_feed *kw_stream_feed_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers);

#endif
