/* Inside the server: server.c (the whole, listeners, handshakes) and server_sessions.c. */
#ifndef KW_REMOTE_SERVER_INTERNAL_H
#define KW_REMOTE_SERVER_INTERNAL_H

#include "remote/carrier.h"

/*
 *   ┌─────────┐ as many handshakes as there may be ┌──────┐
 *   │ SERVING │◀──────────────────────────────────▶│ BUSY │
 *   └─────────┘                                    └──────┘
 *        └──────── kw_server_close ────────┬───────────┘
 *                                          ▼
 *   ┌─────────┐ no session is left, every listener closed ┌────────┐
 *   │ CLOSING │──────────────────────────────────────────▶│ CLOSED │
 *   └─────────┘                                           └────────┘
 */
enum kw_server_state { KW_SERVER_SERVING, KW_SERVER_BUSY, KW_SERVER_CLOSING, KW_SERVER_CLOSED };

/* Refused until certificates are read again. */
struct kw_revoked {
	int count;
	char ids[KW_REVOKED_MAX][KW_CERTIFICATE_ID_MAX + 1];
};

struct kw_server {
	struct kw_sm sm; /* of enum kw_server_state */
	uv_loop_t *loop;
	struct kw_memory *memory;
	struct kw_server_options options; /* secret: none, see keyring */
	struct kw_keyring *keyring;
	struct kw_revoked revoked; /* whom certificates name */
	struct kw_peer_self self;
	struct kw_server_handlers handlers;
	struct kw_server_stats stats;
	uv_async_t async; /* the serving thread has something to say */
	struct kw_tcp_serve *serve;
	void *kept;                         /* a device */
	const struct kw_kept_ops *kept_ops; /* NULL: none is kept */
	struct kw_listener *listeners;      /* in the order of kw_server_listen */
	struct kw_session *sessions;
	uint32_t session_count;
	uint32_t greetings;    /* begun by kw_server_greet, not yet built */
	uint32_t asleep;       /* sessions of which the agent sleeps */
	uint64_t published;    /* the last publication that says something to every agent */
	uint64_t ticket_moved; /* … and to those that wait for a ticket */
	uint64_t next_id;
	void (*done)(void *arg);
	void *done_arg;
};

/*
 * server.c: go on closing. Sessions point at their listeners, so those stay until the last session
 * has left.
 */
void kw_server_maybe_finish(struct kw_server *server);

static inline bool kw_server_closing(const struct kw_server *server)
{
	return server->sm.state >= KW_SERVER_CLOSING;
}

/* server_keys.c: must agents prove a key? */
bool kw_server_keyed(const struct kw_server *server);

/* Must agents over tcp+tls show a certificate? */
bool kw_server_certifies(const struct kw_server *server);

/* The handshake is PROVED: refuse it if its key does not let it in. True: it was. */
bool kw_server_refuses_key(struct kw_server *server, struct kw_handshake *handshake);

/* May the session stay? */
bool kw_server_key_holds(const struct kw_server *server, const struct kw_session *session);

/* Revoke the sessions that may not. Returns how many. */
uint32_t kw_server_check_keys(struct kw_server *server);

/* server.c: what WELCOME tells this agent; numbers the session. */
void kw_server_facts(struct kw_server *server, const struct kw_handshake *handshake,
	struct kw_handshake_facts *facts);

/* server_sessions.c: what one more session that wishes it would be told. */
enum kw_compression kw_server_compression(const struct kw_server *server);

/* server_sleep.c: wake some of those that sleep although something was published. */
void kw_server_wake(struct kw_server *server);

/* server_sleep.c: the session ends, so it is not counted among those that sleep. */
void kw_session_is_awake(struct kw_session *session);

/* server_sessions.c: end it, telling the peer `bye` if that is possible; why is for people. */
void kw_session_end(struct kw_session *session, enum kw_frame_status bye, const char *why);

#endif
