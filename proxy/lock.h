/*
 * The lock of a proxy: one client of the control socket at a time switches its primary over. While
 * a client has it, no other one may fence the primary or move the term of a switch-over.
 *
 * It ends with the connection that took it, when its time is over, or when the client lets it go.
 * The time is for a client whose end the connection does not tell, as over a tunnel to a host that
 * died. A client that comes too late has lost it for good: its token is of no use any more, so what
 * it still does cannot cross the steps of the next one.
 *
 * Pure: the owner knows the clock, the connections, and numbers that nobody can guess. The caller
 * owns the struct: zeroed, it is free.
 */
#ifndef KW_PROXY_LOCK_H
#define KW_PROXY_LOCK_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_PROXY_LOCK_OWNER 80
#define KW_PROXY_LOCK_SECONDS 600 /* at most, without being taken again */

struct kw_proxy_lock {
	uint64_t token;      /* of its holder; 0: it is free */
	uint64_t connection; /* that took it */
	uint64_t until_us;
	char owner[KW_PROXY_LOCK_OWNER]; /* for sentences */
};

/* Who asks: token 0 for a client that has none. */
struct kw_proxy_lock_asker {
	uint64_t token, connection;
	const char *owner;
};

/* Its time is over, or its connection is gone: it is free. */
void kw_proxy_lock_expire(struct kw_proxy_lock *lock, bool connected, uint64_t now_us);

/*
 * Take it for so long, or keep it if asker->token is that of its holder. token: for a new holder.
 * KW_E_REFUSED: another client has it, or the asker has lost it.
 */
int kw_proxy_lock_take(struct kw_proxy_lock *lock, const struct kw_proxy_lock_asker *asker,
	uint64_t token, uint64_t until_us, struct kw_error *error);

/* May a client with this token (0: with none) act now? KW_E_REFUSED as above. */
int kw_proxy_lock_check(const struct kw_proxy_lock *lock, uint64_t token, struct kw_error *error);

/* Let it go. Harmless with another token. */
void kw_proxy_lock_release(struct kw_proxy_lock *lock, uint64_t token);

#endif
