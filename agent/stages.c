#include "stages.h"

#include "sync/level.h"
#include "sync/progress.h"

#include <stdio.h>

#define BEHIND_US                                                                                  \
	300000       /* the table is that old, so it is looked at less often (follow/pause.h)      \
		      */
#define SKEW_US 1000 /* the clocks are so far apart that the figure says little */

static void look_remedy(const void *arg, char text[KW_REMEDY])
{
	const struct kw_agent_stage_facts *facts = arg;

	if (facts->skew_us >= SKEW_US)
		snprintf(text, KW_REMEDY,
			"the clocks of proxy and agent are %.1f ms apart, and this stage compares "
			"them: keep them in step (timedatectl)",
			(double)facts->skew_us / 1e3);
	else if (facts->behind_us >= BEHIND_US && facts->behind_us != KW_LEVEL_LAG_UNKNOWN)
		snprintf(text, KW_REMEDY,
			"the table is behind its primary, so the agent looks at it less often: see "
			"the stages of the proxy");
	else if (facts->busy || facts->idle_us == 0)
		snprintf(text, KW_REMEDY,
			"the agent looks all the time, so it lacks CPU, or the clocks differ: give "
			"it a core of its own, and keep the clocks in step (timedatectl)");
	else if (facts->woken)
		snprintf(text, KW_REMEDY,
			"while little changes, the proxy wakes the agent, so one of the two lacks "
			"CPU; while more changes, it looks at least each %u µs: poll.busy=true "
			"looks "
			"all the time, and takes a core",
			facts->idle_us);
	else
		snprintf(text, KW_REMEDY,
			"while little changes, the agent looks each %u µs: lower poll.idle_us, or "
			"set poll.busy=true, which takes a core",
			facts->idle_us);
}

static bool is_full(const struct kw_agent_stage_facts *facts)
{
	return facts->used >= facts->window / 2;
}

static void apply_remedy(const void *arg, char text[KW_REMEDY])
{
	const struct kw_agent_stage_facts *facts = arg;

	if (*facts->refusal)
		snprintf(
			text, KW_REMEDY, "the local server refuses writes: %.200s", facts->refusal);
	else
		snprintf(text, KW_REMEDY,
			"the local server is slow to acknowledge: other clients, a fork for "
			"saving, "
			"appendfsync, or no core; see SLOWLOG GET and LATENCY LATEST there");
}

static void read_remedy(const void *arg, char text[KW_REMEDY])
{
	const struct kw_agent_stage_facts *facts = arg;

	if (facts->limit > 0)
		snprintf(text, KW_REMEDY,
			"apply.bytes_per_second=%llu holds changes back: raise it, or set it to 0",
			(unsigned long long)facts->limit);
	else if (is_full(facts))
		snprintf(text, KW_REMEDY,
			"changes wait for room, because the local server takes them slower than "
			"they come (%llu of apply.window_bytes=%llu are in use): see apply",
			(unsigned long long)facts->used, (unsigned long long)facts->window);
	else
		snprintf(text, KW_REMEDY,
			"the READs over %s take long: large values, the network to the proxy "
			"(keywakectl doctor measures it), or no core for the agent",
			facts->carrier);
}

const struct kw_stage kw_agent_stages[] = {
	[KW_PROGRESS_LOOK] = {"look", "published, until the agent begins the look that finds it",
		look_remedy},
	[KW_PROGRESS_READ] = {"read", "until all of it is read and sent to the local server",
		read_remedy},
	[KW_PROGRESS_APPLY] = {"apply", "until the local server has acknowledged it", apply_remedy},
	[KW_PROGRESS_STAGES] = {0},
};
