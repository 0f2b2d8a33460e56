/*
 * The agent's end of a connection over a stream socket: what shm and tcp share. The handshake once
 * it is connected, what the socket is polled for, and how it ends.
 *
 *   kw_stream_end_connected ──wire open──▶ greeting ──handshake──▶ welcomed ──▶ readable, writable
 * … │ failed, closed by the proxy     │                       │
 *            └─────────────────────────────────┴──▶ ops.failed         └──▶ kw_remote_fail
 *
 * Loop thread only.
 */
#ifndef KW_REMOTE_STREAM_END_H
#define KW_REMOTE_STREAM_END_H

#include "remote/carrier.h"
#include "remote/exchange.h"

#include <uv.h>

struct kw_stream_end;

struct kw_stream_end_ops {
	/* The wire is open: what it is bound to, if that is known only now. Not 0: as below. */
	int (*opened)(struct kw_stream_end *end, struct kw_channel *channel,
		struct kw_error *error); /* may be NULL */
	/*
	 * It ended before it was welcomed. The carrier ends the connection, or kw_stream_end_drops
	 * this attempt and makes another one. NULL: kw_remote_fail.
	 */
	void (*failed)(struct kw_remote *remote, const struct kw_error *why);
	/* WELCOME came: what the carrier needs of it. Not 0: the connection fails with *error. */
	int (*welcomed)(struct kw_remote *remote, struct kw_error *error); /* may be NULL */
	/* The socket has bytes (or its end), or takes some; only once the remote is READY. */
	void (*readable)(struct kw_remote *remote);
	void (*writable)(struct kw_remote *remote);
};

struct kw_stream_end {
	const struct kw_stream_end_ops *ops;
	uv_poll_cb on_poll; /* the carrier's: finds this and calls kw_stream_end_polled */
	struct kw_wire wire;
	uv_poll_t *poll; /* NULL: not connected, or let go */
	int events;      /* what it polls for */
	struct kw_channel channel;
	bool greeting; /* the wire is open, and the handshake has begun */
	struct kw_exchange exchange;
};

/* takes_fd: a descriptor can come with WELCOME. */
void kw_stream_end_init(struct kw_stream_end *end, const struct kw_stream_end_ops *ops,
	uv_poll_cb on_poll, bool takes_fd);

/*
 * The wire and the poll handle of its socket (initialised, its data the remote) are the end's: it
 * greets. channel: what the socket is connected to.
 */
void kw_stream_end_connected(struct kw_stream_end *end, struct kw_remote *remote,
	struct kw_wire wire, uv_poll_t *poll, const struct kw_channel *channel);

void kw_stream_end_polled(
	struct kw_stream_end *end, struct kw_remote *remote, int status, int events);

/* Poll for these from now on. */
void kw_stream_end_watch(struct kw_stream_end *end, int events);

/* The connection is over: closed by the proxy (0), or for this errno of the wire. */
void kw_stream_end_lost(struct kw_stream_end *end, struct kw_remote *remote, int errnum);

/* Let go of the socket. kw_stream_end_connected may follow, with another one. */
void kw_stream_end_drop(struct kw_stream_end *end, struct kw_remote *remote);

/* As kw_carrier_ops.close. */
void kw_stream_end_close(struct kw_stream_end *end, struct kw_remote *remote);

#endif
