#include "ownership.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_primary(const struct kw_local_facts *facts)
{
	return strcmp(facts->identity.role, "master") == 0;
}

static bool is_at(const struct kw_local_facts *facts, const char *host, uint64_t port)
{
	return strcmp(facts->identity.role, "slave") == 0 && facts->master_port == port &&
	       strcmp(facts->master_host, host) == 0;
}

/* This agent, or nowhere in the midst of a takeover. */
static bool follows(const struct kw_local_facts *facts, const char *host, uint16_t port)
{
	return is_at(facts, host, port) ||
	       is_at(facts, KW_NOWHERE_HOST, strtoull(KW_NOWHERE_PORT, NULL, 10));
}

/* Its data were written while an agent led it: the cursor in them says so. */
static bool has_data_of_an_agent(const struct kw_local_facts *facts)
{
	const struct kw_local_cursor *cursor = &facts->cursor;

	return facts->cursor_kind == KW_CURSOR_OURS && cursor->bond == KW_BOND_LED &&
	       cursor->version > 0;
}

static bool is_run_of_the_cursor(const struct kw_local_facts *facts)
{
	return strcmp(facts->cursor.run_id, facts->identity.run_id) == 0;
}

static bool has_restarted(const struct kw_local_facts *facts)
{
	return has_data_of_an_agent(facts) && !is_run_of_the_cursor(facts);
}

/* A server without a second id shows zeros. */
static bool has_no_second_id(const struct kw_local_facts *facts)
{
	return facts->replid2[strspn(facts->replid2, "0")] == '\0';
}

/*
 * This agent saw the server in this run, or in the run before it, restarted and led by no agent.
 * Its saved data then name the id it had taken, or none, because it had no replica. A server that
 * was seen a moment ago can have restarted several times. But it was up for no longer than the
 * agent needs to connect, and a failover takes longer.
 */
static bool was_seen_restarted(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, uint64_t now_us)
{
	if (strcmp(facts->identity.run_id, memory->restarted_run) == 0)
		return true;
	if (memory->seen_us && now_us - memory->seen_us < KW_OWNERSHIP_LATELY_US)
		return true;
	return memory->restarted_replid[0] != '\0' &&
	       (has_no_second_id(facts) || strcmp(facts->replid2, memory->restarted_replid) == 0);
}

bool kw_ownership_saved_by_others(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, uint64_t now_us)
{
	return has_restarted(facts) && !facts->aof && !kw_local_replid_ours(facts->replid2) &&
	       !was_seen_restarted(facts, memory, now_us);
}

/* An agent led it, and it is not led any more; a mere restart does not explain that. */
static bool was_taken_from_an_agent(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, uint64_t now_us)
{
	if (facts->cursor_kind != KW_CURSOR_OURS)
		return false;
	if (facts->cursor.bond == KW_BOND_PROMOTED)
		return true;
	return kw_ownership_saved_by_others(facts, memory, now_us) ||
	       (has_data_of_an_agent(facts) && is_run_of_the_cursor(facts));
}

static enum kw_ownership found_primary(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, uint64_t now_us)
{
	if (was_taken_from_an_agent(facts, memory, now_us))
		return KW_OWNERSHIP_PROMOTED;
	return has_restarted(facts) ? KW_OWNERSHIP_RESTARTED : KW_OWNERSHIP_FREE;
}

/*
 * A replica with another id than an agent's follows another primary if that link is up. A link that
 * is down can be the one to an agent that was killed before its first snapshot was loaded.
 */
static enum kw_ownership found_replica(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, uint64_t now_us)
{
	if (kw_local_replid_ours(facts->identity.replid))
		return KW_OWNERSHIP_OURS;
	if (facts->master_link_up || was_taken_from_an_agent(facts, memory, now_us))
		return KW_OWNERSHIP_ELSEWHERE;
	return KW_OWNERSHIP_FREE;
}

enum kw_ownership kw_ownership_found(const struct kw_local_facts *facts,
	const struct kw_ownership_memory *memory, const char *host, uint16_t port, uint64_t now_us)
{
	enum kw_ownership ownership;

	assert(facts && memory && host);
	assert(memory->seen_us <= now_us);
	if (is_primary(facts))
		ownership = found_primary(facts, memory, now_us);
	else if (follows(facts, host, port))
		ownership = KW_OWNERSHIP_OURS;
	else
		ownership = found_replica(facts, memory, now_us);
	/* A primary never follows this agent, and only a primary has restarted or was promoted. */
	assert(ownership != KW_OWNERSHIP_OURS || !is_primary(facts));
	assert(ownership != KW_OWNERSHIP_ELSEWHERE || !is_primary(facts));
	assert(ownership != KW_OWNERSHIP_RESTARTED || is_primary(facts));
	assert(ownership != KW_OWNERSHIP_PROMOTED || is_primary(facts));
	return ownership;
}

enum kw_ownership kw_ownership_led(
	const struct kw_local_facts *facts, const char *host, uint16_t port)
{
	assert(facts && host);
	assert(port > 0); /* no server follows an agent that does not listen */
	if (follows(facts, host, port))
		return KW_OWNERSHIP_OURS;
	return is_primary(facts) ? KW_OWNERSHIP_PROMOTED : KW_OWNERSHIP_ELSEWHERE;
}

void kw_ownership_remember(struct kw_ownership_memory *memory, const struct kw_local_facts *facts,
	enum kw_ownership ownership, uint64_t now_us)
{
	assert(memory->seen_us <= now_us);
	if (!is_primary(facts))
		return;
	memory->seen_us = now_us;
	if (ownership != KW_OWNERSHIP_RESTARTED)
		return;
	/* What this server saves from now on, and starts from the next time, names this id. */
	snprintf(memory->restarted_replid, sizeof memory->restarted_replid, "%s",
		facts->identity.replid);
	snprintf(memory->restarted_run, sizeof memory->restarted_run, "%s", facts->identity.run_id);
}

void kw_ownership_forget(struct kw_ownership_memory *memory)
{
	/* The run is kept: no other run will have the same id. */
	memory->restarted_replid[0] = '\0';
	memory->seen_us = 0;
	assert(memory->restarted_replid[0] == '\0' && memory->seen_us == 0);
}

const char *kw_ownership_name(enum kw_ownership ownership)
{
	static const char *const names[] = {
		[KW_OWNERSHIP_FREE] = "free",
		[KW_OWNERSHIP_OURS] = "ours",
		[KW_OWNERSHIP_RESTARTED] = "restarted",
		[KW_OWNERSHIP_PROMOTED] = "promoted",
		[KW_OWNERSHIP_ELSEWHERE] = "elsewhere",
	};

	assert(ownership <= KW_OWNERSHIP_ELSEWHERE);
	return names[ownership];
}
