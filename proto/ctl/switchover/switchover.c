/* The command: its options, the run from state to state, and what is shown. */
#include "ctl/ctl.h"

#include "base/clock.h"
#include "ctl/switchover/lock.h"
#include "ctl/switchover/run.h"

#include <string.h>
#include <unistd.h>

enum option { DRY_RUN, PROXY, AUDIT_AGE, FENCE_COMMAND, HOLD, TIMEOUT };

#define HOLD_SECONDS 600
#define HOLD_MOST 86400 /* the most that the method fence takes */
#define TIMEOUT_SECONDS 30

static bool read_options(const struct ctl *ctl, struct kw_switchover_options *options)
{
	double age;

	*options = (struct kw_switchover_options){
		.fence_command = ctl->options[FENCE_COMMAND],
		.address = ctl->options[PROXY],
	};
	if (!ctl_seconds(ctl, AUDIT_AGE, -1, &age) ||
		!ctl_seconds(ctl, HOLD, HOLD_SECONDS, &options->hold_s) ||
		!ctl_seconds(ctl, TIMEOUT, TIMEOUT_SECONDS, &options->timeout_s))
		return false;
	if (options->hold_s > HOLD_MOST) {
		ctl_usage("--hold: at most %d seconds, because a proxy lets writes wait no longer",
			HOLD_MOST);
		return false;
	}
	options->audit_age = (int64_t)age;
	return true;
}

/* What the command says at its end: one object, shown in parts on a terminal. */
struct report {
	json_t *checks, *steps;
	const char *state;
	char next[KW_ERROR_TEXT];
	struct kw_error error; /* code KW_OK: none */
};

static void add_step(struct report *report, enum kw_switchover_state state, const char *result,
	const char *detail)
{
	json_array_append_new(
		report->steps, json_pack("{s:s,s:s,s:s}", "step", kw_switchover_name(state),
				       "result", result, "detail", detail));
}

static const struct kw_switchover_check *run_checks(
	struct kw_switchover *run, struct report *report)
{
	static struct kw_switchover_check checks[KW_SWITCHOVER_CHECKS];
	size_t count = kw_switchover_check(&run->facts, &run->start, checks);

	for (size_t i = 0; i < count; i++)
		json_array_append_new(report->checks,
			json_pack("{s:s,s:s,s:s}", "check", checks[i].what, "result",
				checks[i].ok ? "ok" : "no", "reason", checks[i].why));
	return kw_switchover_stop(checks, count);
}

static void ask(struct kw_switchover *run)
{
	run->facts.own_fence = run->options.fence_command != NULL;
	run->facts.addressed = run->options.address != NULL;
	run->facts.audit_age = run->options.audit_age;
	kw_sites_ask(&run->sites, &run->facts);
	kw_switchover_begin(&run->facts, &run->start);
}

/* 0: it may begin; otherwise the report has the sentence. What may pass by itself gets its time. */
static int preflight(struct kw_switchover *run, struct report *report, bool patient)
{
	uint64_t deadline_us = kw_clock_us() + (uint64_t)(run->options.timeout_s * 1e6);
	const struct kw_switchover_check *stop;

	for (;;) {
		json_array_clear(report->checks);
		ask(run);
		if (run->start.state == KW_SWITCHOVER_REFUSED)
			return kw_error_set(&report->error, KW_E_REFUSED, "%s", run->start.why);
		stop = run_checks(run, report);
		if (!stop)
			return 0;
		if (!patient || !stop->passing ||
			kw_switchover_go_on(run, deadline_us, &report->error))
			return kw_error_set(&report->error, KW_E_REFUSED, "%s", stop->why);
	}
}

static void show_plan(struct kw_switchover *run, struct report *report)
{
	if (run->start.give_back)
		add_step(report, KW_SWITCHOVER_PREFLIGHT, "planned",
			"the old primary gets its term back: a run before ended after it was "
			"deposed");
	for (int state = KW_SWITCHOVER_FENCED; state <= KW_SWITCHOVER_RETARGETED; state++) {
		const struct kw_switchover_step *step =
			kw_switchover_step((enum kw_switchover_state)state);

		if (state <= (int)run->start.state)
			continue;
		json_array_append_new(
			report->steps, json_pack("{s:s,s:s,s:s,s:s,s:s}", "step",
					       kw_switchover_name((enum kw_switchover_state)state),
					       "result", "planned", "asks", step->asks, "stops",
					       step->stops, "undo", step->undo));
	}
}

/* A line for each step, on standard error: for the operator who waits, and for a script's log. */
static void say(enum kw_switchover_state state, const char *detail)
{
	char text[KW_ERROR_TEXT * 2];

	fprintf(stderr, "keywakectl: %s%s%s\n", kw_switchover_name(state), *detail ? ": " : "",
		ctl_show_text(detail, text, sizeof text));
	fflush(stderr);
}

