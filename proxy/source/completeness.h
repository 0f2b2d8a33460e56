/*
 * Completeness: what the table may claim, judged from what is known. Pure: no clock, no memory of
 * its own. The source collects the facts once a loop turn and does what the claim says.
 *
 *   ┌──────┐ a sweep ended,     ┌───────┐ one ended without ┌───────┐ no key waits ┌──────────┐
 *   │ NONE │ left some in doubt │ SWEPT │ doubt, or a third │ SOUND │ for room     │ COMPLETE │
 *   └──────┘───────────────────▶└───────┘──────────────────▶└───────┘─────────────▶└──────────┘
 *       └──────────── a sweep ended without doubt ──────────────▲
 *
 * A table is not complete, and its state is not live, while the server that is followed is a
 * replica without its own primary: what it holds can be anything, or nothing.
 *
 * Nor is it live while the primary does not answer (silence.h): what it does meanwhile is not
 * known.
 *
 * Nor is the state live while nobody confirms the server as the primary (mandate/mandate.h). If it
 * is a replica, its table is complete all the same, and ready for the moment of its promotion.
 *
 * A table that the process before had completed is complete from the start, and one sweep counts as
 * ended: what the primary did meanwhile is a doubt, and leads to RECONCILING.
 *
 * Completeness never goes back: later losses are told by the source's state. A table that holds
 * something is worth more to an agent than none.
 */
#ifndef KW_PROXY_SOURCE_COMPLETENESS_H
#define KW_PROXY_SOURCE_COMPLETENESS_H

#include "base/reason.h"
#include "mandate/mandate.h"
#include "table/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * After so many sweeps the table is sound even if doubt came up during each of them. Without this
 * bound, agents would wait for ever if doubt never ended.
 */
#define KW_SWEEPS_TO_BE_SOUND 3

enum kw_completeness {
	KW_COMPLETENESS_NONE,  /* no sweep has ended */
	KW_COMPLETENESS_SWEPT, /* sweeps ended, and each left databases in doubt */
	KW_COMPLETENESS_SOUND, /* nothing was left in doubt, but keys have waited for room since */
	KW_COMPLETENESS_COMPLETE, /* … and all keys had room: the superblock may say so */
};

/* Can the primary be followed? */
enum kw_reach {
	KW_REACH_UNTRIED, /* no attempt to connect has failed yet, and none has succeeded */
	KW_REACH_DOWN,
	KW_REACH_REFUSED, /* down, for a reason that a person must mend */
	KW_REACH_UP,
};

/*
 * Is a sweep under way that the table needs? An audit is not: it finds differences that were not in
 * doubt.
 */
enum kw_mending {
	KW_MENDING_NONE,
	KW_MENDING_UNDER_WAY,
};

/* A server that is a replica: does it follow its own primary? */
enum kw_chain {
	KW_CHAIN_WHOLE,  /* yes, or it is no replica */
	KW_CHAIN_SILENT, /* nothing comes over its link */
	KW_CHAIN_CUT,    /* its link is down, or its data are being replaced */
};

/* Does the server answer -BUSY, because a script runs for too long? */
enum kw_script {
	KW_SCRIPT_NONE,
	KW_SCRIPT_BUSY,
};

/* Is the server a primary that is not confirmed? Then nothing is read from it (fence.h). */
enum kw_fence {
	KW_FENCE_OPEN,
	KW_FENCE_CLOSED,
};

struct kw_facts {
	enum kw_reach reach;
	enum kw_mending mending;
	uint64_t sweeps_ended; /* first scans and reconciles */
	uint64_t sweeps_clean; /* of them, those at whose end no database was in doubt */
	bool kept;             /* sweeps had ended before this process began: keep.h */
	uint64_t missing;      /* keys whose deletion the brake holds back; 0: it is off */
	uint64_t whole;        /* … of so many that the primary should have */
	double max_missing;    /* source.max_missing */
	uint64_t waiting;      /* keys that wait for room in the table */
	uint64_t unreadable;   /* keys at which the connection breaks */
	uint64_t too_large;    /* keys that the table can never hold */
	enum kw_chain chain;
	enum kw_script script;
	uint64_t silent_s; /* the primary does not answer for so long (silence.h); 0: it does */
	enum kw_mandate_state mandate;
	enum kw_fence fence;
	bool stands_by;  /* not confirmed, as a replica of the primary is not (mandate/mandate.h) */
	uint32_t beyond; /* a database with keys, from KW_DATABASES_MOST on; 0: none */
};

/* Why the state is what it is; the source makes a sentence of it. */
enum kw_claim_cause {
	KW_CLAIM_NOTHING_WRONG,
	KW_CLAIM_NOT_CONNECTED,
	KW_CLAIM_REFUSED, /* the same, because of what the server is, or what it forbids */
	KW_CLAIM_BUSY,
	KW_CLAIM_SILENT,
	KW_CLAIM_CHAIN_CUT,
	KW_CLAIM_UNCONFIRMED,
	KW_CLAIM_STANDBY, /* the same, and all is well */
	KW_CLAIM_HELD,
	KW_CLAIM_NO_ROOM,
	KW_CLAIM_MENDING,
	KW_CLAIM_UNREADABLE,
	KW_CLAIM_TOO_LARGE,
	KW_CLAIM_BEYOND,
};

struct kw_claim {
	enum kw_source_state state;
	enum kw_claim_cause cause;
	enum kw_completeness completeness;
};

/* reasons.c: what is told of the cause besides its sentence. */
const struct kw_reason_row *kw_claim_row(enum kw_claim_cause cause);

/* The sentences of others that a reason quotes. */
struct kw_claim_words {
	const char *down;    /* why the connection was given up */
	const char *refused; /* why the table has no room; NULL: the limit is reached */
	const char *sweep;   /* why the sweep under way began */
	const char *mandate; /* why the server is not confirmed as the primary */
};

/* `before` is the completeness that was claimed last; KW_COMPLETENESS_NONE at first. */
struct kw_claim kw_claim_judge(const struct kw_facts *facts, enum kw_completeness before);

/* The reason as a sentence for people; "" if nothing is wrong. */
void kw_claim_explain(enum kw_claim_cause cause, const struct kw_facts *facts,
	const struct kw_claim_words *words, char *reason, size_t bytes);

#endif
