#include "source/link.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MOST_MS 5000
#define WELL_AFTER_US 5000000 /* up for so long: the next failure is a new one */

static bool nothing_open(const struct kw_source_link *link)
{
	return !link->data.redis && (!link->feed || kw_feed_is_stopped(link->feed));
}

static bool holds(const void *owner, int state)
{
	const struct kw_source_link *link = owner;

	switch (state) {
	case KW_SOURCE_LINK_IDLE:
	case KW_SOURCE_LINK_ENDED:
		return nothing_open(link);
	case KW_SOURCE_LINK_OPENING:
		return link->feed && nothing_open(link);
	case KW_SOURCE_LINK_UP:
		return link->data.redis && !kw_data_is_broken(&link->data) &&
		       !kw_feed_is_stopped(link->feed);
	case KW_SOURCE_LINK_CLOSING:
		return kw_data_is_broken(&link->data) && link->down.code != KW_OK;
	default:
		return kw_data_is_broken(&link->data);
	}
}

static const struct kw_sm_state states[] = {
	[KW_SOURCE_LINK_IDLE] = {"idle",
		KW_SM_TO(KW_SOURCE_LINK_OPENING) | KW_SM_TO(KW_SOURCE_LINK_ENDING), KW_SM_INITIAL},
	[KW_SOURCE_LINK_OPENING] = {"opening", KW_SM_TO(KW_SOURCE_LINK_UP) |
						       KW_SM_TO(KW_SOURCE_LINK_CLOSING) |
						       KW_SM_TO(KW_SOURCE_LINK_ENDING)},
	[KW_SOURCE_LINK_UP] = {"up",
		KW_SM_TO(KW_SOURCE_LINK_CLOSING) | KW_SM_TO(KW_SOURCE_LINK_ENDING)},
	[KW_SOURCE_LINK_CLOSING] = {"closing",
		KW_SM_TO(KW_SOURCE_LINK_IDLE) | KW_SM_TO(KW_SOURCE_LINK_ENDING), KW_SM_FAILURE},
	[KW_SOURCE_LINK_ENDING] = {"ending", KW_SM_TO(KW_SOURCE_LINK_ENDED)},
	[KW_SOURCE_LINK_ENDED] = {"ended", 0, KW_SM_FINAL},
};

static const struct kw_sm_conf machine = {"link", states, KW_SOURCE_LINK_ENDED + 1, holds};

/*
 * Doubling from 100 ms to 5 s, each a quarter shorter or longer, so that proxies do not retry in
 * step.
 */
static uint64_t backoff_ms(struct kw_source_link *link)
{
	uint64_t ms = BACKOFF_FIRST_MS;

	for (uint32_t i = 0; i < link->attempts && ms < BACKOFF_MOST_MS; i++)
		ms *= 2;
	if (ms > BACKOFF_MOST_MS)
		ms = BACKOFF_MOST_MS;
	link->attempts++;
	return ms * 3 / 4 + kw_clock_us() % (ms / 2);
}

static void on_retry(uv_timer_t *timer)
{
	kw_source_link_open(timer->data);
}

static void timer_closed(uv_handle_t *handle)
{
	struct kw_source_link *link = handle->data;

	kw_sm_move(&link->sm, KW_SOURCE_LINK_ENDED, "");
	link->handlers.ended(link->handlers.arg);
}

/* One of the two is gone. After both: begin again later, or this was the end. */
static void part_closed(struct kw_source_link *link)
{
	if (!nothing_open(link))
		return;
	if (link->sm.state == KW_SOURCE_LINK_ENDING) {
		uv_close((uv_handle_t *)&link->retry, timer_closed);
		return;
	}
	kw_sm_move(&link->sm, KW_SOURCE_LINK_IDLE, "");
	uv_timer_start(&link->retry, on_retry, backoff_ms(link), 0);
}

static void give_up(struct kw_source_link *link, enum kw_source_link_state state, const char *why)
{
	if (kw_source_link_is_up(link) && kw_clock_us() - link->up_us > WELL_AFTER_US)
		link->attempts = 0;
	link->data.state = KW_DATA_BROKEN;
	kw_sm_move(&link->sm, state, why);
	link->handlers.down(link->handlers.arg);
	if (link->data.redis)
		kw_redis_close(link->data.redis);
	if (link->feed)
		kw_feed_stop(link->feed);
}

void kw_source_link_lost(struct kw_source_link *link, const struct kw_error *why)
{
	assert(why->code != KW_OK);
	if (link->sm.state != KW_SOURCE_LINK_OPENING && link->sm.state != KW_SOURCE_LINK_UP)
		return;
	link->down = *why;
	give_up(link, KW_SOURCE_LINK_CLOSING, why->text);
}

/* The data connection is of no use any more. */
static void data_failed(void *arg, const struct kw_error *why)
{
	struct kw_source_link *link = arg;
	struct kw_error error = *why;

	kw_error_wrap(&error, "%s", link->options->address);
	kw_source_link_lost(link, &error);
}

