#include "feed/stream/joining.h"

int kw_joining_leaves(const char *address, struct kw_error *why)
{
	return kw_error_set(why, KW_E_STATE,
		"%s: the server is shutting down, and would wait for this reader: waiting until it "
		"is back",
		address);
}

int kw_joining_check(
	const struct kw_server_identity *server, const char *address, struct kw_error *why)
{
	if (server->shutting_down)
		return kw_joining_leaves(address, why);
	if (server->failing_over)
		return kw_error_set(why, KW_E_STATE,
			"%s: FAILOVER is under way, and this reader must not be taken for a "
			"replica: waiting until it is over (if the server waits for a replica that "
			"it does not have, run FAILOVER ABORT there)",
			address);
	if (server->counts_replicas)
		return kw_error_set(why, KW_E_REFUSED,
			"%s: the server has min-replicas-to-write, and would take a reader of its "
			"replication stream for a replica that holds its data: set source.feed to "
			"notifications, or min-replicas-to-write to 0",
			address);
	if (server->writable_replica)
		return kw_error_set(why, KW_E_REFUSED,
			"%s: the server is a replica with replica-read-only no, and what clients "
			"write there is not in its replication stream: set source.feed to "
			"notifications, or replica-read-only to yes",
			address);
	return KW_OK;
}
