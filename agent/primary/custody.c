/* Whose server is it? Watched, left alone when somebody took it, let go at the end. */
#include "replica.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

/* At the end: between two tries to put a setting back, or to promote, and until a server sees the
 * link's end. */
#define RESTORE_US 500000
#define NOTICE_US 50000
/* A restarted server that was ours so lately, and not seen since, was down meanwhile. */
#define LATELY_US 10000000

/* ---- is the server still ours? ---- */

/* Its data are those of an agent's time, and it is another run than that agent knew. */
static bool has_restarted(const struct kw_local_facts *facts)
{
	const struct kw_local_cursor *cursor = &facts->cursor;

	return facts->cursor_kind == KW_CURSOR_OURS && cursor->bond == KW_BOND_LED &&
	       cursor->version > 0 && strcmp(cursor->run_id, facts->identity.run_id) != 0;
}

/*
 * This agent has seen it in this run or the one before, restarted from such data and led by nobody
 * since: what it saved then says the id it had taken, or none, because nobody followed it. And who
 * was in sight a moment ago may have restarted several times, but was up for no longer than it
 * takes us to connect: a failover is not done in that.
 */
static bool was_seen_restarted(const struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	const char *replid2 = facts->replid2;

	if (strcmp(facts->identity.run_id, replica->restarted_run) == 0 ||
		(replica->seen_us && kw_clock_us() - replica->seen_us < LATELY_US))
		return true;
	return replica->restarted[0] != '\0' &&
	       (replid2[strspn(replid2, "0")] == '\0' || strcmp(replid2, replica->restarted) == 0);
}

/*
 * Was it promoted before it restarted? A server saves the replication id that it goes by into its
 * RDB, and one that starts from that as a master shows it as its second. It is an agent's, if it
 * was a replica until then. Promoted, it went by an id of its own, or by none when that was long
 * ago (repl-backlog-ttl). An AOF says no id.
 */
static bool was_saved_by_others(const struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	return has_restarted(facts) && !facts->aof && !kw_local_replid_ours(facts->replid2) &&
	       !was_seen_restarted(replica);
}

/* The next restart may be from data saved behind this one. */
static void note_restart(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	if (strcmp(facts->identity.role, "master") != 0 || !has_restarted(facts) ||
		was_saved_by_others(replica))
		return;
	snprintf(replica->restarted, sizeof replica->restarted, "%s", facts->identity.replid);
	snprintf(replica->restarted_run, sizeof replica->restarted_run, "%s",
		facts->identity.run_id);
}

/*
 * Somebody promoted the server, or sent it to another primary: an operator in a failover perhaps.
 * What is written there now must not be replaced by us, whatever the consent was for.
 */
static void hold(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	bool promoted = strcmp(facts->identity.role, "master") == 0;

	replica->held = true;
	if (promoted && was_saved_by_others(replica))
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"the local server was promoted and restarted while no agent ran (or "
			"restarted twice, saving its data in between) and is left alone: "
			"`keywakectl resync` makes it a replica again (its data are replaced "
			"then)");
	else if (promoted)
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"the local server was promoted by somebody and is left alone: "
			"`keywakectl resync` makes it a replica again (its data are replaced "
			"then)");
	else
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"the local server %s %.100s:%" PRIu64
			" by somebody and is left alone: `keywakectl resync` takes it (its data "
			"are replaced then)",
			replica->phase == KW_REPLICA_OFF ? "is made to follow"
							 : "was sent to follow",
			facts->master_host, facts->master_port);
	replica->mark_owed = promoted && facts->cursor_kind == KW_CURSOR_OURS;
	kw_log_warn("link", "%s", replica->base.trouble_why);
	kw_takeover_hands_off(&replica->takeover);
}

static bool is_ours(const struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	return strcmp(facts->identity.role, "slave") == 0 &&
	       facts->master_port == replica->downlink.port &&
	       strcmp(facts->master_host, replica->downlink.host) == 0;
}

/* The server is master and writable, so the next agent can be told by the cursor. */
static void on_marked(void *arg, const struct kw_failure *failure)
{
	struct kw_replica *replica = arg;

	replica->local->bond = KW_BOND_NONE;
	if (failure)
		kw_log_warn("link", "that it was promoted cannot be noted in the server: %s",
			failure->text);
}

static void leave_mark(struct kw_replica *replica)
{
	const struct kw_local_cursor *cursor = &replica->local->facts.cursor;

	replica->mark_owed = false;
	replica->local->bond = KW_BOND_PROMOTED;
	kw_local_write_cursor(replica->local, cursor->epoch, cursor->version, cursor->quarantined,
		on_marked, replica);
}

void kw_replica_looked(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	if (replica->mark_owed)
		leave_mark(replica);
	if (replica->held || replica->leaving || replica->takeover.running ||
		(replica->phase < KW_REPLICA_WAITING && !replica->followed))
		return;
	if (is_ours(replica) && replica->phase < KW_REPLICA_WAITING)
		return;
	if (is_ours(replica)) {
		kw_refusals_looked(replica);
		kw_replica_go_on_saving(replica);
		return;
	}
	hold(replica);
	kw_replica_give_up(replica, "the local server was taken from this agent");
}

