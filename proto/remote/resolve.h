/*
 * A host's name and a port to addresses, without holding up the loop.
 *
 * A number needs neither a thread nor a name server and is there at once, even while all threads of
 * the pool wait for a name server. A request in libuv's pool cannot always be cancelled: it can
 * outlive an owner that forgot it. Loop thread only.
 */
#ifndef KW_REMOTE_RESOLVE_H
#define KW_REMOTE_RESOLVE_H

#include "base/error.h"
#include "remote/remote.h"

#include <netdb.h>
#include <uv.h>

struct kw_resolve;

/*
 * Once, unless forgotten; from within kw_resolve_start if the answer is there at once. addresses:
 * the owner's, for freeaddrinfo; NULL: *error says why.
 */
typedef void (*kw_resolve_done)(
	void *owner, struct addrinfo *addresses, const struct kw_error *error);

/* Of stream sockets. *resolve is set while it is under way, and NULL again before done is called.
 */
void kw_resolve_start(struct kw_resolve **resolve, uv_loop_t *loop,
	const struct kw_address *address, kw_resolve_done done, void *owner);

/* done is not called any more; harmless when nothing is under way. */
void kw_resolve_forget(struct kw_resolve **resolve);

#endif
