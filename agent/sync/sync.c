#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_US 1000000
#define CURSOR_INTERVAL_US 200000

void kw_sync_init(struct kw_sync *sync)
{
	assert(sync->follow && sync->local && sync->apply && sync->filter && sync->due);
	sync->passed = UINT64_MAX;
	sync->counted_keys = KW_CLAIM_NOT_COUNTED;
	kw_reread_init(&sync->reread);
	kw_debt_init(&sync->debt);
	kw_prune_init(&sync->walk, sync->local);
	kw_sm_init(&sync->sm, &kw_sync_machine, sync, KW_SYNC_WAIT);
}

void kw_sync_close(struct kw_sync *sync)
{
	kw_keyset_close(&sync->keyset);
}

static bool needs_local(const struct kw_sync *sync)
{
	return sync->apply->ops->needs_local;
}

static void set_why(struct kw_sync *sync, enum kw_sync_obstacle obstacle, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void set_why(struct kw_sync *sync, enum kw_sync_obstacle obstacle, const char *format, ...)
{
	va_list args;

	assert(obstacle != KW_SYNC_FREE);
	sync->obstacle = obstacle;
	va_start(args, format);
	vsnprintf(sync->why, sizeof sync->why, format, args);
	va_end(args);
}

static void clear_why(struct kw_sync *sync)
{
	sync->obstacle = KW_SYNC_FREE;
	sync->why[0] = '\0';
}

/* ---- what happens outside ---- */

static void forget_position(struct kw_sync *sync, const char *why)
{
	kw_follow_stop(sync->follow);
	if (sync->apply->ops->forget)
		sync->apply->ops->forget(sync->apply);
	kw_prune_stop(&sync->walk);
	kw_keyset_close(&sync->keyset);
	kw_progress_reset(&sync->progress);
	sync->position = (struct kw_cursor){0};
	sync->passed = UINT64_MAX;
	sync->settled = false;
	sync->purpose = KW_SYNC_BOOTSTRAP;
	clear_why(sync);
	kw_sync_enter(sync, KW_SYNC_WAIT, why);
}

void kw_sync_restart(struct kw_sync *sync, const char *why)
{
	kw_log_warn("sync", "%s: reconciling", why);
	forget_position(sync, why);
}

void kw_sync_resync(struct kw_sync *sync, const char *why)
{
	if (sync->apply->ops->resync)
		sync->apply->ops->resync(sync->apply);
	kw_sync_restart(sync, why);
	sync->in.wait.retry_us = 0;
}

void kw_sync_pause(struct kw_sync *sync, bool paused)
{
	if (sync->intake == KW_SYNC_INTAKE_ENDED)
		return;
	sync->intake = paused ? KW_SYNC_INTAKE_PAUSED : KW_SYNC_INTAKE_OPEN;
	if (paused)
		kw_sync_end_load(sync, "paused in the midst of the snapshot");
}

void kw_sync_end(struct kw_sync *sync)
{
	sync->intake = KW_SYNC_INTAKE_ENDED;
	/* A pass under way is forgotten and read again next time. */
	kw_follow_stop(sync->follow);
	kw_follow_set_polling(sync->follow, false);
}

static enum kw_cursor_doubt doubt_of_cursor(const struct kw_sync *sync)
{
	return kw_cursor_doubt(&sync->local->facts, kw_filter_hash(sync->filter));
}

static bool may_resume(const struct kw_sync *sync)
{
	enum kw_cursor_doubt doubt;

	if (kw_local_spoiled(sync->local) ||
		(sync->apply->ops->resumable && !sync->apply->ops->resumable(sync->apply)))
		return false;
	doubt = doubt_of_cursor(sync);
	if (doubt != KW_DOUBT_NONE && doubt != KW_DOUBT_ABSENT)
		kw_log_info(
			"sync", "the local cursor is not used: %s", kw_cursor_doubt_text(doubt));
	return doubt == KW_DOUBT_NONE;
}

void kw_sync_assessed(struct kw_sync *sync, bool continuous)
{
	const struct kw_local_facts *facts = &sync->local->facts;

	if (!continuous) {
		forget_position(sync, "the local server was assessed");
		sync->data = facts->cursor_kind == KW_CURSOR_OURS ? KW_SYNC_DATA_OURS
								  : KW_SYNC_DATA_FOREIGN;
		sync->counted_keys = KW_CLAIM_NOT_COUNTED;
		sync->in.wait.retry_us = 0;
		sync->save.error[0] = '\0';
		kw_debt_assess(&sync->debt, facts->evicted, facts->resets);
		if (may_resume(sync)) {
			sync->epoch = facts->cursor.epoch;
			sync->position = (struct kw_cursor){sync->epoch, facts->cursor.version};
			sync->passed = facts->cursor.version;
			kw_progress_resume(&sync->progress, facts->cursor.version);
		}
	}
	kw_sync_looked(sync);
	sync->apply->ops->attach(sync->apply, continuous);
}

void kw_sync_gone(struct kw_sync *sync)
{
	sync->apply->ops->detach(sync->apply);
	kw_prune_stop(&sync->walk);
	if (kw_sync_phase(sync) == KW_SYNC_COUNT || kw_sync_phase(sync) == KW_SYNC_CLAIM)
		kw_sync_enter(sync, KW_SYNC_WAIT, "the local server is gone");
	if (kw_sync_phase(sync) == KW_SYNC_PRUNE)
		kw_sync_enter(sync, KW_SYNC_SETTLE, "the local server is gone");
	/* Forget the refusal. It is reported again only if the server refuses again. */
	clear_why(sync);
}

/* ---- phases ---- */

static void start_reader(struct kw_sync *sync, const struct kw_cursor *from)
{
	assert(sync->intake == KW_SYNC_INTAKE_OPEN);
	clear_why(sync);
	sync->first_pass = true;
	/* Another proxy may answer now: what was equal to the one before says nothing. */
	kw_progress_unlevel(&sync->progress);
	kw_follow_start(sync->follow, from);
}

static void start_snapshot(struct kw_sync *sync)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;

	/* Told at once: the proxy is to keep the tombstones of what comes after. */
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

static void resume(struct kw_sync *sync)
{
	if (sync->apply->ops->resume)
		sync->apply->ops->resume(sync->apply);
	kw_log_info("sync", "resuming behind version %" PRIu64 " of epoch %016" PRIx64,
		sync->position.version, sync->position.epoch);
	start_reader(sync, &sync->position);
	kw_sync_enter(sync, KW_SYNC_TAIL, "there is a position");
}

static void wait_again(struct kw_sync *sync, const char *why)
{
	kw_sync_enter(sync, KW_SYNC_WAIT, why);
	sync->in.wait.retry_us = kw_clock_us() + RETRY_US;
	set_why(sync, KW_SYNC_WAITS, "%s", why);
	if (strcmp(sync->logged, sync->why) == 0)
		return;
	memcpy(sync->logged, sync->why, sizeof sync->logged);
	kw_log_warn("sync", "%s (trying again)", why);
}

/*
 * A server without memory refuses even the cursor; but the deletes that make room come with the
 * snapshot and its prune. So the cursor that is there stays, if it may. To wait for room would be
 * to wait for ever.
 */
static bool without_claim(const struct kw_sync *sync, const struct kw_failure *failure)
{
	const struct kw_local *local = sync->local;

	if (failure->answer != KW_SERVER_E_OOM || sync->data == KW_SYNC_DATA_FOREIGN ||
		kw_local_spoiled(local))
		return false;
	return kw_local_written(local) || kw_cursor_doubt_is_of_eviction(doubt_of_cursor(sync));
}

/*
 * The claim may last, and the proxy may be lost meanwhile. Another one may be there already, whose
 * table is not complete: then all is decided again.
 */
static bool is_as_claimed(const struct kw_sync *sync)
{
	return kw_follow_up(sync->follow) && kw_follow_idle(sync->follow) &&
	       sync->intake == KW_SYNC_INTAKE_OPEN &&
	       sync->follow->superblock.epoch == sync->in.claim.epoch;
}

static void on_claimed(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	if (kw_sync_phase(sync) != KW_SYNC_CLAIM)
		return;
	if (failure && !without_claim(sync, failure)) {
		wait_again(sync, failure->text);
		return;
	}
	if (!failure)
		kw_local_claimed(sync->local);
	sync->data = KW_SYNC_DATA_CLAIMED;
	sync->logged[0] = '\0';
	sync->save.error[0] = '\0';
	if (is_as_claimed(sync))
		start_snapshot(sync);
	else
		forget_position(sync, "not for the table that is there now");
}

static void on_counted(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	if (kw_sync_phase(sync) != KW_SYNC_COUNT)
		return;
	if (failure) {
		wait_again(sync, failure->text);
		return;
	}
	sync->counted_keys = sync->walk.matched;
	kw_sync_enter(sync, KW_SYNC_WAIT, "counted");
	sync->in.wait.retry_us = sync->counted_keys > 0 ? kw_clock_us() + RETRY_US : 0;
}

static enum kw_claim_scope scope_of_claim(const struct kw_sync *sync)
{
	if (sync->apply->whole)
		return KW_CLAIM_EVERYTHING;
	return sync->filter->prefix_count > 0 ? KW_CLAIM_PREFIXES : KW_CLAIM_DATABASES;
}

static void count(struct kw_sync *sync)
{
	const struct kw_prune_plan plan = {
		.filter = sync->filter,
		.database = -1,
		.count_only = true,
	};

	kw_prune_start(&sync->walk, &plan, on_counted, sync);
	kw_sync_enter(sync, KW_SYNC_COUNT, "only some prefixes are followed");
}

/* What is refused, or not known, is counted again each second. */
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
			&facts, sync->apply->ops->mode, KW_PRUNE_COUNT_MAX, text, sizeof text);
		set_why(sync, KW_SYNC_NEEDS_PERSON, "%s", text);
	}
	if (!kw_claim_granted(claim) && facts.scope == KW_CLAIM_PREFIXES)
		count(sync);
	/* A count is good for one claim: keys may come meanwhile. */
	if (kw_claim_granted(claim))
		sync->counted_keys = KW_CLAIM_NOT_COUNTED;
	return claim;
}

