/*
 * What the agent's user needs on the local server, for its doctor; the rest is in internal.h. Any
 * thread.
 */
#ifndef KW_AGENT_LOCAL_PERMISSIONS_H
#define KW_AGENT_LOCAL_PERMISSIONS_H

#include "local.h"

/* key: the cursor is in a key. expiretime: the server has PEXPIRETIME. Returns how many. */
size_t kw_local_wanted(enum kw_local_manner manner, bool key, bool expiretime,
	struct kw_wanted wanted[KW_LOCAL_PERMISSIONS]);

#endif
