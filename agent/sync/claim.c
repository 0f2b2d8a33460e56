#include "claim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum kw_claim kw_claim_judge(const struct kw_claim_facts *facts)
{
	/* A cursor vouches for the keys that it was written for, not for all that the server holds.
	 */
	if (facts->scope == KW_CLAIM_EVERYTHING)
		return facts->consent ? KW_CLAIM_CONSENTED : KW_CLAIM_REFUSED;
	if (facts->data != KW_SYNC_DATA_FOREIGN)
		return KW_CLAIM_OURS;
	if (facts->consent)
		return KW_CLAIM_CONSENTED;
	if (facts->keys == 0)
		return KW_CLAIM_EMPTY;
	if (facts->scope == KW_CLAIM_DATABASES)
		return KW_CLAIM_REFUSED;
	if (facts->counted == KW_CLAIM_NOT_COUNTED)
		return KW_CLAIM_UNKNOWN;
	return facts->counted == 0 ? KW_CLAIM_EMPTY : KW_CLAIM_REFUSED;
}

void kw_claim_refusal(const struct kw_claim_facts *facts, const char *mode, uint64_t counted_most,
	char *text, size_t room)
{
	bool walked = facts->scope == KW_CLAIM_SOME_KEYS;
	uint64_t keys = walked ? facts->counted : facts->keys;

	assert(kw_claim_judge(facts) == KW_CLAIM_REFUSED);
	if (facts->scope == KW_CLAIM_EVERYTHING)
		snprintf(text, room,
			"apply.mode=%s replaces everything in the local server (it holds %" PRIu64
			" keys): set apply.consent=true if it may",
			mode, keys);
	else
		snprintf(text, room,
			"the local server holds %s%" PRIu64
			" keys that would be replaced, and no cursor of ours: set "
			"apply.consent=true, or give it an empty server",
			walked && keys >= counted_most ? "at least " : "", keys);
}
