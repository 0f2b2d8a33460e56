/* From WAIT to the first record: may the server be written to, and from where is it read? */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static void start_reader(struct kw_sync *sync, const struct kw_cursor *from)
{
	assert(sync->intake == KW_SYNC_INTAKE_OPEN);
	kw_sync_clear_why(sync);
	/* Another proxy can answer now: equality with the previous one says nothing. */
	kw_progress_unlevel(&sync->progress);
	kw_follow_start(sync->follow, from);
	sync->started_us = sync->follow->begun_us;
}

static void start_snapshot(struct kw_sync *sync)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;

	/* The proxy must keep the tombstones of later versions. */
	sync->passed = superblock->version;
	sync->snapshots++;
	if (sync->snapshots > 1)
		sync->resyncs++;
	kw_log_info("sync", "%s: snapshot of %" PRIu64 " keys, epoch %016" PRIx64,
		sync->purpose == KW_SYNC_RECONCILE ? "reconcile" : "bootstrap", superblock->keys,
		superblock->epoch);
	start_reader(sync, NULL);
	kw_sync_enter(sync, KW_SYNC_SNAPSHOT, "claimed");
	kw_sync_load_begins(sync, kw_clock_us());
}

void kw_sync_resume(struct kw_sync *sync)
{
	kw_pair_resume(sync->pair);
	kw_log_info("sync", "resuming behind version %" PRIu64 " of epoch %016" PRIx64,
		sync->position.version, sync->position.epoch);
	start_reader(sync, &sync->position);
	if (kw_sync_phase(sync) != KW_SYNC_HELD)
		kw_sync_enter(sync, KW_SYNC_TAIL, "there is a position");
}

void kw_sync_wait_again(struct kw_sync *sync, const char *why)
{
	kw_sync_enter(sync, KW_SYNC_WAIT, why);
	sync->in.wait.retry_us = kw_clock_us() + KW_SYNC_RETRY_US;
	kw_sync_set_why(sync, KW_SYNC_WAITS, "%s", why);
	kw_sync_log_why(sync);
}

/*
 * A server without memory refuses even the cursor. The deletes that make room come only with the
 * snapshot and its prune, so there is nothing to wait for. The old cursor stays, if that is
 * allowed. It must not stay with another data set: an agent that starts later would take a mixture
 * for what the cursor says. A snapshot that replaces everything does not begin like that, either:
 * its claim is a server that is ready to load. Nor does one of another term than the old cursor
 * says.
 */
static bool without_claim(const struct kw_sync *sync, const struct kw_failure *failure)
{
	const struct kw_local *local = sync->local;

	if (failure->answer != KW_SERVER_E_OOM || sync->data == KW_SYNC_DATA_FOREIGN ||
		kw_pair_replaces(sync->pair) || kw_local_spoiled(local) ||
		!kw_term_equal(&sync->authority.said, &local->term) ||
		kw_authority_judge(&sync->in.claim.before, &local->history) == KW_AUTHORITY_FOREIGN)
		return false;
	return kw_local_written(local) ||
	       kw_cursor_doubt_is_of_eviction(kw_sync_cursor_doubt(sync));
}

/*
 * The claim can last, and the proxy can be lost meanwhile. If another one is there already, and its
 * table is not complete, all is decided again.
 */
static bool is_as_claimed(const struct kw_sync *sync)
{
	return kw_follow_up(sync->follow) && kw_follow_idle(sync->follow) &&
	       sync->intake == KW_SYNC_INTAKE_OPEN && kw_sync_may_follow(sync) &&
	       sync->follow->superblock.epoch == sync->in.claim.epoch &&
	       kw_sync_is_table_enough(sync) && kw_sync_is_term_claimed(sync);
}

static void on_claimed(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	if (kw_sync_phase(sync) != KW_SYNC_CLAIM)
		return;
	if (failure && !without_claim(sync, failure)) {
		kw_local_set_history(sync->local, &sync->in.claim.before);
		kw_sync_term_claimed(sync, false);
		kw_sync_wait_again(sync, failure->text);
		return;
	}
	if (!failure)
		kw_local_claimed(sync->local);
	kw_sync_term_claimed(sync, true);
	sync->authority.approved = (struct kw_history){0};
	sync->data = KW_SYNC_DATA_CLAIMED;
	sync->logged[0] = '\0';
	sync->save.error[0] = '\0';
	if (is_as_claimed(sync))
		start_snapshot(sync);
	else
		kw_sync_forget_position(sync, "not for the table that is there now");
}

static void on_counted(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	if (kw_sync_phase(sync) != KW_SYNC_COUNT)
		return;
	if (failure) {
		kw_sync_wait_again(sync, failure->text);
		return;
	}
	sync->counted_keys = sync->walk.matched;
	kw_sync_enter(sync, KW_SYNC_WAIT, "counted");
	sync->in.wait.retry_us = sync->counted_keys > 0 ? kw_clock_us() + KW_SYNC_RETRY_US : 0;
}

static enum kw_claim_scope scope_of_claim(const struct kw_sync *sync)
{
	if (kw_pair_replaces(sync->pair))
		return KW_CLAIM_EVERYTHING;
	return kw_filter_picks_keys(sync->filter) ? KW_CLAIM_SOME_KEYS : KW_CLAIM_DATABASES;
}

static void count(struct kw_sync *sync)
{
	const struct kw_prune_plan plan = {
		.filter = sync->filter,
		.database = -1,
		.count_only = true,
	};

	kw_prune_start(&sync->walk, &plan, on_counted, sync);
	kw_sync_enter(sync, KW_SYNC_COUNT, "only some keys are followed");
}

