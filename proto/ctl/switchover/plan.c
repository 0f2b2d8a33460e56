#include "ctl/switchover/plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FAILED (KW_SM_TO(KW_SWITCHOVER_UNDONE))
#define STUCK (KW_SM_TO(KW_SWITCHOVER_STOPPED))

static const struct kw_sm_state states[] = {
	[KW_SWITCHOVER_PREFLIGHT] = {"preflight",
		KW_SM_TO(KW_SWITCHOVER_FENCED) | KW_SM_TO(KW_SWITCHOVER_REFUSED) | FAILED,
		KW_SM_INITIAL},
	[KW_SWITCHOVER_FENCED] = {"fenced", KW_SM_TO(KW_SWITCHOVER_LEVEL) | FAILED},
	[KW_SWITCHOVER_LEVEL] = {"level", KW_SM_TO(KW_SWITCHOVER_COMPARED) | FAILED},
	[KW_SWITCHOVER_COMPARED] = {"compared", KW_SM_TO(KW_SWITCHOVER_PROVEN) | FAILED},
	[KW_SWITCHOVER_PROVEN] = {"proven", KW_SM_TO(KW_SWITCHOVER_DEPOSED) | FAILED},
	[KW_SWITCHOVER_DEPOSED] = {"deposed", KW_SM_TO(KW_SWITCHOVER_PROMOTED) | STUCK},
	[KW_SWITCHOVER_PROMOTED] = {"promoted", KW_SM_TO(KW_SWITCHOVER_CONFIRMED) | STUCK,
		KW_SM_INITIAL},
	[KW_SWITCHOVER_CONFIRMED] = {"confirmed", KW_SM_TO(KW_SWITCHOVER_RETARGETED) | STUCK,
		KW_SM_INITIAL},
	[KW_SWITCHOVER_RETARGETED] = {"retargeted", 0, KW_SM_FINAL},
	[KW_SWITCHOVER_REFUSED] = {"refused", 0, KW_SM_FINAL | KW_SM_FAILURE},
	[KW_SWITCHOVER_UNDONE] = {"undone", 0, KW_SM_FINAL | KW_SM_FAILURE},
	[KW_SWITCHOVER_STOPPED] = {"stopped", 0, KW_SM_FINAL | KW_SM_FAILURE},
};

static const struct kw_sm_conf machine = {"switchover", states, KW_SWITCHOVER_STOPPED + 1, NULL};

static const struct kw_switchover_step steps[] = {
	[KW_SWITCHOVER_FENCED] = {"the old proxy, that its primary lets all writes wait",
		"its user may not do it (deploy/acl/primary-switchover.acl)",
		"writes go on (CLIENT UNPAUSE), at the latest when the pause ends"},
	[KW_SWITCHOVER_LEVEL] = {"the agent, whether all that was written before the fence is in",
		"it is not level and warm within --timeout", "writes go on"},
	[KW_SWITCHOVER_COMPARED] = {"the old proxy, to compare its table with all keys of its "
				    "primary, at full speed",
		"that is not over within --timeout, or the proxy is not live after it",
		"writes go on"},
	[KW_SWITCHOVER_PROVEN] = {"the agent, whether its data are equal (verify, or --audit-age)",
		"a key differs", "writes go on"},
	[KW_SWITCHOVER_DEPOSED] = {"the old proxy, for authority.term 0, saved",
		"it cannot save that", "its term again, and writes go on"},
	[KW_SWITCHOVER_PROMOTED] = {"the old proxy for a longer fence, and the agent to let its "
				    "server go",
		"the agent does not end", ""},
	[KW_SWITCHOVER_CONFIRMED] = {"the new proxy for the next authority.term, saved",
		"its server does not say that it is a primary", ""},
	[KW_SWITCHOVER_RETARGETED] = {"each other agent without a list for the new proxy, saved",
		"an agent does not come to the new term within --timeout", ""},
};

const struct kw_switchover_step *kw_switchover_step(enum kw_switchover_state state)
{
	assert(state >= KW_SWITCHOVER_FENCED && state <= KW_SWITCHOVER_RETARGETED);
	return &steps[state];
}

