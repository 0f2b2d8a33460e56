/*
 * Apply mode `hybrid`: bootstrap as in mode replica, then go on as in mode commands.
 *
 *   ┌─────┐ the RDB is loaded ┌───────────┐ REPLICAOF NO ONE ┌──────────┐
 *   │ RDB │──────────────────▶│ RELEASING │────────────────▶│ COMMANDS │
 *   └─────┘                   └───────────┘                  └──────────┘
 *      ▲ the server has no cursor of ours (new, emptied, killed in between) │
 *      └────────────────────────────────────────────────────────────────────┘
 *
 * Both modes are there from the start. The snapshot's records go to the first; what follows goes to
 * the second at once and waits in its window, so the order for each key is kept. `done` is the sum
 * of both because the second gets nothing done before the first has. A reconcile in COMMANDS
 * merges, as in mode commands: an RDB would replace what others may write there.
 */
#include "modes.h"
#include "primary/replica.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

#define RETRY_US 1000000

enum stage { STAGE_RDB, STAGE_RELEASING, STAGE_COMMANDS };

struct hybrid {
	struct kw_apply base;
	struct kw_local *local;
	struct kw_replica *first;
	struct kw_apply *second;
	enum stage stage;
	uint64_t retry_us;         /* releasing failed: not before */
	struct kw_failure failure; /* the last; none when it is tried for the first time */
};

static void show_trouble(struct hybrid *hybrid)
{
	const struct kw_apply *first = &hybrid->first->base;
	struct kw_apply *base = &hybrid->base;

	base->trouble = hybrid->stage == STAGE_COMMANDS ? KW_TROUBLE_NONE : first->trouble;
	if (hybrid->stage == STAGE_RELEASING) {
		base->trouble = !kw_failed(&hybrid->failure) || kw_failure_passes(&hybrid->failure)
					? KW_TROUBLE_WAIT
					: KW_TROUBLE_FAIL;
		snprintf(base->trouble_why, sizeof base->trouble_why,
			"the local server is being let go (REPLICAOF NO ONE)%s%.300s",
			kw_failed(&hybrid->failure) ? ": " : "", hybrid->failure.text);
	} else if (base->trouble != KW_TROUBLE_NONE) {
		memcpy(base->trouble_why, first->trouble_why, sizeof base->trouble_why);
	}
	base->link = first->link;
	if (hybrid->stage == STAGE_COMMANDS)
		base->link.state = "handed over";
}

/* What the two amount to. Called for each answer of the server: only what changed is copied. */
static void merge(struct hybrid *hybrid)
{
	const struct kw_apply *first = &hybrid->first->base, *second = hybrid->second;
	struct kw_apply *base = &hybrid->base;

	base->taken = first->taken + second->taken;
	base->done = first->done + second->done;
	base->applied = first->applied + second->applied;
	base->retries = second->retries;
	base->owed = second->owed;
	base->window_bytes_used = second->window_bytes_used;
	base->whole = hybrid->stage != STAGE_COMMANDS;
	base->loading = base->whole && first->loading;
	if (base->blocked || second->blocked)
		memcpy(base->blocked_why, second->blocked_why, sizeof base->blocked_why);
	base->blocked = second->blocked;
	base->blocked_kind = second->blocked_kind;
	if (hybrid->stage != STAGE_COMMANDS || base->trouble != KW_TROUBLE_NONE)
		show_trouble(hybrid);
}

/* The second forgets what waits in it: a snapshot brings it. */
static void empty_second(struct hybrid *hybrid)
{
	hybrid->second->ops->attach(hybrid->second, false);
	hybrid->second->ops->detach(hybrid->second);
}

/* ---- the hand-over ---- */

static void on_released(void *arg, const struct kw_failure *failure)
{
	struct hybrid *hybrid = arg;
	struct kw_replica *first = hybrid->first;

	if (failure) {
		/* It may be a master by now: as one that nobody else has promoted. */
		if (strcmp(failure->text, hybrid->failure.text) != 0)
			kw_log_warn("link", "the local server cannot be let go: %s (trying again)",
				failure->text);
		hybrid->failure = *failure;
		hybrid->retry_us = kw_clock_us() + RETRY_US;
		return;
	}
	kw_leave_move(first, KW_LEAVE_STAYING);
	hybrid->failure = (struct kw_failure){0};
	kw_log_info("link", "the local server is on its own: going on by commands");
	hybrid->stage = STAGE_COMMANDS;
	kw_replica_reset(first, "its snapshot is loaded and acknowledged");
	hybrid->second->ops->attach(hybrid->second, true);
	show_trouble(hybrid);
	merge(hybrid);
	hybrid->base.handlers.progress(hybrid->base.handlers.arg);
}

