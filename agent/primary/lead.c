/* Leading the local server: it is made to follow, answered, lost, watched, and let go. */
#include "replica.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define RETRY_US 1000000
/* A link that was in order for so long is no longer blamed for what it refused before. */
#define FORGIVEN_US 600000000
/* Refusals in a row after which a person should look. */
#define REFUSED_ALARM 3

static void trouble(struct kw_replica *replica, enum kw_apply_trouble kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void trouble(struct kw_replica *replica, enum kw_apply_trouble kind, const char *format, ...)
{
	struct kw_apply *apply = &replica->base;
	va_list args;

	apply->trouble = kind;
	va_start(args, format);
	vsnprintf(apply->trouble_why, sizeof apply->trouble_why, format, args);
	va_end(args);
}

static void no_trouble(struct kw_replica *replica)
{
	replica->base.trouble = KW_TROUBLE_NONE;
	replica->base.trouble_why[0] = '\0';
}

static void tell_progress(struct kw_replica *replica)
{
	kw_replica_show(replica);
	replica->base.handlers.progress(replica->base.handlers.arg);
}

static void end_preparation(struct kw_replica *replica, const char *error)
{
	kw_local_done_fn done = replica->done;

	replica->done = NULL;
	if (done)
		done(replica->done_arg, error);
}

static void end_saving(struct kw_replica *replica, const char *error)
{
	kw_local_done_fn saved = replica->saved;

	replica->saved = NULL;
	if (saved)
		saved(replica->saved_arg, error);
}

void kw_replica_reset(struct kw_replica *replica, const char *why)
{
	uint64_t offset = replica->feed.sent_end;

	kw_takeover_stop(&replica->takeover);
	kw_downlink_drop(&replica->downlink, why);
	replica->asking = false;
	replica->phase = KW_REPLICA_OFF;
	replica->continues = false;
	replica->reading = false;
	replica->doubt[0] = '\0';
	replica->done = NULL;
	kw_keyset_close(&replica->seen);
	replica->local->flushes_unsure += replica->feed.flushes_out;
	replica->local->flushes_out = 0;
	kw_feed_reset(&replica->feed, offset);
	replica->base.done = replica->base.taken;
	end_saving(replica, "the replication link was given up");
}

void kw_replica_give_up(struct kw_replica *replica, const char *why)
{
	kw_replica_reset(replica, why);
	replica->base.handlers.lost(replica->base.handlers.arg, why);
	tell_progress(replica);
}

/* ---- replication ids ---- */

/*
 * The mark of agents, 8 digits of the cursor's name, random ones. The name is in it because a
 * server may carry the cursor of an agent that led it long ago: only the one that led it last may
 * believe its own.
 */
static void own_prefix(const struct kw_replica *replica, char prefix[KW_REPLID_LENGTH + 1])
{
	const char *name = replica->local->options.cursor_name;

	snprintf(prefix, KW_REPLID_LENGTH + 1, KW_REPLID_MARK "%08" PRIx32,
		(uint32_t)kw_hash_key(0, 0, name, strlen(name)));
}

static bool is_own(const struct kw_replica *replica, const char *replid)
{
	char prefix[KW_REPLID_LENGTH + 1];

	own_prefix(replica, prefix);
	return strncmp(replid, prefix, strlen(prefix)) == 0;
}

static bool make_replid(const struct kw_replica *replica, char replid[KW_REPLID_LENGTH + 1])
{
	uint8_t random[(KW_REPLID_LENGTH - 18) / 2];
	size_t at;

	own_prefix(replica, replid);
	at = strlen(replid);
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return false;
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(replid + at + 2 * i, 3, "%02x", random[i]);
	return true;
}

/* ---- answering PSYNC ---- */

/*
 * An id of ours that the server goes by already is kept: it then goes on serving reads while it
 * loads (the servers' async_loading), which it does only for the same history. Offsets only grow.
 */
static void answer_full(struct kw_replica *replica)
{
	struct kw_apply_link *link = &replica->base.link;
	struct kw_buffer *out = kw_downlink_output(&replica->downlink);
	uint64_t offset = replica->feed.sent_end;
	struct kw_error error;

	if (is_own(replica, replica->asked_replid))
		memcpy(link->replid, replica->asked_replid, sizeof link->replid);
	else if (!is_own(replica, link->replid) && !make_replid(replica, link->replid))
		return;
	if (replica->asked_offset > 0 && (uint64_t)replica->asked_offset > offset)
		offset = (uint64_t)replica->asked_offset;
	kw_feed_reset(&replica->feed, offset + 1);
	kw_buffer_printf(out, "+FULLRESYNC %s %" PRIu64 "\r\n", link->replid, offset + 1);
	if (!kw_snapshot_start(replica, &error)) {
		kw_downlink_drop(&replica->downlink, error.text);
		replica->phase = KW_REPLICA_OFF;
		end_preparation(replica, error.text);
		return;
	}
	replica->phase = KW_REPLICA_SNAPSHOT;
	link->full_syncs++;
	no_trouble(replica);
	kw_log_info("link", "the local server follows this agent: full sync as %s", link->replid);
	end_preparation(replica, NULL);
}

static bool may_continue(struct kw_replica *replica, uint64_t applied)
{
	struct kw_apply_link *link = &replica->base.link;

	if (!is_own(replica, replica->asked_replid) || replica->asked_offset <= 0)
		return false;
	/*
	 * A server that an agent of this cursor's name led before: it names an offset between two
	 * commands, the cursor in its data says where they are, and what follows is idempotent. So
	 * any offset will do.
	 */
	if (kw_feed_untouched(&replica->feed) && replica->feed.offset == 0) {
		memcpy(link->replid, replica->asked_replid, sizeof link->replid);
		kw_feed_begin(&replica->feed, applied);
		return true;
	}
	return strcmp(link->replid, replica->asked_replid) == 0 &&
	       kw_feed_rewind(&replica->feed, applied, kw_replica_done, replica);
}

static void answer_continue(struct kw_replica *replica)
{
	struct kw_apply_link *link = &replica->base.link;
	uint64_t applied = (uint64_t)replica->asked_offset - 1;

	if (!may_continue(replica, applied)) {
		kw_replica_give_up(replica,
			"the local server does not continue where this agent left it (it was "
			"promoted, restarted, or followed somebody else)");
		return;
	}
	kw_buffer_printf(kw_downlink_output(&replica->downlink), "+CONTINUE %s\r\n", link->replid);
	kw_downlink_attach(&replica->downlink, &replica->feed);
	replica->phase = KW_REPLICA_ONLINE;
	replica->online_us = kw_clock_us();
	link->continuations++;
	no_trouble(replica);
	kw_log_info("link", "the local server continues at offset %" PRIu64, applied);
}

static void answer(struct kw_replica *replica)
{
	replica->asking = false;
	if (replica->full)
		answer_full(replica);
	else
		answer_continue(replica);
	tell_progress(replica);
}

static void on_psync(void *arg, const char *replid, int64_t offset)
{
	struct kw_replica *replica = arg;

	replica->asking = true;
	replica->asked_offset = offset;
	memcpy(replica->asked_replid, replid, strlen(replid) + 1);
	if (replica->phase == KW_REPLICA_WAITING)
		answer(replica);
}

/* ---- taking over ---- */

/* The server loads, or its link is down: both end without anybody's doing. */
static bool passes_by_itself(const char *error)
{
	return strstr(error, "\"LOADING ") || strstr(error, "\"BUSY ") ||
	       strstr(error, "\"MASTERDOWN ");
}

static void on_taken(void *arg, const char *error)
{
	struct kw_replica *replica = arg;

	if (error) {
		replica->phase = KW_REPLICA_OFF;
		replica->retry_us = kw_clock_us() + RETRY_US;
		trouble(replica, passes_by_itself(error) ? KW_TROUBLE_WAIT : KW_TROUBLE_FAIL, "%s",
			error);
		end_preparation(replica, error);
		tell_progress(replica);
		return;
	}
	replica->phase = KW_REPLICA_WAITING;
	replica->insisted = false;
	replica->until_us = kw_clock_us() + KW_REPLICA_CONNECT_US;
	trouble(replica, KW_TROUBLE_WAIT, "waiting for the local server to connect to %s:%u",
		replica->downlink.host, replica->downlink.port);
	if (replica->asking)
		answer(replica);
	tell_progress(replica);
}

static void take(struct kw_replica *replica, bool full)
{
	struct kw_error error;

	replica->full = full;
	replica->retry_us = kw_clock_us() + RETRY_US;
	if (kw_downlink_listen(&replica->downlink, &error)) {
		trouble(replica, KW_TROUBLE_FAIL, "%s", error.text);
		end_preparation(replica, error.text);
		return;
	}
	replica->phase = KW_REPLICA_TAKING;
	kw_takeover_start(&replica->takeover, replica->downlink.host, replica->downlink.port, full,
		on_taken, replica);
}

/* Functions, and the library that the cursor is: servers from 7.0 on. */
static bool is_capable(struct kw_replica *replica)
{
	const struct kw_server_identity *identity = &replica->local->facts.identity;

	if (!kw_local_store_is_key(replica->local))
		return true;
	trouble(replica, KW_TROUBLE_FAIL,
		"apply.mode=replica needs Redis 7.0 or Valkey, and apply.cursor_store=auto or "
		"function; the local server is %s %d.%d",
		identity->valkey ? "Valkey" : "Redis", identity->major, identity->minor);
	return false;
}

void kw_replica_prepare(
	struct kw_apply *apply, const struct kw_apply_plan *plan, kw_local_done_fn done, void *arg)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	if (replica->held || !is_capable(replica)) {
		done(arg, apply->trouble_why);
		return;
	}
	if (kw_clock_us() < replica->retry_us) {
		done(arg, apply->trouble_why[0] ? apply->trouble_why : "a pause before a snapshot");
		return;
	}
	kw_replica_reset(replica, "a new snapshot follows");
	replica->plan = *plan;
	replica->local->written_valid = false;
	replica->done = done;
	replica->done_arg = arg;
	if (apply->trouble != KW_TROUBLE_FAIL)
		trouble(replica, KW_TROUBLE_WAIT, "asking the local server to follow this agent");
	take(replica, true);
}