const char *kw_switchover_name(enum kw_switchover_state state)
{
	assert((size_t)state < sizeof states / sizeof *states);
	return states[state].name;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The highest term that anybody knows. */
static uint64_t last_term(const struct kw_switchover_facts *facts)
{
	uint64_t last = higher(higher(facts->from.term, facts->from.last_term),
		higher(facts->to.term, facts->to.last_term));

	last = higher(last, facts->agent.term);
	for (size_t i = 0; i < facts->other_count; i++)
		last = higher(last, facts->others[i].term);
	return last;
}

/* Both terms are 0. Did the agent let its server go? */
static bool was_promoted(const struct kw_switchover_facts *facts)
{
	return !facts->agent.reached ||
	       (facts->agent.mode == KW_SWITCHOVER_REPLICA && facts->to.primary);
}

static enum kw_switchover_state where(
	const struct kw_switchover_facts *facts, struct kw_switchover_start *start)
{
	if (facts->from.term > 0 && facts->to.term > 0) {
		snprintf(start->why, sizeof start->why,
			"both proxies have a term (%" PRIu64 " and %" PRIu64
			"), so two primaries may be confirmed: set authority.term to 0, with "
			"--save, at the one whose server is not the primary",
			facts->from.term, facts->to.term);
		return KW_SWITCHOVER_REFUSED;
	}
	if (facts->to.term > 0)
		return KW_SWITCHOVER_CONFIRMED;
	if (facts->from.term > 0)
		return KW_SWITCHOVER_PREFLIGHT;
	if (start->from == 0) {
		snprintf(start->why, sizeof start->why,
			"neither proxy has a term, and no daemon knows the last one: set "
			"authority.term, with --save, at the proxy of the primary");
		return KW_SWITCHOVER_REFUSED;
	}
	if (was_promoted(facts))
		return KW_SWITCHOVER_PROMOTED;
	start->give_back = true;
	return KW_SWITCHOVER_PREFLIGHT;
}

void kw_switchover_begin(const struct kw_switchover_facts *facts, struct kw_switchover_start *start)
{
	uint64_t last = last_term(facts);

	*start = (struct kw_switchover_start){.from = last, .to = last + 1};
	if (!facts->from.reached && !(facts->to.reached && facts->to.term > 0)) {
		snprintf(start->why, sizeof start->why,
			"%s (a failover without it is done by hand: see \"Fail over "
			"by hand\" in deploy/doc/operate.md)",
			facts->from.why);
		start->state = KW_SWITCHOVER_REFUSED;
	} else if (!facts->to.reached) {
		snprintf(start->why, sizeof start->why, "%s", facts->to.why);
		start->state = KW_SWITCHOVER_REFUSED;
	} else {
		start->state = where(facts, start);
	}
	if (start->state == KW_SWITCHOVER_CONFIRMED)
		*start = (struct kw_switchover_start){
			.state = KW_SWITCHOVER_CONFIRMED, .to = facts->to.term};
}

static struct kw_switchover_check *add(
	struct kw_switchover_check *checks, size_t *count, const char *what, bool ok)
{
	struct kw_switchover_check *check = &checks[(*count)++];

	assert(*count <= KW_SWITCHOVER_CHECKS);
	*check = (struct kw_switchover_check){.what = what, .ok = ok};
	return check;
}

#define SAY(check, ...)                                                                            \
	do {                                                                                       \
		struct kw_switchover_check *said = (check);                                        \
		if (!said->ok)                                                                     \
			snprintf(said->why, sizeof said->why, __VA_ARGS__);                        \
	} while (0)

/* As add, for what a busy moment explains. */
static struct kw_switchover_check *add_passing(
	struct kw_switchover_check *checks, size_t *count, const char *what, bool ok)
{
	struct kw_switchover_check *check = add(checks, count, what, ok);

	check->passing = !ok;
	return check;
}

static void check_proxy(struct kw_switchover_check *checks, size_t *count,
	const struct kw_switchover_proxy *proxy, bool old)
{
	const char *name = old ? "old" : "new";

	SAY(add(checks, count,
		    old ? "an operator confirms the old primary"
			: "an operator confirms the new primary",
		    proxy->by_operator),
		"authority.by of the %s proxy is not `operator`: set it in its configuration, and "
		"restart it; with Sentinel use SENTINEL FAILOVER",
		name);
	SAY(add(checks, count, old ? "the old proxy can save" : "the new proxy can save",
		    proxy->saves),
		"the %s proxy cannot keep its term over a restart: set control.saved_file in its "
		"configuration, and restart it",
		name);
}

static void check_agent(struct kw_switchover_check *checks, size_t *count,
	const struct kw_switchover_facts *facts, bool given_back)
{
	const struct kw_switchover_agent *agent = &facts->agent;
	bool same_server =
		agent->reached && *agent->run_id && strcmp(agent->run_id, facts->to.run_id) == 0;
	bool follows = agent->reached && *agent->follows &&
		       strcmp(agent->follows, facts->from.identity) == 0;

	SAY(add(checks, count, "the new proxy follows the agent's server", same_server),
		"the server of the agent (run_id %.8s) is not the one that the new proxy follows "
		"(run_id %.8s): the third socket is that of the agent beside the new primary",
		agent->reached ? agent->run_id : "not known", facts->to.run_id);
	SAY(add(checks, count, "the agent follows the old proxy", follows),
		"the agent does not follow the old proxy: %s", agent->why);
	SAY(add(checks, count, "the agent applies", agent->mode != KW_SWITCHOVER_DISCARD),
		"apply.mode of the agent is `discard`: its server has no data");
	SAY(add_passing(checks, count, "the agent is warm", agent->warm || given_back),
		"the agent is not warm: %s", agent->why);
	if (facts->audit_age >= 0 && !given_back)
		SAY(add(checks, count, "the audit is recent",
			    agent->proven_s >= 0 && agent->proven_s <= facts->audit_age),
			"the audit has not compared every key within the last %" PRId64
			" s: wait for it, or leave --audit-age out",
			facts->audit_age);
}

/*
 * Shall an agent be sent to data that are not its own? One that has a list stays with it. Of an
 * agent that follows nobody at present, and of an old proxy that is away, nothing is known.
 */
static bool is_strange(
	const struct kw_switchover_agent *agent, const struct kw_switchover_facts *facts)
{
	return !agent->listed && *agent->follows && *facts->from.identity &&
	       strcmp(agent->follows, facts->from.identity) != 0 &&
	       strcmp(agent->follows, facts->to.identity) != 0;
}

static void check_other(struct kw_switchover_check *check, const struct kw_switchover_agent *agent,
	const struct kw_switchover_facts *facts)
{
	bool strange = agent->reached && is_strange(agent, facts);

	check->ok =
		agent->reached && !strange && (agent->listed || (agent->saves && facts->addressed));
	if (!agent->reached)
		SAY(check, "%s", agent->why);
	else if (strange)
		SAY(check,
			"an agent follows neither the old proxy nor the new one (it follows "
			"%.16s): its server has another data set, so leave its socket out",
			agent->follows);
	else if (!facts->addressed)
		SAY(check,
			"an agent has one proxy, and not a list: say by --proxy ADDRESS where it "
			"reaches the new proxy");
	else
		SAY(check, "an agent has one proxy, and cannot save another one: set its "
			   "control.saved_file, or give it a list of proxies");
}

size_t kw_switchover_check(const struct kw_switchover_facts *facts,
	const struct kw_switchover_start *start,
	struct kw_switchover_check checks[KW_SWITCHOVER_CHECKS])
{
	size_t count = 0;

	if (start->state == KW_SWITCHOVER_PREFLIGHT) {
		check_proxy(checks, &count, &facts->from, true);
		SAY(add_passing(checks, &count, "the old proxy is live",
			    facts->from.live || start->give_back),
			"the old proxy is not live: %s", facts->from.why);
	}
	check_proxy(checks, &count, &facts->to, false);
	if (start->state == KW_SWITCHOVER_PREFLIGHT)
		check_agent(checks, &count, facts, start->give_back);
	for (size_t i = 0; i < facts->other_count; i++)
		check_other(add(checks, &count, "another agent can go along", true),
			&facts->others[i], facts);
	return count;
}

const struct kw_switchover_check *kw_switchover_stop(
	const struct kw_switchover_check *checks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!checks[i].ok)
			return &checks[i];
	return NULL;
}

