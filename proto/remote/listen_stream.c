#include "remote/listen_stream.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/exchange.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS 16      /* connections taken in one turn */
#define STARVED_MS 1000 /* until the next try after descriptors ran out */
#define PATIENCE_US (KW_JOINING_PATIENCE_MS * UINT64_C(1000))
#define SENTENCE (KW_ERROR_TEXT + KW_ADDRESS_TEXT + KW_PEER_TEXT + 8)

/* A connection that has not proved itself yet. */
struct kw_joining {
	struct kw_stream *stream;
	struct kw_joining *next, *previous;
	int fd; /* -1: handed on */
	uint64_t since_us;
	uv_poll_t poll;
	uv_timer_t deadline;
	int handles; /* not yet closed */
	struct kw_exchange exchange;
	struct kw_arrival arrival;
};

#define TO(state) KW_SM_TO(KW_STREAM_##state)
static const struct kw_sm_state states[] = {
	[KW_STREAM_OPEN] = {"open", TO(FULL) | TO(STARVED) | TO(CLOSING), KW_SM_INITIAL},
	[KW_STREAM_FULL] = {"full", TO(OPEN) | TO(CLOSING)},
	[KW_STREAM_STARVED] = {"starved", TO(OPEN) | TO(CLOSING)},
	[KW_STREAM_CLOSING] = {"closing", 0, KW_SM_FINAL},
};

static bool stream_holds(const void *owner, int state)
{
	const struct kw_stream *stream = owner;

	if (stream->joining_count > KW_JOININGS_MAX ||
		(stream->joining_count == 0) != (stream->joinings == NULL))
		return false;
	return state != KW_STREAM_FULL || stream->joining_count == KW_JOININGS_MAX;
}

static const struct kw_sm_conf machine = {
	.where = "stream listener",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = stream_holds,
};

static bool is(const struct kw_stream *stream, enum kw_stream_state state)
{
	return stream->sm.state == (int)state;
}

static void reopen(struct kw_stream *stream);

static struct kw_server *server_of(const struct kw_stream *stream)
{
	return stream->listener->server;
}

static void handle_closed(struct kw_stream *stream)
{
	struct kw_listener *listener = stream->listener;

	assert(stream->handles > 0);
	if (--stream->handles > 0)
		return;
	stream->ops->closed(stream);
	free(stream);
	kw_listener_closed(listener);
}

/* ---- joinings ---- */

static void on_joining_closed(uv_handle_t *handle)
{
	struct kw_joining *joining = handle->data;
	struct kw_stream *stream = joining->stream;

	assert(joining->handles > 0);
	if (--joining->handles == 0)
		free(joining);
	handle_closed(stream);
}

/* Out of the list, its handles on their way; the descriptor is closed unless handed on. */
static void joining_end(struct kw_joining *joining)
{
	struct kw_stream *stream = joining->stream;

	if (joining->previous)
		joining->previous->next = joining->next;
	else
		stream->joinings = joining->next;
	if (joining->next)
		joining->next->previous = joining->previous;
	uv_poll_stop(&joining->poll);
	uv_close((uv_handle_t *)&joining->poll, on_joining_closed);
	uv_close((uv_handle_t *)&joining->deadline, on_joining_closed);
	if (joining->fd >= 0)
		close(joining->fd);
	joining->fd = -1;
	assert(stream->joining_count > 0);
	stream->joining_count--;
	if (is(stream, KW_STREAM_FULL))
		reopen(stream);
}

static void reject(struct kw_stream *stream, const char *peer, const struct kw_error *error)
{
	char listener[KW_ADDRESS_TEXT], why[SENTENCE];

	kw_address_text(&stream->listener->address, listener, sizeof listener);
	snprintf(why, sizeof why, "%s: %s: %s", listener, peer, error->text);
	kw_server_rejected(server_of(stream), why);
}

static void joining_failed(struct kw_joining *joining, const struct kw_error *error)
{
	reject(joining->stream, joining->arrival.peer, error);
	joining_end(joining);
}

static void joining_welcomed(struct kw_joining *joining)
{
	struct kw_stream *stream = joining->stream;
	struct kw_session *session = kw_session_new(
		stream->listener, &joining->exchange.handshake, joining->arrival.peer);
	struct kw_error error;
	int fd = joining->fd;

	/* The loop must have let go of the descriptor before another handle can poll it. */
	joining->fd = -1;
	joining_end(joining);
	if (stream->ops->adopt(session, fd, &error) == 0) {
		kw_session_joined(session);
		return;
	}
	reject(stream, session->peer, &error);
	close(fd);
	free(session);
}

