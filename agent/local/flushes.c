#include "flushes.h"

#include <assert.h>

void kw_flushes_begin(struct kw_flushes *flushes, const struct kw_local_facts *facts)
{
	flushes->accounted = facts->flushes;
	kw_flushes_continue(flushes, facts);
}

void kw_flushes_continue(struct kw_flushes *flushes, const struct kw_local_facts *facts)
{
	flushes->asked = flushes->accounted;
	kw_counter_begin(&flushes->counter, flushes->accounted, facts->resets);
}

static uint64_t on_their_way(const struct kw_flushes *flushes)
{
	return flushes->sent + flushes->unsure;
}

bool kw_flushes_explain(const struct kw_flushes *flushes, const struct kw_local_facts *facts)
{
	uint64_t accounted = flushes->accounted;

	/* One of ours can be acknowledged after INFO was answered without it. */
	return facts->resets == flushes->counter.resets && facts->flushes >= flushes->asked &&
	       (facts->flushes <= accounted || facts->flushes - accounted <= on_their_way(flushes));
}

/* Our own flushes since the last look. */
static struct kw_counter_ours find_ours(const struct kw_flushes *flushes)
{
	uint64_t looked = flushes->counter.last;

	assert(looked <= flushes->asked && flushes->asked <= flushes->accounted);
	return (struct kw_counter_ours){
		.least = flushes->asked - looked,
		.most = flushes->accounted - looked + on_their_way(flushes),
	};
}

bool kw_flushes_look(struct kw_flushes *flushes, const struct kw_local_facts *facts,
	const struct kw_key_counts *before)
{
	uint64_t resets = flushes->counter.resets;
	enum kw_counter_found found = kw_counter_look(
		&flushes->counter, facts->flushes, facts->resets, find_ours(flushes));
	bool foreign = flushes->counter.others > 0;
	struct kw_key_counts now;

	/* Flushes before a reset are not counted any more: do the databases still have their keys?
	 */
	kw_key_counts_set(&now, facts->database_keys);
	if (facts->resets != resets)
		foreign |= kw_key_counts_shrunk(before, &now) >= 0;
	else if (found == KW_COUNTER_ANEW)
		foreign |= facts->flushes > 0;
	/* Those on their way stay ours; they are accounted for when they are acknowledged. */
	if (foreign || flushes->unsure > 0 || found == KW_COUNTER_ANEW)
		flushes->accounted = facts->flushes;
	flushes->unsure = 0;
	kw_flushes_continue(flushes, facts);
	return foreign;
}

void kw_flushes_asked(struct kw_flushes *flushes)
{
	flushes->asked = flushes->accounted;
}

void kw_flushes_acknowledged(struct kw_flushes *flushes)
{
	/* The number can come from the server, and then it can be any. */
	if (flushes->accounted < UINT64_MAX)
		flushes->accounted++;
}

void kw_flushes_sent(struct kw_flushes *flushes, uint64_t count)
{
	flushes->sent = count;
}

void kw_flushes_link_ended(struct kw_flushes *flushes, uint64_t count)
{
	flushes->unsure += count;
	flushes->sent = 0;
}

void kw_flushes_forget_link(struct kw_flushes *flushes)
{
	flushes->unsure = 0;
}
