/* The end of the agent: what the local server is left as. */
#include "replica.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

/* Between two tries to put a setting back, or to promote the server. */
#define RESTORE_US 500000
/* Until a server notices that the link has ended. */
#define NOTICE_US 50000

static const struct kw_sm_state states[] = {
	[KW_LEAVE_STAYING] = {"staying",
		KW_SM_TO(KW_LEAVE_LOADING) | KW_SM_TO(KW_LEAVE_RELEASING) | KW_SM_TO(KW_LEAVE_DONE),
		KW_SM_INITIAL},
	[KW_LEAVE_LOADING] = {"loading",
		KW_SM_TO(KW_LEAVE_RESTORING) | KW_SM_TO(KW_LEAVE_RELEASING) |
			KW_SM_TO(KW_LEAVE_DONE) | KW_SM_TO(KW_LEAVE_STAYING)},
	[KW_LEAVE_RESTORING] = {"restoring", KW_SM_TO(KW_LEAVE_DONE) |
						     KW_SM_TO(KW_LEAVE_RELEASING) |
						     KW_SM_TO(KW_LEAVE_STAYING)},
	[KW_LEAVE_RELEASING] = {"releasing", KW_SM_TO(KW_LEAVE_DONE) | KW_SM_TO(KW_LEAVE_STAYING)},
	[KW_LEAVE_DONE] = {"done", KW_SM_TO(KW_LEAVE_RELEASING) | KW_SM_TO(KW_LEAVE_STAYING)},
};

static bool holds(const void *owner, int state)
{
	const struct kw_replica *replica = owner;

	/* A server that belongs to others is not promoted, and none of its settings changed. */
	return !kw_replica_left_alone(replica) ||
	       (state != KW_LEAVE_RELEASING && state != KW_LEAVE_RESTORING);
}

static const struct kw_sm_conf machine = {"leave", states, KW_LEAVE_DONE + 1, holds};

void kw_leave_init(struct kw_replica *replica)
{
	kw_sm_init(&replica->leaving, &machine, replica, KW_LEAVE_STAYING);
}

void kw_leave_move(struct kw_replica *replica, enum kw_leave state)
{
	kw_sm_move(&replica->leaving, state, "");
}

static void on_left(void *arg, const struct kw_failure *failure)
{
	struct kw_replica *replica = arg;

	if (failure)
		kw_log_warn("link", "%s", failure->text);
	kw_leave_move(replica, KW_LEAVE_DONE);
	kw_replica_tell(replica);
}

static void on_released(void *arg, const struct kw_failure *failure)
{
	struct kw_replica *replica = arg;
	const struct kw_local_cursor *cursor = &replica->local->facts.cursor;
	/* The next agent may replace the data: their position is not known from now on. */
	struct kw_cursor_progress progress = {.epoch = cursor->epoch};

	/* A server that is busy with a script refuses everything else: try again. */
	if (failure && kw_failure_passes(failure)) {
		replica->leave_us = kw_clock_us() + RESTORE_US;
		return;
	}
	if (failure) {
		on_left(replica, failure);
		return;
	}
	kw_log_info("link", "the local server is promoted");
	/* The operator asked for the promotion: a restart of the agent must not undo it. */
	if (replica->shutdown == KW_SHUTDOWN_PROMOTE_FINAL)
		progress = (struct kw_cursor_progress){
			cursor->epoch, cursor->version, cursor->quarantined, KW_BOND_PROMOTED};
	kw_local_write_cursor(replica->local, &progress, on_left, replica);
}

/* Put back the settings. A server that still loads refuses that, so ask it again. */
static void restore(struct kw_replica *replica)
{
	struct kw_takeover *takeover = &replica->takeover;
	uint64_t now = kw_clock_us();

	if (!takeover->swapdb_set) {
		kw_leave_move(replica, KW_LEAVE_DONE);
	} else if (takeover->owed == 0 && now >= replica->leave_us) {
		replica->leave_us = now + RESTORE_US;
		kw_takeover_loaded(takeover);
	}
}

static void begin_leaving(struct kw_replica *replica)
{
	bool promotes = replica->shutdown != KW_SHUTDOWN_STAY && kw_replica_leads(replica);

	kw_leave_move(replica, promotes ? KW_LEAVE_RELEASING : KW_LEAVE_RESTORING);
	replica->leave_us = 0;
	kw_takeover_stop(&replica->takeover);
	if (kw_replica_is(replica, KW_REPLICA_SNAPSHOT)) {
		kw_replica_reset(replica, "the agent ends; the server keeps its data of before");
		replica->leave_us = kw_clock_us() + NOTICE_US;
	}
}

/* Try until the server takes it: no other program would promote it. */
static void release(struct kw_replica *replica)
{
	struct kw_takeover *takeover = &replica->takeover;
	uint64_t now = kw_clock_us();

	if (kw_takeover_runs(takeover) || now < replica->leave_us)
		return;
	replica->leave_us = UINT64_MAX;
	kw_takeover_release(takeover, on_released, replica);
}

/* All of the snapshot is sent, and the server will end the load by itself. */
static bool is_loading(const struct kw_replica *replica)
{
	return kw_replica_is(replica, KW_REPLICA_LOADING) && kw_downlink_up(&replica->downlink);
}

bool kw_replica_leave(struct kw_replica *replica)
{
	if (!kw_replica_is_leaving(replica))
		kw_leave_move(replica, KW_LEAVE_LOADING);
	if (replica->leaving.state == KW_LEAVE_LOADING && kw_replica_left_alone(replica))
		kw_leave_move(replica, KW_LEAVE_DONE);
	if (replica->leaving.state == KW_LEAVE_LOADING && !is_loading(replica))
		begin_leaving(replica);
	if (replica->leaving.state == KW_LEAVE_RESTORING)
		restore(replica);
	if (replica->leaving.state == KW_LEAVE_RELEASING)
		release(replica);
	return replica->leaving.state != KW_LEAVE_DONE;
}

/* ---- let go, and used further ---- */

void kw_replica_release(struct kw_replica *replica, kw_local_done_fn done, void *arg)
{
	assert(kw_replica_is(replica, KW_REPLICA_ONLINE) && replica->attached);
	kw_leave_move(replica, KW_LEAVE_RELEASING);
	kw_takeover_release(&replica->takeover, done, arg);
}

void kw_replica_released(struct kw_replica *replica)
{
	kw_leave_move(replica, KW_LEAVE_STAYING);
	kw_replica_reset(replica, "its snapshot is loaded and acknowledged");
}
