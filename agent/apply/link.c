#include "link.h"

#include "screen.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Between two questions: INFO takes a server some hundred microseconds. */
#define QUESTION_US 100000

/* ---- the machine ---- */

static const struct kw_sm_state states[] = {
	[KW_LINK_CLOSED] = {"closed", KW_SM_TO(KW_LINK_OPEN), KW_SM_INITIAL},
	[KW_LINK_OPEN] = {"open", KW_SM_TO(KW_LINK_CLOSED)},
};

static bool holds(const void *owner, int state)
{
	const struct kw_link_applier *link = owner;
	const struct kw_apply_progress *progress = &link->base.progress;

	return progress->confirmed <= progress->done && progress->done <= progress->taken &&
	       link->feed.offset <= link->feed.sent_end &&
	       (state == KW_LINK_CLOSED || link->owner.added);
}

static const struct kw_sm_conf machine = {"stream", states, KW_LINK_OPEN + 1, holds};

static struct kw_link_applier *of(struct kw_applier *applier)
{
	return (struct kw_link_applier *)applier;
}

void kw_link_own(struct kw_link_applier *link, const struct kw_link_owner *owner)
{
	assert(!kw_link_is_open(link) && owner->added);
	link->owner = *owner;
}

void kw_link_open(struct kw_link_applier *link)
{
	kw_sm_move(&link->sm, KW_LINK_OPEN, "");
}

void kw_link_close(struct kw_link_applier *link)
{
	kw_sm_move(&link->sm, KW_LINK_CLOSED, "");
}

static void added(struct kw_link_applier *link)
{
	link->base.progress.window_bytes = link->feed.window.bytes;
	if (link->owner.added)
		link->owner.added(link->owner.arg);
}

/* ---- changes ---- */

bool kw_link_screen(const struct kw_link_applier *link, const struct kw_record_view *record,
	char *why, size_t room)
{
	const struct kw_screen_server server = {
		.databases = link->databases,
		.vector_sets = link->local->facts.vector_sets,
	};

	return kw_screen_record(record, &server, why, room);
}

/* Can the server carry it out? */
static bool may_send(const struct kw_link_applier *link, const struct kw_record_view *record,
	char *why, size_t room)
{
	uint16_t local = kw_server_rdb_version(&link->local->facts.identity);

	if (!kw_link_screen(link, record, why, room))
		return false;
	return record->kind != KW_RECORD_PUT || kw_screen_payload(record->value, local, why, room);
}

/*
 * A placeholder takes its place in the feed. Changes before it will still be acknowledged, and must
 * not take the key out of quarantine again.
 */
static void give_up(
	struct kw_link_applier *link, const struct kw_record_view *record, const char *why)
{
	struct kw_quarantine *quarantine = link->quarantine;

	kw_feed_nothing(&link->feed, record->database);
	/* A key that the server does not have need not be deleted. */
	quarantine->leaving = UINT64_MAX;
	if (record->kind == KW_RECORD_DELETE)
		kw_quarantine_leave(quarantine, record->database, record->key);
	if (record->kind == KW_RECORD_FLUSH)
		kw_quarantine_leave_database(quarantine, record->database);
	quarantine->entering = link->feed.window.end;
	if (record->kind == KW_RECORD_PUT)
		kw_screen_quarantine(quarantine, record->database, record->key, kw_slice_text(why));
	quarantine->entering = 0;
}

static void link_records(
	struct kw_applier *applier, const struct kw_record_view *records, size_t count)
{
	struct kw_link_applier *link = of(applier);
	char why[KW_QUARANTINE_REASON];

	applier->progress.taken += count;
	for (size_t i = 0; i < count; i++) {
		if (may_send(link, &records[i], why, sizeof why))
			kw_feed_change(&link->feed, &records[i]);
		else
			give_up(link, &records[i], why);
	}
	added(link);
}

