#include "feed/stream/stream.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sm.h"
#include "feed/permissions.h"
#include "feed/stream/awaited.h"
#include "feed/stream/changes.h"
#include "feed/stream/commands.h"
#include "feed/stream/joining.h"
#include "feed/stream/leaving.h"
#include "feed/stream/locator.h"
#include "feed/stream/replication.h"
#include "feed/stream/seeker.h"
#include "feed/stream/stall.h"
#include "feed/watch/watch.h"
#include "redis/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum state {
	STOPPED,
	STARTING, /* watch looks, COMMAND is asked, the stream attaches */
	RUNNING,
	STOPPING, /* the connection of the stream is being closed */
};

struct stream {
	struct kw_feed feed; /* first */
	struct kw_feed_options options;
	struct kw_feed_handlers handlers;
	struct kw_sm sm;
	enum kw_feed_server greeted; /* since the feed was ready last */
	struct kw_watch *watch;
	struct kw_replication *replication;
	struct kw_commands commands;
	struct kw_changes changes;
	struct kw_leaving leaving;
	struct kw_stall stall;
	struct kw_awaited awaited;
	struct kw_locator *locator;
	struct kw_seeker *seeker;
};

/*
 * Keys told in each database, before the server is asked for a synchronisation that tells which one
 * they are in. It forks for that once. Without it there is no end of DUMPs.
 */
#define SEEK_AFTER 4096

static bool is_closed(const struct stream *stream)
{
	return kw_replication_is_closed(stream->replication) &&
	       kw_locator_is_idle(stream->locator) && kw_seeker_is_idle(stream->seeker);
}

static bool holds(const void *owner, int state)
{
	const struct stream *stream = owner;
	bool awaits =
		kw_awaited_any(&stream->awaited) || kw_flushed_under_way(&stream->changes.flushed);

	switch (state) {
	case STOPPED:
		return is_closed(stream) && !awaits;
	case RUNNING:
		return !kw_replication_is_closed(stream->replication) && stream->commands.catalog;
	default:
		return !awaits;
	}
}

static const struct kw_sm_state states[] = {
	[STOPPED] = {"stopped", KW_SM_TO(STARTING), KW_SM_INITIAL},
	[STARTING] = {"starting", KW_SM_TO(RUNNING) | KW_SM_TO(STOPPING) | KW_SM_TO(STOPPED)},
	[RUNNING] = {"running", KW_SM_TO(STOPPING)},
	[STOPPING] = {"stopping", KW_SM_TO(STOPPED)},
};

static const struct kw_sm_conf machine = {"stream", states, STOPPING + 1, holds};

static struct stream *stream_of(struct kw_feed *feed)
{
	return (struct stream *)feed;
}

static const struct stream *const_stream_of(const struct kw_feed *feed)
{
	return (const struct stream *)feed;
}

static void want_turn(struct stream *stream)
{
	stream->handlers.turn_wanted(stream->handlers.arg);
}

static void lose(struct stream *stream, const struct kw_error *why)
{
	if (stream->sm.state != STARTING && stream->sm.state != RUNNING)
		return;
	if (why->code == KW_E_REFUSED) {
		kw_replication_forget(stream->replication); /* another feed may go on from here */
		kw_feed_failed(stream->options.chooser, why);
	}
	stream->handlers.lost(stream->handlers.arg, why);
}

/* ---- the database ---- */

/* A replica does not put what is published there into its stream. */
static bool is_primary(const struct stream *stream)
{
	return kw_watch_identity(stream->watch)->upstream == KW_UPSTREAM_NONE;
}

/*
 * A partial joiner is told no SELECT before the database changes (replication.h). And a server
 * whose offset is 0 would take ACK 0 for that of a replica that has all its data: FAILOVER would
 * choose it (updateFailoverStatus in replication.c). What is published moves the offset.
 */
