#include "sight.h"

#include <inttypes.h>
#include <stdio.h>

static struct kw_sight_verdict say(
	enum kw_gateway_state state, enum kw_sight_reason reason, uint64_t age_us)
{
	return (struct kw_sight_verdict){state, reason, age_us};
}

/* The estimate of the proxy's clock can be a little behind it. */
static uint64_t age_of(const struct kw_sight_facts *facts)
{
	if (!facts->seen || facts->now_us == 0 || facts->fresh_us == 0 ||
		facts->fresh_us > facts->heartbeat_us)
		return KW_SIGHT_AGE_UNKNOWN;
	return facts->now_us > facts->fresh_us ? facts->now_us - facts->fresh_us : 0;
}

struct kw_sight_verdict kw_sight_judge(const struct kw_sight_facts *facts)
{
	uint64_t age_us = age_of(facts);

	if (facts->link == KW_SIGHT_HOPELESS)
		return say(KW_GATEWAY_FAILED, KW_SIGHT_REFUSED, age_us);
	if (facts->link == KW_SIGHT_AWAY)
		return say(KW_GATEWAY_CONNECTING, KW_SIGHT_UNCONNECTED, age_us);
	if (!facts->seen)
		return say(KW_GATEWAY_CONNECTING, KW_SIGHT_UNSEEN, age_us);
	if (facts->term == KW_TERM_UNCONFIRMED || facts->source == KW_SOURCE_UNCONFIRMED)
		return say(KW_GATEWAY_STALE, KW_SIGHT_UNCONFIRMED, age_us);
	if (facts->term == KW_TERM_DEPOSED)
		return say(KW_GATEWAY_STALE, KW_SIGHT_DEPOSED, age_us);
	if (facts->term == KW_TERM_UNFENCED)
		return say(KW_GATEWAY_STALE, KW_SIGHT_UNFENCED, age_us);
	if (!facts->complete)
		return say(KW_GATEWAY_LOADING, KW_SIGHT_INCOMPLETE, age_us);
	if (age_us == KW_SIGHT_AGE_UNKNOWN)
		return say(KW_GATEWAY_STALE, KW_SIGHT_UNFRESH, age_us);
	if (age_us > facts->max_staleness_us)
		return say(KW_GATEWAY_STALE, KW_SIGHT_OLD, age_us);
	return say(KW_GATEWAY_SERVING, KW_SIGHT_NONE, age_us);
}

enum kw_sight_fence kw_sight_fence(const struct kw_fence_facts *facts)
{
	if (!facts->seen)
		return KW_FENCE_CLOSED;
	if (facts->term == KW_TERM_UNASKED && facts->source != KW_SOURCE_UNCONFIRMED)
		return KW_FENCE_OPEN;
	if (facts->term != KW_TERM_CURRENT || facts->source == KW_SOURCE_UNCONFIRMED ||
		facts->link != KW_SIGHT_UP || facts->silent_us > KW_FENCE_SILENCE_US)
		return KW_FENCE_CLOSED;
	return KW_FENCE_NAMED;
}

const char *kw_gateway_state_name(enum kw_gateway_state state)
{
	switch (state) {
	case KW_GATEWAY_CONNECTING:
		return "connecting";
	case KW_GATEWAY_LOADING:
		return "loading";
	case KW_GATEWAY_SERVING:
		return "serving";
	case KW_GATEWAY_STALE:
		return "stale";
	case KW_GATEWAY_FAILED:
		return "failed";
	}
	return "?";
}

