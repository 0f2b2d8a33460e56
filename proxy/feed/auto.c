#include "feed/auto.h"

#include "base/buffer.h"
#include "base/log.h"
#include "feed/notify.h"
#include "feed/permissions.h"
#include "feed/stream.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct automatic {
	struct kw_feed feed; /* first */
	struct kw_feed *stream, *notifications;
	struct kw_feed *now;     /* one of these: started, or stopped last */
	struct kw_feed *next;    /* at the next start */
	char run_id[41];         /* of the server that refused the stream */
	char why[KW_ERROR_TEXT]; /* … and its reason; "": none did */
};

static struct automatic *auto_of(struct kw_feed *feed)
{
	return (struct automatic *)feed;
}

static const struct automatic *const_auto_of(const struct kw_feed *feed)
{
	return (const struct automatic *)feed;
}

/* The stream tells it just before it is lost. */
static void refused(void *arg, const struct kw_error *why)
{
	struct automatic *automatic = arg;

	snprintf(automatic->why, sizeof automatic->why, "%s", why->text);
	snprintf(automatic->run_id, sizeof automatic->run_id, "%s",
		kw_feed_server(automatic->stream)->run_id);
	kw_log_warn("source", "going on with keyspace notifications: %s", why->text);
	automatic->next = automatic->notifications;
}

/* The last connection was to another server than the one that refused the stream. */
static bool was_another(const struct automatic *automatic)
{
	const char *run_id = kw_feed_server(automatic->now)->run_id;

	return automatic->now == automatic->notifications && run_id[0] &&
	       strcmp(run_id, automatic->run_id) != 0;
}

static void start(struct kw_feed *feed)
{
	struct automatic *automatic = auto_of(feed);

	assert(kw_feed_is_stopped(automatic->now));
	automatic->now = automatic->next;
	if (automatic->now == automatic->stream)
		automatic->why[0] = '\0';
	kw_feed_start(automatic->now);
}

static void stop(struct kw_feed *feed)
{
	struct automatic *automatic = auto_of(feed);

	if (was_another(automatic))
		automatic->next = automatic->stream;
	kw_feed_stop(automatic->now);
}

static bool is_stopped(const struct kw_feed *feed)
{
	return kw_feed_is_stopped(const_auto_of(feed)->now);
}

static void barrier(struct kw_feed *feed)
{
	kw_feed_barrier(auto_of(feed)->now);
}

static void order(struct kw_feed *feed)
{
	kw_feed_order(auto_of(feed)->now);
}

static void look(struct kw_feed *feed)
{
	kw_feed_look(auto_of(feed)->now);
}

static void examine(struct kw_feed *feed)
{
	kw_feed_examine(auto_of(feed)->now);
}

static void turn(struct kw_feed *feed, uint64_t now_us)
{
	kw_feed_turn(auto_of(feed)->now, now_us);
}

static uint64_t ready_us(const struct kw_feed *feed, uint64_t now_us)
{
	return kw_feed_ready_us(const_auto_of(feed)->now, now_us);
}

/* Notifications must know the table's keys of some kinds when their turn comes. */
static void stored(struct kw_feed *feed, uint32_t database, struct kw_slice key,
	const struct kw_slice *payload)
{
	kw_feed_stored(auto_of(feed)->notifications, database, key, payload);
}

static void emptied(struct kw_feed *feed, uint32_t database)
{
	kw_feed_emptied(auto_of(feed)->notifications, database);
}

/* The present one, unless it has not looked at any server yet. */
static const struct kw_feed *informed(const struct automatic *automatic)
{
	if (kw_feed_server(automatic->now)->looks > 0)
		return automatic->now;
	return automatic->now == automatic->stream ? automatic->notifications : automatic->stream;
}

static const struct kw_server_identity *server(const struct kw_feed *feed)
{
	return kw_feed_server(informed(const_auto_of(feed)));
}

static uint32_t databases(const struct kw_feed *feed)
{
	return kw_feed_databases(informed(const_auto_of(feed)));
}

static void stats(const struct kw_feed *feed, struct kw_feed_stats *stats)
{
	const struct automatic *automatic = const_auto_of(feed);
	bool streams = automatic->now == automatic->stream;
	struct kw_feed_stats other;

	kw_feed_stats(automatic->now, stats);
	kw_feed_stats(streams ? automatic->notifications : automatic->stream, &other);
	stats->events += other.events;
	stats->silent_refetches += other.silent_refetches;
	stats->feed_why = streams ? "the server and its user allow it" : automatic->why;
}

/* What the stream needs besides is found out by itself: a lack of it is no failure. */
static size_t permissions(const struct kw_feed *feed, const struct kw_wanted **first)
{
	const struct automatic *automatic = const_auto_of(feed);

	if (automatic->next == automatic->stream)
		return kw_read_permissions(first);
	return kw_feed_permissions(automatic->notifications, first);
}

static void auto_free(struct kw_feed *feed)
{
	struct automatic *automatic = auto_of(feed);

	kw_feed_free(automatic->stream);
	kw_feed_free(automatic->notifications);
	free(automatic);
}

static const struct kw_feed_operations operations = {start, stop, is_stopped, barrier, order, look,
	examine, turn, ready_us, stored, emptied, server, databases, stats, permissions, auto_free};

struct kw_feed *kw_auto_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers)
{
	struct automatic *automatic = kw_zalloc(sizeof *automatic);
	struct kw_feed_options for_stream = *options;

	automatic->feed.operations = &operations;
	for_stream.refused = refused;
	for_stream.refused_arg = automatic;
	automatic->stream = kw_stream_feed_new(&for_stream, handlers);
	automatic->notifications = kw_notify_new(options, handlers);
	automatic->now = automatic->next = automatic->stream;
	return &automatic->feed;
}
