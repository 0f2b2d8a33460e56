#include "ctl/switchover/run.h"

#include "base/clock.h"
#include "ctl/switchover/fence.h"
#include "ctl/switchover/lock.h"
#include "ctl/switchover/proof.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLL_US UINT64_C(20000)
#define LATE_US UINT64_C(1500000) /* the proxy looks for silent commands each second */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

void kw_switchover_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

uint64_t kw_switchover_timeout_us(const struct kw_switchover *run)
{
	return kw_clock_us() + (uint64_t)(run->options.timeout_s * 1e6);
}

int kw_switchover_go_on(struct kw_switchover *run, uint64_t deadline_us, struct kw_error *error)
{
	struct timespec pause = {0, (long)POLL_US * 1000};

	if (interrupted)
		return kw_error_set(error, KW_E_STATE, "interrupted");
	if (kw_clock_us() >= deadline_us)
		return kw_error_set(error, KW_E_TIMEOUT, "not within %g s", run->options.timeout_s);
	nanosleep(&pause, NULL);
	if (kw_switchover_lock_keep(run, error))
		return (int)error->code;
	return kw_switchover_fence_keep(run, error);
}

static int set_old_term(struct kw_switchover *run, uint64_t term, struct kw_error *error)
{
	return kw_site_set_term(&run->sites.from, run->locks.from.token, term, error);
}

static int set_new_term(struct kw_switchover *run, uint64_t term, struct kw_error *error)
{
	return kw_site_set_term(&run->sites.to, run->locks.to.token, term, error);
}

/* Both proxies save the terms that they have: what cannot be saved must not come up later. */
static int do_fence(struct kw_switchover *run, struct kw_error *error)
{
	int code = set_old_term(run, run->facts.from.term, error);

	if (!code)
		code = set_new_term(run, 0, error);
	if (!code)
		code = kw_switchover_fence_close(run, KW_SWITCHOVER_FENCE_S, error);
	if (run->options.fence_command)
		snprintf(run->detail, sizeof run->detail, "by the operator's command");
	else
		snprintf(run->detail, sizeof run->detail,
			"writes wait; should this program die, for %d s at most",
			KW_SWITCHOVER_FENCE_S);
	return code;
}

/*
 * From the first closing of the fence to the moment at which the term is gone nothing may have been
 * changed: the renewal after it says so, and keeps it so until the new primary is confirmed.
 */
static int do_depose(struct kw_switchover *run, struct kw_error *error)
{
	int code = kw_switchover_fence_close(run, KW_SWITCHOVER_FENCE_S, error);

	if (!code)
		code = kw_switchover_get_level(run, error);
	if (!code && interrupted)
		code = kw_error_set(error, KW_E_STATE, "interrupted");
	if (!code)
		code = set_old_term(run, 0, error);
	if (!code)
		code = kw_switchover_fence_close(run, KW_SWITCHOVER_FENCE_S, error);
	snprintf(run->detail, sizeof run->detail, "the old primary had term %" PRIu64,
		run->facts.from.term);
	return code;
}

static int wait_gone(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *agent = &run->sites.agent;
	uint64_t deadline_us = kw_switchover_timeout_us(run);
	int code = 0;

	while (!code) {
		/* A service manager may have started it again: that is another connection. */
		code = kw_site_call(agent, "version", NULL, NULL, error);
		if (code == KW_E_IO)
			return 0;
		code = kw_switchover_go_on(run, deadline_us, error);
	}
	return kw_error_wrap(error, "%s does not end", agent->name);
}

static int wait_primary(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *proxy = &run->sites.to;
	uint64_t deadline_us = kw_switchover_timeout_us(run);
	int code;

	do {
		code = kw_site_look(proxy, error);
		if (!code && strcmp(kw_site_text(proxy, "mandate.role"), "master") == 0)
			return 0;
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
	} while (!code);
	return kw_error_wrap(error, "the new server does not say that it is a primary");
}

