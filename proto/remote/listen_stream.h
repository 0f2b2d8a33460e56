/*
 * Listening on a stream socket and the handshakes of those that connect: what the listeners of shm
 * and tcp share.
 *
 *   socket ──accept──▶ joining (a handshake with a deadline) ──welcomed──▶ ops->adopt: a session
 *
 *   ┌──────┐  no descriptor is left       ┌─────────┐
 *   │ OPEN │─────────────────────────────▶│ STARVED │  connections wait in the kernel's queue
 *   │      │◀─────────────────────────────└─────────┘
 *   └──────┘  a second later
 *       each of these ──kw_stream_close──▶ CLOSING
 *
 * A connection is always taken. If KW_SLOTS_MAX are joining, one of them gives way to it
 * (slots.h). Loop thread only.
 */
#ifndef KW_REMOTE_LISTEN_STREAM_H
#define KW_REMOTE_LISTEN_STREAM_H

#include "remote/carrier.h"
#include "remote/slots.h"
#include "remote/wire.h"

#include <uv.h>

struct kw_stream;

struct kw_stream_ops {
	/* A connection came: set it up, and say what is known of it. Not 0: it is rejected. */
	int (*accepted)(const struct kw_stream *stream, int fd, struct kw_arrival *arrival,
		struct kw_error *error);
	/* What speaks on the connection; NULL: it is plain. Not 0: as above. */
	int (*wire)(const struct kw_stream *stream, int fd, struct kw_wire *wire,
		struct kw_error *error);
	/* The wire is open: what is known of the connection now. NULL: nothing more. */
	int (*opened)(const struct kw_stream *stream, const struct kw_wire *wire,
		struct kw_arrival *arrival, struct kw_error *error);
	/* The descriptor that goes with WELCOME; -1: none. */
	int (*give_fd)(struct kw_server *server);
	/* Make the connection the session's; on failure the wire stays the caller's. */
	int (*adopt)(struct kw_session *session, struct kw_wire wire, struct kw_error *error);
	/* The listener is closed: remove what else it had (a socket file). */
	void (*closed)(struct kw_stream *stream);
};

enum kw_stream_state { KW_STREAM_OPEN, KW_STREAM_STARVED, KW_STREAM_CLOSING };

struct kw_stream {
	struct kw_sm sm; /* of enum kw_stream_state */
	struct kw_listener *listener;
	const struct kw_stream_ops *ops;
	void *own; /* the carrier's; freed by ops->closed */
	int fd;
	uv_poll_t poll;
	uv_timer_t retry;      /* STARVED: when it is OPEN again */
	int handles;           /* not yet closed: poll, retry, and two of each joining */
	struct kw_slots slots; /* of the joinings */
	/* Steps of TLS handshakes in one turn of the loop, which is known by its time. */
	uint64_t turn_ms;
	uint32_t turn_steps;
};

/*
 * fd is bound and listening, non-blocking; becomes the stream's, which becomes listener->own. NULL:
 * it cannot be watched, *error says why, and fd is still the caller's.
 */
struct kw_stream *kw_stream_new(struct kw_listener *listener, const struct kw_stream_ops *ops,
	int fd, struct kw_error *error);

/* Ends in ops->closed, then kw_listener_closed. */
void kw_stream_close(struct kw_listener *listener);

#endif