/* The reasons of the gateway: deploy/doc/operate.md has them in the same words. */
static const struct kw_reason_row reasons[] = {
	[KW_SIGHT_NONE] = {"none", KW_GRADE_GOOD, "Nothing is wrong: serving.", ""},
	[KW_SIGHT_REFUSED] = {"proxy_refuses", KW_GRADE_BAD,
		"The proxy refuses this gateway, or is none that it understands.",
		"Do what the reason says."},
	[KW_SIGHT_UNCONNECTED] = {"proxy_away", KW_GRADE_BAD,
		"There is no connection to the proxy.",
		"Start the proxy, or mend the network. The gateway tries again by itself."},
	[KW_SIGHT_UNSEEN] = {"table_unread", KW_GRADE_PASSING,
		"The proxy's table was not read yet.", "Wait."},
	[KW_SIGHT_UNCONFIRMED] = {"unconfirmed", KW_GRADE_BAD,
		"Nobody confirms the proxy's server as the primary.",
		"See mandate in keywakectl status --all of the proxy, or keywakectl retarget to "
		"another one."},
	[KW_SIGHT_DEPOSED] = {"primary_deposed", KW_GRADE_BAD,
		"A table of a higher term was seen before.",
		"Send it to the present primary's proxy, or restart it if the terms began anew."},
	[KW_SIGHT_UNFENCED] = {"mandate_missing", KW_GRADE_BAD,
		"A table with a mandate was seen before, and this proxy asks nobody.",
		"Give the proxy its authority.by back, or restart the gateway."},
	[KW_SIGHT_INCOMPLETE] = {"table_incomplete", KW_GRADE_PASSING,
		"The proxy is still reading the primary.", "Wait."},
	[KW_SIGHT_UNFRESH] = {"age_unknown", KW_GRADE_BAD,
		"The proxy does not know how fresh its table is.",
		"See keywakectl status of the proxy."},
	[KW_SIGHT_OLD] = {"table_old", KW_GRADE_BAD,
		"The table is older than gateway.max_staleness_ms.",
		"See keywakectl status of the proxy: it or its primary does not keep up."},
};

const struct kw_reason_row *kw_sight_row(enum kw_sight_reason reason)
{
	return &reasons[reason];
}

/* Why a table does not get any fresher. */
static const char *trouble(enum kw_source_state source)
{
	switch (source) {
	case KW_SOURCE_DOWN:
		return "its proxy does not reach the primary";
	case KW_SOURCE_FULL:
		return "its proxy's memory is full";
	case KW_SOURCE_RECONCILING:
		return "its proxy compares it with the primary";
	case KW_SOURCE_HELD:
		return "deletions wait for approval at its proxy";
	case KW_SOURCE_UNCONFIRMED:
		return "no majority confirms its server as the primary";
	case KW_SOURCE_STALLED:
		return "the primary does not answer its proxy";
	case KW_SOURCE_CONNECTING:
	case KW_SOURCE_SCANNING:
		return "its proxy has not read the primary yet";
	case KW_SOURCE_LIVE:
		break;
	}
	return "the primary or the proxy does not keep up, or has stopped";
}

void kw_sight_say(const struct kw_sight_verdict *verdict, enum kw_source_state source,
	const char *link_why, char words[KW_SIGHT_WORDS])
{
	switch (verdict->reason) {
	case KW_SIGHT_NONE:
		words[0] = '\0';
		break;
	case KW_SIGHT_REFUSED:
	case KW_SIGHT_UNCONNECTED:
		snprintf(words, KW_SIGHT_WORDS, "no connection to the proxy: %.256s", link_why);
		break;
	case KW_SIGHT_UNSEEN:
		snprintf(words, KW_SIGHT_WORDS, "the proxy's table has not been read yet");
		break;
	case KW_SIGHT_UNCONFIRMED:
		snprintf(words, KW_SIGHT_WORDS,
			"the proxy's server is not confirmed as the primary: see the proxy's "
			"status");
		break;
	case KW_SIGHT_DEPOSED:
		snprintf(words, KW_SIGHT_WORDS,
			"the proxy's server was deposed: this gateway has seen a higher term; send "
			"it to the present primary's proxy, or restart it if the terms began anew");
		break;
	case KW_SIGHT_UNFENCED:
		snprintf(words, KW_SIGHT_WORDS,
			"the proxy asks nobody whether its server is the primary, and this gateway "
			"has seen one that does: give the proxy its authority.by back, or restart "
			"the gateway if nobody shall be asked any more");
		break;
	case KW_SIGHT_INCOMPLETE:
		snprintf(words, KW_SIGHT_WORDS, "the proxy is reading the primary");
		break;
	case KW_SIGHT_UNFRESH:
		snprintf(words, KW_SIGHT_WORDS, "the age of the table is unknown: %s",
			trouble(source));
		break;
	case KW_SIGHT_OLD:
		snprintf(words, KW_SIGHT_WORDS, "the table is %" PRIu64 " ms old: %s",
			verdict->age_us / 1000, trouble(source));
		break;
	}
}
