/* Answering PSYNC: from the start, or going on. */
#include "replica.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

/* ---- replication ids ---- */

/*
 * The mark of agents, 8 digits of the cursor's name, random ones. The name is in it because a
 * server can carry the cursor of an agent that led it long ago. Only the agent that led it last may
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

/* ---- PSYNC ---- */

/*
 * If the server has an id of ours already, keep it. Then it goes on serving reads while it loads
 * (the servers' async_loading), which it does only for the same history. Offsets only grow.
 */
static void answer_full(struct kw_replica *replica)
{
	struct kw_link_report *counts = &replica->counts;
	struct kw_buffer *out = kw_downlink_output(&replica->downlink);
	struct kw_feed *feed = &replica->link->feed;
	uint64_t offset = feed->sent_end;
	struct kw_failure failure;
	struct kw_error error;

	if (is_own(replica, replica->asked.replid))
		memcpy(counts->replid, replica->asked.replid, sizeof counts->replid);
	else if (!is_own(replica, counts->replid) && !make_replid(replica, counts->replid))
		return;
	if (replica->asked.offset > 0 && (uint64_t)replica->asked.offset > offset)
		offset = (uint64_t)replica->asked.offset;
	kw_feed_reset(feed, offset + 1);
	kw_buffer_printf(out, "+FULLRESYNC %s %" PRIu64 "\r\n", counts->replid, offset + 1);
	replica->in.snapshot = (struct kw_replica_snapshot){0};
	if (replica->hooks.start(replica->hooks.arg, out, &error)) {
		kw_downlink_drop(&replica->downlink, error.text);
		kw_replica_move(replica, KW_REPLICA_OFF, error.text);
		kw_failure_set(&failure, error.code, "%s", error.text);
		kw_replica_prepared(replica, &failure);
		return;
	}
	kw_downlink_appended(&replica->downlink);
	kw_replica_move(replica, KW_REPLICA_SNAPSHOT, "PSYNC: FULLRESYNC");
	counts->full_syncs++;
	kw_replica_no_trouble(replica);
	kw_log_info("link", "the local server follows this agent: full sync as %s", counts->replid);
	kw_replica_prepared(replica, NULL);
}

static bool may_continue(struct kw_replica *replica, uint64_t applied)
{
	struct kw_link_report *counts = &replica->counts;
	struct kw_feed *feed = &replica->link->feed;

	if (!is_own(replica, replica->asked.replid) || replica->asked.offset <= 0)
		return false;
	/*
	 * A server that an agent of this cursor's name led before. It names an offset between two
	 * commands, the cursor in its data gives their position, and the changes that follow are
	 * idempotent. So any offset will do.
	 */
	if (kw_feed_untouched(feed) && feed->offset == 0) {
		memcpy(counts->replid, replica->asked.replid, sizeof counts->replid);
		kw_feed_begin(feed, applied);
		return true;
	}
	return strcmp(counts->replid, replica->asked.replid) == 0 &&
	       kw_link_continue(replica->link, applied);
}

static void answer_continue(struct kw_replica *replica)
{
	struct kw_link_report *counts = &replica->counts;
	uint64_t applied = (uint64_t)replica->asked.offset - 1;

	if (!may_continue(replica, applied)) {
		kw_replica_give_up(replica,
			"the local server does not continue where this agent left it (it was "
			"promoted, restarted, or followed somebody else)");
		return;
	}
	kw_buffer_printf(
		kw_downlink_output(&replica->downlink), "+CONTINUE %s\r\n", counts->replid);
	kw_downlink_attach(&replica->downlink, &replica->link->feed);
	kw_link_open(replica->link);
	kw_replica_move(replica, KW_REPLICA_ONLINE, "PSYNC: CONTINUE");
	kw_ownership_forget(&replica->memory);
	replica->online_us = kw_clock_us();
	counts->continuations++;
	kw_replica_no_trouble(replica);
	kw_log_info("link", "the local server continues at offset %" PRIu64, applied);
}

void kw_replica_answer(struct kw_replica *replica)
{
	assert(kw_replica_is(replica, KW_REPLICA_WAITING) && replica->asked.replid[0]);
	if (replica->in.waiting.want == KW_TAKEOVER_SNAPSHOT)
		answer_full(replica);
	else
		answer_continue(replica);
	replica->asked.replid[0] = '\0';
	kw_replica_tell(replica);
}

bool kw_replica_resumable(const struct kw_replica *replica)
{
	const struct kw_server_identity *identity = &replica->local->facts.identity;

	return strcmp(identity->role, "slave") == 0 && is_own(replica, identity->replid);
}
