#include "feed/stream/locator.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sm.h"
#include "feed/stream/replication.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 5000

enum state { IDLE, ASKING, CLOSING };

struct kw_locator {
	struct kw_sm sm;
	uv_loop_t *loop;
	struct kw_redis_options options;
	struct kw_redis *redis; /* NULL: IDLE */
	char word[KW_REPLICATION_LOCATOR];
	uint64_t next_us; /* the earliest next question; UINT64_MAX: it was refused */
	bool refusal_logged;
	void (*closed)(void *arg);
	void *arg;
};

static bool holds(const void *owner, int state)
{
	const struct kw_locator *locator = owner;

	return (state == IDLE) == !locator->redis;
}

static const struct kw_sm_state states[] = {
	[IDLE] = {"idle", KW_SM_TO(ASKING), KW_SM_INITIAL},
	[ASKING] = {"asking", KW_SM_TO(CLOSING)},
	[CLOSING] = {"closing", KW_SM_TO(IDLE)},
};

static const struct kw_sm_conf machine = {"locator", states, CLOSING + 1, holds};

static void end(struct kw_locator *locator, const char *why)
{
	kw_sm_move(&locator->sm, CLOSING, why);
	kw_redis_close(locator->redis);
}

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_locator *locator = arg;

	if (!reply || locator->sm.state != ASKING)
		return;
	if (reply->type == KW_REPLY_ERROR &&
		kw_server_error(reply->text) == KW_SERVER_E_PERMISSION) {
		locator->next_us = UINT64_MAX;
		if (!locator->refusal_logged)
			kw_log_info("source",
				"PUBLISH is refused, so each changed key is fetched from all "
				"databases "
				"until the primary writes in another one than now: grant +publish "
				"&" KW_REPLICATION_CHANNEL);
		locator->refusal_logged = true;
	}
	end(locator, "answered");
}

static void on_ready(void *arg)
{
	struct kw_locator *locator = arg;

	if (locator->sm.state == ASKING)
		kw_redis_words(locator->redis, answered, locator, "PUBLISH", KW_REPLICATION_CHANNEL,
			locator->word, NULL);
}

/* A deadline too: it is asked again when another key of an unknown database changes. */
static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_locator *locator = arg;
	struct kw_redis *gone = locator->redis;

	if (locator->sm.state == ASKING) {
		kw_log_debug("source", "PUBLISH was not answered: %s", why->text);
		kw_sm_move(&locator->sm, CLOSING, "lost");
	}
	locator->redis = NULL;
	kw_redis_free(gone);
	kw_sm_move(&locator->sm, IDLE, "");
	locator->closed(locator->arg);
}

void kw_locator_ask(struct kw_locator *locator, const char *address, const char *word)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .arg = locator};
	uint64_t now_us = kw_clock_us();
	struct kw_error why;

	if (locator->sm.state != IDLE || now_us < locator->next_us)
		return;
	locator->next_us = now_us + KW_LOCATOR_PAUSE_US;
	snprintf(locator->options.address, sizeof locator->options.address, "%s", address);
	snprintf(locator->word, sizeof locator->word, "%s", word);
	if (kw_redis_open(locator->loop, &locator->options, &handlers, &locator->redis, &why)) {
		locator->redis = NULL;
		kw_log_debug("source", "PUBLISH was not asked: %s", why.text);
		return;
	}
	kw_sm_move(&locator->sm, ASKING, "");
}

void kw_locator_stop(struct kw_locator *locator)
{
	locator->next_us = 0;
	if (locator->sm.state == ASKING)
		end(locator, "asked to stop");
}

bool kw_locator_is_idle(const struct kw_locator *locator)
{
	return locator->sm.state == IDLE;
}

struct kw_locator *kw_locator_new(uv_loop_t *loop, const struct kw_redis_options *options,
	void (*closed)(void *arg), void *arg)
{
	struct kw_locator *locator = kw_zalloc(sizeof *locator);
	char *end;

	locator->loop = loop;
	locator->options = *options;
	locator->options.stream = false;
	locator->options.reply_timeout_ms = ANSWER_MS;
	end = strrchr(locator->options.client_name, '-');
	if (end)
		snprintf(end,
			sizeof locator->options.client_name -
				(size_t)(end - locator->options.client_name),
			"-locator");
	locator->closed = closed;
	locator->arg = arg;
	kw_sm_init(&locator->sm, &machine, locator, IDLE);
	return locator;
}

void kw_locator_free(struct kw_locator *locator)
{
	if (!locator)
		return;
	assert(locator->sm.state == IDLE);
	free(locator);
}
