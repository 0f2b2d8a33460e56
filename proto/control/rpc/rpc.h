/*
 * JSON-RPC 2.0 over a unix socket: one object a line, named parameters.
 *
 * Methods come from one table, which also answers rpc.methods and yields the manual. Unknown
 * parameters are refused before the handler is called (-32602). A handler answers now or later,
 * exactly once, by kw_rpc_result or kw_rpc_fail. If the client is gone by then, the answer is
 * dropped. Connections (64), line length (1 MiB) and calls in flight a connection (64) are bounded.
 * When all connections are taken, an idle one gives way to a new one (crowd.h).
 *
 * Integers are whole, up to 64 bits: a client must not read them as doubles. (HTTP and keywakectl
 * tell large ones as texts: json_text.h. Here that would break clients of version 0.1.)
 *
 * Loop thread only.
 */
#ifndef KW_CONTROL_RPC_RPC_H
#define KW_CONTROL_RPC_RPC_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct kw_rpc_call;
struct kw_rpc_server;

/* params: an object, checked against the method's table; valid until the call is answered. */
typedef void (*kw_rpc_handler)(void *arg, struct kw_rpc_call *call, const json_t *params);

struct kw_rpc_param {
	const char *name;
	json_type type; /* JSON_TRUE for a boolean, JSON_REAL for any number, JSON_NULL for any type
			 */
	bool required;
	const char *doc;
};

#define KW_RPC_PARAMS_MAX 6

struct kw_rpc_method {
	const char *name;
	const char *doc;                               /* one sentence */
	struct kw_rpc_param params[KW_RPC_PARAMS_MAX]; /* ended by a NULL name */
	kw_rpc_handler handler;
};

/* Error codes beyond JSON-RPC's own: -32000 - enum kw_code. */
#define KW_RPC_CODE(code) (-32000 - (int)(code))

/*
 * methods: static, ended by a NULL name. The server itself adds rpc.methods, version, log.set,
 * log.lines and events.subscribe (log lines and kw_rpc_event). The socket gets mode 0660; a stale
 * socket file is replaced, one that answers is KW_E_STATE. SIGPIPE is ignored from then on, unless
 * the process has set a disposition of its own.
 */
int kw_rpc_server_new(uv_loop_t *loop, const char *path, const struct kw_rpc_method *methods,
	const char *program, void *arg, struct kw_rpc_server **server, struct kw_error *error);

/* done is called when all handles are closed and the server is freed; the socket file is removed.
 */
void kw_rpc_server_close(struct kw_rpc_server *server, void (*done)(void *arg), void *arg);

/* Is the client still there? Work that serves only the answer can stop if it is not. */
bool kw_rpc_call_wanted(const struct kw_rpc_call *call);

/*
 * The connection of the call, by a number that no other one of this process has; 0: it is gone. Is
 * it there still? What a client holds can end with its connection.
 */
uint64_t kw_rpc_call_connection(const struct kw_rpc_call *call);
bool kw_rpc_is_connected(const struct kw_rpc_server *server, uint64_t connection);

/*
 * The descriptor that came with the request (SCM_RIGHTS), the caller's from now on; -1: none came.
 * A connection keeps the latest one until a call takes it, or it closes.
 */
int kw_rpc_call_take_fd(struct kw_rpc_call *call);

/* result: the reference is taken over. */
void kw_rpc_result(struct kw_rpc_call *call, json_t *result);
void kw_rpc_fail(struct kw_rpc_call *call, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void kw_rpc_fail_error(struct kw_rpc_call *call, const struct kw_error *error);

/* To every subscriber: {"method":"event","params":{"kind":kind, ...}}. Takes the reference. */
void kw_rpc_event(struct kw_rpc_server *server, const char *kind, json_t *params);

/*
 * The client: blocking, for keywakectl. A call sends one request and waits for its answer, at most
 * timeout_ms (below 0: without limit). params: the reference is taken over; NULL: none.
 *
 * KW_E_REFUSED: the daemon answered with an error (its sentence). KW_E_TIMEOUT: the answer is not
 * there yet; if it comes later, it is passed over. KW_E_IO, KW_E_PROTOCOL: close the client.
 * KW_E_STATE (of open): the queue of waiting connections is full; that may pass.
 */
struct kw_rpc_client;
int kw_rpc_client_open(const char *path, struct kw_rpc_client **client, struct kw_error *error);
void kw_rpc_client_close(struct kw_rpc_client *client);

/*
 * For a program that waits for several daemons at once: open without waiting for room in the queue
 * of connections (KW_E_STATE at once), and the descriptor, which is readable when
 * kw_rpc_client_await with timeout 0 has something to do.
 */
int kw_rpc_client_open_at_once(
	const char *path, struct kw_rpc_client **client, struct kw_error *error);
int kw_rpc_client_fd(const struct kw_rpc_client *client);

/* The process that listens there, as the kernel says it. pid 0: it is of another namespace. */
struct kw_rpc_daemon {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};
int kw_rpc_client_daemon(
	const struct kw_rpc_client *client, struct kw_rpc_daemon *daemon, struct kw_error *error);

int kw_rpc_client_call(struct kw_rpc_client *client, const char *method, json_t *params,
	int timeout_ms, json_t **result, struct kw_error *error);
/*
 * A call in two parts, for calls that take long: the request, with a copy of the descriptor `fd`
 * (-1: none), and its answer. await may be repeated after KW_E_TIMEOUT.
 */
int kw_rpc_client_begin(struct kw_rpc_client *client, const char *method, json_t *params, int fd,
	struct kw_error *error);
int kw_rpc_client_await(
	struct kw_rpc_client *client, int timeout_ms, json_t **result, struct kw_error *error);
/*
 * The next event after events.subscribe; KW_E_TIMEOUT when none came. Events that arrive during a
 * call are kept, the latest 256 of them.
 */
int kw_rpc_client_event(
	struct kw_rpc_client *client, int timeout_ms, json_t **event, struct kw_error *error);

#endif
