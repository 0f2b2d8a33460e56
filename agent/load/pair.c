#include "pair.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_US 1000000

/* ---- the stages ---- */

static const struct kw_sm_state states[] = {
	[KW_PAIR_LED] = {"led",
		KW_SM_TO(KW_PAIR_RELEASING) | KW_SM_TO(KW_PAIR_OWN) | KW_SM_TO(KW_PAIR_FED),
		KW_SM_INITIAL},
	[KW_PAIR_RELEASING] = {"releasing", KW_SM_TO(KW_PAIR_OWN) | KW_SM_TO(KW_PAIR_LED)},
	[KW_PAIR_OWN] = {"own", KW_SM_TO(KW_PAIR_LED), KW_SM_INITIAL},
	[KW_PAIR_FED] = {"fed", KW_SM_TO(KW_PAIR_LED)},
};

static bool holds(const void *owner, int state)
{
	const struct kw_pair *pair = owner;

	switch ((enum kw_pair_stage)state) {
	case KW_PAIR_LED:
		return kw_mode_leads(pair->mode) && pair->replacing;
	case KW_PAIR_RELEASING:
		return kw_mode_hands_over(pair->mode);
	case KW_PAIR_OWN:
		return pair->merging != NULL;
	case KW_PAIR_FED:
		return kw_mode_stays(pair->mode) && pair->merging != NULL;
	}
	return false;
}

static const struct kw_sm_conf machine = {"apply", states, KW_PAIR_FED + 1, holds};

static bool is_at(const struct kw_pair *pair, enum kw_pair_stage stage)
{
	return pair->stage.state == (int)stage;
}

static void move(struct kw_pair *pair, enum kw_pair_stage stage)
{
	kw_sm_move(&pair->stage, stage, "");
}

static struct kw_loader *loader_of(const struct kw_pair *pair)
{
	return kw_pair_replaces(pair) ? pair->replacing : pair->merging;
}

static void tell(struct kw_pair *pair)
{
	pair->handlers.progress(pair->handlers.arg);
}

/* ---- the handover of mode hybrid ---- */

static void on_released(void *arg, const struct kw_failure *failure)
{
	struct kw_pair *pair = arg;

	assert(is_at(pair, KW_PAIR_RELEASING));
	if (failure) {
		/* The server can be a primary by now, and no other client has promoted it. */
		if (strcmp(failure->text, pair->failure.text) != 0)
			kw_log_warn("link", "the local server cannot be let go: %s (trying again)",
				failure->text);
		pair->failure = *failure;
		pair->retry_us = kw_clock_us() + RETRY_US;
		return;
	}
	pair->failure = (struct kw_failure){0};
	kw_log_info("link", "the local server is on its own: going on by commands");
	move(pair, KW_PAIR_OWN);
	kw_replica_released(&pair->replica);
	pair->applier->ops->attach(pair->applier, true);
	tell(pair);
}

static void release_if_loaded(struct kw_pair *pair, uint64_t now_us)
{
	struct kw_replica *replica = &pair->replica;

	if (!kw_mode_hands_over(pair->mode) || is_at(pair, KW_PAIR_OWN) ||
		!kw_replica_is(replica, KW_REPLICA_ONLINE) || !replica->attached ||
		kw_takeover_runs(&replica->takeover) || !kw_local_ready(pair->local) ||
		now_us < pair->retry_us)
		return;
	if (is_at(pair, KW_PAIR_LED))
		pair->failure = (struct kw_failure){0};
	move(pair, KW_PAIR_RELEASING);
	kw_replica_release(replica, on_released, pair);
}

static void on_replica_progress(void *arg)
{
	struct kw_pair *pair = arg;

	release_if_loaded(pair, kw_clock_us());
	tell(pair);
}

static void on_replica_lost(void *arg, const char *why)
{
	struct kw_pair *pair = arg;

	pair->handlers.lost(pair->handlers.arg, why);
}

/* The changes that wait for the handover are forgotten: a snapshot brings them. */
static void empty_applier(struct kw_pair *pair)
{
	assert(kw_mode_hands_over(pair->mode));
	pair->applier->ops->attach(pair->applier, false);
	pair->applier->ops->detach(pair->applier);
}

