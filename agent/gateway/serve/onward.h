/*
 * What a client asks of the primary, through forward/, and barriers.
 *
 *   request ──▶ kw_onward_judge ──┬─▶ TABLE    a get, as without forwarding
 *                                 ├─▶ PRIMARY  kw_onward_begin; the primary's bytes are the reply
 *                                 ├─▶ WAIT     ask again when a part of the client has ended
 *                                 └─▶ REFUSED  with a sentence
 *
 * own.h says why a request waits, and when a read of the table goes to the primary. A get that the
 * table cannot answer (loading, stale, lost) goes on to the primary as well: kw_onward_instead.
 *
 * For protocols; loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_SERVE_ONWARD_H
#define KW_AGENT_GATEWAY_SERVE_ONWARD_H

#include "client.h"

#include "gateway/forward/forward.h"
#include "gateway/forward/own.h"

/* Of one client; zeroed, and closed when nothing of it is under way. */
struct kw_onward {
	struct kw_own own;
	uint32_t gets; /* parts that wait for the table, or for the primary in its place */
	struct kw_onward_wait *wait; /* for a barrier: nothing else is begun; NULL: for none */
};

struct kw_onward_request {
	const struct kw_slice *words;
	size_t count;
	bool answerable; /* the table can answer it */
	int resp_version;
	uint32_t database;
};

enum kw_onward_place {
	KW_ONWARD_TABLE,
	KW_ONWARD_PRIMARY,
	KW_ONWARD_WAIT,
	KW_ONWARD_REFUSED,
};

struct kw_onward_verdict {
	enum kw_onward_place place;
	bool writes;     /* PRIMARY */
	const char *why; /* REFUSED: goes after the command's name; NULL: nothing is forwarded */
};

struct kw_onward_verdict kw_onward_judge(struct kw_frontend *server, const struct kw_onward *onward,
	const struct kw_onward_request *request);

/* PRIMARY: its part is begun. */
void kw_onward_begin(struct kw_client *client, struct kw_onward *onward,
	const struct kw_onward_request *request, bool writes);

/* Before each request, and a few times a second: which server may get requests now? */
void kw_onward_guard(struct kw_frontend *server);

/* The client is gone: its barrier ends. What was sent to the primary ends with its answer. */
void kw_onward_left(struct kw_onward *onward);

void kw_onward_closed(struct kw_onward *onward);

/*
 * Ask the primary what the table could not answer for this part. fn is given the part, which it
 * ends, if its client is still there. False: nothing is forwarded, or the primary is away.
 */
bool kw_onward_instead(
	struct kw_part *part, const struct kw_onward_request *request, kw_forward_fn fn);

/*
 * KEYWAKE.BARRIER ms: +OK once the table holds all that the primary did before this call, or an
 * error after ms. TABLE: it was begun. REFUSED: the words are not right, and the client was told.
 */
bool kw_onward_is_barrier(struct kw_slice name);
enum kw_onward_place kw_onward_begin_barrier(struct kw_client *client, struct kw_onward *onward,
	const struct kw_onward_request *request);

#endif
