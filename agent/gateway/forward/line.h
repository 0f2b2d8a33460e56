/*
 * One connection to the primary, for requests of one version of RESP and one database.
 *
 *   ┌──────┐ a request ┌─────────┐ logged in, HELLO 3 and SELECT answered ┌────┐
 *   │ REST │──────────▶│ OPENING │───────────────────────────────────────▶│ UP │
 *   └──────┘           └─────────┘                                        └────┘
 *                        ▲     │ failed        ┌─────────┐     lost          │
 *     a request, after   │     └──────────────▶│ LEAVING │◀──────────────────┘
 *     the pause          │                     └─────────┘
 *                      ┌──────┐   each request      │
 *                      │ DOWN │◀────────────────────┘
 *                      └──────┘   has its answer
 *
 *   REST ──the connection cannot be begun──▶ DOWN
 *   each but REST and DOWN ──kw_line_close──▶ CLOSING ──▶ CLOSED; those two at once
 *
 * OPENING: requests wait for the connection, for KW_LINE_CONNECT_MS at most. DOWN: they are refused
 * at once until the pause is over; the pauses grow up to one second. The next request tries again,
 * so a database that no client uses any more costs the primary nothing.
 */
#ifndef KW_AGENT_GATEWAY_FORWARD_LINE_H
#define KW_AGENT_GATEWAY_FORWARD_LINE_H

#include "base/backoff.h"
#include "base/buffer.h"
#include "base/sm.h"
#include "forward.h"

#define KW_LINE_CONNECT_MS 2000

#define KW_LINE_UNCONFIRMED                                                                        \
	"the proxy's server is not confirmed as the primary, or no table was read yet"

enum kw_line_state {
	KW_LINE_REST,
	KW_LINE_OPENING,
	KW_LINE_UP,
	KW_LINE_LEAVING,
	KW_LINE_DOWN,
	KW_LINE_CLOSING,
	KW_LINE_CLOSED,
};

struct kw_line_request {
	kw_forward_fn fn;
	void *arg;
	size_t bytes;
	uint64_t queued_to; /* UP: where it ends among the connection's bytes */
};

struct kw_line {
	struct kw_sm sm;
	struct kw_forward *forward;
	int resp_version;
	uint32_t database;
	struct kw_redis *redis;
	unsigned greetings;    /* OPENING: replies to HELLO, SELECT and INFO that have not come */
	bool asked;            /* this connection's server was asked who it is */
	uint64_t server;       /* its kw_server_id; 0: not known */
	struct kw_buffer held; /* OPENING: the bytes of the requests that wait, in order */
	struct kw_line_request *requests; /* a ring; room is a power of two */
	size_t first, count, room;
	struct kw_backoff backoff;
	uint64_t used_us;    /* when the last request was taken */
	uint64_t oldest_us;  /* since when the oldest request is the oldest */
	uint64_t next_us;    /* DOWN: requests are refused until then */
	struct kw_error why; /* KW_E_ARGUMENT: the primary refused the version or the database */
};

struct kw_line *kw_line_new(struct kw_forward *forward, int resp_version, uint32_t database);
void kw_line_free(struct kw_line *line); /* CLOSED */

/* NULL: taken. Otherwise why it is refused. The forward has checked its bounds. */
const char *kw_line_send(struct kw_line *line, const struct kw_forward_request *request);

/* Give the connection up if the oldest request has waited for its reply too long. */
void kw_line_tick(struct kw_line *line, uint64_t now_us);

void kw_line_close(struct kw_line *line);

/* forward.c: the line is CLOSED. */
void kw_forward_line_closed(struct kw_forward *forward);

#endif
