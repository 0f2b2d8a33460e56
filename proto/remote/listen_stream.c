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
#define SHAKES 8        /* steps of TLS handshakes in one turn: each can sign with a key */
#define STARVED_MS 1000 /* until the next try after descriptors ran out */
#define SENTENCE (KW_ERROR_TEXT + KW_ADDRESS_TEXT + KW_PEER_TEXT + 8)

/* A connection that has not proved itself yet. */
struct kw_joining {
	struct kw_stream *stream;
	struct kw_slot slot;
	struct kw_wire wire; /* not open: handed on */
	uint64_t since_us;
	uv_poll_t poll;
	uv_timer_t deadline;
	int handles;   /* not yet closed */
	bool greeting; /* the wire is open, and the handshake goes on */
	struct kw_exchange exchange;
	struct kw_arrival arrival;
};

#define TO(state) KW_SM_TO(KW_STREAM_##state)
static const struct kw_sm_state states[] = {
	[KW_STREAM_OPEN] = {"open", TO(STARVED) | TO(CLOSING), KW_SM_INITIAL},
	[KW_STREAM_STARVED] = {"starved", TO(OPEN) | TO(CLOSING)},
	[KW_STREAM_CLOSING] = {"closing", 0, KW_SM_FINAL},
};

static bool stream_holds(const void *owner, int state)
{
	const struct kw_stream *stream = owner;

	(void)state;
	return stream->slots.count <= KW_SLOTS_MAX &&
	       (stream->slots.count == 0) == (stream->slots.oldest == NULL);
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

static struct kw_server *server_of(const struct kw_stream *stream)
{
	return stream->listener->server;
}

static struct kw_joining *joining_of(struct kw_slot *slot)
{
	return (struct kw_joining *)((char *)slot - offsetof(struct kw_joining, slot));
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

/* It leaves its slot, its handles on their way; the descriptor is closed unless handed on. */
static void joining_end(struct kw_joining *joining)
{
	struct kw_stream *stream = joining->stream;

	kw_slots_leave(&stream->slots, &joining->slot);
	uv_poll_stop(&joining->poll);
	uv_close((uv_handle_t *)&joining->poll, on_joining_closed);
	uv_close((uv_handle_t *)&joining->deadline, on_joining_closed);
	kw_wire_close(&joining->wire);
	kw_tls_peer_free(joining->arrival.certificate);
	joining->arrival.certificate = NULL;
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
	reject(joining->stream, joining->arrival.origin.text, error);
	joining_end(joining);
}

static void joining_welcomed(struct kw_joining *joining)
{
	struct kw_stream *stream = joining->stream;
	struct kw_session *session = kw_session_new(
		stream->listener, &joining->exchange.handshake, &joining->arrival.origin);
	struct kw_error error;
	struct kw_wire wire = joining->wire;

	session->certificate = joining->arrival.certificate;
	if (session->certificate)
		session->judged_by = kw_tls_context_ref(joining->arrival.judged_by);
	joining->arrival.certificate = NULL;
	/* The loop must have let go of the descriptor before another handle can poll it. */
	joining->wire.fd = -1;
	joining_end(joining);
	if (stream->ops->adopt(session, wire, &error) == 0) {
		kw_session_joined(session);
		return;
	}
	reject(stream, session->origin.text, &error);
	kw_wire_close(&wire);
	kw_session_free(session);
}

static void on_joining_poll(uv_poll_t *poll, int status, int events);

/* The rest waits for the next turn: the socket stays as it is, so it is polled again. */
static bool shakes_enough(struct kw_stream *stream)
{
	uint64_t now_ms = uv_now(kw_server_loop(server_of(stream)));

	if (now_ms != stream->turn_ms) {
		stream->turn_ms = now_ms;
		stream->turn_steps = 0;
	}
	return stream->turn_steps++ >= SHAKES;
}

/* The wire is open. */
static int begin(struct kw_joining *joining, struct kw_error *error)
{
	const struct kw_stream *stream = joining->stream;
	struct kw_handshake *handshake = &joining->exchange.handshake;
	int code = 0;

	if (stream->ops->opened)
		code = stream->ops->opened(stream, &joining->wire, &joining->arrival, error);
	if (code != 0)
		return code;
	kw_handshake_set_channel(handshake, &joining->arrival.channel);
	if (*joining->arrival.principal)
		kw_handshake_set_certificate(handshake, joining->arrival.principal);
	joining->greeting = true;
	return 0;
}

/* True: it is open. */
static bool open_wire(struct kw_joining *joining)
{
	struct kw_error error = {0};

	if (joining->greeting)
		return true;
	if (joining->stream->ops->wire && shakes_enough(joining->stream))
		return false;
	switch (kw_wire_shake(&joining->wire, &error)) {
	case KW_WIRE_READ:
		uv_poll_start(&joining->poll, UV_READABLE, on_joining_poll);
		return false;
	case KW_WIRE_WRITE:
		uv_poll_start(&joining->poll, UV_WRITABLE, on_joining_poll);
		return false;
	case KW_WIRE_OPEN:
		if (begin(joining, &error) == 0)
			return true;
		break;
	case KW_WIRE_FAILED:
		break;
	}
	joining_failed(joining, &error);
	return false;
}

static void joining_step(struct kw_joining *joining)
{
	struct kw_error error = {0};

	if (!open_wire(joining))
		return;
	for (;;) {
		switch (kw_exchange_step(&joining->exchange, &joining->wire, &error)) {
		case KW_EXCHANGE_READ:
			uv_poll_start(&joining->poll, UV_READABLE, on_joining_poll);
			return;
		case KW_EXCHANGE_WRITE:
			uv_poll_start(&joining->poll, UV_WRITABLE, on_joining_poll);
			return;
		case KW_EXCHANGE_DECIDE: /* once: what follows is DONE or FAILED */
			if (kw_server_judge_arrival(
				    server_of(joining->stream), &joining->arrival, &error) != 0) {
				joining_failed(joining, &error);
				return;
			}
			kw_server_admit(server_of(joining->stream), &joining->exchange.handshake,
				&joining->arrival.origin);
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
	/* What came before a reset is read first: it can be the reason. */
	joining_step(joining);
	if (status < 0 && kw_wire_is_open(&joining->wire)) {
		kw_error_errno(&error, -status, "handshake: connection lost");
		joining_failed(joining, &error);
	}
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

/* One more has come: if no slot is free, another one leaves its slot. */
static void make_room(struct kw_stream *stream)
{
	struct kw_slot *slot = kw_slots_victim(&stream->slots);
	struct kw_joining *victim;
	struct kw_error error;

	if (!slot)
		return;
	victim = joining_of(slot);
	kw_error_set(&error, KW_E_TIMEOUT,
		"handshake: gave way to a newer one after %" PRIu64 " ms, as %d were under way",
		(kw_clock_us() - victim->since_us) / 1000, KW_SLOTS_MAX);
	joining_failed(victim, &error);
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
	joining->wire = kw_wire_plain(fd);
	if (code == 0 && stream->ops->wire)
		code = stream->ops->wire(stream, fd, &joining->wire, &error);
	if (code == 0)
		code = watch(kw_server_loop(server), &joining->poll, fd, &error);
	if (code != 0) {
		reject(stream, joining->arrival.origin.text, &error);
		kw_wire_close(&joining->wire);
		free(joining);
		return;
	}
	joining->stream = stream;
	joining->exchange.give_fd = stream->ops->give_fd(server);
	joining->exchange.taken_fd = -1;
	uv_timer_init(kw_server_loop(server), &joining->deadline);
	joining->poll.data = joining->deadline.data = joining;
	joining->handles = 2;
	stream->handles += 2;
	make_room(stream);
	kw_slots_take(&stream->slots, &joining->slot, joining->arrival.origin.peer);
	joining->since_us = kw_clock_us();
	uv_timer_start(
		&joining->deadline, on_joining_deadline, kw_server_hello_timeout_ms(server), 0);
	uv_poll_start(&joining->poll, UV_READABLE, on_joining_poll);
}

/* ---- accepting ---- */

static void on_connection(uv_poll_t *poll, int status, int events);

static void on_retry(uv_timer_t *timer)
{
	struct kw_stream *stream = timer->data;

	kw_sm_move(&stream->sm, KW_STREAM_OPEN, "");
	uv_poll_start(&stream->poll, UV_READABLE, on_connection);
}

/* The connection stays in the kernel's queue; to ask again at once would spin. */
static void starve(struct kw_stream *stream, int errnum)
{
	struct kw_error error;

	kw_error_errno(
		&error, errnum, "accept (raise LimitNOFILE; trying again every %d ms)", STARVED_MS);
	reject(stream, "a connection", &error);
	kw_sm_move(&stream->sm, KW_STREAM_STARVED, error.text);
	uv_poll_stop(&stream->poll);
	uv_timer_start(&stream->retry, on_retry, STARVED_MS, 0);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct kw_stream *stream = poll->data;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPTS && is(stream, KW_STREAM_OPEN); i++) {
		int fd = accept4(stream->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

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

	if (joining->greeting && handshake->sm.state < KW_HANDSHAKE_PROVED) {
		(void)kw_handshake_refuse(handshake, KW_REFUSE_SHUTDOWN, 0);
		(void)kw_exchange_step(&joining->exchange, &joining->wire, &error);
	}
	joining_end(joining);
}

void kw_stream_close(struct kw_listener *listener)
{
	struct kw_stream *stream = listener->own;

	assert(!is(stream, KW_STREAM_CLOSING));
	kw_sm_move(&stream->sm, KW_STREAM_CLOSING, "");
	while (stream->slots.oldest)
		turn_away(joining_of(stream->slots.oldest));
	uv_poll_stop(&stream->poll);
	close(stream->fd);
	uv_close((uv_handle_t *)&stream->poll, on_stream_closed);
	uv_close((uv_handle_t *)&stream->retry, on_stream_closed);
}
