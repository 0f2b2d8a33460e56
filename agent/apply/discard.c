/* Apply mode `discard`: everything is done as soon as it is taken. */
#include "apply.h"

#include "base/buffer.h"

#include <stdlib.h>

/* Far above what the reader holds in flight, far below overflow. */
#define ROOM ((uint64_t)64 << 20)

static struct kw_apply *discard_create(const struct kw_apply_options *options)
{
	struct kw_apply *apply = kw_zalloc(sizeof *apply);

	apply->ops = &kw_apply_discard;
	return apply;
}

static void discard_destroy(struct kw_apply *apply)
{
	free(apply);
}

static void discard_attach(struct kw_apply *apply, bool continuous)
{
}

static void discard_detach(struct kw_apply *apply)
{
}

static void discard_records(
	struct kw_apply *apply, const struct kw_record_view *records, size_t count)
{
	apply->taken += count;
	apply->done += count;
	apply->applied += count;
}

static uint64_t discard_room(const struct kw_apply *apply)
{
	return ROOM;
}

static void discard_prepare(
	struct kw_apply *apply, const struct kw_apply_plan *plan, kw_local_done_fn done, void *arg)
{
	done(arg, NULL);
}

static void discard_begin(struct kw_apply *apply)
{
}

static void discard_tick(struct kw_apply *apply, uint64_t now_us)
{
}

static void discard_selected(struct kw_apply *apply)
{
}

static void discard_set_window(struct kw_apply *apply, uint64_t bytes)
{
}

const struct kw_apply_ops kw_apply_discard = {
	.mode = "discard",
	.needs_local = false,
	.create = discard_create,
	.destroy = discard_destroy,
	.attach = discard_attach,
	.prepare = discard_prepare,
	.begin = discard_begin,
	.detach = discard_detach,
	.records = discard_records,
	.room = discard_room,
	.tick = discard_tick,
	.selected = discard_selected,
	.set_window = discard_set_window,
};
