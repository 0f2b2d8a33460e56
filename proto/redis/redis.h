/*
 * One pipelined connection to a Redis or Valkey server, on a libuv loop (RESP2).
 *
 * Commands are queued without limit here (their senders are bounded) and written once a loop turn.
 * Replies come back in order, each to the function given with its command. Bulk strings at the top
 * level are handed over in place, without a copy. hiredis parses; nothing outside proto/redis
 * includes it.
 *
 * open -> AUTH, SELECT-free handshake (CLIENT SETNAME) -> ready -> … -> closed. No reconnecting
 * here. Loop thread only; callbacks come from the loop, never from within a call.
 *
 * closed says why: KW_E_REFUSED wrong or missing password, protected mode; KW_E_IO not reached, or
 * closed by the server; KW_E_TIMEOUT a deadline of the options; KW_E_PROTOCOL not RESP2, a reply to
 * no command, or beyond the bound of its command (bound.h); KW_E_CONFIG no server listens at the
 * address but something else that is known. The sentence begins with the address and names the
 * remedy.
 */
#ifndef KW_REDIS_REDIS_H
#define KW_REDIS_REDIS_H

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum kw_reply_type {
	KW_REPLY_STATUS,
	KW_REPLY_ERROR,
	KW_REPLY_INTEGER,
	KW_REPLY_STRING,
	KW_REPLY_NIL,
	KW_REPLY_ARRAY,
	/* Only with the option raw_bytes: */
	KW_REPLY_RAW,      /* text: all bytes of the reply, of RESP 2 or 3, whatever its type */
	KW_REPLY_TOO_LONG, /* integer: how many bytes it had; none of them was kept */
};

struct kw_reply {
	enum kw_reply_type type;
	int64_t integer;
	struct kw_slice text; /* status, error, string */
	const struct kw_reply *elements;
	size_t count;
};

#define KW_REDIS_CLIENT_NAME 192

struct kw_port_memory;
struct kw_tls_current;

struct kw_redis_options {
	char address[300]; /* address.h has the forms */
	/* Certificates for rediss://; outlives the connection. Others do not look at it. */
	const struct kw_tls_current *tls;
	/*
	 * What is known of addresses that lead elsewhere (port/memory.h); outlives the connection.
	 * NULL: where nothing logs in, it is not asked what listens there.
	 */
	struct kw_port_memory *ports;
	char username[128];
	struct kw_slice password; /* empty: none; copied */
	/* Where the password of the moment is, for owners that replace it; NULL: it is `password`.
	 */
	const struct kw_slice *present_password;
	/* How sentences name the keys of user and password: "sentinel" for sentinel.username. NULL:
	 * "redis". Outlives the connection. */
	const char *keys;
	char client_name[KW_REDIS_CLIENT_NAME];
	uint32_t connect_timeout_ms; /* until ready; 0: 5000 */
	uint32_t reply_timeout_ms;   /* no byte for this long while replies are pending; 0: 30000 */
	/*
	 * Not 0: from ready on replies are not parsed but handed over as bytes (KW_REPLY_RAW), of
	 * this many at most. So the owner can speak RESP 3 by a HELLO of its own.
	 */
	size_t raw_bytes;
};

struct kw_redis;

/* reply is valid during the call; NULL: the connection was lost before it came. */
typedef void (*kw_reply_fn)(void *arg, const struct kw_reply *reply);

struct kw_redis_handlers {
	void (*ready)(void *arg);
	/* Once, after every pending reply was told as NULL. Call kw_redis_free here or later. */
	void (*closed)(void *arg, const struct kw_error *why);
	/* A pub/sub message (array), on a connection that subscribed. May be NULL. */
	void (*push)(void *arg, const struct kw_reply *message);
	void *arg;
	/* READY: the server denied a command (NOPERM), whose fn is called next. May be NULL. */
	void (*denied)(void *arg);
};

/* KW_E_CONFIG: the address is not one, or is rediss:// and there are no certificates for it. */
int kw_redis_open(uv_loop_t *loop, const struct kw_redis_options *options,
	const struct kw_redis_handlers *handlers, struct kw_redis **redis, struct kw_error *error);

/*
 * Queue one command. fn may be NULL (the reply is dropped). Before ready it waits for the login
 * to be answered. While closing it is not sent any more, but fn gets its NULL like the others. So
 * do not answer a NULL with another command: that would never end. Not after closed.
 */
void kw_redis_send(
	struct kw_redis *redis, kw_reply_fn fn, void *arg, int argc, const struct kw_slice *argv);

