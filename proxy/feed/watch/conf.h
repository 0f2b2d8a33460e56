/*
 * What CONFIG tells of the primary: its notification flags, and how many databases it has. It tells
 * secrets as well, so how much of it is used is the operator's choice (source.flags):
 *
 *   set     CONFIG GET databases once a connection, notify-keyspace-events in each look; CONFIG SET
 *           when flags are missing
 *   check   the same without CONFIG SET: the connection fails when flags are missing
 *   trust   none: SELECT tells the databases (range.h), and lost flags show by the server's count
 *           of CONFIG SET (settings.h) and by changes without events (deaf.h)
 *   none    no CONFIG, no flags: the feed is the replication stream
 *
 * With set and check and a user of its own, the proxy looks once whether that user can read the
 * server's passwords, and warns.
 *
 * Loop thread only. The caller owns the struct and sets its first members.
 */
#ifndef KW_PROXY_FEED_WATCH_CONF_H
#define KW_PROXY_FEED_WATCH_CONF_H

#include "feed/feed.h"
#include "feed/flags.h"
#include "feed/watch/range.h"
#include "feed/watch/settings.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_conf {
	struct kw_data_connection *data;
	enum kw_source_flags policy;
	/* One of the answers that kw_conf_ask promised; flags that are missing are not set yet. */
	void (*answered)(void *arg);
	/* After kw_conf_judge: the flags are as needed. mended: they were not. */
	void (*good)(void *arg, bool mended);
	/* In place of either of these: the connection has failed. */
	void (*lost)(void *arg);
	void *arg;

	struct kw_settings settings;
	struct kw_range range;
	kw_flags flags;
	uint32_t databases; /* KW_DATABASES_MOST: not known */
	bool warned;        /* of passwords that can be read: once is enough */
};

/* All but the first members. */
void kw_conf_init(struct kw_conf *conf);

/* The questions of a connection's first look, before those of each look. How many are owed. */
uint32_t kw_conf_greet(struct kw_conf *conf);

/* The question of each look, after all others of it. How many answers are owed. */
uint32_t kw_conf_ask(struct kw_conf *conf);

/* All answers of a look came, and nothing else is against the server: good or lost follows. */
void kw_conf_judge(struct kw_conf *conf);

#endif
