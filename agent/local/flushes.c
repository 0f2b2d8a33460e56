/* Did anybody but us flush, or swap, what the local server holds, or the cursor's library? By the
 * counts of INFO. */
#include "local.h"

static uint64_t count_flushes(struct kw_slice info)
{
	return kw_info_calls(info, "flushall") + kw_info_calls(info, "flushdb") +
	       kw_info_calls(info, "swapdb");
}

/*
 * CONFIG RESETSTAT makes all counts begin anew, and they may have come as far as they were. Our own
 * INFO is among them: each look finds more of those than the last one did, or it was that.
 */
static void note_reset(struct kw_local *local, struct kw_slice info)
{
	uint64_t asked = kw_info_calls(info, "info");

	local->facts.reset = local->known_infos > 0 && asked <= local->known_infos;
	local->facts.resets += local->facts.reset;
	local->known_infos = asked;
}

/*
 * Who loads libraries of their own may do away with ours (FUNCTION FLUSH, FUNCTION RESTORE FLUSH):
 * then it is written again, rather than found missing by the next agent.
 */
static void note_functions(struct kw_local *local, struct kw_slice info)
{
	uint64_t calls = kw_info_calls(info, "function|flush") +
			 kw_info_calls(info, "function|delete") +
			 kw_info_calls(info, "function|restore");

	if (calls != local->known_functions)
		local->written_valid = false;
	local->known_functions = calls;
}

void kw_local_count_flushes(struct kw_local *local, struct kw_slice info)
{
	note_reset(local, info);
	note_functions(local, info);
	local->facts.flushes = count_flushes(info);
	/* Whether this is the data known before, no count can tell. */
	if (local->facts.reset)
		local->known_flushes = UINT64_MAX;
}

/* Those of ours that are on their way over a replication link may be counted already. */
static bool flushed_since_reset(const struct kw_local *local, uint64_t flushes,
	const struct kw_key_counts *before, const struct kw_key_counts *now)
{
	uint64_t ours = local->facts.flushes - local->looked_flushes;

	return flushes > ours + local->flushes_out + local->flushes_unsure ||
	       kw_key_counts_shrunk(before, now) >= 0;
}

/*
 * Fewer calls than were known when it was asked, and not none: counted anew. One of ours may be
 * acknowledged over a replication link since, before the answer with the count of before came here.
 */
static bool flushed_by_others(const struct kw_local *local, uint64_t flushes)
{
	uint64_t known = local->facts.flushes;

	return flushes > known + local->flushes_out + local->flushes_unsure ||
	       (flushes < local->asked_flushes && flushes > 0);
}

bool kw_local_find_flushes(
	struct kw_local *local, struct kw_slice info, const struct kw_key_counts *before)
{
	struct kw_local_facts *facts = &local->facts;
	uint64_t flushes = count_flushes(info);
	struct kw_key_counts now;
	bool foreign;

	note_reset(local, info);
	note_functions(local, info);
	kw_key_counts_set(&now, facts->database_keys);
	foreign = facts->reset ? flushed_since_reset(local, flushes, before, &now)
			       : flushed_by_others(local, flushes);
	if (foreign || facts->reset || local->flushes_unsure || flushes < local->asked_flushes)
		facts->flushes = flushes;
	local->flushes_unsure = 0;
	local->looked_flushes = facts->flushes;
	return foreign;
}
