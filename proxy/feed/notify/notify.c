#include "feed/notify/notify.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sm.h"
#include "feed/batch.h"
#include "feed/notify/canary.h"
#include "feed/notify/channel.h"
#include "feed/notify/flush.h"
#include "feed/notify/prover.h"
#include "feed/notify/refetch.h"
#include "feed/permissions.h"
#include "feed/watch/silent.h"
#include "feed/watch/watch.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL_BYTES 64 /* longer channels are taken apart each time */
/*
 * A DEBUG counts if it was seen at most so many looks of watch ago: a look can come before the
 * flush.
 */
#define DEBUG_LOOKS 3

enum state {
	STOPPED,
	STARTING, /* watch looks, or the events connection subscribes */
	RUNNING,
	STOPPING, /* the events connection is being closed, or that of the prover */
};

/*
 * LATE: the pong came, and a flush check was under way. What the flush did to the table must be
 * told before the barrier is.
 */
enum barrier { BARRIER_NONE, BARRIER_ASKED, BARRIER_AGAIN, BARRIER_LATE };

/*
 * An examination: a look that began after it was asked for (DUE: one of before is under way), and
 * then all keys that this look stirs.
 */
enum examination { EXAM_NONE, EXAM_DUE, EXAM_LOOKING, EXAM_TELLING };

/* The channel of the last event, taken apart: most events have that of the one before. */
struct heard {
	uint32_t database;
	unsigned flags;        /* of the dirty set; 0: no key changed */
	uint16_t length;       /* of the channel; 0: none */
	struct kw_slice event; /* within `channel`, or within the message under way */
	char channel[CHANNEL_BYTES];
};

struct notify {
	struct kw_feed feed; /* first */
	struct kw_feed_options options;
	struct kw_feed_handlers handlers;
	struct kw_sm sm;
	struct kw_redis *events;     /* NULL: not connected */
	uint32_t confirmations;      /* of subscriptions, still to come */
	enum kw_feed_server greeted; /* since the feed was ready last */
	enum barrier barrier;
	enum examination examination;
	struct heard heard;
	struct kw_feed_batch batch; /* of events */
	struct kw_watch *watch;
	struct kw_silent *silent;
	struct kw_refetch refetch;
	struct kw_canaries *canaries;
	struct kw_flush_check flush;
	struct kw_prover *prover; /* of scope->canary_key */
	uint64_t event_count;
	uint64_t heard_count; /* events of changes of any key, followed or not */
};

static bool is_closed(const struct notify *notify)
{
	return !notify->events && kw_prover_is_idle(notify->prover);
}

static bool holds(const void *owner, int state)
{
	const struct notify *notify = owner;

	switch (state) {
	case STOPPED:
		return is_closed(notify) && notify->barrier == BARRIER_NONE &&
		       notify->examination == EXAM_NONE && !kw_flush_under_way(&notify->flush);
	case RUNNING:
		return notify->events && notify->confirmations == 0;
	case STOPPING:
		return notify->barrier == BARRIER_NONE && !kw_flush_under_way(&notify->flush);
	default:
		return notify->barrier == BARRIER_NONE;
	}
}

static const struct kw_sm_state states[] = {
	[STOPPED] = {"stopped", KW_SM_TO(STARTING), KW_SM_INITIAL},
	[STARTING] = {"starting", KW_SM_TO(RUNNING) | KW_SM_TO(STOPPING) | KW_SM_TO(STOPPED)},
	[RUNNING] = {"running", KW_SM_TO(STOPPING)},
	[STOPPING] = {"stopping", KW_SM_TO(STOPPED)},
};

static const struct kw_sm_conf machine = {"feed", states, STOPPING + 1, holds};

static struct notify *notify_of(struct kw_feed *feed)
{
	return (struct notify *)feed;
}

static const struct notify *const_notify_of(const struct kw_feed *feed)
{
	return (const struct notify *)feed;
}

static void want_turn(struct notify *notify)
{
	notify->handlers.turn_wanted(notify->handlers.arg);
}

/* Events become dirty keys, in batches. */

