/*
 * The applier `commands`: records become RESTORE, UNLINK and FLUSHDB, pipelined to the local
 * server.
 *
 *               ┌────────────────────────── window.c: go-back-N ──────────────────────────┐
 *   record ──▶  encode into a block ──▶ pump: SELECT when it changes, send ──▶ answer ──▶ done
 *                                         ▲                                     │ │
 *                                         └── draining, then after a pause ◀────┘ └──▶ quarantine
 *                                              (loading, over maxmemory, …)          (bad payload)
 *
 * If only some keys of a database are followed, its flush is a barrier. First all before it must be
 * acknowledged, then SCAN and UNLINK carry it out, then sending goes on after it.
 */
#include "apply.h"
#include "base/backoff.h"
#include "command.h"
#include "local/prune.h"
#include "screen.h"
#include "window.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_LOWEST_MS 50
#define RETRY_HIGHEST_MS 1000

/*
 * Over maxmemory a put is tried again for so long. Then it is passed over and owed, because the
 * deletes that would make room for it can come after it.
 */
#define OOM_PATIENCE_US 1000000

/*
 * A server can drop the connection whenever it gets one large command (proto-max-bulk-len,
 * client-query-buffer-limit). After so many times that command is given up: otherwise it would be
 * sent for ever.
 */
#define POISON_LOSSES 5
#define POISON_BYTES ((size_t)1 << 20)

struct commands {
	struct kw_applier base;
	struct kw_local *local;
	const struct kw_filter *filter;
	struct kw_quarantine *quarantine;
	struct kw_window window;
	uint64_t limit_bytes;
	struct kw_prune sweep;
	struct kw_backoff backoff;
	uint64_t retry_us; /* nothing is sent before; 0: no wait */
	uint64_t oom_us;   /* since when no put gets through for lack of memory; 0: they do */
	bool attached;
	bool sweeps_all;  /* the server knows no FLUSHDB */
	uint64_t lost_at; /* sequence number that led when the connection was lost last */
	uint32_t losses;  /* times in a row it did */
};

static void pump(struct commands *commands);

static void update(struct commands *commands)
{
	struct kw_apply_progress *progress = &commands->base.progress;

	progress->done = progress->confirmed = commands->window.first;
	progress->window_bytes = commands->window.bytes;
	assert(progress->done <= progress->taken);
	commands->base.handlers.progress(commands->base.handlers.arg);
}

static bool is_blocked(const struct commands *commands)
{
	return commands->base.refusal.kind != KW_SERVER_E_NONE;
}

static void block(struct commands *commands, enum kw_server_error kind, struct kw_slice words)
{
	struct kw_apply_refusal *refusal = &commands->base.refusal;
	bool before = is_blocked(commands);

	refusal->kind = kind != KW_SERVER_E_NONE ? kind : KW_SERVER_E_OTHER;
	snprintf(refusal->words, sizeof refusal->words, "%.*s", (int)words.length,
		(const char *)words.data);
	if (!before)
		kw_log_warn("apply", "the local server refuses a write: %s (trying again)",
			refusal->words);
}

static void unblock(struct commands *commands)
{
	if (!is_blocked(commands))
		return;
	kw_log_info("apply", "the local server takes writes again");
	commands->base.refusal = (struct kw_apply_refusal){0};
	kw_backoff_reset(&commands->backoff);
}

/*
 * A command was given up: the server has answered it, or its SELECT, by now, so that passing
 * obstacle is gone. Only lack of memory lasts longer.
 */
static void unblock_by_giving_up(struct commands *commands)
{
	if (commands->oom_us == 0)
		unblock(commands);
}

/* Sending begins again at the first command kept, after a pause that grows. */
static void schedule_retry(struct commands *commands)
{
	commands->base.progress.retries++;
	commands->retry_us = kw_clock_us() + kw_backoff_next_us(&commands->backoff);
}

