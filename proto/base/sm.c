#include "base/sm.h"

#include "base/log.h"

#include <assert.h>
#include <stdlib.h>

static const struct kw_sm_state *state_of(const struct kw_sm *sm, int state)
{
	assert(state >= 0 && state < sm->conf->count);
	return &sm->conf->states[state];
}

void kw_sm_check(const struct kw_sm *sm)
{
	if (!sm->conf->invariant || sm->conf->invariant(sm->owner, sm->state))
		return;
	kw_log_error(
		sm->conf->where, "BUG: the invariant of state %s does not hold", kw_sm_name(sm));
	abort();
}

void kw_sm_init(struct kw_sm *sm, const struct kw_sm_conf *conf, const void *owner, int state)
{
	assert(conf->count > 0 && conf->count <= 32);
	*sm = (struct kw_sm){.conf = conf, .owner = owner, .state = state};
	if (!(state_of(sm, state)->marks & KW_SM_INITIAL)) {
		kw_log_error(conf->where, "BUG: %s is no state to begin in", kw_sm_name(sm));
		abort();
	}
	kw_sm_check(sm);
}

void kw_sm_move(struct kw_sm *sm, int state, const char *reason)
{
	const struct kw_sm_state *from = state_of(sm, sm->state);
	const struct kw_sm_state *to = state_of(sm, state);

	if (state == sm->state) {
		kw_sm_check(sm);
		return;
	}
	if ((from->marks & KW_SM_FINAL) || !(from->allowed & KW_SM_TO(state))) {
		kw_log_error(sm->conf->where, "BUG: move from %s to %s is not allowed (%s)",
			from->name, to->name, reason);
		abort();
	}
	kw_log_debug(
		sm->conf->where, "%s -> %s%s%s", from->name, to->name, *reason ? ": " : "", reason);
	sm->state = state;
	sm->moves++;
	kw_sm_check(sm);
}

bool kw_sm_failed(const struct kw_sm *sm)
{
	return state_of(sm, sm->state)->marks & KW_SM_FAILURE;
}

bool kw_sm_ended(const struct kw_sm *sm)
{
	return state_of(sm, sm->state)->marks & KW_SM_FINAL;
}

const char *kw_sm_name(const struct kw_sm *sm)
{
	return state_of(sm, sm->state)->name;
}
