/*
 * What is known of the followed table, judged: may a key be answered from it, and if not, why not?
 *
 *   CONNECTING   no connection to the proxy, or nothing was read through it yet
 *   LOADING      the proxy is still reading the primary: a key that is not there might come
 *   SERVING      the table holds every write that the primary executed max_staleness ago or earlier
 *   STALE        it was like that, but is older now; or the proxy cannot say how old it is; or
 *                the proxy's server is not confirmed as the primary, however young the table is
 *   FAILED       the proxy refuses this gateway, or is none that it understands; a person must act
 *
 * The age of the table is `now_us` less its fresh_us, both by the proxy's clock. A superblock that
 * was read long ago proves no less than it did: its fresh_us only grows old. So the judge needs no
 * other limit, and a proxy that is stopped or gone makes the table stale by itself. If fresh_us is
 * beyond the superblock's own time, the proxy's clock was set back, and the age is unknown.
 *
 * The fence says whether requests may go to the primary. If the proxy asks for a mandate, they go
 * only to the server that a confirmed table names, and only while the proxy is heard. So no write
 * goes to a primary that was deposed longer ago than the mandate's lease and that silence. Before
 * the first look at a table nothing goes on, because a mandate might be asked for. Once one was, a
 * table whose proxy asks nobody is stale and does not open the fence: the server can be any.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_GATEWAY_TABLE_SIGHT_H
#define KW_AGENT_GATEWAY_TABLE_SIGHT_H

#include "authority/term.h"
#include "base/reason.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kw_gateway_state {
	KW_GATEWAY_CONNECTING,
	KW_GATEWAY_LOADING,
	KW_GATEWAY_SERVING,
	KW_GATEWAY_STALE,
	KW_GATEWAY_FAILED,
};

enum kw_sight_link {
	KW_SIGHT_AWAY,
	KW_SIGHT_HOPELESS, /* the same, for a reason that a person must remove */
	KW_SIGHT_UP,
};

struct kw_sight_facts {
	enum kw_sight_link link;
	bool seen; /* a superblock was read through this connection, or the one before. Of it: */
	bool complete;
	enum kw_source_state source;
	enum kw_term_standing term; /* of its mandate, to the highest term that was seen */
	uint64_t fresh_us;
	uint64_t heartbeat_us;
	uint64_t now_us; /* the proxy's clock */
	uint64_t max_staleness_us;
};

/* In the order in which they are looked for: the first that applies is the reason. */
enum kw_sight_reason {
	KW_SIGHT_NONE, /* SERVING */
	KW_SIGHT_REFUSED,
	KW_SIGHT_UNCONNECTED,
	KW_SIGHT_UNSEEN,
	KW_SIGHT_UNCONFIRMED, /* nobody confirms the proxy's server as the primary */
	KW_SIGHT_DEPOSED,     /* a table of a higher term was seen before */
	KW_SIGHT_UNFENCED, /* a table with a mandate was seen before, and this proxy asks nobody */
	KW_SIGHT_INCOMPLETE,
	KW_SIGHT_UNFRESH, /* the proxy does not know how current its table is */
	KW_SIGHT_OLD,
};

#define KW_SIGHT_AGE_UNKNOWN UINT64_MAX

struct kw_sight_verdict {
	enum kw_gateway_state state;
	enum kw_sight_reason reason;
	uint64_t age_us; /* of the table, also if its proxy is gone; or KW_SIGHT_AGE_UNKNOWN */
};

struct kw_sight_verdict kw_sight_judge(const struct kw_sight_facts *facts);

/* May requests go to the primary? */
enum kw_sight_fence {
	KW_FENCE_OPEN,   /* nobody says who the primary is: to the server that is configured */
	KW_FENCE_NAMED,  /* to the server that the table names, and to no other */
	KW_FENCE_CLOSED, /* to none */
};

/* A proxy with a mandate that is not heard for so long can have lost it. */
#define KW_FENCE_SILENCE_US 1000000

struct kw_fence_facts {
	enum kw_sight_link link;
	bool seen; /* a superblock was read since the gateway began. Of the last one: */
	enum kw_source_state source;
	enum kw_term_standing term; /* of this connection or an earlier one */
	uint64_t silent_us;         /* since the READ began that showed the last heartbeat */
};

enum kw_sight_fence kw_sight_fence(const struct kw_fence_facts *facts);

const char *kw_gateway_state_name(enum kw_gateway_state state);

/* What is told of the reason besides its sentence. */
const struct kw_reason_row *kw_sight_row(enum kw_sight_reason reason);

/* The reason in words, for clients and for people. link_why: what the connection says of itself. */
#define KW_SIGHT_WORDS 320
void kw_sight_say(const struct kw_sight_verdict *verdict, enum kw_source_state source,
	const char *link_why, char words[KW_SIGHT_WORDS]);

#endif
