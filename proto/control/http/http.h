/*
 * What a daemon tells over HTTP: GET /healthz, /readyz, /status and /metrics for probes and
 * monitoring, and / for people. Nothing can be changed by it.
 *
 *     address.h   http.listen
 *     guard.h     who may ask
 *     pages.c     what is answered
 *     page/       the page for people, and the step of the build that makes it one file
 *     connections.c, streams.c, server.c   libmicrohttpd on the daemon's loop
 *
 * Off unless http.listen is set. It runs on the loop, without a thread and without a timer while
 * nobody is connected. A connection has one request and KW_HTTP_LIFE_MS for all of it. If more come
 * than KW_HTTP_CONNECTIONS_MAX, the oldest gives way.
 *
 * The page listens to /events, a stream of server-sent events. It has the daemon's status each
 * KW_HTTP_EVENT_MS, and sooner after a change of state. A stream lasts until its client goes, until
 * the secret is read again, or until the client has not taken an event for KW_HTTP_SLOW_MS. It
 * keeps one event in memory, and one more than KW_HTTP_STREAMS_MAX is refused. Loop thread only.
 */
#ifndef KW_CONTROL_HTTP_HTTP_H
#define KW_CONTROL_HTTP_HTTP_H

#include "base/buffer.h"
#include "base/error.h"
#include "control/config/config.h"
#include "control/transitions.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_HTTP_CONNECTIONS_MAX 32
#define KW_HTTP_LIFE_MS 10000
#define KW_HTTP_REQUEST_MAX 16384 /* bytes of memory for the request's line and headers */

#define KW_HTTP_STREAMS_MAX 8
#define KW_HTTP_EVENT_MS 1000
#define KW_HTTP_EVENT_LEAST_MS 100 /* between two events, however fast the state changes */
#define KW_HTTP_SLOW_MS 10000

#define KW_HTTP_LAG_UNKNOWN UINT64_MAX

#define KW_HTTP_REASON 640

/* Of this moment. */
struct kw_http_readiness {
	bool ready;        /* what is served is complete and as fresh as the daemon promises */
	const char *state; /* static */
	char reason[KW_HTTP_REASON];
	uint64_t lag_us; /* how old what is served may be */
};

/* The daemon's part. */
struct kw_http_source {
	const char *daemon; /* proxy, agent or gateway */
	void (*ready)(void *arg, struct kw_http_readiness *readiness);
	/* As on the control socket. Large numbers are then told as texts (json_text.h). */
	json_t *(*status)(void *arg);
	void (*metrics)(void *arg, struct kw_buffer *text);
	json_t *(*agents)(void *arg); /* as agents.list on the control socket; NULL: it has none */
	const struct kw_transitions *transitions;
	void *arg;
};

/* A kw_config_rule_fn: a port that other hosts reach needs http.secret_file. */
int kw_http_rule(const struct kw_config *config, struct kw_error *error);

struct kw_http_server;

/* *server is NULL if http.listen is empty, and after an error. */
int kw_http_server_new(uv_loop_t *loop, const struct kw_config *config,
	const struct kw_http_source *source, struct kw_http_server **server,
	struct kw_error *error);

/* At once: the source is asked nothing more. The loop then frees it. Nothing for NULL. */
void kw_http_server_close(struct kw_http_server *server);

/*
 * The state or its reason has changed: those who listen are told in the next turns of the loop. It
 * costs nothing while nobody listens. Nothing for NULL.
 */
void kw_http_server_news(struct kw_http_server *server);

/*
 * Read http.secret_file again, in two steps: the second one cannot fail. *guard is NULL for a NULL
 * server. A guard that is not put is given back by kw_http_guard_drop. Streams end
 * when one is put: their clients come back, and prove the new secret.
 */
struct kw_http_guard;
int kw_http_server_reread(struct kw_http_server *server, const struct kw_config *config,
	struct kw_http_guard **guard, struct kw_error *error);
void kw_http_server_put(struct kw_http_server *server, struct kw_http_guard *guard);
void kw_http_guard_drop(struct kw_http_guard *guard);

#endif