/*
 * The same if the command or its reply holds a password. Both are wiped from memory, the command
 * once it is written, the reply once fn returns. Of a reply beyond 4 KiB a part can stay.
 */
void kw_redis_send_secret(
	struct kw_redis *redis, kw_reply_fn fn, void *arg, int argc, const struct kw_slice *argv);

/* The same from words: kw_redis_sendf(r, fn, arg, "CONFIG", "GET", "save", NULL). */
void kw_redis_words(struct kw_redis *redis, kw_reply_fn fn, void *arg, const char *word, ...)
	__attribute__((sentinel));

/*
 * Queue bytes that are already RESP and hold exactly one command. The bytes must stay in place
 * until the reply came or the connection closed: they are written without a copy.
 */
void kw_redis_send_raw(struct kw_redis *redis, kw_reply_fn fn, void *arg, struct kw_slice resp);

/* The same for bytes that need not stay in place: they are copied. */
void kw_redis_send_copy(struct kw_redis *redis, kw_reply_fn fn, void *arg, struct kw_slice resp);

/*
 * Where the last command queued ends among all bytes of this connection; how many of these the
 * kernel has taken. The server cannot have executed a command that ends beyond what was taken.
 * The second one holds until kw_redis_free, also after the connection was lost.
 */
uint64_t kw_redis_queued_to(const struct kw_redis *redis);
uint64_t kw_redis_written_to(const struct kw_redis *redis);

/* Write what is queued now rather than at the end of the loop turn. */
void kw_redis_flush(struct kw_redis *redis);

/*
 * Why the connection ends, as soon as that is known; closed comes later, when the loop has closed
 * its handles. NULL: nothing is wrong with it, or the owner asked to close it.
 */
const char *kw_redis_lost(const struct kw_redis *redis);

/*
 * Since when (kw_clock_us) no byte has come although replies are pending; UINT64_MAX: none are.
 * What the socket holds and the loop has not read yet does not count as come.
 */
uint64_t kw_redis_silent_since(const struct kw_redis *redis);

size_t kw_redis_pending(const struct kw_redis *redis);      /* replies not yet received */
size_t kw_redis_unsent_bytes(const struct kw_redis *redis); /* queued, not yet in the kernel */

/*
 * Pub/sub mode: SUBSCRIBE/PSUBSCRIBE. Confirmations go to fn (one per channel). From then on
 * messages go to handlers.push, and only these commands and PING may be sent. PING's pong, an array
 * in this mode, goes to its fn.
 */
void kw_redis_subscribe(
	struct kw_redis *redis, bool pattern, const char *channel, kw_reply_fn fn, void *arg);

/*
 * Take the stream of bytes over: from now on none is parsed, and all that comes is handed to fn as
 * it comes, plain or decrypted. The owner speaks for itself by kw_redis_put. There is no deadline
 * any more: the owner knows how long silence may last. While the loop is late, a thread takes the
 * bytes from the socket (stream_drain.h).
 *
 * Only when ready, without a reply pending and without a subscription. Bytes that the server sent
 * unasked before that are a failure, because a part of them may have been parsed. fn may close the
 * connection; then the rest of the bytes is not handed over.
 */
typedef void (*kw_redis_stream_fn)(void *arg, struct kw_slice bytes);
void kw_redis_take_over(struct kw_redis *redis, kw_redis_stream_fn fn, void *arg);

/*
 * Of a connection that was taken over: hand no more bytes over until kw_redis_release. They wait in
 * the reserve (stream_drain.h) and in the socket, and in the end the server does. The end of the
 * connection is not noticed meanwhile. Each is harmless twice.
 */
void kw_redis_hold(struct kw_redis *redis);
void kw_redis_release(struct kw_redis *redis);

/* Queue bytes on a connection that was taken over; copied. Dropped while closing. */
void kw_redis_put(struct kw_redis *redis, struct kw_slice bytes);

/*
 * Must the socket be read at each arrival (as at first), or may reading wait for a timer when much
 * comes? If 4 to 32 KiB come in a millisecond, it is read every millisecond then, and the end of
 * the connection is found then, too. The wake-ups of the first are part of the server's own work.
 * Harmless when already closing.
 */
void kw_redis_read_by_timer(struct kw_redis *redis, bool may);

/* closed follows with code KW_OK. Harmless when already closing. */
void kw_redis_close(struct kw_redis *redis);
void kw_redis_free(struct kw_redis *redis);

/* Append one command in RESP to the buffer. */
struct kw_buffer;
void kw_resp_command(struct kw_buffer *buffer, int argc, const struct kw_slice *argv);

#endif
