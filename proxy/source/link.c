/*
 * The two connections to the server: opened in order, given up together.
 *
 *   data: INFO, CONFIG (watch) ─▶ events: CLIENT ID ─▶ data: CLIENT TRACKING ON REDIRECT id OPTIN
 *     ─▶ events: SUBSCRIBE, PSUBSCRIBE ─▶ both confirmed ─▶ up: only now may a scan begin
 *                            │ no permission
 *                            └─▶ PSUBSCRIBE of the long pattern
 */
#include "source/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "feed/channel.h"
#include "redis/server.h"

#include <stdio.h>

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MOST_MS 5000
#define WELL_AFTER_US 5000000 /* up for so long: the next failure is a new one */

static void retry(uv_timer_t *timer)
{
	kw_link_open(timer->data);
}

/* Doubling from 100 ms to 5 s, each a quarter shorter or longer: proxies do not come in step. */
static uint64_t backoff_ms(struct kw_source *source)
{
	uint64_t ms = BACKOFF_FIRST_MS;

	for (uint32_t i = 0; i < source->attempts && ms < BACKOFF_MOST_MS; i++)
		ms *= 2;
	if (ms > BACKOFF_MOST_MS)
		ms = BACKOFF_MOST_MS;
	source->attempts++;
	return ms * 3 / 4 + kw_clock_us() % (ms / 2);
}

bool kw_link_closed(const struct kw_source *source)
{
	return !source->lane.redis && !source->events;
}

/* Both connections are gone: begin again later, or this was the end. */
static void both_closed(struct kw_source *source)
{
	if (!kw_link_closed(source))
		return;
	source->link = KW_LINK_IDLE;
	if (source->closing)
		kw_source_closed_part(source);
	else
		uv_timer_start(&source->retrying, retry, backoff_ms(source), 0);
}

void kw_link_fail(struct kw_source *source, const struct kw_error *why)
{
	if (source->link == KW_LINK_IDLE || source->link == KW_LINK_CLOSING)
		return;
	if (source->link == KW_LINK_UP && kw_clock_us() - source->up_us > WELL_AFTER_US)
		source->attempts = 0;
	source->link = KW_LINK_CLOSING;
	source->down = *why;
	source->lane.broken = true;
	kw_sweep_stop(source);
	kw_fresh_abandon(source);
	if (source->lane.redis)
		kw_redis_close(source->lane.redis);
	if (source->events)
		kw_redis_close(source->events);
	kw_source_wake(source);
}

static void lane_failed(void *arg, const struct kw_error *why)
{
	struct kw_source *source = arg;
	struct kw_error error = *why;

	kw_error_wrap(&error, "%s", source->options.redis.address);
	kw_link_fail(source, &error);
}

/* An answer on the events connection that ends it all. */
static void events_refused(struct kw_source *source, const char *command, const char *acl,
	const struct kw_reply *reply)
{
	struct kw_error why;

	kw_lane_refusal(&why, source->options.redis.username, command, acl, reply);
	kw_error_wrap(&why, "%s", source->options.redis.address);
	kw_link_fail(source, &why);
}

static void up(struct kw_source *source)
{
	const struct kw_server_identity *server = kw_watch_identity(source->watch);
	enum kw_doubt cause = source->another ? KW_DOUBT_IDENTITY : KW_DOUBT_CONNECTION;
	bool again = source->linked;

	source->link = KW_LINK_UP;
	source->linked = true;
	if (source->another)
		kw_source_restarted(source);
	source->up_us = kw_clock_us();
	kw_pace_forget(&source->pace);
	kw_log_info("source", "following %s: %s %d.%d.%d, role %s", source->options.redis.address,
		server->valkey ? "Valkey" : "Redis", server->major, server->minor, server->patch,
		server->role);
	if (again)
		kw_source_doubt(source, cause, NULL,
			source->another ? "the server is not the one of before"
					: "the connection was lost, so events were missed");
	else
		kw_sweep_begin(source, KW_SWEEP_FIRST, NULL, "the first scan is under way");
	source->another = false;
}

static void subscribed(struct kw_source *source, const char *command, const char *acl,
	const struct kw_reply *reply)
{
	if (!reply || source->link != KW_LINK_OPENING)
		return;
	if (reply->type != KW_REPLY_ARRAY)
		events_refused(source, command, acl, reply);
	else if (--source->confirmations == 0)
		up(source);
}

static void flush_subscribed(void *arg, const struct kw_reply *reply)
{
	subscribed(arg, "SUBSCRIBE", "+subscribe &" KW_CHANNEL_FLUSH, reply);
}

static void events_subscribed(void *arg, const struct kw_reply *reply)
{
	subscribed(arg, "PSUBSCRIBE", "+psubscribe '&" KW_CHANNEL_EVENTS "'", reply);
}