void kw_replica_forget(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	if (replica->phase == KW_REPLICA_SNAPSHOT)
		kw_replica_reset(replica, "the snapshot cannot be completed; the server keeps its "
					  "data of before");
}

void kw_replica_resume(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	replica->continues = true;
	if (replica->phase == KW_REPLICA_OFF && replica->attached && !replica->held)
		take(replica, false);
}

bool kw_replica_resumable(const struct kw_apply *apply)
{
	const struct kw_replica *replica = (const struct kw_replica *)apply;
	const struct kw_server_identity *identity = &replica->local->facts.identity;

	return strcmp(identity->role, "slave") == 0 && is_own(replica, identity->replid);
}

/* ---- the link comes and goes ---- */

static void on_loaded(struct kw_replica *replica)
{
	struct kw_apply *apply = &replica->base;

	replica->phase = KW_REPLICA_ONLINE;
	replica->online_us = kw_clock_us();
	replica->continues = true;
	replica->refused_known = replica->local->facts.refused;
	apply->done += replica->snapshot_taken;
	apply->applied += replica->snapshot_taken;
	kw_log_info("link", "the local server has loaded the snapshot");
	kw_downlink_attach(&replica->downlink, &replica->feed);
	if (replica->attached && kw_local_ready(replica->local))
		kw_takeover_loaded(&replica->takeover);
	no_trouble(replica);
}