/* If the result is a refusal, or not known, keys are counted again each second. */
static enum kw_claim may_claim(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_claim_facts facts = {
		.scope = scope_of_claim(sync),
		.data = sync->data,
		.consent = sync->consent,
		.keys = sync->local->facts.keys,
		.counted = sync->counted_keys,
	};
	enum kw_claim claim = kw_claim_judge(&facts);
	char text[KW_SYNC_WHY];

	assert(now_us >= sync->in.wait.retry_us);
	if (claim == KW_CLAIM_REFUSED) {
		kw_claim_refusal(
			&facts, kw_pair_mode(sync->pair), KW_PRUNE_COUNT_MAX, text, sizeof text);
		kw_sync_set_why(sync, KW_SYNC_NEEDS_CONSENT, "%s", text);
	}
	if (!kw_claim_granted(claim) && facts.scope == KW_CLAIM_SOME_KEYS)
		count(sync);
	/* A count is good for one claim: later there might be more keys. */
	if (kw_claim_granted(claim))
		sync->counted_keys = KW_CLAIM_NOT_COUNTED;
	return claim;
}

/* Are both ends there, and is there nothing to wait for? */
static bool can_begin(struct kw_sync *sync, uint64_t now_us)
{
	if (!kw_follow_up(sync->follow) || sync->follow->superblock.epoch == 0 ||
		!kw_follow_idle(sync->follow) || sync->intake != KW_SYNC_INTAKE_OPEN ||
		!kw_sync_may_follow(sync) || now_us < sync->in.wait.retry_us ||
		now_us < sync->reread.not_before_us)
		return false;
	return !kw_sync_needs_local(sync) || kw_local_ready(sync->local);
}

static void claim(struct kw_sync *sync)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;
	bool some = kw_filter_picks_keys(sync->filter);
	const struct kw_load_plan plan = {
		.epoch = superblock->epoch,
		.keys = some ? 0 : kw_sync_keys_expected(sync),
		.consented = kw_brake_approved(&sync->brake, superblock->epoch),
	};

	/* The link of before ends with this claim, and with it changes that were handed on. */
	if (kw_pair_replaces(sync->pair))
		kw_digests_tell(&sync->index, KW_DIGESTS_REPLACED);
	kw_sync_clear_why(sync);
	kw_sync_enter(sync, KW_SYNC_CLAIM, "a snapshot is needed");
	sync->in.claim.epoch = superblock->epoch;
	kw_sync_claim_history(sync);
	kw_pair_prepare(sync->pair, &plan, on_claimed, sync);
}

static enum kw_sync_purpose purpose_of_snapshot(const struct kw_sync *sync)
{
	bool may_hold_keys = sync->local->facts.keys > 0 || sync->data == KW_SYNC_DATA_CLAIMED;

	return kw_sync_needs_local(sync) && !kw_pair_replaces(sync->pair) && may_hold_keys
		       ? KW_SYNC_RECONCILE
		       : KW_SYNC_BOOTSTRAP;
}

/*
 * A table that is complete, and was never fresh, is one that its proxy kept over a restart, or now
 * fills from another primary. Until it is compared it can be older than the local data, however
 * long: data would go back, and keys that came since would be deleted.
 */
static bool can_be_older(const struct kw_sync *sync)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;

	return sync->local->facts.keys > 0 && sync->data != KW_SYNC_DATA_FOREIGN &&
	       superblock->complete && superblock->fresh_us == 0 &&
	       (superblock->source_state == KW_SOURCE_CONNECTING ||
		       superblock->source_state == KW_SOURCE_RECONCILING);
}

void kw_sync_decide(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;
	enum kw_claim right = KW_CLAIM_EMPTY; /* without a local server there are no data */

	if (!can_begin(sync, now_us) || !kw_sync_server_fits(sync))
		return;
	if (kw_sync_positioned(sync)) {
		kw_sync_resume(sync);
		return;
	}
	if (!superblock->complete && superblock->source_state == KW_SOURCE_CONNECTING) {
		kw_sync_set_why(sync, KW_SYNC_WAITS, "the proxy has not reached the primary yet");
		return;
	}
	kw_pair_choose(sync->pair, kw_sync_may_merge(sync));
	/* On a link one cursor travels at a time, and the claim is the next. */
	if (kw_pair_is_led(sync->pair) && !kw_pair_replaces(sync->pair) && sync->save.writing)
		return;
	if (kw_sync_needs_local(sync))
		right = may_claim(sync, now_us);
	if (!kw_claim_granted(right))
		return;
	if (can_be_older(sync)) {
		kw_sync_set_why(sync, KW_SYNC_WAITS,
			"the proxy compares its table of before with the primary: the local data "
			"are kept until it has");
		return;
	}
	if (!kw_sync_may_load(sync, now_us)) {
		kw_sync_set_why(sync, KW_SYNC_WAITS,
			"the proxy hangs: no load is begun that it would hold up");
		return;
	}
	sync->purpose = purpose_of_snapshot(sync);
	if (!kw_sync_is_table_enough(sync)) {
		kw_sync_set_why(sync, KW_SYNC_WAITS,
			"waiting for the proxy's first scan to be complete before local keys are "
			"%s",
			kw_pair_replaces(sync->pair) ? "replaced by it" : "compared with it");
		/* If keys had to be counted for this, they are counted again: not all the time. */
		if (right == KW_CLAIM_EMPTY && sync->local->facts.keys > 0)
			sync->in.wait.retry_us = now_us + KW_SYNC_RETRY_US;
		return;
	}
	/* A server without our cursor: the operator has consented that its data are replaced. */
	if (sync->data == KW_SYNC_DATA_FOREIGN)
		kw_brake_consent(&sync->brake, superblock->epoch);
	if (kw_sync_may_replace(sync, now_us))
		claim(sync);
}
