#include "proof.h"

#include <assert.h>

void kw_proof_reset(struct kw_proof *proof)
{
	*proof = (struct kw_proof){0};
}

unsigned kw_proof_unsettled(const struct kw_proof *proof)
{
	unsigned range = 0;

	while (range < KW_PROOF_RANGES && proof->ranges[range].open == 0)
		range++;
	return range;
}

void kw_proof_abandon(struct kw_proof *proof)
{
	for (unsigned i = 0; i <= KW_PROOF_LOCAL; i++) {
		const uint64_t proven_us = proof->ranges[i].proven_us;

		proof->ranges[i] = (struct kw_proof_range){.proven_us = proven_us};
	}
}

static void settle(struct kw_proof_range *range)
{
	if (range->left && range->open == 0 && range->entered_us > 0)
		range->proven_us = range->entered_us;
}

/* A key of an earlier walk that is not settled still counts: the range waits for it. */
void kw_proof_enter(struct kw_proof *proof, unsigned range, uint64_t now_us)
{
	assert(range <= KW_PROOF_LOCAL && now_us > 0);
	proof->ranges[range].entered_us = now_us;
	proof->ranges[range].left = false;
}

void kw_proof_leave(struct kw_proof *proof, unsigned range)
{
	assert(range <= KW_PROOF_LOCAL);
	proof->ranges[range].left = true;
	settle(&proof->ranges[range]);
}

void kw_proof_walks(struct kw_proof *proof, uint64_t from, uint64_t next, uint64_t began_us)
{
	assert(next > from && began_us > 0);
	for (unsigned range = kw_proof_range_of(from); range <= kw_proof_range_of(next - 1);
		range++)
		if (kw_proof_first(range) >= from)
			kw_proof_enter(proof, range, began_us);
}

void kw_proof_walked(struct kw_proof *proof, uint64_t from, uint64_t next)
{
	assert(next > from);
	for (unsigned range = kw_proof_range_of(from); range <= kw_proof_range_of(next - 1);
		range++)
		if (next == UINT64_MAX || range < kw_proof_range_of(next))
			kw_proof_leave(proof, range);
}

void kw_proof_open(struct kw_proof *proof, unsigned range)
{
	assert(range <= KW_PROOF_LOCAL);
	proof->ranges[range].open++;
}

void kw_proof_close(struct kw_proof *proof, unsigned range)
{
	assert(range <= KW_PROOF_LOCAL && proof->ranges[range].open > 0);
	proof->ranges[range].open--;
	settle(&proof->ranges[range]);
}

void kw_proof_fail(struct kw_proof *proof, unsigned range)
{
	assert(range <= KW_PROOF_LOCAL && proof->ranges[range].open > 0);
	proof->ranges[range].open--;
	proof->ranges[range].entered_us = 0;
}

uint64_t kw_proof_age_us(const struct kw_proof *proof, uint64_t now_us)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned i = 0; i <= KW_PROOF_LOCAL; i++)
		if (proof->ranges[i].proven_us < oldest)
			oldest = proof->ranges[i].proven_us;
	if (oldest == 0)
		return UINT64_MAX;
	return now_us > oldest ? now_us - oldest : 0;
}