static bool server_fits(struct kw_sync *sync)
{
	struct kw_error error;

	if (!needs_local(sync) ||
		!kw_sync_check_fit(&sync->follow->superblock, &sync->local->facts.identity, &error))
		return true;
	set_why(sync, KW_SYNC_NEEDS_PERSON, "%s", error.text);
	return false;
}

/* Nothing speaks against writing and reading now? */
static bool can_begin(struct kw_sync *sync, uint64_t now_us)
{
	if (!kw_follow_up(sync->follow) || sync->follow->superblock.epoch == 0 ||
		!kw_follow_idle(sync->follow) || sync->intake != KW_SYNC_INTAKE_OPEN ||
		now_us < sync->in.wait.retry_us || now_us < sync->reread.not_before_us)
		return false;
	return !needs_local(sync) || kw_local_ready(sync->local);
}

static void claim(struct kw_sync *sync)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;
	bool prefixes = sync->filter->prefix_count > 0;
	const struct kw_apply_plan plan = {
		.epoch = superblock->epoch,
		.keys = prefixes ? 0 : kw_sync_keys_expected(sync),
		.rdb_version = superblock->rdb_version,
	};

	clear_why(sync);
	kw_sync_enter(sync, KW_SYNC_CLAIM, "a snapshot is needed");
	sync->in.claim.epoch = superblock->epoch;
	sync->apply->ops->prepare(sync->apply, &plan, on_claimed, sync);
}

