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

/* What the primary said when it took the pause. */
struct taken {
	char run_id[KW_SWITCHOVER_RUN_ID];
	double changes, saved_s, events, since_last;
	bool proven;
};

static int ask(
	struct kw_switchover *run, double seconds, struct taken *taken, struct kw_error *error)
{
	const char *run_id;
	json_t *answer;
	int code = kw_site_call(&run->sites.from, "fence",
		json_pack("{s:f,s:I}", "seconds", seconds, "lock", run->locks.from.token), &answer,
		error);

	if (code)
		return code;
	run_id = json_string_value(json_object_get(answer, "run_id"));
	snprintf(taken->run_id, sizeof taken->run_id, "%s", run_id ? run_id : "");
	taken->changes = json_number_value(json_object_get(answer, "changes"));
	taken->saved_s = json_number_value(json_object_get(answer, "saved_s"));
	taken->since_last = json_number_value(json_object_get(answer, "since_last"));
	json_decref(answer);
	code = kw_site_look(&run->sites.from, error);
	taken->events = kw_site_number(&run->sites.from, "events");
	taken->proven = strcmp(kw_site_text(&run->sites.from, "flags"), "trusted, unproven") != 0;
	return code;
}

/* Was anything changed at the old primary since its last answer? A save begins the count anew. */
static int check_unbroken(
	const struct kw_switchover_fence *fence, const struct taken *now, struct kw_error *error)
{
	bool saved = now->saved_s != fence->saved_s || now->changes < fence->changes;
	double changes = saved ? now->events - fence->events : now->changes - fence->changes;

	if (strcmp(now->run_id, fence->run_id) != 0)
		return kw_error_set(error, KW_E_STATE,
			"the old primary was started anew, and its fence ended by that");
	if (saved && !now->proven)
		return kw_error_set(error, KW_E_STATE,
			"a save began the old primary's count of changes anew, and its events are "
			"not proven: run the command again");
	if (changes != 0)
		return kw_error_set(error, KW_E_STATE,
			"%.0f changes were made at the old primary behind the fence: did another "
			"client end the pause (CLIENT UNPAUSE)?",
			changes);
	return 0;
}

static int note(struct kw_switchover_fence *fence, const struct taken *taken, bool first,
	struct kw_error *error)
{
	int code = first ? 0 : check_unbroken(fence, taken, error);

	memcpy(fence->run_id, taken->run_id, sizeof fence->run_id);
	fence->changes = taken->changes;
	fence->saved_s = taken->saved_s;
	fence->events = taken->events;
	fence->proven = taken->proven;
	if (first)
		fence->since_last = taken->since_last;
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
	bool first = fence->renew_us == 0;
	struct taken taken;
	int code;

	if (run->options.fence_command)
		return close_by_command(run, error);
	if (seconds < KW_SWITCHOVER_FENCE_S)
		seconds = KW_SWITCHOVER_FENCE_S;
	if (first)
		fence->until_us = now_us + (uint64_t)(seconds * 1e6);
	code = ask(run, seconds, &taken, error);
	if (!code)
		code = kw_switchover_fence_check(run, error);
	if (!code)
		code = note(fence, &taken, first, error);
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
	struct taken taken;
	int code = 0;

	if (!run->fence.until_us)
		return 0;
	if (run->options.fence_command)
		code = run_command(run, "open", error);
	else
		code = ask(run, 0, &taken, error);
	run->fence.until_us = 0;
	/* A user that may not pause the primary may not end that either. */
	return code == KW_E_REFUSED && !acknowledged ? 0 : code;
}
