/*
 * May the local data go on with this table? The answer follows from two histories
 * (table/history.h): the one that the cursor says of the local data, and the one of the table.
 *
 *   SAME       the same replication id, whatever the proxy
 *   LINKED     the table's second id is the one of the data: its server was promoted, and went on
 *   RESTARTED  no link, but the proxy of before: its server started anew and lost its id
 *   UNKNOWN    one of both says nothing: a cursor or a proxy of before; the table is followed
 *   AWAITED    the proxy has not asked its primary yet
 *   FOREIGN    no link, and another proxy: another data set, as far as anybody can tell
 *
 * A link leads forward only, and over one promotion. Data that a promoted server went on with are
 * not linked to the table of the server of before: that one is deposed. Nor are two servers that
 * were promoted from the same one. An agent that follows all the time moves its cursor along with
 * the table, so it needs no longer link.
 *
 * A FOREIGN table is refused, in every apply mode and whatever apply.consent says. A person can
 * approve one table (the same id, and the same proxy), or apply.foreign=follow approves all.
 *
 * So does a higher term of the data's own domain, if the proxy is one of a list: who confirms the
 * primary knows better than a link that was missed. A single proxy must be linked: the name of a
 * Sentinel's primary is often the same in two deployments.
 *
 * The terms are judged beside the histories (term.h). A table that is not confirmed waits, whatever
 * its history is. A deposed one is refused; only a person can approve it, for one term. So is one
 * whose proxy asks nobody, if the data have a term.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_AUTHORITY_HISTORY_H
#define KW_AGENT_AUTHORITY_HISTORY_H

#include "table/history.h"
#include "term.h"

#include <stdbool.h>
#include <stddef.h>

enum kw_authority {
	KW_AUTHORITY_SAME,
	KW_AUTHORITY_LINKED,
	KW_AUTHORITY_RESTARTED,
	KW_AUTHORITY_UNKNOWN,
	KW_AUTHORITY_AWAITED,
	KW_AUTHORITY_FOREIGN,
};

/* apply.foreign */
enum kw_foreign {
	KW_FOREIGN_REFUSE,
	KW_FOREIGN_FOLLOW,
};

/* What may be done with a table. */
enum kw_permission {
	KW_PERMISSION_UNASKED, /* there is no table at present */
	KW_PERMISSION_GRANTED,
	KW_PERMISSION_AWAITED,     /* it ends by itself */
	KW_PERMISSION_UNCONFIRMED, /* the same: nobody confirms the proxy's server at present */
	KW_PERMISSION_RAISING, /* granted once the cursor says the table's term (sync/raise.c) */
	KW_PERMISSION_REFUSED, /* a person decides */
};

struct kw_authority_facts {
	const struct kw_history *data; /* of the local data, as their cursor says */
	const struct kw_term *term;    /* the same */
	const struct kw_history *table;
	const struct kw_history *approved; /* the table that a person has approved; NONE: none */
	enum kw_foreign foreign;
	bool listed; /* the operator listed the table's proxy as one of several of one primary */
};

enum kw_authority kw_authority_judge(const struct kw_history *data, const struct kw_history *table);
/* Never UNASKED or RAISING: these are the caller's. */
enum kw_permission kw_authority_permission(const struct kw_authority_facts *facts);

/* "same", "linked", … */
const char *kw_authority_name(enum kw_authority authority);

/* Has a person approved this table? With it the data may go back to a lower term. */
bool kw_authority_is_approved(const struct kw_authority_facts *facts);

/* The sentence for a FOREIGN table, with both data sets, their proxies and the remedy. */
void kw_authority_refusal(
	const struct kw_history *data, const struct kw_history *table, char *text, size_t room);

/* A history in a few words, for the log: the shortened id, and the proxy. */
#define KW_AUTHORITY_WORDS 128
void kw_authority_describe(const struct kw_history *history, char words[KW_AUTHORITY_WORDS]);

#endif