/* ---- the server comes and goes ---- */

/* A primary with a cursor that we wrote to it as a primary: go on with commands. */
static bool is_bootstrapped(const struct kw_pair *pair)
{
	const struct kw_local_facts *facts = &pair->local->facts;

	return strcmp(facts->identity.role, "master") == 0 &&
	       facts->cursor_kind == KW_CURSOR_OURS && facts->cursor.bond == KW_BOND_NONE;
}

/* Mode hybrid has found other data than before: begin from the start, or only go on? */
static void begin_anew(struct kw_pair *pair)
{
	bool own = is_bootstrapped(pair);

	move(pair, own ? KW_PAIR_OWN : KW_PAIR_LED);
	kw_leave_move(&pair->replica, KW_LEAVE_STAYING);
	if (own)
		kw_local_let_go(pair->local);
	else
		kw_local_lead(pair->local);
	empty_applier(pair);
	if (own)
		kw_replica_reset(&pair->replica, "the local server is on its own");
	kw_local_link_forgotten(pair->local);
}

void kw_pair_attach(struct kw_pair *pair, bool continuous)
{
	if (is_at(pair, KW_PAIR_FED) && !continuous)
		move(pair, KW_PAIR_LED);
	if (kw_mode_hands_over(pair->mode) && !continuous)
		begin_anew(pair);
	if (is_at(pair, KW_PAIR_OWN))
		pair->applier->ops->attach(pair->applier, continuous);
	else
		kw_replica_attach(&pair->replica, continuous);
}

void kw_pair_detach(struct kw_pair *pair)
{
	if (is_at(pair, KW_PAIR_OWN)) {
		pair->applier->ops->detach(pair->applier);
		return;
	}
	/* A release that was begun goes on later: we can have made the server a primary. */
	if (kw_mode_hands_over(pair->mode) && is_at(pair, KW_PAIR_LED))
		kw_leave_move(&pair->replica, KW_LEAVE_STAYING);
	kw_replica_detach(&pair->replica);
}

void kw_pair_looked(struct kw_pair *pair)
{
	if (!is_at(pair, KW_PAIR_OWN))
		kw_replica_looked(&pair->replica);
	else if (kw_mode_hands_over(pair->mode))
		/* The first look since the handover has taken note of the new replication id. */
		kw_local_let_go(pair->local);
}

void kw_pair_selected(struct kw_pair *pair)
{
	pair->applier->ops->selected(pair->applier);
}

void kw_pair_tick(struct kw_pair *pair, uint64_t now_us)
{
	if (kw_mode_leads(pair->mode))
		kw_replica_tick(&pair->replica, now_us);
	pair->applier->ops->tick(pair->applier, now_us);
	release_if_loaded(pair, now_us);
}

/* ---- snapshots and changes ---- */

/*
 * The release is half done: we made the server a primary, and the next step can fail or be put off.
 */
static void give_up_release(struct kw_pair *pair)
{
	kw_replica_reset(&pair->replica, "a new snapshot follows");
	kw_possession_untaken(&pair->replica);
	kw_leave_move(&pair->replica, KW_LEAVE_STAYING);
	move(pair, KW_PAIR_LED);
}

/* The link is there, or breaks just now: if it does not go on, it is given up (lost). */
static bool goes_on(const struct kw_replica *replica)
{
	return kw_replica_is(replica, KW_REPLICA_ONLINE) ||
	       kw_replica_awaits(replica, KW_TAKEOVER_CONTINUE);
}

void kw_pair_choose(struct kw_pair *pair, bool merges)
{
	if (!kw_mode_stays(pair->mode))
		return;
	merges = merges && goes_on(&pair->replica) && !kw_replica_left_alone(&pair->replica) &&
		 !kw_replica_is_leaving(&pair->replica);
	if (merges != is_at(pair, KW_PAIR_FED))
		move(pair, merges ? KW_PAIR_FED : KW_PAIR_LED);
}

void kw_pair_prepare(
	struct kw_pair *pair, const struct kw_load_plan *plan, kw_local_done_fn done, void *arg)
{
	struct kw_loader *loader = loader_of(pair);
	struct kw_failure failure;

