#include "ctl/switchover/fence.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_US UINT64_C(25000000) /* it is renewed when so much of it is left */
#define COMMAND_MAX 1024

/* The operator's own fence. Its output goes to standard error: ours is JSON. */
static int run_command(const struct kw_switchover *run, const char *word, struct kw_error *error)
{
	char line[COMMAND_MAX];
	int status;

	if (snprintf(line, sizeof line, "( %s %s ) 1>&2", run->options.fence_command, word) >=
		(int)sizeof line)
		return kw_error_set(error, KW_E_ARGUMENT, "--fence-command: it is too long");
	status = system(line);
	if (status == 0)
		return 0;
	return kw_error_set(error, KW_E_REFUSED, "the fence command failed (status %d): %.200s %s",
		status, run->options.fence_command, word);
}

static int ask(struct kw_switchover *run, double seconds, struct kw_error *error)
{
	json_t *answer;
	int code = kw_site_call(
		&run->sites.from, "fence", json_pack("{s:f}", "seconds", seconds), &answer, error);

	if (!code)
		json_decref(answer);
	return code;
}

static int close_by_command(struct kw_switchover *run, struct kw_error *error)
{
	int code = run->fence.until_us ? 0 : run_command(run, "fence", error);

	run->fence.until_us = run->fence.renew_us = UINT64_MAX;
	return code;
}

int kw_switchover_fence_check(const struct kw_switchover *run, struct kw_error *error)
{
	if (kw_clock_us() < run->fence.until_us)
		return 0;
	return kw_error_set(error, KW_E_STATE,
		"the fence ended before it was renewed: was this program stopped, or did the old "
		"proxy hang?");
}

/*
 * The primary can take a renewal long after it was asked for. So the fence before must still stand
 * when the answer comes. Without an answer it may be closed all the same, and is opened at the end.
 */
int kw_switchover_fence_close(struct kw_switchover *run, double seconds, struct kw_error *error)
{
	struct kw_switchover_fence *fence = &run->fence;
	uint64_t now_us = kw_clock_us();
	bool renewed = fence->until_us > 0;
	int code;

	if (run->options.fence_command)
		return close_by_command(run, error);
	if (seconds < KW_SWITCHOVER_FENCE_S)
		seconds = KW_SWITCHOVER_FENCE_S;
	if (!renewed)
		fence->until_us = now_us + (uint64_t)(seconds * 1e6);
	code = ask(run, seconds, error);
	if (!code)
		code = kw_switchover_fence_check(run, error);
	if (code)
		return code;
	fence->seconds = seconds;
	fence->until_us = now_us + (uint64_t)(seconds * 1e6);
	fence->renew_us = fence->until_us - LEFT_US;
	return 0;
}

int kw_switchover_fence_keep(struct kw_switchover *run, struct kw_error *error)
{
	if (!run->fence.until_us || kw_clock_us() < run->fence.renew_us)
		return 0;
	return kw_switchover_fence_close(run, run->fence.seconds, error);
}

void kw_switchover_fence_leave(struct kw_switchover *run)
{
	run->fence.renew_us = UINT64_MAX;
}

int kw_switchover_fence_open(struct kw_switchover *run, struct kw_error *error)
{
	bool acknowledged = run->fence.renew_us > 0;
	int code = 0;

	if (!run->fence.until_us)
		return 0;
	if (run->options.fence_command)
		code = run_command(run, "open", error);
	else
		code = ask(run, 0, error);
	run->fence.until_us = 0;
	/* A user that may not pause the primary may not end that either. */
	return code == KW_E_REFUSED && !acknowledged ? 0 : code;
}

int kw_switchover_fence_note_run(struct kw_switchover *run, struct kw_error *error)
{
	int code = kw_site_look(&run->sites.from, error);

	snprintf(run->fence.run_id, sizeof run->fence.run_id, "%s",
		kw_site_text(&run->sites.from, "mandate.run_id"));
	return code;
}

static int check_run(struct kw_switchover *run, struct kw_error *error)
{
	int code = kw_site_look(&run->sites.from, error);

	if (code ||
		strcmp(kw_site_text(&run->sites.from, "mandate.run_id"), run->fence.run_id) == 0)
		return code;
	return kw_error_set(
		error, KW_E_STATE, "the old primary was started anew, and its fence ended by that");
}

int kw_switchover_fence_note_events(struct kw_switchover *run, struct kw_error *error)
{
	int code = check_run(run, error);

	run->fence.events = kw_site_number(&run->sites.from, "events");
	return code;
}

/* The operator's own fence lets keys expire, which are events, too. */
int kw_switchover_fence_unbroken(struct kw_switchover *run, struct kw_error *error)
{
	double events;
	int code;

	if (run->options.fence_command)
		return 0;
	code = check_run(run, error);
	events = kw_site_number(&run->sites.from, "events");
	if (code || events <= run->fence.events)
		return code;
	return kw_error_set(error, KW_E_STATE,
		"%.0f changes were made at the old primary behind the fence: did another client "
		"end the pause (CLIENT UNPAUSE)?",
		events - run->fence.events);
}