static void locate(struct stream *stream)
{
	bool known = kw_replication_is_located(stream->replication);
	struct kw_error why;

	if (known && kw_replication_offset(stream->replication) > 0)
		return;
	if (is_primary(stream))
		kw_locator_ask(stream->locator, stream->options.address,
			kw_replication_locator(stream->replication));
	if (!known && stream->changes.everywhere >= SEEK_AFTER &&
		!kw_joining_check(kw_watch_identity(stream->watch), stream->options.address, &why))
		kw_seeker_ask(stream->seeker, stream->options.address, kw_clock_us());
}

static void database_found(void *arg, const char *id, uint64_t offset, uint32_t database)
{
	struct stream *stream = arg;

	kw_replication_locate(stream->replication, id, offset, database);
}

/* ---- effects ---- */

static void take_batch(void *arg, const struct kw_repl_batch *batch)
{
	struct stream *stream = arg;

	locate(stream);
	stream->changes.batch.read_us = kw_replication_heard_us(stream->replication);
	stream->changes.begin = batch->begin;
	stream->changes.end = batch->end > batch->begin ? batch->end : UINT64_MAX;
	for (size_t i = 0; i < batch->count; i++)
		kw_changes_tell(&stream->changes, &batch->effects[i]);
}

/* ---- barriers ---- */

/* Up to where all was told. A flush is told when it is known what became of its database. */
static uint64_t told(const struct stream *stream)
{
	return kw_flushed_told(
		&stream->changes.flushed, kw_replication_offset(stream->replication));
}

static void tell_watch(struct stream *stream)
{
	kw_watch_told_up_to(stream->watch, told(stream));
}

static void moved(void *arg)
{
	struct stream *stream = arg;

	tell_watch(stream);
	if (kw_awaited_any(&stream->awaited))
		want_turn(stream);
}

/* An order is told at once, between the answers before it and those after it. */
static void offset_told(void *arg, enum kw_awaited_kind kind)
{
	struct stream *stream = arg;
	uint64_t offset = kw_awaited_offset(&stream->awaited, kind)->offset;

	if (offset > stream->changes.server_offset)
		stream->changes.server_offset = offset;
	if (kind == KW_AWAITED_ORDER && kw_awaited_take(&stream->awaited, kind, offset))
		stream->handlers.ordered(stream->handlers.arg, offset);
	want_turn(stream);
}

static void offset_refused(void *arg, const struct kw_error *why)
{
	lose(arg, why);
}

static void barrier(struct kw_feed *feed)
{
	struct stream *stream = stream_of(feed);

	assert(stream->sm.state == RUNNING);
	kw_awaited_ask(&stream->awaited, KW_AWAITED_BARRIER);
}

static void order(struct kw_feed *feed)
{
	struct stream *stream = stream_of(feed);

	assert(stream->sm.state == RUNNING);
	kw_awaited_ask(&stream->awaited, KW_AWAITED_ORDER);
}

static void examine(struct kw_feed *feed)
{
	struct stream *stream = stream_of(feed);

	assert(stream->sm.state == RUNNING);
	kw_awaited_ask(&stream->awaited, KW_AWAITED_EXAMINATION);
}

static void tell_reached(struct stream *stream)
{
	uint64_t offset = told(stream);

	if (kw_awaited_take(&stream->awaited, KW_AWAITED_EXAMINATION, offset))
		stream->handlers.examined(stream->handlers.arg);
	if (kw_awaited_take(&stream->awaited, KW_AWAITED_BARRIER, offset))
		stream->handlers.passed(stream->handlers.arg);
}

/* The server is further than the stream for too long: a connection that is dead at one end. */
static void look_for_stall(struct stream *stream, uint64_t now_us)
{
	const struct kw_offset *barrier = kw_awaited_offset(&stream->awaited, KW_AWAITED_BARRIER);
	uint64_t offset = kw_replication_offset(stream->replication);
	struct kw_error why;

	if (!kw_stall_look(&stream->stall, kw_offset_is_ahead(barrier, offset),
		    kw_replication_heard_us(stream->replication), now_us))
		return;
	kw_error_set(&why, KW_E_TIMEOUT,
		"%s: the replication stream stands still at offset %llu, and the server is at "
		"%llu: "
		"the network is gone, or the server does not send (see its log)",
		stream->options.address, (unsigned long long)offset,
		(unsigned long long)barrier->offset);
	lose(stream, &why);
}