static void fail(struct kw_switchover *run, struct report *report, enum kw_switchover_state reached)
{
	enum kw_switchover_state end = kw_switchover_failed(reached);

	add_step(report, (enum kw_switchover_state)(reached + 1), "failed", report->error.text);
	if (end == KW_SWITCHOVER_UNDONE) {
		kw_switchover_undo(run, (enum kw_switchover_state)(reached + 1));
		snprintf(report->next, sizeof report->next, "%s",
			run->detail[0] ? run->detail
				       : "nothing was changed: the old primary takes writes again");
	} else {
		kw_switchover_by_hand(reached, &run->start, report->next, sizeof report->next);
	}
	kw_sm_move(&run->sm, (int)end, "");
	add_step(report, end, "done", report->next);
}

static void go(struct kw_switchover *run, struct report *report)
{
	kw_switchover_init(&run->sm, &run->start);
	while (run->sm.state < KW_SWITCHOVER_RETARGETED) {
		enum kw_switchover_state next = (enum kw_switchover_state)(run->sm.state + 1);

		if (kw_switchover_do(run, next, &report->error)) {
			fail(run, report, (enum kw_switchover_state)run->sm.state);
			return;
		}
		kw_sm_move(&run->sm, (int)next, "");
		add_step(report, next, "done", run->detail);
		say(next, run->detail);
	}
	report->error.code = KW_OK;
	kw_switchover_by_hand(
		KW_SWITCHOVER_RETARGETED, &run->start, report->next, sizeof report->next);
}

/* It did not answer when it was to be locked, and does now. */
static int check_locked(const struct kw_switchover *run, struct kw_error *error)
{
	if ((!run->facts.from.reached || run->locks.from.token) && run->locks.to.token)
		return 0;
	return kw_error_set(error, KW_E_REFUSED,
		"one of the proxies has just come up, and is not locked: run the command again");
}

static void run_all(struct ctl *ctl, struct kw_switchover *run, struct report *report)
{
	bool dry = ctl->options[DRY_RUN] != NULL;
	int code;

	kw_switchover_catch_signals();
	code = dry ? 0 : kw_switchover_lock(run, &report->error);
	if (!code)
		code = preflight(run, report, !dry);
	if (!code && !dry)
		code = check_locked(run, &report->error);

	report->state = kw_switchover_name(code ? KW_SWITCHOVER_REFUSED : KW_SWITCHOVER_PREFLIGHT);
	if (dry && run->start.state != KW_SWITCHOVER_REFUSED)
		show_plan(run, report);
	if (code || dry)
		return;
	if (run->start.give_back) {
		report->state = kw_switchover_name(KW_SWITCHOVER_REFUSED);
		code = kw_switchover_give_back(run, &report->error);
		if (code)
			return;
		say(KW_SWITCHOVER_PREFLIGHT, "the old primary has its term again");
		code = preflight(run, report, true);
	}
	if (code)
		return;
	go(run, report);
	report->state = kw_sm_name(&run->sm);
}

static enum ctl_exit show(struct ctl *ctl, const struct kw_switchover *run, struct report *report)
{
	bool failed = report->error.code != KW_OK;

	if (ctl->json) {
		json_t *json = json_pack("{s:s,s:b,s:I,s:O,s:O,s:s,s:s}", "state", report->state,
			"dry_run", ctl->options[DRY_RUN] != NULL, "term", (json_int_t)run->start.to,
			"checks", report->checks, "steps", report->steps, "error",
			failed ? report->error.text : "", "next", report->next);

		ctl_print_json(json);
		json_decref(json);
	} else {
		if (json_array_size(report->checks) > 0)
			ctl_print_rows(ctl, report->checks);
		if (json_array_size(report->steps) > 0) {
			printf("\n");
			ctl_print_rows(ctl, report->steps);
		}
		if (*report->next)
			printf("\nNext: %s.\n", report->next);
	}
	return failed ? ctl_fail(&report->error) : CTL_DONE;
}

enum ctl_exit ctl_run_switchover(struct ctl *ctl)
{
	struct report report = {.checks = json_array(), .steps = json_array()};
	static struct kw_switchover run; /* some kilobytes of sentences */
	enum ctl_exit status;

	if (ctl->arg_count > 3 + KW_SWITCHOVER_AGENTS)
		return ctl_usage("at most %d other agents", KW_SWITCHOVER_AGENTS);
	if (!read_options(ctl, &run.options))
		return CTL_FAILED;
	kw_sites_open(&run.sites, ctl->args, (size_t)ctl->arg_count);
	run_all(ctl, &run, &report);
	status = show(ctl, &run, &report);
	kw_switchover_unlock(&run);
	kw_sites_close(&run.sites);
	json_decref(report.checks);
	json_decref(report.steps);
	return status;
}
