#include "socket.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#define LEFT_BYTES 2048 /* taken off the socket before it is closed */

static ssize_t read_tls(struct kw_socket *socket, void *to, size_t room)
{
	size_t got;

	switch (kw_tls_channel_read(socket->tls, to, room, &got, NULL)) {
	case KW_TLS_MORE:
	case KW_TLS_DONE:
		return (ssize_t)got;
	case KW_TLS_END:
		return 0;
	case KW_TLS_AGAIN:
		errno = EAGAIN;
		return -1;
	default:
		errno = EPROTO;
		return -1;
	}
}

bool kw_socket_is_admitted(const struct kw_socket *socket, const struct kw_tls_context *context)
{
	struct kw_tls_peer *peer;
	bool admitted;

	if (!socket->tls || kw_tls_channel_context(socket->tls) == context ||
		!kw_tls_context_verifies(context))
		return true;
	peer = kw_tls_channel_peer(socket->tls);
	admitted = peer && kw_tls_peer_judge(peer, context, NULL) == KW_OK;
	kw_tls_peer_free(peer);
	return admitted;
}

ssize_t kw_socket_read(struct kw_socket *socket, void *to, size_t room)
{
	return socket->tls ? read_tls(socket, to, room) : recv(socket->fd, to, room, MSG_DONTWAIT);
}

/* Records, until the socket takes no more. */
static ssize_t write_tls(struct kw_socket *socket, const uint8_t *from, size_t length)
{
	enum kw_tls_result result = KW_TLS_MORE;
	size_t total = 0, put;

	while (total < length && result == KW_TLS_MORE) {
		result =
			kw_tls_channel_write(socket->tls, from + total, length - total, &put, NULL);
		total += put;
	}
	socket->halted = result == KW_TLS_AGAIN;
	if (total > 0)
		return (ssize_t)total;
	errno = result == KW_TLS_AGAIN ? EAGAIN : EPROTO;
	return -1;
}

ssize_t kw_socket_write(struct kw_socket *socket, const void *from, size_t length)
{
	return socket->tls ? write_tls(socket, from, length)
			   : send(socket->fd, from, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool kw_socket_pending(const struct kw_socket *socket)
{
	return socket->tls && kw_tls_channel_pending(socket->tls);
}

void kw_socket_farewell(struct kw_socket *socket)
{
	if (socket->tls && !socket->halted)
		kw_tls_channel_farewell(socket->tls);
}

void kw_socket_close(struct kw_socket *socket)
{
	uint8_t left[LEFT_BYTES];

	/* What is left unread would make the close a reset, which overtakes our last record. */
	if (socket->tls) {
		(void)shutdown(socket->fd, SHUT_WR);
		(void)recv(socket->fd, left, sizeof left, MSG_DONTWAIT);
	}
	kw_tls_channel_free(socket->tls);
	socket->tls = NULL;
	close(socket->fd);
	socket->fd = -1;
}
