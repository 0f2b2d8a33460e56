/*
 * tcp and tcp+tls, the proxy's end on the loop: listening, and handing agents that proved
 * themselves to the serving thread.
 */
#include "base/buffer.h"
#include "remote/listen_stream.h"
#include "remote/socket.h"
#include "remote/tcp/serve.h"
#include "remote/tcp/wire_tls.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

/* ---- sessions ---- */

static void end_tcp(struct kw_session *session, enum kw_frame_status bye)
{
	struct kw_error error;

	kw_tcp_serve_end(kw_server_serve(session->server, &error), session->own, bye);
}

static uint64_t figures_tcp(const struct kw_session *session, struct kw_session_info *info)
{
	const struct kw_tcp_conn *conn = session->own;
	const struct kw_tcp_conn_shared *shared = &conn->shared;
	uint64_t heard = atomic_load_explicit(&shared->heard_us, memory_order_acquire);
	uint64_t words[2];

	info->tls = conn->tls;
	info->resumed = conn->resumed;
	info->reads = atomic_load_explicit(&shared->reads, memory_order_relaxed);
	info->bytes = atomic_load_explicit(&shared->bytes, memory_order_relaxed);
	info->wire_bytes = atomic_load_explicit(&shared->wire_bytes, memory_order_relaxed);
	info->reported = heard != 0;
	info->state_us = info->reported
				 ? atomic_load_explicit(&shared->state_us, memory_order_relaxed)
				 : info->connected_us;
	info->progress.passed = atomic_load_explicit(&shared->passed, memory_order_relaxed);
	info->progress.applied = atomic_load_explicit(&shared->applied, memory_order_relaxed);
	info->progress.lag_us = atomic_load_explicit(&shared->lag_us, memory_order_relaxed);
	words[0] = atomic_load_explicit(&shared->state[0], memory_order_relaxed);
	words[1] = atomic_load_explicit(&shared->state[1], memory_order_relaxed);
	info->progress.ticket = atomic_load_explicit(&shared->ticket, memory_order_relaxed);
	memcpy(info->progress.state, words, sizeof info->progress.state);
	/* The words can be of two different reports. */
	info->progress.state[sizeof info->progress.state - 1] = 0;
	return heard;
}

static int adopt(struct kw_session *session, struct kw_wire wire, struct kw_error *error)
{
	struct kw_tcp_serve *serve = kw_server_serve(session->server, error);
	const struct kw_tcp_client client = {
		.depth = session->depth,
		.owner = session,
		.scope = session->scoped ? kw_server_scope(session->server, &session->identity)
					 : NULL,
		.compression =
			session->compressed ? kw_server_compression_level(session->server) : 0,
	};

	/* Without the scope that it was told it would get everything. */
	if (session->scoped && !client.scope)
		return kw_error_set(
			error, KW_E_REFUSED, "its key was withdrawn or changed meanwhile");
	session->own = kw_tcp_serve_add(serve, wire, &client, error);
	return session->own ? 0 : (int)error->code;
}

/* ---- the listener ---- */

static int accepted(
	const struct kw_stream *stream, int fd, struct kw_arrival *arrival, struct kw_error *error)
{
	struct sockaddr_storage name = {0};
	socklen_t length = sizeof name;
	int errnum;

	(void)stream;
	kw_tcp_socket_tune(fd);
	(void)getpeername(fd, (struct sockaddr *)&name, &length);
	kw_tcp_socket_text((struct sockaddr *)&name, length, arrival->origin.text,
		sizeof arrival->origin.text);
	arrival->origin.peer = kw_tcp_socket_peer((struct sockaddr *)&name);
	/* Not the configured address: the listener's can be a wildcard. */
	errnum = kw_tcp_socket_channel(fd, false, &arrival->channel);
	return errnum ? kw_error_errno(error, errnum, "the own address of the connection") : 0;
}

static int wire(
	const struct kw_stream *stream, int fd, struct kw_wire *wire, struct kw_error *error)
{
	struct kw_tls_context *context = kw_server_tls(stream->listener->server);

	return kw_wire_tls(wire, fd, context, NULL, NULL, error);
}