static void on_ack(void *arg, uint64_t offset)
{
	struct kw_replica *replica = arg;

	if (replica->phase == KW_REPLICA_LOADING && offset == replica->feed.offset &&
		kw_buffer_length(&replica->downlink.output) == 0)
		on_loaded(replica);
	if (replica->phase != KW_REPLICA_ONLINE ||
		!kw_feed_ack(&replica->feed, offset, kw_replica_done, replica)) {
		kw_replica_give_up(replica, "the local server acknowledges what it was never sent");
		return;
	}
	replica->local->flushes_out = replica->feed.flushes_out;
	replica->base.link.acknowledged = offset;
	kw_downlink_wake(&replica->downlink);
	tell_progress(replica);
}

static void on_filling(void *arg)
{
	kw_feed_ask(&((struct kw_replica *)arg)->feed);
}

static void on_room(void *arg)
{
	struct kw_replica *replica = arg;

	replica->local->flushes_out = replica->feed.flushes_out;
	tell_progress(replica);
}

static void on_lost(void *arg, const char *why)
{
	struct kw_replica *replica = arg;
	char words[512];

	replica->asking = false;
	if (replica->leaving)
		return;
	if (replica->phase == KW_REPLICA_SNAPSHOT || replica->phase == KW_REPLICA_LOADING) {
		snprintf(words, sizeof words,
			"the replication link broke before the snapshot was loaded (%.200s; the "
			"server keeps its data of before)",
			why);
		replica->retry_us = kw_clock_us() + RETRY_US;
		kw_replica_give_up(replica, words);
	} else if (replica->phase == KW_REPLICA_ONLINE) {
		kw_log_warn("link", "the replication link is lost: %s", why);
		trouble(replica, KW_TROUBLE_WAIT,
			"the replication link is lost (%.200s): waiting for the local server to "
			"connect again",
			why);
		replica->phase = KW_REPLICA_WAITING;
		replica->full = false;
		replica->until_us = kw_clock_us() + KW_REPLICA_CONNECT_US;
		tell_progress(replica);
	}
}

