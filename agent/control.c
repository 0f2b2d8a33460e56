/* What the agent answers on its control socket. */
#include "daemon.h"
#include "figures.h"
#include "stages.h"

#include "base/clock.h"
#include "control/json_text.h"
#include "remote/rdma/counts.h"
#include "sync/level.h"

#include <inttypes.h>

#define QUARANTINED_SHOWN 16

static uint64_t lag_versions(const struct kw_agent *agent)
{
	uint64_t head = agent->follow.superblock.version, applied = agent->sync.progress.applied;

	return head > applied ? head - applied : 0;
}

static json_t *quarantine_json(const struct kw_quarantine *quarantine)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < quarantine->listed && i < QUARANTINED_SHOWN; i++) {
		const struct kw_quarantined *key = &quarantine->keys[i];
		size_t length =
			key->key_length < KW_QUARANTINE_KEY ? key->key_length : KW_QUARANTINE_KEY;
		json_t *name = json_stringn(key->key, length);

		json_array_append_new(
			list, json_pack("{s:i,s:o,s:o}", "database", (int)key->database, "key",
				      name ? name : json_string("(binary)"), "reason",
				      kw_json_text(key->reason)));
	}
	return list;
}

static void add_lag(json_t *status, const struct kw_lag *lag)
{
	json_object_set_new(
		status, "lag_p50_us", json_integer((json_int_t)kw_lag_quantile_us(lag, 0.5)));
	json_object_set_new(
		status, "lag_p99_us", json_integer((json_int_t)kw_lag_quantile_us(lag, 0.99)));
	json_object_set_new(status, "lag_max_us", json_integer((json_int_t)lag->max_us));
	json_object_set_new(status, "lag_samples", json_integer((json_int_t)lag->count));
}

static json_t *local_json(const struct kw_local *local)
{
	const struct kw_server_identity *identity = &local->facts.identity;
	char version[32];

	snprintf(version, sizeof version, "%s %d.%d.%d", identity->valkey ? "valkey" : "redis",
		identity->major, identity->minor, identity->patch);
	return json_pack("{s:s,s:s,s:o,s:o,s:I,s:o}", "address", local->options.redis.address,
		"version", kw_local_ready(local) ? version : "", "run_id",
		kw_json_text(identity->run_id), "role", kw_json_text(identity->role), "keys",
		(json_int_t)local->facts.keys, "maxmemory_policy",
		kw_json_text(local->facts.policy));
}

static json_t *apply_json(struct kw_pair *pair)
{
	const struct kw_link_report *link = kw_pair_link(pair);
	const struct kw_limit *limit = &pair->limit;
	json_t *json = json_pack("{s:s,s:I,s:b}", "mode", kw_pair_mode(pair), "bytes_per_second",
		(json_int_t)limit->bucket.per_second, "limited",
		(int)kw_limit_holds(limit, kw_clock_us()));

	if (link->state)
		json_object_update_new(
			json, json_pack("{s:s,s:s,s:i,s:I,s:I,s:s,s:I,s:I,s:I}", "link",
				      link->state, "replid", link->replid, "port", (int)link->port,
				      "offset", (json_int_t)link->offset, "acknowledged",
				      (json_int_t)link->acknowledged, "tls", link->tls,
				      "full_syncs", (json_int_t)link->full_syncs, "continuations",
				      (json_int_t)link->continuations, "refusals",
				      (json_int_t)link->refusals));
	return json;
}

static json_t *lag_json(const struct kw_agent *agent, uint64_t now_us)
{
	uint64_t lag_us = kw_agent_lag_us(agent, now_us);

	return lag_us == KW_LEVEL_LAG_UNKNOWN ? json_null() : json_real((double)lag_us / 1000.0);
}

