#include "source/completeness.h"

#include "keys/databases.h"

#include <assert.h>
#include <stdio.h>

static enum kw_completeness completeness_of(const struct kw_facts *facts)
{
	if (facts->sweeps_ended == 0 || facts->chain != KW_CHAIN_WHOLE)
		return KW_COMPLETENESS_NONE;
	if (facts->sweeps_clean == 0 && facts->sweeps_ended < KW_SWEEPS_TO_BE_SOUND)
		return KW_COMPLETENESS_SWEPT;
	return facts->waiting > 0 ? KW_COMPLETENESS_SOUND : KW_COMPLETENESS_COMPLETE;
}

/* What the table lacks. The first that applies counts: passing causes come before lasting ones. */
static enum kw_claim_cause lack_of(const struct kw_facts *facts)
{
	if (facts->missing > 0)
		return KW_CLAIM_HELD; /* the only one that waits for a person */
	if (facts->waiting > 0)
		return KW_CLAIM_NO_ROOM;
	if (facts->mending == KW_MENDING_UNDER_WAY)
		return KW_CLAIM_MENDING;
	if (facts->unreadable > 0)
		return KW_CLAIM_UNREADABLE;
	if (facts->too_large > 0)
		return KW_CLAIM_TOO_LARGE;
	return facts->beyond > 0 ? KW_CLAIM_BEYOND : KW_CLAIM_NOTHING_WRONG;
}

/* A standby whose table lacks something would not be ready. */
static enum kw_claim_cause cause_of_unconfirmed(const struct kw_facts *facts)
{
	enum kw_claim_cause lack = lack_of(facts);

	return facts->stands_by && (lack == KW_CLAIM_NOTHING_WRONG || lack == KW_CLAIM_MENDING)
		       ? KW_CLAIM_STANDBY
		       : KW_CLAIM_UNCONFIRMED;
}

/* The connection is up. */
static enum kw_claim_cause cause_of(const struct kw_facts *facts)
{
	if (facts->silent_s > 0)
		return KW_CLAIM_SILENT; /* what was looked at last can be another way by now */
	if (facts->chain != KW_CHAIN_WHOLE)
		return KW_CLAIM_CHAIN_CUT;
	return kw_mandate_holds(facts->mandate) ? lack_of(facts) : cause_of_unconfirmed(facts);
}

static enum kw_source_state state_of(const struct kw_facts *facts, enum kw_claim_cause cause)
{
	switch (cause) {
	case KW_CLAIM_NOTHING_WRONG:
		return KW_SOURCE_LIVE;
	case KW_CLAIM_MENDING:
		return facts->sweeps_ended > 0 ? KW_SOURCE_RECONCILING : KW_SOURCE_SCANNING;
	case KW_CLAIM_NOT_CONNECTED:
	case KW_CLAIM_REFUSED:
	case KW_CLAIM_BUSY:
		return facts->reach == KW_REACH_UNTRIED ? KW_SOURCE_CONNECTING : KW_SOURCE_DOWN;
	case KW_CLAIM_SILENT:
		return KW_SOURCE_STALLED;
	case KW_CLAIM_CHAIN_CUT:
		return KW_SOURCE_DOWN;
	case KW_CLAIM_UNCONFIRMED:
	case KW_CLAIM_STANDBY:
		return KW_SOURCE_UNCONFIRMED;
	case KW_CLAIM_HELD:
		return KW_SOURCE_HELD;
	default:
		return KW_SOURCE_FULL;
	}
}

struct kw_claim kw_claim_judge(const struct kw_facts *facts, enum kw_completeness before)
{
	struct kw_claim claim = {.completeness = completeness_of(facts)};

	assert(facts->sweeps_clean <= facts->sweeps_ended);
	assert(facts->reach != KW_REACH_UNTRIED || facts->sweeps_ended == 0 || facts->kept);
	if (facts->script == KW_SCRIPT_BUSY)
		claim.cause = KW_CLAIM_BUSY;
	else
		claim.cause = facts->reach == KW_REACH_UP        ? cause_of(facts)
			      : facts->reach == KW_REACH_REFUSED ? KW_CLAIM_REFUSED
								 : KW_CLAIM_NOT_CONNECTED;
	claim.state = state_of(facts, claim.cause);
	if (claim.completeness < before)
		claim.completeness = before;
	/* A first scan is under way, or one has ended: nothing else leads to these states. */
	assert(facts->missing <= facts->whole);
	assert(claim.state != KW_SOURCE_LIVE || (facts->waiting == 0 && facts->missing == 0));
	assert(claim.state != KW_SOURCE_LIVE || kw_mandate_holds(facts->mandate));
	assert(claim.state != KW_SOURCE_LIVE || facts->silent_s == 0);
	assert(!facts->stands_by || facts->fence == KW_FENCE_OPEN);
	assert(claim.state != KW_SOURCE_SCANNING || facts->sweeps_ended == 0);
	return claim;
}