static enum kw_sync_purpose purpose_of_snapshot(const struct kw_sync *sync)
{
	bool may_hold_keys = sync->local->facts.keys > 0 || sync->data == KW_SYNC_DATA_CLAIMED;

	return needs_local(sync) && !sync->apply->whole && may_hold_keys ? KW_SYNC_RECONCILE
									 : KW_SYNC_BOOTSTRAP;
}

static void decide(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;
	enum kw_claim right = KW_CLAIM_EMPTY; /* without a local server there are no data */

	if (!can_begin(sync, now_us) || !server_fits(sync))
		return;
	if (kw_sync_positioned(sync)) {
		resume(sync);
		return;
	}
	if (!superblock->complete && superblock->source_state == KW_SOURCE_CONNECTING) {
		set_why(sync, KW_SYNC_WAITS, "the proxy has not reached the primary yet");
		return;
	}
	if (needs_local(sync))
		right = may_claim(sync, now_us);
	if (!kw_claim_granted(right))
		return;
	if (!kw_sync_may_load(sync, now_us)) {
		set_why(sync, KW_SYNC_WAITS,
			"the proxy hangs: no load is begun that it would hold up");
		return;
	}
	sync->purpose = purpose_of_snapshot(sync);
	/* Against an incomplete table good keys would be pruned, or replaced by less. */
	if ((sync->purpose == KW_SYNC_RECONCILE || sync->apply->whole) && !superblock->complete) {
		set_why(sync, KW_SYNC_WAITS,
			"waiting for the proxy's first scan to be complete before local keys are "
			"%s",
			sync->apply->whole ? "replaced by it" : "compared with it");
		return;
	}
	claim(sync);
}

