/*
 * The gateway daemon: configuration, control socket, signals and service manager around one table
 * that is followed, and one server. Construction and destruction are in daemon.c, in one order and
 * its reverse. control.c answers for it on the control socket. Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_DAEMON_H
#define KW_AGENT_GATEWAY_DAEMON_H

#include "forward/forward.h"
#include "serve/frontend.h"
#include "table/gets.h"
#include "target/target.h"

#include "base/buffer.h"
#include "control/daemon.h"
#include "control/notify.h"
#include "control/rpc/rpc.h"
#include "control/signals.h"
#include "port/memory.h"

#include <uv.h>

struct kw_gateway {
	struct kw_daemon daemon; /* first: the control methods cast to it */
	uv_loop_t *loop;
	struct kw_gets *gets;             /* NULL once they are closed */
	struct kw_frontend *server;       /* the same */
	struct kw_forward *forward;       /* the same; NULL without gateway.forward, too */
	struct kw_buffer password;        /* of the primary */
	struct kw_slice present_password; /* of `password` */
	struct kw_tls_current redis_tls;  /* of connections to it */
	struct kw_tls_current client_tls; /* of those of our clients */
	struct kw_rpc_server *rpc;
	struct kw_notify notify;
	struct kw_signals signals;
	struct kw_target target;
	struct kw_port_memory ports; /* what listens where no connection came about */
	uint64_t started_us;
	bool closing;
};

/* A kw_config_rule_fn: refuses what can never work, whatever the host has when it starts. */
int kw_gateway_check(const struct kw_config *config, struct kw_error *error);

/* A kw_config_look: each file of users or certificates that cannot be used. */
void kw_gateway_look(const struct kw_config *config, struct kw_config_looked *looked);

/* doctor.c: a kw_config_doctor. */
int kw_gateway_doctor(const struct kw_config *config, const struct kw_config_mistakes *mistakes);

/* Certificate and key for clients; *context NULL: no address speaks TLS. */
int kw_gateway_client_tls(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error);

/*
 * All of it, or an error with everything undone (the loop must still be run once). The
 * configuration is complete.
 */
int kw_gateway_init(struct kw_gateway *gateway, uv_loop_t *loop, struct kw_config *config,
	struct kw_error *error);

/* Begin to shut down; the loop runs out once all is closed. Harmless when already closing. */
void kw_gateway_shutdown(struct kw_gateway *gateway, const char *why);

/* After the loop has run out. */
void kw_gateway_close(struct kw_gateway *gateway);

/* control.c */
int kw_gateway_serve_http(struct kw_gateway *gateway, struct kw_error *error);
extern const struct kw_rpc_method kw_gateway_methods[];

#endif
