#include "feed/auto.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "feed/choice.h"
#include "feed/notify/notify.h"
#include "feed/permissions.h"
#include "feed/stream/stream.h"
#include "feed/watch/watch.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct automatic {
	struct kw_feed feed; /* first */
	struct kw_feed_handlers handlers;
	struct kw_feed_chooser chooser;
	struct kw_feed *stream, *notifications;
	struct kw_feed *now; /* one of these: started, or stopped last */
	struct kw_choice choice;
	char run_id[41];                  /* of the server at which the stream failed */
	char why[KW_ERROR_TEXT];          /* … and its reason; "": it did not */
	struct kw_feed *ready;            /* the feed that was ready last; NULL: none was */
	struct kw_server_identity server; /* … with this server */
};

static struct automatic *auto_of(struct kw_feed *feed)
{
	return (struct automatic *)feed;
}

static const struct automatic *const_auto_of(const struct kw_feed *feed)
{
	return (const struct automatic *)feed;
}

static bool is_stream(const struct automatic *automatic)
{
	return automatic->now == automatic->stream;
}

/* The stream tells it just before it is lost. */
static void failed(void *arg, const struct kw_error *why)
{
	struct automatic *automatic = arg;

	if (!kw_choice_failed(&automatic->choice, why->code == KW_E_REFUSED, kw_clock_us()))
		return;
	snprintf(automatic->why, sizeof automatic->why, "%s", why->text);
	snprintf(automatic->run_id, sizeof automatic->run_id, "%s",
		kw_feed_server(automatic->stream)->run_id);
	kw_log_warn("source", "going on with keyspace notifications: %s", why->text);
}

/* Each feed compares with what it saw itself. That is too old if the other one was ready since. */
static enum kw_feed_server readies(void *arg, enum kw_feed_server server)
{
	struct automatic *automatic = arg;
	const struct kw_server_identity *now = kw_feed_server(automatic->now);

	if (automatic->ready && automatic->ready != automatic->now)
		server = kw_watch_is_another(&automatic->server, now) ? KW_FEED_ANOTHER_SERVER
								      : KW_FEED_SAME_SERVER;
	automatic->ready = automatic->now;
	automatic->server = *now;
	if (is_stream(automatic))
		kw_choice_followed(&automatic->choice, kw_clock_us());
	return server;
}

/* The last connection was to another server than the one at which the stream failed. */
static bool was_another(const struct automatic *automatic)
{
	const char *run_id = kw_feed_server(automatic->now)->run_id;

	return run_id[0] && strcmp(run_id, automatic->run_id) != 0;
}

static void start(struct kw_feed *feed)
{
	struct automatic *automatic = auto_of(feed);

	assert(kw_feed_is_stopped(automatic->now));
	automatic->now = automatic->choice.next == KW_CHOICE_STREAM ? automatic->stream
								    : automatic->notifications;
	if (is_stream(automatic))
		automatic->why[0] = '\0';
	kw_feed_start(automatic->now);
}

static void stop(struct kw_feed *feed)
{
	struct automatic *automatic = auto_of(feed);

	kw_choice_stopped(
		&automatic->choice, !is_stream(automatic) && was_another(automatic), kw_clock_us());
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
	struct automatic *automatic = auto_of(feed);
	struct kw_error why;

	if (!is_stream(automatic) && kw_choice_is_due(&automatic->choice, kw_clock_us())) {
		kw_error_set(&why, KW_E_STATE, "trying the replication stream again");
		automatic->handlers.lost(automatic->handlers.arg, &why);
	} else {
		kw_feed_look(automatic->now);
	}
}

static void examine(struct kw_feed *feed)
{
	kw_feed_examine(auto_of(feed)->now);
}

static void let_wait(struct kw_feed *feed, bool may)
{
	kw_feed_let_wait(auto_of(feed)->now, may);
}

static uint64_t silent_since(const struct kw_feed *feed)
{
	return kw_feed_silent_since(const_auto_of(feed)->now);
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
	bool streams = is_stream(automatic);
	struct kw_feed_stats other;

	kw_feed_stats(automatic->now, stats);
	kw_feed_stats(streams ? automatic->notifications : automatic->stream, &other);
	stats->events += other.events;
	stats->silent_refetches += other.silent_refetches;
	stats->values_shed += other.values_shed;
	stats->synchronisations += other.synchronisations;
	stats->feed_why = streams ? "the server and its user allow it" : automatic->why;
}

/* What the stream needs besides is found out by itself: a lack of it is no failure. */
static size_t permissions(const struct kw_feed *feed, const struct kw_wanted **first)
{
	const struct automatic *automatic = const_auto_of(feed);

	if (automatic->choice.next == KW_CHOICE_STREAM)
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
	examine, let_wait, silent_since, turn, ready_us, stored, emptied, server, databases, stats,
	permissions, auto_free};

struct kw_feed *kw_auto_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers)
{
	struct automatic *automatic = kw_zalloc(sizeof *automatic);
	struct kw_feed_options own = *options;

	automatic->feed.operations = &operations;
	automatic->handlers = *handlers;
	automatic->chooser = (struct kw_feed_chooser){failed, readies, automatic};
	kw_choice_init(&automatic->choice);
	own.chooser = &automatic->chooser;
	automatic->stream = kw_stream_feed_new(&own, handlers);
	automatic->notifications = kw_notify_new(&own, handlers);
	automatic->now = automatic->stream;
	return &automatic->feed;
}