	/* REPLICAOF NO ONE is out: if it is given up now, it would look like another client's. */
	if (is_at(pair, KW_PAIR_RELEASING) && kw_takeover_runs(&pair->replica.takeover)) {
		kw_failure_set(&failure, KW_E_STATE, "the local server is being let go");
		done(arg, &failure);
		return;
	}
	if (is_at(pair, KW_PAIR_RELEASING))
		give_up_release(pair);
	if (kw_mode_hands_over(pair->mode) && is_at(pair, KW_PAIR_LED))
		kw_leave_move(&pair->replica, KW_LEAVE_STAYING);
	loader->ops->prepare(loader, plan, done, arg);
	if (kw_mode_hands_over(pair->mode) && is_at(pair, KW_PAIR_LED))
		empty_applier(pair);
}

void kw_pair_begin(struct kw_pair *pair)
{
	struct kw_loader *loader = loader_of(pair);

	pair->reading = KW_PAIR_READS_SNAPSHOT;
	loader->ops->begin(loader);
}

void kw_pair_end(struct kw_pair *pair)
{
	struct kw_loader *loader = loader_of(pair);

	assert(pair->reading == KW_PAIR_READS_SNAPSHOT);
	pair->reading = KW_PAIR_READS_CHANGES;
	loader->ops->end(loader);
}

void kw_pair_abandon(struct kw_pair *pair)
{
	struct kw_loader *loader = loader_of(pair);

	pair->reading = KW_PAIR_READS_CHANGES;
	if (kw_mode_hands_over(pair->mode) && !is_at(pair, KW_PAIR_OWN))
		empty_applier(pair);
	loader->ops->abandon(loader);
}

void kw_pair_resume(struct kw_pair *pair)
{
	pair->reading = KW_PAIR_READS_CHANGES;
	if (kw_mode_stays(pair->mode))
		kw_replica_resume(&pair->replica);
}

bool kw_pair_resumable(const struct kw_pair *pair)
{
	if (kw_mode_hands_over(pair->mode))
		return is_bootstrapped(pair);
	return !kw_mode_leads(pair->mode) || kw_replica_resumable(&pair->replica);
}

void kw_pair_records(struct kw_pair *pair, const struct kw_record_view *records, size_t count)
{
	struct kw_loader *loader = loader_of(pair);

	kw_limit_spend(&pair->limit, records, count, kw_clock_us());
	records = kw_rename_records(&pair->rename, records, count);
	if (pair->reading == KW_PAIR_READS_SNAPSHOT)
		loader->ops->records(loader, records, count);
	else
		pair->applier->ops->records(pair->applier, records, count);
}

static uint64_t room_of_server(const struct kw_pair *pair)
{
	const struct kw_loader *loader = loader_of(pair);

	if (pair->reading == KW_PAIR_READS_SNAPSHOT)
		return loader->ops->room(loader);
	return pair->applier->ops->room(pair->applier);
}

uint64_t kw_pair_room(struct kw_pair *pair)
{
	return kw_limit_room(&pair->limit, room_of_server(pair), kw_clock_us());
}

void kw_pair_save(struct kw_pair *pair, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg)
{
	struct kw_failure failure;

	if (kw_mode_hands_over(pair->mode) && !is_at(pair, KW_PAIR_OWN)) {
		kw_failure_set(&failure, KW_E_STATE,
			"waiting for the hand-over before the cursor can be written");
		done(arg, &failure);
		return;
	}
	pair->applier->ops->save(pair->applier, progress, done, arg);
}

void kw_pair_change_libraries(struct kw_pair *pair, const struct kw_libraries_change *change,
	kw_local_done_fn done, void *arg)
{
	struct kw_failure failure;

	switch ((enum kw_pair_stage)pair->stage.state) {
	case KW_PAIR_OWN:
		kw_local_change_libraries(pair->local, change, done, arg);
		break;
	case KW_PAIR_LED:
	case KW_PAIR_FED:
		kw_link_change_libraries(pair->link, change, done, arg);
		break;
	case KW_PAIR_RELEASING:
		kw_failure_set(&failure, KW_E_STATE, "the local server is being let go");
		done(arg, &failure);
		break;
	}
}

/* ---- what an operator asks for ---- */

