/*
 * The inside of a connection, shared by the files that make it. These are redis.c (what callers
 * see), connect.c (name, addresses), stream.c, stream_tls.c (the socket), login.c (AUTH, CLIENT
 * SETNAME), stranger.c (what listens there if no server logs us in), connection.c (states, handles,
 * deadlines, the end), connection_io.c (bytes and replies), read_pacing.c (reading by a timer).
 *
 *   ┌─────────┐ loop ┌────────────┐ socket ┌───────┐ SETNAME  ┌───────┐
 *   │ OPENING │─────▶│ CONNECTING │───────▶│ LOGIN │─────────▶│ READY │
 *   └─────────┘      └────────────┘        └───────┘ answered └───────┘
 *        │                 │ no address left   │ refused          │ lost
 *        └─────────────────┴───────┬───────────┴──────────────────┘
 *                                  ▼ failed, or asked to close
 *                             ┌─────────┐ handles closed, ┌────────┐
 *                             │ CLOSING │────────────────▶│ CLOSED │ handlers.closed
 *                             └─────────┘ NULLs told      └────────┘
 *
 * What must hold in each state is kw_redis_machine's invariant (connection.c).
 */
#ifndef KW_REDIS_CONNECTION_H
#define KW_REDIS_CONNECTION_H

#include "base/sm.h"
#include "redis/address.h"
#include "redis/output.h"
#include "redis/pending.h"
#include "redis/raw.h"
#include "redis/redis.h"
#include "redis/reply.h"
#include "redis/stream.h"

#include <sys/socket.h>

/* One read(2): what a server's write(2) holds at most (redis: NET_MAX_WRITES_PER_EVENT). */
#define KW_REDIS_READ_BYTES ((size_t)64 * 1024)

/* The most addresses of a name that are tried. */
#define KW_REDIS_ADDRESSES_MAX 8

enum kw_redis_state {
	KW_REDIS_OPENING,
	KW_REDIS_CONNECTING,
	KW_REDIS_LOGIN,
	KW_REDIS_READY,
	KW_REDIS_CLOSING,
	KW_REDIS_CLOSED,
};

extern const struct kw_sm_conf kw_redis_machine;

/* When input is read. */
enum kw_redis_reading {
	KW_REDIS_READ_DIRECT, /* when it arrives, always */
	KW_REDIS_READ_EAGER,  /* when it arrives, until much of it does */
	KW_REDIS_READ_PACED,  /* when read_timer fires; the socket is not polled for input */
};

enum kw_redis_writing {
	KW_REDIS_WRITE_OPEN,
	KW_REDIS_WRITE_BLOCKED, /* the socket is full: polled for room */
	KW_REDIS_WRITE_FAILED,  /* write_why; the reason can still be in what can be read */
};

/* One socket and its poll handle; on the heap, because each address tried has its own. */
struct kw_redis_link {
	uv_poll_t poll;
	struct kw_redis *redis;
	struct kw_redis_stream stream;
	int events; /* polled now */
};

struct kw_redis_target {
	struct sockaddr_storage address;
	socklen_t length;
	char name[80]; /* for sentences */
};

/* A running name resolution; outlives the connection that gave it up. */
struct kw_redis_lookup;

struct kw_redis {
	struct kw_sm sm;
	uv_loop_t *loop;
	struct kw_redis_handlers handlers;
	char place[320]; /* "redis unix:///path": the beginning of every sentence */
	struct kw_redis_address address;
	const struct kw_tls_current *tls; /* for rediss:// */
	struct kw_port_memory *ports;
	const char *keys; /* how sentences name the keys of the configuration: "redis", … */
	char client_name[KW_REDIS_CLIENT_NAME];
	uint32_t connect_timeout_ms, reply_timeout_ms;

	struct kw_redis_lookup *lookup;
	struct kw_redis_target targets[KW_REDIS_ADDRESSES_MAX];
	int target_count, target; /* target: the one being tried */
	struct kw_error attempt;  /* why the last address failed */
	uint64_t timer_until_us;
	uint64_t ready_until_us; /* the deadline of connect_timeout_ms */