static int opened(const struct kw_stream *stream, const struct kw_wire *wire,
	struct kw_arrival *arrival, struct kw_error *error)
{
	struct kw_server *server = stream->listener->server;
	struct kw_tls_channel *channel = kw_wire_tls_channel(wire);
	int code = kw_wire_tls_bind(wire, &arrival->channel, error);

	if (code != 0)
		return code;
	arrival->certificate = kw_tls_channel_peer(channel);
	arrival->judged_by = kw_tls_channel_context(channel);
	if (!arrival->certificate)
		return 0;
	return kw_tls_channel_peer_id(
		channel, kw_server_tls_identity(server), arrival->principal, error);
}

static int give_fd(struct kw_server *server)
{
	(void)server;
	return -1;
}

static void closed(struct kw_stream *stream)
{
	(void)stream;
}

static const struct kw_stream_ops stream_ops = {
	.accepted = accepted,
	.give_fd = give_fd,
	.adopt = adopt,
	.closed = closed,
};

static const struct kw_stream_ops tls_ops = {
	.accepted = accepted,
	.wire = wire,
	.opened = opened,
	.give_fd = give_fd,
	.adopt = adopt,
	.closed = closed,
};

/* The socket, or -1 with the sentence in *error. */
static int listen_on(const struct addrinfo *address, struct kw_error *error)
{
	int fd, one = 1;

	fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		kw_error_errno(error, errno, "socket");
		return -1;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	kw_error_errno(error, errno, "bind%s",
		errno == EADDRINUSE      ? " (another process listens there)"
		: errno == EADDRNOTAVAIL ? " (no interface of this host has that address)"
					 : "");
	close(fd);
	return -1;
}

static uint16_t bound_port(int fd)
{
	struct sockaddr_storage name = {0};
	socklen_t length = sizeof name;

	(void)getsockname(fd, (struct sockaddr *)&name, &length);
	if (name.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&name)->sin6_port);
	return ntohs(((const struct sockaddr_in *)&name)->sin_port);
}

/* The first address of the name that can be listened on. Resolving can block: only at start. */
static int listen_name(const struct kw_address *address, struct kw_error *error)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *found;
	int status, fd = -1;
	char port[8];

	snprintf(port, sizeof port, "%u", address->port);
	status = getaddrinfo(address->host, port, &hints, &found);
	if (status != 0) {
		kw_error_set(
			error, KW_E_IO, "the host cannot be resolved: %s", gai_strerror(status));
		return -1;
	}
	for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
		fd = listen_on(at, error);
	freeaddrinfo(found);
	return fd;
}

static int listen_stream(
	struct kw_listener *listener, const struct kw_stream_ops *ops, struct kw_error *error)
{
	struct kw_error why = {0};
	int fd;

	if (!kw_server_serve(listener->server, &why))
		goto fail;
	fd = listen_name(&listener->address, &why);
	if (fd < 0)
		goto fail;
	listener->address.port = bound_port(fd);
	if (kw_stream_new(listener, ops, fd, &why))
		return 0;
	close(fd);

fail:
	return kw_error_set(error, why.code, "%s", why.text);
}

static int listen_tcp(struct kw_listener *listener, struct kw_error *error)
{
	return listen_stream(listener, &stream_ops, error);
}

static int listen_tls(struct kw_listener *listener, struct kw_error *error)
{
	if (!kw_server_tls(listener->server))
		return kw_error_set(error, KW_E_CONFIG,
			"no certificate is loaded for it: set tls.cert, tls.key and tls.ca");
	return listen_stream(listener, &tls_ops, error);
}

const struct kw_listener_ops kw_listener_tls = {
	.carrier = KW_CARRIER_TLS,
	.listen = listen_tls,
	.close = kw_stream_close,
	.end = end_tcp,
	.figures = figures_tcp,
};

const struct kw_listener_ops kw_listener_tcp = {
	.carrier = KW_CARRIER_TCP,
	.listen = listen_tcp,
	.close = kw_stream_close,
	.end = end_tcp,
	.figures = figures_tcp,
};
