/*
 * What a server says to its primary, and what is answered: the replication handshake, then ACKs.
 *
 *   ┌──────────┐ PING, AUTH, REPLCONF … : answered in order   ┌────────┐ REPLCONF ACK: told,
 *   │ GREETING │─────────────────── PSYNC ──────────────────▶│ SYNCED │ nothing is answered
 *   └──────────┘  with a login and capa eof: told              └────────┘
 *
 * Commands are RESP arrays and can come pipelined or in pieces; bare newlines (a server sends them
 * while it loads) are passed over. Only the server that knows the login gets further than AUTH.
 * Pure: bytes in, bytes into `output`, handlers called from within feed. One thread.
 */
#ifndef KW_AGENT_PRIMARY_REPLCONF_H
#define KW_AGENT_PRIMARY_REPLCONF_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* Bounds of one command: all of it, its words. A server's own are far below. */
#define KW_REPLCONF_BYTES 8192
#define KW_REPLCONF_WORDS 32

#define KW_REPLID_LENGTH 40
#define KW_LOGIN_TEXT 600

/* What AUTH must say; no user: the password alone, or with the user "default". */
struct kw_link_login {
	char user[KW_LOGIN_TEXT];
	char password[KW_LOGIN_TEXT];
};

struct kw_replconf_handlers {
	/*
	 * PSYNC. replid: 40 hex digits, or "?"; offset: the first byte asked for, as sent. Its
	 * answer is the owner's to write.
	 */
	void (*psync)(void *arg, const char *replid, int64_t offset);
	void (*ack)(void *arg, uint64_t offset);
	void *arg;
};

struct kw_replconf {
	struct kw_replconf_handlers handlers;
	const struct kw_link_login *login; /* outlives the session */
	struct kw_buffer input;            /* of a command not yet whole */
	struct kw_buffer output;           /* answers, for the owner to send */
	bool authenticated;
	bool eof; /* it can take an RDB whose length is not known beforehand */
	bool synced;
};

void kw_replconf_init(struct kw_replconf *replconf, const struct kw_link_login *login,
	const struct kw_replconf_handlers *handlers);
void kw_replconf_close(struct kw_replconf *replconf);

/*
 * Bytes came. KW_E_PROTOCOL: bytes that no replica sends, or beyond the bounds; KW_E_REFUSED: a
 * wrong login or none. Output may still be sent; then the connection must end.
 */
int kw_replconf_feed(
	struct kw_replconf *replconf, const void *bytes, size_t length, struct kw_error *error);

#endif
