/* A connection's life on the loop: its states, handles, sockets, deadlines, and its end. */
#include "redis/connection.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * After this process was stopped, there is so long to read bytes that already came, before a
 * timeout.
 */
#define GRACE_US 1000000

/* Rounds of NULLs at the end; more means that NULLs are answered with commands, for ever. */
#define DRAIN_ROUNDS 16

/* The loop's handles except the link's: two timers, the turn, and what a thread sends. */
#define OWN_HANDLES 4

static void on_timer(uv_timer_t *timer);

/* Its states. */

static bool holds(const void *owner, int state)
{
	const struct kw_redis *redis = owner;

	switch ((enum kw_redis_state)state) {
	case KW_REDIS_OPENING:
		/* AUTH and SETNAME are the first of what is queued, and their replies are pending.
		 */
		return !redis->link && !redis->lookup && redis->pending.count > 0 &&
		       redis->login_bytes > 0 && redis->login_bytes <= redis->output.bytes &&
		       redis->handles == OWN_HANDLES;
	case KW_REDIS_CONNECTING:
		return !redis->link && !redis->lookup && redis->target == 0;
	case KW_REDIS_LOGIN:
		return redis->link && !redis->lookup && redis->pending.count > 0 &&
		       redis->login_bytes > 0;
	case KW_REDIS_READY:
		return redis->link && !redis->lookup && redis->handles > OWN_HANDLES;
	case KW_REDIS_CLOSING:
		return !redis->link && !redis->lookup && redis->output.bytes == 0 &&
		       redis->handles >= OWN_HANDLES;
	case KW_REDIS_CLOSED:
		return !redis->link && redis->handles == 0 && redis->pending.count == 0;
	}
	return false;
}

