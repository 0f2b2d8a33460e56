#include "mandate/mandate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool holds(const void *owner, int state)
{
	const struct kw_mandate *mandate = owner;

	if (state == KW_MANDATE_NONE)
		return mandate->by == KW_MANDATE_BY_NONE && mandate->domain == 0;
	return mandate->by != KW_MANDATE_BY_NONE && mandate->domain != 0 &&
	       (state != KW_MANDATE_CONFIRMED || mandate->confirmations > 0);
}

static const struct kw_sm_state states[] = {
	[KW_MANDATE_NONE] = {"none", 0, KW_SM_INITIAL | KW_SM_FINAL},
	[KW_MANDATE_AWAITED] = {"awaited",
		KW_SM_TO(KW_MANDATE_CONFIRMED) | KW_SM_TO(KW_MANDATE_ELSEWHERE), KW_SM_INITIAL},
	[KW_MANDATE_CONFIRMED] = {"confirmed",
		KW_SM_TO(KW_MANDATE_LOST) | KW_SM_TO(KW_MANDATE_ELSEWHERE)},
	[KW_MANDATE_LOST] = {"lost",
		KW_SM_TO(KW_MANDATE_CONFIRMED) | KW_SM_TO(KW_MANDATE_ELSEWHERE), KW_SM_FAILURE},
	[KW_MANDATE_ELSEWHERE] = {"elsewhere", KW_SM_TO(KW_MANDATE_CONFIRMED) |
						       KW_SM_TO(KW_MANDATE_LOST) |
						       KW_SM_TO(KW_MANDATE_AWAITED)},
};

static const struct kw_sm_conf machine = {"mandate", states, KW_MANDATE_ELSEWHERE + 1, holds};

void kw_mandate_init(
	struct kw_mandate *mandate, enum kw_mandate_by by, const char *name, uint64_t now_us)
{
	*mandate = (struct kw_mandate){.by = by, .since_us = now_us};
	snprintf(mandate->name, sizeof mandate->name, "%s", name);
	if (by == KW_MANDATE_BY_SENTINEL)
		mandate->domain = kw_mandate_domain("sentinel", name);
	else if (by == KW_MANDATE_BY_OPERATOR)
		mandate->domain = kw_mandate_domain("operator", "");
	kw_sm_init(&mandate->sm, &machine, mandate,
		by == KW_MANDATE_BY_NONE ? KW_MANDATE_NONE : KW_MANDATE_AWAITED);
}

void kw_mandate_keep(struct kw_mandate *mandate, const struct kw_history *history)
{
	if (mandate->domain == 0 || history->domain != mandate->domain || history->term == 0)
		return;
	mandate->term = mandate->kept.term = history->term;
	mandate->kept.version = history->term_version;
}

void kw_mandate_give_term(struct kw_mandate *mandate, uint64_t term)
{
	mandate->operator_term = term;
	mandate->term_is_given = true;
}

/* A judgement: the next state, with its term if it is CONFIRMED. */
struct finding {
	enum kw_mandate_state state;
	uint64_t term;
};

static enum kw_mandate_state unconfirmed(const struct kw_mandate *mandate)
{
	return mandate->confirmations > 0 ? KW_MANDATE_LOST : KW_MANDATE_AWAITED;
}

static const char REPLICA[] =
	"the server followed says that it is a replica: waiting until it says that it is the "
	"primary";

/* The term at the start is lower than what was confirmed before: it was changed, and not saved. */
static bool is_term_lost(const struct kw_mandate *mandate)
{
	return !mandate->term_is_given && mandate->operator_term > 0 &&
	       mandate->operator_term < mandate->kept.term;
}

