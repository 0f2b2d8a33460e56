/* Did anybody but us flush, or swap, what the local server holds, or the cursor's library? By the
 * counts of INFO. */
#include "internal.h"

static uint64_t count_flushes(struct kw_slice info)
{
	return kw_info_calls(info, "flushall") + kw_info_calls(info, "flushdb") +
	       kw_info_calls(info, "swapdb");
}

/*
 * Our own INFO is counted, too: each look finds one more of it at least, or the counts began anew.
 * True: they did.
 */
static bool note_reset(struct kw_local *local, struct kw_slice info)
{
	uint64_t before = local->facts.resets;

	local->facts.resets =
		kw_counter_resets(&local->infos, kw_info_calls(info, "info"), before, 1);
	return local->facts.resets != before;
}

/*
 * A client that loads libraries of its own may delete ours (FUNCTION FLUSH, FUNCTION RESTORE
 * FLUSH). Then the cursor is written again, before the next agent finds it missing.
 */
static void note_functions(struct kw_local *local, struct kw_slice info)
{
	uint64_t calls = kw_info_calls(info, "function|flush") +
			 kw_info_calls(info, "function|delete") +
			 kw_info_calls(info, "function|restore");

	if (calls != local->functions.last)
		kw_continuity_unwritten(&local->continuity);
	kw_counter_begin(&local->functions, calls, local->facts.resets);
}

void kw_local_count_flushes(struct kw_local *local, struct kw_slice info)
{
	bool reset = note_reset(local, info);

	note_functions(local, info);
	local->facts.flushes = count_flushes(info);
	/* No count can tell whether this is the data known before. */
	if (reset)
		kw_continuity_uncounted(&local->continuity);
}

/*
 * Our own flushes since the last look. Those sent over a replication link are acknowledged some
 * time after the server has made them, perhaps between the question and its answer.
 */
static struct kw_counter_ours find_ours(const struct kw_local *local)
{
	uint64_t looked = local->flushes.last;
	uint64_t on_their_way = local->flushes_out + local->flushes_unsure;

	return (struct kw_counter_ours){
		.least = local->asked_flushes - looked,
		.most = local->facts.flushes - looked + on_their_way,
	};
}

bool kw_local_find_flushes(
	struct kw_local *local, struct kw_slice info, const struct kw_key_counts *before)
{
	struct kw_local_facts *facts = &local->facts;
	uint64_t flushes = count_flushes(info);
	bool foreign, reset = note_reset(local, info);
	enum kw_counter_found found;
	struct kw_key_counts now;

	note_functions(local, info);
	kw_key_counts_set(&now, facts->database_keys);
	found = kw_counter_look(&local->flushes, flushes, facts->resets, find_ours(local));
	foreign = local->flushes.others > 0;
	/* After a reset some may not be counted any more: do the databases still hold their keys?
	 */
	if (reset)
		foreign |= kw_key_counts_shrunk(before, &now) >= 0;
	else if (found == KW_COUNTER_ANEW)
		foreign |= flushes > 0;
	if (foreign || local->flushes_unsure || found == KW_COUNTER_ANEW)
		facts->flushes = flushes;
	local->flushes_unsure = 0;
	/* Those on their way stay ours to be counted when they are acknowledged. */
	kw_counter_begin(&local->flushes, facts->flushes, facts->resets);
	return foreign;
}
