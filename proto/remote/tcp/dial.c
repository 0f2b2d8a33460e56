#include "remote/tcp/dial.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TO(state) KW_SM_TO(KW_TCP_DIAL_##state)
static const struct kw_sm_state states[] = {
	[KW_TCP_DIAL_IDLE] = {"idle", TO(NAME) | TO(CLOSED), KW_SM_INITIAL},
	[KW_TCP_DIAL_NAME] = {"name", TO(CONNECT) | TO(CLOSED)},
	[KW_TCP_DIAL_CONNECT] = {"connect", TO(CONNECT) | TO(GREET) | TO(CLOSED)},
	[KW_TCP_DIAL_GREET] = {"greet", TO(CONNECT) | TO(UP) | TO(CLOSED)},
	[KW_TCP_DIAL_UP] = {"up", TO(CLOSED)},
	[KW_TCP_DIAL_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool dial_holds(const void *owner, int state)
{
	const struct kw_tcp_dial *dial = owner;
	bool socket = dial->fd >= 0 || dial->poll;

	switch ((enum kw_tcp_dial_state)state) {
	case KW_TCP_DIAL_IDLE:
	case KW_TCP_DIAL_NAME:
		return !socket && !dial->addresses;
	case KW_TCP_DIAL_CONNECT:
	case KW_TCP_DIAL_GREET:
		return !socket && dial->address;
	case KW_TCP_DIAL_UP:
	case KW_TCP_DIAL_CLOSED:
		return !socket && !dial->addresses && !dial->resolve;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "tcp dial",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = dial_holds,
};

static bool is(const struct kw_tcp_dial *dial, enum kw_tcp_dial_state state)
{
	return dial->sm.state == (int)state;
}

static void move(struct kw_tcp_dial *dial, enum kw_tcp_dial_state state, const char *reason)
{
	kw_sm_move(&dial->sm, (int)state, reason);
}

/* ---- one address ---- */

static void free_addresses(struct kw_tcp_dial *dial)
{
	if (dial->addresses)
		freeaddrinfo(dial->addresses);
	dial->addresses = dial->address = NULL;
}

static void drop_socket(struct kw_tcp_dial *dial)
{
	if (dial->poll) {
		uv_poll_stop(dial->poll);
		kw_remote_shut(dial->remote, (uv_handle_t *)dial->poll, true);
		dial->poll = NULL;
	}
	if (dial->fd >= 0)
		close(dial->fd);
	dial->fd = -1;
}

static void address_text(const struct kw_tcp_dial *dial, char text[KW_PEER_TEXT])
{
	kw_tcp_socket_text(dial->address->ai_addr, dial->address->ai_addrlen, text, KW_PEER_TEXT);
}

/* A proxy's own refusal says more than the failure of another address. */
static void remember(struct kw_tcp_dial *dial, const struct kw_error *error)
{
	if (dial->last.code != KW_E_REFUSED && dial->last.code != KW_E_PROTOCOL)
		dial->last = *error;
}

static void connect_failed(struct kw_tcp_dial *dial, int errnum)
{
	char text[KW_PEER_TEXT];
	struct kw_error error;

	address_text(dial, text);
	kw_error_errno(&error, errnum, "connect to %s%s", text,
		errnum == ECONNREFUSED ? " (is the proxy listening there?)" : "");
	remember(dial, &error);
	drop_socket(dial);
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* 0: connected or on the way; else errno. */
static int try_address(struct kw_tcp_dial *dial)
{
	const struct addrinfo *address = dial->address;
	int status;

	assert(dial->fd < 0 && !dial->poll);
	dial->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (dial->fd < 0)
		return errno;
	if (connect(dial->fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS)
		return errno;
	dial->poll = kw_zalloc(sizeof *dial->poll);
	status = uv_poll_init(dial->remote->loop, dial->poll, dial->fd);
	if (status != 0) {
		free(dial->poll);
		dial->poll = NULL;
		return -status;
	}
	dial->poll->data = dial->remote;
	uv_poll_start(dial->poll, UV_WRITABLE, on_poll);
	return 0;
}

/* ---- one after the other ---- */

/* The last one has all the time that is left: the remote's deadline. */
static void give_share(struct kw_tcp_dial *dial)
{
	uint64_t now = kw_clock_us(), until = dial->remote->connect_deadline_us, count = 0;

	for (const struct addrinfo *at = dial->address; at; at = at->ai_next)
		count++;
	dial->share_us = (until > now ? until - now : 0) / count;
	dial->give_up_us = count > 1 ? now + dial->share_us : KW_NEVER;
	if (count > 1)
		kw_remote_turn_at(dial->remote, dial->give_up_us);
}

/* dial->address, or the first one after it that can be tried. */
static void try_addresses(struct kw_tcp_dial *dial)
{
	while (dial->address) {
		int errnum;

		move(dial, KW_TCP_DIAL_CONNECT, "");
		give_share(dial);
		errnum = try_address(dial);
		if (errnum == 0)
			return;
		connect_failed(dial, errnum);
		dial->address = dial->address->ai_next;
	}
	kw_remote_fail(dial->remote, &dial->last);
}

static void try_next(struct kw_tcp_dial *dial)
{
	dial->address = dial->address->ai_next;
	try_addresses(dial);
}

static void on_connected(struct kw_tcp_dial *dial, const struct kw_channel *channel)
{
	uv_poll_t *poll = dial->poll;
	int fd = dial->fd;

	assert(poll && fd >= 0);
	dial->poll = NULL;
	dial->fd = -1;
	move(dial, KW_TCP_DIAL_GREET, "");
	kw_tcp_socket_tune(fd);
	dial->handlers.connected(dial->remote, fd, poll, channel);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_remote *remote = poll->data;
	struct kw_tcp_dial *dial = remote->own; /* the first member there */
	struct kw_channel channel;
	socklen_t length = sizeof(int);
	int errnum = 0;

	(void)events;
	uv_poll_stop(poll);
	if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &errnum, &length) != 0)
		errnum = errno;
	if (status < 0 && errnum == 0)
		errnum = -status;
	if (errnum == 0)
		errnum = kw_tcp_socket_channel(dial->fd, true, &channel);
	if (errnum == 0) {
		on_connected(dial, &channel);
		return;
	}
	connect_failed(dial, errnum);
	try_next(dial);
}

void kw_tcp_dial_failed(struct kw_tcp_dial *dial, const struct kw_error *why)
{
	struct kw_error error = *why;
	char text[KW_PEER_TEXT];

	assert(is(dial, KW_TCP_DIAL_GREET));
	address_text(dial, text);
	if (dial->addresses->ai_next)
		kw_error_wrap(&error, "%s", text);
	remember(dial, &error);
	dial->handlers.dropped(dial->remote);
	try_next(dial);
}

void kw_tcp_dial_done(struct kw_tcp_dial *dial)
{
	free_addresses(dial);
	move(dial, KW_TCP_DIAL_UP, "");
}

static void late(struct kw_tcp_dial *dial)
{
	char text[KW_PEER_TEXT];
	struct kw_error error;

	address_text(dial, text);
	kw_error_set(&error, KW_E_TIMEOUT, "connect to %s: no answer within %u ms", text,
		(unsigned)(dial->share_us / 1000));
	remember(dial, &error);
	if (is(dial, KW_TCP_DIAL_GREET))
		dial->handlers.dropped(dial->remote);
	drop_socket(dial);
	try_next(dial);
}

/* ---- beginning and end ---- */

static void on_resolved(void *owner, struct addrinfo *addresses, const struct kw_error *error)
{
	struct kw_tcp_dial *dial = owner;

	if (!addresses) {
		kw_remote_fail(dial->remote, error);
		return;
	}
	dial->addresses = dial->address = addresses;
	try_addresses(dial);
}

void kw_tcp_dial_turn(struct kw_tcp_dial *dial)
{
	if (is(dial, KW_TCP_DIAL_IDLE)) {
		move(dial, KW_TCP_DIAL_NAME, dial->remote->info.peer);
		kw_resolve_start(&dial->resolve, dial->remote->loop, &dial->remote->address,
			on_resolved, dial);
	} else if ((is(dial, KW_TCP_DIAL_CONNECT) || is(dial, KW_TCP_DIAL_GREET)) &&
		   kw_clock_us() >= dial->give_up_us) {
		late(dial);
	}
}

void kw_tcp_dial_init(struct kw_tcp_dial *dial, struct kw_remote *remote,
	const struct kw_tcp_dial_handlers *handlers)
{
	*dial = (struct kw_tcp_dial){.remote = remote, .handlers = *handlers, .fd = -1};
	kw_error_set(&dial->last, KW_E_IO, "host \"%s\" has no address", remote->address.host);
	kw_sm_init(&dial->sm, &machine, dial, KW_TCP_DIAL_IDLE);
}

void kw_tcp_dial_close(struct kw_tcp_dial *dial)
{
	kw_resolve_forget(&dial->resolve);
	drop_socket(dial);
	free_addresses(dial);
	move(dial, KW_TCP_DIAL_CLOSED, "");
}