	struct kw_redis_link
		*link;      /* from CONNECTING to READY, while an address is tried or used */
	uv_timer_t timer;   /* connect deadline, then reply timeout */
	uv_idle_t turn;     /* active: something must be written (or begun) this loop turn */
	uv_async_t drained; /* sent by the thread of a stream that was taken over */
	int handles;        /* not yet closed */
	size_t login_bytes; /* of AUTH and SETNAME, still to be written; the rest waits for READY */
	struct kw_output output;
	uint64_t written; /* bytes that the kernel took */
	uint64_t heard;   /* bytes that came */
	enum kw_redis_writing writing;
	struct kw_error write_why;

	enum kw_redis_reading reading;
	bool held; /* not read at all, in whatever way it is read otherwise */
	uv_timer_t read_timer;
	uint64_t measured_us, measured_bytes; /* since when the rate is measured, and what came */

	struct kw_reply_reader *reader;
	struct kw_raw_reader *raw; /* NULL: replies are always parsed */
	struct kw_pending_queue pending;
	uint64_t moved_us;      /* last byte moved, or the moment from which a reply is pending */
	uint64_t silent_us;     /* … the same, of bytes that came alone */
	uint32_t event_replies; /* replies of the present readable event */
	/* MESSAGES: it subscribed. RAW: logged in, and replies stay bytes. STREAM: taken over. */
	enum { KW_REDIS_REPLIES, KW_REDIS_MESSAGES, KW_REDIS_RAW, KW_REDIS_STREAM } input_kind;
	kw_redis_stream_fn stream_fn; /* STREAM: who takes the bytes */
	void *stream_arg;
	bool heard_secret; /* input held a reply to kw_redis_send_secret */
	struct kw_error why;
	uint8_t input[KW_REDIS_READ_BYTES];
};

/* The connection is over; the first reason stays. Callbacks come later, from the loop. */
void kw_redis_fail(struct kw_redis *redis, const struct kw_error *why);
void kw_redis_failf(struct kw_redis *redis, enum kw_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* connect.c: begin; a link in state LOGIN or a failure follows. */
void kw_redis_connect(struct kw_redis *redis);
/* The present attempt failed (redis->attempt says why): the next address, or the end. */
void kw_redis_connect_next(struct kw_redis *redis);
/* The socket of the present attempt reports something. */
void kw_redis_connect_event(struct kw_redis *redis);
/* The time of the present attempt is over. */
void kw_redis_connect_late(struct kw_redis *redis);
/* Closing: let go of a running lookup. */
void kw_redis_connect_abandon(struct kw_redis *redis);

/*
 * login.c: queue it (first of all commands); its replies lead to READY or a failure. The password
 * is in the queued command alone, which is wiped when it is written.
 */
void kw_redis_login(struct kw_redis *redis, const struct kw_redis_options *options);

/* connection.c: handles and deadlines. */
void kw_redis_init_handles(struct kw_redis *redis);
void kw_redis_arm(struct kw_redis *redis, uint64_t until_us);
/* The link takes the stream over, also when it fails. */
void kw_redis_link_open(struct kw_redis *redis, struct kw_redis_stream *stream, int events);
void kw_redis_link_drop(struct kw_redis *redis); /* close socket and handle */
void kw_redis_connected(struct kw_redis *redis); /* CONNECTING -> LOGIN */
void kw_redis_logged_in(struct kw_redis *redis); /* LOGIN -> READY */

/* connection_io.c: bytes and replies. */
void kw_redis_write(struct kw_redis *redis); /* no callbacks: errors are kept for the loop */
void kw_redis_wake(struct kw_redis *redis);  /* look at the connection this loop turn */
void kw_redis_watch(struct kw_redis_link *link, int events);
/* The events of libuv for which this work waits. */
int kw_redis_events(const struct kw_redis *redis, enum kw_redis_stream_work work);
void kw_redis_rewatch(struct kw_redis *redis); /* for what is wanted of it now */
void kw_redis_read(struct kw_redis *redis);    /* what has come */
void kw_redis_drained(uv_async_t *async);      /* the stream's thread has bytes, or gives it back */
bool kw_redis_take(void *redis, const struct kw_reply *reply); /* the reader's sink */

/*
 * stranger.c: it fails before READY. If something else than a server is known to listen there, *why
 * says so from now on.
 */
void kw_redis_name_stranger(struct kw_redis *redis, struct kw_error *why);

/* read_pacing.c: so much was read at once. Shall input be read as it arrives, or by the timer? */
void kw_redis_pace_reads(struct kw_redis *redis, size_t bytes);

static inline bool kw_redis_is_over(const struct kw_redis *redis)
{
	return redis->sm.state >= KW_REDIS_CLOSING;
}

#endif