static json_t *status_json(struct kw_agent_daemon *daemon)
{
	const struct kw_agent *agent = daemon->agent;
	const struct kw_sync *sync = &agent->sync;
	const struct kw_follow *follow = &agent->follow;
	uint64_t now = kw_clock_us();
	bool up = kw_follow_up(follow);

	return json_pack(
		"{s:s,s:o,s:s,s:I,s:I,s:I,s:I,s:o,s:f,s:s,s:s,s:I,s:o,s:I,s:b,s:s,s:o,s:s,s:o,"
		"s:I,s:I,s:I}",
		"state", kw_sm_name(&agent->sm), "reason", kw_json_text(agent->reason), "name",
		daemon->target.name, "epoch",
		(json_int_t)(up ? follow->superblock.epoch : sync->epoch), "applied_version",
		(json_int_t)sync->progress.applied, "head_version",
		(json_int_t)agent->follow.superblock.version, "lag_versions",
		(json_int_t)lag_versions(agent), "lag_ms", lag_json(agent, now), "progress",
		kw_agent_progress(agent), "proxy", follow->proxy, "transport",
		kw_carrier_name(follow->address.carrier), "quarantined",
		(json_int_t)kw_quarantine_count(&agent->quarantine), "quarantine",
		quarantine_json(&agent->quarantine), "fresh_us",
		(json_int_t)(kw_sync_phase(sync) == KW_SYNC_TAIL ? sync->progress.fresh_us : 0),
		"paused", (int)(sync->intake == KW_SYNC_INTAKE_PAUSED), "mode",
		kw_pair_mode(agent->pair), "apply", apply_json(agent->pair), "filters",
		daemon->filter_text, "local", local_json(&agent->local), "window_bytes_used",
		(json_int_t)kw_pair_progress(agent->pair)->window_bytes, "uptime_s",
		(json_int_t)((now - agent->started_us) / 1000000), "clock_skew_us",
		(json_int_t)follow->skew_us);
}

/* proven_equal_s is null until every key was compared once. */
static void add_audit(json_t *status, const struct kw_audit *audit)
{
	struct kw_audit_report report;
	json_t *proven = json_null();

	kw_audit_report(audit, kw_clock_us(), &report);
	if (report.proven_us != UINT64_MAX)
		proven = json_integer((json_int_t)(report.proven_us / 1000000));
	json_object_set_new(status, "proven_equal_s", proven);
	json_object_set_new(status, "audit_state", json_string(report.state));
	json_object_set_new(status, "audit_unmended", json_integer((json_int_t)report.unmended));
}

static json_t *history_json(const struct kw_history *history)
{
	char proxy[24] = "";

	if (history->proxy)
		snprintf(proxy, sizeof proxy, "%016" PRIx64, history->proxy);
	return json_pack("{s:o,s:o,s:I,s:s,s:o}", "replid", kw_json_text(history->replid),
		"replid2", kw_json_text(history->replid2), "second_offset",
		(json_int_t)history->second_offset, "proxy", proxy, "proxy_name",
		kw_json_text(history->proxy_name));
}

/* Who confirms it is the domain; "" without one. Terms of two domains cannot be compared. */
static void add_term(json_t *history, uint64_t domain, uint64_t term)
{
	char text[24] = "";

	if (domain)
		snprintf(text, sizeof text, "%016" PRIx64, domain);
	json_object_set_new(history, "term", json_integer((json_int_t)term));
	json_object_set_new(history, "domain", json_string(text));
}

/* Whose data: the local ones, and those of the table; "" while there is no table. */
static void add_history(json_t *status, const struct kw_agent *agent)
{
	const struct kw_sync *sync = &agent->sync;
	bool judged = sync->authority.permission != KW_PERMISSION_UNASKED;
	const struct kw_history *told = &agent->follow.history;
	json_t *data = history_json(&agent->local.history), *table = history_json(told);

	add_term(data, agent->local.term.domain, agent->local.term.term);
	add_term(table, told->domain, told->term);
	json_object_set_new(table, "mandate", json_string(kw_mandate_state_name(told->mandate)));
	json_object_set_new(table, "looked_offset", json_integer((json_int_t)told->looked.offset));
	json_object_set_new(status, "history",
		json_pack("{s:s,s:o,s:o}", "relation",
			judged ? kw_authority_name(sync->authority.relation) : "", "data", data,
			"table", table));
}

