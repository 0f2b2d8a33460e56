#include "redis/stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* A peer that vanished without closing is found after 30 + 3 * 10 s of silence. */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_PROBES 3

static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S;
	int probes = KEEPALIVE_PROBES;

	if (fd < 0 || family == AF_UNIX)
		return fd;
	/*
	 * A refusal only costs latency, or time to notice that the peer is gone: no reason to fail.
	 */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
	return fd;
}

static const char *connect_remedy(int errnum)
{
	switch (errnum) {
	case ENOENT:
		return " (is the server running, and is this its unixsocket?)";
	case ECONNREFUSED:
		return " (is the server running?)";
	case EACCES:
		return " (see unixsocketperm of the server, or join its group)";
	case EAGAIN:
		return " (the server does not accept: it hangs, or its backlog is full)";
	default:
		return "";
	}
}

static enum kw_redis_stream_result cannot_connect(struct kw_error *error, int errnum)
{
	kw_error_set(error, errnum == ENOMEM ? KW_E_NOMEM : KW_E_IO, "%s%s", strerror(errnum),
		connect_remedy(errnum));
	return KW_REDIS_STREAM_FAILED;
}

enum kw_redis_stream_result kw_redis_stream_open(struct kw_redis_stream *stream,
	const struct kw_redis_stream_ops *ops, const struct sockaddr *address, socklen_t length,
	struct kw_error *error)
{
	int fd = open_socket(address->sa_family), result;

	assert(!stream->ops);
	if (fd < 0)
		return cannot_connect(error, errno);
	do {
		result = connect(fd, address, length);
	} while (result < 0 && errno == EINTR);
	if (result < 0 && errno != EINPROGRESS) {
		cannot_connect(error, errno);
		close(fd);
		return KW_REDIS_STREAM_FAILED;
	}
	*stream = (struct kw_redis_stream){.ops = ops, .fd = fd};
	return result == 0 ? KW_REDIS_STREAM_DONE : KW_REDIS_STREAM_AGAIN;
}

enum kw_redis_stream_result kw_redis_stream_establish(
	struct kw_redis_stream *stream, struct kw_error *error)
{
	assert(stream->ops);
	return stream->ops->establish(stream, error);
}

enum kw_redis_stream_result kw_redis_stream_read(
	struct kw_redis_stream *stream, void *to, size_t room, size_t *got, struct kw_error *error)
{
	enum kw_redis_stream_result result;

	assert(stream->ops && room > 0);
	*got = 0;
	result = stream->ops->read(stream, to, room, got, error);
	assert(*got <= room);
	return result;
}

enum kw_redis_stream_result kw_redis_stream_write(struct kw_redis_stream *stream,
	struct iovec *vectors, int count, size_t *put, struct kw_error *error)
{
	assert(stream->ops);
	*put = 0;
	return stream->ops->write(stream, vectors, count, put, error);
}

bool kw_redis_stream_has_input(const struct kw_redis_stream *stream)
{
	struct pollfd poll_fd = {.fd = stream->fd, .events = POLLIN};

	assert(stream->ops);
	return kw_redis_stream_pending(stream) || poll(&poll_fd, 1, 0) > 0;
}

short kw_redis_stream_wants(const struct kw_redis_stream *stream, enum kw_redis_stream_work work)
{
	assert(stream->ops);
	return stream->ops->wants(stream, work);
}

bool kw_redis_stream_pending(const struct kw_redis_stream *stream)
{
	assert(stream->ops);
	return stream->ops->pending(stream);
}

bool kw_redis_stream_late(const struct kw_redis_stream *stream, struct kw_error *error)
{
	if (!stream->tls || kw_tls_channel_state(stream->tls) != KW_TLS_SHAKING)
		return false;
	kw_tls_channel_late(stream->tls, error);
	return true;
}

enum kw_redis_stream_result kw_redis_stream_connected(
	const struct kw_redis_stream *stream, struct kw_error *error)
{
	int errnum = 0;
	socklen_t length = sizeof errnum;

	if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &errnum, &length) < 0)
		errnum = errno;
	return errnum == 0 ? KW_REDIS_STREAM_DONE : cannot_connect(error, errnum);
}

void kw_redis_stream_close(struct kw_redis_stream *stream)
{
	assert(stream->ops);
	stream->ops->close(stream);
	close(stream->fd);
	stream->ops = NULL;
}

/* The socket as it is. */

static enum kw_redis_stream_result plain_failed(
	struct kw_error *error, const char *what, int errnum)
{
	if (errnum == EAGAIN || errnum == EWOULDBLOCK)
		return KW_REDIS_STREAM_AGAIN;
	kw_error_errno(error, errnum, "%s", what);
	return KW_REDIS_STREAM_FAILED;
}

static enum kw_redis_stream_result plain_establish(
	struct kw_redis_stream *stream, struct kw_error *error)
{
	return kw_redis_stream_connected(stream, error);
}

static enum kw_redis_stream_result plain_read(
	struct kw_redis_stream *stream, void *to, size_t room, size_t *got, struct kw_error *error)
{
	ssize_t length;

	do {
		length = read(stream->fd, to, room);
	} while (length < 0 && errno == EINTR);
	if (length < 0)
		return plain_failed(error, "read", errno);
	if (length == 0)
		return KW_REDIS_STREAM_ENDED;
	*got = (size_t)length;
	/* A short read emptied the socket; the level-triggered poll tells when more comes. */
	return *got == room ? KW_REDIS_STREAM_MORE : KW_REDIS_STREAM_DONE;
}

static enum kw_redis_stream_result plain_write(struct kw_redis_stream *stream,
	struct iovec *vectors, int count, size_t *put, struct kw_error *error)
{
	struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)count};
	size_t asked = 0;
	ssize_t length;

	for (int i = 0; i < count; i++)
		asked += vectors[i].iov_len;
	do {
		length = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
	} while (length < 0 && errno == EINTR);
	if (length < 0)
		return plain_failed(error, "write", errno);
	*put = (size_t)length;
	return *put == asked ? KW_REDIS_STREAM_MORE : KW_REDIS_STREAM_DONE;
}

static short plain_wants(const struct kw_redis_stream *stream, enum kw_redis_stream_work work)
{
	return work == KW_REDIS_STREAM_READ ? POLLIN : POLLOUT;
}

static bool plain_pending(const struct kw_redis_stream *stream)
{
	return false;
}

static void plain_close(struct kw_redis_stream *stream)
{
	/* The socket alone has nothing to end. */
}

const struct kw_redis_stream_ops kw_redis_stream_plain = {
	.establish = plain_establish,
	.read = plain_read,
	.write = plain_write,
	.wants = plain_wants,
	.pending = plain_pending,
	.close = plain_close,
};
