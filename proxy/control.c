/* What the proxy answers on its control socket. */
#include "figures.h"
#include "proxy.h"
#include "stages.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/json_text.h"
#include "mandate/hint.h"
#include "mandate/sentinels.h"
#include "remote/rdma/counts.h"

#include <inttypes.h>
#include <stdlib.h>

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static json_t *history_json(const struct kw_history *history)
{
	static const char *const standings[] = {
		[KW_HISTORY_NONE] = "none",
		[KW_HISTORY_AWAITED] = "not asked yet",
		[KW_HISTORY_TOLD] = "told",
		[KW_HISTORY_UNTOLD] = "the primary tells none",
	};
	char proxy[24];

	snprintf(proxy, sizeof proxy, "%016" PRIx64, history->proxy);
	return json_pack("{s:s,s:s,s:s,s:I,s:s,s:s}", "standing", standings[history->standing],
		"replid", history->replid, "replid2", history->replid2, "second_offset",
		(json_int_t)history->second_offset, "proxy", proxy, "proxy_name",
		history->proxy_name);
}

static const char *by_name(enum kw_mandate_by by)
{
	return by == KW_MANDATE_BY_SENTINEL   ? "sentinel"
	       : by == KW_MANDATE_BY_OPERATOR ? "operator"
					      : "none";
}

static json_t *sentinels_json(const struct kw_proxy *proxy)
{
	json_t *list = json_array();
	struct kw_sentinel_info info;
	uint64_t now_us = kw_clock_us();

	for (size_t i = 0; proxy->sentinels && i < KW_SENTINELS_MAX; i++) {
		if (!kw_sentinels_info(proxy->sentinels, i, &info))
			continue;
		json_array_append_new(list,
			json_pack("{s:s,s:b,s:s,s:o,s:s,s:f,s:s,s:i,s:s,s:I}", "address",
				info.address, "configured", info.configured, "state", info.state,
				"reason", kw_json_text(info.why), "id", info.sentinel->id, "age_s",
				info.sentinel->asked_us
					? (double)(now_us - info.sentinel->asked_us) / 1e6
					: -1.0,
				"host", info.sentinel->primary.host, "port",
				(int)info.sentinel->primary.port, "run_id",
				info.sentinel->primary.run_id, "term",
				(json_int_t)info.sentinel->epoch));
	}
	return list;
}

/* `at`: the sentinel that tells of failovers; "": none does, see the reason. */
static json_t *hint_json(const struct kw_proxy *proxy)
{
	const struct kw_hint *hint = kw_sentinels_hint(proxy->sentinels);

	return json_pack("{s:s,s:I,s:o}", "at", kw_hint_is_listening(hint) ? hint->address : "",
		"heard", (json_int_t)hint->count, "reason", kw_json_text(hint->why));
}

/* Who confirms the primary, since when, and how many of how many sentinels do. */
static json_t *mandate_json(const struct kw_proxy *proxy)
{
	const struct kw_mandate *m = &proxy->mandate;
	uint64_t late, losses;
	json_t *json = json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:o,s:f}", "by", by_name(m->by), "state",
		kw_mandate_state_name(kw_mandate_state(m)), "term", (json_int_t)m->term,
		"term_version", (json_int_t)kw_table_history(proxy->table)->term_version,
		"confirmations", (json_int_t)m->confirmations, "losses", (json_int_t)m->losses,
		"reason", kw_json_text(m->why), "since_s",
		(double)(kw_clock_us() - m->since_us) / 1e6);

	json_object_set_new(json, "run_id", json_string(kw_source_run_id(proxy->source)));
	kw_source_late(proxy->source, &late, &losses);
	json_object_set_new(json, "late_events", json_integer((json_int_t)late));
	json_object_set_new(json, "late_losses", json_integer((json_int_t)losses));
	json_object_set_new(json, "role", json_string(kw_source_role(proxy->source)));
	if (m->by == KW_MANDATE_BY_SENTINEL) {
		json_object_set_new(json, "name", json_string(m->name));
		json_object_set_new(json, "voters", json_integer(m->verdict.voters));
		json_object_set_new(json, "answered", json_integer(m->verdict.answered));
		json_object_set_new(json, "confirming", json_integer(m->verdict.naming));
		json_object_set_new(json, "hint", hint_json(proxy));
		json_object_set_new(json, "sentinels", sentinels_json(proxy));
	}
	return json;
}