void kw_pair_resync(struct kw_pair *pair)
{
	if (!is_at(pair, KW_PAIR_OWN))
		kw_replica_resync(&pair->replica);
}

void kw_pair_set_window(struct kw_pair *pair, uint64_t bytes)
{
	pair->applier->ops->set_window(pair->applier, bytes);
	if (pair->replacing)
		pair->replacing->ops->set_window(pair->replacing, bytes);
}

void kw_pair_set_limit(struct kw_pair *pair, uint64_t bytes_per_second)
{
	assert(bytes_per_second == 0 || !kw_mode_leads(pair->mode));
	kw_limit_set(&pair->limit, bytes_per_second, kw_clock_us());
}

void kw_pair_set_shutdown(struct kw_pair *pair, enum kw_shutdown shutdown)
{
	pair->replica.shutdown = shutdown;
}

bool kw_pair_leave(struct kw_pair *pair)
{
	/* Complete what was begun: the tick tries again. */
	if (is_at(pair, KW_PAIR_RELEASING))
		return true;
	return !is_at(pair, KW_PAIR_OWN) && kw_replica_leave(&pair->replica);
}

/* ---- reports ---- */

const char *kw_pair_mode(const struct kw_pair *pair)
{
	return pair->mode->name;
}

bool kw_pair_needs_local(const struct kw_pair *pair)
{
	return pair->mode->applier != KW_MODE_APPLIER_NONE;
}

bool kw_pair_replaces(const struct kw_pair *pair)
{
	return is_at(pair, KW_PAIR_LED) || is_at(pair, KW_PAIR_RELEASING);
}

bool kw_pair_is_led(const struct kw_pair *pair)
{
	return !is_at(pair, KW_PAIR_OWN);
}

bool kw_pair_is_whole(const struct kw_pair *pair)
{
	return is_at(pair, KW_PAIR_OWN) || (kw_mode_stays(pair->mode) && goes_on(&pair->replica));
}

bool kw_pair_is_loading(const struct kw_pair *pair)
{
	return !is_at(pair, KW_PAIR_OWN) && kw_replica_loads(&pair->replica);
}

/* While a snapshot is merged, the data are neither what they were nor what they shall be. */
bool kw_pair_leads(const struct kw_pair *pair)
{
	bool mixed = is_at(pair, KW_PAIR_FED) && pair->reading == KW_PAIR_READS_SNAPSHOT;

	return kw_mode_stays(pair->mode) && kw_replica_leads(&pair->replica) && !mixed;
}

bool kw_pair_is_bound(const struct kw_pair *pair)
{
	const struct kw_local_facts *facts = &pair->local->facts;
	bool led = facts->cursor_kind == KW_CURSOR_OURS && facts->cursor.bond == KW_BOND_LED;

	return !is_at(pair, KW_PAIR_OWN) &&
	       (led || !kw_replica_is(&pair->replica, KW_REPLICA_OFF) ||
		       kw_takeover_runs(&pair->replica.takeover));
}

static void add_progress(struct kw_apply_progress *sum, const struct kw_apply_progress *part)
{
	sum->taken += part->taken;
	sum->done += part->done;
	sum->confirmed += part->confirmed;
	sum->applied += part->applied;
}

const struct kw_apply_progress *kw_pair_progress(struct kw_pair *pair)
{
	struct kw_apply_progress *sum = &pair->progress;

	*sum = pair->applier->progress;
	if (!kw_mode_leads(pair->mode))
		return sum;
	sum->taken += pair->replacing->taken;
	if (&pair->link->base == pair->applier)
		return sum;
	add_progress(sum, &pair->link->base.progress);
	/*
	 * The result of a client's commands is known at once; a snapshot is loaded whole or not at
	 * all.
	 */
	sum->confirmed = sum->done;
	return sum;
}

const struct kw_apply_refusal *kw_pair_refusal(const struct kw_pair *pair)
{
	return &pair->applier->refusal;
}

static void explain_release(const struct kw_pair *pair, struct kw_trouble *trouble)
{
	bool failed = kw_failed(&pair->failure);

	trouble->kind =
		!failed || kw_failure_passes(&pair->failure) ? KW_TROUBLE_WAIT : KW_TROUBLE_FAIL;
	snprintf(trouble->why, sizeof trouble->why,
		"the local server is being let go (REPLICAOF NO ONE)%s%.300s", failed ? ": " : "",
		pair->failure.text);
}

