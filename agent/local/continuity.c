#include "continuity.h"

#include <assert.h>
#include <string.h>

/* ---- what the running agent knows ---- */

static bool is_same_run(const struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	return strcmp(facts->identity.run_id, continuity->run_id) == 0;
}

static bool is_same_history(
	const struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	return strcmp(facts->identity.replid, continuity->replid) == 0;
}

/*
 * Was the server a replica of another one, and was it promoted, while we did not watch? Its data
 * were replaced then, or emptied for a load that did not end. A promotion leaves the old id as a
 * second one (shiftReplicationId in the server's replication.c). An id that the server changes by
 * itself, for its first replica, leaves zeros there.
 */
static bool was_elsewhere(
	const struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	const char *before = facts->replid2;

	return continuity->relation == KW_RELATION_CLIENT && !is_same_history(continuity, facts) &&
	       before[strspn(before, "0")] != '\0' && !kw_local_replid_ours(before);
}

static bool same_cursor(const struct kw_local_cursor *a, const struct kw_local_cursor *b)
{
	return a->epoch == b->epoch && a->version == b->version && a->flushes == b->flushes &&
	       strcmp(a->run_id, b->run_id) == 0;
}

static bool is_our_cursor_there(
	const struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	return continuity->standing == KW_STANDING_WRITTEN &&
	       continuity->functions == facts->functions && facts->cursor_kind == KW_CURSOR_OURS &&
	       same_cursor(&facts->cursor, &continuity->written);
}

/*
 * An agent that had no lease for a while: because it hung, or because it yielded. Another one can
 * have begun and ended meanwhile. It writes its cursor before the first record, and the server's
 * counts of calls do not tell its writes from ours.
 */
static bool was_taken(const struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	uint64_t found = facts->cursor.lease.session;

	return continuity->session != 0 && facts->cursor_kind == KW_CURSOR_OURS &&
	       found != continuity->session && found != continuity->signer;
}

enum kw_continuity_verdict kw_continuity_judge(
	const struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	if (continuity->memory == KW_MEMORY_NONE)
		return KW_CONTINUITY_FIRST;
	if (!is_same_run(continuity, facts))
		return KW_CONTINUITY_OTHER_RUN;
	if (was_elsewhere(continuity, facts))
		return KW_CONTINUITY_ELSEWHERE;
	if (continuity->memory == KW_MEMORY_DOUBTED ||
		!kw_flushes_explain(&continuity->flushes, facts))
		return KW_CONTINUITY_FLUSHED;
	if (was_taken(continuity, facts))
		return KW_CONTINUITY_TAKEN;
	if (is_same_history(continuity, facts) ||
		(continuity->relation == KW_RELATION_PRIMARY &&
			kw_local_replid_ours(facts->identity.replid)))
		return KW_CONTINUITY_SAME;
	/* A replication id can change by itself. */
	return is_our_cursor_there(continuity, facts) ? KW_CONTINUITY_SAME : KW_CONTINUITY_REPLACED;
}

/*
 * A client that loads libraries of its own might delete ours (FUNCTION FLUSH, FUNCTION RESTORE
 * FLUSH). Then the cursor is written again, before the next agent finds it missing.
 */
static void note_functions(struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	if (continuity->functions != facts->functions)
		kw_continuity_unwritten(continuity);
	continuity->functions = facts->functions;
}

static void remember(struct kw_continuity *continuity, const struct kw_local_facts *facts)
{
	static_assert(sizeof continuity->run_id == sizeof facts->identity.run_id, "copied");
	static_assert(sizeof continuity->replid == sizeof facts->identity.replid, "copied");
	memcpy(continuity->run_id, facts->identity.run_id, sizeof continuity->run_id);
	memcpy(continuity->replid, facts->identity.replid, sizeof continuity->replid);
	note_functions(continuity, facts);
	continuity->memory = KW_MEMORY_KNOWN;
}

