#include "feed/watch/calls.h"

#include "redis/server.h"

#include <string.h>

/* As INFO writes them: a module's in the letters in which the module named them. */
static const char *const names[KW_CALLS] = {"swapdb", "xack", "xreadgroup", "xclaim", "xautoclaim",
	"pfcount", "pfdebug", "VADD", "VREM", "VSETATTR", "debug"};

/* What each command changes; KW_SILENT_NONE: that is no kind of key. */
static const enum kw_silent_kind kinds[KW_CALLS] = {
	[KW_CALL_XACK] = KW_SILENT_STREAM,
	[KW_CALL_XREADGROUP] = KW_SILENT_STREAM,
	[KW_CALL_XCLAIM] = KW_SILENT_STREAM,
	[KW_CALL_XAUTOCLAIM] = KW_SILENT_STREAM,
	[KW_CALL_PFCOUNT] = KW_SILENT_HLL,
	[KW_CALL_PFDEBUG] = KW_SILENT_HLL,
	[KW_CALL_VADD] = KW_SILENT_VECTOR,
	[KW_CALL_VREM] = KW_SILENT_VECTOR,
	[KW_CALL_VSETATTR] = KW_SILENT_VECTOR,
};

static void note(struct kw_calls *calls, enum kw_call call, enum kw_counter_found counted,
	struct kw_calls_found *found)
{
	if (counted == KW_COUNTER_SAME)
		return;
	found->any = true;
	found->kinds[kinds[call]] = true;
	if (call != KW_CALL_SWAPDB)
		return;
	found->swapped = calls->counters[call].others > 0;
	found->may_have_been = !found->swapped && counted == KW_COUNTER_ANEW;
}

struct kw_calls_found kw_calls_look(struct kw_calls *calls, struct kw_slice commandstats,
	bool first, uint64_t infos, bool vectors, uint64_t now_us)
{
	struct kw_calls_found found = {.first = first};
	enum kw_counter_found counted[KW_CALLS];
	uint64_t resets = calls->resets;

	if (first) {
		memset(calls->counters, 0, sizeof calls->counters);
		calls->infos = (struct kw_counter){0};
	}
	/* Ours of each look are counted, or CONFIG RESETSTAT was called. */
	calls->resets = kw_counter_resets(&calls->infos, kw_info_calls(commandstats, "info"),
		resets, infos - calls->infos_looked);
	calls->infos_looked = infos;
	found.reset = calls->resets != resets;
	for (int i = 0; i < KW_CALLS; i++)
		counted[i] =
			kw_counter_look(&calls->counters[i], kw_info_calls(commandstats, names[i]),
				calls->resets, (struct kw_counter_ours){0});
	if (first)
		return found;
	for (int i = 0; i < KW_CALLS; i++)
		note(calls, (enum kw_call)i, counted[i], &found);
	if (counted[KW_CALL_DEBUG] != KW_COUNTER_SAME)
		calls->debugged_us = now_us;
	/* Counters that were reset would lead to a search on servers that have none. */
	found.kinds[KW_SILENT_VECTOR] &= vectors;
	return found;
}

bool kw_calls_debugged(const struct kw_calls *calls, struct kw_slice commandstats,
	uint64_t recent_us, uint64_t now_us)
{
	const struct kw_counter *debug = &calls->counters[KW_CALL_DEBUG];

	if (kw_info_calls(commandstats, names[KW_CALL_DEBUG]) != debug->last)
		return true;
	return calls->debugged_us > 0 && now_us - calls->debugged_us < recent_us;
}
