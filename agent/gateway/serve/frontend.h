/*
 * The listeners, and the clients that came through them.
 *
 *   listener ──accept──▶ client ──begin──▶ parts ──kw_gets_ask──▶ table
 *                           ▲                │
 *                           └── one write ◀──┘ in order
 *
 * A turn of the loop: what clients sent is begun; then all lookups are posted at once; then each
 * client with output is written to, once.
 *
 * Bounds:
 *
 *   max_clients         one more takes the place of the oldest that has not logged in; without
 *                       such a one it gets a sentence and is closed. Over TLS it is counted once
 *                       its handshake is done (handshake.h)
 *   max_input_bytes     of one request
 *   max_output_bytes    of one client that does not read
 *   max_buffer_bytes    requests and replies of all clients together. From half of it on each
 * client has one request at a time; above it those that hold most are closed, and those that have
 * not logged in before the others. KW_FRONTEND_PARTS
 * requests under way, of all clients together; beyond that each client has one at a time. So
 * clients whose requests wait long (for a barrier, or for a primary that hangs) stop no other.
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_SERVE_FRONTEND_H
#define KW_AGENT_GATEWAY_SERVE_FRONTEND_H

#include "base/error.h"
#include "gateway/forward/forward.h"
#include "gateway/resp/release.h"
#include "gateway/session/session.h"
#include "gateway/table/gets.h"
#include "protocol.h"
#include "redis/address.h"
#include "tls/context.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_FRONTEND_PARTS 65536

struct kw_frontend_options {
	uv_loop_t *loop;
	struct kw_gets *gets;       /* outlives the server's clients */
	struct kw_forward *forward; /* the same; NULL: nothing is forwarded */
	uint32_t max_clients;
	uint64_t max_input_bytes;  /* of one request */
	uint64_t max_output_bytes; /* not yet taken by a client */
	uint64_t max_buffer_bytes; /* input and output, of all clients */
	uint32_t output_timeout_ms;
	uint32_t idle_timeout_ms; /* a client that sends nothing for so long is closed; 0: none */
	uint32_t memcached_database; /* memcached has no SELECT */
	struct kw_users *users;      /* of Redis clients; the server owns them from here on */
	const char *name;            /* of the gateway, for INFO; outlives the server */
	const struct kw_tls_current
		*tls; /* holds a context if an address speaks TLS; outlives it */
};

struct kw_frontend;

struct kw_frontend *kw_frontend_new(const struct kw_frontend_options *options);

/* What is said of the certificates of clients, and of ours. */
extern const struct kw_tls_terms kw_frontend_tls_terms;

/* As kw_redis_address_parse, and tls://host:port, which is rediss://host:port. */
int kw_frontend_address_parse(
	const char *text, struct kw_redis_address *address, struct kw_error *error);

/*
 * Listen on unix:///path, tcp://host:port or tls://host:port (a number, or a name of this host).
 * Errors name the address and the remedy. A stale socket file is replaced; one that answers is
 * KW_E_STATE.
 */
int kw_frontend_listen(struct kw_frontend *server, const char *address,
	const struct kw_protocol *protocol, struct kw_error *error);

/* A kw_config_check_fn: is it such an address? */
int kw_frontend_address_check(const char *address, struct kw_error *error);

/* Close listeners and clients; questions that are out must be told (kw_gets_close). */
void kw_frontend_close(struct kw_frontend *server, void (*done)(void *arg), void *arg);

void kw_frontend_set_max_clients(struct kw_frontend *server, uint32_t clients);
void kw_frontend_set_idle_timeout(struct kw_frontend *server, uint32_t idle_timeout_ms);

/*
 * Other users from now on; the server owns them. Clients whose user is gone or off are closed. So
 * are those whose password it does not have any more, and those that are `default` without a
 * password, if that needs one now. Permissions of the others change at once.
 */
void kw_frontend_set_users(struct kw_frontend *server, struct kw_users *users);

/* There is another context of TLS: clients whose certificate it does not accept are closed. */
void kw_frontend_judge_certificates(struct kw_frontend *server);

/* What sessions know of the gateway, at this moment. */
const struct kw_session_host *kw_frontend_sessions(struct kw_frontend *server);

/* Empty; for a reply that might not be one. Valid until the next call. */
struct kw_buffer *kw_frontend_scratch(struct kw_frontend *server);

/* The release of the primary, as far as the table's payloads tell: how replies look. */
struct kw_release kw_frontend_release(const struct kw_frontend *server);

enum kw_closed_for {
	KW_CLOSED_BY_PEER,
	KW_CLOSED_ON_QUIT,
	KW_CLOSED_PROTOCOL, /* no request of the protocol */
	KW_CLOSED_INPUT,    /* a request above max_input_bytes */
	KW_CLOSED_SLOW,     /* it did not read its replies */
	KW_CLOSED_FULL,     /* it was one too many */
	KW_CLOSED_USER,   /* its user is gone, or its password, or its certificate does not count */
	KW_CLOSED_MEMORY, /* all clients held too much, and it held most */
	KW_CLOSED_IDLE,   /* it sent nothing for too long */
	KW_CLOSED_HANDSHAKE, /* TLS: it was never a client */
	KW_CLOSED_END,       /* the gateway ends */
};
#define KW_CLOSED_REASONS (KW_CLOSED_END + 1)
const char *kw_closed_for_name(enum kw_closed_for reason);

struct kw_frontend_stats {
	uint64_t clients; /* now */
	uint64_t accepted;
	uint64_t requests;
	uint64_t refused; /* requests that are not served */
	uint64_t forwarded;
	uint64_t bytes_in, bytes_out;
	uint64_t parts; /* under way now */
	uint64_t held;  /* bytes of requests and replies now, of clients that are connected */
	uint64_t closed[KW_CLOSED_REASONS];
};
const struct kw_frontend_stats *kw_frontend_stats(const struct kw_frontend *server);

#endif
