/*
 * The loader `restore`: the snapshot's records are changes like all others, so they go through the
 * applier. The claim, a cursor of no position, comes first: data that are saved during the snapshot
 * are then known to be ours. It goes the applier's way: on a replication link it comes before the
 * records in the same stream. The loader `none` does the same without a server.
 */
#include "load.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

struct restore {
	struct kw_loader base;
	struct kw_applier *applier;
	bool claims;
};

static struct restore *of(struct kw_loader *loader)
{
	return (struct restore *)loader;
}

static void restore_prepare(
	struct kw_loader *loader, const struct kw_load_plan *plan, kw_local_done_fn done, void *arg)
{
	const struct kw_cursor_progress nothing_yet = {
		.epoch = plan->epoch,
		.consented = plan->consented,
	};
	struct kw_applier *applier = of(loader)->applier;

	if (of(loader)->claims)
		applier->ops->save(applier, &nothing_yet, done, arg);
	else
		done(arg, NULL);
}

static void restore_begin(struct kw_loader *loader)
{
	struct kw_applier *applier = of(loader)->applier;

	applier->ops->begin(applier);
}

static void restore_records(
	struct kw_loader *loader, const struct kw_record_view *records, size_t count)
{
	struct kw_applier *applier = of(loader)->applier;

	applier->ops->records(applier, records, count);
}

static uint64_t restore_room(const struct kw_loader *loader)
{
	const struct kw_applier *applier = ((const struct restore *)loader)->applier;

	return applier->ops->room(applier);
}

/* What was handed on is with the applier; the changes that follow are as well. */
static void restore_end(struct kw_loader *loader)
{
	assert(loader->taken == 0);
}

static void restore_abandon(struct kw_loader *loader)
{
	assert(loader->taken == 0);
}

static void restore_set_window(struct kw_loader *loader, uint64_t bytes)
{
}

static void restore_free(struct kw_loader *loader)
{
	free(loader);
}

static const struct kw_loader_ops ops = {
	.prepare = restore_prepare,
	.begin = restore_begin,
	.records = restore_records,
	.room = restore_room,
	.end = restore_end,
	.abandon = restore_abandon,
	.set_window = restore_set_window,
	.free = restore_free,
};

static struct kw_loader *make(struct kw_applier *applier, bool claims)
{
	struct restore *restore = kw_zalloc(sizeof *restore);

	assert(applier);
	restore->base.ops = &ops;
	restore->applier = applier;
	restore->claims = claims;
	return &restore->base;
}

struct kw_loader *kw_loader_restore(struct kw_applier *applier)
{
	return make(applier, true);
}

struct kw_loader *kw_loader_none(struct kw_applier *applier)
{
	return make(applier, false);
}
