/*
 * One Redis client's session: what it has said of itself, who it is, and the commands that are
 * about the connection or about the gateway rather than about a key.
 *
 *   request ──▶ kw_session_begin ──┬─▶ PASSES     the table's (kw_command_find), or forwarded
 *                                  ├─▶ REPLIED    a reply was written, an error perhaps
 *                                  ├─▶ CLOSE      the same; end the connection after it
 *                                  └─▶ RESET      the same; forget the state of the connection
 *
 * No request does anything before it has passed. Without a login (NOAUTH) or a permission (NOPERM)
 * it is refused here, in the server's words. So are an unknown command and a wrong number of words.
 *
 * If a client sends HELLO 3 after a GET in one batch, the GET's reply is still RESP 2. So keep the
 * version of each request when it begins (kw_session_reply_to).
 *
 * Memory of a session is bounded: its texts are at most KW_SESSION_TEXT_MAX bytes each. Pure: the
 * clock and the figures are asked from the host. One thread.
 */
#ifndef KW_AGENT_GATEWAY_SESSION_SESSION_H
#define KW_AGENT_GATEWAY_SESSION_SESSION_H

#include "base/buffer.h"
#include "base/slice.h"
#include "gateway/resp/reply.h"
#include "users.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_SESSION_TEXT_MAX 256
#define KW_SESSION_DATABASES_MAX 65536
#define KW_SESSION_ADDRESS 136

/* What INFO says of the table. */
enum kw_session_table {
	KW_SESSION_TABLE_SERVED,
	KW_SESSION_TABLE_LOADING, /* not complete */
	KW_SESSION_TABLE_STALE,   /* older than is allowed */
	KW_SESSION_TABLE_LOST,    /* no connection to the proxy */
};

/* Figures at the moment at which a client asks. */
struct kw_session_facts {
	uint64_t now_us;   /* wall clock */
	uint64_t uptime_s; /* of the gateway */
	uint64_t clients, max_clients;
	uint64_t idle_timeout_s; /* 0: none */
	unsigned port;           /* of TCP; 0: none */
	enum kw_session_table table;
	uint64_t keys;     /* in all databases */
	uint64_t fresh_us; /* all that the primary did before is visible; 0: unknown */
	uint64_t epoch, version;
	const char *name;                 /* of the gateway */
	const char *state;                /* as in its status */
	char address[KW_SESSION_ADDRESS]; /* of the client that asks; and of this end */
	char local_address[KW_SESSION_ADDRESS];
};

struct kw_session;

/* What the clients of a gateway have in common. The owner changes it between requests. */
struct kw_session_host {
	const struct kw_users *users;
	const char *server_version; /* of the primary; NULL: as far as the release tells */
	const char *valkey_version; /* NULL: it is not Valkey, or that is not known */
	struct kw_release release;
	uint32_t databases; /* of the primary; 0: unknown */
	/* May this command go to the primary? NULL: none may. */
	bool (*forwards)(void *arg, struct kw_slice name);
	void (*look)(void *arg, const struct kw_session *session, struct kw_session_facts *facts);
	void *arg;
};

struct kw_session {
	uint64_t id;
	uint64_t since_us; /* by the host's clock */
	enum kw_resp_version version;
	uint32_t database;
	const struct kw_user *user;             /* NULL: AUTH is needed */
	bool unnamed;                           /* it is `default` without having said so */
	bool may_all;                           /* only channels need a check */
	uint8_t secret[KW_USER_HASH_BYTES];     /* of the password that it logged in with */
	char *name, *library, *library_version; /* NULL: not said */
	void *owner;                            /* the owner's own; NULL at first */
};

enum kw_session_verdict {
	KW_SESSION_PASSES,
	KW_SESSION_REPLIED,
	KW_SESSION_CLOSE,
	KW_SESSION_RESET,
};

/* owner: for the host's look. */
void kw_session_init(
	struct kw_session *session, const struct kw_session_host *host, uint64_t id, void *owner);
void kw_session_close(struct kw_session *session);

/* count > 0. Replies are appended to out. */
enum kw_session_verdict kw_session_begin(struct kw_session *session,
	const struct kw_session_host *host, const struct kw_slice *words, size_t count,
	struct kw_buffer *out);

/*
 * May a request that the table answers (kw_command_find, kw_command_fits) be begun without
 * kw_session_begin? True for a user who may all: nothing would be checked.
 */
static inline bool kw_session_is_free(const struct kw_session *session)
{
	return session->may_all;
}

/* How a reply to a request that begins now is written. */
static inline struct kw_reply_to kw_session_reply_to(
	const struct kw_session *session, const struct kw_session_host *host, struct kw_buffer *out)
{
	return (struct kw_reply_to){out, session->version, host->release};
}

/*
 * Refuse a request that passed: the table does not know the command, and it is not forwarded. A
 * write is refused as by a replica (READONLY).
 */
void kw_session_refuse(const struct kw_session *session, const struct kw_session_host *host,
	const struct kw_slice *words, struct kw_buffer *out);

/*
 * The users are about to be replaced: the session takes its user from the new ones. False: end the
 * connection. The user is gone or off, or the password that the client logged in with is none of
 * its own any more, or `default` needs a password now. What it may do changes at once. Free the old
 * users only after all sessions were asked.
 */
bool kw_session_take_users(struct kw_session *session, const struct kw_users *users);

#endif