static void release_if_loaded(struct hybrid *hybrid, uint64_t now_us)
{
	struct kw_replica *first = hybrid->first;

	if (hybrid->stage == STAGE_COMMANDS || !kw_replica_is(first, KW_REPLICA_ONLINE) ||
		!first->attached || kw_takeover_runs(&first->takeover) ||
		!kw_local_ready(hybrid->local) || now_us < hybrid->retry_us)
		return;
	if (hybrid->stage == STAGE_RDB)
		hybrid->failure = (struct kw_failure){0};
	hybrid->stage = STAGE_RELEASING;
	kw_leave_move(first, KW_LEAVE_RELEASING);
	kw_takeover_release(&first->takeover, on_released, hybrid);
}

static void on_progress(void *arg)
{
	struct hybrid *hybrid = arg;

	release_if_loaded(hybrid, kw_clock_us());
	merge(hybrid);
	hybrid->base.handlers.progress(hybrid->base.handlers.arg);
}

static void on_lost(void *arg, const char *why)
{
	struct hybrid *hybrid = arg;

	merge(hybrid);
	hybrid->base.handlers.lost(hybrid->base.handlers.arg, why);
}

/* ---- the server comes and goes ---- */

/* A master with a cursor that we wrote to it as such: only to be gone on with. */
static bool is_bootstrapped(const struct hybrid *hybrid)
{
	const struct kw_local_facts *facts = &hybrid->local->facts;

	return strcmp(facts->identity.role, "master") == 0 &&
	       facts->cursor_kind == KW_CURSOR_OURS && facts->cursor.bond == KW_BOND_NONE;
}

static void hybrid_attach(struct kw_apply *apply, bool continuous)
{
	struct hybrid *hybrid = (struct hybrid *)apply;
	struct kw_apply *first = &hybrid->first->base;

	if (!continuous) {
		hybrid->stage = is_bootstrapped(hybrid) ? STAGE_COMMANDS : STAGE_RDB;
		kw_leave_move(hybrid->first, KW_LEAVE_STAYING);
		if (hybrid->stage == STAGE_RDB)
			kw_local_lead(hybrid->local);
		else
			kw_local_let_go(hybrid->local);
		empty_second(hybrid);
		if (hybrid->stage == STAGE_COMMANDS)
			kw_replica_reset(hybrid->first, "the local server is on its own");
		kw_local_link_forgotten(hybrid->local);
	}
	if (hybrid->stage == STAGE_COMMANDS)
		hybrid->second->ops->attach(hybrid->second, continuous);
	else
		first->ops->attach(first, continuous);
	show_trouble(hybrid);
	merge(hybrid);
}

static void hybrid_detach(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	if (hybrid->stage == STAGE_COMMANDS) {
		hybrid->second->ops->detach(hybrid->second);
	} else {
		/* A release that was begun is gone on with: it may be a master by our doing. */
		if (hybrid->stage == STAGE_RDB)
			kw_leave_move(hybrid->first, KW_LEAVE_STAYING);
		kw_replica_detach(&hybrid->first->base);
	}
	merge(hybrid);
}

static void hybrid_looked(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	/* The first look since the hand-over has taken note of the new replication id. */
	if (hybrid->stage == STAGE_COMMANDS)
		kw_local_let_go(hybrid->local);
	else
		kw_replica_looked(&hybrid->first->base);
	merge(hybrid);
}

/* ---- the snapshot ---- */

static void hybrid_prepare(
	struct kw_apply *apply, const struct kw_apply_plan *plan, kw_local_done_fn done, void *arg)
{
	struct hybrid *hybrid = (struct hybrid *)apply;
	struct kw_failure failure;

	if (hybrid->stage == STAGE_COMMANDS) {
		hybrid->second->ops->prepare(hybrid->second, plan, done, arg);
		return;
	}
	/* REPLICAOF NO ONE is out: given up now, it would look like somebody else's. */
	if (hybrid->stage == STAGE_RELEASING && kw_takeover_runs(&hybrid->first->takeover)) {
		kw_failure_set(&failure, KW_E_STATE, "the local server is being let go");
		done(arg, &failure);
		return;
	}
	/* Half let go it is a master by our doing: what comes next may fail or be put off. */
	if (hybrid->stage == STAGE_RELEASING) {
		kw_replica_reset(hybrid->first, "a new snapshot follows");
		kw_possession_untaken(hybrid->first);
	}
	hybrid->stage = STAGE_RDB;
	kw_leave_move(hybrid->first, KW_LEAVE_STAYING);
	kw_replica_prepare(&hybrid->first->base, plan, done, arg);
	empty_second(hybrid);
	merge(hybrid);
}

static void hybrid_forget(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	if (hybrid->stage == STAGE_COMMANDS)
		return;
	/* What waits is older than the snapshot that follows. */
	empty_second(hybrid);
	kw_replica_forget(&hybrid->first->base);
	merge(hybrid);
}

static bool hybrid_resumable(const struct kw_apply *apply)
{
	return is_bootstrapped((const struct hybrid *)apply);
}

