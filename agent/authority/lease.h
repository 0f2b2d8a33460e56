/*
 * Who writes to a local server? Exactly one agent may: two would delete each other's keys for ever.
 *
 * An agent's connection to the server is its lease, and the connection's name says so. CLIENT LIST
 * shows the names of all connections that live:
 *
 *   keywake-agent:writes:<16 hex>:NAME@HOST        the 16 digits are drawn when the agent starts
 *
 *   ┌───────┐ the name is set ┌────────┐ nobody else claims or writes ┌────────┐
 *   │ WAITS │────────────────▶│ CLAIMS │─────────────────────────────▶│ WRITES │
 *   └───────┘◀────────────────└────────┘                              └────────┘
 *              another writes, or claims and came first
 *
 * An agent sets the name first, and asks for the list after that. Of two agents that start at once,
 * at least one therefore sees the other, and an agent that sees another never goes on to WRITES. No
 * clock and no pause is needed for that.
 *
 * An agent that may not follow its table (history.h) has nothing to write. It goes back to WAITS,
 * and claims the server anew when that is over.
 *
 * A lease ends with its connection, so at once when its agent ends or is killed. A host that died
 * closes nothing. Its agent was asking INFO each second, so a connection that is idle for longer
 * than KW_LEASE_IDLE_S is dead. The next agent ends it by CLIENT KILL before it writes: whatever is
 * left of the former holder cannot write any more.
 *
 * The cursor says the holder, too. It is read back each second. An agent that finds the lease of
 * another one there has lost its own.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_AUTHORITY_LEASE_H
#define KW_AGENT_AUTHORITY_LEASE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_LEASE_TEXT 65  /* an agent's name, or its host's; what does not fit is cut */
#define KW_LEASE_NAME 192 /* the name of a connection */
#define KW_LEASE_IDLE_S 10
#define KW_LEASE_DEAD_MAX 8 /* more dead connections than these are not ended */

/* How far an agent's connection has come. */
enum kw_lease_stage {
	KW_LEASE_WAITS,
	KW_LEASE_CLAIMS,
	KW_LEASE_WRITES,
};

/* Zeroed: nobody. */
struct kw_lease_owner {
	uint64_t session;          /* drawn at random when the agent starts; 0: nobody */
	char agent[KW_LEASE_TEXT]; /* letters, digits, '.', '_' and '-' */
	char host[KW_LEASE_TEXT];
};

/* Other characters than those above become '_'. An empty name becomes "_". */
void kw_lease_owner_set(
	struct kw_lease_owner *owner, uint64_t session, const char *agent, const char *host);

/* The name of the owner's connection. */
void kw_lease_name(const struct kw_lease_owner *owner, enum kw_lease_stage stage,
	char name[static KW_LEASE_NAME]);

/* The same owner as text without spaces, for the cursor, and back. False: it is none. */
#define KW_LEASE_OWNER_TEXT (16 + 1 + 2 * KW_LEASE_TEXT)
void kw_lease_owner_text(const struct kw_lease_owner *owner, char text[static KW_LEASE_OWNER_TEXT]);
bool kw_lease_owner_parse(struct kw_slice text, struct kw_lease_owner *owner);

/* One agent that CLIENT LIST shows. */
struct kw_lease_seen {
	uint64_t id; /* of its connection; a server gives each number once in its life */
	uint64_t idle_s;
	enum kw_lease_stage stage;
	struct kw_lease_owner owner; /* session 0: an agent of a version without leases */
};

/* All agents that CLIENT LIST shows, as one of them sees them. */
struct kw_lease_survey {
	uint64_t own;                 /* this connection; 0: it does not show, or has no name */
	enum kw_lease_stage stage;    /* as the name of this connection says */
	struct kw_lease_seen writer;  /* the first other one that lives and writes; id 0: none */
	struct kw_lease_seen claimer; /* the same of those that claim: the lowest id */
	uint64_t dead[KW_LEASE_DEAD_MAX]; /* to be ended before this agent writes */
	size_t dead_count;
};

/* list: the answer to CLIENT LIST, of the server and so any bytes. */
void kw_lease_look(
	struct kw_lease_survey *survey, struct kw_slice list, const struct kw_lease_owner *me);

enum kw_lease_verdict {
	KW_LEASE_FREE,   /* this agent may write, once the dead are ended */
	KW_LEASE_TAKEN,  /* another agent writes */
	KW_LEASE_YIELD,  /* another agent claims, and came first or cannot see this one */
	KW_LEASE_AWAIT,  /* another agent claims, and came later: it gives way soon */
	KW_LEASE_UNSEEN, /* other agents cannot see this one: its connection has no such name */
};

enum kw_lease_verdict kw_lease_judge(const struct kw_lease_survey *survey);

/* The agent that TAKEN, YIELD and AWAIT speak of. */
const struct kw_lease_seen *kw_lease_other(const struct kw_lease_survey *survey);

/*
 * The cursor was read back. entered: whose it was when this agent began to write; found: whose it
 * is now. A cursor that nobody signed is of an agent of an earlier version, or of before.
 */
bool kw_lease_lost(const struct kw_lease_owner *me, const struct kw_lease_owner *entered,
	const struct kw_lease_owner *found);

/* "agent NAME on HOST writes to this server: …", with the remedy. */
void kw_lease_refusal(const struct kw_lease_owner *other, char *text, size_t room);

#endif
