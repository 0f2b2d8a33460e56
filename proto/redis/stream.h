/*
 * The bytes of a connection to a server: a socket, and what is done to them on their way.
 *
 *   connect.c        open, establish ─┐   ┌─▶ plain: read(2), sendmsg(2)      stream.c
 *   connection_io.c  read, write     ─┼──▶┤
 *   connection.c     has_input, close ┘   ├─▶ TLS: a kw_tls_channel             stream_tls.c
 *                                         └─▶ either of them, and a thread      stream_drain.h
 *
 * connect.c chooses by the address (rediss://). What a caller must do for both:
 *
 *   establish   AGAIN until a handshake is done: poll for what the stream wants
 *   read        one that leaves off after MORE asks `pending`: the stream can hold bytes that no
 *               poll of the socket shows
 *   write       what was not taken is given again, unchanged and as long at least
 *   wants       a read can wait for room in the socket, and a write for input
 *
 * Nothing blocks: AGAIN says that the socket must become readable or writable first. EINTR is not
 * seen outside. The owner polls the descriptor. Loop thread only.
 */
#ifndef KW_REDIS_STREAM_H
#define KW_REDIS_STREAM_H

#include "base/error.h"
#include "tls/channel.h"

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

/* What is done, or is to be done, with a stream. */
enum kw_redis_stream_work {
	KW_REDIS_STREAM_ESTABLISH,
	KW_REDIS_STREAM_READ,
	KW_REDIS_STREAM_WRITE,
};

struct kw_redis_stream;

struct kw_redis_stream_ops {
	enum kw_redis_stream_result (*establish)(
		struct kw_redis_stream *stream, struct kw_error *error);
	enum kw_redis_stream_result (*read)(struct kw_redis_stream *stream, void *to, size_t room,
		size_t *got, struct kw_error *error);
	enum kw_redis_stream_result (*write)(struct kw_redis_stream *stream, struct iovec *vectors,
		int count, size_t *put, struct kw_error *error);
	short (*wants)(const struct kw_redis_stream *stream, enum kw_redis_stream_work work);
	bool (*pending)(const struct kw_redis_stream *stream);
	void (*close)(struct kw_redis_stream *stream); /* all but the descriptor */
};

extern const struct kw_redis_stream_ops kw_redis_stream_plain, kw_redis_stream_tls;

struct kw_redis_drain;

struct kw_redis_stream {
	const struct kw_redis_stream_ops *ops; /* NULL: it is not open */
	int fd;
	struct kw_tls_channel *tls;   /* NULL: plain, or drained */
	struct kw_redis_drain *drain; /* NULL: only the loop reads it (stream_drain.h) */
};

/*
 * Open a socket and begin to connect it. DONE: it is connected, AGAIN: it will be writable when it
 * is, or cannot be; kw_redis_stream_establish follows in both cases. FAILED (KW_E_IO, KW_E_NOMEM):
 * nothing is open, and the sentence ends with a remedy.
 */
enum kw_redis_stream_result kw_redis_stream_open(struct kw_redis_stream *stream,
	const struct kw_redis_stream_ops *ops, const struct sockaddr *address, socklen_t length,
	struct kw_error *error);

/*
 * Of a plain stream that was just opened: what travels over it is TLS from its first byte. host:
 * what was dialled. KW_E_ARGUMENT, KW_E_NOMEM: it stays plain, and the caller closes it.
 */
int kw_redis_stream_secure(struct kw_redis_stream *stream, struct kw_tls_context *context,
	const char *host, struct kw_error *error);

/* The socket is ready for what establishing wants. DONE: bytes may be read and written. AGAIN, or
 * FAILED as above. */
enum kw_redis_stream_result kw_redis_stream_establish(
	struct kw_redis_stream *stream, struct kw_error *error);

/* Up to room bytes. *got is 0 unless MORE or DONE. room > 0. */
enum kw_redis_stream_result kw_redis_stream_read(
	struct kw_redis_stream *stream, void *to, size_t room, size_t *got, struct kw_error *error);

/* MORE: *put bytes were taken, and it takes more; DONE: a part. *put is 0 otherwise. No SIGPIPE. */
enum kw_redis_stream_result kw_redis_stream_write(struct kw_redis_stream *stream,
	struct iovec *vectors, int count, size_t *put, struct kw_error *error);

/*
 * POLLIN or POLLOUT: what the socket must become before this work can go on. 0: another thread
 * reads it, and wakes the owner.
 */
short kw_redis_stream_wants(const struct kw_redis_stream *stream, enum kw_redis_stream_work work);

/* Does it hold bytes that no poll of the socket shows? */
bool kw_redis_stream_pending(const struct kw_redis_stream *stream);

/*
 * The time for establishing is over: the sentence of a handshake that has begun. False: there is
 * none; the socket is not connected.
 */
bool kw_redis_stream_late(const struct kw_redis_stream *stream, struct kw_error *error);

/* The remote end is connected (SO_ERROR), or *error says why not, with a remedy. */
enum kw_redis_stream_result kw_redis_stream_connected(
	const struct kw_redis_stream *stream, struct kw_error *error);

/* Has something come that was not read? One system call. */
bool kw_redis_stream_has_input(const struct kw_redis_stream *stream);

/* The loop must not poll the descriptor any more. */
void kw_redis_stream_close(struct kw_redis_stream *stream);

#endif
