/*
 * The cursor's term: before the first record of a higher term is applied, the cursor says it
 * (authority/term.h). It says none before the first record of a table whose proxy asks nobody, once
 * a person approved that. A claim says it by itself. Everywhere else the reader stops, the cursor
 * is written with the position of before, and the reader goes on when that is acknowledged. Records
 * of two terms never stand in one segment, so a reader learns of the term before it meets one.
 */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>

static struct kw_term term_to_say(const struct kw_authority_facts *facts)
{
	return kw_authority_is_approved(facts) ? kw_term_approved(facts->term, facts->table)
					       : kw_term_raised(facts->term, facts->table);
}

enum kw_permission kw_sync_raise(struct kw_sync *sync, const struct kw_authority_facts *facts)
{
	enum kw_permission permission = kw_authority_permission(facts);
	struct kw_term next;

	if (permission != KW_PERMISSION_GRANTED)
		return permission;
	next = term_to_say(facts);
	if (!kw_sync_needs_local(sync)) {
		kw_local_set_term(sync->local, &next);
		return permission;
	}
	/*
	 * A claim says it. After a resume this is judged again before the first record. Another
	 * data set comes from another proxy, so its epoch ends the position, and a claim follows.
	 */
	if (kw_sync_phase(sync) < KW_SYNC_SNAPSHOT ||
		sync->authority.relation == KW_AUTHORITY_FOREIGN ||
		kw_term_equal(&next, &sync->authority.said))
		return permission;
	kw_local_set_term(sync->local, &next);
	return KW_PERMISSION_RAISING;
}

void kw_sync_explain_raise(struct kw_sync *sync)
{
	const struct kw_term *term = &sync->local->term;
	const char *colon = sync->save.error[0] ? ": " : "", *error = sync->save.error;

	if (term->domain)
		kw_sync_set_why(sync, KW_SYNC_WAITS,
			"the cursor must say term %" PRIu64
			" before anything of it is applied%s%.300s",
			term->term, colon, error);
	else
		kw_sync_set_why(sync, KW_SYNC_WAITS,
			"the cursor must say no term before anything more is applied%s%.300s",
			colon, error);
}

/* ---- in CLAIM ---- */

void kw_sync_claim_term(struct kw_sync *sync)
{
	const struct kw_authority_facts facts = {
		.data = &sync->local->history,
		.term = &sync->local->term,
		.table = &sync->follow->history,
		.approved = &sync->authority.approved,
		.foreign = sync->foreign,
	};
	struct kw_term next = term_to_say(&facts);

	assert(kw_sync_phase(sync) == KW_SYNC_CLAIM);
	sync->in.claim.before_term = sync->local->term;
	kw_local_set_term(sync->local, &next);
}

void kw_sync_term_claimed(struct kw_sync *sync, bool done)
{
	assert(kw_sync_phase(sync) == KW_SYNC_CLAIM);
	if (done)
		sync->authority.said = sync->local->term;
	else
		kw_local_set_term(sync->local, &sync->in.claim.before_term);
}

bool kw_sync_is_term_claimed(const struct kw_sync *sync)
{
	struct kw_term next = kw_term_raised(&sync->local->term, &sync->follow->history);

	return kw_term_equal(&next, &sync->authority.said);
}

/* ---- later ---- */

void kw_sync_term_found(struct kw_sync *sync, const struct kw_term *term)
{
	kw_local_set_term(sync->local, term);
	sync->authority.said = *term;
	sync->rollback.term = *term;
}

static void on_raised(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	kw_sync_saved(sync, failure);
	if (failure)
		return;
	sync->authority.said = sync->authority.saying;
	if (sync->authority.said.domain)
		kw_log_info("sync", "the cursor says term %" PRIu64 " from now on",
			sync->authority.said.term);
	else
		kw_log_info("sync", "the cursor says no term any more");
	sync->due(sync->arg);
}

bool kw_sync_save_term(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_local_cursor *written = kw_local_written(sync->local);
	struct kw_cursor_progress progress = {
		.epoch = sync->epoch,
		.quarantined = kw_quarantine_count(sync->quarantine) + kw_debt_wrong(&sync->debt),
	};

	assert(!sync->save.writing && sync->authority.permission == KW_PERMISSION_RAISING);
	if (!kw_local_ready(sync->local))
		return false;
	/* No further than before: what was handed on since might not be applied yet. */
	if (written && written->epoch == sync->epoch) {
		progress.version = written->version;
		progress.consented = written->consented;
	}
	sync->authority.saying = sync->local->term;
	sync->save.writing = true;
	sync->save.tried_us = now_us;
	kw_pair_save(sync->pair, &progress, on_raised, sync);
	return true;
}
