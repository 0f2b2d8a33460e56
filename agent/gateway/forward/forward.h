/*
 * Requests of clients on their way to the primary, and its replies on their way back.
 *
 *   client ─┐                 ┌─▶ line: RESP 2, database 0 ─▶┐
 *   client ─┼▶ kw_forward_send┼─▶ line: RESP 3, database 0 ─▶┼─ primary
 *   client ─┘                 └─▶ line: RESP 2, database 5 ─▶┘
 *
 * All clients share the lines; each is one pipelined connection (line.h). There is one for each
 * version of RESP and each database that a request came for. So no request can run in another
 * database than its client's. A shared connection that changed its database by SELECT could do that
 * if one SELECT was refused.
 *
 * Requests and replies are handed on as bytes. Requests on one line are executed in the order sent;
 * those on two lines in any order (own.h makes a client wait). No request is ever sent twice. If
 * the connection is lost, each request in flight ends with an error. It says whether the primary
 * may have executed the request.
 *
 * At most max_requests and max_bytes of requests wait for answers, on all lines together. There are
 * at most KW_FORWARD_LINES lines. Requests beyond these bounds are refused at once. If no line is
 * left, the idle one that was used longest ago is closed, so that there is soon room for another.
 *
 * The primary must be the server that the table is of: reads of written keys, and barriers, count
 * on it. So each line asks its server who it is (INFO server), and one that is another is not used.
 * A user that may not ask INFO is not checked, unless the table has a mandate: then the guard
 * admits the server that the table names and no other, or none at all (table/sight.h, the fence).
 * A request that is under way to a server that the guard does not admit any more ends with an
 * error. Its answer is not handed on: what a deposed primary executed can be lost.
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_FORWARD_FORWARD_H
#define KW_AGENT_GATEWAY_FORWARD_FORWARD_H

#include "base/slice.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_FORWARD_LINES 32

enum kw_forward_end {
	KW_FORWARD_ANSWERED,     /* reply is the primary's, byte for byte */
	KW_FORWARD_NOT_EXECUTED, /* reply is an error of ours: it never reached the primary */
	KW_FORWARD_PERHAPS,      /* reply is an error of ours: the primary may have executed it */
};

/* Which server may get requests? */
enum kw_forward_guard {
	KW_GUARD_OFF,    /* any, but not one that is known to be another than the table's */
	KW_GUARD_NAMED,  /* only one that is known to be the table's */
	KW_GUARD_CLOSED, /* none */
};

/* Once a request that was taken, from the loop. The reply is valid during the call. */
typedef void (*kw_forward_fn)(void *arg, enum kw_forward_end end, struct kw_slice reply);

struct kw_forward_options {
	uv_loop_t *loop;
	struct kw_redis_options primary; /* raw_bytes: the longest reply; 0: 64 MiB */
	uint32_t max_requests;           /* 0: 65536 */
	size_t max_bytes;                /* 0: 256 MiB */
	uint32_t reply_timeout_ms; /* for the whole reply of a request that is the oldest; 0: 120 s
				    */
};

struct kw_forward_request {
	int resp_version; /* 2 or 3 */
	uint32_t database;
	struct kw_slice bytes; /* exactly one command in RESP; copied */
	kw_forward_fn fn;
	void *arg; /* must live until fn was called: each request ends */
};

/* Since the start. */
struct kw_forward_counts {
	uint64_t answered, refused, lost_not_executed, lost_perhaps, too_long, connections;
};

struct kw_line;

struct kw_forward {
	struct kw_forward_options options;
	struct kw_line *lines[KW_FORWARD_LINES];
	int line_count;
	uint64_t server; /* kw_server_id of the one that the table is of; 0: not known */
	enum kw_forward_guard guard;
	bool said_unasked; /* the log was told that the primary does not say who it is */
	uint32_t requests; /* without an answer, all lines together */
	size_t bytes;      /* of these */
	struct kw_forward_counts counts;
	enum { KW_FORWARD_OPEN, KW_FORWARD_CLOSING, KW_FORWARD_CLOSED } state;
	void (*closed)(void *arg);
	void *closed_arg;
	char refusal[KW_ERROR_TEXT];
};

/* KW_E_CONFIG: the address of the primary is none. Connects when the first request comes. */
int kw_forward_init(struct kw_forward *forward, const struct kw_forward_options *options,
	struct kw_error *error);

/* The table is of this server (kw_server_id) from now on; 0: that is not known, and any will do. */
static inline void kw_forward_expect(struct kw_forward *forward, uint64_t server)
{
	forward->server = server;
}

/*
 * From now on. Requests that wait for a connection are judged again before they are sent, and those
 * that were sent when they are answered.
 */
static inline void kw_forward_set_guard(struct kw_forward *forward, enum kw_forward_guard guard)
{
	forward->guard = guard;
}

/*
 * A few times a second, after the guard was set: a line whose oldest reply does not come in time is
 * given up, and one whose server the guard does not admit any more.
 */
void kw_forward_tick(struct kw_forward *forward, uint64_t now_us);

/* Once. Requests in flight end with errors; closed follows, from the loop or at once. */
void kw_forward_close(struct kw_forward *forward, void (*closed)(void *arg), void *arg);

/*
 * NULL: the request was taken, and fn will be called. Otherwise it was not, and this is the error
 * for the client, its class first ("MASTERDOWN …"), valid until the next call.
 */
const char *kw_forward_send(struct kw_forward *forward, const struct kw_forward_request *request);

/* Requests with the same number take the same line, in their order. */
static inline uint32_t kw_forward_line_of(int resp_version, uint32_t database)
{
	return database * 2 + (resp_version == 3);
}

/*
 * Why the line that failed last is down; NULL: none is. A database that the primary does not have
 * is no reason.
 */
const char *kw_forward_down(const struct kw_forward *forward);

#endif