const struct kw_trouble *kw_pair_trouble(struct kw_pair *pair)
{
	static const struct kw_trouble none = {0};
	struct kw_trouble *trouble = &pair->trouble;

	switch ((enum kw_pair_stage)pair->stage.state) {
	case KW_PAIR_LED:
	case KW_PAIR_FED:
		return &pair->replica.trouble;
	case KW_PAIR_RELEASING:
		explain_release(pair, trouble);
		return trouble;
	case KW_PAIR_OWN:
		break;
	}
	return &none;
}

const struct kw_link_report *kw_pair_link(struct kw_pair *pair)
{
	struct kw_link_report *report = &pair->report;

	*report = (struct kw_link_report){0};
	if (kw_mode_leads(pair->mode))
		kw_replica_report(&pair->replica, report);
	if (kw_mode_leads(pair->mode) && is_at(pair, KW_PAIR_OWN))
		report->state = "handed over";
	return report;
}

/* ---- the beginning and the end ---- */

static void lead(struct kw_pair *pair, const struct kw_pair_options *options,
	const struct kw_apply_options *apply)
{
	const struct kw_replica_options replica = {
		.loop = options->loop,
		.local = options->local,
		.link = pair->link = kw_applier_link(apply),
		.listen = options->listen,
		.masterauth = options->masterauth,
		.tls = options->tls,
		.certificates = options->certificates,
		.stays = kw_mode_stays(pair->mode),
		.handlers = {on_replica_progress, on_replica_lost, pair},
	};

	kw_replica_init(&pair->replica, &replica);
	pair->replica.shutdown = options->shutdown;
	pair->replacing = kw_loader_rdb(&pair->replica, options->quarantine, options->window_bytes);
}

struct kw_pair *kw_pair_new(const struct kw_mode *mode, const struct kw_pair_options *options)
{
	struct kw_pair *pair = kw_zalloc(sizeof *pair);
	const struct kw_apply_options apply = {
		.local = options->local,
		.filter = options->filter,
		.quarantine = options->quarantine,
		.window_bytes = options->window_bytes,
		.handlers = {options->handlers.progress, options->handlers.arg},
	};

	pair->mode = mode;
	pair->handlers = options->handlers;
	pair->local = options->local;
	pair->rename.naming = &options->filter->names;
	assert(!kw_mode_leads(mode) || kw_naming_is_identity(pair->rename.naming));
	kw_pair_set_limit(pair, options->bytes_per_second);
	if (kw_mode_leads(mode))
		lead(pair, options, &apply);
	switch (mode->applier) {
	case KW_MODE_APPLIER_NONE:
		pair->applier = kw_applier_none(&apply);
		pair->merging = kw_loader_none(pair->applier);
		break;
	case KW_MODE_APPLIER_COMMANDS:
		pair->applier = kw_applier_commands(&apply);
		pair->merging = kw_loader_restore(pair->applier);
		break;
	case KW_MODE_APPLIER_LINK:
		pair->applier = &pair->link->base;
		pair->merging = kw_loader_restore(pair->applier);
		break;
	}
	kw_sm_init(&pair->stage, &machine, pair, kw_mode_leads(mode) ? KW_PAIR_LED : KW_PAIR_OWN);
	return pair;
}

bool kw_pair_close(struct kw_pair *pair, void (*closed)(void *arg), void *arg)
{
	if (!kw_mode_leads(pair->mode))
		return false;
	kw_replica_close(&pair->replica, closed, arg);
	return true;
}

void kw_pair_free(struct kw_pair *pair)
{
	if (pair->merging)
		pair->merging->ops->free(pair->merging);
	if (pair->replacing)
		pair->replacing->ops->free(pair->replacing);
	if (!pair->link || &pair->link->base != pair->applier)
		pair->applier->ops->free(pair->applier);
	if (pair->link) {
		pair->link->base.ops->free(&pair->link->base);
		kw_replica_free(&pair->replica);
	}
	kw_rename_close(&pair->rename);
	free(pair);
}
