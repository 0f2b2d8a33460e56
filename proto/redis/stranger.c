/*
 * A connection that ends before anything was logged in: perhaps no server listens there. The bytes
 * that came tell it. If none came, a look at the port does, whose answer is there for the next try.
 */
#include "port/memory.h"
#include "redis/connection.h"

#include <string.h>

/* Bytes of the login's answer, as long as they are the first. */
static enum kw_port_kind judge_bytes(const struct kw_redis *redis)
{
	if (redis->heard == 0 || redis->heard > sizeof redis->input)
		return KW_PORT_UNKNOWN;
	return kw_port_judge_bytes(kw_slice(redis->input, (size_t)redis->heard));
}

/* Before a plain connection has bytes, only its socket can have failed. */
static bool is_strange(const struct kw_redis *redis, enum kw_code code)
{
	if (code != KW_E_IO && code != KW_E_TIMEOUT && code != KW_E_PROTOCOL)
		return false;
	if (redis->address.scheme == KW_REDIS_UNIX)
		return false;
	return redis->sm.state == KW_REDIS_LOGIN ||
	       (redis->sm.state == KW_REDIS_CONNECTING && redis->address.scheme == KW_REDIS_TLS);
}

/* NULL: it is no stranger, or unknown. */
static const char *remedy_for(enum kw_port_kind kind, enum kw_redis_scheme scheme)
{
	switch (kind) {
	case KW_PORT_UNKNOWN:
		return NULL;
	case KW_PORT_REDIS:
		return scheme == KW_REDIS_TLS ? "use redis://, or set tls-port there" : NULL;
	case KW_PORT_TLS:
		return scheme == KW_REDIS_TLS ? NULL : "use rediss://";
	case KW_PORT_BUS:
		return "the server's own port is mostly 10000 below that one";
	default:
		return "put the address of the server there";
	}
}

void kw_redis_name_stranger(struct kw_redis *redis, struct kw_error *why)
{
	bool sentinel = strcmp(redis->keys, "sentinel") == 0;
	const char *key = sentinel ? "sentinel.addresses" : "redis.address";
	enum kw_port_kind kind;
	const char *remedy;

	if (!is_strange(redis, why->code))
		return;
	kind = judge_bytes(redis);
	if (kind == KW_PORT_UNKNOWN)
		kind = kw_port_ask(redis->ports, redis->address.host, redis->address.port);
	remedy = remedy_for(kind, redis->address.scheme);
	if (!remedy)
		return;
	if (kind == KW_PORT_TLS)
		kw_error_set(why, KW_E_CONFIG, "this port speaks TLS: %s (%s)", remedy, key);
	else if (kind == KW_PORT_REDIS)
		kw_error_set(why, KW_E_CONFIG, "this server speaks no TLS: %s (%s)", remedy, key);
	else
		kw_error_set(why, KW_E_CONFIG, "this is no %s but %s: %s (%s)",
			sentinel ? "Sentinel" : "Redis server", kw_port_name(kind), remedy, key);
}