static const struct heard *hear(struct notify *notify, struct kw_slice channel)
{
	struct heard *heard = &notify->heard;
	struct kw_slice event;

	if (heard->length > 0 && kw_slice_equal(channel, kw_slice(heard->channel, heard->length)))
		return heard;
	heard->length = 0;
	if (!kw_channel_parse(channel, &heard->database, &event))
		return NULL;
	heard->flags = kw_channel_is_change(event) ? KW_DIRTY_EVENT : 0;
	if (heard->flags && kw_channel_may_expire(event))
		heard->flags |= KW_DIRTY_TTL;
	heard->event = event;
	if (channel.length <= sizeof heard->channel) {
		memcpy(heard->channel, channel.data, channel.length);
		heard->length = (uint16_t)channel.length;
		heard->event.data = heard->channel + (channel.length - event.length);
	}
	return heard;
}

static void key_changed(struct notify *notify, struct kw_slice channel, struct kw_slice key)
{
	const struct heard *heard = hear(notify, channel);

	notify->heard_count += heard && heard->flags;
	if (heard && heard->flags && heard->database == 0)
		kw_prover_heard(notify->prover, heard->event, key);
	if (!heard || !heard->flags || heard->database >= kw_watch_databases(notify->watch) ||
		!kw_scope_has(notify->options.scope, heard->database, key))
		return;
	notify->event_count++;
	if (kw_flush_under_way(&notify->flush))
		kw_canary_touch(notify->canaries, heard->database, key);
	kw_feed_batch_add(
		&notify->batch, (struct kw_dirty_key){key, heard->database, heard->flags});
}

static void flush_told(struct notify *notify)
{
	kw_feed_batch_tell(&notify->batch);
	/* Before `ready` the source has read nothing that a flush could remove. */
	if (notify->sm.state == RUNNING)
		kw_flush_seen(&notify->flush);
	want_turn(notify);
}

/*
 * Messages come as [pmessage, pattern, channel, key] and [message, channel, payload]. The payload
 * of an invalidation is nil for a flush. It cannot be a list of keys: OPTIN tracks none.
 */
static void pushed(void *arg, const struct kw_reply *message)
{
	struct notify *notify = arg;
	const struct kw_reply *parts = message->elements;

	if (message->count == 4 && parts[2].type == KW_REPLY_STRING &&
		parts[3].type == KW_REPLY_STRING)
		key_changed(notify, parts[2].text, parts[3].text);
	else if (message->count == 3 && parts[2].type == KW_REPLY_NIL &&
		 kw_slice_equal(parts[1].text, kw_slice_text(KW_CHANNEL_FLUSH)))
		flush_told(notify);
}

/* The barrier and the flush check. */

static void tell_passed(struct notify *notify)
{
	assert(notify->barrier != BARRIER_NONE && !kw_flush_under_way(&notify->flush));
	notify->barrier = BARRIER_NONE;
	kw_feed_batch_tell(&notify->batch);
	notify->handlers.passed(notify->handlers.arg);
	want_turn(notify);
}

static void barrier_answered(void *arg, const struct kw_reply *reply)
{
	struct notify *notify = arg;

	if (!reply || notify->barrier != BARRIER_ASKED)
		return;
	if (reply->type == KW_REPLY_ERROR) {
		notify->barrier = BARRIER_AGAIN; /* -BUSY: a script is in the midst of its writes */
		return;
	}
	if (kw_flush_under_way(&notify->flush))
		notify->barrier = BARRIER_LATE;
	else
		tell_passed(notify);
}

static void barrier(struct kw_feed *feed)
{
	struct notify *notify = notify_of(feed);

	assert(notify->sm.state == RUNNING && notify->barrier == BARRIER_NONE);
	assert(notify->events);
	notify->barrier = BARRIER_ASKED;
	kw_redis_words(notify->events, barrier_answered, notify, "PING", NULL);
}

static void ask_barrier_again(struct notify *notify)
{
	if (notify->barrier != BARRIER_AGAIN || kw_data_is_busy(notify->options.data))
		return;
	notify->barrier = BARRIER_ASKED;
	kw_redis_words(notify->events, barrier_answered, notify, "PING", NULL);
}

