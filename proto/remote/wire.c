#include "remote/wire.h"

#include "remote/racy.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#define LEFT_BYTES 2048 /* taken off the socket before it is closed */

static ssize_t send_plain(struct kw_wire *wire, const struct msghdr *message)
{
	return kw_racy_sendmsg(wire->fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t receive_plain(struct kw_wire *wire, struct msghdr *message)
{
	return recvmsg(wire->fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

static void farewell_plain(struct kw_wire *wire, const void *bytes, size_t length)
{
	uint8_t left[LEFT_BYTES];

	(void)send(wire->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* Requests left unread would turn the close into a reset that overtakes the farewell. */
	(void)shutdown(wire->fd, SHUT_WR);
	(void)recv(wire->fd, left, sizeof left, MSG_DONTWAIT);
}

static const struct kw_wire_ops plain = {
	.send = send_plain,
	.receive = receive_plain,
	.farewell = farewell_plain,
};

struct kw_wire kw_wire_plain(int fd)
{
	return (struct kw_wire){.ops = &plain, .fd = fd};
}

int kw_wire_explain(
	const struct kw_wire *wire, int errnum, const char *what, struct kw_error *error)
{
	if (errnum != EPROTO || !wire->ops->explain)
		return kw_error_errno(error, errnum, "%s", what);
	wire->ops->explain(wire, error);
	return (int)error->code;
}

ssize_t kw_wire_send_bytes(struct kw_wire *wire, const void *bytes, size_t length)
{
	struct iovec part = {(void *)(uintptr_t)bytes, length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return kw_wire_send(wire, &message);
}

ssize_t kw_wire_receive_bytes(struct kw_wire *wire, void *to, size_t room)
{
	struct iovec part = {to, room};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return kw_wire_receive(wire, &message);
}

void kw_wire_close(struct kw_wire *wire)
{
	if (wire->fd < 0)
		return;
	if (wire->ops->close)
		wire->ops->close(wire);
	close(wire->fd);
	wire->fd = -1;
}
