/* From an address to a connected socket: resolving off the loop, every address in turn. */
#include "base/buffer.h"
#include "base/clock.h"
#include "redis/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

/* A peer that vanished without a word is found after 30 + 3 * 10 s of silence. */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_PROBES 3

struct kw_redis_lookup {
	uv_getaddrinfo_t request;
	struct kw_redis *redis; /* NULL: given up */
};

static void name_target(struct kw_redis_target *target)
{
	char host[INET6_ADDRSTRLEN] = "?";
	const void *number;
	uint16_t port;
	bool six = target->address.ss_family == AF_INET6;

	if (six) {
		const struct sockaddr_in6 *in6 = (const void *)&target->address;

		number = &in6->sin6_addr;
		port = ntohs(in6->sin6_port);
	} else {
		const struct sockaddr_in *in = (const void *)&target->address;

		number = &in->sin_addr;
		port = ntohs(in->sin_port);
	}
	inet_ntop(target->address.ss_family, number, host, sizeof host);
	snprintf(target->name, sizeof target->name, six ? "[%s]:%u" : "%s:%u", host, port);
}

static void add_targets(struct kw_redis *redis, const struct addrinfo *info)
{
	for (; info && redis->target_count < KW_REDIS_ADDRESSES_MAX; info = info->ai_next) {
		struct kw_redis_target *target = &redis->targets[redis->target_count];

		if (info->ai_family != AF_INET && info->ai_family != AF_INET6)
			continue;
		memcpy(&target->address, info->ai_addr, info->ai_addrlen);
		target->length = info->ai_addrlen;
		name_target(target);
		redis->target_count++;
	}
}

static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S;
	int probes = KEEPALIVE_PROBES;

	if (fd < 0 || family == AF_UNIX)
		return fd;
	/* Refusals would only cost latency, or time to notice a death: no reason to fail. */
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

static void attempt_failed(struct kw_redis *redis, int errnum)
{
	const struct kw_redis_target *target = &redis->targets[redis->target];

	kw_error_set(&redis->attempt, errnum == ENOMEM ? KW_E_NOMEM : KW_E_IO, "connect%s%s: %s%s",
		redis->address.local ? "" : " to ", target->name, strerror(errnum),
		connect_remedy(errnum));
}

/* Each address left gets its share of the time left: a black hole must not eat it all. */
static void try_target(struct kw_redis *redis)
{
	struct kw_redis_target *target = &redis->targets[redis->target];
	uint64_t now = kw_clock_us();
	uint64_t left = redis->ready_until_us > now ? redis->ready_until_us - now : 0;
	int result;
	int fd = open_socket(target->address.ss_family);

	if (fd < 0) {
		attempt_failed(redis, errno);
		kw_redis_connect_next(redis);
		return;
	}
	do {
		result = connect(fd, (const struct sockaddr *)&target->address, target->length);
	} while (result < 0 && errno == EINTR);
	if (result < 0 && errno != EINPROGRESS) {
		attempt_failed(redis, errno);
		close(fd);
		kw_redis_connect_next(redis);
		return;
	}
	kw_redis_link_open(redis, fd, UV_WRITABLE);
	if (kw_redis_is_over(redis))
		return;
	kw_redis_arm(redis, now + left / (uint64_t)(redis->target_count - redis->target));
	if (result == 0)
		kw_redis_connected(redis);
}

void kw_redis_connect_next(struct kw_redis *redis)
{
	kw_redis_link_drop(redis);
	if (redis->target + 1 >= redis->target_count) {
		kw_redis_fail(redis, &redis->attempt);
		return;
	}
	redis->target++;
	try_target(redis);
}

void kw_redis_connect_event(struct kw_redis *redis)
{
	int errnum = 0;
	socklen_t length = sizeof errnum;

	if (getsockopt(redis->link->fd, SOL_SOCKET, SO_ERROR, &errnum, &length) < 0)
		errnum = errno;
	if (errnum == 0) {
		kw_redis_connected(redis);
		return;
	}
	attempt_failed(redis, errnum);
	kw_redis_connect_next(redis);
}

static void start_targets(struct kw_redis *redis)
{
	if (redis->target_count == 0) {
		kw_redis_failf(redis, KW_E_IO, "the name %s has no IPv4 or IPv6 address",
			redis->address.host);
		return;
	}
	try_target(redis);
}

static void looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *info)
{
	struct kw_redis_lookup *lookup = request->data;
	struct kw_redis *redis = lookup->redis;

	free(lookup);
	if (redis) {
		redis->lookup = NULL;
		if (status < 0) {
			kw_redis_failf(redis, KW_E_IO, "resolve %s: %s", redis->address.host,
				uv_strerror(status));
		} else {
			add_targets(redis, info);
			start_targets(redis);
		}
	}
	uv_freeaddrinfo(info);
}

static void look_up(struct kw_redis *redis, const struct addrinfo *hints)
{
	struct kw_redis_lookup *lookup = kw_zalloc(sizeof *lookup);
	int result;

	lookup->redis = redis;
	lookup->request.data = lookup;
	result = uv_getaddrinfo(redis->loop, &lookup->request, looked_up, redis->address.host,
		redis->address.port, hints);
	if (result < 0) {
		free(lookup);
		kw_redis_failf(
			redis, KW_E_IO, "resolve %s: %s", redis->address.host, uv_strerror(result));
		return;
	}
	redis->lookup = lookup;
	kw_redis_arm(redis, redis->ready_until_us);
}

static void connect_local(struct kw_redis *redis)
{
	struct kw_redis_target *target = &redis->targets[0];
	struct sockaddr_un *local = (void *)&target->address;

	local->sun_family = AF_UNIX;
	memcpy(local->sun_path, redis->address.path, sizeof redis->address.path);
	target->length = sizeof *local;
	redis->target_count = 1;
	try_target(redis);
}

void kw_redis_connect(struct kw_redis *redis)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	};
	struct addrinfo *info = NULL;

	kw_sm_move(&redis->sm, KW_REDIS_CONNECTING, redis->place);
	if (redis->address.local) {
		connect_local(redis);
		return;
	}
	/* A number needs no resolver, and so no thread. */
	if (getaddrinfo(redis->address.host, redis->address.port, &hints, &info) == 0) {
		add_targets(redis, info);
		freeaddrinfo(info);
		start_targets(redis);
		return;
	}
	hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
	look_up(redis, &hints);
}

void kw_redis_connect_abandon(struct kw_redis *redis)
{
	if (!redis->lookup)
		return;
	/* A lookup that already runs cannot be stopped; it frees itself when it is done. */
	redis->lookup->redis = NULL;
	uv_cancel((uv_req_t *)&redis->lookup->request);
	redis->lookup = NULL;
}
