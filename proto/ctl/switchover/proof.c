#include "ctl/switchover/proof.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define SLICE_MS 1000  /* of a long call: locks and fence are renewed meanwhile */
#define VERIFY_S 600.0 /* at most, unless --hold is longer */

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

int kw_switchover_get_level(struct kw_switchover *run, struct kw_error *error)
{
	struct kw_site *agent = &run->sites.agent;
	uint64_t deadline_us = kw_switchover_timeout_us(run);
	json_int_t token = 0;
	int passed, code = 0;

	do {
		passed = look_at_barrier(agent, &token, error);
		code = passed < 0 ? -passed : kw_site_look(agent, error);
		if (!code && passed && is_state(agent, "warm"))
			return 0;
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
	} while (!code);
	if (code == KW_E_TIMEOUT && agent->status)
		kw_error_wrap(error, "%s is not level: %.200s", agent->name, agent->why);
	return code;
}

int kw_switchover_level(struct kw_switchover *run, struct kw_error *error)
{
	int code = kw_switchover_get_level(run, error);

	snprintf(run->detail, sizeof run->detail, "version %.0f is applied",
		kw_site_number(&run->sites.agent, "applied_version"));
	return code;
}

/*
 * The answer of a long call that was begun on a connection of its own. Clients wait as long as it
 * takes, and locks and fence are kept meanwhile. KW_E_TIMEOUT: not before the deadline.
 */
static int await(struct kw_switchover *run, struct ctl *ctl, uint64_t deadline_us, json_t **answer,
	struct kw_error *error)
{
	for (;;) {
		int code = kw_rpc_client_await(ctl->client, SLICE_MS, answer, error);

		if (code == KW_E_TIMEOUT)
			code = ctl_check_alive(ctl, error);
		else
			return code;
		if (!code)
			code = kw_switchover_go_on(run, deadline_us, error);
		if (code)
			return code;
	}
}

/* ---- the old proxy's table and its primary ---- */

static void note_compared(struct kw_switchover *run, const json_t *answer)
{
	double changed = json_number_value(json_object_get(answer, "changed"));

	snprintf(run->detail, sizeof run->detail,
		"%.0f keys of the old primary were read again in %.1f s%s",
		json_number_value(json_object_get(answer, "keys")),
		json_number_value(json_object_get(answer, "seconds")),
		changed > 0 ? "" : ", and are in the table");
	if (changed > 0)
		snprintf(run->detail + strlen(run->detail),
			sizeof run->detail - strlen(run->detail),
			": %.0f that no event had told of were mended", changed);
}

/* If this program gives up, its connection ends, and the proxy goes on at its own pace. */
static int compare(struct kw_switchover *run, struct kw_error *error)
{
	struct ctl ctl = {.socket = run->sites.from.ctl.socket};
	uint64_t deadline_us = kw_switchover_timeout_us(run);
	json_t *answer;
	int code = kw_rpc_client_open(ctl.socket, &ctl.client, error);

	if (!code)
		code = kw_rpc_client_begin(
			ctl.client, "reconcile", json_pack("{s:b}", "wait", 1), -1, error);
	if (!code)
		code = await(run, &ctl, deadline_us, &answer, error);
	kw_rpc_client_close(ctl.client);
	if (code == KW_E_TIMEOUT && kw_clock_us() >= deadline_us)
		kw_error_set(error, code,
			"its table was not compared with all keys of the old primary within %g s: "
			"give it more by --timeout; writes wait meanwhile",
			run->options.timeout_s);
	if (code)
		return kw_error_wrap(error, "%s", run->sites.from.name);
	note_compared(run, answer);
	json_decref(answer);
	return 0;
}

/* What the comparison mended comes to the agent like any other change. */
int kw_switchover_compare(struct kw_switchover *run, struct kw_error *error)
{
	int code = compare(run, error);

	return code ? code : kw_switchover_get_level(run, error);
}

/* ---- the agent's data and the table ---- */

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
	double seconds = run->options.hold_s > VERIFY_S ? run->options.hold_s : VERIFY_S;
	uint64_t deadline_us = kw_switchover_timeout_us(run);
	json_t *answer;
	int code = 0;

	while (!code && is_verifying(&run->sites.agent))
		code = kw_switchover_go_on(run, deadline_us, error);
	deadline_us = kw_clock_us() + (uint64_t)(seconds * 1e6);
	if (!code)
		code = kw_rpc_client_open(ctl.socket, &ctl.client, error);
	if (!code)
		code = kw_rpc_client_begin(ctl.client, "verify", NULL, -1, error);
	if (!code)
		code = await(run, &ctl, deadline_us, &answer, error);
	kw_rpc_client_close(ctl.client);
	if (code == KW_E_TIMEOUT && kw_clock_us() >= deadline_us)
		kw_error_set(error, code,
			"the comparison took longer than %g s: give it more by --hold, or take the "
			"audit's word by --audit-age",
			seconds);
	if (!code)
		code = judge_verify(run, answer, error);
	return code ? kw_error_wrap(error, "%s", run->sites.agent.name) : 0;
}

int kw_switchover_prove(struct kw_switchover *run, struct kw_error *error)
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