static void on_downlink_closed(void *arg)
{
	struct kw_replica *replica = arg;

	replica->closed(replica->closed_arg);
}

const struct kw_downlink_handlers kw_replica_downlink_handlers = {
	.psync = on_psync,
	.ack = on_ack,
	.filling = on_filling,
	.room = on_room,
	.lost = on_lost,
	.closed = on_downlink_closed,
};

/* ---- is the server still ours? ---- */

/*
 * Somebody promoted the server, or sent it to another primary: an operator in a failover perhaps.
 * What is written there now must not be replaced by us, whatever the consent was for.
 */
static void hold(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	bool promoted = strcmp(facts->identity.role, "master") == 0;

	replica->held = true;
	if (promoted)
		trouble(replica, KW_TROUBLE_FAIL,
			"the local server was promoted by somebody and is left alone: "
			"`keywakectl resync` makes it a replica again (its data are replaced "
			"then)");
	else
		trouble(replica, KW_TROUBLE_FAIL,
			"the local server was sent to follow %.100s:%" PRIu64
			" by somebody and is left alone: `keywakectl resync` takes it back",
			facts->master_host, facts->master_port);
	replica->mark_owed = promoted && facts->cursor_kind == KW_CURSOR_OURS;
	kw_log_warn("link", "%s", replica->base.trouble_why);
}

static bool is_ours(const struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	return strcmp(facts->identity.role, "slave") == 0 &&
	       facts->master_port == replica->downlink.port &&
	       strcmp(facts->master_host, replica->downlink.host) == 0;
}

static void look_for_refusals(struct kw_replica *replica)
{
	uint64_t refused = replica->local->facts.refused;
	uint64_t now = kw_clock_us();
	char why[160];

	if (refused <= replica->refused_known || replica->phase != KW_REPLICA_ONLINE) {
		replica->refused_known = refused;
		return;
	}
	if (now - replica->online_us > FORGIVEN_US)
		kw_backoff_reset(&replica->refusing);
	snprintf(why, sizeof why, "the local server refused %" PRIu64 " commands of this link",
		refused - replica->refused_known);
	replica->base.link.refusals += refused - replica->refused_known;
	replica->refused_known = refused;
	kw_replica_give_up(replica, why);
	replica->retry_us = now + kw_backoff_next_us(&replica->refusing);
	trouble(replica,
		replica->refusing.failures >= REFUSED_ALARM ? KW_TROUBLE_FAIL : KW_TROUBLE_WAIT,
		"%s, %u times in a row: see its log; a snapshot follows", why,
		replica->refusing.failures);
}

/* The server is master and writable, so the next agent can be told by the cursor. */
static void on_marked(void *arg, const char *error)
{
	struct kw_replica *replica = arg;

	replica->local->bond = KW_BOND_NONE;
	if (error)
		kw_log_warn(
			"link", "that it was promoted cannot be noted in the server: %s", error);
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
		replica->phase < KW_REPLICA_WAITING)
		return;
	if (is_ours(replica)) {
		look_for_refusals(replica);
		return;
	}
	hold(replica);
	kw_replica_give_up(replica, "the local server was taken from this agent");
}

/*
 * Was it promoted while no agent looked? A server that only restarted comes as a master too, so
 * this is known within one run of the server, or when an agent that saw it left its mark.
 */
static bool was_promoted(const struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	const struct kw_local_cursor *cursor = &facts->cursor;

	if (strcmp(facts->identity.role, "master") != 0 || facts->cursor_kind != KW_CURSOR_OURS)
		return false;
	if (cursor->bond == KW_BOND_PROMOTED)
		return true;
	return cursor->bond == KW_BOND_LED && cursor->version > 0 &&
	       strcmp(cursor->run_id, facts->identity.run_id) == 0;
}

void kw_replica_attach(struct kw_apply *apply, bool continuous)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	replica->attached = true;
	replica->retry_us = 0;
	if (!continuous) {
		kw_replica_reset(replica, "the local server's data are not those known before");
		kw_feed_reset(&replica->feed, 0);
		replica->local->flushes_unsure = 0;
		replica->refused_known = replica->local->facts.refused;
		if (!replica->held)
			no_trouble(replica);
		if (!replica->held && !replica->insisted && was_promoted(replica))
			hold(replica);
	} else if (replica->phase == KW_REPLICA_ONLINE) {
		kw_takeover_loaded(&replica->takeover);
	}
	tell_progress(replica);
}