static struct finding ask_operator(
	const struct kw_mandate *mandate, const struct kw_mandate_self *self, char *why)
{
	if (is_term_lost(mandate))
		snprintf(why, KW_ERROR_TEXT,
			"authority.term is %llu at the start, but term %llu was the last one that "
			"counted here: if this server is the primary, set authority.term to %llu "
			"or higher, and save it (config set ... --save)",
			(unsigned long long)mandate->operator_term,
			(unsigned long long)mandate->kept.term,
			(unsigned long long)mandate->kept.term);
	else if (mandate->operator_term == 0 && mandate->term > 0)
		snprintf(why, KW_ERROR_TEXT,
			"no term is given to this server (term %llu was the last one that counted "
			"here): if it is the primary, set authority.term, to a higher one if "
			"another server was the primary meanwhile",
			(unsigned long long)mandate->term);
	else if (mandate->operator_term == 0)
		snprintf(why, KW_ERROR_TEXT,
			"no term is given to this server: if it is the primary, set "
			"authority.term higher than that of the one before");
	else if (!self->run_id[0])
		snprintf(why, KW_ERROR_TEXT, "authority.term is %llu, but no server is reached yet",
			(unsigned long long)mandate->operator_term);
	else if (!self->is_primary)
		snprintf(why, KW_ERROR_TEXT, "authority.term is %llu, but %s",
			(unsigned long long)mandate->operator_term, REPLICA);
	else
		return (struct finding){KW_MANDATE_CONFIRMED, mandate->operator_term};
	return (struct finding){unconfirmed(mandate), 0};
}

static void say_another(const struct kw_mandate *mandate, char *why)
{
	const struct kw_sentinel_verdict *verdict = &mandate->verdict;
	const struct kw_sentinel_primary *primary = &verdict->primary;

	snprintf(why, KW_ERROR_TEXT,
		"Sentinel says that the primary of %.60s is %.100s:%u (run_id %.8s, term %llu): "
		"this server is not, or was started anew and Sentinel has not looked since",
		mandate->name, primary->host, primary->port,
		primary->run_id[0] ? primary->run_id : "not known yet",
		(unsigned long long)verdict->epoch);
}

static void say_votes(const struct kw_mandate *mandate, char *why)
{
	const struct kw_sentinel_verdict *verdict = &mandate->verdict;

	if (verdict->finding == KW_SENTINEL_SILENT && verdict->listed > 0 &&
		verdict->voters > verdict->listed)
		snprintf(why, KW_ERROR_TEXT,
			"only %u of %u sentinels answered within %u ms, and more than half must: "
			"sentinel.addresses has %u of them, and no others are asked; name all of "
			"them there",
			verdict->answered, verdict->voters, KW_MANDATE_LEASE_MS, verdict->listed);
	else if (verdict->finding == KW_SENTINEL_SILENT)
		snprintf(why, KW_ERROR_TEXT,
			"only %u of %u sentinels answered within %u ms, and more than half must: "
			"see `sentinels` in status for those that do not",
			verdict->answered, verdict->voters, KW_MANDATE_LEASE_MS);
	else if (verdict->naming * 2 > verdict->voters)
		snprintf(why, KW_ERROR_TEXT,
			"Sentinel fails %.60s over: one sentinel has a newer term than the others",
			mandate->name);
	else
		snprintf(why, KW_ERROR_TEXT,
			"%u of %u sentinels name this server as the primary of %.60s, and more "
			"than half must: waiting until they agree",
			verdict->naming, verdict->voters, mandate->name);
}

static struct finding ask_sentinels(
	struct kw_mandate *mandate, const struct kw_mandate_self *self, uint64_t now_us, char *why)
{
	mandate->verdict = kw_sentinel_view_judge(&mandate->view, self->run_id, now_us);
	if (!self->run_id[0]) {
		if (mandate->verdict.finding == KW_SENTINEL_SILENT)
			say_votes(mandate, why);
		else
			snprintf(why, KW_ERROR_TEXT, "no server is followed yet");
		return (struct finding){unconfirmed(mandate), 0};
	}
	switch (mandate->verdict.finding) {
	case KW_SENTINEL_OURS:
		if (self->is_primary)
			return (struct finding){KW_MANDATE_CONFIRMED, mandate->verdict.epoch};
		snprintf(why, KW_ERROR_TEXT, "Sentinel names this server, but %s", REPLICA);
		break;
	case KW_SENTINEL_ANOTHER:
		say_another(mandate, why);
		return (struct finding){KW_MANDATE_ELSEWHERE, 0};
	case KW_SENTINEL_DIVIDED:
	case KW_SENTINEL_SILENT:
		say_votes(mandate, why);
		break;
	}
	return (struct finding){unconfirmed(mandate), 0};
}

