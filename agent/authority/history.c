#include "history.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 8 /* digits of an id: enough to tell two apart by eye */

/* Servers show zeros for no id. None of ours is empty and equal to another empty one. */
static bool is_same_id(const char *a, const char *b)
{
	return kw_history_is_id(a) && strcmp(a, b) == 0;
}

static bool is_same_proxy(const struct kw_history *a, const struct kw_history *b)
{
	return a->proxy != 0 && a->proxy == b->proxy;
}

enum kw_authority kw_authority_judge(const struct kw_history *data, const struct kw_history *table)
{
	assert(data->standing != KW_HISTORY_AWAITED);
	if (table->standing == KW_HISTORY_AWAITED)
		return KW_AUTHORITY_AWAITED;
	if (table->standing == KW_HISTORY_NONE || data->standing == KW_HISTORY_NONE)
		return KW_AUTHORITY_UNKNOWN;
	if (is_same_id(table->replid, data->replid))
		return KW_AUTHORITY_SAME;
	if (is_same_id(table->replid2, data->replid))
		return KW_AUTHORITY_LINKED;
	return is_same_proxy(data, table) ? KW_AUTHORITY_RESTARTED : KW_AUTHORITY_FOREIGN;
}

/* An approval is for one data set of one proxy, and not for what stands there later. */
bool kw_authority_is_approved(const struct kw_authority_facts *facts)
{
	const struct kw_history *approved = facts->approved, *table = facts->table;

	return approved->standing != KW_HISTORY_NONE &&
	       strcmp(approved->replid, table->replid) == 0 && is_same_proxy(approved, table) &&
	       (!kw_term_refuses(kw_term_judge(facts->term, table)) ||
		       (approved->domain == table->domain && approved->term == table->term));
}

/*
 * No id links them, but the same authority says that it goes on there. A higher term: a promotion
 * was missed. An equal one: Sentinel has one primary in each, so that was started anew. An operator
 * can give one term to two servers by mistake, and a Sentinel that is set up again begins with 0
 * for any server.
 */
static bool is_successor(const struct kw_authority_facts *facts)
{
	const struct kw_history *table = facts->table;
	const struct kw_term *term = facts->term;

	if (!facts->listed || term->domain == 0 || term->domain != table->domain)
		return false;
	return table->term > term->term ||
	       (table->term == term->term && table->term > 0 &&
		       table->domain != kw_mandate_domain("operator", ""));
}

enum kw_permission kw_authority_permission(const struct kw_authority_facts *facts)
{
	enum kw_authority relation = kw_authority_judge(facts->data, facts->table);
	enum kw_term_standing standing = kw_term_judge(facts->term, facts->table);

	if (standing == KW_TERM_UNCONFIRMED)
		return KW_PERMISSION_UNCONFIRMED;
	if (kw_term_refuses(standing) && !kw_authority_is_approved(facts))
		return relation == KW_AUTHORITY_AWAITED ? KW_PERMISSION_AWAITED
							: KW_PERMISSION_REFUSED;
	switch (relation) {
	case KW_AUTHORITY_SAME:
	case KW_AUTHORITY_LINKED:
	case KW_AUTHORITY_RESTARTED:
	case KW_AUTHORITY_UNKNOWN:
		return KW_PERMISSION_GRANTED;
	case KW_AUTHORITY_AWAITED:
		return KW_PERMISSION_AWAITED;
	case KW_AUTHORITY_FOREIGN:
		break;
	}
	return facts->foreign == KW_FOREIGN_FOLLOW || is_successor(facts) ||
			       kw_authority_is_approved(facts)
		       ? KW_PERMISSION_GRANTED
		       : KW_PERMISSION_REFUSED;
}

const char *kw_authority_name(enum kw_authority authority)
{
	static const char *const names[] = {
		[KW_AUTHORITY_SAME] = "same",
		[KW_AUTHORITY_LINKED] = "linked",
		[KW_AUTHORITY_RESTARTED] = "restarted",
		[KW_AUTHORITY_UNKNOWN] = "unknown",
		[KW_AUTHORITY_AWAITED] = "awaited",
		[KW_AUTHORITY_FOREIGN] = "foreign",
	};

	assert((size_t)authority < sizeof names / sizeof *names);
	return names[authority];
}

void kw_authority_describe(const struct kw_history *history, char words[KW_AUTHORITY_WORDS])
{
	const char *id = history->replid[0] ? history->replid : "none told";

	if (history->standing == KW_HISTORY_NONE)
		snprintf(words, KW_AUTHORITY_WORDS, "history unknown");
	else
		snprintf(words, KW_AUTHORITY_WORDS, "history %.*s of proxy %s",
			history->replid[0] ? SHOWN : (int)strlen(id), id, history->proxy_name);
}

void kw_authority_refusal(
	const struct kw_history *data, const struct kw_history *table, char *text, size_t room)
{
	char ours[KW_AUTHORITY_WORDS], theirs[KW_AUTHORITY_WORDS];
	bool deposed = is_same_id(data->replid2, table->replid);

	assert(kw_authority_judge(data, table) == KW_AUTHORITY_FOREIGN);
	kw_authority_describe(data, ours);
	kw_authority_describe(table, theirs);
	snprintf(text, room,
		"this table follows another data set: it has %s, the local data have %s%s; "
		"nothing is touched: send the agent back to its proxy, or let it replace the local "
		"data with `keywakectl approve`",
		theirs, ours,
		deposed ? " (a promotion came between: that server may be deposed)" : "");
}
