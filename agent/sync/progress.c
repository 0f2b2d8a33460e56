#include "progress.h"

#include <assert.h>
#include <stddef.h>

static struct kw_pass *at(struct kw_progress *progress, uint32_t index)
{
	return &progress->passes[(progress->first + index) % KW_PASSES_MAX];
}

void kw_progress_reset(struct kw_progress *progress)
{
	kw_progress_resume(progress, 0);
}

void kw_progress_resume(struct kw_progress *progress, uint64_t applied)
{
	progress->first = 0;
	progress->count = 0;
	progress->applied = applied;
	kw_progress_unlevel(progress);
}

void kw_progress_unlevel(struct kw_progress *progress)
{
	progress->equal_us = progress->fresh_us = progress->epoch = 0;
	progress->ticket = 0;
	progress->oldest = progress->newest = (struct kw_level){0};
}

void kw_progress_doubt(struct kw_progress *progress, uint64_t now_us)
{
	progress->equal_us = 0;
	progress->doubt_us = now_us;
}

/* One entry for two passes: what the later one says, and the earlier one's age. */
static void merge(struct kw_pass *into, const struct kw_pass *pass)
{
	struct kw_pass before = *into;

	*into = *pass;
	into->since_us = before.since_us;
	if (!before.published_us)
		return;
	into->published_us = before.published_us;
	into->look_us = before.look_us;
	into->read_us = before.read_us;
	into->handed_us = before.handed_us;
}

void kw_progress_handed(struct kw_progress *progress, const struct kw_pass *pass)
{
	struct kw_pass *last = progress->count ? at(progress, progress->count - 1) : NULL;

	assert(!last || last->position <= pass->position);
	assert(pass->equal_us == 0 || pass->equal_us == pass->begun_us);
	if (last && (last->position == pass->position || progress->count == KW_PASSES_MAX)) {
		merge(last, pass);
		return;
	}
	progress->count++;
	last = at(progress, progress->count - 1);
	*last = *pass;
	last->since_us = pass->begun_us;
}

static uint64_t passed(uint64_t from_us, uint64_t to_us)
{
	return to_us > from_us ? to_us - from_us : 0;
}

static void count_lag(struct kw_progress *progress, const struct kw_pass *pass, uint64_t wall_us)
{
	struct kw_stages *stages = &progress->stages;

	kw_lag_add(&progress->lag, passed(pass->published_us, wall_us));
	kw_stages_add(stages, KW_PROGRESS_LOOK, pass->look_us, wall_us);
	kw_stages_add(stages, KW_PROGRESS_READ, pass->read_us, wall_us);
	kw_stages_add(stages, KW_PROGRESS_APPLY, passed(pass->handed_us, wall_us), wall_us);
}

static bool apply(struct kw_progress *progress, const struct kw_pass *pass, uint64_t wall_us)
{
	bool advanced = pass->consistent > progress->applied;

	if (pass->published_us)
		count_lag(progress, pass, wall_us);
	if (advanced)
		progress->applied = pass->consistent;
	if (pass->equal_us) {
		progress->newest = (struct kw_level){
			pass->position, pass->equal_us, pass->fresh_us, pass->epoch, pass->ticket};
		if (progress->oldest.equal_us == 0)
			progress->oldest = progress->newest;
	}
	return advanced;
}

static bool is_confirmed(const struct kw_level *level, uint64_t confirmed)
{
	return level->equal_us > 0 && level->position <= confirmed;
}

static void confirm(struct kw_progress *progress, uint64_t confirmed)
{
	struct kw_level level = progress->oldest;

	if (!is_confirmed(&level, confirmed))
		return;
	progress->oldest = progress->newest;
	if (is_confirmed(&progress->newest, confirmed)) {
		level = progress->newest;
		progress->oldest = progress->newest = (struct kw_level){0};
	}
	if (level.equal_us < progress->doubt_us)
		return;
	progress->equal_us = level.equal_us;
	progress->epoch = level.epoch;
	progress->ticket = level.ticket;
	/* Levels come in their order. The proxy's clock can step back between two of them. */
	if (level.fresh_us > 0)
		progress->fresh_us = level.fresh_us;
}

bool kw_progress_acknowledged(
	struct kw_progress *progress, uint64_t position, uint64_t confirmed, uint64_t wall_us)
{
	bool advanced = false;

	assert(confirmed <= position);
	while (progress->count > 0 && at(progress, 0)->position <= position) {
		advanced |= apply(progress, at(progress, 0), wall_us);
		progress->first = (progress->first + 1) % KW_PASSES_MAX;
		progress->count--;
	}
	confirm(progress, confirmed);
	return advanced;
}

uint64_t kw_progress_waiting_since(const struct kw_progress *progress)
{
	return progress->count ? progress->passes[progress->first].since_us : 0;
}
