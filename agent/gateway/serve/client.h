/*
 * One client: its input, the parts of its requests that are under way, and its output.
 *
 *   ┌─────────┐ a part was begun ┌───────────┐
 *   │ READING │─────────────────▶│ ANSWERING │
 *   └─────────┘◀─────────────────└───────────┘
 *     ▲  │ all ended, all written    │ the socket takes no more
 *     │  │                           ▼
 *     │  └─────────────────────▶┌─────────┐  nothing was taken for output_timeout_ms
 *     └─────────────────────────│ WRITING │──────────────┐
 *             all written       └─────────┘              ▼
 *   from each: BEGUN_LAST, the peer is gone ──▶ LEAVING ──written──▶ CLOSED
 *
 * The input is read only while READING. So the words of requests stay where they are until the last
 * part of a batch has ended, and nothing of them is copied. A client that pipelines gets one READ
 * of the socket, one posting of lookups and one write for each batch.
 *
 * A part is what one reply, or one key's share of a reply, is waiting for. The parts of a client
 * stand in the order of its requests. The first one is answered into the output; one that ends
 * before its turn keeps its answer. At most KW_CLIENT_PARTS are under way, and fewer while answers
 * are large: no more than gateway.max_output_bytes can be expected of them.
 *
 * The end of the peer is watched all the time. A client that closes it while it waits (for a
 * barrier, or the primary) is closed when nothing was written for a second, or when its replies
 * have been written: it can have closed one direction only, and read on.
 *
 * An idle client holds this struct only: input, output and parts come from pools of the server's.
 *
 * For protocols; loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_SERVE_CLIENT_H
#define KW_AGENT_GATEWAY_SERVE_CLIENT_H

#include "frontend.h"
#include "protocol.h"

#include "base/sm.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_CLIENT_PARTS 128

enum kw_client_state {
	KW_CLIENT_READING,
	KW_CLIENT_ANSWERING,
	KW_CLIENT_WRITING,
	KW_CLIENT_LEAVING,
	KW_CLIENT_CLOSED,
};

struct kw_onward;

struct kw_part {
	struct kw_question question; /* key and database, if it is a get */
	struct kw_part *next;        /* of the client, in the order of its requests */
	struct kw_client *client;
	struct kw_buffer reply; /* it has ended before its turn */
	bool ended;

	/* The protocol's: of a get. */
	const void *what;  /* e.g. the command */
	uint32_t at, of;   /* this key, of so many of the request */
	uint32_t words_at; /* the request's words, for kw_part_words */
	uint32_t words;
	uint64_t flags;
	struct kw_onward *onward; /* a request that was forwarded: its client's */
};

/* ---- what a protocol may ask ---- */

/* How many parts may be begun now. 0: answer KW_BEGUN_SOME, or begin the request later. */
uint32_t kw_client_room(const struct kw_client *client);

/* Its own memory (kw_protocol.bytes). */
void *kw_client_own(struct kw_client *client);

struct kw_frontend *kw_client_server(struct kw_client *client);

/*
 * Keep the words of a request for its parts. They point into the input; the array is copied.
 * Returns words_at.
 */
uint32_t kw_client_keep_words(
	struct kw_client *client, const struct kw_slice *words, uint32_t count);
const struct kw_slice *kw_client_words(const struct kw_client *client, uint32_t words_at);
const struct kw_slice *kw_part_words(const struct kw_part *part);

/*
 * A reply that is known at once: write it to the buffer that this returns, then call
 * kw_client_replied. Between the two nothing else is called.
 */
struct kw_buffer *kw_client_reply(struct kw_client *client);
void kw_client_replied(struct kw_client *client);

/*
 * Ask the table for a key: protocol->answer follows, never from within this call. Room was found.
 * The part's own fields may be filled in after this call. The key points into the input.
 */
struct kw_part *kw_client_get(struct kw_client *client, uint32_t database, struct kw_slice key);

/*
 * A reply that another module will give: begin its part; later write the reply to what
 * kw_part_reply returns, and call kw_part_end. Not from within kw_client_defer's caller's begin.
 * The part stays until it is ended, also if the client is gone.
 */
struct kw_part *kw_client_defer(struct kw_client *client);
struct kw_buffer *kw_part_reply(struct kw_part *part);
/* Bytes that are its reply; counted, so that fewer parts are begun while replies are large. */
void kw_part_append(struct kw_part *part, struct kw_slice reply);
void kw_part_end(struct kw_part *part);

/* Could it log in, and has not? Such a client gives way to others (strangers.c). */
void kw_client_set_strange(struct kw_client *client, bool strange);

/* For the figures: this request is not served. */
void kw_client_refused(struct kw_client *client);

/* Why the connection is closed after BEGUN_LAST; without this call: KW_CLOSED_ON_QUIT. */
void kw_client_ends(struct kw_client *client, enum kw_closed_for why);

/* Is the client still there? Work for a part whose client is gone can stop. */
bool kw_part_wanted(const struct kw_part *part);

#endif