static json_t *table_json(const struct kw_table *table, const struct kw_table_stats *t)
{
	return json_pack("{s:I,s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o}", "live_bytes",
		(json_int_t)t->live_bytes, "used_bytes", (json_int_t)t->used_bytes,
		"capacity_bytes", (json_int_t)t->capacity_bytes, "utilisation",
		ratio(t->live_bytes, t->used_bytes), "payload_bytes", (json_int_t)t->payload_bytes,
		"segments", (json_int_t)t->segments, "tombstones", (json_int_t)t->tombstones,
		"tombstone_floor", (json_int_t)t->tombstone_floor, "written_bytes",
		(json_int_t)t->written_bytes, "cleaned_bytes", (json_int_t)t->cleaned_bytes,
		"cleaner_us", (json_int_t)t->cleaner_us, "index_slots", (json_int_t)t->index_slots,
		"given_back_bytes", (json_int_t)t->given_back_bytes, "history",
		history_json(kw_table_history(table)));
}

/* How much of the primary's time fetching takes, and whether keys wait for that. */
static json_t *pace_json(const struct kw_pace_report *p)
{
	return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "target", p->target, "taken", p->taken,
		"primary_busy", p->busy, "primary_waiting", p->waiting, "allowed", p->allowed,
		"key_us", p->key_us, "holding_back", p->holding);
}

/* Only counters that are not zero; metrics has all. */
static void add_rdma(json_t *status)
{
	json_t *faults = json_object();

	for (int i = 0; i < KW_RDMA_COUNTS; i++)
		if (kw_rdma_counted((enum kw_rdma_count)i) > 0)
			json_object_set_new(faults, kw_rdma_count_name((enum kw_rdma_count)i),
				json_integer((json_int_t)kw_rdma_counted((enum kw_rdma_count)i)));
	json_object_set_new(status, "rdma_faults", faults);
}

static json_t *listeners_json(const struct kw_proxy *proxy)
{
	struct kw_listener_info *infos = kw_alloc(KW_LISTENERS_SHOWN * sizeof *infos);
	int count = kw_server_listeners(proxy->server, infos, KW_LISTENERS_SHOWN);
	json_t *list = json_array();

	for (int i = 0; i < count && i < KW_LISTENERS_SHOWN; i++)
		json_array_append_new(
			list, json_pack("{s:s,s:s,s:o,s:s,s:I}", "address", infos[i].address,
				      "state", infos[i].waiting ? "waiting" : "listening", "reason",
				      kw_json_text(infos[i].why), "device", infos[i].device,
				      "attempts", (json_int_t)infos[i].attempts));
	free(infos);
	return list;
}

/* Of a scan: the share of keys that are in the table. A key it found can wait long for the pace. */
static double scan_progress(const struct kw_proxy *proxy, const struct kw_source_stats *s)
{
	uint64_t there = s->scanned > s->dirty_keys ? s->scanned - s->dirty_keys : 0;
	double share;

	if (kw_source_state(proxy->source) != KW_SOURCE_SCANNING &&
		kw_source_state(proxy->source) != KW_SOURCE_RECONCILING)
		return kw_source_state(proxy->source) == KW_SOURCE_LIVE ? 1.0 : 0.0;
	share = ratio(there, s->scan_total);
	return share > 0.999 ? 0.999 : share;
}

static const char *flags_text(enum kw_feed_flags flags)
{
	static const char *const texts[] = {
		[KW_FEED_FLAGS_CHECKED] = "checked",
		[KW_FEED_FLAGS_PROVEN] = "trusted, proven",
		[KW_FEED_FLAGS_UNPROVEN] = "trusted, unproven",
		[KW_FEED_FLAGS_UNUSED] = "not used",
	};

	return texts[flags];
}