/* ---- from `start` to `ready` ---- */

static void attached(void *arg, enum kw_replication_start start)
{
	struct stream *stream = arg;
	enum kw_feed_server greeted =
		start == KW_REPLICATION_GOES_ON ? KW_FEED_CONTINUED_SERVER : stream->greeted;

	if (stream->sm.state != STARTING)
		return;
	if (start == KW_REPLICATION_ANEW)
		kw_watch_named(stream->watch, kw_replication_id(stream->replication));
	stream->greeted = KW_FEED_SAME_SERVER;
	kw_sm_move(&stream->sm, RUNNING, "");
	stream->handlers.ready(
		stream->handlers.arg, kw_feed_readies(stream->options.chooser, greeted));
	if (kw_replication_offset(stream->replication) == 0)
		locate(stream);
	want_turn(stream);
}

static void replication_lost(void *arg, const struct kw_error *why)
{
	struct stream *stream = arg;

	if (stream->sm.state == STARTING && why->code != KW_E_REFUSED)
		kw_feed_failed(stream->options.chooser, why);
	lose(stream, why);
}

/* One of the connections is. */
static void closed(void *arg)
{
	struct stream *stream = arg;

	if (stream->sm.state != STOPPING || !is_closed(stream))
		return;
	kw_sm_move(&stream->sm, STOPPED, "");
	stream->handlers.stopped(stream->handlers.arg);
}

static void commands_learnt(void *arg, const struct kw_repl_catalog *catalog)
{
	struct stream *stream = arg;

	kw_replication_catalog(stream->replication, catalog);
	kw_replication_databases(stream->replication, kw_watch_databases(stream->watch),
		kw_changes_databases(&stream->changes));
	if (stream->sm.state == STARTING)
		kw_replication_open(stream->replication, stream->options.address,
			kw_watch_identity(stream->watch));
}

static void commands_refused(void *arg, const struct kw_error *why)
{
	lose(arg, why);
}

static void not_understood(void *arg)
{
	struct stream *stream = arg;

	kw_commands_ask_again(&stream->commands);
}

/* Asked before it is needed, so that a refusal is told at the start. */
static void first_role(void *arg, const struct kw_reply *reply)
{
	struct stream *stream = arg;
	struct kw_offset offset = {0};
	struct kw_error why;

	reply = kw_data_reply(stream->options.data, reply);
	if (!reply || stream->sm.state != STARTING)
		return;
	kw_offset_ask(&offset);
	if (kw_offset_told(&offset, reply))
		return;
	kw_data_refusal(&why, stream->options.redis.username, "ROLE", "+role", reply);
	lose(stream, &why);
}

/* The server waits for a replica that never acknowledges. */
static void make_way(void *arg)
{
	struct stream *stream = arg;
	struct kw_error why;

	kw_joining_leaves(stream->options.address, &why);
	lose(stream, &why);
}

static void ack_asked(void *arg)
{
	struct stream *stream = arg;

	kw_leaving_suspect(&stream->leaving, kw_clock_us());
	want_turn(stream);
}

/* False: this connection must not be one of the server's replicas. */
static bool may_join(struct stream *stream)
{
	struct kw_error why;

	if (!kw_joining_check(kw_watch_identity(stream->watch), stream->options.address, &why))
		return true;
	lose(stream, &why);
	return false;
}

/* watch's first look found nothing against the server. */
static void welcome(void *arg, enum kw_feed_server server)
{
	struct stream *stream = arg;

	if (server > stream->greeted)
		stream->greeted = server;
	if (stream->sm.state != STARTING || !may_join(stream))
		return;
	kw_data_words(stream->options.data, first_role, stream, "ROLE", NULL);
	kw_commands_ask(&stream->commands);
}

