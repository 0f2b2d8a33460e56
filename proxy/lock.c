#include "lock.h"

#include <assert.h>
#include <stdio.h>

void kw_proxy_lock_expire(struct kw_proxy_lock *lock, bool connected, uint64_t now_us)
{
	if (lock->token && (!connected || now_us >= lock->until_us))
		*lock = (struct kw_proxy_lock){0};
}

int kw_proxy_lock_check(const struct kw_proxy_lock *lock, uint64_t token, struct kw_error *error)
{
	if (token == lock->token)
		return 0; /* that of its holder, or there is none of either */
	if (token)
		return kw_error_set(error, KW_E_REFUSED,
			"this client has lost the lock of the proxy: its connection ended, or it "
			"was too late%s%s",
			lock->token ? "; it is held by " : "", lock->owner);
	return kw_error_set(error, KW_E_REFUSED,
		"another switchover has the lock of this proxy (%s): wait for its end, or end it",
		lock->owner);
}

int kw_proxy_lock_take(struct kw_proxy_lock *lock, const struct kw_proxy_lock_asker *asker,
	uint64_t token, uint64_t until_us, struct kw_error *error)
{
	int code = kw_proxy_lock_check(lock, asker->token, error);

	assert(token > 0);
	if (code)
		return code;
	if (!lock->token) {
		lock->token = token;
		snprintf(lock->owner, sizeof lock->owner, "%s", asker->owner);
	}
	lock->connection = asker->connection;
	lock->until_us = until_us;
	return 0;
}

void kw_proxy_lock_release(struct kw_proxy_lock *lock, uint64_t token)
{
	if (token && token == lock->token)
		*lock = (struct kw_proxy_lock){0};
}
