/*
 * The plan of a planned switch-over without Sentinel: what is known of the daemons, where to begin,
 * what each step asks, and what a failure of it means. Pure: nothing is asked here.
 *
 *   ┌───────────┐ fence ┌────────┐ barrier ┌───────┐ reconcile ┌──────────┐ verify ┌────────┐
 *   │ PREFLIGHT │──────▶│ FENCED │────────▶│ LEVEL │──────────▶│ COMPARED │───────▶│ PROVEN │
 *   └───────────┘       └────────┘         └───────┘           └──────────┘        └────────┘
 *         │ refused          │ failed          │ failed             │ failed        │    │ term 0
 *         ▼                  ▼                 ▼                    ▼               ▼    ▼
 *   ┌────────┐         ┌─────────────────────────────────────────────────────┐   ┌─────────┐
 *   │ REFUSED│         │ UNDONE: writes go on at the old primary             │◀──│ DEPOSED │
 *   └────────┘         └─────────────────────────────────────────────────────┘   └─────────┘
 *                                                                                     │ let go
 *   ┌────────────┐ each agent    ┌───────────┐           term + 1               ┌──────────┐
 *   │ RETARGETED │◀──────────────│ CONFIRMED │◀─────────────────────────────────│ PROMOTED │
 *   └────────────┘ follows       └───────────┘                                  └──────────┘
 *
 * COMPARED: the old proxy reads its primary once more, and its table has what that has. PROVEN: the
 * agent's data are those of the table. Both ends of the way are at rest behind the fence, so each
 * write that was acknowledged is at the new server, whatever events told.
 *
 *   STOPPED: a step after DEPOSED failed. A person goes on, or the command does when it is run
 * again.
 *
 * The plan is kept nowhere: the terms of the two proxies tell how far a run before came.
 *
 *   old  new   agent of the new server
 *    T    0    any              nothing was done, or all of it was undone: PREFLIGHT
 *    0    0    is there         deposed, and not promoted. The old primary may have been written to
 *                               since its fence ended: it gets its term back, and PREFLIGHT follows
 *    0    0    gone, or its     PROMOTED
 *              server promoted
 *    0    N    any              CONFIRMED
 *    T    N    any              refused: two primaries are confirmed, and a person decides
 *
 * The caller owns all structs. Any thread.
 */
#ifndef KW_CTL_SWITCHOVER_PLAN_H
#define KW_CTL_SWITCHOVER_PLAN_H

#include "base/error.h"
#include "base/sm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kw_switchover_state {
	KW_SWITCHOVER_PREFLIGHT,
	KW_SWITCHOVER_FENCED,
	KW_SWITCHOVER_LEVEL,
	KW_SWITCHOVER_COMPARED,
	KW_SWITCHOVER_PROVEN,
	KW_SWITCHOVER_DEPOSED,
	KW_SWITCHOVER_PROMOTED,
	KW_SWITCHOVER_CONFIRMED,
	KW_SWITCHOVER_RETARGETED,
	KW_SWITCHOVER_REFUSED,
	KW_SWITCHOVER_UNDONE,
	KW_SWITCHOVER_STOPPED,
};

/* One step: by it the state before it becomes `state`. */
struct kw_switchover_step {
	const char *asks;  /* what is asked, of whom */
	const char *stops; /* what would stop it */
	const char *undo;  /* how it is undone; "" from DEPOSED on: it is not */
};

/* state: FENCED to RETARGETED. */
const struct kw_switchover_step *kw_switchover_step(enum kw_switchover_state state);
const char *kw_switchover_name(enum kw_switchover_state state);

/* What is known of a proxy. Texts are the caller's. */
struct kw_switchover_proxy {
	bool reached;
	bool by_operator;     /* authority.by */
	bool saves;           /* control.saved_file is set */
	bool live;            /* its state */
	bool primary;         /* its server says that it is one */
	uint64_t term;        /* authority.term */
	uint64_t last_term;   /* of the last confirmation in this run of it */
	const char *identity; /* history.proxy */
	const char *run_id;   /* of its server; "": not known */
	const char *why;      /* not reached, or the reason of its state */
};

enum kw_switchover_mode {
	KW_SWITCHOVER_COMMANDS, /* the new server is a primary as soon as the agent has ended */
	KW_SWITCHOVER_REPLICA,  /* it must be promoted */
	KW_SWITCHOVER_DISCARD,  /* the agent writes nothing */
};

/* What is known of an agent. */
struct kw_switchover_agent {
	bool reached;
	bool warm;
	bool saves;
	bool listed; /* it has several proxies: it goes along by itself */
	enum kw_switchover_mode mode;
	uint64_t term;       /* that its data have */
	int64_t proven_s;    /* since when the audit has compared every key; -1: never */
	const char *follows; /* history.table.proxy */
	const char *run_id;  /* of its server */
	const char *why;
};

#define KW_SWITCHOVER_AGENTS 16

struct kw_switchover_facts {
	struct kw_switchover_proxy from, to;
	struct kw_switchover_agent agent;                        /* beside the new primary */
	struct kw_switchover_agent others[KW_SWITCHOVER_AGENTS]; /* to be retargeted */
	size_t other_count;
	bool own_fence;    /* --fence-command: the proxy is not asked */
	bool addressed;    /* --proxy is given */
	int64_t audit_age; /* --audit-age, seconds; -1: verify proves it */
};

/* Where to begin. */
struct kw_switchover_start {
	enum kw_switchover_state state; /* PREFLIGHT, PROMOTED, CONFIRMED, or REFUSED */
	bool give_back;          /* PREFLIGHT: the old primary gets `from` as its term first */
	uint64_t from, to;       /* terms; from is 0 when it is not known and not needed */
	char why[KW_ERROR_TEXT]; /* REFUSED: the sentence */
};

void kw_switchover_begin(
	const struct kw_switchover_facts *facts, struct kw_switchover_start *start);

/* What must hold before anything is changed. */
struct kw_switchover_check {
	const char *what;
	bool ok;
	bool passing;            /* not ok, and that may pass by itself */
	char why[KW_ERROR_TEXT]; /* not ok: the sentence, with the remedy */
};

#define KW_SWITCHOVER_CHECKS (10 + KW_SWITCHOVER_AGENTS)

/* In the order in which they are shown. start: of this begin. Returns how many there are. */
size_t kw_switchover_check(const struct kw_switchover_facts *facts,
	const struct kw_switchover_start *start,
	struct kw_switchover_check checks[KW_SWITCHOVER_CHECKS]);

/* The first check that does not hold; NULL: all do. */
const struct kw_switchover_check *kw_switchover_stop(
	const struct kw_switchover_check *checks, size_t count);

/* The step that comes after this state did not succeed: UNDONE or STOPPED. */
enum kw_switchover_state kw_switchover_failed(enum kw_switchover_state state);

/* STOPPED after this state, or RETARGETED: what a person does next. */
void kw_switchover_by_hand(enum kw_switchover_state state, const struct kw_switchover_start *start,
	char *text, size_t room);

/* The machine of a run. It begins in start->state, which is not REFUSED. */
void kw_switchover_init(struct kw_sm *sm, const struct kw_switchover_start *start);

#endif
