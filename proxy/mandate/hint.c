#include "mandate/hint.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define RETRY_US UINT64_C(10000000)
#define REFRESH_US UINT64_C(10000000)
#define QUOTE_BYTES 160

enum { IDLE, OPENING, SUBSCRIBING, LISTENING, CLOSING };

static bool holds(const void *owner, int state)
{
	const struct kw_hint *hint = owner;

	return (state == IDLE) == !hint->redis;
}

static const struct kw_sm_state states[] = {
	[IDLE] = {"idle", KW_SM_TO(OPENING), KW_SM_INITIAL},
	[OPENING] = {"opening", KW_SM_TO(SUBSCRIBING) | KW_SM_TO(CLOSING) | KW_SM_TO(IDLE)},
	[SUBSCRIBING] = {"subscribing", KW_SM_TO(LISTENING) | KW_SM_TO(CLOSING) | KW_SM_TO(IDLE)},
	[LISTENING] = {"listening", KW_SM_TO(CLOSING) | KW_SM_TO(IDLE)},
	[CLOSING] = {"closing", KW_SM_TO(IDLE)},
};

static const struct kw_sm_conf machine = {"hint", states, CLOSING + 1, holds};

void kw_hint_init(struct kw_hint *hint)
{
	assert(hint->loop && hint->heard && hint->closed);
	kw_sm_init(&hint->sm, &machine, hint, IDLE);
}

bool kw_hint_is_idle(const struct kw_hint *hint)
{
	return hint->sm.state == IDLE;
}

bool kw_hint_is_listening(const struct kw_hint *hint)
{
	return hint->sm.state == LISTENING;
}

bool kw_hint_is_due(const struct kw_hint *hint, uint64_t now_us)
{
	return hint->sm.state == IDLE &&
	       (hint->opened_us == 0 || now_us - hint->opened_us >= RETRY_US);
}

/* No more than a note: nothing depends on a hint. */
static void set_why(struct kw_hint *hint, const char *why)
{
	if (strcmp(hint->why, why) != 0 && *why)
		kw_log_info("sentinel", "no hints of failovers, they are found by asking: %s", why);
	snprintf(hint->why, sizeof hint->why, "%s", why);
}

void kw_hint_close(struct kw_hint *hint)
{
	if (hint->sm.state == IDLE || hint->sm.state == CLOSING)
		return;
	kw_sm_move(&hint->sm, CLOSING, "");
	kw_redis_close(hint->redis);
}

static void refused(struct kw_hint *hint, const struct kw_reply *reply)
{
	int length = reply->text.length < QUOTE_BYTES ? (int)reply->text.length : QUOTE_BYTES;
	char why[KW_ERROR_TEXT];
	bool permission = reply->type == KW_REPLY_ERROR &&
			  kw_server_error(reply->text) == KW_SERVER_E_PERMISSION;

	snprintf(why, sizeof why, "%s refused SUBSCRIBE: %.*s%s", hint->address, length,
		(const char *)reply->text.data,
		permission ? "; allow it there: ACL SETUSER ... +subscribe &" KW_HINT_CHANNEL : "");
	set_why(hint, why);
	kw_hint_close(hint);
}

static void on_subscribed(void *arg, const struct kw_reply *reply)
{
	struct kw_hint *hint = arg;

	if (!reply || (hint->sm.state != SUBSCRIBING && hint->sm.state != LISTENING))
		return;
	if (reply->type != KW_REPLY_ARRAY) {
		refused(hint, reply);
	} else if (hint->sm.state == SUBSCRIBING) {
		kw_sm_move(&hint->sm, LISTENING, "");
		set_why(hint, "");
	}
}

static void subscribe(struct kw_hint *hint)
{
	hint->subscribed_us = kw_clock_us();
	kw_redis_subscribe(hint->redis, false, KW_HINT_CHANNEL, on_subscribed, hint);
}

static void on_ready(void *arg)
{
	struct kw_hint *hint = arg;

	if (hint->sm.state != OPENING)
		return;
	kw_sm_move(&hint->sm, SUBSCRIBING, "");
	subscribe(hint);
}

static void on_message(void *arg, const struct kw_reply *message)
{
	struct kw_hint *hint = arg;
	uint64_t now_us = kw_clock_us();

	(void)message; /* whatever it says, the sentinels are asked */
	if (hint->sm.state != LISTENING || now_us - hint->heard_us < KW_HINT_PACE_US)
		return;
	hint->heard_us = now_us;
	hint->count++;
	hint->heard(hint->arg);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_hint *hint = arg;
	struct kw_redis *gone = hint->redis;

	if (why->code != KW_OK)
		set_why(hint, why->text);
	hint->redis = NULL;
	kw_sm_move(&hint->sm, IDLE, why->text);
	kw_redis_free(gone); /* and `why` with it */
	hint->closed(hint->arg);
}

void kw_hint_open(struct kw_hint *hint, const struct kw_redis_options *options, uint64_t now_us)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .push = on_message, .arg = hint};
	struct kw_error why;

	assert(hint->sm.state == IDLE);
	hint->opened_us = now_us;
	snprintf(hint->address, sizeof hint->address, "%s", options->address);
	if (kw_redis_open(hint->loop, options, &handlers, &hint->redis, &why))
		set_why(hint, why.text);
	else
		kw_sm_move(&hint->sm, OPENING, "");
}

void kw_hint_refresh(struct kw_hint *hint, uint64_t now_us)
{
	if (hint->sm.state == LISTENING && now_us - hint->subscribed_us >= REFRESH_US)
		subscribe(hint);
}