enum kw_switchover_state kw_switchover_failed(enum kw_switchover_state state)
{
	assert(state < KW_SWITCHOVER_RETARGETED);
	return state < KW_SWITCHOVER_DEPOSED ? KW_SWITCHOVER_UNDONE : KW_SWITCHOVER_STOPPED;
}

void kw_switchover_by_hand(enum kw_switchover_state state, const struct kw_switchover_start *start,
	char *text, size_t room)
{
	switch (state) {
	case KW_SWITCHOVER_DEPOSED:
		snprintf(text, room,
			"run the command again: it gives the old primary its term back and begins "
			"anew, unless the agent has let its server go. By hand: end the agent (in "
			"mode replica `shutdown --promote`), then at the new proxy `config set "
			"authority.term %" PRIu64 " --save`",
			start->to);
		break;
	case KW_SWITCHOVER_PROMOTED:
		snprintf(text, room,
			"run the command again, or see that the new server is a primary (REPLICAOF "
			"NO ONE), then at the new proxy `config set authority.term %" PRIu64
			" --save`",
			start->to);
		break;
	case KW_SWITCHOVER_CONFIRMED:
		snprintf(text, room,
			"the new primary is confirmed in term %" PRIu64
			". Run the command again for the agents that do not follow it yet, or at "
			"each of them `retarget NEW OLD --save`",
			start->to);
		break;
	default:
		snprintf(text, room,
			"send the clients to the new primary. Before the old one's fence ends, "
			"stop "
			"it, or make it a replica of the new one (REPLICAOF, or an agent beside "
			"it)");
		break;
	}
}

void kw_switchover_init(struct kw_sm *sm, const struct kw_switchover_start *start)
{
	kw_sm_init(sm, &machine, NULL, (int)start->state);
}
