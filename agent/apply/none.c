/* The applier `none`: everything is done as soon as it is taken. */
#include "apply.h"

#include "base/buffer.h"

#include <stdlib.h>

/* Far above what the reader holds in flight, far below overflow. */
#define ROOM ((uint64_t)64 << 20)

static void none_attach(struct kw_applier *applier, bool continuous)
{
}

static void none_detach(struct kw_applier *applier)
{
}

static void none_begin(struct kw_applier *applier)
{
}

static void none_records(
	struct kw_applier *applier, const struct kw_record_view *records, size_t count)
{
	struct kw_apply_progress *progress = &applier->progress;

	progress->taken += count;
	progress->done = progress->confirmed = progress->applied = progress->taken;
}

static uint64_t none_room(const struct kw_applier *applier)
{
	return ROOM;
}

/* There is no server that could keep a cursor. */
static void none_save(struct kw_applier *applier, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg)
{
	done(arg, NULL);
}

static void none_selected(struct kw_applier *applier)
{
}

static void none_tick(struct kw_applier *applier, uint64_t now_us)
{
}

static void none_set_window(struct kw_applier *applier, uint64_t bytes)
{
}

static void none_free(struct kw_applier *applier)
{
	free(applier);
}

static const struct kw_applier_ops ops = {
	.attach = none_attach,
	.detach = none_detach,
	.begin = none_begin,
	.records = none_records,
	.room = none_room,
	.save = none_save,
	.selected = none_selected,
	.tick = none_tick,
	.set_window = none_set_window,
	.free = none_free,
};

struct kw_applier *kw_applier_none(const struct kw_apply_options *options)
{
	struct kw_applier *applier = kw_zalloc(sizeof *applier);

	applier->ops = &ops;
	applier->handlers = options->handlers;
	return applier;
}
