#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CURSOR_INTERVAL_US 200000

static uint64_t random_seed(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed ? seed : kw_clock_us();
}

void kw_sync_init(struct kw_sync *sync)
{
	assert(sync->follow && sync->local && sync->pair && sync->filter && sync->due);
	sync->passed = UINT64_MAX;
	sync->counted_keys = KW_CLAIM_NOT_COUNTED;
	kw_stages_init(&sync->progress.stages, kw_wall_us());
	kw_reread_init(&sync->reread);
	kw_debt_init(&sync->debt);
	kw_prune_init(&sync->walk, sync->local);
	kw_brake_init(&sync->brake, sync->max_prune);
	kw_sample_init(&sync->sample, sync->follow);
	kw_tokens_init(&sync->tokens, random_seed());
	kw_digests_init(&sync->index, sync->indexes, random_seed());
	sync->rollback.recent.seed = random_seed();
	kw_sm_init(&sync->sm, &kw_sync_machine, sync, KW_SYNC_WAIT);
}

void kw_sync_close(struct kw_sync *sync)
{
	kw_prune_stop(&sync->walk);
	kw_sample_close(&sync->sample);
	kw_keyset_close(&sync->keyset);
	kw_digests_close(&sync->index);
	kw_recent_close(&sync->rollback.recent);
	kw_buffer_close(&sync->name);
}

void kw_sync_set_max_prune(struct kw_sync *sync, double share)
{
	sync->brake.share = share;
	sync->brake.look_us = 0;
}

void kw_sync_set_why(struct kw_sync *sync, enum kw_sync_obstacle obstacle, const char *format, ...)
{
	va_list args;

	assert(obstacle != KW_SYNC_FREE);
	sync->obstacle = obstacle;
	va_start(args, format);
	vsnprintf(sync->why, sizeof sync->why, format, args);
	va_end(args);
}

void kw_sync_clear_why(struct kw_sync *sync)
{
	sync->obstacle = KW_SYNC_FREE;
	sync->why[0] = '\0';
}

void kw_sync_log_why(struct kw_sync *sync)
{
	assert(sync->obstacle != KW_SYNC_FREE);
	if (strcmp(sync->logged, sync->why) == 0)
		return;
	memcpy(sync->logged, sync->why, sizeof sync->logged);
	kw_log_warn("sync", "%s (trying again)", sync->why);
}

bool kw_sync_server_fits(struct kw_sync *sync)
{
	struct kw_error error;

	if (!kw_sync_needs_local(sync) ||
		!kw_sync_check_fit(&sync->follow->superblock, &sync->local->facts.identity, &error))
		return true;
	kw_sync_set_why(sync, KW_SYNC_NEEDS_SERVER, "%s", error.text);
	return false;
}

/* ---- what happens outside ---- */

void kw_sync_forget_position(struct kw_sync *sync, const char *why)
{
	kw_follow_stop(sync->follow);
	/* A load that is given up leaves the data of before, and changes that wait are forgotten.
	 */
	if (!kw_pair_is_whole(sync->pair))
		kw_digests_tell(&sync->index, KW_DIGESTS_REPLACED);
	kw_pair_abandon(sync->pair);
	kw_prune_stop(&sync->walk);
	kw_sample_stop(&sync->sample);
	kw_brake_release(&sync->brake);
	kw_keyset_close(&sync->keyset);
	kw_progress_reset(&sync->progress);
	sync->position = (struct kw_cursor){0};
	sync->passed = UINT64_MAX;
	sync->settled = false;
	sync->purpose = KW_SYNC_BOOTSTRAP;
	sync->manner = KW_SYNC_NOTES_KEYS;
	kw_sync_clear_why(sync);
	kw_sync_enter(sync, KW_SYNC_WAIT, why);
}

void kw_sync_lapse(struct kw_sync *sync, const char *why)
{
	kw_log_warn("sync", "%s: reconciling", why);
	kw_sync_forget_position(sync, why);
}

