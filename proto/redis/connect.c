/* From an address to a connected socket: resolving off the loop, every address in turn. */
#include "base/buffer.h"
#include "base/clock.h"
#include "redis/connection.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

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

static void attempt_failed(struct kw_redis *redis, const struct kw_error *why)
{
	redis->attempt = *why;
	kw_error_wrap(&redis->attempt, "connect%s%s",
		redis->address.scheme == KW_REDIS_UNIX ? "" : " to ",
		redis->targets[redis->target].name);
}

/* A connection takes the certificates that are current when it begins. */
static enum kw_redis_stream_result open_stream(
	struct kw_redis *redis, struct kw_redis_stream *stream, struct kw_error *error)
{
	const struct kw_redis_target *target = &redis->targets[redis->target];
	enum kw_redis_stream_result result = kw_redis_stream_open(stream, &kw_redis_stream_plain,
		(const struct sockaddr *)&target->address, target->length, error);

	if (result == KW_REDIS_STREAM_FAILED || redis->address.scheme != KW_REDIS_TLS)
		return result;
	if (!kw_redis_stream_secure(stream, redis->tls->context, redis->address.host, error))
		return result;
	kw_redis_stream_close(stream);
	return KW_REDIS_STREAM_FAILED;
}

/*
 * Each address left gets its share of the time left: one that drops packets must not use it up.
 */
static void try_target(struct kw_redis *redis)
{
	uint64_t now = kw_clock_us();
	uint64_t left = redis->ready_until_us > now ? redis->ready_until_us - now : 0;
	struct kw_redis_stream stream = {0};
	enum kw_redis_stream_result result;
	struct kw_error error;

	assert(redis->target < redis->target_count);
	result = open_stream(redis, &stream, &error);
	if (result == KW_REDIS_STREAM_FAILED) {
		attempt_failed(redis, &error);
		kw_redis_connect_next(redis);
		return;
	}
	kw_redis_link_open(redis, &stream, UV_WRITABLE);
	if (kw_redis_is_over(redis))
		return;
	kw_redis_arm(redis, now + left / (uint64_t)(redis->target_count - redis->target));
	if (result == KW_REDIS_STREAM_DONE)
		kw_redis_connect_event(redis);
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
	struct kw_error error;

	assert(redis->sm.state == KW_REDIS_CONNECTING);
	switch (kw_redis_stream_establish(&redis->link->stream, &error)) {
	case KW_REDIS_STREAM_MORE:
	case KW_REDIS_STREAM_DONE:
		kw_redis_connected(redis);
		break;
	case KW_REDIS_STREAM_AGAIN:
		kw_redis_watch(redis->link, kw_redis_events(redis, KW_REDIS_STREAM_ESTABLISH));
		break;
	case KW_REDIS_STREAM_ENDED:
	case KW_REDIS_STREAM_FAILED:
		attempt_failed(redis, &error);
		kw_redis_connect_next(redis);
		break;
	}
}

void kw_redis_connect_late(struct kw_redis *redis)
{
	struct kw_error error;

	if (redis->link && kw_redis_stream_late(&redis->link->stream, &error))
		attempt_failed(redis, &error);
	else
		kw_error_set(&redis->attempt, KW_E_TIMEOUT,
			"connect to %s: no answer in time (%u ms)",
			redis->targets[redis->target].name, redis->connect_timeout_ms);
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
	assert(!redis->lookup);
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
	if (redis->address.scheme == KW_REDIS_UNIX) {
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