/* The state says it for as long as it lasts, the log once. */
static void prune_again(struct kw_sync *sync, const struct kw_failure *failure)
{
	bool permission = failure->answer == KW_SERVER_E_PERMISSION;

	kw_sync_enter(sync, KW_SYNC_SETTLE, failure->text);
	sync->in.settle.retry_us = kw_clock_us() + RETRY_US;
	set_why(sync, permission ? KW_SYNC_NEEDS_PERSON : KW_SYNC_WAITS,
		"local keys that the table does not have cannot be deleted: %.300s%s",
		failure->text,
		permission ? ": grant the agent's user +scan +unlink +select on all keys" : "");
	if (strcmp(sync->logged, sync->why) == 0)
		return;
	memcpy(sync->logged, sync->why, sizeof sync->logged);
	kw_log_warn("sync", "%s (trying again)", sync->why);
}

static void on_pruned(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	sync->pruned += sync->walk.matched;
	if (failure) {
		prune_again(sync, failure);
		return;
	}
	kw_log_info("sync",
		"pruned %" PRIu64 " of %" PRIu64 " local keys that the table does not have",
		sync->walk.matched, sync->walk.looked_at);
	kw_keyset_close(&sync->keyset);
	sync->purpose = KW_SYNC_BOOTSTRAP;
	sync->logged[0] = '\0';
	clear_why(sync);
	kw_sync_enter(sync, KW_SYNC_TAIL, "pruned");
}

static void settle(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_prune_plan plan = {
		.filter = sync->filter,
		.keep = &sync->keyset,
		.database = -1,
	};

	if (!kw_sync_positioned(sync) || sync->apply->done != sync->apply->taken ||
		!kw_local_ready(sync->local) || now_us < sync->in.settle.retry_us)
		return;
	kw_prune_start(&sync->walk, &plan, on_pruned, sync);
	kw_sync_enter(sync, KW_SYNC_PRUNE, "all of the snapshot is acknowledged");
}

/* The link came back, or what did not verify is read again. */
static void restart_reader(struct kw_sync *sync, uint64_t now_us)
{
	if (!kw_follow_up(sync->follow) || !kw_follow_idle(sync->follow) ||
		now_us < sync->reread.not_before_us || sync->follow->superblock.epoch == 0)
		return;
	switch (kw_resume_judge(kw_sync_phase(sync), kw_sync_positioned(sync))) {
	case KW_RESUME_NOTHING:
		break;
	case KW_RESUME_OVER:
		forget_position(sync, "the snapshot was not read to its end");
		break;
	case KW_RESUME_ON:
		if (sync->intake == KW_SYNC_INTAKE_OPEN && server_fits(sync))
			resume(sync);
		break;
	}
}

static void hold_or_poll(struct kw_sync *sync)
{
	enum kw_sync_phase phase = kw_sync_phase(sync);
	bool reading = phase == KW_SYNC_TAIL || phase == KW_SYNC_SNAPSHOT ||
		       (phase == KW_SYNC_SETTLE && !kw_sync_positioned(sync));
	bool polling = reading && sync->intake == KW_SYNC_INTAKE_OPEN;

	/* A primary may be upgraded while we follow it. */
	if (polling && needs_local(sync) && kw_local_ready(sync->local)) {
		polling = server_fits(sync);
		if (polling)
			clear_why(sync);
		else
			kw_sync_end_load(sync, sync->why);
	}
	kw_follow_set_polling(sync->follow, polling);
}

void kw_sync_acknowledged(struct kw_sync *sync)
{
	const struct kw_apply *apply = sync->apply;

	kw_progress_acknowledged(&sync->progress, apply->done,
		apply->confirms ? apply->confirmed : apply->done, kw_wall_us());
}

void kw_sync_step(struct kw_sync *sync, uint64_t now_us)
{
	uint64_t interval = sync->save.error[0] ? RETRY_US : CURSOR_INTERVAL_US;

	kw_sync_acknowledged(sync);
	switch (kw_sync_phase(sync)) {
	case KW_SYNC_WAIT:
		decide(sync, now_us);
		break;
	case KW_SYNC_SETTLE:
		restart_reader(sync, now_us);
		if (kw_sync_phase(sync) == KW_SYNC_SETTLE)
			settle(sync, now_us);
		break;
	case KW_SYNC_SNAPSHOT:
		restart_reader(sync, now_us);
		break;
	case KW_SYNC_TAIL:
		restart_reader(sync, now_us);
		if (kw_sync_phase(sync) == KW_SYNC_TAIL)
			kw_sync_settle_debt(sync, now_us);
		break;
	case KW_SYNC_COUNT:
	case KW_SYNC_CLAIM:
	case KW_SYNC_PRUNE:
		break;
	}
	if (now_us - sync->save.tried_us >= interval)
		kw_sync_save(sync, now_us);
	kw_sync_watch_load(sync, now_us);
	hold_or_poll(sync);
	kw_sync_learn_level(sync, now_us);
}
