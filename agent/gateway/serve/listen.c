/* Listeners: making their sockets, and accepting. */
#include "internal.h"

#include "base/log.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096
#define ACCEPTS 64 /* of one turn of the loop */

/* As CONFIG GET tcp-keepalive says, and as the server does it: gone after twice that. */
#define KEEPALIVE_IDLE_S 300
#define KEEPALIVE_INTERVAL_S (KEEPALIVE_IDLE_S / 3)
#define KEEPALIVE_PROBES 3

#define TLS_SCHEME "tls://"

int kw_frontend_address_parse(
	const char *text, struct kw_redis_address *address, struct kw_error *error)
{
	char rediss[512];

	if (strncmp(text, TLS_SCHEME, strlen(TLS_SCHEME)) != 0)
		return kw_redis_address_parse(text, address, error);
	snprintf(rediss, sizeof rediss, "rediss://%s", text + strlen(TLS_SCHEME));
	return kw_redis_address_parse(rediss, address, error);
}

int kw_frontend_address_check(const char *address, struct kw_error *error)
{
	struct kw_redis_address parsed;

	return kw_frontend_address_parse(address, &parsed, error);
}

/* A socket file that answers belongs to another process; one that does not is left over. */
static int remove_stale(const struct sockaddr_un *name, const char *text, struct kw_error *error)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int code, errnum;

	if (fd < 0)
		return kw_error_errno(error, errno, "%s", text);
	code = connect(fd, (const struct sockaddr *)name, sizeof *name);
	errnum = errno;
	close(fd);
	if (code != 0 && errnum == ENOENT)
		return KW_OK;
	if (code != 0 && errnum == ECONNREFUSED) {
		if (unlink(name->sun_path) == 0 || errno == ENOENT)
			return KW_OK;
		return kw_error_errno(error, errno,
			"%s: cannot remove the old socket: rm %s as root", text, name->sun_path);
	}
	if (code != 0 && errnum != EAGAIN)
		return kw_error_errno(error, errnum,
			"%s: something else is in the way: remove it, or choose another path",
			text);
	return kw_error_set(error, KW_E_STATE,
		"%s: another process answers there: stop it, or choose another path", text);
}

/* What a name has, and no more of it. */
#define ADDRESSES_MAX 16

struct sockets {
	int fds[ADDRESSES_MAX];
	int count;
};

static int bind_unix(const struct kw_redis_address *address, const char *text,
	struct sockets *sockets, struct kw_error *error)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int code, fd;

	memcpy(name.sun_path, address->path, sizeof name.sun_path);
	code = remove_stale(&name, text, error);
	if (code)
		return code;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) != 0 ||
		listen(fd, BACKLOG) != 0) {
		code = kw_error_errno(error, errno,
			"%s: cannot listen (does the directory exist, and may this user write "
			"there?)",
			text);
		if (fd >= 0)
			close(fd);
		return code;
	}
	sockets->fds[sockets->count++] = fd;
	return KW_OK;
}

static int bind_one(const struct addrinfo *info)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, errnum;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (info->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	errnum = errno;
	close(fd);
	errno = errnum;
	return -1;
}

/* A name can have an address twice, as localhost by two lines of /etc/hosts. */
static bool is_repeated(const struct addrinfo *first, const struct addrinfo *info)
{
	for (; first != info; first = first->ai_next)
		if (first->ai_addrlen == info->ai_addrlen &&
			memcmp(first->ai_addr, info->ai_addr, info->ai_addrlen) == 0)
			return true;
	return false;
}

/* This host does not have the address at present, as ::1 without IPv6. */
static bool is_absent(int errnum)
{
	return errnum == EADDRNOTAVAIL || errnum == EAFNOSUPPORT;
}

/* 0, or why there is none. One that is absent is left out, if there are others. */
static int bind_each(const struct addrinfo *found, struct sockets *sockets)
{
	int why = 0;

	for (const struct addrinfo *at = found; at && sockets->count < ADDRESSES_MAX;
		at = at->ai_next) {
		int fd = is_repeated(found, at) ? -1 : bind_one(at);

		if (fd >= 0)
			sockets->fds[sockets->count++] = fd;
		else if (!is_repeated(found, at) && (why == 0 || !is_absent(errno)))
			why = errno;
	}
	if (sockets->count > 0 && (why == 0 || is_absent(why)))
		return 0;
	while (sockets->count > 0)
		close(sockets->fds[--sockets->count]);
	return why;
}