static void flush_events_answered(void *arg, const struct kw_reply *reply)
{
	struct notify *notify = arg;

	if (reply)
		kw_flush_passed(&notify->flush);
	else
		kw_flush_abandon(&notify->flush);
}

static void flush_asks_events(void *arg)
{
	struct notify *notify = arg;

	if (notify->events)
		kw_redis_words(notify->events, flush_events_answered, notify, "PING", NULL);
}

static void flush_ended(void *arg)
{
	struct notify *notify = arg;

	want_turn(notify);
	if (notify->barrier == BARRIER_LATE)
		tell_passed(notify);
}

/* From `start` to `ready`. */

static void lose(struct notify *notify, const struct kw_error *why)
{
	notify->handlers.lost(notify->handlers.arg, why);
}

/* An answer on the events connection that ends it all. */
static void refused(
	struct notify *notify, const char *command, const char *acl, const struct kw_reply *reply)
{
	struct kw_error why;

	kw_data_refusal(&why, notify->options.redis.username, command, acl, reply);
	kw_error_wrap(&why, "%s", notify->options.redis.address);
	lose(notify, &why);
}

static void become_ready(struct notify *notify)
{
	enum kw_feed_server greeted = notify->greeted;

	notify->greeted = KW_FEED_SAME_SERVER;
	kw_sm_move(&notify->sm, RUNNING, "");
	notify->handlers.ready(
		notify->handlers.arg, kw_feed_readies(notify->options.chooser, greeted));
	want_turn(notify);
}

static void subscribed(
	struct notify *notify, const char *command, const char *acl, const struct kw_reply *reply)
{
	if (!reply || notify->sm.state != STARTING)
		return;
	assert(notify->confirmations > 0);
	if (reply->type != KW_REPLY_ARRAY)
		refused(notify, command, acl, reply);
	else if (--notify->confirmations == 0)
		become_ready(notify);
}

static void flush_subscribed(void *arg, const struct kw_reply *reply)
{
	subscribed(arg, "SUBSCRIBE", "+subscribe &" KW_CHANNEL_FLUSH, reply);
}

static void events_subscribed(void *arg, const struct kw_reply *reply)
{
	subscribed(arg, "PSUBSCRIBE", "+psubscribe '&" KW_CHANNEL_EVENTS "'", reply);
}

/* The user might have been granted the other pattern only. */
static void short_subscribed(void *arg, const struct kw_reply *reply)
{
	struct notify *notify = arg;

	if (reply && notify->sm.state == STARTING && reply->type == KW_REPLY_ERROR &&
		kw_server_error(reply->text) == KW_SERVER_E_PERMISSION)
		kw_redis_subscribe(
			notify->events, true, KW_CHANNEL_EVENTS_LONG, events_subscribed, notify);
	else
		events_subscribed(notify, reply);
}

static void subscribe(struct notify *notify)
{
	notify->confirmations = 2;
	kw_redis_subscribe(notify->events, false, KW_CHANNEL_FLUSH, flush_subscribed, notify);
	kw_redis_subscribe(notify->events, true, KW_CHANNEL_EVENTS, short_subscribed, notify);
}

static void tracking_on(void *arg, const struct kw_reply *reply)
{
	struct notify *notify = arg;

	reply = kw_data_reply(notify->options.data, reply);
	if (!reply || notify->sm.state != STARTING)
		return;
	if (reply->type != KW_REPLY_STATUS) {
		kw_data_refused(notify->options.data, "CLIENT TRACKING", "+client|tracking", reply);
		return;
	}
	notify->flush.late = false;
	subscribe(notify);
}

/* CLIENT is renamed away: nobody tells a flush, but the server counts it. */
static void go_on_without_tracking(struct notify *notify)
{
	if (!notify->flush.late)
		kw_log_warn("source",
			"%s has no command CLIENT: a flush is seen up to source.watch_interval_ms "
			"late, in INFO commandstats, and each one costs a scan",
			notify->options.redis.address);
	notify->flush.late = true;
	subscribe(notify);
}

