#include "remote/stream_end.h"

#include <assert.h>
#include <unistd.h>

void kw_stream_end_init(struct kw_stream_end *end, const struct kw_stream_end_ops *ops,
	uv_poll_cb on_poll, bool takes_fd)
{
	*end = (struct kw_stream_end){
		.ops = ops,
		.on_poll = on_poll,
		.wire = {.fd = -1},
		.exchange = {.give_fd = -1, .taken_fd = -1, .takes_fd = takes_fd},
	};
}

void kw_stream_end_watch(struct kw_stream_end *end, int events)
{
	assert(end->poll && kw_wire_is_open(&end->wire));
	assert(events != 0);
	/* Each start costs two system calls, whether or not anything changes. */
	if (events == end->events)
		return;
	end->events = events;
	uv_poll_start(end->poll, events, end->on_poll);
}

/* The end can be another attempt's when this returns. */
static void fail(struct kw_stream_end *end, struct kw_remote *remote, const struct kw_error *why)
{
	if (end->ops->failed && kw_remote_is(remote, KW_REMOTE_CONNECTING))
		end->ops->failed(remote, why);
	else
		kw_remote_fail(remote, why);
}

void kw_stream_end_lost(struct kw_stream_end *end, struct kw_remote *remote, int errnum)
{
	struct kw_error error;

	if (errnum == 0)
		kw_error_set(&error, KW_E_IO, "the proxy closed the connection");
	else
		kw_wire_explain(&end->wire, errnum, "connection lost", &error);
	fail(end, remote, &error);
}

/* The wire is open: it is known now what the handshake is bound to. */
static int begin(struct kw_stream_end *end, struct kw_remote *remote, struct kw_error *error)
{
	int code = end->ops->opened ? end->ops->opened(end, &end->channel, error) : 0;

	if (code == 0)
		code = kw_remote_greet(remote, &end->exchange.handshake, &end->channel, error);
	end->greeting = code == 0;
	return code;
}

static void welcomed(struct kw_stream_end *end, struct kw_remote *remote)
{
	kw_stream_end_watch(end, UV_READABLE);
	kw_remote_welcomed(remote, &end->exchange.handshake.facts);
	/* What came with it is in the wire already, and no poll shows it. */
	if (kw_remote_is(remote, KW_REMOTE_READY) && kw_wire_pending(&end->wire))
		kw_remote_turn_soon(remote);
}

static void greet(struct kw_stream_end *end, struct kw_remote *remote)
{
	struct kw_error error = {0};

	switch (kw_exchange_step(&end->exchange, &end->wire, &error)) {
	case KW_EXCHANGE_READ:
		kw_stream_end_watch(end, UV_READABLE);
		return;
	case KW_EXCHANGE_WRITE:
		kw_stream_end_watch(end, UV_WRITABLE);
		return;
	case KW_EXCHANGE_DONE:
		if (end->ops->welcomed && end->ops->welcomed(remote, &error) != 0)
			break;
		welcomed(end, remote);
		return;
	case KW_EXCHANGE_DECIDE: /* the proxy's end only */
	case KW_EXCHANGE_FAILED:
		break;
	}
	fail(end, remote, &error);
}

static void open_wire(struct kw_stream_end *end, struct kw_remote *remote)
{
	struct kw_error error = {0};

	switch (kw_wire_shake(&end->wire, &error)) {
	case KW_WIRE_READ:
		kw_stream_end_watch(end, UV_READABLE);
		return;
	case KW_WIRE_WRITE:
		kw_stream_end_watch(end, UV_WRITABLE);
		return;
	case KW_WIRE_OPEN:
		if (begin(end, remote, &error) != 0)
			break;
		greet(end, remote);
		return;
	case KW_WIRE_FAILED:
		break;
	}
	fail(end, remote, &error);
}

void kw_stream_end_connected(struct kw_stream_end *end, struct kw_remote *remote,
	struct kw_wire wire, uv_poll_t *poll, const struct kw_channel *channel)
{
	assert(!kw_wire_is_open(&end->wire) && !end->poll);
	assert(kw_wire_is_open(&wire) && poll->data == remote);
	end->wire = wire;
	end->poll = poll;
	end->channel = *channel;
	open_wire(end, remote);
}

void kw_stream_end_polled(
	struct kw_stream_end *end, struct kw_remote *remote, int status, int events)
{
	assert(end->poll);
	if (kw_remote_is(remote, KW_REMOTE_CONNECTING)) {
		if (end->greeting)
			greet(end, remote);
		else
			open_wire(end, remote);
		if (!end->poll)
			return; /* this attempt has failed, and another one may be under way */
	} else if (status < 0 || events & UV_READABLE) {
		end->ops->readable(remote);
	}
	/* What came before a reset was read first: it can be the reason. */
	if (status < 0) {
		kw_stream_end_lost(end, remote, -status);
		return;
	}
	if ((events & UV_WRITABLE) && kw_remote_is(remote, KW_REMOTE_READY))
		end->ops->writable(remote);
}

void kw_stream_end_drop(struct kw_stream_end *end, struct kw_remote *remote)
{
	kw_stream_end_close(end, remote);
	kw_stream_end_init(end, end->ops, end->on_poll, end->exchange.takes_fd);
}

void kw_stream_end_close(struct kw_stream_end *end, struct kw_remote *remote)
{
	if (end->poll) {
		uv_poll_stop(end->poll);
		kw_remote_shut(remote, (uv_handle_t *)end->poll, true);
		end->poll = NULL;
	}
	kw_wire_close(&end->wire);
	if (end->exchange.taken_fd >= 0)
		close(end->exchange.taken_fd);
	end->exchange.taken_fd = -1;
}