static void explain_room(const struct kw_facts *facts, const struct kw_claim_words *words,
	char *reason, size_t bytes)
{
	const char *refused = words->refused ? words->refused : "raise table.max_bytes";

	if (facts->mending == KW_MENDING_UNDER_WAY)
		snprintf(reason, bytes,
			"the table is full, changed keys wait for room: %.280s; meanwhile: %.160s",
			refused, words->sweep);
	else
		snprintf(reason, bytes, "the table is full, changed keys wait for room: %.280s",
			refused);
}

static void explain_held(const struct kw_facts *facts, char *reason, size_t bytes)
{
	snprintf(reason, bytes,
		"the primary lacks %llu of the %llu keys that the table has (a share of %.2f; "
		"source.max_missing is %.2f), and no flush or delete of them was seen, so none of "
		"them is deleted: restore the primary, or run `keywakectl approve` to let them go",
		(unsigned long long)facts->missing, (unsigned long long)facts->whole,
		(double)facts->missing / (double)facts->whole, facts->max_missing);
}

static void explain_unconfirmed(const struct kw_facts *facts, const struct kw_claim_words *words,
	char *reason, size_t bytes)
{
	enum kw_claim_cause lack = lack_of(facts);
	char lacks[KW_ERROR_TEXT];

	kw_claim_explain(lack, facts, words, lacks, sizeof lacks);
	if (facts->fence == KW_FENCE_CLOSED)
		snprintf(reason, bytes, "nothing is read from the server: %.400s", words->mandate);
	else if (lack == KW_CLAIM_NOTHING_WRONG)
		snprintf(reason, bytes, "ready: %.400s", words->mandate);
	else
		snprintf(reason, bytes, "%.260s; %s: %.230s", words->mandate,
			lack == KW_CLAIM_MENDING ? "meanwhile" : "besides", lacks);
}

/* What an unconfirmed table lacks besides is explained by a second call. */
void kw_claim_explain(enum kw_claim_cause cause, const struct kw_facts *facts,
	const struct kw_claim_words *words, char *reason, size_t bytes)
{
	assert(bytes > 0);
	switch (cause) {
	case KW_CLAIM_NOTHING_WRONG:
		*reason = '\0';
		break;
	case KW_CLAIM_NOT_CONNECTED:
	case KW_CLAIM_REFUSED:
		snprintf(reason, bytes, "%s", words->down);
		break;
	case KW_CLAIM_BUSY:
		snprintf(reason, bytes,
			"the primary is busy with a script (BUSY) and answers nothing: waiting "
			"until the script ends (or end it with SCRIPT KILL or FUNCTION KILL "
			"there)");
		break;
	case KW_CLAIM_SILENT:
		snprintf(reason, bytes,
			"the primary has not answered for %llu s: it hangs, or a long command or "
			"script runs there (look into its log, and at SLOWLOG GET)",
			(unsigned long long)facts->silent_s);
		break;
	case KW_CLAIM_CHAIN_CUT:
		snprintf(reason, bytes,
			"the server followed is a replica, and %s (if it shall be the primary, run "
			"REPLICAOF NO ONE there)",
			facts->chain == KW_CHAIN_SILENT
				? "nothing has come from its own primary for too long, although "
				  "their link is up: waiting until something does (an idle "
				  "primary sends a PING each repl-ping-replica-period, which must "
				  "be 10 s at most)"
				: "its link to its own primary is down: waiting until it is up");
		break;
	case KW_CLAIM_UNCONFIRMED:
	case KW_CLAIM_STANDBY:
		explain_unconfirmed(facts, words, reason, bytes);
		break;
	case KW_CLAIM_HELD:
		explain_held(facts, reason, bytes);
		break;
	case KW_CLAIM_NO_ROOM:
		explain_room(facts, words, reason, bytes);
		break;
	case KW_CLAIM_MENDING:
		snprintf(reason, bytes, "%s", words->sweep);
		break;
	case KW_CLAIM_UNREADABLE:
		snprintf(reason, bytes,
			"the connection breaks whenever one of %llu keys is fetched, so they are "
			"not replicated (the log names them): a value too large for one reply, or "
			"for the server's client-output-buffer-limit normal; mend that, then run "
			"`keywakectl reconcile` (one that changes is tried again by itself)",
			(unsigned long long)facts->unreadable);
		break;
	case KW_CLAIM_TOO_LARGE:
		snprintf(reason, bytes,
			"%llu keys are larger than the table can hold and are not replicated: "
			"raise table.max_bytes",
			(unsigned long long)facts->too_large);
		break;
	case KW_CLAIM_BEYOND:
		snprintf(reason, bytes,
			"database %u has keys and is not replicated, because only databases below "
			"%d can be: move its keys, or name the databases to replicate in "
			"source.databases",
			facts->beyond, KW_DATABASES_MOST);
		break;
	}
}