static void on_joining_poll(uv_poll_t *poll, int status, int events);

static void joining_step(struct kw_joining *joining)
{
	struct kw_error error = {0};

	for (;;) {
		switch (kw_exchange_step(&joining->exchange, joining->fd, &error)) {
		case KW_EXCHANGE_READ:
			uv_poll_start(&joining->poll, UV_READABLE, on_joining_poll);
			return;
		case KW_EXCHANGE_WRITE:
			uv_poll_start(&joining->poll, UV_WRITABLE, on_joining_poll);
			return;
		case KW_EXCHANGE_DECIDE: /* once: what follows is DONE or FAILED */
			kw_server_admit(server_of(joining->stream), &joining->exchange.handshake);
			continue;
		case KW_EXCHANGE_DONE:
			joining_welcomed(joining);
			return;
		case KW_EXCHANGE_FAILED:
			joining_failed(joining, &error);
			return;
		}
	}
}

static void on_joining_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_joining *joining = poll->data;
	struct kw_error error;

	(void)events;
	if (status < 0) {
		kw_error_errno(&error, -status, "handshake: connection lost");
		joining_failed(joining, &error);
		return;
	}
	joining_step(joining);
}

/* Has the agent sent its name? */
static bool is_silent(const struct kw_joining *joining)
{
	return kw_handshake_is(&joining->exchange.handshake, KW_HANDSHAKE_HELLO_WAIT);
}

/* The first deadline is that of HELLO, the second that of the whole handshake. */
static void on_joining_deadline(uv_timer_t *timer)
{
	struct kw_joining *joining = timer->data;
	struct kw_server *server = server_of(joining->stream);
	const uint64_t whole_ms = kw_server_handshake_timeout_ms(server);
	const uint64_t age_ms = (kw_clock_us() - joining->since_us) / 1000;
	const bool silent = is_silent(joining);
	struct kw_error error;

	if (!silent && age_ms < whole_ms) {
		uv_timer_start(timer, on_joining_deadline, whole_ms - age_ms, 0);
		return;
	}
	kw_error_set(&error, KW_E_TIMEOUT, "handshake: deadline of %u ms passed",
		silent ? kw_server_hello_timeout_ms(server) : (uint32_t)whole_ms);
	joining_failed(joining, &error);
}

/* Fails when the kernel can watch no more: fs.epoll.max_user_watches, or its memory. */
static int watch(uv_loop_t *loop, uv_poll_t *poll, int fd, struct kw_error *error)
{
	int status = uv_poll_init(loop, poll, fd);

	if (status == 0)
		return 0;
	return kw_error_errno(error, -status, "a socket cannot be watched");
}

static void joining_new(struct kw_stream *stream, int fd)
{
	struct kw_server *server = server_of(stream);
	struct kw_joining *joining = kw_zalloc(sizeof *joining);
	struct kw_error error;
	int code;

	code = stream->ops->accepted(stream, fd, &joining->arrival, &error);
	if (code == 0)
		code = kw_server_challenge(
			server, &joining->exchange.handshake, &joining->arrival, &error);
	if (code == 0)
		code = watch(kw_server_loop(server), &joining->poll, fd, &error);
	if (code != 0) {
		reject(stream, joining->arrival.peer, &error);
		close(fd);
		free(joining);
		return;
	}
	joining->stream = stream;
	joining->fd = fd;
	joining->exchange.give_fd = stream->ops->give_fd(server);
	joining->exchange.taken_fd = -1;
	uv_timer_init(kw_server_loop(server), &joining->deadline);
	joining->poll.data = joining->deadline.data = joining;
	joining->handles = 2;
	stream->handles += 2;
	joining->next = stream->joinings;
	if (stream->joinings)
		stream->joinings->previous = joining;
	stream->joinings = joining;
	stream->joining_count++;
	joining->since_us = kw_clock_us();
	uv_timer_start(
		&joining->deadline, on_joining_deadline, kw_server_hello_timeout_ms(server), 0);
	uv_poll_start(&joining->poll, UV_READABLE, on_joining_poll);
}

/* ---- accepting ---- */

static void on_connection(uv_poll_t *poll, int status, int events);

static void on_retry(uv_timer_t *timer)
{
	reopen(timer->data);
}

static void reopen(struct kw_stream *stream)
{
	kw_sm_move(&stream->sm, KW_STREAM_OPEN, "");
	uv_timer_stop(&stream->retry);
	uv_poll_start(&stream->poll, UV_READABLE, on_connection);
}

