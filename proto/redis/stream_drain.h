/*
 * A stream whose bytes a thread takes while its loop cannot keep up.
 *
 *   server ─▶ socket ─▶ loop                          as a rule; the thread sleeps
 *   server ─▶ socket ─▶ thread ─▶ reserve ─▶ loop     while the loop is late
 *
 * A server keeps what a reader has not read, in memory of its own. Beyond a limit it cuts the
 * connection (client-output-buffer-limit), and the reader has to begin anew. A loop can be late: it
 * is in a long turn, has no processor, or needs more time for the bytes than the server did.
 *
 *   ┌───────┐ a full read ┌───────┐ a second without one ┌─────────┐
 *   │ ALONE │────────────▶│       │─────────────────────▶│  RESTS  │
 *   └───────┘             │WATCHES│◀─────────────────────└─────────┘
 *    no thread            │       │      a full read
 *                         └───────┘
 *              the loop has │   ▲ socket and reserve
 *              not emptied  ▼   │ are empty
 *              the socket ┌───────┐
 *              for long   │DRAINS │          from each of them: ENDS
 *                         └───────┘
 *
 * In DRAINS the socket belongs to the thread, otherwise to the loop. So bytes keep their order, and
 * neither waits for the other's system calls. A full read is one that got all it had room for: less
 * than that does not fill a server's memory soon. Nothing is added to the path of a loop that keeps
 * up but an uncontended lock, so a change is told no later than without the thread.
 *
 * The reserve is bounded (KW_REDIS_DRAIN_MOST). When it is full the bytes wait in the socket, as
 * they would without it. Its blocks are left out of core files, and given back when they are read.
 *
 * The loop thread owns the stream; only it calls these functions and those of stream.h.
 */
#ifndef KW_REDIS_STREAM_DRAIN_H
#define KW_REDIS_STREAM_DRAIN_H

#include "redis/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define KW_REDIS_DRAIN_MOST ((size_t)256 << 20)
#define KW_REDIS_DRAIN_BLOCK ((size_t)1 << 20)
/* The socket was not found empty for so long: the loop is late. The thread looks as often. */
#define KW_REDIS_DRAIN_LATE_US 20000
/* Without a full read for so long the thread rests. */
#define KW_REDIS_DRAIN_REST_US 1000000

/*
 * From now on a thread may take the bytes of this open stream. wake is sent whenever the loop
 * should read, or poll the socket again; it outlives the stream. KW_E_NOMEM: nothing has changed.
 */
int kw_redis_stream_drain(struct kw_redis_stream *stream, uv_async_t *wake, struct kw_error *error);

/* Bytes that wait in the reserve. 0: none, or no thread takes them. */
size_t kw_redis_stream_reserve(const struct kw_redis_stream *stream);

#endif
