#include "ctl/switchover/run.h"

#include "base/clock.h"
#include "ctl/switchover/fence.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLL_US UINT64_C(20000)
#define SLICE_MS 1000             /* of verify: the fence is renewed meanwhile */
#define VERIFY_S 600.0            /* at most, unless --hold is longer */
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

static uint64_t timeout_us(const struct kw_switchover *run)
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
	return kw_switchover_fence_keep(run, error);
}

/* Both proxies save the terms that they have: what cannot be saved must not come up later. */
static int do_fence(struct kw_switchover *run, struct kw_error *error)
{
	int code = kw_site_set_term(&run->sites.from, run->facts.from.term, error);

	if (!code)
		code = kw_site_set_term(&run->sites.to, 0, error);
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

/* 1: the barrier has passed. 0: not yet. */
static int look_at_barrier(struct kw_site *agent, json_int_t *token, struct kw_error *error)
{
	json_t *answer, *passed;
	int code =
		kw_site_call(agent, "barrier", json_pack("{s:I}", "token", *token), &answer, error);

	if (code)
		return -code;
	*token = json_integer_value(json_object_get(answer, "token"));
	passed = json_object_get(answer, "passed");
	code = json_is_true(passed);
	if (!json_is_boolean(passed))
		code = -kw_error_set(error, KW_E_REFUSED,
			"%s: its proxy is of an earlier version and has no barriers: upgrade it",
			agent->name);
	json_decref(answer);
	return code;
}

static bool is_state(const struct kw_site *site, const char *state)
{
	return strcmp(kw_site_text(site, "state"), state) == 0;
}

static int do_level(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *agent = &run->sites.agent;
	uint64_t deadline_us = timeout_us(run);
	json_int_t token = 0;
	int passed, code = 0;

	do {
		passed = look_at_barrier(agent, &token, error);
		code = passed < 0 ? -passed : kw_site_look(agent, error);
		if (!code && passed && is_state(agent, "warm")) {
			snprintf(run->detail, sizeof run->detail, "version %.0f is applied",
				kw_site_number(agent, "applied_version"));
			return 0;
		}
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
	} while (!code);
	if (code == KW_E_TIMEOUT && agent->status)
		kw_error_wrap(error, "%s is not level: %.200s", agent->name, agent->why);
	return code;
}

static int judge_verify(struct kw_switchover *run, json_t *answer, struct kw_error *error)
{
	double unsettled = json_number_value(json_object_get(answer, "unsettled"));
	bool differs = ctl_found_differences(answer);

	snprintf(run->detail, sizeof run->detail, "%.0f keys were compared, and are equal",
		json_number_value(json_object_get(answer, "checked")));
	json_decref(answer);
	if (differs)
		return kw_error_set(error, KW_E_REFUSED,
			"its data differ from the old primary's: `keywakectl verify` shows the "
			"keys");
	if (unsettled > 0)
		return kw_error_set(error, KW_E_REFUSED,
			"%.0f keys changed while they were compared: does another client write to "
			"its server?",
			unsettled);
	return 0;
}

/*
 * The answer of a verify that was begun; the fence is renewed meanwhile. Clients wait as long as
 * this takes.
 */
static int await_verify(struct kw_switchover *run, struct ctl *ctl, struct kw_error *error)
{
	double seconds = run->options.hold_s > VERIFY_S ? run->options.hold_s : VERIFY_S;
	uint64_t deadline_us = kw_clock_us() + (uint64_t)(seconds * 1e6);
	json_t *answer;
	int code;

	for (;;) {
		code = kw_rpc_client_await(ctl->client, SLICE_MS, &answer, error);
		if (!code)
			return judge_verify(run, answer, error);
		if (code == KW_E_TIMEOUT)
			code = ctl_check_alive(ctl, error);
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
		if (code == KW_E_TIMEOUT)
			return kw_error_set(error, code,
				"the comparison took longer than %g s: give it more by --hold, or "
				"take the audit's word by --audit-age",
				seconds);
		if (code)
			return code;
	}
}

/* Has the verify of a program that was killed not ended yet? */
static bool is_verifying(struct kw_site *agent)
{
	struct kw_error error;

	return kw_site_look(agent, &error) == 0 &&
	       json_is_true(json_object_get(agent->status, "verifying"));
}

/* On a connection of its own: it takes long. */
static int verify(struct kw_switchover *run, struct kw_error *error)
{
	struct ctl ctl = {.socket = run->sites.agent.ctl.socket};
	uint64_t deadline_us = timeout_us(run);
	int code = 0;

	while (!code && is_verifying(&run->sites.agent))
		code = kw_switchover_go_on(run, deadline_us, error);
	if (!code)
		code = kw_rpc_client_open(ctl.socket, &ctl.client, error);
	if (!code)
		code = kw_rpc_client_begin(ctl.client, "verify", NULL, -1, error);
	if (!code)
		code = await_verify(run, &ctl, error);
	kw_rpc_client_close(ctl.client);
	return code ? kw_error_wrap(error, "%s", run->sites.agent.name) : 0;
}

static int do_prove(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *agent = &run->sites.agent;
	int code;

	if (run->options.audit_age < 0)
		return verify(run, error);
	code = kw_site_look(agent, error);
	if (code)
		return code;
	snprintf(run->detail, sizeof run->detail, "every key was compared within %.0f s",
		kw_site_number(agent, "proven_equal_s"));
	if (json_is_integer(json_object_get(agent->status, "proven_equal_s")) &&
		kw_site_number(agent, "proven_equal_s") <= (double)run->options.audit_age)
		return 0;
	return kw_error_set(
		error, KW_E_REFUSED, "%s: the audit is older than --audit-age", agent->name);
}

/*
 * Was the fence open for a moment since it was closed first? Then the agent has what was written,
 * because it gets level once more. From here on it must stand until the term is gone.
 */
static int prepare_depose(struct kw_switchover *run, struct kw_error *error)
{
	int code = kw_switchover_fence_note_run(run, error);

	if (!code)
		code = kw_switchover_fence_close(run, KW_SWITCHOVER_FENCE_S, error);
	if (!code)
		code = do_level(run, error);
	if (!code)
		code = kw_switchover_fence_note_events(run, error);
	if (!code && interrupted)
		code = kw_error_set(error, KW_E_STATE, "interrupted");
	return code;
}

static int do_depose(struct kw_switchover *run, struct kw_error *error)
{
	int code = prepare_depose(run, error);

	if (!code)
		code = kw_site_set_term(&run->sites.from, 0, error);
	if (!code)
		code = kw_switchover_fence_check(run, error);
	if (!code)
		code = kw_switchover_fence_unbroken(run, error);
	snprintf(run->detail, sizeof run->detail, "the old primary had term %" PRIu64,
		run->facts.from.term);
	return code;
}

static int wait_gone(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *agent = &run->sites.agent;
	uint64_t deadline_us = timeout_us(run);
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
	uint64_t deadline_us = timeout_us(run);
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

static int judge_late(const struct kw_site *proxy, struct kw_error *error)
{
	static const char remedy[] =
		"start the agent again, and run the command again, which then begins anew; or give "
		"up what was written there, and set the new term by hand";
	double events = kw_site_number(proxy, "mandate.late_events");

	if (events > 0)
		return kw_error_set(error, KW_E_REFUSED,
			"%.0f changes were made at the old primary after it was deposed: %s",
			events, remedy);
	if (kw_site_number(proxy, "mandate.late_losses") > 0)
		return kw_error_set(error, KW_E_REFUSED,
			"the old proxy or its connection to the old primary began anew after it "
			"was deposed, so it is not known whether clients wrote there: %s",
			remedy);
	return 0;
}

/*
 * A run before ended here, and its fence may have ended, too. What clients wrote at the old primary
 * since then is in no other server.
 */
static int check_late(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *proxy = &run->sites.from;
	uint64_t until_us = kw_clock_us() + LATE_US;
	int code = kw_switchover_fence_close(run, run->options.hold_s, error);

	while (!code && kw_clock_us() < until_us) {
		code = kw_site_look(proxy, error);
		if (!code)
			code = judge_late(proxy, error);
		if (!code)
			code = kw_switchover_go_on(run, UINT64_MAX, error);
	}
	return code;
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
	return kw_switchover_fence_unbroken(run, error) == KW_E_STATE ? KW_E_STATE : 0;
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
		code = kw_site_set_term(proxy, run->start.to, error);
	kw_switchover_fence_leave(run);
	deadline_us = timeout_us(run);
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
	uint64_t deadline_us = timeout_us(run);
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
		[KW_SWITCHOVER_LEVEL] = do_level,
		[KW_SWITCHOVER_PROVEN] = do_prove,
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
	uint64_t deadline_us = timeout_us(run);
	int code = kw_site_set_term(&run->sites.from, run->start.from, error);

	while (!code) {
		code = kw_site_look(agent, error);
		if (!code && is_state(agent, "warm"))
			return 0;
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
	}
	return kw_error_wrap(error,
		"the old primary has its term %" PRIu64 " again, but %s is "
		"not warm",
		run->start.from, agent->name);
}

void kw_switchover_undo(struct kw_switchover *run, enum kw_switchover_state state)
{
	uint64_t term = run->facts.from.term;
	struct kw_error error;

	run->detail[0] = '\0';
	if (state == KW_SWITCHOVER_DEPOSED && kw_site_set_term(&run->sites.from, term, &error))
		snprintf(run->detail, sizeof run->detail,
			"see that authority.term of the old proxy is %" PRIu64
			", and set it if it is not: %.80s",
			term, error.text);
	/* A fence that is left ends by itself: the sentence of the term is the worse one. */
	if (kw_switchover_fence_open(run, &error) && !run->detail[0])
		snprintf(run->detail, sizeof run->detail, "the fence was not opened: %.120s",
			error.text);
}
