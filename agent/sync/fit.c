#include "fit.h"

int kw_sync_check_fit(const struct kw_superblock *superblock,
	const struct kw_server_identity *identity, struct kw_error *error)
{
	uint16_t local = kw_server_rdb_version(identity);

	/*
	 * In mode replica the agent would make the primary a replica of itself, and it would stay
	 * one.
	 */
	if (superblock->source_id && superblock->source_id == kw_server_id(identity))
		return kw_error_set(error, KW_E_STATE,
			"the local server is the primary that the proxy follows: set redis.address "
			"to the replica's server");
	if (kw_server_loads_rdb(local, superblock->rdb_version))
		return KW_OK;
	return kw_error_set(error, KW_E_STATE,
		"the primary writes payloads of RDB version %u, the local %s %d.%d loads version "
		"%u: upgrade the local server to the primary's version or later",
		superblock->rdb_version, identity->valkey ? "Valkey" : "Redis", identity->major,
		identity->minor, local);
}