/* What the connection uses; "" and 0 without one. Of rdma, only counters that are not zero. */
static void add_link(json_t *status, const struct kw_follow *follow)
{
	bool up = kw_follow_up(follow);
	json_t *faults = json_object();

	json_object_set_new(status, "device", json_string(up ? follow->info.device : ""));
	json_object_set_new(status, "depth", json_integer(up ? (json_int_t)follow->info.depth : 0));
	for (int i = 0; i < KW_RDMA_COUNTS; i++)
		if (kw_rdma_counted((enum kw_rdma_count)i) > 0)
			json_object_set_new(faults, kw_rdma_count_name((enum kw_rdma_count)i),
				json_integer((json_int_t)kw_rdma_counted((enum kw_rdma_count)i)));
	json_object_set_new(status, "rdma_faults", faults);
}

static void add_index(json_t *status, const struct kw_digests *index)
{
	json_object_set_new(status, "index",
		json_pack("{s:s,s:I,s:I}", "state", kw_sm_name(&index->sm), "keys",
			(json_int_t)index->keys, "bytes", (json_int_t)index->bytes));
}

static void add_held(json_t *status, const struct kw_brake *brake)
{
	json_object_set_new(status, "held", json_integer((json_int_t)brake->finding.deletions));
	json_object_set_new(status, "held_of", json_integer((json_int_t)brake->finding.keys));
}

static void add_functions(json_t *status, const struct kw_functions *functions)
{
	struct kw_functions_report report;

	kw_functions_report(functions, &report);
	json_object_set_new(status, "functions",
		json_pack("{s:s,s:o,s:I,s:I,s:I,s:I}", "state", report.state, "reason",
			kw_json_text(report.why), "libraries", (json_int_t)report.libraries,
			"bytes", (json_int_t)report.bytes, "version", (json_int_t)report.version,
			"table_version", (json_int_t)report.table_version));
}

static json_t *whole_status(void *arg)
{
	struct kw_agent_daemon *daemon = arg;
	struct kw_agent_figures figures;
	json_t *status;

	kw_agent_doubt(daemon->agent, kw_clock_us());
	kw_agent_collect(daemon->agent, &figures);
	status = status_json(daemon);
	kw_daemon_tell_reason(&daemon->daemon, status, kw_agent_reason_row(daemon->agent->cause));
	json_object_set_new(status, "stopping", json_boolean(daemon->closing));
	json_object_set_new(status, "verifying",
		json_boolean(daemon->inspect && kw_inspect_verifies(daemon->inspect)));
	add_audit(status, daemon->agent->audit);
	add_link(status, &daemon->agent->follow);
	add_held(status, &daemon->agent->sync.brake);
	add_index(status, &daemon->agent->sync.index);
	add_history(status, daemon->agent);
	add_functions(status, &daemon->agent->functions);
	kw_target_show(status, &daemon->agent->scouts);
	add_lag(status, &daemon->agent->sync.progress.lag);
	kw_figures_status(status, kw_agent_figure_table, &figures);
	kw_agent_show_certificates(daemon, status);
	return status;
}

static void on_status(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;
	json_t *status = whole_status(arg);

	if (json_is_true(json_object_get(params, "reset_lag")))
		kw_lag_reset(&daemon->agent->sync.progress.lag);
	kw_rpc_result(call, status);
}

static void get_ready(void *arg, struct kw_http_readiness *readiness)
{
	struct kw_agent_daemon *daemon = arg;
	uint64_t now_us = kw_clock_us();

	kw_agent_doubt(daemon->agent, now_us);
	readiness->ready = daemon->agent->sm.state == KW_AGENT_WARM;
	readiness->state = kw_sm_name(&daemon->agent->sm);
	snprintf(readiness->reason, sizeof readiness->reason, "%s", daemon->agent->reason);
	readiness->lag_us = kw_agent_lag_us(daemon->agent, now_us);
}

int kw_agent_serve_http(struct kw_agent_daemon *daemon, struct kw_error *error)
{
	const struct kw_http_source source = {"agent", get_ready, whole_status, kw_agent_metrics,
		NULL, &daemon->daemon.transitions, daemon};

	return kw_http_server_new(
		daemon->loop, daemon->daemon.config, &source, &daemon->daemon.http, error);
}