bool kw_mandate_judge(
	struct kw_mandate *mandate, const struct kw_mandate_self *self, uint64_t now_us)
{
	enum kw_mandate_state before = kw_mandate_state(mandate);
	struct finding found;
	char why[KW_ERROR_TEXT] = "";
	bool changed;

	if (mandate->by == KW_MANDATE_BY_NONE)
		return false;
	found = mandate->by == KW_MANDATE_BY_OPERATOR ? ask_operator(mandate, self, why)
						      : ask_sentinels(mandate, self, now_us, why);
	changed = found.state != before || strcmp(why, mandate->why) != 0;
	if (found.state == KW_MANDATE_CONFIRMED) {
		changed |= found.term != mandate->term;
		mandate->term = found.term;
		if (found.term != mandate->kept.term)
			mandate->kept.term = 0;
		mandate->confirmations += before != KW_MANDATE_CONFIRMED;
	}
	mandate->losses += before == KW_MANDATE_CONFIRMED && found.state != before;
	if (found.state != before)
		mandate->since_us = now_us;
	memcpy(mandate->why, why, sizeof why);
	kw_sm_move(&mandate->sm, found.state, why);
	return changed;
}

bool kw_mandate_would_hold(
	const struct kw_mandate *mandate, const struct kw_mandate_self *self, uint64_t now_us)
{
	switch (mandate->by) {
	case KW_MANDATE_BY_NONE:
		break;
	case KW_MANDATE_BY_OPERATOR:
		return mandate->operator_term > 0 && !is_term_lost(mandate) && self->is_primary;
	case KW_MANDATE_BY_SENTINEL:
		return self->run_id[0] && self->is_primary &&
		       kw_sentinel_view_judge(&mandate->view, self->run_id, now_us).finding ==
			       KW_SENTINEL_OURS;
	}
	return true;
}

bool kw_mandate_stands_by(const struct kw_mandate *mandate, const struct kw_mandate_self *self)
{
	if (!self->run_id[0] || self->is_primary)
		return false;
	return mandate->by == KW_MANDATE_BY_OPERATOR
		       ? mandate->operator_term == 0
		       : kw_mandate_state(mandate) == KW_MANDATE_ELSEWHERE;
}

bool kw_mandate_primary(const struct kw_mandate *mandate, const char *reached, const char *scheme,
	char *address, size_t room)
{
	const struct kw_sentinel_primary *primary = &mandate->verdict.primary;
	bool six = strchr(primary->host, ':') != NULL;

	if (!mandate->verdict.named || (*reached && strcmp(reached, primary->run_id) == 0))
		return false;
	snprintf(address, room, "%s%s%s%s:%u", scheme, six ? "[" : "", primary->host,
		six ? "]" : "", primary->port);
	return true;
}

void kw_mandate_tell(const struct kw_mandate *mandate, struct kw_history *history, uint64_t version)
{
	if (mandate->by == KW_MANDATE_BY_NONE)
		return;
	if (history->domain != mandate->domain || history->term != mandate->term ||
		(history->mandate == KW_MANDATE_AWAITED && mandate->confirmations > 0))
		history->term_version = mandate->kept.term > 0 ? mandate->kept.version : version;
	history->mandate = kw_mandate_state(mandate);
	history->term = mandate->term;
	history->domain = mandate->domain;
	history->lease_ms = KW_MANDATE_LEASE_MS;
}
