/*
 * The mandate: is the server that the proxy follows the primary, who says so, and since which term?
 *
 *   ┌──────┐
 *   │ NONE │  authority.by=none: nobody is asked, and every server counts
 *   └──────┘
 *   ┌─────────┐            confirmed               ┌───────────┐
 *   │ AWAITED │───────────────────────────────────▶│ CONFIRMED │  its term is published
 *   └─────────┘                                    └───────────┘
 *      │   ▲          ┌──────┐  not confirmed          │   ▲
 *      │   │          │ LOST │◀────────────────────────┘   │
 *      │   │          └──────┘──── confirmed ──────────────┘
 *      │   │            │  ▲                              │
 *      ▼   │            ▼  │                              │
 *   ┌───────────┐                                         │
 *   │ ELSEWHERE │──── confirmed ──────────────────────────┘
 *   └───────────┘  another server is the primary; also from CONFIRMED
 *
 * AWAITED: no server was confirmed since the proxy began. LOST: one was.
 *
 * Who says so is one of two: the sentinels (sentinel_view.h), or an operator by the key
 * authority.term. Both are judged anew whenever the proxy publishes, so no timer has to fire for a
 * mandate to end.
 *
 * Only a server that says itself that it is a primary is confirmed: its role and history are looked
 * at once a second, and a term must not begin before its history is told.
 *
 * Pure: no clock, no connection. The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_MANDATE_MANDATE_H
#define KW_PROXY_MANDATE_MANDATE_H

#include "base/error.h"
#include "base/sm.h"
#include "mandate/sentinel_view.h"
#include "table/history.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_MANDATE_LEASE_MS ((uint16_t)(KW_SENTINEL_LEASE_US / 1000))

enum kw_mandate_by {
	KW_MANDATE_BY_NONE,
	KW_MANDATE_BY_SENTINEL,
	KW_MANDATE_BY_OPERATOR,
};

/* The server that the proxy follows, as it was looked at last. */
struct kw_mandate_self {
	const char *run_id; /* "": none is followed yet */
	bool is_primary;    /* its role is master */
};

struct kw_mandate {
	struct kw_sm sm; /* enum kw_mandate_state */
	enum kw_mandate_by by;
	char name[KW_SENTINEL_NAME_MAX + 1]; /* sentinel.name */
	uint64_t domain;
	uint64_t operator_term;       /* authority.term; 0: not confirmed */
	struct kw_sentinel_view view; /* filled by sentinels.h */

	uint64_t term; /* of the last confirmation; before the first one that of the kept table */
	struct {
		uint64_t term; /* of a table that the process before left; 0: none, or it is over */
		uint64_t version; /* of the table when that term began */
	} kept;
	bool term_is_given; /* operator_term was given to this process, not to one before */
	uint64_t confirmations, losses;     /* how often it was confirmed, and lost again */
	uint64_t since_us;                  /* when it came into its state */
	struct kw_sentinel_verdict verdict; /* BY_SENTINEL: as judged last */
	char why[KW_ERROR_TEXT];            /* not confirmed: a sentence; otherwise "" */
};

/* name: as sentinels know the primary; "" with another `by`. */
void kw_mandate_init(
	struct kw_mandate *mandate, enum kw_mandate_by by, const char *name, uint64_t now_us);

/*
 * A table that the process before left goes on (table/keep.h), with the term that was confirmed
 * then. If it is of the same domain, the term has begun already, and with authority.by=operator a
 * lower one at the start is not believed: it was changed and not saved.
 */
void kw_mandate_keep(struct kw_mandate *mandate, const struct kw_history *history);

/* The operator gives another term while the proxy runs. It counts, also if it is lower. */
void kw_mandate_give_term(struct kw_mandate *mandate, uint64_t term);

/* Judge now. True: the state, the term or the sentence changed. */
bool kw_mandate_judge(
	struct kw_mandate *mandate, const struct kw_mandate_self *self, uint64_t now_us);

/*
 * Would it be confirmed now? Nothing changes by that. For what cannot wait for the next judgement:
 * the last one can be of before the process was stopped.
 */
bool kw_mandate_would_hold(
	const struct kw_mandate *mandate, const struct kw_mandate_self *self, uint64_t now_us);

static inline enum kw_mandate_state kw_mandate_state(const struct kw_mandate *mandate)
{
	return (enum kw_mandate_state)mandate->sm.state;
}

/* May the table claim to be live? */
static inline bool kw_mandate_holds(enum kw_mandate_state state)
{
	return state == KW_MANDATE_NONE || state == KW_MANDATE_CONFIRMED;
}

/*
 * Not confirmed, and that is as it should be: the server says that it is a replica, and a majority
 * names another one, or the operator has given no term to this one. As of the last judgement.
 */
bool kw_mandate_stands_by(const struct kw_mandate *mandate, const struct kw_mandate_self *self);

/*
 * Where the primary is, by a majority of the sentinels, after this scheme: "tcp://host:port".
 * False: no majority names one, or it names the run that is reached already ("": none is). One
 * sentinel can tell the name of a server and another one its number, so an address that differs is
 * no other server.
 */
bool kw_mandate_primary(const struct kw_mandate *mandate, const char *reached, const char *scheme,
	char *address, size_t room);

/* Into what is published with the table. version: of the table, as of now. */
void kw_mandate_tell(
	const struct kw_mandate *mandate, struct kw_history *history, uint64_t version);

#endif
