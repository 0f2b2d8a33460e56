/*
 * The link to the primary: the data connection and the feed, opened in order, given up together.
 *
 *   data connection ready ─▶ the feed starts ─▶ the feed is ready: up, only now may a scan begin
 */
#include "source/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"

#include <assert.h>
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
	return !source->lane.redis && kw_feed_is_stopped(source->feed);
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
	kw_fresh_reset(source);
	if (source->lane.redis)
		kw_redis_close(source->lane.redis);
	kw_feed_stop(source->feed);
	kw_source_wake(source);
}

static void lane_failed(void *arg, const struct kw_error *why)
{
	struct kw_source *source = arg;
	struct kw_error error = *why;

	kw_error_wrap(&error, "%s", source->options.redis.address);
	kw_link_fail(source, &error);
}

static void went_up(struct kw_source *source, enum kw_feed_server server)
{
	bool another = server == KW_FEED_ANOTHER_SERVER, again = source->linked;
	const struct kw_server_identity *identity = kw_feed_server(source->feed);

	source->link = KW_LINK_UP;
	source->linked = true;
	if (another)
		kw_source_restarted(source);
	source->up_us = kw_clock_us();
	kw_pace_forget(&source->pace);
	kw_log_info("source", "following %s: %s %d.%d.%d, role %s", source->options.redis.address,
		identity->valkey ? "Valkey" : "Redis", identity->major, identity->minor,
		identity->patch, identity->role);
	if (again)
		kw_source_doubt(source, another ? KW_DOUBT_IDENTITY : KW_DOUBT_CONNECTION, NULL,
			another ? "the server is not the one of before"
				: "the connection was lost, so events were missed");
	else
		kw_sweep_begin(source, KW_SWEEP_FIRST, NULL, "the first scan is under way");
}

void kw_link_ready(struct kw_source *source, enum kw_feed_server server)
{
	const struct kw_server_identity *identity = kw_feed_server(source->feed);

	assert(source->link == KW_LINK_OPENING);
	kw_fetch_set_pexpiretime(source->fetch, identity->valkey || identity->major >= 7);
	kw_fetch_set_databases(source->fetch, kw_feed_databases(source->feed));
	went_up(source, server);
}

void kw_link_feed_lost(struct kw_source *source, const struct kw_error *why)
{
	kw_link_fail(source, why);
}

void kw_link_part_closed(struct kw_source *source)
{
	both_closed(source);
}

/* `why` lies in the connection, which is freed after it was told. */
static void data_closed(void *arg, const struct kw_error *why)
{
	struct kw_source *source = arg;
	struct kw_redis *gone = source->lane.redis;

	source->lane.redis = NULL;
	if (why->code != KW_OK)
		kw_link_fail(source, why);
	kw_redis_free(gone);
	both_closed(source);
}

void kw_link_options(
	const struct kw_source *source, const char *name, struct kw_redis_options *options)
{
	const char *given = source->options.redis.client_name;

	*options = source->options.redis;
	snprintf(options->client_name, sizeof options->client_name, "%.40s-%s",
		given[0] ? given : "keywake-proxy", name);
}

static void data_ready(void *arg)
{
	struct kw_source *source = arg;

	kw_feed_start(source->feed);
}

void kw_link_open(struct kw_source *source)
{
	struct kw_redis_handlers handlers = {
		.ready = data_ready,
		.closed = data_closed,
		.arg = source,
	};
	struct kw_redis_options options;
	struct kw_redis *redis;

	source->link = KW_LINK_OPENING;
	kw_link_options(source, "data", &options);
	if (kw_redis_open(source->loop, &options, &handlers, &redis, &source->down)) {
		source->link = KW_LINK_CLOSING;
		both_closed(source);
		kw_source_wake(source);
		return;
	}
	kw_lane_open(&source->lane, redis);
}

void kw_link_init(struct kw_source *source)
{
	source->lane.failed = lane_failed;
	source->lane.arg = source;
	snprintf(
		source->lane.user, sizeof(source->lane.user), "%s", source->options.redis.username);
}
