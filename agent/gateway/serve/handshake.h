/*
 * Connections to an address of TLS, from accept until they are clients.
 *
 *   ┌────────┐ first byte ┌─────────┐ finished ┌────────┐
 *   │ SILENT │───────────▶│ SHAKING │─────────▶│ client │   or a sentence, if there is no room
 *   └────────┘            └─────────┘          └────────┘
 *        └── deadline, its end, refused, or it makes room ──▶ closed
 *
 * None of them counts as a client, so a flood of them takes nobody's place. There are
 * KW_HANDSHAKES_MAX at most, and one more ends the oldest. A connection that says nothing costs a
 * few hundred bytes: TLS is begun with its first byte. KW_HANDSHAKE_STEPS steps are taken in one
 * turn of the loop, because a signature costs as much as many requests. Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_SERVE_HANDSHAKE_H
#define KW_AGENT_GATEWAY_SERVE_HANDSHAKE_H

#include "socket.h"

#include <stdint.h>
#include <uv.h>

#define KW_HANDSHAKES_MAX 512
#define KW_HANDSHAKE_STEPS 8
#define KW_HANDSHAKE_MS 10000

struct kw_frontend;
struct kw_handshake;
struct kw_protocol;

struct kw_handshakes {
	struct kw_handshake *newest, *oldest;
	uint32_t count;
	uint32_t steps;   /* of this turn */
	uint64_t said_ms; /* when the log was told of one that failed; 0: not yet */
};

/* The descriptor is taken over. */
void kw_handshake_begin(struct kw_frontend *server, const struct kw_protocol *protocol, int fd);

/* A turn of the loop is over. */
void kw_handshakes_turn(struct kw_frontend *server);
void kw_handshakes_tick(struct kw_frontend *server, uint64_t now_ms);
void kw_handshakes_close(struct kw_frontend *server);

#endif
