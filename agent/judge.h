/*
 * The state of the agent, and the reason, from facts about its parts. agent.h draws the states.
 * Pure: the same facts give the same verdict, and nothing is changed. The words for a reason are
 * made in state.c. Any thread.
 */
#ifndef KW_AGENT_JUDGE_H
#define KW_AGENT_JUDGE_H

#include "authority/history.h"
#include "base/log.h"
#include "base/reason.h"
#include "functions/fact.h"
#include "local/unfit.h"
#include "sync/level.h"
#include "sync/phases.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_agent_state {
	KW_AGENT_CONNECTING,
	KW_AGENT_BOOTSTRAPPING,
	KW_AGENT_WARM,
	KW_AGENT_LAGGING,
	KW_AGENT_RECONCILING,
	KW_AGENT_STALLED,
	KW_AGENT_FAILED,
	KW_AGENT_HELD,
};

/* The connection to the proxy. */
enum kw_judge_proxy {
	KW_PROXY_HEARD,
	KW_PROXY_SILENT,     /* connected, but the heartbeat stopped: the proxy hangs */
	KW_PROXY_UNREADABLE, /* connected, but no superblock is known yet */
	KW_PROXY_AWAY,       /* not connected */
	/* The same, for a reason that a person must remove: */
	KW_PROXY_REFUSES,       /* it refuses this agent: key, name, certificate */
	KW_PROXY_FOREIGN,       /* it is none that this agent understands */
	KW_PROXY_MISCONFIGURED, /* its address cannot be used here */
};

/* The connection to the local server. */
enum kw_judge_local {
	KW_LOCAL_IS_READY, /* or the apply mode needs none */
	KW_LOCAL_IS_LOST,  /* the connection has just broken */
	KW_LOCAL_IS_AWAY,  /* not connected, or not looked at yet */
	KW_LOCAL_PASSES,   /* it must not be written to, but that ends by itself */
	KW_LOCAL_IS_UNFIT, /* it must not be written to */
};

/* What the local server does with what is handed on. */
enum kw_judge_writes {
	KW_WRITES_TAKEN,
	KW_WRITES_DELAYED,   /* trouble that passes: it is loading, or busy */
	KW_WRITES_REFUSED,   /* for a reason that passes */
	KW_WRITES_FORBIDDEN, /* the agent's user lacks permissions */
	KW_WRITES_READONLY,  /* the server is a replica of another server */
	KW_WRITES_FAILED,    /* trouble that only a person can mend */
};

/* What the audit knows of the local data. */
enum kw_judge_audit {
	KW_AUDIT_TRUSTS,  /* nothing against them */
	KW_AUDIT_DIFFERS, /* some keys differ from the table */
	KW_AUDIT_DOUBTS,  /* many might: all are compared */
};

struct kw_judge_facts {
	enum kw_judge_proxy proxy;
	enum kw_judge_local local;
	enum kw_unfit unfit; /* if it must not be written to */
	enum kw_judge_writes writes;
	enum kw_source_state source;
	enum kw_permission permission; /* to follow the table */
	enum kw_level_table table;
	bool unsaved; /* the cursor cannot be written */
	bool damaged; /* the table does not verify, however often it is read */

	enum kw_sync_phase phase;
	enum kw_sync_obstacle obstacle;
	enum kw_sync_purpose purpose;
	enum kw_sync_data data;
	enum kw_sync_equality equality;
	enum kw_judge_audit audit;
	enum kw_functions_fact functions;
	bool paused;
	bool limited;       /* apply.bytes_per_second holds back what is read */
	bool held;          /* deletions wait for approval */
	bool settled;       /* level since the last snapshot began */
	uint64_t snapshots; /* begun since the agent started */

	uint64_t owed;        /* values that did not fit into the server's memory */
	uint64_t evicted;     /* keys that the server evicted since the last snapshot began */
	uint64_t foreign;     /* calls by which other clients wrote since then */
	uint64_t quarantined; /* keys that the server refused for good */
};

