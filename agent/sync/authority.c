/* Whose data: may the table that is there be followed? What is judged is in authority/history.h. */
#include "internal.h"

#include "base/log.h"

#include <assert.h>
#include <string.h>

/* Is the obstacle that is set about the table's history? */
static bool is_in_the_way(enum kw_permission permission)
{
	return permission != KW_PERMISSION_UNASKED && permission != KW_PERMISSION_GRANTED;
}

static void log_adopted(
	enum kw_authority relation, const struct kw_history *data, const struct kw_history *table)
{
	char before[KW_AUTHORITY_WORDS], now[KW_AUTHORITY_WORDS];

	kw_authority_describe(data, before);
	kw_authority_describe(table, now);
	if (relation != KW_AUTHORITY_UNKNOWN)
		kw_log_info("sync", "the table's history is another one (%s): %s, before %s",
			kw_authority_name(relation), now, before);
	else if (table->standing == KW_HISTORY_NONE)
		kw_log_warn("sync",
			"the proxy does not say whose data it has, because it is of an earlier "
			"version: it is followed; the local data have %s until now",
			before);
	else
		kw_log_info("sync",
			"the cursor does not say whose data the server has, because an earlier "
			"version wrote it: they are taken for %s",
			now);
}

/* The data go on with this table, so its history is theirs. */
static void adopt(struct kw_sync *sync, enum kw_authority relation)
{
	const struct kw_history *table = &sync->follow->history;

	if (!kw_sync_needs_local(sync) || kw_history_equal(table, &sync->local->history))
		return;
	log_adopted(relation, &sync->local->history, table);
	kw_local_set_history(sync->local, table);
}

/* Is all that a person must allow that nobody is asked any more? The data set is the same. */
static bool is_unfenced_only(const struct kw_sync *sync)
{
	return kw_term_judge(&sync->local->term, &sync->follow->history) == KW_TERM_UNFENCED &&
	       sync->authority.relation != KW_AUTHORITY_FOREIGN;
}

/* Why the table is REFUSED: what a person must do, and the sentence. */
static enum kw_sync_obstacle refusal(const struct kw_sync *sync, char text[KW_SYNC_WHY])
{
	const struct kw_local *local = sync->local;
	const struct kw_history *table = &sync->follow->history;

	enum kw_term_standing standing = kw_term_judge(&local->term, table);

	if (kw_term_refuses(standing))
		kw_term_refusal(&local->term, table, text, KW_SYNC_WHY);
	if (standing == KW_TERM_UNFENCED && !is_unfenced_only(sync))
		strncat(text, "; the table also follows another data set",
			KW_SYNC_WHY - 1 - strlen(text));
	if (kw_term_refuses(standing))
		return standing == KW_TERM_DEPOSED ? KW_SYNC_NEEDS_TERM : KW_SYNC_NEEDS_MANDATE;
	kw_authority_refusal(&local->history, table, text, KW_SYNC_WHY);
	return KW_SYNC_NEEDS_LINK;
}

static void explain(struct kw_sync *sync, bool changed)
{
	enum kw_sync_obstacle obstacle = KW_SYNC_WAITS;
	char text[KW_SYNC_WHY];

	switch (sync->authority.permission) {
	case KW_PERMISSION_UNASKED:
	case KW_PERMISSION_GRANTED:
		return;
	case KW_PERMISSION_AWAITED:
		kw_sync_set_why(sync, obstacle, "the proxy has not reached the primary yet");
		return;
	case KW_PERMISSION_RAISING:
		kw_sync_explain_raise(sync);
		return;
	case KW_PERMISSION_UNCONFIRMED:
		kw_term_unconfirmed(&sync->follow->history, text, sizeof text);
		break;
	case KW_PERMISSION_REFUSED:
		obstacle = refusal(sync, text);
		break;
	}
	kw_sync_set_why(sync, obstacle, "%s", text);
	if (changed)
		kw_log_warn("sync", "%s", text);
}

static void set_permission(struct kw_sync *sync, enum kw_permission permission)
{
	enum kw_permission before = sync->authority.permission;

	sync->authority.permission = permission;
	if (is_in_the_way(permission))
		explain(sync, permission != before);
	else if (is_in_the_way(before))
		kw_sync_clear_why(sync);
}

/* What the reader is about to hand on may not be applied. It goes on from its position later. */
static bool must_stop(enum kw_permission permission)
{
	return permission == KW_PERMISSION_REFUSED || permission == KW_PERMISSION_UNCONFIRMED ||
	       permission == KW_PERMISSION_RAISING;
}

