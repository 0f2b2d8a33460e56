/* What passes on a connection: replies to their functions, bytes in and out. */
#include "base/clock.h"
#include "redis/connection.h"
#include "redis/server.h"

#include <assert.h>
#include <poll.h>

/* What one readable event may take before other handles get their turn (looked at per read). */
#define EVENT_BYTES ((size_t)1024 * 1024)
#define EVENT_REPLIES 4096

/* What one loop turn writes at most, however fast the server reads; and the vectors of a write. */
#define TURN_BYTES ((size_t)4 * 1024 * 1024)
#define VECTORS 64

/* As much of an unexpected reply as a sentence quotes. */
#define QUOTE_BYTES 100

/* The first byte of a record of TLS with an alert (RFC 8446, 5.1); no reply begins with it. */
#define TLS_ALERT 0x15

static void on_turn(uv_idle_t *turn);
static void on_poll(uv_poll_t *poll, int status, int events);

/*
 * Idle handles run before the loop blocks, and an active one keeps it from blocking. So commands
 * queued by any kind of callback are sent without waiting for an event.
 */
void kw_redis_wake(struct kw_redis *redis)
{
	if (!kw_redis_is_over(redis) && !uv_is_active((uv_handle_t *)&redis->turn))
		uv_idle_start(&redis->turn, on_turn);
}

void kw_redis_watch(struct kw_redis_link *link, int events)
{
	if (link->events == events)
		return;
	link->events = events;
	if (events)
		uv_poll_start(&link->poll, events, on_poll);
	else
		uv_poll_stop(&link->poll);
}

int kw_redis_events(const struct kw_redis *redis, enum kw_redis_stream_work work)
{
	short wants = kw_redis_stream_wants(&redis->link->stream, work);

	return (wants & POLLIN ? UV_READABLE : 0) | (wants & POLLOUT ? UV_WRITABLE : 0);
}

void kw_redis_rewatch(struct kw_redis *redis)
{
	int events = 0;

	if (redis->reading != KW_REDIS_READ_PACED && !redis->held)
		events |= kw_redis_events(redis, KW_REDIS_STREAM_READ);
	if (redis->writing == KW_REDIS_WRITE_BLOCKED)
		events |= kw_redis_events(redis, KW_REDIS_STREAM_WRITE);
	kw_redis_watch(redis->link, events);
}

/* Replies. */

static bool is_word(const struct kw_reply *reply, const char *word)
{
	return reply->type == KW_REPLY_STRING && kw_slice_equal(reply->text, kw_slice_text(word));
}

static bool is_message(const struct kw_reply *reply)
{
	if (reply->type != KW_REPLY_ARRAY || reply->count < 3)
		return false;
	return is_word(&reply->elements[0], "message") ||
	       is_word(&reply->elements[0], "pmessage") || is_word(&reply->elements[0], "smessage");
}

static bool is_confirmation(const struct kw_reply *reply)
{
	if (reply->type != KW_REPLY_ARRAY || reply->count < 3)
		return false;
	return is_word(&reply->elements[0], "subscribe") ||
	       is_word(&reply->elements[0], "psubscribe");
}

static bool unexpected(struct kw_redis *redis, const struct kw_reply *reply)
{
	const struct kw_reply *shown = reply->count > 0 ? &reply->elements[0] : reply;
	int length = shown->text.length < QUOTE_BYTES ? (int)shown->text.length : QUOTE_BYTES;

	kw_redis_failf(redis, KW_E_PROTOCOL,
		"a reply that nothing asked for (\"%.*s\"): is this connection shared?", length,
		shown->text.data ? (const char *)shown->text.data : "");
	return false;
}

/* The next reply is that of the oldest command; or a message, which can come at any time. */
static void bound_next(struct kw_redis *redis)
{
	enum kw_bound bound = KW_BOUND_UNASKED;

	if (redis->sm.state == KW_REDIS_LOGIN)
		bound = KW_BOUND_LOGIN;
	else if (redis->input_kind == KW_REDIS_MESSAGES)
		bound = KW_BOUND_MESSAGE;
	else if (redis->pending.count > 0)
		bound = kw_pending_first(&redis->pending)->bound;
	kw_reply_reader_bound(redis->reader, kw_bound(bound));
}

static bool is_denial(const struct kw_redis *redis, const struct kw_reply *reply)
{
	return redis->handlers.denied && reply->type == KW_REPLY_ERROR &&
	       redis->sm.state == KW_REDIS_READY &&
	       kw_server_error(reply->text) == KW_SERVER_E_PERMISSION;
}