/* Of the classes that a key can prove; without such a key none is. */
static json_t *classes_json(kw_flag_classes classes)
{
	json_t *names = json_array();

	for (int class = 0; class < KW_FLAG_CLASSES; class ++)
		if (classes & KW_FLAG_CLASS(class))
			json_array_append_new(
				names, json_string(kw_flag_class_name((enum kw_flag_class) class)));
	return names;
}

static json_t *feed_json(const struct kw_source_stats *s)
{
	return json_pack("{s:s,s:o,s:I}", "kind",
		s->feed == KW_SOURCE_FEED_STREAM ? "stream" : "notifications", "reason",
		kw_json_text(s->feed_why), "behind_bytes", (json_int_t)s->behind_bytes);
}

static json_t *functions_json(const struct kw_source_functions_report *f)
{
	return json_pack("{s:s,s:o,s:I,s:I,s:I}", "state", f->state, "reason", kw_json_text(f->why),
		"libraries", (json_int_t)f->libraries, "bytes", (json_int_t)f->bytes, "version",
		(json_int_t)f->version);
}

static json_t *status_json(void *arg)
{
	struct kw_proxy *proxy = arg;
	const struct kw_superblock *super = (const struct kw_superblock *)proxy->memory.base;
	struct kw_proxy_figures figures;
	const struct kw_table_stats *t = &figures.table;
	const struct kw_source_stats *s = &figures.source;
	char name[KW_PROXY_FULL_NAME];
	json_t *status;

	kw_source_confirm(proxy->source); /* true as of now */
	kw_proxy_collect(proxy, &figures);
	status = json_pack("{s:s,s:o,s:I,s:I,s:I,s:I,s:o,s:i,s:f,s:I,s:I,s:I,s:I,s:s,s:I}", "state",
		kw_source_state_name(kw_source_state(proxy->source)), "reason",
		kw_json_text(kw_source_reason(proxy->source)), "epoch", (json_int_t)proxy->epoch,
		"version", (json_int_t)t->version, "keys", (json_int_t)t->keys, "dirty_keys",
		(json_int_t)s->dirty_keys, "table", table_json(proxy->table, t), "agents",
		(int)figures.agents, "progress", scan_progress(proxy, s), "fresh_us",
		(json_int_t)super->fresh_us, "scanned", (json_int_t)s->scanned, "full_waiting",
		(json_int_t)s->full_waiting, "clock_skew_us", (json_int_t)s->clock_skew_us, "redis",
		kw_config_text(proxy->daemon.config, "redis.address"), "uptime_s",
		(json_int_t)((kw_wall_us() - proxy->started_us) / 1000000));
	kw_daemon_tell_reason(&proxy->daemon, status, kw_source_reason_row(proxy->source));
	kw_proxy_name(proxy->daemon.config, name);
	json_object_set_new(status, "name", kw_json_text(name));
	json_object_set_new(status, "flags", json_string(flags_text(s->flags)));
	if (*kw_config_text(proxy->daemon.config, "source.canary_key")) {
		json_object_set_new(status, "flags_proven", classes_json(s->flags_proven));
		json_object_set_new(status, "flags_unproven",
			classes_json(KW_FLAG_CLASSES_ALL & ~s->flags_proven));
	}
	json_object_set_new(status, "feed", feed_json(s));
	json_object_set_new(status, "functions", functions_json(&figures.functions));
	json_object_set_new(
		status, "upstream_silent_ms", json_real((double)s->upstream_silent_us / 1000.0));
	json_object_set_new(status, "missing_keys", json_integer((json_int_t)s->missing_keys));
	json_object_set_new(status, "missing_of", json_integer((json_int_t)s->missing_of));
	json_object_set_new(status, "pace", pace_json(&figures.pace));
	json_object_set_new(status, "listeners", listeners_json(proxy));
	json_object_set_new(status, "mandate", mandate_json(proxy));
	kw_figures_status(status, kw_proxy_figure_table, &figures);
	add_rdma(status);
	kw_proxy_show_certificates(proxy, status);
	return status;
}

static void on_status(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	kw_rpc_result(call, status_json(arg));
}

