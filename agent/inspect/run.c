#include "run.h"

#include "base/clock.h"

#include <assert.h>

#define READER_DEPTH 4  /* READs in flight: the agent's own reader keeps its share */
#define TAILS_MAX 100   /* passes after a snapshot, while segments vanish */
#define SNAPSHOTS_MAX 3 /* begun anew because the table went past what was read */

static const char too_fast[] = "the table changes faster than it can be read: try again";

/* ---- the states ---- */

static bool holds(const void *owner, int state)
{
	const struct kw_run *run = owner;

	switch (state) {
	case KW_RUN_READ:
		return run->superblock.complete && run->error.code == KW_OK;
	case KW_RUN_ENDING:
		return true;
	case KW_RUN_ENDED:
		return run->held == 0 && run->reads.outstanding == 0;
	default:
		return run->reader && run->error.code == KW_OK;
	}
}

static const struct kw_sm_state states[] = {
	[KW_RUN_BEGUN] = {"begun", KW_SM_TO(KW_RUN_READING) | KW_SM_TO(KW_RUN_ENDING),
		KW_SM_INITIAL},
	[KW_RUN_READING] = {"reading", KW_SM_TO(KW_RUN_READ) | KW_SM_TO(KW_RUN_ENDING)},
	[KW_RUN_READ] = {"read", KW_SM_TO(KW_RUN_ENDING)},
	[KW_RUN_ENDING] = {"ending", KW_SM_TO(KW_RUN_ENDED)},
	[KW_RUN_ENDED] = {"ended", 0, KW_SM_FINAL},
};
static const struct kw_sm_conf machine = {"inspect", states, sizeof states / sizeof *states, holds};

/* ---- the end ---- */

static void on_tick_closed(uv_handle_t *handle)
{
	struct kw_run *run = handle->data;

	kw_sm_move(&run->sm, KW_RUN_ENDED, run->options.name);
	run->handlers.ended(run->handlers.arg, run->error.code != KW_OK ? &run->error : NULL);
}

/* The tick goes on until then: it tells back READs that were refused. */
static void end_when_quiet(struct kw_run *run)
{
	uv_handle_t *tick = (uv_handle_t *)&run->tick;

	if (run->held == 0 && run->reads.outstanding == 0 && !uv_is_closing(tick))
		uv_close(tick, on_tick_closed);
}

static void end(struct kw_run *run)
{
	kw_sm_move(&run->sm, KW_RUN_ENDING, run->error.text);
	kw_reader_stop(run->reader);
	run->handlers.ending(run->handlers.arg);
	end_when_quiet(run);
}

void kw_run_succeed(struct kw_run *run)
{
	if (!kw_run_over(run))
		end(run);
}

void kw_run_fail(struct kw_run *run, const struct kw_error *error)
{
	assert(error->code != KW_OK);
	if (kw_run_over(run))
		return;
	run->error = *error;
	end(run);
}

void kw_run_cancel(struct kw_run *run, const char *why)
{
	struct kw_error error;

	kw_error_set(&error, KW_E_STATE, "%s: %s", run->options.name, why);
	kw_run_fail(run, &error);
}

void kw_run_hold(struct kw_run *run)
{
	assert(!kw_run_over(run));
	run->held++;
}

void kw_run_release(struct kw_run *run)
{
	assert(run->held > 0 && !kw_run_is(run, KW_RUN_ENDED));
	run->held--;
	if (kw_run_is(run, KW_RUN_ENDING))
		end_when_quiet(run);
}

/* ---- the reader's sink ---- */

static void on_snapshot_begin(void *arg, uint64_t epoch, uint64_t version)
{
	struct kw_run *run = arg;

	if (kw_run_is(run, KW_RUN_READING))
		run->handlers.snapshot(run->handlers.arg, epoch, version);
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct kw_run *run = arg;

	if (kw_run_is(run, KW_RUN_READING))
		run->handlers.records(run->handlers.arg, records, count);
}