/* In the order in which they are looked for: the first that applies is the reason. */
enum kw_reason {
	KW_REASON_PROXY_REFUSES,
	KW_REASON_PROXY_FOREIGN,
	KW_REASON_PROXY_MISCONFIGURED,
	KW_REASON_LOCAL_WAITS,
	KW_REASON_LOCAL_REFUSES, /* from here on in the order of enum kw_unfit */
	KW_REASON_LOCAL_TAKEN,
	KW_REASON_LOCAL_YIELDED,
	KW_REASON_LOCAL_REPLICA,
	KW_REASON_LOCAL_UNSUPPORTED,
	KW_REASON_LOCAL_FORBIDS,
	KW_REASON_LOCAL_CURSOR,
	KW_REASON_DAMAGED,
	KW_REASON_NO_CONSENT,
	KW_REASON_OTHER_DATA,
	KW_REASON_DEPOSED,
	KW_REASON_UNFENCED, /* the data have a term, and the proxy asks nobody */
	KW_REASON_TABLE_UNFIT,
	KW_REASON_PRUNE_FORBIDDEN,
	KW_REASON_WRITES_FAILED,
	KW_REASON_WRITES_READONLY,
	KW_REASON_WRITES_FORBIDDEN,

	KW_REASON_PROXY_AWAY,
	KW_REASON_PROXY_UNREADABLE,
	KW_REASON_LOCAL_AWAY,
	KW_REASON_LOCAL_LOST,

	KW_REASON_PAUSED,
	KW_REASON_PROXY_SILENT,
	KW_REASON_UNCONFIRMED,    /* nobody confirms the proxy's server as the primary */
	KW_REASON_PRIMARY_SILENT, /* it is connected to the proxy, and does not answer */
	KW_REASON_PRIMARY_DOWN,
	KW_REASON_PRIMARY_NOT_REACHED,
	KW_REASON_RAISING, /* the cursor must say the table's term first */
	KW_REASON_WRITES_REFUSED,
	KW_REASON_WRITES_DELAYED,
	KW_REASON_OWED,

	KW_REASON_HELD,
	KW_REASON_WAITING, /* WAIT, COUNT, CLAIM */
	KW_REASON_SNAPSHOT,
	KW_REASON_SETTLE,
	KW_REASON_PRUNE,
	KW_REASON_INCOMPLETE,

	KW_REASON_EVICTED,
	KW_REASON_FOREIGN,
	KW_REASON_QUARANTINED,
	KW_REASON_DIFFERS,
	KW_REASON_DOUBTED,
	KW_REASON_FUNCTIONS_REFUSED,
	KW_REASON_FUNCTIONS_HELD,
	KW_REASON_TABLE_RECONCILES,
	KW_REASON_TABLE_LACKS,
	KW_REASON_TABLE_HELD,
	KW_REASON_TABLE_UNKNOWN, /* a state of a later proxy */
	KW_REASON_TABLE_UNFRESH,
	KW_REASON_TABLE_BEHIND,
	KW_REASON_UNPROVEN,
	KW_REASON_LIMITED, /* and in SNAPSHOT */
	KW_REASON_CATCHING_UP,
	KW_REASON_BEHIND,
	KW_REASON_FUNCTIONS_LATE,
	KW_REASON_RECOVERING, /* nothing is wrong any more, but the agent was FAILED until now */
	KW_REASON_UNSAVED,    /* WARM, but a restart would begin further back */
	KW_REASON_NONE,       /* WARM */
};

struct kw_verdict {
	enum kw_agent_state state;
	enum kw_reason reason;
};

/* reasons.c: what is told of the reason besides its sentence. */
const struct kw_reason_row *kw_agent_reason_row(enum kw_reason reason);

/* How a line of the log says that the agent is in this state. */
enum kw_log_level kw_agent_state_level(enum kw_agent_state state);

/* before: the present state. */
struct kw_verdict kw_judge(const struct kw_judge_facts *facts, enum kw_agent_state before);

#endif
