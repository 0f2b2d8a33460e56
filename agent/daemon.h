/*
 * The agent daemon: configuration, control socket, signals and service manager around one agent.
 * Construction and destruction are in daemon.c, in one order and its reverse; control.c answers for
 * it on the control socket. Loop thread only.
 */
#ifndef KW_AGENT_DAEMON_H
#define KW_AGENT_DAEMON_H

#include "agent.h"
#include "inspect/methods.h"
#include "target/target.h"

#include "base/buffer.h"
#include "control/daemon.h"
#include "control/notify.h"
#include "control/rpc/rpc.h"
#include "control/rpc/waits.h"
#include "control/signals.h"
#include "port/memory.h"

#include <uv.h>

struct kw_agent_daemon {
	struct kw_daemon daemon; /* first: the control methods cast to it */
	uv_loop_t *loop;
	struct kw_agent *agent;
	struct kw_inspect *inspect; /* get, verify, export; NULL once it is closed */
	struct kw_rpc_server *rpc;
	struct kw_rpc_waits waits; /* for tokens */
	uv_prepare_t before_sleep; /* looks at them */
	struct kw_notify notify;
	struct kw_signals signals;
	struct kw_buffer password, masterauth;
	struct kw_slice present_password; /* of `password` */
	struct kw_tls_current redis_tls;  /* of connections to the local server */
	struct kw_tls_current link_tls;   /* … and of its replication link to us */
	struct kw_target target;
	struct kw_port_memory ports; /* what listens where no connection came about */
	char filter_text[256];
	bool closing;
};

/* A kw_config_rule_fn: refuses what can never work, whatever the host has when the agent starts. */
int kw_agent_daemon_check(const struct kw_config *config, struct kw_error *error);

/* A kw_config_look: each file of certificates that cannot be used. */
void kw_agent_daemon_look(const struct kw_config *config, struct kw_config_looked *looked);

/* doctor.c: a kw_config_doctor. */
int kw_agent_doctor(const struct kw_config *config, const struct kw_config_mistakes *mistakes);

/*
 * All of it, or an error with everything undone (the loop must still be run once). The
 * configuration is complete.
 */
int kw_agent_daemon_init(struct kw_agent_daemon *daemon, uv_loop_t *loop, struct kw_config *config,
	struct kw_error *error);

/* Begin to shut down; the loop runs out once all is closed. Harmless when already closing. */
void kw_agent_daemon_shutdown(struct kw_agent_daemon *daemon, const char *why);

/* After the loop has run out. */
void kw_agent_daemon_close(struct kw_agent_daemon *daemon);

/* control.c */
int kw_agent_serve_http(struct kw_agent_daemon *daemon, struct kw_error *error);
extern const struct kw_rpc_method kw_agent_methods[];

#endif
