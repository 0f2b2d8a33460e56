/*
 * The bytes of one connection of a stream carrier: a socket, and what is done to them on their way.
 *
 *   exchange.c, tcp/tcp.c, tcp/peer.c ──send, receive──┬─▶ plain: sendmsg(2), recvmsg(2)
 *                                                      └─▶ TLS (tcp/wire_tls.h)
 *
 * send and receive answer as these two calls do: how many bytes, 0 at the end of what comes, or -1
 * and errno. They do not block: EAGAIN says that the socket must become writable or readable first.
 * What was not sent is given again, as long at least, and from the same place of what is sent. Its
 * content may have changed. EPROTO: kw_wire_explain has the sentence.
 *
 * A wire that is not open yet is shaken until it is. Then it may hold bytes that no poll of the
 * socket shows: who leaves off receiving asks kw_wire_pending, and comes back by itself.
 *
 * A wire can be moved by assignment; then the former place must not be used any more. One thread at
 * a time.
 */
#ifndef KW_REMOTE_WIRE_H
#define KW_REMOTE_WIRE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct kw_wire;
struct kw_wire_tls;

enum kw_wire_shaken {
	KW_WIRE_OPEN,
	KW_WIRE_READ,  /* shake again when the socket is readable */
	KW_WIRE_WRITE, /* … writable */
	KW_WIRE_FAILED,
};

struct kw_wire_ops {
	/* The bytes may change while they are sent (racy.h). Raises no SIGPIPE. */
	ssize_t (*send)(struct kw_wire *wire, const struct msghdr *message);
	/* Descriptors that come are closed on exec. */
	ssize_t (*receive)(struct kw_wire *wire, struct msghdr *message);
	/* Last bytes, if they fit, and the end of what is sent. Nothing is sent after it. */
	void (*farewell)(struct kw_wire *wire, const void *bytes, size_t length);
	/* NULL: of a wire that is open from the start, holds no bytes, and is a socket only. */
	enum kw_wire_shaken (*shake)(struct kw_wire *wire, struct kw_error *error);
	bool (*pending)(const struct kw_wire *wire);
	void (*explain)(const struct kw_wire *wire, struct kw_error *error);
	void (*close)(struct kw_wire *wire); /* all but the socket */
};

struct kw_wire {
	const struct kw_wire_ops *ops;
	int fd;                  /* -1: none */
	struct kw_wire_tls *tls; /* NULL: plain */
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

static inline enum kw_wire_shaken kw_wire_shake(struct kw_wire *wire, struct kw_error *error)
{
	return wire->ops->shake ? wire->ops->shake(wire, error) : KW_WIRE_OPEN;
}

/* Did the last receive leave something, or the end, that a poll of the socket need not show? */
static inline bool kw_wire_pending(const struct kw_wire *wire)
{
	return wire->ops->pending && wire->ops->pending(wire);
}

/* Send or receive gave this errno: what, and why. Returns the code. */
int kw_wire_explain(
	const struct kw_wire *wire, int errnum, const char *what, struct kw_error *error);

/* The two for bytes in one piece. */
ssize_t kw_wire_send_bytes(struct kw_wire *wire, const void *bytes, size_t length);
ssize_t kw_wire_receive_bytes(struct kw_wire *wire, void *to, size_t room);

/* Close the socket; harmless when there is none. No loop and no epoll may watch it by another way.
 */
void kw_wire_close(struct kw_wire *wire);

#endif
