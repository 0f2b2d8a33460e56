/* What passes on a connection: replies to their functions, bytes in and out. */
#include "base/clock.h"
#include "redis/connection.h"

#include <errno.h>
#include <unistd.h>

/* What one readable event may take before other handles get their turn (looked at per read). */
#define EVENT_BYTES ((size_t)1024 * 1024)
#define EVENT_REPLIES 4096

/* What one loop turn writes at most, however fast the server drinks; and the vectors of a write. */
#define TURN_BYTES ((size_t)4 * 1024 * 1024)
#define VECTORS 64

/* As much of an unexpected reply as a sentence quotes. */
#define QUOTE_BYTES 100

static void on_turn(uv_idle_t *turn);
static void on_poll(uv_poll_t *poll, int status, int events);

/*
 * Idle handles run before the loop blocks, and an active one keeps it from blocking: whatever is
 * queued from whichever kind of callback leaves without waiting for an event.
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

void kw_redis_rewatch(struct kw_redis *redis)
{
	kw_redis_watch(redis->link,
		(redis->lulled ? 0 : UV_READABLE) | (redis->write_blocked ? UV_WRITABLE : 0));
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

bool kw_redis_take(void *arg, const struct kw_reply *reply)
{
	struct kw_redis *redis = arg;
	struct kw_owed owed;

	redis->event_replies++;
	if (redis->pubsub && is_message(reply)) {
		if (!redis->handlers.push)
			return unexpected(redis, reply);
		redis->handlers.push(redis->handlers.arg, reply);
		return !kw_redis_is_over(redis);
	}
	if (redis->owed.count == 0)
		return unexpected(redis, reply);
	owed = kw_owed_pop(&redis->owed);
	if (owed.subscribes && is_confirmation(reply))
		redis->pubsub = true;
	if (owed.fn)
		owed.fn(owed.arg, reply);
	return !kw_redis_is_over(redis);
}

/* Bytes. */

static void ended(struct kw_redis *redis)
{
	if (redis->sm.state == KW_REDIS_GREETING)
		kw_redis_failf(redis, KW_E_IO,
			"the server closed the connection without a greeting: see its log");
	else
		kw_redis_failf(redis, KW_E_IO,
			"the server closed the connection, %zu replies were owed "
			"(a restart, CLIENT KILL, or client-output-buffer-limit: see its log)",
			redis->owed.count);
}

static void lost(struct kw_redis *redis, const char *what, int errnum)
{
	struct kw_error why;

	kw_error_errno(&why, errnum, "%s", what);
	kw_redis_fail(redis, &why);
}

/* Nothing more to read now. Had writing failed, there is nothing more to learn either. */
static void input_empty(struct kw_redis *redis)
{
	if (redis->write_errno)
		lost(redis, "write", redis->write_errno);
}

/* One read and its replies. False: enough for this event. */
static bool read_once(struct kw_redis *redis, size_t *total)
{
	struct kw_error error;
	ssize_t length = read(redis->link->fd, redis->input, sizeof redis->input);

	if (length < 0 && errno == EINTR)
		return true;
	if (length <= 0) {
		if (length == 0)
			ended(redis);
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			input_empty(redis);
		else
			lost(redis, "read", errno);
		return false;
	}
	*total += (size_t)length;
	redis->heard_us = kw_clock_us();
	if (kw_reply_reader_feed(redis->reader, redis->input, (size_t)length, &error) != 0)
		kw_redis_fail(redis, &error);
	/* A short read emptied the socket; the poll is level-triggered and will tell of more. */
	return (size_t)length == sizeof redis->input || redis->write_errno;
}

void kw_redis_read(struct kw_redis *redis)
{
	size_t total = 0;

	redis->event_replies = 0;
	while (!kw_redis_is_over(redis) && read_once(redis, &total)) {
		if (total < EVENT_BYTES && redis->event_replies < EVENT_REPLIES)
			continue;
		if (redis->write_errno)
			kw_redis_wake(redis);
		break;
	}
	kw_redis_judge_input(redis, total);
}

/* Write up to limit bytes. False: the socket takes no more for now. */
static bool write_once(struct kw_redis *redis, size_t limit, size_t *written)
{
	struct iovec vectors[VECTORS];
	struct msghdr message = {.msg_iov = vectors};
	size_t asked = 0;
	ssize_t length;

	message.msg_iovlen = (size_t)kw_output_gather(&redis->output, vectors, VECTORS, limit);
	for (size_t i = 0; i < message.msg_iovlen; i++)
		asked += vectors[i].iov_len;
	length = sendmsg(redis->link->fd, &message, MSG_NOSIGNAL);
	if (length < 0 && errno == EINTR)
		return true;
	if (length < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			redis->write_errno = errno;
		return false;
	}
	kw_output_consume(&redis->output, (size_t)length);
	*written += (size_t)length;
	redis->heard_us = kw_clock_us();
	return (size_t)length == asked;
}

void kw_redis_write(struct kw_redis *redis)
{
	bool greeting = redis->sm.state == KW_REDIS_GREETING;
	size_t most = greeting ? redis->greeting_bytes : redis->output.bytes;
	size_t written = 0;

	if ((!greeting && redis->sm.state != KW_REDIS_READY) || redis->write_errno ||
		redis->write_blocked)
		return;
	while (written < most && written < TURN_BYTES) {
		size_t left = most - written;

		if (left > TURN_BYTES - written)
			left = TURN_BYTES - written;
		if (!write_once(redis, left, &written))
			break;
	}
	if (greeting)
		redis->greeting_bytes -= written;
	if (redis->write_errno) {
		/* Callers may stand on the stack: the loop looks at it. */
		kw_redis_wake(redis);
		return;
	}
	redis->write_blocked = written < most;
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
	if (redis->write_errno)
		kw_redis_read(redis);
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
	if (events & UV_WRITABLE) {
		redis->write_blocked = false;
		kw_redis_write(redis);
	}
	if (status < 0 || (events & UV_READABLE) || redis->write_errno)
		kw_redis_read(redis);
	if (!kw_redis_is_over(redis))
		kw_redis_rewatch(redis);
}
