/*
 * TLS sessions that the next connection to the same proxy can go on with (RFC 8446, 2.2): it then
 * shows no certificate again and proves no key of one. At most KW_TLS_RESUME_MAX of all loops; the
 * oldest gives way. Each is kept for one loop, address and context, so that a reload of
 * certificates ends it. Loop threads only, one at a time.
 */
#ifndef KW_REMOTE_TCP_RESUME_H
#define KW_REMOTE_TCP_RESUME_H

#include "remote/carrier.h"
#include "tls/channel.h"

#define KW_TLS_RESUME_MAX 16

/* NULL: there is none. Valid until the next call here. */
const struct kw_tls_session *kw_tls_resume(const struct kw_remote *remote);

/* The connection ends: keep its newest session. */
void kw_tls_remember(const struct kw_remote *remote, struct kw_tls_channel *channel);

/* As kw_remote_end. */
void kw_tls_forget(uv_loop_t *loop);

#endif