void kw_source_link_ready(struct kw_source_link *link, enum kw_feed_server server)
{
	kw_sm_move(&link->sm, KW_SOURCE_LINK_UP, "");
	link->handlers.up(link->handlers.arg, server);
	link->ups++;
	link->up_us = kw_clock_us();
}

void kw_source_link_feed_stopped(struct kw_source_link *link)
{
	part_closed(link);
}

static void data_ready(void *arg)
{
	struct kw_source_link *link = arg;

	if (link->sm.state != KW_SOURCE_LINK_OPENING)
		return;
	link->permissions.count = kw_feed_permissions(link->feed, &link->permissions.wanted);
	kw_wanted_begin(&link->permissions);
}

static void permission_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source_link *link = arg;

	link->permission_fn(&link->permissions, kw_data_reply(&link->data, reply));
}

static void send_permission(
	void *arg, kw_reply_fn fn, void *fn_arg, int argc, const struct kw_slice *argv)
{
	struct kw_source_link *link = arg;

	assert(fn_arg == &link->permissions);
	(void)fn_arg;
	link->permission_fn = fn;
	kw_data_send(&link->data, permission_answered, link, argc, argv);
}

/* Nothing is asked of a server before all that is lacking can be said at once. */
static void permissions_known(void *arg)
{
	struct kw_source_link *link = arg;
	struct kw_error why;

	if (link->sm.state != KW_SOURCE_LINK_OPENING)
		return;
	if (kw_wanted_any_lacks(&link->permissions)) {
		kw_wanted_sentence(&link->permissions, &why);
		kw_data_fail(&link->data, why.code, "%s", why.text);
	} else {
		kw_feed_start(link->feed);
	}
}

/* `why` lies in the connection, which is freed after it was told. */
static void data_closed(void *arg, const struct kw_error *why)
{
	struct kw_source_link *link = arg;
	struct kw_redis *gone = link->data.redis;

	assert(gone);
	if (why->code != KW_OK)
		kw_source_link_lost(link, why);
	kw_data_closed(&link->data);
	link->data.redis = NULL;
	kw_redis_free(gone);
	part_closed(link);
}

void kw_source_link_options(
	const struct kw_redis_options *common, const char *name, struct kw_redis_options *options)
{
	*options = *common;
	snprintf(options->client_name, sizeof options->client_name, "%.40s-%s",
		common->client_name[0] ? common->client_name : "keywake-proxy", name);
}

void kw_source_link_open(struct kw_source_link *link)
{
	struct kw_redis_handlers handlers = {
		.ready = data_ready,
		.closed = data_closed,
		.arg = link,
	};
	struct kw_redis_options options;
	struct kw_redis *redis;
	struct kw_error why;

	if (!link->options->address[0])
		return; /* nobody has told yet where the primary is */
	kw_sm_move(&link->sm, KW_SOURCE_LINK_OPENING, "");
	kw_source_link_options(link->options, "data", &options);
	if (kw_redis_open(link->loop, &options, &handlers, &redis, &why)) {
		kw_source_link_lost(link, &why);
		part_closed(link);
		return;
	}
	kw_data_open(&link->data, redis);
}

void kw_source_link_moved(struct kw_source_link *link, const struct kw_error *why)
{
	link->attempts = 0;
	if (link->sm.state == KW_SOURCE_LINK_IDLE) {
		uv_timer_stop(&link->retry);
		kw_source_link_open(link);
	} else {
		kw_source_link_lost(link, why);
	}
}

void kw_source_link_init(struct kw_source_link *link, uv_loop_t *loop,
	const struct kw_redis_options *options, const struct kw_source_link_handlers *handlers)
{
	*link = (struct kw_source_link){.loop = loop, .options = options, .handlers = *handlers};
	link->data.failed = data_failed;
	link->data.arg = link;
	link->permissions = (struct kw_wanted_check){
		.user = link->data.user,
		.send = send_permission,
		.done = permissions_known,
		.arg = link,
	};
	snprintf(link->data.user, sizeof link->data.user, "%s", options->username);
	uv_timer_init(loop, &link->retry);
	link->retry.data = link;
	kw_sm_init(&link->sm, &machine, link, KW_SOURCE_LINK_IDLE);
}

enum kw_reach kw_source_link_reach(const struct kw_source_link *link)
{
	if (kw_source_link_is_up(link))
		return KW_REACH_UP;
	if (link->down.code == KW_E_REFUSED || link->down.code == KW_E_CONFIG)
		return KW_REACH_REFUSED;
	return link->down.code == KW_OK ? KW_REACH_UNTRIED : KW_REACH_DOWN;
}

void kw_source_link_close(struct kw_source_link *link)
{
	uv_timer_stop(&link->retry);
	give_up(link, KW_SOURCE_LINK_ENDING, "asked to close");
	part_closed(link);
}