static struct kw_authority_facts facts_about(
	const struct kw_sync *sync, const struct kw_history *table)
{
	static const struct kw_history none;

	return (struct kw_authority_facts){
		/* Without a local server there are no data that could be another table's. */
		.data = kw_sync_needs_local(sync) ? &sync->local->history : &none,
		.term = &sync->local->term,
		.table = table,
		.approved = &sync->authority.approved,
		.foreign = sync->foreign,
		.listed = sync->listed,
	};
}

enum kw_permission kw_sync_permission(const struct kw_sync *sync, const struct kw_history *table)
{
	const struct kw_authority_facts facts = facts_about(sync, table);

	return kw_authority_permission(&facts);
}

void kw_sync_judge_table(struct kw_sync *sync)
{
	const struct kw_authority_facts facts = facts_about(sync, &sync->follow->history);

	if (!kw_follow_up(sync->follow) || sync->follow->superblock.epoch == 0) {
		set_permission(sync, KW_PERMISSION_UNASKED);
		return;
	}
	sync->authority.relation = kw_authority_judge(facts.data, facts.table);
	set_permission(sync, kw_sync_raise(sync, &facts));
	/* Data of others, and those of another data set, get their history with the claim. */
	if (kw_sync_may_follow(sync) && kw_sync_phase(sync) != KW_SYNC_CLAIM &&
		sync->data != KW_SYNC_DATA_FOREIGN &&
		sync->authority.relation != KW_AUTHORITY_FOREIGN &&
		!kw_term_refuses(kw_term_judge(facts.term, facts.table))) {
		adopt(sync, sync->authority.relation);
		sync->authority.approved = (struct kw_history){0};
	}
	if (must_stop(sync->authority.permission) && !kw_follow_idle(sync->follow))
		kw_follow_stop(sync->follow);
}

/*
 * An agent that is refused has nothing to write: the next one may have the server. What was read
 * before must have arrived, and a cursor that is wrong must have lost its position.
 */
void kw_sync_yield(struct kw_sync *sync)
{
	bool refused = sync->authority.permission == KW_PERMISSION_REFUSED;
	char text[KW_SYNC_WHY];

	if (sync->authority.permission == KW_PERMISSION_GRANTED ||
		sync->authority.permission == KW_PERMISSION_RAISING)
		kw_local_claim(sync->local);
	if (!refused || !kw_sync_needs_local(sync) || !kw_local_ready(sync->local) ||
		!kw_follow_idle(sync->follow) || !kw_pair_is_level(sync->pair) ||
		kw_pair_is_bound(sync->pair) || kw_prune_running(&sync->walk) ||
		kw_sync_owes_cursor(sync))
		return;
	/* This step can have cleared sync->why: a snapshot that was not read to its end is given
	 * up. */
	refusal(sync, text);
	kw_local_yield(sync->local, text);
}

void kw_sync_claim_history(struct kw_sync *sync)
{
	assert(kw_sync_may_follow(sync) && kw_sync_phase(sync) == KW_SYNC_CLAIM);
	if (sync->authority.relation == KW_AUTHORITY_FOREIGN)
		kw_log_warn("sync", "the local data are replaced by those of another data set");
	sync->in.claim.before = sync->local->history;
	kw_local_set_history(sync->local, &sync->follow->history);
	kw_sync_claim_term(sync);
}

void kw_sync_approve_table(struct kw_sync *sync)
{
	bool unfenced = is_unfenced_only(sync);

	assert(sync->authority.permission == KW_PERMISSION_REFUSED);
	sync->authority.approved = sync->follow->history;
	/* All local keys are those of another data set: the brake would ask a second time. */
	if (!unfenced)
		kw_brake_consent(&sync->brake, sync->follow->superblock.epoch);
	/* The position of the same data set still counts. The cursor loses its term (raise.c). */
	if (kw_sync_phase(sync) != KW_SYNC_WAIT &&
		!(unfenced && kw_sync_phase(sync) == KW_SYNC_TAIL))
		kw_sync_restart(sync, "the table was approved");
	sync->in.wait.retry_us = 0;
	kw_sync_judge_table(sync);
}

uint64_t kw_sync_passed(const struct kw_sync *sync)
{
	/* Before a new connection's table is known it is taken for the one of before. */
	if (sync->authority.permission == KW_PERMISSION_AWAITED ||
		sync->authority.permission == KW_PERMISSION_REFUSED)
		return UINT64_MAX;
	return sync->passed;
}