static uint64_t on_room(void *arg)
{
	struct kw_run *run = arg;

	return run->handlers.room(run->handlers.arg);
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct kw_run *run = arg;

	if (superblock->complete)
		run->superblock = *superblock;
	else
		kw_run_cancel(
			run, "the proxy's table is not complete yet: wait until the proxy is live");
}

static void on_pass_done(void *arg, const struct kw_reader_pass *pass)
{
	struct kw_run *run = arg;

	if (!kw_run_is(run, KW_RUN_READING))
		return;
	if (pass->consistent == 0 && pass->vanished) {
		/* Segments were cleaned away unread: their records follow in the tail. */
		if (++run->tails < TAILS_MAX)
			kw_reader_poll(run->reader);
		else
			kw_run_cancel(run, too_fast);
		return;
	}
	kw_sm_move(&run->sm, KW_RUN_READ, run->options.name);
	run->handlers.read(run->handlers.arg);
}

static void on_lapsed(void *arg, const char *why)
{
	struct kw_run *run = arg;

	if (!kw_run_is(run, KW_RUN_READING))
		return;
	if (++run->snapshots < SNAPSHOTS_MAX)
		kw_reader_start(run->reader, NULL);
	else
		kw_run_cancel(run, too_fast);
}

static void on_failed(void *arg, const struct kw_error *error)
{
	struct kw_run *run = arg;
	struct kw_error wrapped = *error;

	kw_error_wrap(&wrapped, "%s: the proxy's table", run->options.name);
	kw_run_fail(run, &wrapped);
}

/* ---- begin ---- */

static void on_tick(uv_timer_t *timer)
{
	struct kw_run *run = timer->data;

	kw_reads_tick(&run->reads);
	if (kw_run_over(run))
		end_when_quiet(run);
	else
		run->handlers.tick(run->handlers.arg);
}

static struct kw_reader *make_reader(struct kw_run *run)
{
	const struct kw_reader_options options = {.depth = READER_DEPTH, .ahead = KW_AHEAD_OFF};
	const struct kw_reader_sink sink = {
		.snapshot_begin = on_snapshot_begin,
		.records = on_records,
		.room = on_room,
		.superblock = on_superblock,
		.pass_done = on_pass_done,
		.lapsed = on_lapsed,
		.failed = on_failed,
		.arg = run,
	};
	const struct kw_reader_io io = kw_reads_reader_io(&run->reads);

	return kw_reader_new(&options, &io, &sink);
}

void kw_run_begin(struct kw_run *run, const struct kw_run_options *options,
	const struct kw_run_handlers *handlers)
{
	assert(options->name && options->remote);
	assert(handlers->snapshot && handlers->records && handlers->room && handlers->read);
	assert(handlers->tick && handlers->ending && handlers->ended);
	*run = (struct kw_run){
		.options = *options,
		.handlers = *handlers,
		.begun_us = kw_clock_us(),
	};
	kw_reads_init(&run->reads, options->remote, options->remote_arg);
	run->reader = make_reader(run);
	kw_sm_init(&run->sm, &machine, run, KW_RUN_BEGUN);
	uv_timer_init(options->loop, &run->tick);
	run->tick.data = run;
	uv_timer_start(&run->tick, on_tick, KW_RUN_TICK_MS, KW_RUN_TICK_MS);
}

void kw_run_close(struct kw_run *run)
{
	assert(kw_run_is(run, KW_RUN_ENDED));
	kw_reader_free(run->reader);
	kw_reads_close(&run->reads);
}

void kw_run_read(struct kw_run *run)
{
	kw_sm_move(&run->sm, KW_RUN_READING, run->options.name);
	kw_reader_start(run->reader, NULL);
}

void kw_run_resume(struct kw_run *run)
{
	if (kw_run_is(run, KW_RUN_READING))
		kw_reader_resume(run->reader);
}

uint64_t kw_run_keys(const struct kw_run *run)
{
	uint64_t keys = run->superblock.keys;

	return keys < KW_RUN_RESERVE_KEYS_MAX ? keys : KW_RUN_RESERVE_KEYS_MAX;
}

double kw_run_seconds(const struct kw_run *run)
{
	return (double)(kw_clock_us() - run->begun_us) / 1e6;
}
