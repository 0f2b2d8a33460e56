/*
 * Taking the server, or leaving it alone: what follows from whose server it is (ownership.h).
 */
#include "replica.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>

/* ---- the machine ---- */

#define LOST (KW_SM_TO(KW_POSSESSION_MARK_OWED) | KW_SM_TO(KW_POSSESSION_LEFT_ALONE))

static const struct kw_sm_state states[] = {
	[KW_POSSESSION_NOT_TAKEN] = {"not taken",
		KW_SM_TO(KW_POSSESSION_WANTED) | KW_SM_TO(KW_POSSESSION_TAKEN) | LOST,
		KW_SM_INITIAL},
	[KW_POSSESSION_WANTED] = {"wanted", KW_SM_TO(KW_POSSESSION_TAKEN) | LOST},
	[KW_POSSESSION_TAKEN] = {"taken",
		KW_SM_TO(KW_POSSESSION_NOT_TAKEN) | KW_SM_TO(KW_POSSESSION_WANTED) | LOST},
	[KW_POSSESSION_MARK_OWED] = {"mark owed",
		KW_SM_TO(KW_POSSESSION_LEFT_ALONE) | KW_SM_TO(KW_POSSESSION_WANTED)},
	[KW_POSSESSION_LEFT_ALONE] = {"left alone", KW_SM_TO(KW_POSSESSION_WANTED), KW_SM_FAILURE},
};

static bool holds(const void *owner, int state)
{
	const struct kw_replica *replica = owner;

	switch ((enum kw_possession)state) {
	case KW_POSSESSION_TAKEN:
		return replica->downlink.port > 0; /* it was told to follow this port */
	case KW_POSSESSION_MARK_OWED: /* there is a cursor that the mark can be put into */
		return replica->local->facts.cursor_kind == KW_CURSOR_OURS;
	case KW_POSSESSION_NOT_TAKEN:
	case KW_POSSESSION_WANTED:
	case KW_POSSESSION_LEFT_ALONE:
		return true;
	}
	return false;
}

static const struct kw_sm_conf machine = {"link", states, KW_POSSESSION_LEFT_ALONE + 1, holds};

void kw_possession_init(struct kw_replica *replica)
{
	kw_sm_init(&replica->possession, &machine, replica, KW_POSSESSION_NOT_TAKEN);
}

void kw_possession_taken(struct kw_replica *replica)
{
	assert(!kw_replica_left_alone(replica));
	kw_sm_move(&replica->possession, KW_POSSESSION_TAKEN, "it was told to follow this agent");
}

void kw_possession_untaken(struct kw_replica *replica)
{
	if (replica->possession.state == KW_POSSESSION_TAKEN)
		kw_sm_move(&replica->possession, KW_POSSESSION_NOT_TAKEN, "");
	assert(replica->possession.state != KW_POSSESSION_TAKEN);
}

/* ---- left alone ---- */

static void explain_promoted(struct kw_replica *replica)
{
	if (kw_ownership_saved_by_others(&replica->local->facts, &replica->memory, kw_clock_us()))
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"the local server was promoted and restarted while no agent ran (or "
			"restarted twice, saving its data in between) and is left alone: "
			"`keywakectl resync` makes it a replica again (its data are replaced "
			"then)");
	else
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"the local server was promoted by somebody and is left alone: "
			"`keywakectl resync` makes it a replica again (its data are replaced "
			"then)");
}

/*
 * Another client promoted the server, or sent it to another primary, perhaps in a failover. Data
 * written there now must not be replaced, whatever the consent was for.
 */
static void leave_alone(struct kw_replica *replica, enum kw_ownership ownership)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	bool marks = ownership == KW_OWNERSHIP_PROMOTED && facts->cursor_kind == KW_CURSOR_OURS;

	assert(!kw_ownership_may_take(ownership));
	if (ownership == KW_OWNERSHIP_PROMOTED)
		explain_promoted(replica);
	else
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"the local server %s %.100s:%" PRIu64
			" by somebody and is left alone: `keywakectl resync` takes it (its data "
			"are replaced then)",
			replica->phase.state < KW_REPLICA_TAKING ? "is made to follow"
								 : "was sent to follow",
			facts->master_host, facts->master_port);
	kw_log_warn("link", "%s", replica->trouble.why);
	kw_sm_move(&replica->possession, marks ? KW_POSSESSION_MARK_OWED : KW_POSSESSION_LEFT_ALONE,
		kw_ownership_name(ownership));
	kw_takeover_give_back(&replica->takeover);
}

static void on_marked(void *arg, const struct kw_failure *failure)
{
	if (failure)
		kw_log_warn("link", "that it was promoted cannot be noted in the server: %s",
			failure->text);
}

/* The promoted server can be written to: its cursor tells the next agent that it was promoted. */
static void leave_mark(struct kw_replica *replica)
{
	const struct kw_local_cursor *cursor = &replica->local->facts.cursor;
	const struct kw_cursor_progress progress = {
		cursor->epoch, cursor->version, cursor->quarantined, KW_BOND_PROMOTED};

	kw_sm_move(&replica->possession, KW_POSSESSION_LEFT_ALONE, "the cursor says it");
	kw_local_write_cursor(replica->local, &progress, on_marked, NULL);
}

/* ---- what the server is seen to be ---- */

/* While the server is asked to follow, let go, or left alone, its present role is not judged. */
static bool is_judged(const struct kw_replica *replica)
{
	if (kw_replica_left_alone(replica) || kw_replica_is_leaving(replica) ||
		kw_takeover_runs(&replica->takeover))
		return false;
	return replica->phase.state >= KW_REPLICA_WAITING ||
	       replica->possession.state == KW_POSSESSION_TAKEN;
}

void kw_replica_looked(struct kw_replica *replica)
{
	enum kw_ownership ownership;

	if (replica->possession.state == KW_POSSESSION_MARK_OWED)
		leave_mark(replica);
	if (!is_judged(replica))
		return;
	ownership = kw_ownership_led(
		&replica->local->facts, replica->downlink.host, replica->downlink.port);
	if (ownership != KW_OWNERSHIP_OURS) {
		leave_alone(replica, ownership);
		kw_replica_give_up(replica, "the local server was taken from this agent");
	} else if (replica->phase.state >= KW_REPLICA_WAITING && kw_refusals_looked(replica)) {
		kw_link_looked(replica->link, replica->refused.last);
	}
}

void kw_possession_found(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	uint64_t now = kw_clock_us();
	enum kw_ownership ownership = kw_ownership_found(
		facts, &replica->memory, replica->downlink.host, replica->downlink.port, now);

	assert(replica->possession.state != KW_POSSESSION_TAKEN);
	if (replica->possession.state == KW_POSSESSION_NOT_TAKEN &&
		!kw_ownership_may_take(ownership))
		leave_alone(replica, ownership);
	if (!kw_replica_left_alone(replica))
		kw_ownership_remember(&replica->memory, facts, ownership, now);
}

void kw_replica_resync(struct kw_replica *replica)
{
	kw_sm_move(&replica->possession, KW_POSSESSION_WANTED, "the operator asked for a resync");
	replica->retry_us = 0;
	kw_backoff_reset(&replica->refusing);
	kw_replica_no_trouble(replica);
}