static void rest(
	struct kw_stream *stream, enum kw_stream_state state, uint64_t ms, const char *reason)
{
	kw_sm_move(&stream->sm, (int)state, reason);
	uv_poll_stop(&stream->poll);
	uv_timer_start(&stream->retry, on_retry, ms, 0);
}

/* The oldest that has sent nothing, or else the oldest of all. */
static struct kw_joining *choose_victim(const struct kw_stream *stream)
{
	struct kw_joining *oldest = NULL, *silent = NULL;

	for (struct kw_joining *at = stream->joinings; at; at = at->next) {
		oldest = at;
		if (is_silent(at))
			silent = at;
	}
	return silent ? silent : oldest;
}

/* A place for one more. False: not yet, connections wait. */
static bool make_room(struct kw_stream *stream)
{
	uint64_t now_us = kw_clock_us(), age_us;
	struct kw_joining *victim;
	struct kw_error error;

	if (stream->joining_count < KW_JOININGS_MAX)
		return true;
	victim = choose_victim(stream);
	assert(victim && now_us >= victim->since_us);
	age_us = now_us - victim->since_us;
	if (age_us < PATIENCE_US) {
		rest(stream, KW_STREAM_FULL, (PATIENCE_US - age_us + 999) / 1000,
			"every handshake is young");
		return false;
	}
	kw_error_set(&error, KW_E_TIMEOUT,
		"handshake: gave way to a newer one after %" PRIu64 " ms, as %d were under way",
		age_us / 1000, KW_JOININGS_MAX);
	joining_failed(victim, &error);
	return true;
}

/* The connection stays in the kernel's queue; to ask again at once would spin. */
static void starve(struct kw_stream *stream, int errnum)
{
	struct kw_error error;

	kw_error_errno(
		&error, errnum, "accept (raise LimitNOFILE; trying again every %d ms)", STARVED_MS);
	reject(stream, "a connection", &error);
	rest(stream, KW_STREAM_STARVED, STARVED_MS, error.text);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct kw_stream *stream = poll->data;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPTS && is(stream, KW_STREAM_OPEN); i++) {
		int fd;

		/*
		 * Only for the first one do we know that a connection waits: then another gives
		 * way.
		 */
		if (i > 0 && stream->joining_count >= KW_JOININGS_MAX)
			return;
		if (!make_room(stream))
			return;
		fd = accept4(stream->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			joining_new(stream, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			starve(stream, errno);
		/* Anything else: the end of the queue, or a connection that ended in it. */
		return;
	}
}

struct kw_stream *kw_stream_new(struct kw_listener *listener, const struct kw_stream_ops *ops,
	int fd, struct kw_error *error)
{
	struct kw_stream *stream = kw_zalloc(sizeof *stream);
	uv_loop_t *loop = kw_server_loop(listener->server);

	if (watch(loop, &stream->poll, fd, error) != 0) {
		free(stream);
		return NULL;
	}

	stream->listener = listener;
	stream->ops = ops;
	stream->fd = fd;
	listener->own = stream;
	uv_timer_init(loop, &stream->retry);
	stream->poll.data = stream->retry.data = stream;
	stream->handles = 2;
	kw_sm_init(&stream->sm, &machine, stream, KW_STREAM_OPEN);
	uv_poll_start(&stream->poll, UV_READABLE, on_connection);
	return stream;
}

static void on_stream_closed(uv_handle_t *handle)
{
	handle_closed(handle->data);
}

/* Tell the peers that are still in the handshake, if their socket takes it at once. */
static void turn_away(struct kw_joining *joining)
{
	struct kw_handshake *handshake = &joining->exchange.handshake;
	struct kw_error error;

	if (handshake->sm.state < KW_HANDSHAKE_PROVED) {
		(void)kw_handshake_refuse(handshake, KW_REFUSE_SHUTDOWN, 0);
		(void)kw_exchange_step(&joining->exchange, joining->fd, &error);
	}
	joining_end(joining);
}

void kw_stream_close(struct kw_listener *listener)
{
	struct kw_stream *stream = listener->own;

	assert(!is(stream, KW_STREAM_CLOSING));
	kw_sm_move(&stream->sm, KW_STREAM_CLOSING, "");
	while (stream->joinings)
		turn_away(stream->joinings);
	uv_poll_stop(&stream->poll);
	close(stream->fd);
	uv_close((uv_handle_t *)&stream->poll, on_stream_closed);
	uv_close((uv_handle_t *)&stream->retry, on_stream_closed);
}
