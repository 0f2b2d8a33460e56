/* The brake at work: what a snapshot would delete is weighed before it is deleted. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>

/* In HELD new keys are noted: so many more than the table has, and all begins anew. */
#define KEYS_NOTED_EXTRA (UINT64_C(1) << 22)

/* It begins to wait, or it waits again after another look. */
static void hold(struct kw_sync *sync, const struct kw_brake_finding *finding, uint64_t now_us)
{
	char text[KW_SYNC_WHY];

	if (!kw_brake_hold(&sync->brake, finding, now_us))
		return;
	kw_brake_words(&sync->brake, text, sizeof text);
	kw_log_warn("sync", "held: %s", text);
}

/* ---- a snapshot that is merged: before the prune ---- */

static struct kw_brake_finding finding_of_walk(
	const struct kw_sync *sync, uint64_t deletions, uint64_t keys)
{
	return (struct kw_brake_finding){
		.epoch = sync->position.epoch,
		.deletions = deletions,
		.keys = keys,
		.least = kw_brake_least(keys, kw_sync_noted(sync)),
	};
}

bool kw_sync_may_prune(void *arg, uint64_t deletions, uint64_t keys)
{
	const struct kw_sync *sync = arg;
	const struct kw_brake_finding finding = finding_of_walk(sync, deletions, keys);

	assert(kw_sync_phase(sync) == KW_SYNC_PRUNE);
	return kw_brake_allows(&sync->brake, &finding);
}

void kw_sync_hold_prune(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_brake_finding finding =
		finding_of_walk(sync, sync->walk.matched, sync->walk.in_scope);

	if (kw_brake_allows(&sync->brake, &finding)) {
		kw_sync_enter(sync, KW_SYNC_SETTLE, "approved in the midst of the count");
		return;
	}
	hold(sync, &finding, now_us);
	kw_sync_enter(sync, KW_SYNC_HELD, "too many keys would be deleted");
}

/*
 * Local keys, as far as they are known without a walk. INFO counts all keys. With a filter
 * for some of them nothing is known, and a walk must tell.
 */
static uint64_t local_keys_at_least(const struct kw_sync *sync)
{
	return kw_filter_picks_keys(sync->filter) ? 0 : sync->local->facts.keys;
}

void kw_sync_watch_held(struct kw_sync *sync, uint64_t now_us)
{
	uint64_t noted = kw_sync_noted(sync);

	assert(kw_sync_phase(sync) == KW_SYNC_HELD);
	if (noted / 2 > sync->follow->superblock.keys + KEYS_NOTED_EXTRA) {
		kw_sync_restart(sync, "too many keys came and went while deletions are held");
		return;
	}
	if (now_us < sync->brake.look_us || !kw_local_ready(sync->local) ||
		!kw_brake_must_look(&sync->brake, local_keys_at_least(sync), noted))
		return;
	kw_sync_enter(sync, KW_SYNC_SETTLE, "keys can have come back");
}

/* ---- a snapshot that replaces everything: before the claim ---- */

/* All of the finding is known: to WAIT, which claims the server, or holds. */
static void weighed(struct kw_sync *sync, const struct kw_brake_finding *finding)
{
	bool allowed = kw_brake_allows(&sync->brake, finding);

	kw_sync_enter(sync, KW_SYNC_WAIT, allowed ? "weighed" : "too many keys would be deleted");
	if (allowed)
		kw_brake_let_pass(&sync->brake, finding->epoch, kw_clock_us());
	else
		hold(sync, finding, kw_clock_us());
	sync->due(sync->arg);
}

static void on_sampled(void *arg, const struct kw_error *error)
{
	struct kw_sync *sync = arg;
	const struct kw_sample *sample = &sync->sample;
	const struct kw_prune *walk = &sync->walk;
	bool whole = walk->left_out == 0 && walk->remembered == walk->matched;
	double keys = (double)sample->looked_up;
	struct kw_brake_finding finding;

	assert(kw_sync_phase(sync) == KW_SYNC_SAMPLE);
	if (error) {
		kw_sync_wait_again(sync, error->text);
		return;
	}
	assert(sample->looked_up > 0 && walk->looked_at >= walk->in_scope);
	/* Keys of other prefixes count for INFO, and not for the walk. */
	if (!whole)
		keys = (double)sync->local->facts.keys * (double)walk->in_scope /
		       (double)walk->looked_at;
	finding = (struct kw_brake_finding){
		.epoch = sync->in.sample.epoch,
		.deletions = (uint64_t)(keys * (double)sample->absent / (double)sample->looked_up),
		.keys = (uint64_t)keys,
		.estimated = !whole,
	};
	weighed(sync, &finding);
}

/*
 * The local keys cannot be walked: the agent's user may not, or the server answers nothing while it
 * has no primary (replica-serve-stale-data no). Or the first name found is longer than what can be
 * remembered. The difference of the counts is known in any case.
 */
static void weigh_by_counts(struct kw_sync *sync)
{
	uint64_t keys = sync->local->facts.keys, table = sync->follow->superblock.keys;
	const struct kw_brake_finding finding = {
		.epoch = sync->in.sample.epoch,
		.deletions = kw_brake_least(keys, table),
		.keys = keys,
		.estimated = true,
	};

	weighed(sync, &finding);
}

static void on_walked(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	assert(kw_sync_phase(sync) == KW_SYNC_SAMPLE);
	if (failure &&
		(failure->answer == KW_SERVER_E_LOADING || failure->answer == KW_SERVER_E_BUSY))
		kw_sync_wait_again(sync, failure->text);
	else if (failure || (sync->walk.matched > 0 && sync->walk.remembered == 0))
		weigh_by_counts(sync);
	else if (sync->walk.remembered > 0)
		kw_sample_start(&sync->sample, &sync->walk.found, on_sampled, sync);
	else
		weighed(sync, &(struct kw_brake_finding){.epoch = sync->in.sample.epoch});
}

static void sample(struct kw_sync *sync)
{
	const struct kw_prune_plan plan = {
		.filter = sync->filter,
		.database = -1,
		.count_only = true,
		.sample = KW_SAMPLE_KEYS,
	};

	/* Names found here are looked up in the table. */
	assert(kw_naming_is_identity(&sync->filter->names));
	kw_prune_start(&sync->walk, &plan, on_walked, sync);
	kw_sync_enter(sync, KW_SYNC_SAMPLE, "the snapshot would replace all keys");
	sync->in.sample.epoch = sync->follow->superblock.epoch;
}

bool kw_sync_may_replace(struct kw_sync *sync, uint64_t now_us)
{
	uint64_t epoch = sync->follow->superblock.epoch;
	bool same = kw_brake_holds(&sync->brake) && sync->brake.finding.epoch == epoch;

	assert(kw_sync_phase(sync) == KW_SYNC_WAIT);
	if (!kw_pair_replaces(sync->pair) || kw_brake_has_passed(&sync->brake, epoch, now_us) ||
		!kw_brake_must_count(&sync->brake, epoch, sync->local->facts.keys)) {
		kw_brake_release(&sync->brake);
		return true;
	}
	if (!same || now_us >= sync->brake.look_us)
		sample(sync);
	return false;
}