static uint64_t link_room(const struct kw_applier *applier)
{
	const struct kw_link_applier *link = (const struct kw_link_applier *)applier;
	const struct kw_window *window = &link->feed.window;
	/* Entries count too: a placeholder has no bytes. */
	uint64_t used = window->bytes + (window->end - window->first) * sizeof *window->entries;

	/* A database that the server lacks must never be selected. */
	if (link->databases == 0)
		return 0;
	return used < link->limit_bytes ? link->limit_bytes - used : 0;
}

/* ---- changes of function libraries ---- */

static void ask(struct kw_link_applier *link);

static void end_trial(struct kw_link_applier *link, const struct kw_failure *failure)
{
	struct kw_link_trial ended = link->trial;

	if (ended.state == KW_LINK_TRIAL_NONE)
		return;
	link->trial = (struct kw_link_trial){0};
	kw_feed_move_fence(&link->feed, 0);
	/* A cursor says how many refusals there were when all was made good: write it again. */
	if (ended.refused > 0)
		kw_local_unwritten(link->local);
	added(link);
	ended.done(ended.arg, failure);
}

/* All before the present step is acknowledged: INFO must tell how many refusals there were. */
static void look_at_trial(struct kw_link_applier *link)
{
	struct kw_link_trial *trial = &link->trial;
	uint64_t until = trial->state == KW_LINK_TRIAL_WAITING ? trial->first : trial->end;

	if (trial->state == KW_LINK_TRIAL_NONE || trial->ask > 0 || !kw_link_is_open(link) ||
		!kw_local_ready(link->local) || !kw_feed_reached(&link->feed, until))
		return;
	trial->ask = kw_local_next_look(link->local);
	ask(link);
}

static void trial_looked(struct kw_link_applier *link)
{
	struct kw_link_trial *trial = &link->trial;
	struct kw_failure failure;

	if (trial->ask == 0)
		return;
	if (kw_local_looked(link->local) < trial->ask) {
		ask(link);
		return;
	}
	trial->ask = 0;
	if (trial->state == KW_LINK_TRIAL_WAITING) {
		trial->state = KW_LINK_TRIAL_ALONE;
		kw_feed_move_fence(&link->feed, trial->end);
		added(link);
		return;
	}
	kw_failure_set(&failure, KW_E_REFUSED,
		"the local server does not take the primary's functions: it refused them on the "
		"replication link (its log has the reason)");
	end_trial(link, trial->refused > 0 ? &failure : NULL);
}

bool kw_link_bears(struct kw_link_applier *link, uint64_t refused)
{
	if (link->trial.state != KW_LINK_TRIAL_ALONE)
		return false;
	link->trial.refused += refused;
	return true;
}

static void add_command(void *arg, int argc, const struct kw_slice *argv)
{
	kw_feed_command(&((struct kw_link_applier *)arg)->feed, argc, argv);
}

void kw_link_change_libraries(struct kw_link_applier *link,
	const struct kw_libraries_change *change, kw_local_done_fn done, void *arg)
{
	struct kw_failure failure;

	assert(link->trial.state == KW_LINK_TRIAL_NONE);
	if (!kw_link_is_open(link)) {
		kw_failure_set(&failure, KW_E_STATE, "waiting for the replication link");
		done(arg, &failure);
		return;
	}
	link->trial = (struct kw_link_trial){
		.state = KW_LINK_TRIAL_WAITING,
		.first = kw_feed_fence(&link->feed),
		.done = done,
		.arg = arg,
	};
	kw_feed_move_fence(&link->feed, link->trial.first);
	kw_libraries_commands(change, add_command, link);
	link->trial.end = kw_feed_fence(&link->feed);
	added(link);
}

/* ---- acknowledgements ---- */

static void end_saving(struct kw_link_applier *link, const struct kw_failure *failure)
{
	kw_local_done_fn done = link->saving.done;

	link->saving.done = NULL;
	if (done)
		done(link->saving.arg, failure);
}

