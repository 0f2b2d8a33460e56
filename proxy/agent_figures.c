/*
 * The metrics of agents and gateways, as their proxy knows them. Their labels stay when a session
 * ends and comes again: the agent's name, its role and its carrier. Sessions that agree in all
 * three are shown as one: an agent whose earlier connection is not found dead yet, one that
 * verifies, or several of one host that nobody gave names.
 */
#include "figures.h"

#include "base/buffer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JOINING "joining" /* it has not reported yet */

/* What they report: the states of agent/judge.h and gateway/table/sight.h. A test compares. */
static const char *const agent_states[] = {JOINING, "standby", "connecting", "bootstrapping",
	"warm", "lagging", "reconciling", "stalled", "failed", "held", NULL};
static const char *const gateway_states[] = {
	JOINING, "standby", "connecting", "loading", "serving", "stale", "failed", NULL};

/* All sessions, those of one agent linked together. */
struct agents {
	struct kw_session_info *sessions;
	int *next; /* of the same agent; -1: the last */
	bool *first;
	int count;
};

static bool is_one_agent(const struct kw_session_info *a, const struct kw_session_info *b)
{
	return a->carrier == b->carrier && a->identity.role == b->identity.role &&
	       strcmp(a->name, b->name) == 0;
}

static void find_agents(const struct kw_proxy *proxy, struct agents *agents)
{
	int count;

	agents->sessions = kw_alloc(KW_SESSIONS_SHOWN * sizeof *agents->sessions);
	agents->next = kw_alloc(KW_SESSIONS_SHOWN * sizeof *agents->next);
	agents->first = kw_alloc(KW_SESSIONS_SHOWN * sizeof *agents->first);
	count = kw_server_sessions(proxy->server, agents->sessions, KW_SESSIONS_SHOWN);
	agents->count = count < KW_SESSIONS_SHOWN ? count : KW_SESSIONS_SHOWN;
	for (int i = 0; i < agents->count; i++) {
		int before = i - 1;

		while (before >= 0 &&
			!is_one_agent(&agents->sessions[before], &agents->sessions[i]))
			before--;
		agents->next[i] = -1;
		agents->first[i] = before < 0;
		if (before >= 0)
			agents->next[before] = i;
	}
}

static void free_agents(struct agents *agents)
{
	free(agents->sessions);
	free(agents->next);
	free(agents->first);
}

static void label_agent(const struct kw_session_info *s, char labels[KW_METRICS_LABELS])
{
	labels[0] = '\0';
	kw_metrics_label(labels, "agent", s->name);
	kw_metrics_label(labels, "carrier", kw_carrier_name(s->carrier));
	kw_metrics_label(labels, "role", kw_role_name(s->identity.role));
}

/* ---- states ---- */

static const char *state_of(const struct kw_session_info *s)
{
	return s->reported ? s->progress.state : JOINING;
}

static void add_state(
	const struct kw_metrics *metrics, const struct agents *agents, int first, const char *state)
{
	char labels[KW_METRICS_LABELS];
	uint64_t there = 0;

	for (int i = first; i >= 0; i = agents->next[i])
		there += strcmp(state_of(&agents->sessions[i]), state) == 0;
	label_agent(&agents->sessions[first], labels);
	kw_metrics_label(labels, "state", state);
	kw_metrics_integer(metrics, "agent_state", labels, there);
}

/* Each state has a series, so a rule can ask for a state that the agent is not in. */
static void add_states(const struct kw_metrics *metrics, const struct agents *agents)
{
	kw_metrics_family(metrics, "agent_state", "gauge",
		"1 for the state that an agent reports; of several sessions, how many report it");
	for (int i = 0; i < agents->count; i++) {
		bool is_gateway = agents->sessions[i].identity.role == KW_ROLE_GATEWAY;
		const char *const *states = is_gateway ? gateway_states : agent_states;

		for (int s = 0; agents->first[i] && states[s]; s++)
			add_state(metrics, agents, i, states[s]);
	}
}

/* ---- figures ---- */

/* How the figures of several sessions are one: the worst one counts, or all of them. */
enum fold { MOST, LEAST, SUM };

/* NaN: it is not known. A counter is left out then, because NaN spoils a rate(). */
struct agent_figure {
	const char *name, *doc;
	enum fold fold;
	double (*value)(const struct kw_session_info *info);
};

static double known(uint64_t value)
{
	return value == UINT64_MAX ? (double)NAN : (double)value;
}

static double lag_of(const struct kw_session_info *s)
{
	return s->reported ? known(s->progress.lag_us) / 1e6 : (double)NAN;
}

static double applied_of(const struct kw_session_info *s)
{
	return s->reported ? (double)s->progress.applied : (double)NAN;
}

static double reads_of(const struct kw_session_info *s)
{
	return known(s->reads);
}

static double bytes_of(const struct kw_session_info *s)
{
	return known(s->bytes);
}

static double wire_bytes_of(const struct kw_session_info *s)
{
	return s->wire_bytes == UINT64_MAX ? 0 : (double)s->wire_bytes;
}

static const struct agent_figure figures[] = {
	{"agent_lag_seconds",
		"age of the oldest change that an agent may not have applied; NaN: it is not known",
		MOST, lag_of},
	{"agent_applied_version", "version up to which an agent has applied all; NaN until it told",
		LEAST, applied_of},
	{"agent_reads_total", "READs of an agent; absent until it told them", SUM, reads_of},
	{"agent_read_bytes_total", "bytes that an agent read; absent until it told them", SUM,
		bytes_of},
	{"agent_wire_bytes_total",
		"bytes sent to an agent for its READs over tcp, as they went: with headers, and "
		"perhaps compressed; 0 over shm and rdma",
		SUM, wire_bytes_of},
};

/* One that is not known does not count. */
static double join(enum fold fold, double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) ? b : a;
	if (fold == SUM)
		return a + b;
	return (fold == MOST) == (a > b) ? a : b;
}

static double value_of(const struct agent_figure *figure, const struct agents *agents, int first)
{
	double all = (double)NAN;

	for (int i = first; i >= 0; i = agents->next[i])
		all = join(figure->fold, all, figure->value(&agents->sessions[i]));
	return all;
}

static void add_figure(const struct kw_metrics *metrics, const struct agents *agents,
	const struct agent_figure *figure)
{
	bool is_counter = figure->fold == SUM;

	kw_metrics_family(metrics, figure->name, is_counter ? "counter" : "gauge", figure->doc);
	for (int i = 0; i < agents->count; i++) {
		double value = agents->first[i] ? value_of(figure, agents, i) : 0;
		char labels[KW_METRICS_LABELS];

		if (!agents->first[i] || (is_counter && isnan(value)))
			continue;
		label_agent(&agents->sessions[i], labels);
		kw_metrics_sample(metrics, figure->name, labels, value);
	}
}

void kw_proxy_agent_metrics(const struct kw_metrics *metrics, const struct kw_proxy *proxy)
{
	struct agents agents;

	find_agents(proxy, &agents);
	add_states(metrics, &agents);
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		add_figure(metrics, &agents, &figures[i]);
	free_agents(&agents);
}