void kw_sync_restart(struct kw_sync *sync, const char *why)
{
	kw_digests_tell(&sync->index, KW_DIGESTS_AGAIN);
	kw_sync_lapse(sync, why);
}

void kw_sync_resync(struct kw_sync *sync, const char *why)
{
	kw_digests_tell(&sync->index, KW_DIGESTS_RESYNC);
	kw_pair_resync(sync->pair);
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

static bool may_resume(const struct kw_sync *sync)
{
	enum kw_cursor_doubt doubt;

	if (kw_local_spoiled(sync->local) || !kw_pair_resumable(sync->pair))
		return false;
	doubt = kw_sync_cursor_doubt(sync);
	if (doubt != KW_DOUBT_NONE && doubt != KW_DOUBT_ABSENT)
		kw_log_info(
			"sync", "the local cursor is not used: %s", kw_cursor_doubt_text(doubt));
	return doubt == KW_DOUBT_NONE;
}

/* What was agreed to before a snapshot that was not completed holds for the same snapshot. */
static void recall_consent(struct kw_sync *sync)
{
	const struct kw_local_facts *facts = &sync->local->facts;

	if (facts->cursor_kind == KW_CURSOR_OURS && facts->cursor.version == 0 &&
		facts->cursor.consented > 0)
		kw_brake_recall(&sync->brake, facts->cursor.epoch, facts->cursor.consented);
}

void kw_sync_assessed(struct kw_sync *sync, bool continuous)
{
	const struct kw_local_facts *facts = &sync->local->facts;
	const struct kw_history none = {0};
	const struct kw_term no_term = {0};
	const struct kw_debt_counts counts = kw_sync_counts(sync);

	if (!continuous) {
		kw_digests_tell(&sync->index, KW_DIGESTS_ASSESSED);
		sync->resets = facts->resets;
		kw_sync_forget_position(sync, "the local server was assessed");
		sync->data = facts->cursor_kind == KW_CURSOR_OURS ? KW_SYNC_DATA_OURS
								  : KW_SYNC_DATA_FOREIGN;
		sync->counted_keys = KW_CLAIM_NOT_COUNTED;
		kw_brake_forget(&sync->brake);
		recall_consent(sync);
		kw_local_set_history(sync->local,
			facts->cursor_kind == KW_CURSOR_OURS ? &facts->cursor.history : &none);
		kw_sync_term_found(sync,
			facts->cursor_kind == KW_CURSOR_OURS ? &facts->cursor.term : &no_term);
		sync->in.wait.retry_us = 0;
		sync->save.error[0] = '\0';
		kw_debt_assess(&sync->debt, &counts);
		if (may_resume(sync)) {
			sync->epoch = facts->cursor.epoch;
			sync->position = (struct kw_cursor){sync->epoch, facts->cursor.version};
			sync->passed = facts->cursor.version;
			kw_progress_resume(&sync->progress, facts->cursor.version);
		}
	}
	kw_sync_looked(sync);
	kw_pair_attach(sync->pair, continuous);
}

void kw_sync_gone(struct kw_sync *sync)
{
	kw_pair_detach(sync->pair);
	kw_prune_stop(&sync->walk);
	kw_sample_stop(&sync->sample);
	if (kw_sync_phase(sync) == KW_SYNC_COUNT || kw_sync_phase(sync) == KW_SYNC_SAMPLE ||
		kw_sync_phase(sync) == KW_SYNC_CLAIM)
		kw_sync_enter(sync, KW_SYNC_WAIT, "the local server is gone");
	if (kw_sync_phase(sync) == KW_SYNC_PRUNE)
		kw_sync_enter(sync, KW_SYNC_SETTLE, "the local server is gone");
	/* Forget the refusal. It is reported again only if the server refuses again. */
	kw_sync_clear_why(sync);
}

/* ---- the step ---- */

/* The link came back, or bytes that did not verify are read again. */
static void restart_reader(struct kw_sync *sync, uint64_t now_us)
{
	if (!kw_follow_up(sync->follow) || !kw_follow_idle(sync->follow) ||
		now_us < sync->reread.not_before_us || sync->follow->superblock.epoch == 0)
		return;
	switch (kw_resume_judge(kw_sync_phase(sync), kw_sync_positioned(sync))) {
	case KW_RESUME_NOTHING:
		break;
	case KW_RESUME_OVER:
		kw_sync_forget_position(sync, "the snapshot was not read to its end");
		break;
	case KW_RESUME_ON:
		if (sync->intake == KW_SYNC_INTAKE_OPEN && kw_sync_may_follow(sync) &&
			kw_sync_server_fits(sync))
			kw_sync_resume(sync);
		break;
	}
}

static void hold_or_poll(struct kw_sync *sync)
{
	enum kw_sync_phase phase = kw_sync_phase(sync);
	bool reading = phase == KW_SYNC_TAIL || phase == KW_SYNC_HELD ||
		       phase == KW_SYNC_SNAPSHOT ||
		       (phase == KW_SYNC_SETTLE && !kw_sync_positioned(sync));
	bool polling = reading && sync->intake == KW_SYNC_INTAKE_OPEN && kw_sync_may_follow(sync);

	/* The primary might be upgraded while the agent follows it. */
	if (polling && kw_sync_needs_local(sync) && kw_local_ready(sync->local)) {
		polling = kw_sync_server_fits(sync);
		if (polling)
			kw_sync_clear_why(sync);
		else
			kw_sync_end_load(sync, sync->why);
	}
	kw_follow_set_polling(sync->follow, polling);
}

void kw_sync_acknowledged(struct kw_sync *sync)
{
	const struct kw_apply_progress *progress = kw_pair_progress(sync->pair);

	kw_progress_acknowledged(
		&sync->progress, progress->done, progress->confirmed, kw_wall_us());
	kw_token_applied(&sync->tokens, sync->progress.epoch, sync->progress.ticket);
}

/* Changes wait for a cursor that must say another term. */
static bool is_save_due(const struct kw_sync *sync, uint64_t now_us)
{
	uint64_t interval = sync->save.error[0] ? KW_SYNC_RETRY_US : CURSOR_INTERVAL_US;

	if (sync->authority.permission == KW_PERMISSION_RAISING && !sync->save.error[0])
		return true;
	return now_us - sync->save.tried_us >= interval;
}

void kw_sync_step(struct kw_sync *sync, uint64_t now_us)
{
	kw_sync_acknowledged(sync);
	kw_sync_doubt_owed(sync);
	kw_sync_judge_table(sync);
	switch (kw_sync_phase(sync)) {
	case KW_SYNC_WAIT:
		kw_sync_decide(sync, now_us);
		break;
	case KW_SYNC_SETTLE:
		restart_reader(sync, now_us);
		if (kw_sync_phase(sync) == KW_SYNC_SETTLE)
			kw_sync_settle(sync, now_us);
		break;
	case KW_SYNC_SNAPSHOT:
		restart_reader(sync, now_us);
		break;
	case KW_SYNC_HELD:
		restart_reader(sync, now_us);
		if (kw_sync_phase(sync) == KW_SYNC_HELD && kw_sync_may_follow(sync))
			kw_sync_watch_held(sync, now_us);
		break;
	case KW_SYNC_TAIL:
		restart_reader(sync, now_us);
		if (kw_sync_phase(sync) == KW_SYNC_TAIL)
			kw_sync_mend(sync, now_us);
		break;
	case KW_SYNC_SAMPLE:
		kw_sample_tick(&sync->sample);
		break;
	case KW_SYNC_PRUNE:
		/* Deletions that went over the link. */
		if (kw_pair_is_level(sync->pair))
			kw_prune_removed(&sync->walk);
		break;
	case KW_SYNC_COUNT:
	case KW_SYNC_CLAIM:
		break;
	}
	if (is_save_due(sync, now_us))
		kw_sync_save(sync, now_us);
	kw_sync_yield(sync);
	kw_sync_watch_load(sync, now_us);
	hold_or_poll(sync);
	kw_sync_learn_level(sync, now_us);
}