static void events_named(void *arg, const struct kw_reply *reply)
{
	struct notify *notify = arg;
	char id[24];

	if (!reply || notify->sm.state != STARTING)
		return;
	if (reply->type == KW_REPLY_ERROR && kw_server_lacks_command(reply->text)) {
		go_on_without_tracking(notify);
		return;
	}
	if (reply->type != KW_REPLY_INTEGER) {
		refused(notify, "CLIENT ID", "+client|id", reply);
		return;
	}
	snprintf(id, sizeof id, "%lld", (long long)reply->integer);
	kw_data_words(notify->options.data, tracking_on, notify, "CLIENT", "TRACKING", "ON",
		"REDIRECT", id, "OPTIN", NULL);
}

static void events_ready(void *arg)
{
	struct notify *notify = arg;

	if (notify->sm.state == STARTING)
		kw_redis_words(notify->events, events_named, notify, "CLIENT", "ID", NULL);
}

static void part_closed(void *arg)
{
	struct notify *notify = arg;

	if (notify->sm.state != STOPPING || !is_closed(notify))
		return;
	kw_sm_move(&notify->sm, STOPPED, "");
	notify->handlers.stopped(notify->handlers.arg);
}

/* `why` lies in the connection, which is freed after it was told. */
static void events_closed(void *arg, const struct kw_error *why)
{
	struct notify *notify = arg;
	struct kw_redis *gone = notify->events;

	assert(gone && notify->sm.state != STOPPED);
	if (why->code != KW_OK && notify->sm.state != STOPPING)
		lose(notify, why);
	assert(notify->sm.state == STOPPING); /* the owner has stopped us, now or before */
	notify->events = NULL;
	kw_redis_free(gone);
	part_closed(notify);
}

/* watch's first look found nothing against the server. */
static void welcome(void *arg, enum kw_feed_server server)
{
	struct notify *notify = arg;
	struct kw_redis_handlers handlers = {
		.ready = events_ready,
		.closed = events_closed,
		.push = pushed,
		.arg = notify,
	};
	struct kw_error why;

	assert(!notify->events);
	snprintf(notify->options.redis.address, sizeof notify->options.redis.address, "%s",
		notify->options.address);
	if (server > notify->greeted)
		notify->greeted = server;
	if (notify->sm.state == STARTING &&
		kw_redis_open(notify->options.loop, &notify->options.redis, &handlers,
			&notify->events, &why))
		lose(notify, &why);
}

static void watch_doubts(void *arg, enum kw_doubt cause, const char *why)
{
	struct notify *notify = arg;

	notify->handlers.doubt(notify->handlers.arg, cause, NULL, why);
	want_turn(notify);
}

static void stir(void *arg, enum kw_silent_kind kind)
{
	struct notify *notify = arg;

	kw_refetch_stir(&notify->refetch, kind);
	want_turn(notify);
}

static void functions_changed(void *arg, enum kw_feed_functions what)
{
	struct notify *notify = arg;

	notify->handlers.functions(notify->handlers.arg, what);
}

/* The proof of the flags. */

static bool may_write(void *arg)
{
	struct notify *notify = arg;

	return notify->handlers.may_write(notify->handlers.arg);
}

static void proof_answered(void *arg, const struct kw_reply *reply)
{
	struct notify *notify = arg;

	kw_prover_passed(notify->prover, reply && reply->type != KW_REPLY_ERROR);
}

static void proof_asks_events(void *arg)
{
	struct notify *notify = arg;

	if (notify->events)
		kw_redis_words(notify->events, proof_answered, notify, "PING", NULL);
}

static void flags_lacking(void *arg, kw_flag_classes classes)
{
	struct notify *notify = arg;

	kw_watch_lacks_flags(notify->watch, classes);
}

/* Examinations. */

static void examine(struct kw_feed *feed)
{
	struct notify *notify = notify_of(feed);

	assert(notify->sm.state == RUNNING && notify->examination == EXAM_NONE);
	notify->examination = kw_watch_look(notify->watch) ? EXAM_LOOKING : EXAM_DUE;
}

static bool saw_flush(const struct notify *notify)
{
	const struct kw_watch_flushes untold = kw_watch_flushes(notify->watch);

	return untold.all + untold.one > 0;
}

