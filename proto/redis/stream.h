/*
 * The bytes of a connection to a server: a socket, and what is done to them on their way.
 *
 *   connect.c        open, establish ─┐   ┌─▶ plain: read(2), sendmsg(2)
 *   connection_io.c  read, write     ─┼──▶┤
 *   connection.c     has_input, close ┘   └─▶ (TLS: a second table of operations, not written yet)
 *
 * This is the place for TLS to a server. Such a stream brings its operations and its own fields;
 * connect.c chooses it by the address (rediss://). What it must do, and where callers change:
 *
 *   establish   goes on with its handshake: AGAIN until that is done (connect.c waits)
 *   read        MORE while it holds bytes that no poll of the socket shows. kw_redis_read leaves
 *               off after EVENT_BYTES: it must then wake the connection, not wait for the poll
 *   write       what it has not taken is given to it again, unchanged and as long at least
 *   events      if a read waits for room or a write for input, kw_redis_rewatch must poll for it
 *
 * Nothing blocks: AGAIN says that the socket must become readable or writable first. EINTR is not
 * seen outside. The owner polls the descriptor. Loop thread only.
 */
#ifndef KW_REDIS_STREAM_H
#define KW_REDIS_STREAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum kw_redis_stream_result {
	KW_REDIS_STREAM_MORE,   /* done as asked; ask again at once */
	KW_REDIS_STREAM_DONE,   /* done, and nothing more for now: the socket is empty, or full */
	KW_REDIS_STREAM_AGAIN,  /* nothing was done: wait for the socket */
	KW_REDIS_STREAM_ENDED,  /* read: the server closed its side */
	KW_REDIS_STREAM_FAILED, /* *error has the sentence: "read: Connection reset by peer" */
};

struct kw_redis_stream;

struct kw_redis_stream_ops {
	enum kw_redis_stream_result (*establish)(
		struct kw_redis_stream *stream, struct kw_error *error);
	enum kw_redis_stream_result (*read)(struct kw_redis_stream *stream, void *to, size_t room,
		size_t *got, struct kw_error *error);
	enum kw_redis_stream_result (*write)(struct kw_redis_stream *stream, struct iovec *vectors,
		int count, size_t *put, struct kw_error *error);
	void (*close)(struct kw_redis_stream *stream); /* all but the descriptor */
};

extern const struct kw_redis_stream_ops kw_redis_stream_plain;

struct kw_redis_stream {
	const struct kw_redis_stream_ops *ops; /* NULL: it is not open */
	int fd;
};

/*
 * Open a socket and begin to connect it. DONE: it is connected, AGAIN: it will be writable when it
 * is, or cannot be; kw_redis_stream_establish follows in both cases. FAILED (KW_E_IO, KW_E_NOMEM):
 * nothing is open, and the sentence ends with a remedy.
 */
enum kw_redis_stream_result kw_redis_stream_open(struct kw_redis_stream *stream,
	const struct kw_redis_stream_ops *ops, const struct sockaddr *address, socklen_t length,
	struct kw_error *error);

/* The socket is writable. DONE: bytes may be read and written. AGAIN, or FAILED as above. */
enum kw_redis_stream_result kw_redis_stream_establish(
	struct kw_redis_stream *stream, struct kw_error *error);

/* Up to room bytes. *got is 0 unless MORE or DONE. room > 0. */
enum kw_redis_stream_result kw_redis_stream_read(
	struct kw_redis_stream *stream, void *to, size_t room, size_t *got, struct kw_error *error);

/* MORE: all of it was taken; DONE: a part. *put is 0 otherwise. Raises no SIGPIPE. */
enum kw_redis_stream_result kw_redis_stream_write(struct kw_redis_stream *stream,
	struct iovec *vectors, int count, size_t *put, struct kw_error *error);

/* Has something come that was not read? One system call. */
bool kw_redis_stream_has_input(const struct kw_redis_stream *stream);

/* The loop must not poll the descriptor any more. */
void kw_redis_stream_close(struct kw_redis_stream *stream);

#endif
