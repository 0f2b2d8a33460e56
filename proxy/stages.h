/*
 * The proxy's part of the way of a change, for the method `lag` and the metrics: what each stage
 * means, and what shortens it. Loop thread only.
 */
#ifndef KW_PROXY_STAGES_H
#define KW_PROXY_STAGES_H

#include "control/stage_report.h"
#include "source/source.h"

#include <stdint.h>

/* What the remedies depend on. */
struct kw_proxy_stage_facts {
	enum kw_source_state state;
	struct kw_pace_report pace;
	uint64_t keys_per_second, bytes_per_second; /* source.…; 0: no limit */
	uint64_t full_waiting; /* keys that wait for room: these are in no figure */
};

/* In the order of enum kw_trace_stage; their facts are of the struct above. */
extern const struct kw_stage kw_proxy_stages[];

#endif
