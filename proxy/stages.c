#include "stages.h"

#include "source/trace.h"

#include <stdio.h>

#define SATURATED 0.9 /* busy or waiting for a core for so much of the time */

static double percent(double share)
{
	return share * 100;
}

static bool is_saturated(const struct kw_pace_report *pace)
{
	return pace->busy + pace->waiting >= SATURATED;
}

static void primary_remedy(const void *arg, char text[KW_REMEDY])
{
	const struct kw_proxy_stage_facts *facts = arg;
	const struct kw_pace_report *pace = &facts->pace;

	if (is_saturated(pace))
		snprintf(text, KW_REMEDY,
			"the primary is saturated (busy %.0f %%, waiting for a core %.0f %% of the "
			"time): give it a core of its own, or take load from it",
			percent(pace->busy), percent(pace->waiting));
	else
		snprintf(text, KW_REMEDY,
			"the network to the primary, or single slow commands there: compare "
			"redis-cli --latency, and see SLOWLOG GET on the primary");
}

static void events_remedy(const void *arg, char text[KW_REMEDY])
{
	(void)arg;
	snprintf(text, KW_REMEDY,
		"the proxy does not get to the end of a turn of its loop: give it a core of its "
		"own (see its CPU in top)");
}

static void limit_remedy(const struct kw_proxy_stage_facts *facts, char text[KW_REMEDY])
{
	if (facts->keys_per_second)
		snprintf(text, KW_REMEDY,
			"source.keys_per_second holds fetching to %llu keys a second: raise it, or "
			"set it to 0",
			(unsigned long long)facts->keys_per_second);
	else
		snprintf(text, KW_REMEDY,
			"source.bytes_per_second holds fetching to %llu bytes a second: raise it, "
			"or set it to 0",
			(unsigned long long)facts->bytes_per_second);
}

static void wait_remedy(const void *arg, char text[KW_REMEDY])
{
	const struct kw_proxy_stage_facts *facts = arg;
	const struct kw_pace_report *pace = &facts->pace;

	if (facts->state == KW_SOURCE_SCANNING || facts->state == KW_SOURCE_RECONCILING)
		snprintf(text, KW_REMEDY,
			"the proxy reads all keys at present, and changed keys wait their turn: "
			"its state and reason say why");
	else if (facts->full_waiting)
		snprintf(text, KW_REMEDY,
			"%llu keys wait for room in the table, and are not in these figures: raise "
			"table.max_bytes",
			(unsigned long long)facts->full_waiting);
	else if (pace->holding)
		snprintf(text, KW_REMEDY,
			"the pace holds fetching back because the primary is busy (%.0f %%, and "
			"waiting for a core %.0f %% of the time): source.primary_share lets "
			"fetching have %.1f %%; raise that, or take load from the primary",
			percent(pace->busy), percent(pace->waiting), percent(pace->target));
	else if (facts->keys_per_second || facts->bytes_per_second)
		limit_remedy(facts, text);
	else
		snprintf(text, KW_REMEDY,
			"keys change faster than they are fetched, or large values rest between "
			"two fetches: see fetch, and `dirty_keys` and `pace` in status");
}

static void fetch_remedy(const void *arg, char text[KW_REMEDY])
{
	const struct kw_proxy_stage_facts *facts = arg;

	if (is_saturated(&facts->pace))
		primary_remedy(arg, text);
	else
		snprintf(text, KW_REMEDY,
			"the primary answers DUMP late: large values, slow commands of other "
			"clients (SLOWLOG GET on the primary), or the network");
}

static void publish_remedy(const void *arg, char text[KW_REMEDY])
{
	(void)arg;
	snprintf(text, KW_REMEDY,
		"the proxy takes long from storing to publishing, once a turn of its loop: give it "
		"a core of its own; `table_cleaner_cpu` in metrics shows what the cleaner takes");
}

const struct kw_stage kw_proxy_stages[] = {
	[KW_TRACE_PRIMARY] = {"primary",
		"round trip to the primary; an event takes at most about so long", primary_remedy},
	[KW_TRACE_EVENTS] = {"events", "event read, until its key is marked as changed",
		events_remedy},
	[KW_TRACE_WAIT] = {"wait", "until the key's value is asked for", wait_remedy},
	[KW_TRACE_FETCH] = {"fetch", "until the value is in the table", fetch_remedy},
	[KW_TRACE_PUBLISH] = {"publish", "until readers can see it", publish_remedy},
	[KW_TRACE_STAGES] = {0},
};
