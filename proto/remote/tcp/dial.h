/*
 * From a host and a port to a proxy that welcomes: the name resolved off the loop, then every
 * address it has, one after the other.
 *
 *   ┌──────┐    ┌──────┐ addresses ┌─────────┐ connected ┌───────┐ welcomed ┌────┐
 *   │ IDLE │───▶│ NAME │──────────▶│ CONNECT │──────────▶│ GREET │─────────▶│ UP │
 *   └──────┘    └──────┘           └─────────┘◀──────────└───────┘          └────┘
 *                                    │    ▲  failed, or late: the next address
 *                                    └────┘
 *   each of these ──kw_tcp_dial_close──▶ CLOSED
 *
 * In GREET the owner has the socket: it opens TLS and shakes hands. Each address but the last gets
 * its share of the time that is left to connect, so that one that swallows packets does not use it
 * up. If none leads to a proxy, the error is that of a proxy that refused, or else that of the last
 * address. The owner (kw_remote) keeps the deadline of the whole. Loop thread only.
 */
#ifndef KW_REMOTE_TCP_DIAL_H
#define KW_REMOTE_TCP_DIAL_H

#include "base/sm.h"
#include "remote/carrier.h"
#include "remote/resolve.h"

enum kw_tcp_dial_state {
	KW_TCP_DIAL_IDLE,
	KW_TCP_DIAL_NAME,
	KW_TCP_DIAL_CONNECT,
	KW_TCP_DIAL_GREET,
	KW_TCP_DIAL_UP,
	KW_TCP_DIAL_CLOSED,
};

struct kw_tcp_dial_handlers {
	/* To GREET: the socket and its poll handle (not started) are the owner's from now on. */
	void (*connected)(struct kw_remote *remote, int fd, uv_poll_t *poll,
		const struct kw_channel *channel);
	/* GREET is over: let go of both. */
	void (*dropped)(struct kw_remote *remote);
};

struct kw_tcp_dial {
	struct kw_sm sm; /* of enum kw_tcp_dial_state */
	struct kw_remote *remote;
	struct kw_tcp_dial_handlers handlers;
	struct kw_resolve *resolve;           /* under way in the thread pool */
	struct addrinfo *addresses, *address; /* all, and the one that is tried */
	uint64_t share_us, give_up_us;        /* for this address; until then */
	int fd;                               /* CONNECT; else -1 */
	uv_poll_t *poll;                      /* the same; else NULL */
	struct kw_error last;                 /* why the earlier addresses failed */
};

void kw_tcp_dial_init(struct kw_tcp_dial *dial, struct kw_remote *remote,
	const struct kw_tcp_dial_handlers *handlers);

/*
 * A turn of the remote. The first one begins. Later ones give an address up that is late. When no
 * address is left, the end is kw_remote_fail.
 */
void kw_tcp_dial_turn(struct kw_tcp_dial *dial);

/* In GREET: this address leads to no proxy. It is dropped, and the next one is tried. */
void kw_tcp_dial_failed(struct kw_tcp_dial *dial, const struct kw_error *why);

/* In GREET: to UP. */
void kw_tcp_dial_done(struct kw_tcp_dial *dial);

/* Cancel what is under way. What the owner has is the owner's to let go. */
void kw_tcp_dial_close(struct kw_tcp_dial *dial);

#endif
