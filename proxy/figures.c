#include "figures.h"
#include "stages.h"

#include "base/buffer.h"
#include "control/config/certificates.h"
#include "control/config/keys.h"
#include "control/process.h"
#include "remote/rdma/counts.h"

#include <stdlib.h>

#define GAUGE(member, name, doc) KW_GAUGE(struct kw_proxy_figures, member, name, doc)
#define COUNTER(member, name, doc) KW_COUNTER(struct kw_proxy_figures, member, name, doc)
#define CAUSE(name, doc)                                                                           \
	KW_PART(struct kw_proxy_figures, source.reconciles_##name, "reconciles_" #name,            \
		"reconciles", "cause=\"" #name "\"", doc)
#define SOURCE(name, doc) KW_STATUS_COUNTER(struct kw_proxy_figures, source.name, #name, doc)

const struct kw_figure kw_proxy_figure_table[] = {
	GAUGE(start_time_seconds, "start_time_seconds", "when the process started"),
	GAUGE(loop_turn_max_seconds, "loop_turn_max_seconds",
		"the longest time of the last minute or two in which the daemon listened to "
		"nobody"),
	GAUGE(fresh_timestamp_seconds, "fresh_timestamp_seconds",
		"the table holds all that the primary had done by then; 0: not known"),
	GAUGE(clock_skew_seconds, "clock_skew_seconds",
		"the clock of the primary less that of the proxy"),
	GAUGE(term, "term", "term of the last confirmation"),
	GAUGE(sentinel_voters, "sentinel_voters", "sentinels that there are"),
	GAUGE(sentinels_confirming, "sentinels_confirming",
		"… that name this server as the primary"),
	COUNTER(confirmations, "confirmations", "times the server was confirmed"),
	COUNTER(mandates_lost, "mandates_lost", "times it was not confirmed any more"),
	GAUGE(table.keys, "keys", "live keys in the table"),
	GAUGE(table.version, "version", "highest version given"),
	GAUGE(source.dirty_keys, "dirty_keys", "keys waiting to be fetched"),
	GAUGE(held, "held", "1: keys that the primary lacks wait for approval to be deleted"),
	GAUGE(source.missing_keys, "missing_keys",
		"keys that the primary lacks, and whose deletion waits for approval"),
	GAUGE(functions.libraries, "functions_libraries", "function libraries in the table"),
	GAUGE(functions.bytes, "functions_bytes", "bytes of them; 0: none are carried"),
	GAUGE(functions_held, "functions_held",
		"1: function libraries that the primary lacks wait for approval to be deleted"),
	COUNTER(functions.changes, "functions_changes",
		"times the function libraries in the table changed"),
	GAUGE(agents, "agents", "agents connected"),
	GAUGE(listeners_waiting, "listeners_waiting",
		"listeners nobody can connect to, because a device or an address is not there"),
	GAUGE(table.live_bytes, "table_live_bytes", "bytes of live records"),
	GAUGE(table.used_bytes, "table_used_bytes", "memory in use"),
	GAUGE(table.given_back_bytes, "table_given_back_bytes", "free memory that the system has"),
	GAUGE(table.capacity_bytes, "table_capacity_bytes", "table.max_bytes"),
	COUNTER(table.written_bytes, "table_written_bytes", "bytes of records written"),
	COUNTER(table.cleaned_bytes, "table_cleaned_bytes", "bytes the cleaner moved"),
	KW_SECONDS(struct kw_proxy_figures, table.cleaner_us, "table_cleaner_cpu",
		"CPU time of the cleaner"),
	KW_SECONDS(struct kw_proxy_figures, pace.cost_us, "primary_cpu",
		"CPU time of the primary that fetching and looking took"),
	GAUGE(pace.target, "primary_share_target", "source.primary_share"),
	GAUGE(pace.taken, "primary_share_taken", "part of the primary's time that fetching takes"),
	GAUGE(pace.busy, "primary_busy", "part of the time the primary is busy"),
	GAUGE(pace.waiting, "primary_waiting",
		"part of the time the primary is ready to run and has no core"),
	GAUGE(holding_back, "holding_back", "1: keys wait so that the share is held"),
	SOURCE(events, "keyspace events and flushes received"),
	SOURCE(fetches, "keys fetched from the primary"),
	SOURCE(values, "changes taken from the replication stream, without a fetch"),
	SOURCE(values_shed,
		"changes of the replication stream that were fetched, because it was far behind"),
	GAUGE(source.behind_bytes, "stream_behind_bytes",
		"bytes of the replication stream that the server has written and that are not "
		"taken yet"),
	SOURCE(synchronisations,
		"full synchronisations without keys: the server forked for the stream"),
	SOURCE(audit_differences, "keys that an audit found changed although nothing told so"),
	SOURCE(audit_unjudged,
		"keys that an audit found changed, too many at once to judge whether it was told"),
	GAUGE(upstream_silent_seconds, "upstream_silent_seconds",
		"since a server that is a replica has heard of its own primary; 0: it is none"),
	SOURCE(fetched_bytes, "payload fetched from the primary"),
	SOURCE(unchanged, "fetches that found what the table held already"),
	SOURCE(deletes, "fetches that found the key gone"),
	KW_STATUS_ONLY(struct kw_proxy_figures, source.reconciles, "reconciles",
		"scans begun because an event may have been missed: of all causes but the audit"),
	CAUSE(connection, "scans of the primary's keys, by cause; audit: the sweep that never ends "
			  "has seen all keys, which is no reconcile"),
	CAUSE(flags, "the notification flags were changed"),
	CAUSE(flush, "a database was flushed"),
	CAUSE(swapdb, "SWAPDB"),
	CAUSE(identity, "another server, role or replication history"),
	CAUSE(audit, "the sweep that never ends has seen all keys"),
	CAUSE(command, "a command of the replication stream is not understood"),
	CAUSE(asked, "asked for by the operator"),
	SOURCE(approvals, "mass deletions that an operator approved"),
	SOURCE(silent_refetches, "keys fetched again after commands that raise no event"),
	SOURCE(too_large, "keys that cannot be in the table"),
	SOURCE(unreadable, "keys at whose DUMP the connection to the primary breaks"),
	SOURCE(rejected_payloads, "DUMP replies whose checksum did not hold"),
	{0},
};

static int listeners_waiting(const struct kw_proxy *proxy)
{
	struct kw_listener_info *infos = kw_alloc(KW_LISTENERS_SHOWN * sizeof *infos);
	int count = kw_server_listeners(proxy->server, infos, KW_LISTENERS_SHOWN), waiting = 0;

	for (int i = 0; i < count && i < KW_LISTENERS_SHOWN; i++)
		waiting += infos[i].waiting;
	free(infos);
	return waiting;
}

void kw_proxy_collect(const struct kw_proxy *proxy, struct kw_proxy_figures *figures)
{
	const struct kw_superblock *super = (const struct kw_superblock *)proxy->memory.base;

	*figures = (struct kw_proxy_figures){
		.term = proxy->mandate.term,
		.sentinel_voters = proxy->mandate.verdict.voters,
		.sentinels_confirming = proxy->mandate.verdict.naming,
		.confirmations = proxy->mandate.confirmations,
		.mandates_lost = proxy->mandate.losses,
		.agents = (uint64_t)kw_server_sessions(proxy->server, NULL, 0),
		.start_time_seconds = (double)proxy->started_us / 1e6,
		.loop_turn_max_seconds = (double)kw_turns_longest_us(&proxy->daemon.turns) / 1e6,
		.fresh_timestamp_seconds = (double)super->fresh_us / 1e6,
		.listeners_waiting = (uint64_t)listeners_waiting(proxy),
	};
	kw_table_stats(proxy->table, &figures->table);
	kw_source_stats(proxy->source, &figures->source);
	kw_source_pace(proxy->source, &figures->pace);
	kw_source_functions(proxy->source, &figures->functions);
	figures->functions_held = figures->functions.held;
	figures->holding_back = figures->pace.holding;
	figures->held = kw_source_state(proxy->source) == KW_SOURCE_HELD;
	figures->upstream_silent_seconds = (double)figures->source.upstream_silent_us / 1e6;
	figures->clock_skew_seconds = (double)figures->source.clock_skew_us / 1e6;
}

/* ---- metrics ---- */

static void add_states(const struct kw_metrics *metrics, const struct kw_proxy *proxy)
{
	const char *names[KW_SOURCE_STATES], *mandates[KW_MANDATE_ELSEWHERE + 1];
	const struct kw_metrics_states state = {
		names, KW_SOURCE_STATES, (int)kw_source_state(proxy->source)};
	const char *feeds[] = {"notifications", "stream"};
	struct kw_source_stats stats;
	struct kw_metrics_states feed = {feeds, 2, 0};
	const struct kw_metrics_states mandate = {
		mandates, KW_MANDATE_ELSEWHERE + 1, (int)kw_mandate_state(&proxy->mandate)};

	for (int i = 0; i < state.count; i++)
		names[i] = kw_source_state_name((enum kw_source_state)i);
	for (int i = 0; i < mandate.count; i++)
		mandates[i] = kw_mandate_state_name((enum kw_mandate_state)i);
	kw_metrics_states(metrics, "state", "1 for the present state", &state);
	kw_metrics_reason(metrics, kw_source_reason_row(proxy->source)->code);
	kw_source_stats(proxy->source, &stats);
	feed.now = stats.feed == KW_SOURCE_FEED_STREAM;
	kw_metrics_states(metrics, "feed", "1 for the feed that is followed", &feed);
	kw_metrics_states(metrics, "mandate_state",
		"1 for what is known of who confirms the primary", &mandate);
}

/* The proxies of one group follow servers of which one is the primary. */
static void add_confirmed(const struct kw_metrics *metrics, const struct kw_mandate *mandate)
{
	char labels[KW_METRICS_LABELS] = "";

	kw_metrics_label(labels, "group", mandate->name);
	kw_metrics_family(metrics, "confirmed", "gauge",
		"1 while the server is confirmed as the primary, or nobody is asked; group: "
		"sentinel.name");
	kw_metrics_integer(
		metrics, "confirmed", labels, kw_mandate_holds(kw_mandate_state(mandate)));
}

#define GROUPS 3

static void get_certificates(
	const struct kw_proxy *proxy, const struct kw_tls_context *contexts[GROUPS])
{
	contexts[0] = proxy->redis_tls.context;
	contexts[1] = proxy->sentinel_tls.context;
	contexts[2] = kw_server_tls(proxy->server);
}

static void add_certificates(const struct kw_proxy *proxy, struct kw_buffer *text)
{
	const struct kw_tls_context *contexts[GROUPS];

	get_certificates(proxy, contexts);
	kw_certificates_metrics(text, contexts, GROUPS);
	kw_keys_metrics(text, kw_server_keyring(proxy->server));
}

void kw_proxy_show_certificates(const struct kw_proxy *proxy, json_t *status)
{
	const struct kw_tls_context *contexts[GROUPS];

	get_certificates(proxy, contexts);
	kw_certificates_status(status, contexts, GROUPS);
}

void kw_proxy_metrics(void *arg, struct kw_buffer *text)
{
	const struct kw_proxy *proxy = arg;
	const struct kw_metrics metrics = {text, "keywake_proxy"};
	struct kw_proxy_figures figures;

	kw_source_confirm(proxy->source); /* true as of now */
	kw_proxy_collect(proxy, &figures);
	kw_metrics_build(&metrics, "keywake-proxy");
	kw_process_metrics(text);
	add_certificates(proxy, text);
	add_states(&metrics, proxy);
	add_confirmed(&metrics, &proxy->mandate);
	kw_figures_metrics(&metrics, kw_proxy_figure_table, &figures);
	kw_stage_metrics(&metrics, kw_source_stages(proxy->source), kw_proxy_stages);
	kw_proxy_agent_metrics(&metrics, proxy);
	kw_rdma_metrics(text, metrics.prefix);
}
