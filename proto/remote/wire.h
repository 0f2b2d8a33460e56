/*
 * The bytes of one connection of a stream carrier: a socket, and what is done to them on their way.
 *
 *   exchange.c, tcp/tcp.c, tcp/peer.c ──send, receive──▶ plain: sendmsg(2), recvmsg(2)
 *
 * send and receive answer as these two calls do: how many bytes, 0 at the end of what comes, or -1
 * and errno. They do not block: EAGAIN says that the socket must become writable or readable first.
 * What was not sent is given again, unchanged and as long at least.
 *
 * A wire can be moved by assignment; then the former place must not be used any more. One thread at
 * a time.
 */
#ifndef KW_REMOTE_WIRE_H
#define KW_REMOTE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct kw_wire;

struct kw_wire_ops {
	/* The bytes may change while they are sent (racy.h). Raises no SIGPIPE. */
	ssize_t (*send)(struct kw_wire *wire, const struct msghdr *message);
	/* Descriptors that come are closed on exec. */
	ssize_t (*receive)(struct kw_wire *wire, struct msghdr *message);
	/* Last bytes, if they fit, and the end of what is sent. Nothing is sent after it. */
	void (*farewell)(struct kw_wire *wire, const void *bytes, size_t length);
};

struct kw_wire {
	const struct kw_wire_ops *ops;
	int fd; /* -1: none */
};

/* Descriptors can travel over it, if the socket is one of this host. */
struct kw_wire kw_wire_plain(int fd);

static inline bool kw_wire_is_open(const struct kw_wire *wire)
{
	return wire->fd >= 0;
}

static inline ssize_t kw_wire_send(struct kw_wire *wire, const struct msghdr *message)
{
	return wire->ops->send(wire, message);
}

static inline ssize_t kw_wire_receive(struct kw_wire *wire, struct msghdr *message)
{
	return wire->ops->receive(wire, message);
}

static inline void kw_wire_farewell(struct kw_wire *wire, const void *bytes, size_t length)
{
	wire->ops->farewell(wire, bytes, length);
}

/* The two for bytes in one piece. */
ssize_t kw_wire_send_bytes(struct kw_wire *wire, const void *bytes, size_t length);
ssize_t kw_wire_receive_bytes(struct kw_wire *wire, void *to, size_t room);

/* Close the socket; harmless when there is none. No loop and no epoll may watch it by another way.
 */
void kw_wire_close(struct kw_wire *wire);

#endif