static void give_up(
	struct commands *commands, const struct kw_window_entry *entry, struct kw_slice why)
{
	kw_screen_quarantine(commands->quarantine, entry->database, kw_window_key(entry), why);
}

static void acknowledged(struct commands *commands, const struct kw_window_entry *entry)
{
	commands->base.progress.applied++;
	if (entry->kind == KW_WINDOW_FLUSH) {
		kw_local_flushed(commands->local);
		kw_quarantine_leave_database(commands->quarantine, entry->database);
	} else if (commands->quarantine->count > 0) {
		kw_quarantine_leave(commands->quarantine, entry->database, kw_window_key(entry));
	}
	/* Over maxmemory deletes get through all the time: only a put proves that there is room. */
	if (entry->kind == KW_WINDOW_PUT)
		commands->oom_us = 0;
	if (is_blocked(commands) && commands->oom_us == 0)
		unblock(commands);
}

/* Has this put waited for memory long enough? */
static bool passed_over(struct commands *commands, const struct kw_window_entry *entry)
{
	uint64_t now_us = kw_clock_us();

	if (commands->oom_us == 0)
		commands->oom_us = now_us;
	if (entry->kind != KW_WINDOW_PUT || now_us - commands->oom_us < OOM_PATIENCE_US)
		return false;
	commands->base.progress.owed++;
	return true;
}

static bool worth_another_try(enum kw_server_error kind)
{
	return kind != KW_SERVER_E_OTHER && kind != KW_SERVER_E_PAYLOAD;
}

/*
 * FLUSHDB is refused for good: perhaps a careful operator renamed it. If its keys stayed, they
 * would come back to life. So they are searched for and deleted one by one.
 */
static void flush_by_hand(
	struct commands *commands, struct kw_window_entry *entry, struct kw_slice why)
{
	if (!commands->sweeps_all)
		kw_log_warn("apply",
			"FLUSHDB is refused (%.*s): databases are emptied by SCAN and "
			"UNLINK instead",
			(int)(why.length < 160 ? why.length : 160), (const char *)why.data);
	commands->sweeps_all = true;
	entry->kind = KW_WINDOW_SWEEP;
	if (kw_window_answer(&commands->window, false))
		schedule_retry(commands);
}

static void on_reply(void *arg, const struct kw_reply *reply)
{
	struct commands *commands = arg;
	struct kw_window_entry *entry;
	enum kw_server_error kind;

	if (!reply || !kw_local_in_place(commands->local, reply))
		return; /* detach follows and rewinds the window */
	entry = kw_window_awaited(&commands->window);
	if (commands->window.failed) {
		/* It will be sent again; but a flush that was executed counts. */
		if (entry->kind == KW_WINDOW_FLUSH && reply->type != KW_REPLY_ERROR)
			kw_local_flushed(commands->local);
		if (kw_window_answer(&commands->window, true))
			schedule_retry(commands);
		return;
	}
	if (reply->type != KW_REPLY_ERROR) {
		acknowledged(commands, entry);
		kw_window_answer(&commands->window, true);
	} else {
		kind = kw_server_error(reply->text);
		if (worth_another_try(kind)) {
			bool over = kind == KW_SERVER_E_OOM && passed_over(commands, entry);

			block(commands, kind, reply->text);
			if (kw_window_answer(&commands->window, over) && !over)
				schedule_retry(commands);
		} else if (entry->kind == KW_WINDOW_FLUSH) {
			flush_by_hand(commands, entry, reply->text);
		} else {
			give_up(commands, entry, reply->text);
			unblock_by_giving_up(commands);
			kw_window_answer(&commands->window, true);
		}
	}
	update(commands);
	/* A caller might wait for the changes before it to be acknowledged. */
	if (commands->window.first == commands->window.sent)
		pump(commands);
}

