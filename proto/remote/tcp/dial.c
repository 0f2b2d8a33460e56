#include "remote/tcp/dial.h"

#include "base/buffer.h"
#include "remote/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void try_next(struct kw_tcp_dial *dial);

static void free_addresses(struct kw_tcp_dial *dial)
{
	if (dial->addresses)
		freeaddrinfo(dial->addresses);
	dial->addresses = dial->next = NULL;
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

static void address_failed(struct kw_tcp_dial *dial, int errnum)
{
	const struct addrinfo *tried = dial->next;
	char text[KW_PEER_TEXT];

	kw_tcp_socket_text(tried->ai_addr, tried->ai_addrlen, text, sizeof text);
	kw_error_errno(&dial->last, errnum, "connect to %s%s", text,
		errnum == ECONNREFUSED ? " (is the proxy listening there?)" : "");
	drop_socket(dial);
	dial->next = tried->ai_next;
}

static void on_connected(struct kw_tcp_dial *dial, const struct kw_channel *channel)
{
	uv_poll_t *poll = dial->poll;
	int fd = dial->fd;

	assert(poll && fd >= 0);
	dial->poll = NULL;
	dial->fd = -1;
	free_addresses(dial);
	kw_tcp_socket_tune(fd);
	dial->connected(dial->remote, fd, poll, channel);
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
	address_failed(dial, errnum);
	try_next(dial);
}

/* 0: connected or on the way; else errno. */
static int try_address(struct kw_tcp_dial *dial)
{
	const struct addrinfo *address = dial->next;
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

static void try_next(struct kw_tcp_dial *dial)
{
	while (dial->next) {
		int errnum = try_address(dial);

		if (errnum == 0)
			return;
		address_failed(dial, errnum);
	}
	kw_remote_fail(dial->remote, &dial->last);
}

static void on_resolved(void *owner, struct addrinfo *addresses, const struct kw_error *error)
{
	struct kw_tcp_dial *dial = owner;

	if (!addresses) {
		kw_remote_fail(dial->remote, error);
		return;
	}
	dial->addresses = dial->next = addresses;
	try_next(dial);
}

void kw_tcp_dial_start(
	struct kw_tcp_dial *dial, struct kw_remote *remote, kw_tcp_dial_connected connected)
{
	*dial = (struct kw_tcp_dial){.remote = remote, .connected = connected, .fd = -1};
	kw_error_set(&dial->last, KW_E_IO, "host \"%s\" has no address", remote->address.host);
	kw_resolve_start(&dial->resolve, remote->loop, &remote->address, on_resolved, dial);
}

void kw_tcp_dial_close(struct kw_tcp_dial *dial)
{
	if (!dial->remote)
		return;
	kw_resolve_forget(&dial->resolve);
	drop_socket(dial);
	free_addresses(dial);
}