static void looked(void *arg)
{
	struct notify *notify = arg;

	if (notify->examination == EXAM_DUE && kw_watch_look(notify->watch)) {
		notify->examination = EXAM_LOOKING;
	} else if (notify->examination == EXAM_LOOKING) {
		kw_refetch_mark(&notify->refetch);
		notify->examination = EXAM_TELLING;
	}
	kw_flush_looked(&notify->flush);
	if (notify->flush.late && saw_flush(notify))
		flush_told(notify);
	want_turn(notify);
}

static uint64_t events_heard(void *arg)
{
	return ((const struct notify *)arg)->heard_count;
}

static void tell_examined(struct notify *notify)
{
	if (notify->examination != EXAM_TELLING || !kw_refetch_passed(&notify->refetch))
		return;
	/* What its look saw in the counters must be told before it is over. */
	if (notify->flush.late && kw_flush_under_way(&notify->flush))
		return;
	notify->examination = EXAM_NONE;
	notify->handlers.examined(notify->handlers.arg);
}

/* What the owner asks. */

static void start(struct kw_feed *feed)
{
	struct notify *notify = notify_of(feed);

	kw_sm_move(&notify->sm, STARTING, "");
	kw_watch_begin(notify->watch);
}

static void stop(struct kw_feed *feed)
{
	struct notify *notify = notify_of(feed);

	if (notify->sm.state == STOPPED || notify->sm.state == STOPPING)
		return;
	kw_feed_batch_tell(&notify->batch);
	notify->barrier = BARRIER_NONE;
	notify->examination = EXAM_NONE;
	kw_flush_abandon(&notify->flush);
	kw_refetch_stop(&notify->refetch);
	kw_prover_stop(notify->prover);
	if (notify->events)
		kw_redis_close(notify->events);
	kw_sm_move(&notify->sm, is_closed(notify) ? STOPPED : STOPPING, "");
}

static bool is_stopped(const struct kw_feed *feed)
{
	return const_notify_of(feed)->sm.state == STOPPED;
}

/* It tells no values. */
static void order(struct kw_feed *feed)
{
	assert(false);
}

static void look(struct kw_feed *feed)
{
	struct notify *notify = notify_of(feed);

	if (notify->sm.state != RUNNING)
		return;
	ask_barrier_again(notify);
	kw_watch_look(notify->watch);
	if (notify->options.flags == KW_SOURCE_FLAGS_TRUST)
		kw_prover_look(notify->prover, notify->options.address,
			kw_watch_identity(notify->watch)->run_id, kw_clock_us());
}

static void let_wait(struct kw_feed *feed, bool may)
{
	struct notify *notify = notify_of(feed);

	if (notify->events)
		kw_redis_read_by_timer(notify->events, may);
}

static uint64_t silent_since(const struct kw_feed *feed)
{
	const struct notify *notify = const_notify_of(feed);

	return notify->events ? kw_redis_silent_since(notify->events) : UINT64_MAX;
}

static void turn(struct kw_feed *feed, uint64_t now_us)
{
	struct notify *notify = notify_of(feed);

	kw_feed_batch_tell(&notify->batch);
	if (notify->sm.state == RUNNING) {
		kw_prover_turn(notify->prover);
		kw_flush_turn(&notify->flush, now_us);
		kw_refetch_turn(&notify->refetch, now_us);
		tell_examined(notify);
	}
}

static uint64_t ready_us(const struct kw_feed *feed, uint64_t now_us)
{
	const struct notify *notify = const_notify_of(feed);
	uint64_t refetch_us, flush_us;

	if (notify->sm.state != RUNNING)
		return UINT64_MAX;
	refetch_us = kw_refetch_ready_us(&notify->refetch, now_us);
	flush_us = kw_flush_ready_us(&notify->flush);
	return refetch_us < flush_us ? refetch_us : flush_us;
}

static void stored(struct kw_feed *feed, uint32_t database, struct kw_slice key,
	const struct kw_slice *payload)
{
	struct notify *notify = notify_of(feed);

	kw_silent_note(notify->silent, database, key,
		payload ? kw_silent_classify(*payload) : KW_SILENT_NONE);
	if (payload)
		kw_canary_offer(notify->canaries, database, key);
	else
		kw_canary_gone(notify->canaries, database, key);
}