static const struct kw_sm_state states[] = {
	[KW_REDIS_OPENING] = {"opening", KW_SM_TO(KW_REDIS_CONNECTING) | KW_SM_TO(KW_REDIS_CLOSING),
		KW_SM_INITIAL},
	[KW_REDIS_CONNECTING] = {"connecting",
		KW_SM_TO(KW_REDIS_LOGIN) | KW_SM_TO(KW_REDIS_CLOSING)},
	[KW_REDIS_LOGIN] = {"login", KW_SM_TO(KW_REDIS_READY) | KW_SM_TO(KW_REDIS_CLOSING)},
	[KW_REDIS_READY] = {"ready", KW_SM_TO(KW_REDIS_CLOSING)},
	[KW_REDIS_CLOSING] = {"closing", KW_SM_TO(KW_REDIS_CLOSED)},
	[KW_REDIS_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

const struct kw_sm_conf kw_redis_machine = {"redis", states, KW_REDIS_CLOSED + 1, holds};

void kw_redis_init_handles(struct kw_redis *redis)
{
	uv_timer_init(redis->loop, &redis->timer);
	uv_idle_init(redis->loop, &redis->turn);
	uv_timer_init(redis->loop, &redis->read_timer);
	uv_async_init(redis->loop, &redis->drained, kw_redis_drained);
	redis->drained.data = redis;
	redis->timer.data = redis;
	redis->read_timer.data = redis;
	redis->turn.data = redis;
	redis->handles = OWN_HANDLES;
}

/* The end. */

static void drain(struct kw_redis *redis)
{
	for (int round = 0; redis->pending.count > 0; round++) {
		assert(round < DRAIN_ROUNDS);
		for (size_t left = redis->pending.count; left > 0; left--) {
			struct kw_pending command = kw_pending_pop(&redis->pending);

			if (command.fn)
				command.fn(command.arg, NULL);
		}
	}
}

static void handle_closed(struct kw_redis *redis)
{
	assert(redis->handles > 0);
	redis->handles--;
	if (redis->handles > 0)
		return;
	assert(redis->sm.state == KW_REDIS_CLOSING);
	drain(redis);
	kw_sm_move(&redis->sm, KW_REDIS_CLOSED, "");
	if (redis->handlers.closed)
		redis->handlers.closed(redis->handlers.arg, &redis->why);
	/* The connection may be freed now. */
}

static void own_handle_closed(uv_handle_t *handle)
{
	handle_closed(handle->data);
}

static void link_closed(uv_handle_t *handle)
{
	struct kw_redis_link *link = handle->data;
	struct kw_redis *redis = link->redis;

	free(link);
	handle_closed(redis);
}

void kw_redis_fail(struct kw_redis *redis, const struct kw_error *why)
{
	if (kw_redis_is_over(redis))
		return;
	redis->why = *why;
	kw_redis_name_stranger(redis, &redis->why);
	if (why->code != KW_OK)
		kw_error_wrap(&redis->why, "%s", redis->place);
	kw_redis_connect_abandon(redis);
	kw_redis_link_drop(redis);
	kw_output_close(&redis->output);
	kw_sm_move(&redis->sm, KW_REDIS_CLOSING,
		why->code == KW_OK ? "asked to close" : redis->why.text);
	uv_close((uv_handle_t *)&redis->timer, own_handle_closed);
	uv_close((uv_handle_t *)&redis->turn, own_handle_closed);
	uv_close((uv_handle_t *)&redis->read_timer, own_handle_closed);
	uv_close((uv_handle_t *)&redis->drained, own_handle_closed);
}

void kw_redis_failf(struct kw_redis *redis, enum kw_code code, const char *format, ...)
{
	struct kw_error why = {.code = code};
	va_list args;

	va_start(args, format);
	vsnprintf(why.text, sizeof why.text, format, args);
	va_end(args);
	kw_redis_fail(redis, &why);
}

/* Sockets. */

void kw_redis_link_open(struct kw_redis *redis, struct kw_redis_stream *stream, int events)
{
	struct kw_redis_link *link = kw_zalloc(sizeof *link);
	int result = uv_poll_init(redis->loop, &link->poll, stream->fd);

	assert(!redis->link);
	if (result < 0) {
		free(link);
		kw_redis_stream_close(stream);
		kw_redis_failf(redis, KW_E_IO, "watch a new socket: %s", uv_strerror(result));
		return;
	}
	link->redis = redis;
	link->stream = *stream;
	link->poll.data = link;
	redis->link = link;
	redis->handles++;
	kw_redis_watch(link, events);
}

void kw_redis_link_drop(struct kw_redis *redis)
{
	struct kw_redis_link *link = redis->link;

	if (!link)
		return;
	redis->link = NULL;
	/* uv_close takes the descriptor out of the loop at once: after it, it may be closed. */
	uv_close((uv_handle_t *)&link->poll, link_closed);
	kw_redis_stream_close(&link->stream);
}

void kw_redis_connected(struct kw_redis *redis)
{
	kw_sm_move(&redis->sm, KW_REDIS_LOGIN, redis->targets[redis->target].name);
	redis->moved_us = kw_clock_us();
	kw_redis_arm(redis, redis->ready_until_us);
	kw_redis_watch(redis->link, kw_redis_events(redis, KW_REDIS_STREAM_READ));
	/* The first replies, or a refusal, can have come with the end of a handshake. */
	if (kw_redis_stream_pending(&redis->link->stream))
		kw_redis_wake(redis);
	kw_redis_write(redis);
}

void kw_redis_logged_in(struct kw_redis *redis)
{
	kw_sm_move(&redis->sm, KW_REDIS_READY, "");
	if (redis->raw)
		redis->input_kind = KW_REDIS_RAW;
	kw_redis_arm(redis, kw_clock_us() + (uint64_t)redis->reply_timeout_ms * 1000);
	kw_redis_wake(redis);
	if (redis->handlers.ready)
		redis->handlers.ready(redis->handlers.arg);
}

/* Deadlines. */

void kw_redis_arm(struct kw_redis *redis, uint64_t until_us)
{
	uint64_t now = kw_clock_us();
	uint64_t ms = until_us > now ? (until_us - now + 999) / 1000 : 0;

	redis->timer_until_us = until_us;
	uv_timer_start(&redis->timer, on_timer, ms, 0);
}

static void check_replies(struct kw_redis *redis, uint64_t now)
{
	uint64_t timeout_us = (uint64_t)redis->reply_timeout_ms * 1000;

	if (redis->pending.count == 0)
		kw_redis_arm(redis, now + timeout_us);
	else if (now < redis->moved_us + timeout_us)
		kw_redis_arm(redis, redis->moved_us + timeout_us);
	else if (kw_redis_stream_has_input(&redis->link->stream))
		kw_redis_arm(redis, now + GRACE_US); /* this process was stopped, not the server */
	else
		kw_redis_failf(redis, KW_E_TIMEOUT,
			"no byte for %u ms while %zu replies are pending: the server hangs or the "
			"network is gone",
			redis->reply_timeout_ms, redis->pending.count);
}

static void check_attempt(struct kw_redis *redis)
{
	if (redis->lookup) {
		kw_redis_failf(redis, KW_E_TIMEOUT,
			"resolve %s: no answer within %u ms (see /etc/resolv.conf)",
			redis->address.host, redis->connect_timeout_ms);
		return;
	}
	kw_redis_connect_late(redis);
}

static void on_timer(uv_timer_t *timer)
{
	struct kw_redis *redis = timer->data;
	uint64_t now = kw_clock_us();

	/* Within a turn the loop's clock can be older than ours: then the timer fires early. */
	if (now < redis->timer_until_us) {
		kw_redis_arm(redis, redis->timer_until_us);
		return;
	}
	if (redis->sm.state == KW_REDIS_CONNECTING)
		check_attempt(redis);
	else if (redis->sm.state == KW_REDIS_LOGIN)
		kw_redis_failf(redis, KW_E_TIMEOUT,
			"connected, but no reply within %u ms: the server hangs, or this is none",
			redis->connect_timeout_ms);
	else if (redis->sm.state == KW_REDIS_READY)
		check_replies(redis, now);
}