/* The user may have been granted the other pattern only. */
static void short_subscribed(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;

	if (reply && source->link == KW_LINK_OPENING && reply->type == KW_REPLY_ERROR &&
		kw_server_error(reply->text) == KW_SERVER_E_PERMISSION)
		kw_redis_subscribe(
			source->events, true, KW_CHANNEL_EVENTS_LONG, events_subscribed, source);
	else
		events_subscribed(source, reply);
}

static void tracking_on(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;

	reply = kw_lane_reply(&source->lane, reply);
	if (!reply || source->link != KW_LINK_OPENING)
		return;
	if (reply->type != KW_REPLY_STATUS) {
		kw_lane_refused(&source->lane, "CLIENT TRACKING", "+client|tracking", reply);
		return;
	}
	source->confirmations = 2;
	kw_redis_subscribe(source->events, false, KW_CHANNEL_FLUSH, flush_subscribed, source);
	kw_redis_subscribe(source->events, true, KW_CHANNEL_EVENTS, short_subscribed, source);
}

static void events_named(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	char id[24];

	if (!reply || source->link != KW_LINK_OPENING)
		return;
	if (reply->type != KW_REPLY_INTEGER) {
		events_refused(source, "CLIENT ID", "+client|id", reply);
		return;
	}
	snprintf(id, sizeof(id), "%lld", (long long)reply->integer);
	kw_redis_words(source->lane.redis, tracking_on, source, "CLIENT", "TRACKING", "ON",
		"REDIRECT", id, "OPTIN", NULL);
}

static void events_ready(void *arg)
{
	struct kw_source *source = arg;

	kw_redis_words(source->events, events_named, source, "CLIENT", "ID", NULL);
}

/* One of the two is gone. `why` lies in the connection: it is freed when that was told. */
static void connection_closed(
	struct kw_source *source, struct kw_redis **redis, const struct kw_error *why)
{
	struct kw_redis *gone = *redis;

	*redis = NULL;
	if (why->code != KW_OK)
		kw_link_fail(source, why);
	kw_redis_free(gone);
	both_closed(source);
}

static void events_closed(void *arg, const struct kw_error *why)
{
	struct kw_source *source = arg;

	connection_closed(source, &source->events, why);
}

static void data_closed(void *arg, const struct kw_error *why)
{
	struct kw_source *source = arg;

	connection_closed(source, &source->lane.redis, why);
}

static int open_connection(struct kw_source *source, const char *name,
	const struct kw_redis_handlers *handlers, struct kw_redis **redis, struct kw_error *why)
{
	struct kw_redis_options options = source->options.redis;
	const char *given = source->options.redis.client_name;

	snprintf(options.client_name, sizeof(options.client_name), "%.40s-%s",
		given[0] ? given : "keywake-proxy", name);
	options.stream = handlers->push != NULL;
	return kw_redis_open(source->loop, &options, handlers, redis, why);
}

/* watch's first look found nothing against the server. */
static void welcome(void *arg, bool another)
{
	struct kw_source *source = arg;
	const struct kw_server_identity *server = kw_watch_identity(source->watch);
	struct kw_redis_handlers handlers = {
		.ready = events_ready,
		.closed = events_closed,
		.push = kw_source_pushed,
		.arg = source,
	};
	struct kw_error why;

	source->another = source->another || another;
	kw_fetch_set_pexpiretime(source->fetch, server->valkey || server->major >= 7);
	kw_fetch_set_databases(source->fetch, kw_watch_databases(source->watch));
	if (open_connection(source, "events", &handlers, &source->events, &why))
		kw_link_fail(source, &why);
}

static void stirred(void *arg, enum kw_silent_kind kind)
{
	struct kw_source *source = arg;

	kw_silent_stir(source->silent, kind);
	kw_source_want_turn(source);
}

static void watch_doubts(void *arg, enum kw_doubt cause, const char *why)
{
	kw_source_doubt(arg, cause, NULL, why);
}

static void data_ready(void *arg)
{
	struct kw_source *source = arg;

	kw_watch_begin(source->watch);
}

void kw_link_open(struct kw_source *source)
{
	struct kw_redis_handlers handlers = {
		.ready = data_ready,
		.closed = data_closed,
		.arg = source,
	};
	struct kw_redis *redis;

	source->link = KW_LINK_OPENING;
	kw_flush_abandon(source);
	if (open_connection(source, "data", &handlers, &redis, &source->down)) {
		source->link = KW_LINK_CLOSING;
		both_closed(source);
		kw_source_wake(source);
		return;
	}
	kw_lane_open(&source->lane, redis);
}

void kw_link_init(struct kw_source *source)
{
	struct kw_watch_handlers handlers = {welcome, watch_doubts, stirred, source};

	source->lane.failed = lane_failed;
	source->lane.arg = source;
	snprintf(
		source->lane.user, sizeof(source->lane.user), "%s", source->options.redis.username);
	source->watch = kw_watch_new(&source->lane, &handlers);
}