static json_t *session_json(const struct kw_session_info *s)
{
	/*
	 * An agent that is not positioned yet needs nothing kept, so it has passed everything: no
	 * number.
	 */
	json_t *passed = s->progress.passed == UINT64_MAX
				 ? json_null()
				 : json_integer((json_int_t)s->progress.passed);
	uint64_t lag_us = s->progress.lag_us;
	json_t *json = json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:o,s:I,s:o,s:i,s:I}", "id",
		(json_int_t)s->id, "name", s->name, "carrier", kw_carrier_name(s->carrier),
		"device", s->device, "peer", s->peer, "state",
		s->reported ? s->progress.state : "joining", "passed", passed, "applied",
		(json_int_t)s->progress.applied, "lag_ms",
		s->reported && lag_us != UINT64_MAX ? json_real((double)lag_us / 1000.0)
						    : json_null(),
		"depth", (int)s->depth, "connected_us", (json_int_t)s->connected_us);

	json_object_set_new(json, "since_us", json_integer((json_int_t)s->state_us));
	json_object_set_new(json, "key", json_string(s->identity.key_id));
	json_object_set_new(json, "principal", json_string(kw_identity_principal(&s->identity)));
	json_object_set_new(json, "tls", json_string(s->tls));
	json_object_set_new(json, "role", json_string(kw_role_name(s->identity.role)));
	/* One-sided READs are known by report only: null, not a number that looks like one. */
	json_object_set_new(json, "reads",
		s->reads == UINT64_MAX ? json_null() : json_integer((json_int_t)s->reads));
	json_object_set_new(json, "bytes",
		s->bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)s->bytes));
	json_object_set_new(json, "wire_bytes",
		s->wire_bytes == UINT64_MAX ? json_null()
					    : json_integer((json_int_t)s->wire_bytes));
	json_object_set_new(json, "compression", json_string(s->compressed ? "zstd" : "none"));
	return json;
}

static json_t *agents_json(void *arg)
{
	struct kw_proxy *proxy = arg;
	struct kw_session_info *infos = kw_alloc(KW_SESSIONS_SHOWN * sizeof *infos);
	int count = kw_server_sessions(proxy->server, infos, KW_SESSIONS_SHOWN);
	json_t *list = json_array();

	for (int i = 0; i < count && i < KW_SESSIONS_SHOWN; i++)
		json_array_append_new(list, session_json(&infos[i]));
	free(infos);
	return list;
}

/* The lag is the age of the table's freshness. */
static void get_ready(void *arg, struct kw_http_readiness *readiness)
{
	struct kw_proxy *proxy = arg;
	const struct kw_superblock *super = (const struct kw_superblock *)proxy->memory.base;
	enum kw_source_state state;
	uint64_t now_us = kw_wall_us();

	kw_source_confirm(proxy->source); /* true as of now */
	state = kw_source_state(proxy->source);
	readiness->ready = state == KW_SOURCE_LIVE;
	readiness->state = kw_source_state_name(state);
	snprintf(
		readiness->reason, sizeof readiness->reason, "%s", kw_source_reason(proxy->source));
	if (super->fresh_us > 0)
		readiness->lag_us = now_us > super->fresh_us ? now_us - super->fresh_us : 0;
}

int kw_proxy_serve_http(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_http_source source = {"proxy", get_ready, status_json, kw_proxy_metrics,
		agents_json, &proxy->daemon.transitions, proxy};

	return kw_http_server_new(
		proxy->loop, proxy->daemon.config, &source, &proxy->daemon.http, error);
}

static void on_metrics(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_buffer text = {0};

	kw_proxy_metrics(arg, &text);
	kw_rpc_result(call, json_pack("{s:s%}", "text", (const char *)kw_buffer_bytes(&text),
				    (int)kw_buffer_length(&text)));
	kw_buffer_close(&text);
}