/*
 * Was it taken from an agent while none looked? A server that only restarted comes as a master with
 * our cursor too, so this is known within one run of the server, or when an agent that saw it left
 * its mark, or by what its RDB says.
 */
static bool left_an_agent(const struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	const struct kw_local_cursor *cursor = &facts->cursor;

	if (facts->cursor_kind != KW_CURSOR_OURS)
		return false;
	if (cursor->bond == KW_BOND_PROMOTED)
		return true;
	if (was_saved_by_others(replica))
		return true;
	return cursor->bond == KW_BOND_LED && cursor->version > 0 &&
	       strcmp(cursor->run_id, facts->identity.run_id) == 0;
}

/*
 * Is it in other hands? A replica goes by the id of the primary that it was synced from: by an
 * agent's while it waits for the next one, whatever the port of the last was. With another id it
 * follows somebody if that link is up; a link that is down may be the one to an agent that was
 * killed before its first snapshot was loaded.
 */
static bool is_elsewhere(const struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	if (strcmp(facts->identity.role, "master") == 0)
		return left_an_agent(replica);
	return !is_ours(replica) && !kw_local_replid_ours(facts->identity.replid) &&
	       (facts->master_link_up || left_an_agent(replica));
}

void kw_custody_check(struct kw_replica *replica)
{
	note_restart(replica);
	if (!replica->held && !replica->insisted && is_elsewhere(replica))
		hold(replica);
	if (!replica->held && strcmp(replica->local->facts.identity.role, "master") == 0)
		replica->seen_us = kw_clock_us();
}

void kw_replica_insist(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	replica->held = replica->mark_owed = replica->followed = false;
	replica->insisted = true;
	replica->retry_us = 0;
	kw_backoff_reset(&replica->refusing);
	kw_replica_no_trouble(replica);
}

/* ---- the end ---- */

static void on_left(void *arg, const struct kw_failure *failure)
{
	struct kw_replica *replica = arg;

	if (failure)
		kw_log_warn("link", "%s", failure->text);
	replica->leaving = KW_LEAVE_DONE;
	kw_replica_tell(replica);
}

static void on_released(void *arg, const struct kw_failure *failure)
{
	struct kw_replica *replica = arg;
	const struct kw_local_cursor *cursor = &replica->local->facts.cursor;

	/* A server that is busy with a script takes nothing else: as long as there is time. */
	if (failure && kw_failure_passes(failure)) {
		replica->leave_us = kw_clock_us() + RESTORE_US;
		return;
	}
	if (failure) {
		on_left(replica, failure);
		return;
	}
	kw_log_info("link", "the local server is promoted");
	/* By an operator's word: like a promotion of his own, it is not to be undone by a restart.
	 */
	if (replica->base.for_good) {
		replica->local->bond = KW_BOND_PROMOTED;
		kw_local_write_cursor(replica->local, cursor->epoch, cursor->version,
			cursor->quarantined, on_left, replica);
		return;
	}
	/* Ours to replace when the agent comes again, but of unknown position from now on. */
	kw_local_write_cursor(replica->local, cursor->epoch, 0, 0, on_left, replica);
}

/* What remains to be put back; a server that still loads refuses, so it is asked again. */
static void restore(struct kw_replica *replica)
{
	struct kw_takeover *takeover = &replica->takeover;
	uint64_t now = kw_clock_us();

	if (!takeover->swapdb_set) {
		replica->leaving = KW_LEAVE_DONE;
	} else if (takeover->owed == 0 && now >= replica->leave_us) {
		replica->leave_us = now + RESTORE_US;
		kw_takeover_loaded(takeover);
	}
}

static void begin_leaving(struct kw_replica *replica)
{
	replica->leaving = KW_LEAVE_RESTORING;
	replica->leave_us = 0;
	kw_takeover_stop(&replica->takeover);
	if (replica->phase == KW_REPLICA_SNAPSHOT) {
		kw_replica_reset(replica, "the agent ends; the server keeps its data of before");
		replica->leave_us = kw_clock_us() + NOTICE_US;
	} else if (replica->base.leads && replica->base.promote) {
		replica->leaving = KW_LEAVE_RELEASING;
	}
}

/* Until it is taken: nobody else would promote it. */
static void release(struct kw_replica *replica)
{
	struct kw_takeover *takeover = &replica->takeover;
	uint64_t now = kw_clock_us();

	if (takeover->running || now < replica->leave_us)
		return;
	replica->leave_us = UINT64_MAX;
	kw_takeover_release(takeover, on_released, replica);
}

/* In the load all is sent already, and it is the server's to come to its end. */
static bool is_loading(const struct kw_replica *replica)
{
	return replica->phase == KW_REPLICA_LOADING && kw_downlink_up(&replica->downlink);
}

bool kw_replica_leave(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	if (replica->leaving == KW_LEAVE_NOT)
		replica->leaving = replica->held ? KW_LEAVE_DONE : KW_LEAVE_LOADING;
	if (replica->leaving == KW_LEAVE_LOADING && !is_loading(replica))
		begin_leaving(replica);
	if (replica->leaving == KW_LEAVE_RESTORING)
		restore(replica);
	if (replica->leaving == KW_LEAVE_RELEASING)
		release(replica);
	return replica->leaving != KW_LEAVE_DONE;
}