static void on_swept(void *arg, const struct kw_failure *failure)
{
	struct commands *commands = arg;
	struct kw_window_entry *entry = kw_window_unsent(&commands->window);

	if (failure) {
		block(commands, failure->answer, kw_slice_text(failure->text));
		schedule_retry(commands);
	} else {
		kw_quarantine_leave_database(commands->quarantine, entry->database);
		kw_window_mark_sent(&commands->window);
		kw_window_answer(&commands->window, true);
		commands->base.progress.applied++;
		unblock(commands);
		pump(commands);
	}
	update(commands);
}

/* The barrier: nothing may be in flight before it. */
static void sweep(struct commands *commands, const struct kw_window_entry *entry)
{
	const struct kw_prune_plan plan = {
		.filter = commands->filter,
		.database = entry->database,
	};

	if (commands->window.first == commands->window.sent)
		kw_prune_start(&commands->sweep, &plan, on_swept, commands);
}

/* The server has no such database: its changes can only be given up, in their turn. */
static bool give_up_unsent(struct commands *commands, const struct kw_window_entry *entry)
{
	char why[KW_QUARANTINE_REASON];

	if (commands->window.first != commands->window.sent)
		return false;
	snprintf(why, sizeof why,
		"the local server has no database %u: raise its `databases`, or see "
		"filter.databases and filter.map_databases",
		entry->database);
	/* A key that is not there need not be deleted. */
	if (entry->kind == KW_WINDOW_PUT)
		give_up(commands, entry, kw_slice_text(why));
	else if (entry->kind == KW_WINDOW_DELETE)
		kw_quarantine_leave(commands->quarantine, entry->database, kw_window_key(entry));
	else
		kw_quarantine_leave_database(commands->quarantine, entry->database);
	unblock_by_giving_up(commands);
	kw_window_mark_sent(&commands->window);
	kw_window_answer(&commands->window, true);
	return true;
}

/*
 * May more be sent? Over maxmemory, send the whole window: deletes in it make room. Else send one
 * probe.
 */
static bool may_send(const struct commands *commands)
{
	const struct kw_window *window = &commands->window;

	if (!commands->attached || !kw_local_ready(commands->local) ||
		kw_prune_running(&commands->sweep) || commands->retry_us > 0)
		return false;
	return !is_blocked(commands) || commands->base.refusal.kind == KW_SERVER_E_OOM ||
	       window->sent == window->first;
}

/* If the server put the SELECT off, it is sent again after a pause: say why nothing is sent. */
static void await_database(struct commands *commands)
{
	const struct kw_databases_delay *delay = kw_databases_delayed(&commands->local->databases);

	if (!delay)
		return;
	block(commands, delay->class, kw_slice_text(delay->words));
	commands->base.handlers.progress(commands->base.handlers.arg);
}

static void pump(struct commands *commands)
{
	struct kw_window_entry *entry;
	bool gave_up = false;

	/* Bounded by the window. */
	while (may_send(commands) && (entry = kw_window_unsent(&commands->window))) {
		enum kw_local_use use;

		if (entry->kind == KW_WINDOW_SWEEP) {
			sweep(commands, entry);
			break;
		}
		use = kw_local_use(commands->local, entry->database);
		if (use == KW_USE_WAIT) {
			await_database(commands);
			break;
		}
		if (use == KW_USE_REFUSED) {
			if (!give_up_unsent(commands, entry))
				break;
			gave_up = true;
			continue;
		}
		kw_window_mark_sent(&commands->window);
		kw_redis_send_raw(commands->local->redis, on_reply, commands,
			kw_slice(entry->bytes, entry->length));
	}
	if (gave_up)
		update(commands);
}

static void commands_save(struct kw_applier *applier, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg)
{
	kw_local_write_cursor(((struct commands *)applier)->local, progress, done, arg);
}

static void commands_begin(struct kw_applier *applier)
{
	struct commands *commands = (struct commands *)applier;

	applier->progress.owed = 0;
	commands->oom_us = 0;
	if (applier->refusal.kind == KW_SERVER_E_OOM)
		unblock(commands);
}

static void commands_free(struct kw_applier *applier)
{
	struct commands *commands = (struct commands *)applier;

	kw_window_close(&commands->window);
	free(commands);
}

