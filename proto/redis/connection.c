/* A connection's life on the loop: handles, sockets, deadlines, and its end. */
#include "redis/connection.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <assert.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* After a stop of this process, bytes that already came get so long to be read before a timeout. */
#define GRACE_US 1000000

/* Rounds of NULLs at the end; more means that NULLs are answered with commands, for ever. */
#define DRAIN_ROUNDS 16

static void on_timer(uv_timer_t *timer);

void kw_redis_init_handles(struct kw_redis *redis)
{
	uv_timer_init(redis->loop, &redis->timer);
	uv_idle_init(redis->loop, &redis->turn);
	uv_timer_init(redis->loop, &redis->look);
	redis->timer.data = redis;
	redis->look.data = redis;
	redis->turn.data = redis;
	redis->handles = 3;
}

/* The end. */

static void drain(struct kw_redis *redis)
{
	for (int round = 0; redis->owed.count > 0; round++) {
		assert(round < DRAIN_ROUNDS);
		for (size_t left = redis->owed.count; left > 0; left--) {
			struct kw_owed owed = kw_owed_pop(&redis->owed);

			if (owed.fn)
				owed.fn(owed.arg, NULL);
		}
	}
}

static void handle_closed(struct kw_redis *redis)
{
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
	if (why->code != KW_OK)
		kw_error_wrap(&redis->why, "%s", redis->place);
	kw_sm_move(&redis->sm, KW_REDIS_CLOSING,
		why->code == KW_OK ? "asked to close" : redis->why.text);
	kw_redis_connect_abandon(redis);
	kw_redis_link_drop(redis);
	kw_output_close(&redis->output);
	uv_close((uv_handle_t *)&redis->timer, own_handle_closed);
	uv_close((uv_handle_t *)&redis->turn, own_handle_closed);
	uv_close((uv_handle_t *)&redis->look, own_handle_closed);
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

void kw_redis_link_open(struct kw_redis *redis, int fd, int events)
{
	struct kw_redis_link *link = kw_zalloc(sizeof *link);
	int result = uv_poll_init(redis->loop, &link->poll, fd);

	if (result < 0) {
		free(link);
		close(fd);
		kw_redis_failf(redis, KW_E_IO, "watch a new socket: %s", uv_strerror(result));
		return;
	}
	link->redis = redis;
	link->fd = fd;
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
	/* uv_close takes the descriptor out of the loop at once: it may be closed behind it. */
	uv_close((uv_handle_t *)&link->poll, link_closed);
	close(link->fd);
}

void kw_redis_connected(struct kw_redis *redis)
{
	kw_sm_move(&redis->sm, KW_REDIS_GREETING, redis->targets[redis->target].name);
	redis->heard_us = kw_clock_us();
	kw_redis_arm(redis, redis->ready_until_us);
	kw_redis_watch(redis->link, UV_READABLE);
	kw_redis_write(redis);
}

void kw_redis_greeted(struct kw_redis *redis)
{
	kw_sm_move(&redis->sm, KW_REDIS_READY, "");
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

static bool has_input(const struct kw_redis *redis)
{
	struct pollfd poll_fd = {.fd = redis->link->fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) > 0;
}

static void check_replies(struct kw_redis *redis, uint64_t now)
{
	uint64_t timeout_us = (uint64_t)redis->reply_timeout_ms * 1000;

	if (redis->owed.count == 0)
		kw_redis_arm(redis, now + timeout_us);
	else if (now < redis->heard_us + timeout_us)
		kw_redis_arm(redis, redis->heard_us + timeout_us);
	else if (has_input(redis))
		kw_redis_arm(
			redis, now + GRACE_US); /* it was we who were stopped, not the server */
	else
		kw_redis_failf(redis, KW_E_TIMEOUT,
			"no byte for %u ms while %zu replies are owed: the server hangs or the "
			"network is gone",
			redis->reply_timeout_ms, redis->owed.count);
}

static void check_attempt(struct kw_redis *redis)
{
	if (redis->lookup) {
		kw_redis_failf(redis, KW_E_TIMEOUT,
			"resolve %s: no answer within %u ms (see /etc/resolv.conf)",
			redis->address.host, redis->connect_timeout_ms);
		return;
	}
	kw_error_set(&redis->attempt, KW_E_TIMEOUT, "connect to %s: no answer in time (%u ms)",
		redis->targets[redis->target].name, redis->connect_timeout_ms);
	kw_redis_connect_next(redis);
}

static void on_timer(uv_timer_t *timer)
{
	struct kw_redis *redis = timer->data;
	uint64_t now = kw_clock_us();

	/* The loop's clock may run behind ours within a turn: then the timer comes early. */
	if (now < redis->timer_until_us) {
		kw_redis_arm(redis, redis->timer_until_us);
		return;
	}
	if (redis->sm.state == KW_REDIS_CONNECTING)
		check_attempt(redis);
	else if (redis->sm.state == KW_REDIS_GREETING)
		kw_redis_failf(redis, KW_E_TIMEOUT,
			"connected, but not greeted back within %u ms: the server hangs, or this "
			"is none",
			redis->connect_timeout_ms);
	else if (redis->sm.state == KW_REDIS_READY)
		check_replies(redis, now);
}