static void hybrid_begin(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	if (hybrid->stage == STAGE_COMMANDS)
		hybrid->second->ops->begin(hybrid->second);
	else
		kw_snapshot_begin(&hybrid->first->base);
	merge(hybrid);
}

static void hybrid_end(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	if (hybrid->stage != STAGE_COMMANDS)
		kw_snapshot_end(&hybrid->first->base);
	merge(hybrid);
}

/* Who takes the next record. */
static struct kw_apply *taker(const struct hybrid *hybrid)
{
	return hybrid->stage != STAGE_COMMANDS && kw_replica_is(hybrid->first, KW_REPLICA_SNAPSHOT)
		       ? &hybrid->first->base
		       : hybrid->second;
}

static void hybrid_records(
	struct kw_apply *apply, const struct kw_record_view *records, size_t count)
{
	struct hybrid *hybrid = (struct hybrid *)apply;
	struct kw_apply *to = taker(hybrid);

	to->ops->records(to, records, count);
	apply->taken = hybrid->first->base.taken + hybrid->second->taken;
}

static uint64_t hybrid_room(const struct kw_apply *apply)
{
	const struct kw_apply *to = taker((const struct hybrid *)apply);

	return to->ops->room(to);
}

static void hybrid_save(struct kw_apply *apply, uint64_t epoch, uint64_t version,
	uint64_t quarantined, kw_local_done_fn done, void *arg)
{
	struct hybrid *hybrid = (struct hybrid *)apply;
	struct kw_failure failure;

	if (hybrid->stage == STAGE_COMMANDS) {
		hybrid->second->ops->save(hybrid->second, epoch, version, quarantined, done, arg);
		return;
	}
	kw_failure_set(
		&failure, KW_E_STATE, "waiting for the hand-over before the cursor can be written");
	done(arg, &failure);
}

/* ---- the rest ---- */

static void hybrid_tick(struct kw_apply *apply, uint64_t now_us)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	kw_replica_tick(&hybrid->first->base, now_us);
	hybrid->second->ops->tick(hybrid->second, now_us);
	release_if_loaded(hybrid, now_us);
	merge(hybrid);
}

static void hybrid_selected(struct kw_apply *apply)
{
	struct kw_apply *second = ((struct hybrid *)apply)->second;

	second->ops->selected(second);
}

static void hybrid_set_window(struct kw_apply *apply, uint64_t bytes)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	hybrid->first->limit_bytes = bytes;
	hybrid->second->ops->set_window(hybrid->second, bytes);
}

static void hybrid_resync(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	if (hybrid->stage != STAGE_COMMANDS)
		kw_replica_resync(&hybrid->first->base);
}

static bool hybrid_leave(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	/* What was begun is carried through: the tick tries again. */
	if (hybrid->stage == STAGE_RELEASING)
		return true;
	return hybrid->stage == STAGE_RDB && kw_replica_leave(&hybrid->first->base);
}

static void hybrid_close(struct kw_apply *apply, void (*closed)(void *arg), void *arg)
{
	struct kw_apply *first = &((struct hybrid *)apply)->first->base;

	first->ops->close(first, closed, arg);
}

static void hybrid_destroy(struct kw_apply *apply)
{
	struct hybrid *hybrid = (struct hybrid *)apply;

	hybrid->first->base.ops->destroy(&hybrid->first->base);
	hybrid->second->ops->destroy(hybrid->second);
	free(hybrid);
}

static struct kw_apply *hybrid_create(const struct kw_apply_options *options)
{
	const struct kw_apply_handlers handlers = {
		.progress = on_progress,
		.lost = on_lost,
	};
	struct hybrid *hybrid = kw_zalloc(sizeof *hybrid);

	hybrid->base.ops = &kw_apply_hybrid;
	hybrid->base.whole = true;
	hybrid->local = options->local;
	hybrid->first = (struct kw_replica *)kw_apply_replica.create(options);
	hybrid->second = kw_apply_commands.create(options);
	hybrid->first->base.handlers = hybrid->second->handlers = handlers;
	hybrid->first->base.handlers.arg = hybrid->second->handlers.arg = hybrid;
	hybrid->base.link = hybrid->first->base.link;
	return &hybrid->base;
}

const struct kw_apply_ops kw_apply_hybrid = {
	.mode = "hybrid",
	.needs_local = true,
	.create = hybrid_create,
	.destroy = hybrid_destroy,
	.attach = hybrid_attach,
	.prepare = hybrid_prepare,
	.forget = hybrid_forget,
	.resumable = hybrid_resumable,
	.begin = hybrid_begin,
	.end = hybrid_end,
	.save = hybrid_save,
	.looked = hybrid_looked,
	.resync = hybrid_resync,
	.leave = hybrid_leave,
	.close = hybrid_close,
	.detach = hybrid_detach,
	.records = hybrid_records,
	.room = hybrid_room,
	.tick = hybrid_tick,
	.selected = hybrid_selected,
	.set_window = hybrid_set_window,
};
