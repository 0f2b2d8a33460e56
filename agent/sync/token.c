#include "token.h"

#include <assert.h>

#define FIRST_BITS 47 /* a number that JSON's readers hold exactly, with room to count */

void kw_tokens_init(struct kw_tokens *tokens, uint64_t seed)
{
	uint64_t first = 1 + (seed & ((UINT64_C(1) << FIRST_BITS) - 1));

	*tokens = (struct kw_tokens){.issued = first, .drawn = first, .passed = first};
}

uint64_t kw_token_issue(struct kw_tokens *tokens, uint64_t now_us)
{
	struct kw_token_batch *batch = tokens->early.last ? &tokens->late : &tokens->early;

	*batch = (struct kw_token_batch){++tokens->issued, now_us};
	return tokens->issued;
}

bool kw_token_known(const struct kw_tokens *tokens, uint64_t token)
{
	/* Those of before can only have been issued by this run, or by chance. */
	return token <= tokens->issued && tokens->issued - token < UINT32_MAX;
}

/* The proxy's number is so far from what we wait for that it was never asked, or has wrapped. */
static bool is_lost(const struct kw_tokens *tokens, const struct kw_superblock *superblock)
{
	return superblock->epoch != tokens->epoch ||
	       (!kw_ticket_reached(superblock->ticket, tokens->ticket) &&
		       !kw_ticket_awaited(superblock->ticket, tokens->ticket));
}

static uint64_t take_batches(struct kw_tokens *tokens, uint64_t begun_us)
{
	uint64_t last = 0;

	while (tokens->early.last && begun_us >= tokens->early.issued_us) {
		last = tokens->early.last;
		tokens->early = tokens->late;
		tokens->late = (struct kw_token_batch){0};
	}
	return last;
}

bool kw_token_draw(
	struct kw_tokens *tokens, const struct kw_superblock *superblock, uint64_t begun_us)
{
	bool again = tokens->ticket && is_lost(tokens, superblock);
	uint64_t last = 0;

	if (superblock->ticket == 0 || (tokens->ticket && !again))
		return false;
	last = take_batches(tokens, begun_us);
	if (last == 0 && !again)
		return false;
	if (last > 0)
		tokens->drawn = last;
	assert(tokens->drawn > tokens->passed);
	tokens->epoch = superblock->epoch;
	tokens->ticket = kw_ticket_drawn(superblock->ticket);
	return true;
}

void kw_token_applied(struct kw_tokens *tokens, uint64_t epoch, uint16_t number)
{
	if (!tokens->ticket || number == 0 || epoch != tokens->epoch ||
		!kw_ticket_reached(number, tokens->ticket))
		return;
	tokens->passed = tokens->drawn;
	tokens->ticket = 0;
}