bool kw_redis_take(void *arg, const struct kw_reply *reply)
{
	struct kw_redis *redis = arg;
	struct kw_pending command;

	redis->event_replies++;
	if (redis->input_kind == KW_REDIS_MESSAGES && is_message(reply)) {
		if (!redis->handlers.push)
			return unexpected(redis, reply);
		redis->handlers.push(redis->handlers.arg, reply);
		return !kw_redis_is_over(redis);
	}
	if (redis->pending.count == 0)
		return unexpected(redis, reply);
	command = kw_pending_pop(&redis->pending);
	if (command.kind == KW_PENDING_SUBSCRIPTION && is_confirmation(reply))
		redis->input_kind = KW_REDIS_MESSAGES;
	if (is_denial(redis, reply))
		redis->handlers.denied(redis->handlers.arg);
	if (command.fn)
		command.fn(command.arg, reply);
	redis->heard_secret |=
		command.kind == KW_PENDING_SECRET || command.bound == KW_BOUND_CONFIG_GET;
	bound_next(redis);
	return !kw_redis_is_over(redis);
}

/* Bytes. */

/* A server that speaks TLS ends a plain connection at once, or sends an alert. */
static bool may_want_tls(const struct kw_redis *redis)
{
	return redis->sm.state == KW_REDIS_LOGIN && redis->heard == 0 &&
	       redis->address.scheme == KW_REDIS_TCP;
}

static void ended(struct kw_redis *redis)
{
	if (may_want_tls(redis))
		kw_redis_failf(redis, KW_E_IO,
			"the server closed the connection at once: see its log; if this port "
			"speaks TLS, use rediss://");
	else if (redis->sm.state == KW_REDIS_LOGIN)
		kw_redis_failf(redis, KW_E_IO,
			"the server closed the connection without a reply: see its log");
	else if (redis->input_kind == KW_REDIS_STREAM)
		kw_redis_failf(redis, KW_E_IO,
			"the server closed the stream (a restart, CLIENT KILL, a change of its "
			"role, or client-output-buffer-limit: see its log)");
	else
		kw_redis_failf(redis, KW_E_IO,
			"the server closed the connection, %zu replies were pending "
			"(a restart, CLIENT KILL, or client-output-buffer-limit: see its log)",
			redis->pending.count);
}

static int feed(struct kw_redis *redis, size_t length, struct kw_error *error)
{
	if (redis->input_kind == KW_REDIS_STREAM) {
		redis->stream_fn(redis->stream_arg, kw_slice(redis->input, length));
		return KW_OK;
	}
	if (redis->input_kind == KW_REDIS_RAW)
		return kw_raw_reader_feed(redis->raw, redis->input, length, error);
	bound_next(redis);
	return kw_reply_reader_feed(redis->reader, redis->input, length, error);
}

/* All of the input is taken: what is left of a reply with a password is of no use to anybody. */
static void wipe_secret(struct kw_redis *redis)
{
	if (!redis->heard_secret)
		return;
	explicit_bzero(redis->input, sizeof redis->input);
	kw_reply_reader_wipe(redis->reader);
	redis->heard_secret = false;
}

static void read_failed(struct kw_redis *redis, const struct kw_error *error)
{
	if (may_want_tls(redis))
		kw_redis_failf(redis, error->code,
			"%s, before any reply: if this port speaks TLS, use rediss://",
			error->text);
	else
		kw_redis_fail(redis, error);
}

static bool is_alert(const struct kw_redis *redis)
{
	return may_want_tls(redis) && redis->input[0] == TLS_ALERT;
}

/* One read and its replies. False: enough for this event. */
static bool read_once(struct kw_redis *redis, size_t *total)
{
	enum kw_redis_stream_result result;
	struct kw_error error;
	size_t length;

	result = kw_redis_stream_read(
		&redis->link->stream, redis->input, sizeof redis->input, &length, &error);
	switch (result) {
	case KW_REDIS_STREAM_MORE:
	case KW_REDIS_STREAM_DONE:
		break;
	case KW_REDIS_STREAM_AGAIN:
		/* If writing failed, no more is left that says why. */
		if (redis->writing == KW_REDIS_WRITE_FAILED)
			kw_redis_fail(redis, &redis->write_why);
		return false;
	case KW_REDIS_STREAM_ENDED:
		ended(redis);
		return false;
	case KW_REDIS_STREAM_FAILED:
		read_failed(redis, &error);
		return false;
	}
	if (is_alert(redis)) {
		kw_redis_failf(redis, KW_E_IO, "this port speaks TLS: use rediss://");
		return false;
	}
	*total += length;
	redis->heard += length;
	redis->moved_us = redis->silent_us = kw_clock_us();
	if (feed(redis, length, &error) != 0)
		kw_redis_fail(redis, &error);
	wipe_secret(redis);
	return result == KW_REDIS_STREAM_MORE || redis->writing == KW_REDIS_WRITE_FAILED;
}

