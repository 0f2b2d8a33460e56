/*
 * What the files of the JSON-RPC server share; not for others.
 *
 *   server.c      accepting, closing
 *   others.c      who may not connect: keywake's other daemons
 *   connection.c  bytes in, lines out, the bounds of both
 *   crowd.c       who gives way when too many are connected
 *   call.c        one line to one call to one answer
 *   builtin.c     the methods every daemon has
 *   logs.c        one of them: the lines of the log
 */
#ifndef KW_CONTROL_RPC_INTERNAL_H
#define KW_CONTROL_RPC_INTERNAL_H

#include "base/buffer.h"
#include "control/rpc/rpc.h"

#include <sys/stat.h>

#define KW_RPC_LINE_MAX ((size_t)1 << 20)
#define KW_RPC_CALLS_MAX 64
#define KW_RPC_CONNECTIONS_MAX 64
#define KW_RPC_OUTPUT_MAX ((size_t)4 << 20)   /* unsent bytes: a reader this slow is let go */
#define KW_RPC_EVENTS_MAX ((size_t)256 << 10) /* unsent bytes above which events are dropped */
#define KW_RPC_READ_BYTES ((size_t)64 << 10)
#define KW_RPC_BACKLOG 16      /* connections not yet accepted */
#define RPC_LOG_LINES_MAX 1024 /* in one answer; the log keeps no more (base/log_ring.h) */
#define KW_RPC_DRAIN_MS 500    /* for answers still unsent when the server closes */

/* JSON-RPC 2.0, section 5.1. */
#define KW_RPC_PARSE (-32700)
#define KW_RPC_INVALID (-32600)
#define KW_RPC_NO_METHOD (-32601)
#define KW_RPC_BAD_PARAMS (-32602)
#define KW_RPC_INTERNAL (-32603)

/*
 * A connection. The socket is read only in OPEN; lines read earlier can be left.
 *
 *   ┌──────┐ 64 calls in flight ┌────────┐
 *   │ OPEN │◀──────────────────▶│ PAUSED │
 *   └──────┘      answered      └────────┘
 *      │ end of file, but the client still reads
 *      ▼
 *   ┌───────┐ 64 calls in flight ┌──────────────┐
 *   │ ENDED │◀──────────────────▶│ ENDED_PAUSED │
 *   └───────┘      answered      └──────────────┘
 *
 *   CLOSING from each: an error, too much unsent, the server closes, or ENDED and all is answered
 *
 * It has no kw_sm: that logs each move, and log lines are sent on these very connections.
 */
enum rpc_state {
	RPC_OPEN,
	RPC_PAUSED,
	RPC_ENDED,
	RPC_ENDED_PAUSED,
	RPC_CLOSING,
};

struct rpc_connection {
	struct kw_rpc_server *server;
	enum rpc_state state; /* moved by connection.c alone */
	struct rpc_connection *next, **link;
	uv_pipe_t pipe;   /* accepted; what goes out */
	uv_poll_t reader; /* what comes in, on a descriptor of its own: libuv hands no files on */
	int reader_fd;
	int passed_fd; /* came with a request and was not taken yet; -1: none */
	int handles;   /* of these two, not yet closed */

	uint64_t number;             /* of no other connection of this process */
	uint32_t uid;                /* of the client */
	uint64_t since_us, heard_us; /* connected; sent something, or was answered */

	struct kw_buffer in;
	size_t scanned;  /* bytes of `in` known to hold no line end */
	bool discarding; /* within a line that was too long */
	bool processing; /* lines are being handled further up the stack */

	struct kw_buffer out, writing; /* appended to; being written: not empty while it is */
	uv_write_t write;

	struct kw_rpc_call *calls;
	int call_count;

	bool subscribed;
	uint64_t dropped; /* events since the last "dropped" event */
};

/* The users of keywake's daemons, as far as this host has them. */
#define RPC_OTHERS_MAX 3

struct rpc_others {
	uid_t uids[RPC_OTHERS_MAX];
	int count;
};

/* Asks for each by name: at the start. */
void rpc_others_find(struct rpc_others *others);

/* Is the peer one of them, and not our own user? */
bool rpc_others_has(const struct rpc_others *others, uid_t peer, uid_t own);