static void watch_doubts(void *arg, enum kw_doubt cause, const char *why)
{
	struct stream *stream = arg;

	kw_changes_doubt(&stream->changes, cause, NULL, why);
}

static void stir(void *arg, enum kw_silent_kind kind)
{
	/* The stream tells what such commands do. */
}

static void functions_changed(void *arg, enum kw_feed_functions what)
{
	/* The same. */
}

static void looked(void *arg)
{
	struct stream *stream = arg;

	if (stream->sm.state == RUNNING && may_join(stream))
		tell_watch(stream);
}

static uint64_t events_heard(void *arg)
{
	return ((const struct stream *)arg)->changes.count;
}

/* ---- what the owner asks ---- */

static void start(struct kw_feed *feed)
{
	struct stream *stream = stream_of(feed);

	kw_sm_move(&stream->sm, STARTING, "");
	kw_watch_begin(stream->watch);
}

static void stop(struct kw_feed *feed)
{
	struct stream *stream = stream_of(feed);

	if (stream->sm.state == STOPPED || stream->sm.state == STOPPING)
		return;
	if (!kw_changes_stop(&stream->changes))
		kw_replication_forget(stream->replication);
	kw_leaving_stop(&stream->leaving);
	stream->stall = (struct kw_stall){0};
	kw_awaited_reset(&stream->awaited);
	kw_locator_stop(stream->locator);
	kw_seeker_stop(stream->seeker);
	kw_replication_close(stream->replication);
	if (is_closed(stream))
		kw_sm_move(&stream->sm, stream->sm.state == STARTING ? STOPPED : STOPPING, "");
	else
		kw_sm_move(&stream->sm, STOPPING, "");
}

static bool is_stopped(const struct kw_feed *feed)
{
	return const_stream_of(feed)->sm.state == STOPPED;
}

static void look(struct kw_feed *feed)
{
	struct stream *stream = stream_of(feed);

	if (stream->sm.state != RUNNING)
		return;
	kw_awaited_ask_again(&stream->awaited);
	kw_watch_look(stream->watch);
	look_for_stall(stream, kw_clock_us());
}

/* The server gains nothing by it (see tests/bench/NOTES.md). */
static void let_wait(struct kw_feed *feed, bool may)
{
}

/* An idle server sends nothing for long. It owes bytes only if it is further than the stream. */
static uint64_t silent_since(const struct kw_feed *feed)
{
	const struct stream *stream = const_stream_of(feed);
	const struct kw_offset *barrier = kw_awaited_offset(&stream->awaited, KW_AWAITED_BARRIER);

	if (!kw_offset_is_ahead(barrier, kw_replication_offset(stream->replication)) ||
		kw_replication_is_telling(stream->replication))
		return UINT64_MAX;
	return kw_replication_heard_us(stream->replication);
}

static void turn(struct kw_feed *feed, uint64_t now_us)
{
	struct stream *stream = stream_of(feed);

	/* The next part of a command may be told here. What it makes dirty goes before barriers. */
	if (stream->sm.state == STARTING || stream->sm.state == RUNNING)
		kw_replication_turn(stream->replication, now_us);
	kw_feed_batch_tell(&stream->changes.batch);
	if (stream->sm.state != RUNNING)
		return;
	kw_leaving_turn(&stream->leaving, now_us);
	kw_seeker_turn(stream->seeker, now_us);
	tell_reached(stream);
}

static uint64_t ready_us(const struct kw_feed *feed, uint64_t now_us)
{
	const struct stream *stream = const_stream_of(feed);
	uint64_t replication_us = kw_replication_ready_us(stream->replication);
	uint64_t leaving_us = kw_leaving_ready_us(&stream->leaving);
	uint64_t seeker_us = kw_seeker_ready_us(stream->seeker);
	uint64_t first_us = replication_us < leaving_us ? replication_us : leaving_us;

	return seeker_us < first_us ? seeker_us : first_us;
}

