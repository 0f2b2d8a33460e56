/*
 * Tokens: `keywakectl wait warm` takes one, and asks until it has passed. Then all that the primary
 * had done when the token was issued is applied to the local server. No clock of another host takes
 * part: a token becomes a ticket of the proxy (layout.h), by a superblock that was asked for after
 * the token was issued.
 *
 *   issued ──a superblock asked for later──▶ drawn ──its ticket is applied──▶ passed
 *
 * Tokens issued while one ticket is waited for share the next. The first number is random, so that
 * a token of an earlier run of the agent is not taken for one of this run. Times are of our own
 * monotonic clock. Pure; one thread.
 */
#ifndef KW_AGENT_SYNC_TOKEN_H
#define KW_AGENT_SYNC_TOKEN_H

#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>

/* Tokens up to this one, of which the last was issued then. */
struct kw_token_batch {
	uint64_t last, issued_us;
};

struct kw_tokens {
	struct kw_token_batch early, late; /* not drawn; last 0: none */
	uint64_t issued, drawn, passed;    /* the last of each */
	uint64_t epoch;                    /* of the ticket */
	uint16_t ticket;                   /* of those drawn and not passed; 0: there are none */
};

/* seed: unpredictable. */
void kw_tokens_init(struct kw_tokens *tokens, uint64_t seed);

uint64_t kw_token_issue(struct kw_tokens *tokens, uint64_t now_us);

/* Was it issued in this run? */
bool kw_token_known(const struct kw_tokens *tokens, uint64_t token);

static inline bool kw_token_passed(const struct kw_tokens *tokens, uint64_t token)
{
	return token <= tokens->passed;
}

/* Has one been issued that has not passed? Then the next superblock matters. */
static inline bool kw_tokens_wait(const struct kw_tokens *tokens)
{
	return tokens->passed != tokens->issued;
}

/*
 * A superblock that was asked for at begun_us, or later. True: a ticket was drawn, and the proxy
 * must be told.
 */
bool kw_token_draw(
	struct kw_tokens *tokens, const struct kw_superblock *superblock, uint64_t begun_us);

/* What the table held when it had this ticket number is applied. */
void kw_token_applied(struct kw_tokens *tokens, uint64_t epoch, uint16_t number);

#endif