void kw_replica_detach(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	replica->attached = false;
	kw_takeover_stop(&replica->takeover);
	replica->done = NULL;
	if (replica->phase == KW_REPLICA_TAKING ||
		(replica->phase == KW_REPLICA_WAITING && replica->full))
		replica->phase = KW_REPLICA_OFF;
	tell_progress(replica);
}

void kw_replica_insist(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	replica->held = replica->mark_owed = false;
	replica->insisted = true;
	replica->retry_us = 0;
	kw_backoff_reset(&replica->refusing);
	no_trouble(replica);
}

/* ---- the clock ---- */

static void tick_waiting(struct kw_replica *replica, uint64_t now_us)
{
	char why[300];

	if (now_us < replica->until_us || !replica->attached)
		return;
	replica->phase = KW_REPLICA_OFF;
	snprintf(why, sizeof why,
		"the local server does not connect to %s:%u: apply.replica.listen must be an "
		"address that it can reach (its log says more)",
		replica->downlink.host, replica->downlink.port);
	trouble(replica, KW_TROUBLE_WAIT, "%s", why);
	end_preparation(replica, why);
}

static void tick_link(struct kw_replica *replica, uint64_t now_us)
{
	bool silent = kw_downlink_up(&replica->downlink) &&
		      now_us > replica->downlink.wrote_us + KW_REPLICA_PING_US;

	if (silent && replica->phase == KW_REPLICA_SNAPSHOT &&
		kw_buffer_length(&replica->downlink.output) == 0)
		kw_snapshot_filler(replica);
	if (silent && replica->phase == KW_REPLICA_ONLINE && !kw_feed_unsent(&replica->feed)) {
		kw_feed_ping(&replica->feed);
		kw_downlink_wake(&replica->downlink);
	}
}

void kw_replica_tick(struct kw_apply *apply, uint64_t now_us)
{
	struct kw_replica *replica = (struct kw_replica *)apply;
	char doubt[sizeof replica->doubt];

	kw_downlink_tick(&replica->downlink, now_us);
	if (replica->doubt[0]) {
		memcpy(doubt, replica->doubt, sizeof doubt);
		replica->retry_us = now_us + kw_backoff_next_us(&replica->refusing);
		kw_replica_give_up(replica, doubt);
	}
	if (replica->phase == KW_REPLICA_WAITING)
		tick_waiting(replica, now_us);
	if (replica->phase == KW_REPLICA_OFF && replica->continues && replica->attached &&
		!replica->held && !replica->leaving && kw_local_ready(replica->local) &&
		now_us >= replica->retry_us)
		take(replica, false);
	tick_link(replica, now_us);
	kw_replica_show(replica);
}

/* ---- the end ---- */

static void on_left(void *arg, const char *error)
{
	struct kw_replica *replica = arg;

	if (error)
		kw_log_warn("link", "%s", error);
	replica->leaving = KW_LEAVE_DONE;
	tell_progress(replica);
}

static void on_released(void *arg, const char *error)
{
	struct kw_replica *replica = arg;
	const struct kw_local_cursor *cursor = &replica->local->facts.cursor;

	if (error) {
		on_left(replica, error);
		return;
	}
	kw_log_info("link", "the local server is promoted");
	/* Ours to replace when the agent comes again, but of unknown position from now on. */
	kw_local_write_cursor(replica->local, cursor->epoch, 0, 0, on_left, replica);
}

bool kw_replica_leave(struct kw_apply *apply)
{
	struct kw_replica *replica = (struct kw_replica *)apply;

	if (replica->leaving != KW_LEAVE_NOT || replica->held || !kw_local_ready(replica->local))
		return replica->leaving == KW_LEAVE_RELEASING;
	replica->leaving = KW_LEAVE_DONE;
	kw_takeover_stop(&replica->takeover);
	if (!replica->promote || replica->phase != KW_REPLICA_ONLINE) {
		kw_takeover_loaded(&replica->takeover);
		return false;
	}
	replica->leaving = KW_LEAVE_RELEASING;
	kw_takeover_release(&replica->takeover, on_released, replica);
	return true;
}

void kw_replica_show(struct kw_replica *replica)
{
	static const char *const names[] = {
		[KW_REPLICA_OFF] = "off",
		[KW_REPLICA_TAKING] = "taking over",
		[KW_REPLICA_WAITING] = "waiting",
		[KW_REPLICA_SNAPSHOT] = "snapshot",
		[KW_REPLICA_LOADING] = "loading",
		[KW_REPLICA_ONLINE] = "online",
	};
	struct kw_apply_link *link = &replica->base.link;

	link->state = names[replica->phase];
	link->port = replica->downlink.port;
	link->offset = replica->feed.sent_end;
}
