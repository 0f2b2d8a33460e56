/*
 * Did others flush, or swap, databases of the local server?
 *
 * The server counts the calls of FLUSHALL, FLUSHDB and SWAPDB (INFO commandstats). Some of them are
 * our own. Those sent over a replication link are acknowledged some time after the server has made
 * them. So there are two numbers: what the server counts now (facts.h), and what is accounted for:
 *
 *     accounted  <=  counted by the server  <=  accounted + sent + unsure
 *
 * Other clients made any calls beyond that. CONFIG RESETSTAT makes the server count anew; facts.h
 * knows how often it did.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_LOCAL_FLUSHES_H
#define KW_AGENT_LOCAL_FLUSHES_H

#include "facts.h"
#include "key_counts.h"
#include "redis/counters.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_flushes {
	uint64_t accounted; /* of the server's count: others' that were seen, ours acknowledged */
	uint64_t asked;     /* accounted for when the last INFO was sent: that many it must show */
	uint64_t sent;      /* ours on a replication link, not acknowledged */
	uint64_t unsure;    /* ours of a link that ended: they might have been executed */
	struct kw_counter counter; /* what was accounted for at the last look */
};

/* Another server, or other data: its count is taken as it is. */
void kw_flushes_begin(struct kw_flushes *flushes, const struct kw_local_facts *facts);

/* The same data on a new connection: ours on their way count when they are acknowledged. */
void kw_flushes_continue(struct kw_flushes *flushes, const struct kw_local_facts *facts);

/* Can our own flushes alone explain the server's count? */
bool kw_flushes_explain(const struct kw_flushes *flushes, const struct kw_local_facts *facts);

/*
 * The facts were read again on the same connection. before: the keys of each database until then.
 * True: others flushed.
 */
bool kw_flushes_look(struct kw_flushes *flushes, const struct kw_local_facts *facts,
	const struct kw_key_counts *before);

/* INFO is sent now. */
void kw_flushes_asked(struct kw_flushes *flushes);

/* One of ours was acknowledged. */
void kw_flushes_acknowledged(struct kw_flushes *flushes);

/* So many of ours are on a link; the link ended with so many; they are not of these data. */
void kw_flushes_sent(struct kw_flushes *flushes, uint64_t count);
void kw_flushes_link_ended(struct kw_flushes *flushes, uint64_t count);
void kw_flushes_forget_link(struct kw_flushes *flushes);

#endif