static void stored(struct kw_feed *feed, uint32_t database, struct kw_slice key,
	const struct kw_slice *payload)
{
	/* No command is silent, so nothing need be known of the table. */
}

static void emptied(struct kw_feed *feed, uint32_t database)
{
	/* The same. */
}

static const struct kw_server_identity *server(const struct kw_feed *feed)
{
	return kw_watch_identity(const_stream_of(feed)->watch);
}

static uint32_t databases(const struct kw_feed *feed)
{
	return kw_watch_databases(const_stream_of(feed)->watch);
}

static void stats(const struct kw_feed *feed, struct kw_feed_stats *stats)
{
	const struct stream *stream = const_stream_of(feed);
	int64_t behind = (int64_t)(stream->changes.server_offset -
				   kw_replication_offset(stream->replication));

	*stats = (struct kw_feed_stats){
		.events = stream->changes.count,
		.values_shed = stream->changes.shed,
		.behind_bytes = behind > 0 ? (uint64_t)behind : 0,
		.synchronisations = kw_replication_synchronisations(stream->replication) +
				    kw_seeker_synchronisations(stream->seeker),
		.clock_skew_us = kw_watch_skew_us(stream->watch),
		.flags = KW_FEED_FLAGS_UNUSED,
		.arrived_us = stream->changes.batch.begun_us,
		.feed = KW_SOURCE_FEED_STREAM,
		.feed_why = "",
	};
}

static size_t permissions(const struct kw_feed *feed, const struct kw_wanted **first)
{
	return kw_stream_permissions(first);
}

static void stream_free(struct kw_feed *feed)
{
	struct stream *stream = stream_of(feed);

	assert(stream->sm.state == STOPPED);
	kw_watch_free(stream->watch);
	kw_replication_free(stream->replication);
	kw_locator_free(stream->locator);
	kw_seeker_free(stream->seeker);
	kw_commands_close(&stream->commands);
	kw_changes_close(&stream->changes);
	free(stream);
}

static const struct kw_feed_operations operations = {start, stop, is_stopped, barrier, order, look,
	examine, let_wait, silent_since, turn, ready_us, stored, emptied, server, databases, stats,
	permissions, stream_free};

struct kw_feed *kw_stream_feed_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers)
{
	struct stream *stream = kw_zalloc(sizeof *stream);
	const struct kw_watch_handlers watch = {
		welcome, watch_doubts, stir, functions_changed, looked, events_heard, stream};
	const struct kw_replication_handlers replication = {
		attached, take_batch, moved, ack_asked, replication_lost, closed, stream};
	const struct kw_seeker_handlers seeker = {database_found, closed, stream};

	assert(options->data && options->scope && options->watch_interval_ms > 0);
	stream->feed.operations = &operations;
	stream->options = *options;
	stream->handlers = *handlers;
	stream->greeted = KW_FEED_SAME_SERVER;
	stream->watch = kw_watch_new(options->data, KW_SOURCE_FLAGS_NONE, &watch);
	stream->changes = (struct kw_changes){
		.handlers = &stream->handlers,
		.scope = options->scope,
		.watch = stream->watch,
		.unknown = not_understood,
		.arg = stream,
	};
	kw_changes_init(&stream->changes, options->data);
	stream->leaving =
		(struct kw_leaving){.data = options->data, .leaves = make_way, .arg = stream};
	stream->commands = (struct kw_commands){.data = options->data,
		.username = stream->options.redis.username,
		.learnt = commands_learnt,
		.refused = commands_refused,
		.arg = stream};
	stream->awaited = (struct kw_awaited){.data = options->data,
		.username = stream->options.redis.username,
		.told = offset_told,
		.refused = offset_refused,
		.arg = stream};
	stream->locator = kw_locator_new(options->loop, &options->redis, closed, stream);
	stream->seeker = kw_seeker_new(options->loop, &options->redis, &seeker);
	stream->replication =
		kw_replication_new(options->loop, &options->redis, options->seed, &replication);
	kw_sm_init(&stream->sm, &machine, stream, STOPPED);
	return &stream->feed;
}