static void commands_attach(struct kw_applier *applier, bool continuous)
{
	struct commands *commands = (struct commands *)applier;

	commands->attached = true;
	commands->retry_us = 0;
	commands->base.refusal = (struct kw_apply_refusal){0};
	if (!continuous) {
		kw_window_drop(&commands->window);
		commands->sweeps_all = false;
	}
	update(commands);
	pump(commands);
}

/* Was the connection lost with this command at the front, again? Then it might be the cause. */
static void count_losses(struct commands *commands)
{
	struct kw_window *window = &commands->window;
	const struct kw_window_entry *entry;

	if (window->first == window->sent)
		return;
	commands->losses = commands->lost_at == window->first ? commands->losses + 1 : 1;
	commands->lost_at = window->first;
	kw_window_rewind(window);
	entry = kw_window_unsent(window);
	if (commands->losses < POISON_LOSSES || entry->length < POISON_BYTES)
		return;
	give_up(commands, entry,
		kw_slice_text("the local server closes the connection at this key each time: see "
			      "its proto-max-bulk-len and client-query-buffer-limit"));
	kw_window_mark_sent(window);
	kw_window_answer(window, true);
}

static void commands_detach(struct kw_applier *applier)
{
	struct commands *commands = (struct commands *)applier;

	commands->attached = false;
	kw_prune_stop(&commands->sweep);
	count_losses(commands);
	kw_window_rewind(&commands->window);
	update(commands);
}

static void add_record(struct commands *commands, const struct kw_record_view *record)
{
	bool sweeps = commands->sweeps_all || kw_filter_picks_keys(commands->filter) ||
		      (record->database == 0 && kw_local_store_is_key(commands->local));

	kw_command_add(&commands->window, record, sweeps);
	commands->base.progress.taken = commands->window.end;
	commands->base.progress.window_bytes = commands->window.bytes;
	pump(commands);
}

static void commands_records(
	struct kw_applier *applier, const struct kw_record_view *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add_record((struct commands *)applier, &records[i]);
}

static uint64_t commands_room(const struct kw_applier *applier)
{
	const struct commands *commands = (const struct commands *)applier;
	uint64_t used = commands->window.bytes;

	return used < commands->limit_bytes ? commands->limit_bytes - used : 0;
}

static void commands_tick(struct kw_applier *applier, uint64_t now_us)
{
	struct commands *commands = (struct commands *)applier;

	if (commands->retry_us == 0 || now_us < commands->retry_us)
		return;
	commands->retry_us = 0;
	pump(commands);
}

static void commands_selected(struct kw_applier *applier)
{
	struct commands *commands = (struct commands *)applier;

	if (kw_prune_running(&commands->sweep))
		kw_prune_selected(&commands->sweep);
	else
		pump(commands);
}

static void commands_set_window(struct kw_applier *applier, uint64_t bytes)
{
	((struct commands *)applier)->limit_bytes = bytes;
}

static const struct kw_applier_ops ops = {
	.attach = commands_attach,
	.detach = commands_detach,
	.begin = commands_begin,
	.records = commands_records,
	.room = commands_room,
	.save = commands_save,
	.selected = commands_selected,
	.tick = commands_tick,
	.set_window = commands_set_window,
	.free = commands_free,
};

struct kw_applier *kw_applier_commands(const struct kw_apply_options *options)
{
	struct commands *commands = kw_zalloc(sizeof *commands);

	commands->base.ops = &ops;
	commands->base.handlers = options->handlers;
	commands->local = options->local;
	commands->filter = options->filter;
	commands->quarantine = options->quarantine;
	commands->limit_bytes = options->window_bytes;
	commands->lost_at = UINT64_MAX;
	kw_prune_init(&commands->sweep, options->local);
	kw_backoff_init(&commands->backoff, RETRY_LOWEST_MS, RETRY_HIGHEST_MS);
	return &commands->base;
}