static void on_lag(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	struct kw_stages *stages = kw_source_stages(proxy->source);
	const struct kw_config *config = proxy->daemon.config;
	struct kw_proxy_stage_facts facts = {
		.state = kw_source_state(proxy->source),
		.keys_per_second = (uint64_t)kw_config_integer(config, "source.keys_per_second"),
		.bytes_per_second = (uint64_t)kw_config_integer(config, "source.bytes_per_second"),
	};
	struct kw_source_stats stats;
	json_t *report;

	kw_source_stats(proxy->source, &stats);
	kw_source_pace(proxy->source, &facts.pace);
	facts.full_waiting = stats.full_waiting;
	report = kw_stage_report(stages, kw_proxy_stages, &facts, proxy->epoch, kw_clock_us());
	if (facts.state != KW_SOURCE_LIVE)
		kw_stage_report_present(report, "%s: %s", kw_source_state_name(facts.state),
			kw_source_reason(proxy->source));
	kw_rpc_result(call, report);
	if (json_is_true(json_object_get(params, "reset")))
		kw_stages_reset(stages, kw_clock_us());
}

static void on_agents_list(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	kw_rpc_result(call, agents_json(arg));
}

static void on_agents_disconnect(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	json_int_t id = json_integer_value(json_object_get(params, "id"));

	if (id > 0 && kw_server_disconnect(proxy->server, (uint64_t)id, "by the operator"))
		kw_rpc_result(call, json_pack("{s:I}", "disconnected", id));
	else
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_GONE),
			"no agent has the id %" JSON_INTEGER_FORMAT "; agents.list shows them", id);
}

static void on_agents_revoke(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	const char *id = json_string_value(json_object_get(params, "id"));
	struct kw_revocation done = {0};
	struct kw_error error;
	int code = KW_E_GONE;

	if (kw_principal_valid(id))
		code = kw_server_revoke(proxy->server, id, &done, &error);
	if (code == KW_OK || done.keys > 0)
		proxy->readers = 0; /* it may have mapped the memory */
	if (code == KW_E_STATE) {
		kw_log_warn("agents", "asked for on the control socket: %s", error.text);
		kw_rpc_fail(call, KW_RPC_CODE(code), "%s", error.text);
		return;
	}
	if (code != KW_OK) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_GONE),
			"no key has that id; agents.list shows those in use. An agent without one "
			"proves "
			"auth.secret_file: replace that, and reload");
		return;
	}
	kw_log_warn("agents",
		"%s is refused until the next reload (%" PRIu32 " keys of it, %" PRIu32
		" sessions ended): asked for on the control socket",
		id, done.keys, done.sessions);
	kw_rpc_result(call,
		json_pack("{s:s,s:I,s:I,s:I,s:I}", "revoked", id, "keys", (json_int_t)done.keys,
			"sessions", (json_int_t)done.sessions, "names_refused",
			(json_int_t)done.names, "names_most", (json_int_t)KW_REVOKED_MAX));
}

static void on_reconcile(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;

	kw_source_forgive(proxy->source);
	if (json_is_true(json_object_get(params, "wait"))) {
		kw_proxy_compare(proxy, call);
		return;
	}
	kw_source_reconcile(proxy->source, "asked for by the operator");
	kw_rpc_result(call,
		json_pack("{s:s}", "state", kw_source_state_name(kw_source_state(proxy->source))));
}

static void on_approve(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	char finding[KW_ERROR_TEXT];
	struct kw_error error;

	if (kw_source_approve(proxy->source, finding, &error)) {
		kw_rpc_fail_error(call, &error);
		return;
	}
	kw_log_warn("source", "approved on the control socket: %s", finding);
	kw_rpc_result(call, json_pack("{s:s}", "approved", finding));
}

/*
 * Tokens are tickets of this epoch: the epoch's low bits, then the number. One that has passed and
 * is older than half of all numbers looks like one that was never drawn. Both are replaced: what
 * the new one promises includes what the old one did.
 */
static bool is_token_good(uint64_t token, uint64_t epoch, uint16_t number)
{
	uint16_t ticket = (uint16_t)token;

	return token >> 16 == epoch && ticket != 0 &&
	       (kw_ticket_reached(number, ticket) || kw_ticket_awaited(number, ticket));
}

