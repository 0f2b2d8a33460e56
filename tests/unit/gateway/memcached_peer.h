/*
 * Test helper: a real memcached of one's own on a unix socket in a temporary folder. Failures end
 * the test (cmocka's fail_msg).
 */
#ifndef KW_TESTS_UNIT_GATEWAY_MEMCACHED_PEER_H
#define KW_TESTS_UNIT_GATEWAY_MEMCACHED_PEER_H

#include "base/buffer.h"
#include "base/slice.h"

#include <sys/types.h>

struct memcached_peer {
	pid_t pid;
	char folder[64];
};

void memcached_peer_start(struct memcached_peer *peer, const char *binary);
void memcached_peer_stop(struct memcached_peer *peer);

/* All that it says to these bytes on a connection of their own, appended to reply. */
void memcached_peer_ask(
	struct memcached_peer *peer, struct kw_slice bytes, struct kw_buffer *reply);

#endif
