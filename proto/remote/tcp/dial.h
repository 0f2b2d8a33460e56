/*
 * From a host and a port to a connected socket: the name resolved off the loop, then every address
 * it has, one after the other. Deadline and end are the owner's (kw_remote).
 */
#ifndef KW_REMOTE_TCP_DIAL_H
#define KW_REMOTE_TCP_DIAL_H

#include "remote/carrier.h"
#include "remote/resolve.h"

/* Connected: the socket and its poll handle (not started) are the owner's from now on. */
typedef void (*kw_tcp_dial_connected)(
	struct kw_remote *remote, int fd, uv_poll_t *poll, const struct kw_channel *channel);

struct kw_tcp_dial {
	struct kw_remote *remote;
	kw_tcp_dial_connected connected;
	struct kw_resolve *resolve; /* under way in the thread pool */
	struct addrinfo *addresses, *next;
	int fd;
	uv_poll_t *poll;
	struct kw_error last; /* why the address before failed */
};

/* Called from the loop; failing goes through kw_remote_fail. */
void kw_tcp_dial_start(
	struct kw_tcp_dial *dial, struct kw_remote *remote, kw_tcp_dial_connected connected);

/* Cancel what is under way; harmless when nothing is. */
void kw_tcp_dial_close(struct kw_tcp_dial *dial);

#endif
