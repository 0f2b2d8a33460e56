/*
 * May this table go into this local server? Pure; any thread.
 */
#ifndef KW_AGENT_SYNC_FIT_H
#define KW_AGENT_SYNC_FIT_H

#include "base/error.h"
#include "redis/server.h"
#include "table/layout.h"

/*
 * KW_E_STATE: it never fits, and the sentence says why. Its payloads are of a version that the
 * server does not load, or the server is the primary itself.
 */
int kw_sync_check_fit(const struct kw_superblock *superblock,
	const struct kw_server_identity *identity, struct kw_error *error);

#endif
