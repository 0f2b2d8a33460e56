/*
 * Which release of the server a reply must look like: some replies changed from one to the next.
 *
 * Pure.
 */
#ifndef KW_AGENT_GATEWAY_RESP_RELEASE_H
#define KW_AGENT_GATEWAY_RESP_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

enum kw_fork { KW_FORK_REDIS, KW_FORK_VALKEY };

/* All zeros: Redis 7.0 or older. */
struct kw_release {
	enum kw_fork fork;
	uint32_t number; /* KW_RELEASE(7, 0) and so on, in the fork's own count */
};

#define KW_RELEASE(major, minor) ((uint32_t)(major)*100 + (uint32_t)(minor))

/* In no release of this fork so far. */
#define KW_RELEASE_NEVER UINT32_MAX

/* Does what began with these releases of Redis and of Valkey hold? */
static inline bool kw_release_since(struct kw_release release, uint32_t redis, uint32_t valkey)
{
	return release.number >= (release.fork == KW_FORK_VALKEY ? valkey : redis);
}

/*
 * What the RDB version of a table's payloads tells, when nothing else is known of the server: 9, 10
 * Redis up to 7.0; 11 the first of both forks after it, taken for Valkey 8.1, as Redis 7.2 is at
 * its end; 12 Redis 7.4 to 8.0, taken for 8.0; 13 and more later ones; 80 and more Valkey 9.
 */
struct kw_release kw_release_of_rdb(uint16_t rdb_version);

#endif
