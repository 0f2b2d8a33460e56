/*
 * How changes are learned (source.feed), and what the proxy may do about the primary's
 * notify-keyspace-events (source.flags; conf.h).
 */
#ifndef KW_PROXY_FEED_POLICY_H
#define KW_PROXY_FEED_POLICY_H

enum kw_source_feed {
	KW_SOURCE_FEED_NOTIFICATIONS, /* notify.h */
	KW_SOURCE_FEED_STREAM,        /* stream.h */
	KW_SOURCE_FEED_AUTO,          /* auto.h: the stream, if the server and its user allow it */
};

enum kw_source_flags {
	KW_SOURCE_FLAGS_SET,   /* looked at by CONFIG GET, and set if they are missing */
	KW_SOURCE_FLAGS_CHECK, /* looked at; the server is not followed without them */
	KW_SOURCE_FLAGS_TRUST, /* no CONFIG is sent: they must be there */
	KW_SOURCE_FLAGS_NONE,  /* no CONFIG is sent: the replication stream does without */
};

/* What is known of the server's notification flags. */
enum kw_feed_flags {
	KW_FEED_FLAGS_CHECKED, /* each look asks for them */
	KW_FEED_FLAGS_PROVEN, /* not asked for, and events of our own of each class came just now */
	KW_FEED_FLAGS_UNPROVEN, /* trusted */
	KW_FEED_FLAGS_UNUSED,   /* the feed is the replication stream */
};

#endif