/* All addresses that the name has: a client takes any of them. */
static int bind_tcp(const struct kw_redis_address *address, const char *text,
	struct sockets *sockets, struct kw_error *error)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	int code = getaddrinfo(address->host, address->port, &hints, &found);

	if (code != 0)
		return kw_error_set(error, KW_E_CONFIG, "%s: %s: give an address of this host",
			text, gai_strerror(code));
	code = bind_each(found, sockets);
	freeaddrinfo(found);
	if (code != 0)
		return kw_error_errno(
			error, code, "%s: cannot listen: choose another address or port", text);
	return KW_OK;
}

/* ---- accepting ---- */

/* Without a free descriptor no client is accepted until the next tick, rather than in a spin. */
static void starve(struct kw_frontend *server, int errnum)
{
	if (errnum != EMFILE && errnum != ENFILE && errnum != ENOBUFS && errnum != ENOMEM)
		return;
	if (!server->starved && kw_frontend_may_say(server, &server->starved_said_ms))
		kw_log_warn("gateway", "no client can be accepted: %s: raise LimitNOFILE",
			strerror(errnum));
	server->starved = true;
	for (struct kw_listener *at = server->listeners; at; at = at->next)
		uv_poll_stop(&at->poll);
}

/* A client whose host is gone sends no end: its place must not stay taken. A unix socket has none.
 */
static void set_tcp(int fd)
{
	const int one = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S,
		  probes = KEEPALIVE_PROBES;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct kw_listener *listener = poll->data;
	struct kw_frontend *server = listener->server;

	for (int i = 0; i < ACCEPTS && !server->closing; i++) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			starve(server, errno);
			return;
		}
		set_tcp(fd);
		if (listener->tls)
			kw_handshake_begin(server, listener->protocol, fd);
		else
			kw_client_let_in(server, listener->protocol, &(struct kw_socket){.fd = fd});
	}
}

void kw_frontend_watch_listeners(struct kw_frontend *server)
{
	for (struct kw_listener *at = server->listeners; at; at = at->next)
		uv_poll_start(&at->poll, UV_READABLE, on_connection);
}

/* The descriptor is taken over. */
static int open_listener(struct kw_frontend *server, const struct kw_protocol *protocol, int fd,
	const struct kw_redis_address *address, struct kw_error *error)
{
	struct kw_listener *listener = kw_zalloc(sizeof *listener);

	if (uv_poll_init(server->options.loop, &listener->poll, fd) != 0) {
		close(fd);
		free(listener);
		return kw_error_set(error, KW_E_IO, "the socket cannot be watched");
	}
	snprintf(listener->path, sizeof listener->path, "%s", address->path);
	listener->tls = address->scheme == KW_REDIS_TLS;
	listener->server = server;
	listener->protocol = protocol;
	listener->fd = fd;
	listener->poll.data = listener;
	listener->next = server->listeners;
	server->listeners = listener;
	server->open++;
	uv_poll_start(&listener->poll, UV_READABLE, on_connection);
	return KW_OK;
}

int kw_frontend_listen(struct kw_frontend *server, const char *text,
	const struct kw_protocol *protocol, struct kw_error *error)
{
	struct sockets sockets = {0};
	struct kw_redis_address address;
	int code;

	if ((code = kw_frontend_address_parse(text, &address, error)))
		return code;
	code = address.scheme == KW_REDIS_UNIX ? bind_unix(&address, text, &sockets, error)
					       : bind_tcp(&address, text, &sockets, error);
	for (int i = 0; i < sockets.count; i++) {
		if (code)
			close(sockets.fds[i]);
		else if ((code = open_listener(server, protocol, sockets.fds[i], &address, error)))
			kw_error_wrap(error, "%s", text);
	}
	if (code)
		return code;
	kw_log_info("gateway", "%s clients at %s (%d address%s)", protocol->name, text,
		sockets.count, sockets.count == 1 ? "" : "es");
	return KW_OK;
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct kw_listener *listener = handle->data;
	struct kw_frontend *server = listener->server;

	close(listener->fd);
	free(listener);
	kw_frontend_part_closed(server);
}

void kw_frontend_close_listeners(struct kw_frontend *server)
{
	struct kw_listener *listener;

	while ((listener = server->listeners)) {
		server->listeners = listener->next;
		if (listener->path[0])
			unlink(listener->path);
		uv_close((uv_handle_t *)&listener->poll, on_listener_closed);
	}
}