static int do_promote(struct kw_switchover *run, struct kw_error *error)
{
	bool replica = run->facts.agent.mode == KW_SWITCHOVER_REPLICA;
	json_t *answer;
	int code = kw_switchover_fence_close(run, run->options.hold_s, error);

	if (!code)
		code = kw_site_call(&run->sites.agent, "shutdown",
			replica ? json_pack("{s:b}", "promote", 1) : NULL, &answer, error);
	if (code)
		return code;
	json_decref(answer);
	code = wait_gone(run, error);
	if (!code)
		code = wait_primary(run, error);
	snprintf(run->detail, sizeof run->detail, "the agent has let the new server go%s",
		replica ? ", and made it a primary" : "");
	return code;
}

static int say_late(double changes, struct kw_error *error)
{
	static const char remedy[] =
		"start the agent again, and run the command again, which then begins anew; or give "
		"up what was written there, and set the new term by hand";

	if (changes > 0)
		return kw_error_set(error, KW_E_REFUSED,
			"%.0f changes were made at the old primary after it was deposed: %s",
			changes, remedy);
	return kw_error_set(error, KW_E_REFUSED,
		"the old proxy or its connection to the old primary began anew after it was "
		"deposed, or its events are not proven, so it is not known whether clients wrote "
		"there: %s",
		remedy);
}

static int look_at_late(struct kw_site *proxy, struct kw_error *error)
{
	int code = kw_site_look(proxy, error);
	double events = kw_site_number(proxy, "mandate.late_events");

	if (code)
		return code;
	if (events > 0 || kw_site_number(proxy, "mandate.late_losses") > 0)
		return say_late(events, error);
	return 0;
}

/*
 * A run before ended here, and its fence may have ended, too. What clients wrote at the old primary
 * since then is in no other server.
 */
static int check_late(struct kw_switchover *run, struct kw_error *error)
{
	const struct kw_switchover_fence *fence = &run->fence;
	uint64_t until_us = kw_clock_us() + LATE_US;
	int code = kw_switchover_fence_close(run, run->options.hold_s, error);

	while (!code && kw_clock_us() < until_us) {
		code = look_at_late(&run->sites.from, error);
		if (!code)
			code = kw_switchover_go_on(run, UINT64_MAX, error);
	}
	if (code || run->options.fence_command)
		return code;
	if (fence->since_last > 0 || (fence->since_last < 0 && !fence->proven))
		return say_late(fence->since_last, error);
	return 0;
}

/*
 * The last moment at which a write that came through the fence can be kept. An old proxy that is
 * gone by now stops nothing, because the agent has let its server go already.
 */
static int check_standing(struct kw_switchover *run, struct kw_error *error)
{
	int code = kw_switchover_fence_check(run, error);

	if (code || run->start.state == KW_SWITCHOVER_PROMOTED)
		return code;
	return kw_switchover_fence_close(run, run->options.hold_s, error) == KW_E_STATE ? KW_E_STATE
											: 0;
}

static int do_confirm(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *proxy = &run->sites.to;
	uint64_t deadline_us;
	int code = run->start.state == KW_SWITCHOVER_PROMOTED ? check_late(run, error) : 0;

	if (!code)
		code = wait_primary(run, error);
	if (!code)
		code = check_standing(run, error);
	if (!code)
		code = set_new_term(run, run->start.to, error);
	kw_switchover_fence_leave(run);
	deadline_us = kw_switchover_timeout_us(run);
	while (!code) {
		code = kw_site_look(proxy, error);
		if (!code && strcmp(kw_site_text(proxy, "mandate.state"), "confirmed") == 0)
			break;
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
	}
	snprintf(run->detail, sizeof run->detail, "the new primary has term %" PRIu64,
		run->start.to);
	return code ? kw_error_wrap(error, "the new primary is not confirmed yet") : 0;
}

/* A list, because the terms of the new proxy count only among those of one list. */
static int retarget(struct kw_switchover *run, struct kw_site *agent, struct kw_error *error)
{
	json_t *proxies = json_pack("[s,s]", run->options.address, kw_site_text(agent, "proxy"));
	json_t *answer;
	int code = kw_site_call(agent, "retarget",
		json_pack("{s:o,s:b}", "proxies", proxies, "save", 1), &answer, error);

	if (!code)
		json_decref(answer);
	return code;
}

