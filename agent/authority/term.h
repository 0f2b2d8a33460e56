/*
 * The fence: data of a term never go on with a table of a lower one.
 *
 * A table can tell a term: Redis Sentinel or an operator confirmed its server as the primary, and
 * counts the primaries of its domain (table/history.h). The cursor keeps the highest term that the
 * agent accepted. So an agent that was killed still knows, when it starts again, that a server of a
 * lower term was deposed.
 *
 *   UNASKED       the proxy asks nobody, and the data have no term: only the histories are judged
 *   UNFENCED      the proxy asks nobody, and the data have a term
 *   UNCONFIRMED   nobody confirms the proxy's server at present; that ends by itself
 *   DEPOSED       the same domain, and a lower term than the data have
 *   CURRENT       nothing is lower. The cursor may have to say the table's term first
 *
 * Terms of two domains cannot be compared. A table of another domain is CURRENT, and the cursor
 * then says its term.
 *
 * UNFENCED is refused like DEPOSED. A line of the configuration that was lost at the proxy of a
 * deposed primary looks the same as an operator who switched Sentinel off, so a person decides.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_AUTHORITY_TERM_H
#define KW_AGENT_AUTHORITY_TERM_H

#include "table/history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* domain 0: no term was accepted yet. Sentinel begins with term 0, which is a term. */
struct kw_term {
	uint64_t domain, term;
};

enum kw_term_standing {
	KW_TERM_UNASKED,
	KW_TERM_UNFENCED,
	KW_TERM_UNCONFIRMED,
	KW_TERM_DEPOSED,
	KW_TERM_CURRENT,
};

/* data: the highest term that was accepted with the local data. */
enum kw_term_standing kw_term_judge(const struct kw_term *data, const struct kw_history *table);

/* May the data go on with the table only if a person approves it? */
static inline bool kw_term_refuses(enum kw_term_standing standing)
{
	return standing == KW_TERM_UNFENCED || standing == KW_TERM_DEPOSED;
}

/*
 * What the cursor must say before the first record of this table is applied. It is higher than
 * `data`, or of another domain, or the same: also for a table that is not CURRENT.
 */
struct kw_term kw_term_raised(const struct kw_term *data, const struct kw_history *table);

/* A person approved this table: its term counts from now on, also if it is lower or none. */
struct kw_term kw_term_approved(const struct kw_term *data, const struct kw_history *table);

static inline bool kw_term_equal(const struct kw_term *a, const struct kw_term *b)
{
	return a->domain == b->domain && a->term == b->term;
}

/* The sentence for a table that is refused, with the terms and the remedy. */
void kw_term_refusal(
	const struct kw_term *data, const struct kw_history *table, char *text, size_t room);

/* The sentence for an UNCONFIRMED table. */
void kw_term_unconfirmed(const struct kw_history *table, char *text, size_t room);

#endif
