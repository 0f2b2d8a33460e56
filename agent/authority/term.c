#include "term.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum kw_term_standing kw_term_judge(const struct kw_term *data, const struct kw_history *table)
{
	switch (table->mandate) {
	case KW_MANDATE_NONE:
		return data->domain ? KW_TERM_UNFENCED : KW_TERM_UNASKED;
	case KW_MANDATE_CONFIRMED:
		break;
	case KW_MANDATE_AWAITED:
	case KW_MANDATE_LOST:
	case KW_MANDATE_ELSEWHERE:
		return KW_TERM_UNCONFIRMED;
	}
	return data->domain == table->domain && table->term < data->term ? KW_TERM_DEPOSED
									 : KW_TERM_CURRENT;
}

struct kw_term kw_term_raised(const struct kw_term *data, const struct kw_history *table)
{
	if (kw_term_judge(data, table) != KW_TERM_CURRENT)
		return *data;
	return (struct kw_term){table->domain, table->term};
}

struct kw_term kw_term_approved(const struct kw_term *data, const struct kw_history *table)
{
	if (!kw_term_refuses(kw_term_judge(data, table)))
		return kw_term_raised(data, table);
	return (struct kw_term){table->domain, table->term};
}

void kw_term_refusal(
	const struct kw_term *data, const struct kw_history *table, char *text, size_t room)
{
	enum kw_term_standing standing = kw_term_judge(data, table);

	assert(kw_term_refuses(standing));
	if (standing == KW_TERM_UNFENCED) {
		snprintf(text, room,
			"proxy %s asks nobody whether its server is the primary, and the local "
			"data are of term %" PRIu64 ": that server may be deposed; nothing is "
			"touched: give the proxy its authority.by back; if nobody shall be asked "
			"any more, say so once with `keywakectl approve`",
			table->proxy_name, data->term);
		return;
	}
	snprintf(text, room,
		"this table is of term %" PRIu64 " (proxy %s), the local data have term %" PRIu64
		": its server was deposed; nothing is touched: send the agent to the proxy of the "
		"present primary; if the terms began anew (Sentinel was set up again), let this "
		"table replace the local data with `keywakectl approve`",
		table->term, table->proxy_name, data->term);
}

void kw_term_unconfirmed(const struct kw_history *table, char *text, size_t room)
{
	switch (table->mandate) {
	case KW_MANDATE_AWAITED:
		snprintf(text, room,
			"the proxy's server is not confirmed as the primary yet: the proxy waits "
			"for that");
		break;
	case KW_MANDATE_ELSEWHERE:
		snprintf(text, room,
			"another server is the primary now (this one was, in term %" PRIu64
			"): nothing is read from its proxy until it is confirmed again",
			table->term);
		break;
	case KW_MANDATE_NONE:
	case KW_MANDATE_CONFIRMED:
	case KW_MANDATE_LOST:
		snprintf(text, room,
			"the proxy's server is no longer confirmed as the primary (term %" PRIu64
			"): nothing is read from its proxy until it is confirmed again; see the "
			"proxy's status",
			table->term);
		break;
	}
}