static int wait_follows(struct kw_switchover *run, struct kw_site *agent, uint64_t deadline_us,
	struct kw_error *error)
{
	int code;

	do {
		code = kw_site_look(agent, error);
		if (!code && kw_site_number(agent, "history.table.term") >= (double)run->start.to)
			return 0;
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
	} while (!code);
	return kw_error_wrap(error, "%s does not follow the new primary", agent->name);
}

static int do_retarget(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_sites *sites = &run->sites;
	uint64_t deadline_us = kw_switchover_timeout_us(run);
	int code = 0;

	for (size_t i = 0; i < sites->other_count && !code; i++) {
		code = kw_site_look(&sites->others[i], error);
		if (!code &&
			json_array_size(json_object_get(sites->others[i].status, "proxies")) < 2)
			code = retarget(run, &sites->others[i], error);
	}
	for (size_t i = 0; i < sites->other_count && !code; i++)
		code = wait_follows(run, &sites->others[i], deadline_us, error);
	snprintf(run->detail, sizeof run->detail, "%zu other agents follow the new primary",
		sites->other_count);
	return code;
}

int kw_switchover_do(
	struct kw_switchover *run, enum kw_switchover_state state, struct kw_error *error)
{
	static int (*const steps[])(struct kw_switchover * run, struct kw_error * error) = {
		[KW_SWITCHOVER_FENCED] = do_fence,
		[KW_SWITCHOVER_LEVEL] = kw_switchover_level,
		[KW_SWITCHOVER_COMPARED] = kw_switchover_compare,
		[KW_SWITCHOVER_PROVEN] = kw_switchover_prove,
		[KW_SWITCHOVER_DEPOSED] = do_depose,
		[KW_SWITCHOVER_PROMOTED] = do_promote,
		[KW_SWITCHOVER_CONFIRMED] = do_confirm,
		[KW_SWITCHOVER_RETARGETED] = do_retarget,
	};

	run->detail[0] = '\0';
	return steps[state](run, error);
}

int kw_switchover_give_back(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *agent = &run->sites.agent;
	uint64_t deadline_us = kw_switchover_timeout_us(run);
	int code = set_old_term(run, run->start.from, error);

	while (!code) {
		code = kw_site_look(agent, error);
		if (!code && strcmp(kw_site_text(agent, "state"), "warm") == 0)
			return 0;
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
	}
	return kw_error_wrap(error,
		"the old primary has its term %" PRIu64 " again, but %s is "
		"not warm",
		run->start.from, agent->name);
}

/*
 * False: another switch-over has taken over, so nothing here is ours any more. A proxy that does
 * not answer is asked all the same, and what cannot be done is told.
 */
static bool is_ours_to_undo(struct kw_switchover *run)
{
	struct kw_error error;

	if (kw_switchover_lock_again(run, &error) == KW_E_REFUSED) {
		snprintf(run->detail, sizeof run->detail, "nothing was undone: %.130s", error.text);
		return false;
	}
	if (kw_site_term(&run->sites.to) == 0)
		return true;
	snprintf(run->detail, sizeof run->detail,
		"nothing was undone: the new primary was given a term meanwhile");
	return false;
}

void kw_switchover_undo(struct kw_switchover *run, enum kw_switchover_state state)
{
	uint64_t term = run->facts.from.term;
	struct kw_error error;

	run->detail[0] = '\0';
	if (!is_ours_to_undo(run))
		return;
	if (state == KW_SWITCHOVER_DEPOSED && set_old_term(run, term, &error))
		snprintf(run->detail, sizeof run->detail,
			"see that authority.term of the old proxy is %" PRIu64
			", and set it if it is not: %.80s",
			term, error.text);
	/* A fence that is left ends by itself: the sentence of the term is the worse one. */
	if (kw_switchover_fence_open(run, &error) && !run->detail[0])
		snprintf(run->detail, sizeof run->detail, "the fence was not opened: %.120s",
			error.text);
}
