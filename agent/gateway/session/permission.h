/* May this user do this? Pure. */
#ifndef KW_AGENT_GATEWAY_SESSION_PERMISSION_H
#define KW_AGENT_GATEWAY_SESSION_PERMISSION_H

#include "catalog.h"
#include "users.h"

enum kw_permission {
	KW_PERMITTED,
	KW_PERMITTED_NOT_COMMAND,
	KW_PERMITTED_NOT_KEYS, /* not one of its keys, or its keys cannot be told */
	KW_PERMITTED_NOT_CHANNEL,
};

/*
 * The request's words fit the row. What is allowed before AUTH is allowed to each user.
 *
 * A user of some keys is refused a request whose keys cannot be told for certain. Examples are a
 * count that is no number, and SORT with BY, GET or STORE.
 *
 * The primary runs a script (EVAL, FCALL) as the gateway's user. So it needs all keys, every
 * command that can read or write keys from a script, and all channels. EVAL_RO and FCALL_RO need
 * the commands that read, and no channel: they cannot publish.
 */
enum kw_permission kw_user_may(const struct kw_user *user, const struct kw_catalog_row *row,
	const struct kw_slice *words, size_t count);

/* Every command, and every key: nothing but channels is to be checked. */
bool kw_user_may_all(const struct kw_user *user);

#endif