void kw_continuity_adopt(struct kw_continuity *continuity, const struct kw_local_facts *facts,
	enum kw_continuity_verdict verdict)
{
	assert(verdict != KW_CONTINUITY_FIRST || continuity->memory == KW_MEMORY_NONE);
	assert(verdict != KW_CONTINUITY_SAME || continuity->memory == KW_MEMORY_KNOWN);
	/* The agent might have written the cursor since, because it had not noticed. */
	if (verdict == KW_CONTINUITY_ELSEWHERE)
		continuity->standing = KW_STANDING_SPOILED;
	else if (verdict != KW_CONTINUITY_SAME)
		kw_continuity_unwritten(continuity);
	if (verdict == KW_CONTINUITY_SAME)
		kw_flushes_continue(&continuity->flushes, facts);
	else
		kw_flushes_begin(&continuity->flushes, facts);
	if (facts->cursor_kind == KW_CURSOR_OURS)
		continuity->signer = facts->cursor.lease.session;
	remember(continuity, facts);
}

static void doubt(struct kw_continuity *continuity)
{
	if (continuity->memory == KW_MEMORY_KNOWN)
		continuity->memory = KW_MEMORY_DOUBTED;
}

enum kw_continuity_verdict kw_continuity_look(struct kw_continuity *continuity,
	const struct kw_local_facts *facts, const struct kw_key_counts *before)
{
	bool flushed = kw_flushes_look(&continuity->flushes, facts, before);

	assert(continuity->memory != KW_MEMORY_NONE);
	/* The server takes its id from its primary, which is the agent. */
	if (continuity->relation == KW_RELATION_CLIENT && !is_same_history(continuity, facts)) {
		note_functions(continuity, facts);
		if (flushed)
			doubt(continuity);
		return KW_CONTINUITY_REPLACED;
	}
	remember(continuity, facts);
	if (!flushed)
		return KW_CONTINUITY_SAME;
	/* The cursor outlives the data: it must not be believed until it is written again. */
	continuity->standing = KW_STANDING_SPOILED;
	return KW_CONTINUITY_FLUSHED;
}

void kw_continuity_harmed(struct kw_continuity *continuity)
{
	doubt(continuity);
	continuity->standing = KW_STANDING_SPOILED;
}

void kw_continuity_written(struct kw_continuity *continuity, const struct kw_local_cursor *cursor)
{
	continuity->signer = cursor->lease.session;
	/* A cursor without a position says nothing about the data, so it cannot be wrong. */
	if (continuity->standing == KW_STANDING_SPOILED && cursor->version > 0)
		return;
	continuity->written = *cursor;
	continuity->standing = KW_STANDING_WRITTEN;
}

void kw_continuity_unwritten(struct kw_continuity *continuity)
{
	if (continuity->standing == KW_STANDING_WRITTEN)
		continuity->standing = KW_STANDING_UNWRITTEN;
}

void kw_continuity_claimed(struct kw_continuity *continuity)
{
	if (continuity->standing == KW_STANDING_SPOILED)
		continuity->standing = KW_STANDING_UNWRITTEN;
}

const char *kw_continuity_text(enum kw_continuity_verdict verdict)
{
	static const char *const texts[] = {
		[KW_CONTINUITY_SAME] = "these are the data known before",
		[KW_CONTINUITY_FIRST] = "no server was known before",
		[KW_CONTINUITY_OTHER_RUN] = "the server was restarted, or it is another one",
		[KW_CONTINUITY_ELSEWHERE] = "the server was a replica of another one",
		[KW_CONTINUITY_FLUSHED] = "databases were flushed or swapped, or may have been",
		[KW_CONTINUITY_REPLACED] = "the server has another replication id",
		[KW_CONTINUITY_TAKEN] = "another agent has written to the server",
	};

	assert((size_t)verdict < sizeof texts / sizeof *texts);
	return texts[verdict];
}

/* ---- what the cursor says ---- */

static bool is_of_this_run(const struct kw_local_facts *facts)
{
	return strcmp(facts->cursor.run_id, facts->identity.run_id) == 0;
}

/* The run that wrote it goes on: its counts must not have changed. */
static enum kw_cursor_doubt doubt_in_the_same_run(const struct kw_local_facts *facts)
{
	const struct kw_local_cursor *cursor = &facts->cursor;

	if (cursor->flushes != facts->flushes)
		return KW_DOUBT_FLUSHED;
	if (cursor->bond == KW_BOND_LED && cursor->refused != facts->refused)
		return KW_DOUBT_REFUSED;
	if (cursor->writes.said && cursor->writes.calls != facts->writers.foreign)
		return KW_DOUBT_WRITTEN;
	if (cursor->ended.said && cursor->ended.calls != facts->writers.shared)
		return KW_DOUBT_WRITTEN;
	return KW_DOUBT_NONE;
}

