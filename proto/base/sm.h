/*
 * State machines with their rules written down: a table of the allowed moves, and a trace line at
 * every move. A move that the table does not allow is a bug of ours: it aborts.
 *
 * The states are small integers (an enum), at most 32. conf is static and outlives the machine.
 * One thread.
 */
#ifndef KW_BASE_SM_H
#define KW_BASE_SM_H

#include <stdint.h>

struct kw_sm_state {
	const char *name;
	uint32_t allowed; /* bits of the states one may move to: KW_SM_TO(A) | KW_SM_TO(B) */
};

#define KW_SM_TO(state) (UINT32_C(1) << (state))

struct kw_sm_conf {
	const char *where; /* the name in log lines */
	const struct kw_sm_state *states;
	int count;
};

struct kw_sm {
	const struct kw_sm_conf *conf;
	int state;
	uint64_t moves;
};

void kw_sm_init(struct kw_sm *sm, const struct kw_sm_conf *conf, int state);

/* Move; reason is a sentence for the log ("" for none). Moving to the present state does nothing.
 */
void kw_sm_move(struct kw_sm *sm, int state, const char *reason);

const char *kw_sm_name(const struct kw_sm *sm);

#endif
