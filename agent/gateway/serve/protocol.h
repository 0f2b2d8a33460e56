/*
 * What a protocol is to the listeners: how requests are cut from a client's input, what they ask,
 * and how a key's answer is written. RESP is one (resp.c), memcached another.
 *
 * The protocol calls kw_client_… (client.h) for all that it does. It keeps what it must remember of
 * one client in `bytes` of memory, zeroed at first: kw_client_own(client). Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_SERVE_PROTOCOL_H
#define KW_AGENT_GATEWAY_SERVE_PROTOCOL_H

#include "base/buffer.h"
#include "base/slice.h"
#include "gateway/table/gets.h"

#include <stdbool.h>
#include <stddef.h>

struct kw_client;
struct kw_part;
struct kw_frontend;
struct kw_users;

enum kw_begun {
	KW_BEGUN_PARTIAL, /* more input is needed */
	KW_BEGUN_WHOLE,   /* a request was begun, or passed over */
	KW_BEGUN_SOME,    /* a request of many keys: go on with it when parts have ended */
	KW_BEGUN_LAST, /* nothing more is taken from this client: it is closed after its replies */
};

struct kw_protocol {
	const char *name;
	size_t bytes; /* of its own memory of one client */

	/* A client came, or left. NULL: nothing to do. */
	void (*opened)(struct kw_client *client);
	void (*closed)(struct kw_client *client);

	/* It is closed; parts can be under way. What only it waits for can end. NULL: nothing to
	 * do.
	 */
	void (*left)(struct kw_client *client);

	/* The users are about to be replaced. False: close the client. NULL: it has none. */
	bool (*take_users)(struct kw_client *client, const struct kw_users *users);

	/*
	 * Take one request from the front of the input, which is not empty. *taken: bytes that are
	 * done with; 0 with SOME, after which the same input comes again. Words of a request that
	 * is WHOLE or SOME may be kept as slices until its parts have ended: the input does not
	 * move before.
	 */
	enum kw_begun (*begin)(struct kw_client *client, struct kw_slice input, size_t *taken);

	/* One key's answer, or why there is none; appended to out. The part ends with this call. */
	void (*answer)(struct kw_client *client, struct kw_part *part, const struct kw_got *got,
		struct kw_buffer *out);

	/*
	 * Does the answer still count? Asked when it is its turn, of one that was written before.
	 * NULL: every answer does.
	 */
	bool (*counts)(struct kw_client *client, const struct kw_part *part);

	/*
	 * Before answer: true if the key's answer is sought elsewhere. The protocol ends the part
	 * then, later. NULL: never.
	 */
	bool (*instead)(struct kw_client *client, struct kw_part *part, const struct kw_got *got);

	/*
	 * A sentence before the connection is closed: too many clients, input too large. client is
	 * NULL for one that was not let in.
	 */
	void (*refuse)(struct kw_client *client, const char *why, struct kw_buffer *out);
};

extern const struct kw_protocol kw_protocol_resp;
extern const struct kw_protocol kw_protocol_memcached;

#endif