static void on_barrier(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	uint64_t token = (uint64_t)json_integer_value(json_object_get(params, "token"));
	uint64_t epoch = proxy->epoch & UINT32_MAX;
	uint16_t number = kw_source_ticket(proxy->source);

	if (!is_token_good(token, epoch, number))
		token = epoch << 16 | kw_ticket_drawn(number);
	/* The furthest of those that are waited for covers the others. */
	if (kw_ticket_awaited(number, (uint16_t)token) &&
		(!proxy->ticket || !kw_ticket_reached(proxy->ticket, (uint16_t)token)))
		proxy->ticket = (uint16_t)token;
	kw_proxy_serve_tickets(proxy);
	kw_rpc_waits_add(&proxy->waits, call, params, token);
}

static void on_shutdown(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	kw_rpc_result(call, json_pack("{s:b}", "stopping", true));
	kw_proxy_shutdown(arg, "asked for on the control socket");
}

#define NO_PARAMS                                                                                  \
	{                                                                                          \
		{                                                                                  \
			NULL, JSON_NULL, false, NULL                                               \
		}                                                                                  \
	}

const struct kw_rpc_method kw_proxy_methods[] = {
	{"status", "State, table and counters.", NO_PARAMS, on_status},
	{"metrics", "The same figures as Prometheus text.", NO_PARAMS, on_metrics},
	{"lag",
		"Where the time goes from a write at the primary to its publication: the stages, "
		"with what shortens each.",
		KW_LAG_PARAMS, on_lag},
	{"agents.list",
		"The agents connected, with carrier, device, position and lag. null: `passed` of "
		"one that has no position yet and so holds no tombstone; `reads`, `bytes` where "
		"READs are one-sided and it has not told them yet.",
		NO_PARAMS, on_agents_list},
	{"agents.disconnect", "Revoke an agent's connection at once; it connects again by itself.",
		{{"id", JSON_INTEGER, true, "from agents.list"}}, on_agents_disconnect},
	{"agents.revoke",
		"Refuse the key of this id, and whom a certificate names so, until the next reload "
		"or start, and end its sessions at once. The answer counts keys and sessions. "
		"Without either the id can be a mistake: with certificates the name is refused "
		"all the same. To withdraw it for good, take its lines "
		"out of auth.keys_file, put its certificate into tls.crl, and reload.",
		{{"id", JSON_STRING, true, "of a key or certificate: principal in agents.list"}},
		on_agents_revoke},
	{"barrier",
		"Is all that the primary had done when the token was issued in the table? Without "
		"a token of this run of the proxy, or with a very old one, another is issued.",
		{{"token", JSON_INTEGER, false, "from an earlier answer"}, KW_RPC_WAIT_PARAM},
		on_barrier},
	{"reconcile", "Scan the primary again and mend what differs.",
		{{"wait", JSON_TRUE, false,
			"at full speed, and answer when it is over: how many keys there are, and "
			"how many records the table lacked"}},
		on_reconcile},
	{"approve", "Approve what waits for approval: the keys that the primary lacks are deleted.",
		NO_PARAMS, on_approve},
	{"lock",
		"One client at a time switches the primary over. The lock ends with its "
		"connection, and after that time, unless it is taken again.",
		{{"seconds", JSON_REAL, true, "for how long, 600 at most; 0: let it go"},
			{"lock", JSON_INTEGER, false, "from an earlier answer: keep it"},
			{"owner", JSON_STRING, false, "who has it, for those who are refused"}},
		kw_proxy_on_lock},
	{"fence",
		"Let the writes of all clients at the primary wait (CLIENT PAUSE WRITE); they go "
		"on "
		"by themselves after that time. The answer: which run of the primary took it, "
		"how many changes it had counted by then, since which save, and how many since "
		"the last fence (-1: not known).",
		{{"seconds", JSON_REAL, true, "for how long; 0: they go on at once"},
			{"lock", JSON_INTEGER, false, "of the client that has the lock"}},
		kw_proxy_on_fence},
	{"term", "Save another authority.term, as a step of a switch-over.",
		{{"term", JSON_INTEGER, true, "0: the primary is not confirmed any more"},
			{"lock", JSON_INTEGER, true, "of the client that has the lock"}},
		kw_proxy_on_term},
	{"shutdown", "End the proxy.", NO_PARAMS, on_shutdown},
	KW_DAEMON_METHODS,
	{0},
};
