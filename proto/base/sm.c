#include "base/sm.h"

#include "base/log.h"

#include <stdlib.h>

void kw_sm_init(struct kw_sm *sm, const struct kw_sm_conf *conf, int state)
{
	*sm = (struct kw_sm){.conf = conf, .state = state};
}

void kw_sm_move(struct kw_sm *sm, int state, const char *reason)
{
	const struct kw_sm_state *from = &sm->conf->states[sm->state];
	const struct kw_sm_state *to = &sm->conf->states[state];

	if (state == sm->state)
		return;
	if (!(from->allowed & KW_SM_TO(state))) {
		kw_log_error(sm->conf->where, "BUG: move from %s to %s is not allowed (%s)",
			from->name, to->name, reason);
		abort();
	}
	kw_log_debug(
		sm->conf->where, "%s -> %s%s%s", from->name, to->name, *reason ? ": " : "", reason);
	sm->state = state;
	sm->moves++;
}

const char *kw_sm_name(const struct kw_sm *sm)
{
	return sm->conf->states[sm->state].name;
}