static void emptied(struct kw_feed *feed, uint32_t database)
{
	struct notify *notify = notify_of(feed);

	kw_silent_forget_database(notify->silent, database);
	kw_canary_forget_database(notify->canaries, database);
}

static const struct kw_server_identity *server(const struct kw_feed *feed)
{
	return kw_watch_identity(const_notify_of(feed)->watch);
}

static uint32_t databases(const struct kw_feed *feed)
{
	return kw_watch_databases(const_notify_of(feed)->watch);
}

static enum kw_feed_flags flags_of(const struct notify *notify, kw_flag_classes proven)
{
	if (notify->options.flags != KW_SOURCE_FLAGS_TRUST)
		return KW_FEED_FLAGS_CHECKED;
	return proven == KW_FLAG_CLASSES_ALL ? KW_FEED_FLAGS_PROVEN : KW_FEED_FLAGS_UNPROVEN;
}

static void stats(const struct kw_feed *feed, struct kw_feed_stats *stats)
{
	const struct notify *notify = const_notify_of(feed);
	kw_flag_classes proven = kw_prover_proven(notify->prover, kw_clock_us());

	*stats = (struct kw_feed_stats){
		.events = notify->event_count + notify->flush.seen,
		.silent_refetches = notify->refetch.keys,
		.silent_due = kw_refetch_due(&notify->refetch),
		.clock_skew_us = kw_watch_skew_us(notify->watch),
		.flags = flags_of(notify, proven),
		.flags_proven = proven,
		.arrived_us = notify->batch.begun_us,
		.feed = KW_SOURCE_FEED_NOTIFICATIONS,
		.feed_why = "",
	};
}

static size_t permissions(const struct kw_feed *feed, const struct kw_wanted **first)
{
	return kw_notify_permissions(const_notify_of(feed)->options.flags, first);
}

static void notify_free(struct kw_feed *feed)
{
	struct notify *notify = notify_of(feed);

	assert(notify->sm.state == STOPPED);
	kw_watch_free(notify->watch);
	kw_prover_free(notify->prover);
	kw_flush_close(&notify->flush);
	kw_canaries_free(notify->canaries);
	kw_refetch_close(&notify->refetch);
	kw_silent_free(notify->silent);
	free(notify);
}

static const struct kw_feed_operations operations = {start, stop, is_stopped, barrier, order, look,
	examine, let_wait, silent_since, turn, ready_us, stored, emptied, server, databases, stats,
	permissions, notify_free};

struct kw_feed *kw_notify_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers)
{
	struct notify *notify = kw_zalloc(sizeof *notify);
	const struct kw_watch_handlers watch = {
		welcome, watch_doubts, stir, functions_changed, looked, events_heard, notify};
	const struct kw_prover_handlers prover = {
		may_write, proof_asks_events, flags_lacking, part_closed, notify};

	assert(options->data && options->scope && options->watch_interval_ms > 0);
	notify->feed.operations = &operations;
	notify->options = *options;
	notify->handlers = *handlers;
	notify->batch.handlers = &notify->handlers;
	notify->greeted = KW_FEED_SAME_SERVER;
	notify->watch = kw_watch_new(options->data, options->flags, &watch);
	notify->prover =
		kw_prover_new(options->loop, &options->redis, options->scope->canary_key, &prover);
	notify->silent = kw_silent_new(options->seed);
	notify->refetch = (struct kw_refetch){
		.silent = notify->silent,
		.scope = options->scope,
		.dirty = notify->handlers.dirty,
		.arg = notify->handlers.arg,
	};
	kw_refetch_init(&notify->refetch, options->data, kw_clock_us());
	notify->canaries = kw_canaries_new();
	notify->flush = (struct kw_flush_check){
		.data = options->data,
		.canaries = notify->canaries,
		.watch = notify->watch,
		.handlers = &notify->handlers,
		.debug_us = (uint64_t)options->watch_interval_ms * 1000 * DEBUG_LOOKS,
		.ask_events = flush_asks_events,
		.ended = flush_ended,
		.arg = notify,
	};
	kw_flush_init(&notify->flush);
	kw_sm_init(&notify->sm, &machine, notify, STOPPED);
	return &notify->feed;
}
