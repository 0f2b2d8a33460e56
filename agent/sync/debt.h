/*
 * Data that the local server lacks although all of it was handed on, and when a reconcile must
 * bring them:
 *
 *   - values that did not fit into the server's memory (owed). A reconcile follows when all that
 *     came after them is applied, deletes included, because those make room;
 *   - keys that the server evicted by itself. A reconcile follows when it has evicted nothing for a
 *     while: to read everything again costs much, and is of no use while it goes on evicting;
 *   - keys that other clients wrote, or may have. An audit mends them. Without an audit the same
 *     holds as for evicted keys: the reconcile waits until the others have stopped.
 *
 * All pauses grow from one reconcile to the next while the trouble lasts. If the server can evict,
 * the first `warm` after a snapshot waits until it was asked whether it kept all of it. Pure; one
 * thread.
 */
#ifndef KW_AGENT_SYNC_DEBT_H
#define KW_AGENT_SYNC_DEBT_H

#include "base/backoff.h"
#include "redis/counters.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_debt_due {
	KW_DEBT_NONE,    /* nothing is owed, or not yet due */
	KW_DEBT_MEMORY,  /* values that did not fit */
	KW_DEBT_EVICTED, /* keys that the server evicted */
	KW_DEBT_FOREIGN, /* keys that other clients wrote */
};

/* What the server or other clients do to the data, as a count of the server tells. */
struct kw_debt_stray {
	struct kw_counter counter;
	uint64_t count; /* since the last snapshot began */
	uint64_t ever;
	uint64_t seen_us;  /* our clock when the last of them were found */
	uint64_t pause_us; /* a reconcile follows so long after that */
	struct kw_backoff backoff;
	bool audited; /* no reconcile follows: an audit finds and mends all of it */
};

/* One look at the server's counts. */
struct kw_debt_counts {
	uint64_t evicted; /* keys */
	uint64_t foreign; /* calls of commands that write, without those of agents */
	uint64_t own; /* calls among `foreign` that this agent made since the last look, at most */
	uint64_t resets;
};

struct kw_debt {
	struct kw_debt_stray evicted, foreign;

	uint64_t owed_us; /* the reconcile for owed values is due then; 0: not yet planned */
	struct kw_backoff owing;

	uint64_t doubted; /* keys that an audit knows to differ, and one for a round that it owes */

	uint64_t question; /* the INFO that says whether the snapshot was kept; 0: not asked */
};

void kw_debt_init(struct kw_debt *debt);

/* The server was looked at anew: these are its counts now. */
void kw_debt_assess(struct kw_debt *debt, const struct kw_debt_counts *counts);

/* A snapshot begins: it brings all of it. */
void kw_debt_forgive(struct kw_debt *debt);

/* What has begun, which the log should say. */
struct kw_debt_begun {
	bool evicting, writing;
};

/* The server's counts were read again. */
struct kw_debt_begun kw_debt_count(
	struct kw_debt *debt, const struct kw_debt_counts *counts, uint64_t now_us);

/* An audit mends what other clients wrote, or it does not any more; it has done so. */
void kw_debt_audits(struct kw_debt *debt, bool audits);
void kw_debt_audited(struct kw_debt *debt);

/*
 * So much an audit doubts. It finds it out or mends it, so nothing follows from it here. But a
 * cursor that is written meanwhile must not speak for these keys.
 */
void kw_debt_doubt(struct kw_debt *debt, uint64_t doubted);

/* How many keys may be wrong although their changes are applied. */
uint64_t kw_debt_wrong(const struct kw_debt *debt);

/*
 * Is a reconcile due? Ask repeatedly: the first question plans it. owed: values that did not fit.
 * acknowledged: all that was handed on is acknowledged.
 */
enum kw_debt_due kw_debt_due(
	struct kw_debt *debt, uint64_t owed, bool acknowledged, uint64_t now_us);

/* The local data are level and nothing is owed: the next pause is a short one again. */
void kw_debt_settled(struct kw_debt *debt);

/* The INFO with this number will say whether the snapshot was kept. */
void kw_debt_ask(struct kw_debt *debt, uint64_t question);

/* Was a server that can evict asked, and did it answer? answered: the last INFO that was. */
bool kw_debt_kept(const struct kw_debt *debt, uint64_t answered);

#endif
