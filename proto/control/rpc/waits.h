/*
 * Calls that are answered when a barrier has passed, so that a client need not ask again and again.
 *
 *   asked ──▶ WAITS ──▶ it has passed, its time is over, or the client has gone ──▶ answered
 *
 * A call waits for a number, which the owner calls its token. The owner looks before its loop
 * sleeps, after all that could have let one pass. Calls beyond KW_RPC_WAITS are answered at once,
 * as are those after the close; their clients ask again later.
 *
 * The owner keeps the struct until the loop has ended. Loop thread only.
 */
#ifndef KW_CONTROL_RPC_WAITS_H
#define KW_CONTROL_RPC_WAITS_H

#include "control/rpc/rpc.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_RPC_WAITS 32 /* at a time: connections are left for others */
#define KW_RPC_WAIT_MS_MOST 1000

/* The parameter of a method that can wait. */
#define KW_RPC_WAIT_PARAM                                                                          \
	{                                                                                          \
		"wait_ms", JSON_INTEGER, false,                                                    \
			"answer when it has passed, or after so long (at most 1000); 0: at once"   \
	}

struct kw_rpc_waits {
	uv_timer_t timer; /* of the first whose time is over */
	bool (*passed)(void *arg, uint64_t token);
	void *arg;
	uint32_t count, room; /* room 0: closed */
	struct kw_rpc_wait {
		struct kw_rpc_call *call;
		uint64_t token, until_us;
	} list[KW_RPC_WAITS];
};

void kw_rpc_waits_init(struct kw_rpc_waits *waits, uv_loop_t *loop,
	bool (*passed)(void *arg, uint64_t token), void *arg);

/* Answer {token, passed} when it has passed. params: of the call, with KW_RPC_WAIT_PARAM. */
void kw_rpc_waits_add(
	struct kw_rpc_waits *waits, struct kw_rpc_call *call, const json_t *params, uint64_t token);

void kw_rpc_waits_look(struct kw_rpc_waits *waits);

/* All are answered as it is now. Before the server of the calls is closed. */
void kw_rpc_waits_close(struct kw_rpc_waits *waits);

#endif
