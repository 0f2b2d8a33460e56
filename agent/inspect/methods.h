/*
 * The methods `get`, `verify` and `export` of the agent's control socket, and what they need while
 * they run.
 *
 * One verify and one export run at a time; another is refused meanwhile. If the client leaves, the
 * verify goes on and its answer is dropped; the export ends. Loop thread only.
 */
#ifndef KW_AGENT_INSPECT_METHODS_H
#define KW_AGENT_INSPECT_METHODS_H

#include "agent.h"
#include "control/rpc/rpc.h"

struct kw_inspect;

/* The agent outlives it. */
struct kw_inspect *kw_inspect_new(uv_loop_t *loop, struct kw_agent *agent);

/*
 * Where events go while one runs: {"kind": "export", keys, bytes, progress}, and {"kind": "verify",
 * keys, progress}. NULL: nowhere.
 */
void kw_inspect_set_server(struct kw_inspect *inspect, struct kw_rpc_server *server);

/*
 * What runs is answered with KW_E_STATE; then done is called, and it is freed. Close it before the
 * agent.
 */
void kw_inspect_close(struct kw_inspect *inspect, void (*done)(void *arg), void *arg);

/* Does a verify run? */
bool kw_inspect_verifies(const struct kw_inspect *inspect);

/* params: key (text), database (integer, 0 if not given) */
void kw_inspect_get(struct kw_inspect *inspect, struct kw_rpc_call *call, const json_t *params);

/* params: sample (integer: about so many keys; all if not given) */
void kw_inspect_verify(struct kw_inspect *inspect, struct kw_rpc_call *call, const json_t *params);

/* No params; the writing end of a pipe must come with the request. */
void kw_inspect_export(struct kw_inspect *inspect, struct kw_rpc_call *call);

#endif
