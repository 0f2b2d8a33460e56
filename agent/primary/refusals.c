/*
 * Errors of commands on a link are swallowed by the server, and its acknowledgement covers what it
 * refused, too. It counts them; what was acknowledged is known to have been taken when the count,
 * asked for behind that, has not grown.
 */
#include "replica.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

/* A link that was in order for so long is no longer blamed for what it refused before. */
#define FORGIVEN_US 600000000
/* Refusals in a row after which a person should look. */
#define REFUSED_ALARM 3
/* Between two questions: INFO takes a server some hundred microseconds. */
#define CONFIRM_US 100000

/* What was refused before is made good by the snapshot on its way; nothing else forgives it. */
static bool snapshot_comes(const struct kw_replica *replica)
{
	return kw_replica_loads(replica) || kw_replica_awaits(replica, KW_TAKEOVER_SNAPSHOT);
}

static void find(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	uint64_t refused = kw_counter_others(&replica->refused, facts->refused, facts->resets);
	uint64_t now = kw_clock_us();
	char why[160];

	if (refused == 0 || snapshot_comes(replica))
		return;
	if (now - replica->online_us > FORGIVEN_US)
		kw_backoff_reset(&replica->refusing);
	snprintf(why, sizeof why, "the local server refused %" PRIu64 " commands of this link",
		refused);
	replica->base.link.refusals += refused;
	kw_replica_give_up(replica, why);
	replica->retry_us = now + kw_backoff_next_us(&replica->refusing);
	kw_replica_trouble(replica,
		replica->refusing.failures >= REFUSED_ALARM ? KW_TROUBLE_FAIL : KW_TROUBLE_WAIT,
		"%s, %u times in a row: see its log; a snapshot follows", why,
		replica->refusing.failures);
}

/* ---- what is confirmed ---- */

void kw_refusals_ask(struct kw_replica *replica)
{
	/* Behind an INFO that is out already it would be that one's answer. */
	if (!kw_local_asking(replica->local)) {
		replica->confirm_ask = kw_local_next_look(replica->local);
		replica->confirm_done = replica->base.done;
		replica->confirm_us = kw_clock_us() + CONFIRM_US;
	}
	kw_local_look(replica->local);
}

void kw_refusals_confirm(struct kw_replica *replica)
{
	if (replica->base.confirmed == replica->base.done ||
		!kw_replica_is(replica, KW_REPLICA_ONLINE) || !replica->attached ||
		kw_replica_is_leaving(replica) || kw_local_asking(replica->local) ||
		!kw_local_ready(replica->local) || kw_clock_us() < replica->confirm_us)
		return;
	kw_refusals_ask(replica);
}

void kw_refusals_looked(struct kw_replica *replica)
{
	find(replica);
	if (!kw_replica_is(replica, KW_REPLICA_ONLINE) || replica->confirm_ask == 0 ||
		kw_local_looked(replica->local) < replica->confirm_ask)
		return;
	replica->confirm_ask = 0;
	replica->base.confirmed = replica->confirm_done;
	kw_replica_tell(replica);
}