static void on_metrics(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_buffer text = {0};

	kw_agent_metrics(arg, &text);
	kw_rpc_result(call, json_pack("{s:s%}", "text", (const char *)kw_buffer_bytes(&text),
				    (int)kw_buffer_length(&text)));
	kw_buffer_close(&text);
}

/* The limit comes first: in a bootstrap the state names it only as the last of several reasons. */
static void add_present(json_t *report, const struct kw_agent *agent, uint64_t limit)
{
	if (limit > 0)
		kw_stage_report_present(report,
			"%s: apply.bytes_per_second=%" PRIu64
			" holds changes back: raise it, or set it to 0",
			kw_sm_name(&agent->sm), limit);
	else if (agent->sm.state != KW_AGENT_WARM)
		kw_stage_report_present(report, "%s: %s", kw_sm_name(&agent->sm), agent->reason);
}

static void on_lag(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;
	struct kw_agent *agent = daemon->agent;
	const struct kw_follow *follow = &agent->follow;
	const struct kw_config *config = daemon->daemon.config;
	struct kw_stages *stages = &agent->sync.progress.stages;
	const struct kw_agent_stage_facts facts = {
		.idle_us = follow->options.idle_us,
		.busy = follow->options.busy,
		.woken = kw_follow_is_woken(follow),
		.behind_us = kw_agent_source_lag_us(agent, kw_clock_us()),
		.skew_us = follow->skew_us,
		.carrier = kw_carrier_name(follow->address.carrier),
		.window = (uint64_t)kw_config_integer(config, "apply.window_bytes"),
		.used = kw_pair_progress(agent->pair)->window_bytes,
		.limit = kw_limit_holds(&agent->pair->limit, kw_clock_us())
				 ? agent->pair->limit.bucket.per_second
				 : 0,
		.refusal = kw_pair_refusal(agent->pair)->words,
	};
	json_t *report = kw_stage_report(
		stages, kw_agent_stages, &facts, follow->superblock.epoch, kw_wall_us());

	add_present(report, agent, facts.limit);
	kw_rpc_result(call, report);
	if (json_is_true(json_object_get(params, "reset")))
		kw_stages_reset(stages, kw_wall_us());
}

/* The state that follows from what was asked for, with its reason. */
static void answer_state(struct kw_agent_daemon *daemon, struct kw_rpc_call *call)
{
	struct kw_agent *agent = daemon->agent;

	kw_agent_step(agent);
	kw_rpc_result(
		call, json_pack("{s:s,s:s,s:s,s:b}", "state", kw_sm_name(&agent->sm), "reason",
			      agent->reason, "reason_code", kw_agent_reason_row(agent->cause)->code,
			      "paused", (int)(agent->sync.intake == KW_SYNC_INTAKE_PAUSED)));
}

static void on_pause(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;

	kw_agent_pause(daemon->agent, true);
	answer_state(daemon, call);
}

static void on_resume(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;

	kw_agent_pause(daemon->agent, false);
	answer_state(daemon, call);
}

static void on_resync(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;

	kw_agent_resync(daemon->agent, "asked for by the operator");
	answer_state(daemon, call);
}

static void on_approve(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;
	char finding[KW_SYNC_WHY];
	struct kw_error error;

	if (kw_agent_approve(daemon->agent, finding, &error))
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(call, json_pack("{s:s}", "approved", finding));
}

static void on_barrier(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;
	struct kw_tokens *tokens = &daemon->agent->sync.tokens;
	uint64_t token = (uint64_t)json_integer_value(json_object_get(params, "token"));

	if (!kw_token_known(tokens, token)) {
		token = kw_token_issue(tokens, kw_clock_us());
		kw_follow_hurry(&daemon->agent->follow);
	}
	kw_rpc_waits_add(&daemon->waits, call, params, token);
}

static void on_retarget(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;
	struct kw_proxies proxies = {0};
	struct kw_error error;

	if (kw_target_asked(daemon->daemon.config, params, &proxies, &error) ||
		kw_agent_set_proxies(daemon->agent, &proxies, &error))
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(call, json_pack("{s:s}", "proxy", daemon->agent->follow.proxy));
}