/*
 * Has that user, by this file in the place of /etc/passwd, the name of one of them or of a single
 * instance, "keywake-agent-NAME"? Asked when somebody connects: an instance can come later than us.
 * The file is read by ourselves, because a name service can hang, and the daemon with it.
 */
#define RPC_PASSWD_LINES_MAX 65536 /* the rest of a longer file is not looked at */
bool rpc_others_listed(const char *file, uid_t peer);

/* Either, of the connected socket; root and our own user are none of them. */
bool rpc_others_connected(const struct rpc_others *others, int fd);

struct kw_rpc_server {
	uv_loop_t *loop;
	uv_pipe_t listener;
	uv_idle_t later; /* takes up paused connections, outside of any handler */
	uv_timer_t drain;
	uv_async_t log_news; /* lines were logged, and calls wait for them */
	int handles;         /* of these four, not yet closed */

	const struct kw_rpc_method *methods;
	const char *program;
	void *arg;

	char *path;
	struct stat identity; /* of the socket file: we must not remove a successor's */
	struct rpc_others others;

	struct rpc_connection *connections;
	int connection_count;        /* without those that are closing */
	uint64_t connections_so_far; /* ever */
	bool tapping;
	struct rpc_log_wait *log_waits; /* calls of log.lines that wait for a line */
	uint64_t run; /* tells the numbers of this process's lines from those of another one */

	void (*done)(void *arg); /* NULL until it closes */
	void *done_arg;
};

static inline bool rpc_is_closing(const struct rpc_connection *connection)
{
	return connection->state == RPC_CLOSING;
}

/* Do lines wait until calls are answered? */
static inline bool rpc_is_paused(const struct rpc_connection *connection)
{
	return connection->state == RPC_PAUSED || connection->state == RPC_ENDED_PAUSED;
}

static inline bool rpc_server_is_closing(const struct kw_rpc_server *server)
{
	return server->done != NULL;
}

struct kw_rpc_call {
	struct rpc_connection *connection; /* NULL: gone, the answer is dropped */
	struct kw_rpc_call *next, **link;
	json_t *id; /* NULL: a notification, it wants no answer */
	json_t *params;
};

void rpc_connection_accept(struct kw_rpc_server *server);
void rpc_connection_close(struct rpc_connection *connection);
void rpc_connection_resume(struct rpc_connection *connection); /* paused, and a call is answered */

/* One answer: beyond KW_RPC_OUTPUT_MAX the connection is closed. */
void rpc_connection_send(struct rpc_connection *connection, const char *line, size_t length);

/* One event: beyond KW_RPC_EVENTS_MAX it is dropped and counted. */
void rpc_connection_send_event(struct rpc_connection *connection, const char *line, size_t length);

/* Nothing is owed to the client any more: close what only waited for that. */
void rpc_connection_settle(struct rpc_connection *connection);

/* Take up paused connections in the next turn of the loop. */
void rpc_server_later(struct kw_rpc_server *server);

/* The last handle or connection of a closing server is gone. */
void rpc_server_finish(struct kw_rpc_server *server);

/* One line of the client's. */
void rpc_call_dispatch(struct rpc_connection *connection, const char *line, size_t length);
void rpc_call_answer_error(struct rpc_connection *connection, json_t *id, int code,
	const char *text, const char *word);

/* An event as its line, with the line end; the caller frees it. NULL: it could not be made. */
char *rpc_event_line(const char *kind, json_t *params, size_t *length);

extern const struct kw_rpc_method rpc_builtin_methods[];
void rpc_builtin_log_tap(struct kw_rpc_server *server);
void rpc_builtin_log_untap(struct kw_rpc_server *server);

/* The method log.lines. `open` comes before the first call; `close` answers all that waits. */
void rpc_log_lines(void *server, struct kw_rpc_call *call, const json_t *params);
void rpc_logs_open(struct kw_rpc_server *server);
void rpc_logs_close(struct kw_rpc_server *server);

/* The method of that name: the daemon's, or else a built-in one; NULL: there is none. */
const struct kw_rpc_method *rpc_method_find(const struct kw_rpc_server *server, const char *name);

/* Is it one of rpc_builtin_methods? Their handlers get the server, not the daemon's arg. */
bool rpc_method_is_builtin(const struct kw_rpc_method *method);

#endif