static void on_control_done(struct kw_link_applier *link, uint64_t sequence)
{
	if (!link->saving.done || link->saving.ask || sequence != link->saving.sequence)
		return;
	kw_local_cursor_written(link->local, &link->saving.cursor);
	end_saving(link, NULL);
}

static void on_done(void *arg, const struct kw_window_entry *entry, uint64_t sequence)
{
	struct kw_link_applier *link = arg;
	struct kw_apply_progress *progress = &link->base.progress;

	if (entry->kind == KW_WINDOW_CONTROL) {
		on_control_done(link, sequence);
		return;
	}
	assert(progress->done < progress->taken);
	progress->done++;
	if (entry->kind == KW_WINDOW_NOTHING)
		return;
	progress->applied++;
	link->quarantine->leaving = sequence;
	if (entry->kind == KW_WINDOW_FLUSH) {
		kw_local_flushed(link->local);
		kw_quarantine_leave_database(link->quarantine, entry->database);
	} else if (link->quarantine->count > 0) {
		kw_quarantine_leave(link->quarantine, entry->database, kw_window_key(entry));
	}
}

bool kw_link_acknowledge(struct kw_link_applier *link, uint64_t offset)
{
	bool known;

	assert(kw_link_is_open(link));
	known = kw_feed_ack(&link->feed, offset, on_done, link);
	link->base.progress.window_bytes = link->feed.window.bytes;
	look_at_trial(link);
	return known;
}

bool kw_link_continue(struct kw_link_applier *link, uint64_t offset)
{
	assert(!kw_link_is_open(link));
	return kw_feed_rewind(&link->feed, offset, on_done, link);
}

void kw_link_forget(struct kw_link_applier *link)
{
	struct kw_apply_progress *progress = &link->base.progress;
	uint64_t offset = link->feed.sent_end;
	struct kw_failure failure;

	kw_local_link_ended(link->local, link->feed.flushes_out);
	kw_feed_reset(&link->feed, offset);
	progress->done = progress->taken;
	progress->window_bytes = 0;
	link->question.ask = 0;
	kw_link_close(link);
	kw_failure_set(&failure, KW_E_STATE, "the replication link was given up");
	end_saving(link, &failure);
	end_trial(link, &failure);
}

void kw_link_count(struct kw_link_applier *link, uint64_t taken, uint64_t applied)
{
	struct kw_apply_progress *progress = &link->base.progress;

	assert(applied <= taken && progress->done <= progress->taken);
	progress->taken += taken;
	progress->done += taken;
	progress->applied += applied;
}

/* ---- what is confirmed ---- */

static void ask(struct kw_link_applier *link)
{
	/* An INFO that is out already was asked too early. */
	if (!kw_local_asking(link->local)) {
		link->question = (struct kw_link_question){
			.ask = kw_local_next_look(link->local),
			.done = link->base.progress.done,
		};
		link->question_us = kw_clock_us() + QUESTION_US;
	}
	kw_local_look(link->local);
}

void kw_link_confirm(struct kw_link_applier *link)
{
	const struct kw_apply_progress *progress = &link->base.progress;

	look_at_trial(link);
	if (progress->confirmed == progress->done || !kw_link_is_open(link) ||
		kw_local_asking(link->local) || !kw_local_ready(link->local) ||
		kw_clock_us() < link->question_us)
		return;
	ask(link);
}

/* ---- the cursor ---- */

static void send_cursor(struct kw_link_applier *link)
{
	struct kw_buffer code = {0};

	kw_cursor_library(link->local->options.cursor_name, &link->saving.cursor, &code);
	{
		const struct kw_slice argv[] = {
			kw_slice_text("FUNCTION"),
			kw_slice_text("LOAD"),
			kw_slice_text("REPLACE"),
			kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code)),
		};

		link->saving.sequence = kw_feed_command(&link->feed, 4, argv);
	}
	kw_buffer_close(&code);
	link->saving.ask = 0;
	added(link);
}

