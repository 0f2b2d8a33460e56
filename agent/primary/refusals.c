/*
 * A replica does not report errors of commands on its link, and acknowledges what it refused. It
 * counts them. If the count grows, the data are not what was handed on, and a snapshot must mend
 * them. A change of function libraries stands alone on the link, so that its refusals are known.
 */
#include "replica.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

/* After a link was in order for so long, its earlier refusals no longer count. */
#define FORGIVEN_US 600000000
/* Refusals in a row after which a person should look. */
#define REFUSED_ALARM 3

/* The snapshot on its way makes good what was refused before; nothing else does. */
static bool snapshot_comes(const struct kw_replica *replica)
{
	return kw_replica_loads(replica) || kw_replica_awaits(replica, KW_TAKEOVER_SNAPSHOT);
}

bool kw_refusals_looked(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;
	uint64_t refused = kw_counter_others(&replica->refused, facts->refused, facts->resets);
	uint64_t now = kw_clock_us();
	char why[160];

	if (refused == 0 || snapshot_comes(replica) || kw_link_bears(replica->link, refused))
		return true;
	if (now - replica->online_us > FORGIVEN_US)
		kw_backoff_reset(&replica->refusing);
	snprintf(why, sizeof why, "the local server refused %" PRIu64 " commands of this link",
		refused);
	replica->counts.refusals += refused;
	kw_replica_give_up(replica, why);
	replica->retry_us = now + kw_backoff_next_us(&replica->refusing);
	kw_replica_trouble(replica,
		replica->refusing.failures >= REFUSED_ALARM ? KW_TROUBLE_FAIL : KW_TROUBLE_WAIT,
		"%s, %u times in a row: see its log; a snapshot follows", why,
		replica->refusing.failures);
	return false;
}
