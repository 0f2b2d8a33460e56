/*
 * Which proxies a daemon follows, and how it proves itself to them: what the configuration and the
 * control socket say of that. The agent and the gateway have it in common.
 *
 * target.c reads the configuration, methods.c speaks JSON on the control socket. Loop thread only.
 */
#ifndef KW_AGENT_TARGET_TARGET_H
#define KW_AGENT_TARGET_TARGET_H

#include "control/config/config.h"
#include "control/config/keys.h"
#include "follow/scouts.h"
#include "remote/remote.h"
#include "tls/context.h"

#include <jansson.h>

/* What is proved to the proxies. kw_remote_options point into it, so it outlives the follow. */
struct kw_target {
	char name[KW_AGENT_NAME_MAX + 1]; /* `name`, or the host's */
	struct kw_own_key key;
	struct kw_tls_current tls; /* over tcp+tls */
};

/* Addresses that can never work, a name that cannot be told. Nothing is opened. */
int kw_target_check(const struct kw_config *config, struct kw_error *error);

/*
 * Name, key and certificates, and what they are in `remote`; role and rdma.busy are the caller's.
 * At an error kw_target_close gives back what was loaded.
 */
int kw_target_open(struct kw_target *target, const struct kw_config *config,
	struct kw_proxies *proxies, struct kw_remote_options *remote, struct kw_error *error);
void kw_target_close(struct kw_target *target);

/* The files again. *context is the caller's, to be put when everything else was read, too. */
int kw_target_load_tls(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error);

/* ---- methods.c ---- */

/* The proxies of a `retarget`, checked; with `save` they are kept over a restart. */
int kw_target_asked(struct kw_config *config, const json_t *params, struct kw_proxies *proxies,
	struct kw_error *error);

/*
 * Of a status: `proxies`, what is known of each of the list; `compression` and
 * `compression_reason` of the connection to the followed one.
 */
void kw_target_show(json_t *status, const struct kw_scouts *scouts);

#endif