/* Bytes that the stream has taken from the socket: no poll tells of them. */
static bool holds_more(const struct kw_redis *redis)
{
	return (redis->sm.state == KW_REDIS_LOGIN || redis->sm.state == KW_REDIS_READY) &&
	       !redis->held && kw_redis_stream_pending(&redis->link->stream);
}

void kw_redis_read(struct kw_redis *redis)
{
	size_t total = 0;

	redis->event_replies = 0;
	while (!kw_redis_is_over(redis) && !redis->held && read_once(redis, &total)) {
		if (total < EVENT_BYTES && redis->event_replies < EVENT_REPLIES)
			continue;
		if (redis->writing == KW_REDIS_WRITE_FAILED || holds_more(redis))
			kw_redis_wake(redis);
		break;
	}
	kw_redis_pace_reads(redis, total);
}

/* Write up to limit bytes. False: the socket takes no more now, or the connection is over. */
static bool write_once(struct kw_redis *redis, size_t limit, size_t *written)
{
	struct iovec vectors[VECTORS];
	int count = kw_output_gather(&redis->output, vectors, VECTORS, limit);
	enum kw_redis_stream_result result;
	size_t length;

	result = kw_redis_stream_write(
		&redis->link->stream, vectors, count, &length, &redis->write_why);
	if (result == KW_REDIS_STREAM_FAILED)
		redis->writing = KW_REDIS_WRITE_FAILED;
	if (length == 0)
		return false;
	kw_output_consume(&redis->output, length);
	redis->written += length;
	*written += length;
	redis->moved_us = kw_clock_us();
	return result == KW_REDIS_STREAM_MORE;
}

void kw_redis_write(struct kw_redis *redis)
{
	bool login = redis->sm.state == KW_REDIS_LOGIN;
	size_t most = login ? redis->login_bytes : redis->output.bytes;
	size_t written = 0;

	if ((!login && redis->sm.state != KW_REDIS_READY) || redis->writing != KW_REDIS_WRITE_OPEN)
		return;
	while (written < most && written < TURN_BYTES) {
		size_t left = most - written;

		if (left > TURN_BYTES - written)
			left = TURN_BYTES - written;
		if (!write_once(redis, left, &written))
			break;
	}
	assert(written <= most);
	if (login)
		redis->login_bytes -= written;
	if (redis->writing == KW_REDIS_WRITE_FAILED) {
		/* A caller can be on the stack, so the loop handles it later. */
		kw_redis_wake(redis);
		return;
	}
	if (written < most)
		redis->writing = KW_REDIS_WRITE_BLOCKED;
	kw_redis_rewatch(redis);
}

static void on_turn(uv_idle_t *turn)
{
	struct kw_redis *redis = turn->data;

	uv_idle_stop(turn);
	if (redis->sm.state == KW_REDIS_OPENING) {
		kw_redis_connect(redis);
		return;
	}
	kw_redis_write(redis);
	if (redis->writing != KW_REDIS_WRITE_FAILED && !holds_more(redis))
		return;
	kw_redis_read(redis);
	if (!kw_redis_is_over(redis))
		kw_redis_rewatch(redis);
}

void kw_redis_drained(uv_async_t *async)
{
	struct kw_redis *redis = async->data;

	if (kw_redis_is_over(redis) || redis->held)
		return;
	kw_redis_read(redis);
	if (!kw_redis_is_over(redis))
		kw_redis_rewatch(redis);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_redis_link *link = poll->data;
	struct kw_redis *redis = link->redis;

	if (status < 0) {
		/* libuv stopped the handle: POLLERR. Reading tells which error, after what came
		 * before. */
		link->events = 0;
	}
	if (redis->sm.state == KW_REDIS_CONNECTING) {
		kw_redis_connect_event(redis);
		return;
	}
	if (events & kw_redis_events(redis, KW_REDIS_STREAM_WRITE)) {
		if (redis->writing == KW_REDIS_WRITE_BLOCKED)
			redis->writing = KW_REDIS_WRITE_OPEN;
		kw_redis_write(redis);
	}
	if (status < 0 || (events & kw_redis_events(redis, KW_REDIS_STREAM_READ)) ||
		redis->writing == KW_REDIS_WRITE_FAILED)
		kw_redis_read(redis);
	if (!kw_redis_is_over(redis))
		kw_redis_rewatch(redis);
}
