/*
 * Whose server is it? The answer follows from what the local server says and what this agent
 * remembers.
 *
 *   FREE       no agent has led this server: only consent decides whether it may be taken
 *   OURS       it follows this agent, or waits for an agent to come, or was sent nowhere by one
 *   RESTARTED  a primary that started from data of an agent's replica: ours to take again
 *   PROMOTED   another client made it a primary: later writes must not be replaced
 *   ELSEWHERE  it follows another primary
 *
 * PROMOTED and ELSEWHERE can be an operator's failover. Such a server is left alone until the
 * operator asks for a resync, whatever apply.consent says.
 *
 * The evidence is what a server shows of its past (replication.c of the servers):
 *   - A replica has the replication id of the primary that it was synced from. The ids that agents
 *     make begin with KW_REPLID_MARK.
 *   - A promoted server makes an id of its own and keeps the former one as its second. It forgets
 *     the second after repl-backlog-ttl.
 *   - A server saves its present id into its RDB. When it starts from that RDB as a primary, it
 *     shows the saved id as its second. An AOF holds no id.
 *   - The cursor names the run of the server in which an agent wrote it, and the bond at that time.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_PRIMARY_OWNERSHIP_H
#define KW_AGENT_PRIMARY_OWNERSHIP_H

#include "local/facts.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Where a takeover sends a replica for a moment, to end the connection that it has (takeover.h). No
 * connection succeeds there, on whatever host. If the agent dies then, the server stays there.
 */
#define KW_NOWHERE_HOST "127.0.0.1"
#define KW_NOWHERE_PORT "0"

enum kw_ownership {
	KW_OWNERSHIP_FREE,
	KW_OWNERSHIP_OURS,
	KW_OWNERSHIP_RESTARTED,
	KW_OWNERSHIP_PROMOTED,
	KW_OWNERSHIP_ELSEWHERE,
};

/* What this agent has seen of the server. Zeroed memory remembers nothing. */
struct kw_ownership_memory {
	/*
	 * The replication id and the run of the server when it was last seen RESTARTED, and not led
	 * since. "": never.
	 */
	char restarted_replid[41], restarted_run[41];
	uint64_t seen_us; /* our clock when it was last seen as a primary to take; 0: led since */
};

/*
 * If a server was seen as a primary so lately and restarted since, it was not promoted in between:
 * a failover takes longer.
 */
#define KW_OWNERSHIP_LATELY_US 10000000

/*
 * A server that this agent has just found: it has not led it yet on this data. host and port are
 * where this agent waits for its replica; port 0: it does not listen yet.
 */
enum kw_ownership kw_ownership_found(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, const char *host, uint16_t port, uint64_t now_us);

/* A server that this agent has made its replica: OURS, or PROMOTED or ELSEWHERE since then. */
enum kw_ownership kw_ownership_led(
	const struct kw_local_facts *facts, const char *host, uint16_t port);

/*
 * Why it is PROMOTED: does its RDB show that it was saved under an id of another primary? Then the
 * server was promoted and restarted while no agent watched.
 */
bool kw_ownership_saved_by_others(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, uint64_t now_us);

/* May an agent take the server without an operator's word? (Consent is another matter.) */
static inline bool kw_ownership_may_take(enum kw_ownership ownership)
{
	return ownership <= KW_OWNERSHIP_RESTARTED;
}

/* Found, and about to be taken: remember what distinguishes its next restart from a promotion. */
void kw_ownership_remember(struct kw_ownership_memory *memory, const struct kw_local_facts *facts,
	enum kw_ownership ownership, uint64_t now_us);

/* It follows this agent now: earlier observations no longer count. */
void kw_ownership_forget(struct kw_ownership_memory *memory);

const char *kw_ownership_name(enum kw_ownership ownership);

#endif
