/*
 * The thread that serves READs over tcp. It knows the memory, its sockets, and nothing else: no
 * libuv, no secret, and of the table only what scoped.h hides from some. One thread for all
 * connections, started with the first tcp listener.
 *
 *   loop thread ──add, end──▶ ┌────────────────────────────┐ ──ended──▶ loop thread
 *                             │ epoll: requests in, replies │
 *                             │ straight out of the memory  │
 *                             └────────────────────────────┘
 *
 * Bounds: each connection has a ring of `depth` requests and a small input buffer. It sends at most
 * KW_SERVE_TURN_BYTES before the next one has its turn. A client that does not read costs nothing
 * more. Replies are sent by the kernel from the memory itself, without a copy in user space, unless
 * the peer may see a part of the table only, or has its answers compressed (packed.h). Then it has
 * one block of its answer in its turn, and a stage of that size. A request that is not allowed ends
 * the connection.
 *
 * Every function is called by the loop thread.
 */
#ifndef KW_REMOTE_TCP_SERVE_H
#define KW_REMOTE_TCP_SERVE_H

#include "auth/scope.h"
#include "base/error.h"
#include "remote/frame.h"
#include "remote/memory.h"
#include "remote/wire.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define KW_SERVE_TURN_BYTES (UINT64_C(1) << 20)
#define KW_SERVE_BATCH 16   /* replies in one system call */
#define KW_SERVE_INPUT 2048 /* bytes of requests looked at in one turn */

struct kw_tcp_serve;

/* What both threads may read. */
struct kw_tcp_conn_shared {
	_Atomic uint64_t reads, bytes; /* answered */
	_Atomic uint64_t wire_bytes;   /* sent: headers and answers, before TLS */
	_Atomic uint64_t passed, applied, lag_us;
	_Atomic uint64_t state[2]; /* up to 16 characters */
	_Atomic uint64_t state_us; /* wall clock, of the first report of that state */
	_Atomic uint16_t ticket;
	_Atomic uint64_t heard_us; /* monotonic, of the last report; 0: none yet. Stored last */
	_Atomic int bye;           /* enum kw_frame_status: the loop thread wants it ended */
};

struct kw_tcp_conn {
	struct kw_tcp_conn_shared shared;
	void *owner;
	bool resumed;    /* a session of TLS */
	const char *tls; /* who encrypts: "software", "kernel"; "": the wire is plain */
	/* Valid once kw_tcp_serve_ended has handed it out: */
	enum kw_frame_status
		ended_by; /* a violation, REVOKED, SHUTDOWN; OK: the connection was lost */
	struct kw_error why;
};

/*
 * wake is called by the serving thread whenever a connection has ended, or an agent waits for
 * another ticket: it must only signal.
 */
struct kw_tcp_serve *kw_tcp_serve_new(
	const struct kw_memory *memory, void (*wake)(void *arg), void *arg, struct kw_error *error);

struct kw_tcp_client {
	uint32_t depth; /* READs in flight at most */
	void *owner;
	const struct kw_scope *scope; /* what it may read; copied. NULL: the whole table */
	int compression;              /* the level; 0: it agreed on none */
};

/*
 * Serve the wire (its socket does not block, and the thread closes it). NULL when it cannot be
 * watched: the wire is still the caller's.
 */
struct kw_tcp_conn *kw_tcp_serve_add(struct kw_tcp_serve *serve, struct kw_wire wire,
	const struct kw_tcp_client *client, struct kw_error *error);

/* End it, after a farewell if one fits; it comes back through kw_tcp_serve_ended. */
void kw_tcp_serve_end(
	struct kw_tcp_serve *serve, struct kw_tcp_conn *conn, enum kw_frame_status bye);

/* One that has ended, to be freed by kw_tcp_conn_free; NULL: no more. */
struct kw_tcp_conn *kw_tcp_serve_ended(struct kw_tcp_serve *serve);
void kw_tcp_conn_free(struct kw_tcp_conn *conn);

/* Has an agent begun to wait for another ticket since this was asked last? */
bool kw_tcp_serve_wished(struct kw_tcp_serve *serve);

/* End all connections and join the thread: kw_tcp_serve_ended then yields all that were left. */
void kw_tcp_serve_stop(struct kw_tcp_serve *serve);
void kw_tcp_serve_free(struct kw_tcp_serve *serve); /* stopped, and all ended ones taken */

#endif