/*
 * The count of refusals is read after the acknowledgements, and before a cursor says that all is
 * there. So an agent that finds that cursor, in this run of the server or in a later one, can
 * believe it.
 */
static void link_save(struct kw_applier *applier, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg)
{
	struct kw_cursor_progress led = *progress;
	struct kw_link_applier *link = of(applier);
	struct kw_failure failure;

	if (link->saving.done) {
		kw_failure_set(&failure, KW_E_STATE, "another cursor is on its way");
		done(arg, &failure);
		return;
	}
	if (!kw_link_is_open(link) || !kw_local_ready(link->local)) {
		kw_failure_set(&failure, KW_E_STATE,
			"waiting for the replication link before the cursor can be written");
		done(arg, &failure);
		return;
	}
	led.bond = KW_BOND_LED;
	kw_local_cursor_now(link->local, &led, &link->saving.cursor);
	link->saving.done = done;
	link->saving.arg = arg;
	link->saving.ask = kw_local_next_look(link->local);
	ask(link);
}

static void go_on_saving(struct kw_link_applier *link, uint64_t refused)
{
	if (!link->saving.done || link->saving.ask == 0)
		return;
	if (kw_local_looked(link->local) < link->saving.ask) {
		ask(link);
		return;
	}
	/* This INFO showed that the data are in doubt: the next step ends it. */
	if (!kw_link_is_open(link) || kw_local_spoiled(link->local))
		return;
	link->saving.cursor.refused = refused;
	send_cursor(link);
}

void kw_link_looked(struct kw_link_applier *link, uint64_t refused)
{
	struct kw_apply_progress *progress = &link->base.progress;

	if (kw_link_is_open(link) && link->question.ask &&
		kw_local_looked(link->local) >= link->question.ask) {
		link->question.ask = 0;
		assert(progress->confirmed <= link->question.done);
		assert(link->question.done <= progress->done);
		progress->confirmed = link->question.done;
		link->base.handlers.progress(link->base.handlers.arg);
	}
	trial_looked(link);
	go_on_saving(link, refused);
}

/* ---- the rest ---- */

static void link_attach(struct kw_applier *applier, bool continuous)
{
	struct kw_link_applier *link = of(applier);

	if (continuous)
		return;
	kw_link_forget(link);
	kw_feed_reset(&link->feed, 0);
	kw_local_link_forgotten(link->local);
	link->databases = 0;
}

/* The link is a connection of its own: it can last. */
static void link_detach(struct kw_applier *applier)
{
}

static void link_begin(struct kw_applier *applier)
{
}

static void link_selected(struct kw_applier *applier)
{
}

static void link_tick(struct kw_applier *applier, uint64_t now_us)
{
}

static void link_set_window(struct kw_applier *applier, uint64_t bytes)
{
	of(applier)->limit_bytes = bytes;
}

static void link_free(struct kw_applier *applier)
{
	kw_feed_close(&of(applier)->feed);
	free(applier);
}

static const struct kw_applier_ops ops = {
	.attach = link_attach,
	.detach = link_detach,
	.begin = link_begin,
	.records = link_records,
	.room = link_room,
	.save = link_save,
	.selected = link_selected,
	.tick = link_tick,
	.set_window = link_set_window,
	.free = link_free,
};

struct kw_link_applier *kw_applier_link(const struct kw_apply_options *options)
{
	struct kw_link_applier *link = kw_zalloc(sizeof *link);

	link->base.ops = &ops;
	link->base.handlers = options->handlers;
	link->local = options->local;
	link->quarantine = options->quarantine;
	link->limit_bytes = options->window_bytes;
	kw_feed_reset(&link->feed, 0);
	kw_sm_init(&link->sm, &machine, link, KW_LINK_CLOSED);
	return link;
}