/* The counts began anew with the server: all that they count happened while no agent watched. */
static enum kw_cursor_doubt doubt_in_another_run(const struct kw_local_facts *facts)
{
	/*
	 * An agent that wrote in this run would have written its cursor first, with this run in it.
	 * Over a link the cursor comes after the changes.
	 */
	bool led = facts->cursor.bond == KW_BOND_LED;

	if (facts->flushes > 0)
		return KW_DOUBT_FLUSHED_ANEW;
	if (facts->writers.foreign > 0 || (facts->writers.shared > 0 && !led))
		return KW_DOUBT_WRITTEN_ANEW;
	return KW_DOUBT_NONE;
}

static enum kw_cursor_doubt doubt_of_data(const struct kw_local_facts *facts, uint64_t filter)
{
	const struct kw_local_cursor *cursor = &facts->cursor;
	struct kw_key_counts now;
	enum kw_cursor_doubt doubt;

	if (cursor->quarantined > 0)
		return KW_DOUBT_QUARANTINED;
	if (cursor->filter != filter)
		return KW_DOUBT_FILTERED;
	if (facts->keys == 0)
		return KW_DOUBT_EMPTY;
	doubt = is_of_this_run(facts) ? doubt_in_the_same_run(facts) : doubt_in_another_run(facts);
	if (doubt != KW_DOUBT_NONE)
		return doubt;
	kw_key_counts_set(&now, facts->database_keys);
	return kw_key_counts_shrunk(&cursor->key_counts, &now) >= 0 ? KW_DOUBT_SHRUNK
								    : KW_DOUBT_NONE;
}

/*
 * An earlier run might have evicted keys after the cursor was written, and saved the rest. No count
 * tells that any more.
 */
static enum kw_cursor_doubt doubt_of_eviction(const struct kw_local_facts *facts)
{
	if (is_of_this_run(facts))
		return facts->cursor.evicted != facts->evicted ? KW_DOUBT_EVICTED : KW_DOUBT_NONE;
	if (facts->evicted > 0)
		return KW_DOUBT_EVICTED_ANEW;
	return kw_local_may_evict(facts) ? KW_DOUBT_EVICTS : KW_DOUBT_NONE;
}

enum kw_cursor_doubt kw_cursor_doubt(const struct kw_local_facts *facts, uint64_t filter)
{
	enum kw_cursor_doubt doubt;

	if (facts->cursor_kind != KW_CURSOR_OURS || facts->cursor.version == 0)
		return KW_DOUBT_ABSENT;
	doubt = doubt_of_data(facts, filter);
	assert(doubt == KW_DOUBT_NONE || !kw_cursor_doubt_is_of_eviction(doubt));
	if (doubt == KW_DOUBT_NONE)
		doubt = doubt_of_eviction(facts);
	return doubt;
}

const char *kw_cursor_doubt_text(enum kw_cursor_doubt doubt)
{
	static const char *const texts[] = {
		[KW_DOUBT_NONE] = "",
		[KW_DOUBT_ABSENT] = "there is none",
		[KW_DOUBT_QUARANTINED] = "keys were in quarantine, or known or feared to differ, "
					 "when it was written",
		[KW_DOUBT_FILTERED] = "it was written with other filters",
		[KW_DOUBT_EMPTY] = "there are no keys",
		[KW_DOUBT_FLUSHED] = "data were flushed or swapped since it was written",
		[KW_DOUBT_REFUSED] = "the server refused commands of its link since it was written",
		[KW_DOUBT_WRITTEN] = "other clients wrote to the server since it was written",
		[KW_DOUBT_WRITTEN_ANEW] = "other clients wrote to the server since it started",
		[KW_DOUBT_FLUSHED_ANEW] = "data were flushed or swapped since the server started",
		[KW_DOUBT_SHRUNK] = "a database holds less than half of the keys it held when it "
				    "was written",
		[KW_DOUBT_EVICTED] = "the server evicted keys since it was written",
		[KW_DOUBT_EVICTED_ANEW] = "the server evicted keys since it started",
		[KW_DOUBT_EVICTS] = "the server was started anew, and may have evicted keys before",
	};

	assert((size_t)doubt < sizeof texts / sizeof *texts);
	return texts[doubt];
}
