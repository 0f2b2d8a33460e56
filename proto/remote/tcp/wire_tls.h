/*
 * A wire through TLS (wire.h), for either end of tcp+tls://.
 *
 *   send      bytes ──kw_racy_copy──▶ one record's worth ──▶ encrypted ──▶ socket
 *             If the kernel encrypts (kTLS), sendmsg on the socket, as on a plain wire.
 *   receive   socket ──▶ decrypted ──▶ where the caller wants them
 *
 * The table may change while it is sent. So a record's bytes are copied once; while the socket
 * takes only a part of it, the rest of the same record follows, whatever the table has by then.
 *
 * One thread at a time. It moves from the loop's to the serving thread once.
 */
#ifndef KW_REMOTE_TCP_WIRE_TLS_H
#define KW_REMOTE_TCP_WIRE_TLS_H

#include "auth/channel.h"
#include "remote/wire.h"
#include "tls/channel.h"

/*
 * TLS over a connected socket, which becomes the wire's. host: at the agent, as dialled; NULL at
 * the proxy. resume: at the agent; may be NULL. On failure the socket is still the caller's.
 */
int kw_wire_tls(struct kw_wire *wire, int fd, struct kw_tls_context *context, const char *host,
	const struct kw_tls_session *resume, struct kw_error *error);

/* The wire is open: what its two ends have in common and nobody else. */
int kw_wire_tls_bind(
	const struct kw_wire *wire, struct kw_channel *channel, struct kw_error *error);

/* Who encrypts: "software", "kernel", or "" if nobody does. */
const char *kw_wire_tls_cipherer(const struct kw_wire *wire);

/* As long as the wire. */
struct kw_tls_channel *kw_wire_tls_channel(const struct kw_wire *wire);

#endif