static bool may_inspect(const struct kw_agent_daemon *daemon, struct kw_rpc_call *call)
{
	if (!daemon->closing)
		return true;
	kw_rpc_fail(call, KW_RPC_CODE(KW_E_STATE), "the agent is shutting down");
	return false;
}

static void on_get(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;

	if (may_inspect(daemon, call))
		kw_inspect_get(daemon->inspect, call, params);
}

static void on_verify(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;

	if (may_inspect(daemon, call))
		kw_inspect_verify(daemon->inspect, call, params);
}

static void on_export(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;

	if (may_inspect(daemon, call))
		kw_inspect_export(daemon->inspect, call);
}

static void on_shutdown(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent_daemon *daemon = arg;
	bool promote = json_is_true(json_object_get(params, "promote"));
	struct kw_error error;

	if (promote && !may_inspect(daemon, call))
		return;
	if (promote && kw_agent_promote(daemon->agent, &error)) {
		kw_rpc_fail(call, KW_RPC_CODE(error.code), "%s", error.text);
		return;
	}
	kw_rpc_result(call, json_pack("{s:b}", "stopping", true));
	kw_agent_daemon_shutdown(daemon,
		promote ? "asked for on the control socket, the local server is to be promoted"
			: "asked for on the control socket");
}

#define NO_PARAMS                                                                                  \
	{                                                                                          \
		{                                                                                  \
			NULL, JSON_NULL, false, NULL                                               \
		}                                                                                  \
	}

const struct kw_rpc_method kw_agent_methods[] = {
	{"status", "State, position, lag and counters.",
		{{"reset_lag", JSON_TRUE, false, "begin the lag figures anew after this answer"}},
		on_status},
	{"metrics", "The same figures as Prometheus text.", NO_PARAMS, on_metrics},
	{"lag",
		"Where the time goes from the publication of a change to its acknowledgement by "
		"the local server: the stages, with what shortens each.",
		KW_LAG_PARAMS, on_lag},
	{"pause", "Read nothing more from the proxy until resume.", NO_PARAMS, on_pause},
	{"resume", "Go on after pause.", NO_PARAMS, on_resume},
	{"resync", "Take a whole snapshot now and delete local keys that are not in it.", NO_PARAMS,
		on_resync},
	{"barrier",
		"Has all that the primary had done when the token was issued been applied here? "
		"Without a token of this run of the agent, one is issued. passed is null if the "
		"proxy is of an earlier version: compare fresh_us then.",
		{{"token", JSON_INTEGER, false, "from an earlier answer"}, KW_RPC_WAIT_PARAM},
		on_barrier},
	{"approve", "Approve what waits for approval: the reason of the state says what that is.",
		NO_PARAMS, on_approve},
	{"retarget",
		"Follow another proxy from now on (until the next start, or for good with save).",
		{{"proxy", JSON_STRING, false, "its address, as in the configuration"},
			{"proxies", JSON_ARRAY, false,
				"or the addresses of several proxies of one primary"},
			{"save", JSON_TRUE, false, "keep them for the next starts, too"}},
		on_retarget},
	{"get", "Look one key up in the proxy's table by reading its memory.",
		{{"key", JSON_STRING, true, "the key"},
			{"database", JSON_INTEGER, false, "its database, 0 if not given"}},
		on_get},
	{"verify", "Compare the local keys with the table, looking twice before a key is accused.",
		{{"sample", JSON_INTEGER, false, "about so many keys; all if not given"}},
		on_verify},
	{"export",
		"Write the table as an RDB stream to the pipe that comes with the request (its "
		"writing end, by SCM_RIGHTS).",
		NO_PARAMS, on_export},
	{"shutdown", "Write the cursor and end the agent.",
		{{"promote", JSON_TRUE, false,
			"mode replica: the local server is promoted, and left alone by agents "
			"until resync"}},
		on_shutdown},
	KW_DAEMON_METHODS,
	{0},
};
