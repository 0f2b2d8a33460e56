/*
 * The agent's part of the way of a change, for the method `lag` and the metrics: what each stage
 * means, and what shortens it. Loop thread only.
 */
#ifndef KW_AGENT_STAGES_H
#define KW_AGENT_STAGES_H

#include "control/stage_report.h"

#include <stdbool.h>
#include <stdint.h>

/* What the remedies depend on. */
struct kw_agent_stage_facts {
	uint32_t idle_us;      /* poll.idle_us */
	bool busy;             /* poll.busy */
	bool woken;            /* the proxy wakes the agent */
	uint64_t behind_us;    /* the table lags its primary by so much */
	int64_t skew_us;       /* the proxy's clock less ours */
	const char *carrier;   /* "rdma" */
	uint64_t window, used; /* bytes: apply.window_bytes, and how many of them wait */
	uint64_t limit;        /* apply.bytes_per_second, if it holds back; else 0 */
	const char *refusal;   /* of the local server; "": it takes writes */
};

/* In the order of enum kw_progress_stage; their facts are of the struct above. */
extern const struct kw_stage kw_agent_stages[];

#endif
