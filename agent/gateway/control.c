/* What the gateway answers on its control socket. */
#include "daemon.h"

#include "base/clock.h"
#include "control/figures.h"
#include "remote/rdma/counts.h"

#include <math.h>

/* What is shown of this moment. */
struct figures {
	uint64_t state, clients, client_bytes, requests_under_way, lookups_under_way;
	double age_seconds, clock_error_seconds;
	uint64_t gets, values, missing, expired, refused_loading, refused_stale, refused_lost,
		refused_try_again, refused_too_large, near_entries, near_bytes, near_hits,
		near_refused, near_invalidated, near_evicted, found_by_place, found_by_slots,
		found_together, retries, looks, reads, bytes_read, requests, requests_refused,
		requests_forwarded, clients_accepted, bytes_in, bytes_out, reconnects,
		forwards_under_way, forwards_refused, forwards_lost, forwards_perhaps_executed,
		forward_connections;
};

#define GAUGE(name, doc) KW_GAUGE(struct figures, name, #name, doc)
#define COUNTER(name, doc) KW_STATUS_COUNTER(struct figures, name, #name, doc)

static const struct kw_figure figure_table[] = {
	GAUGE(state, "0 connecting, 1 loading, 2 serving, 3 stale, 4 failed"),
	GAUGE(age_seconds, "age of the table by the proxy's clock; inf while unknown"),
	GAUGE(clock_error_seconds,
		"a key can be served so long after it expired; inf while unknown"),
	GAUGE(clients, "clients connected"),
	GAUGE(client_bytes, "requests and replies of clients that are kept in memory"),
	GAUGE(requests_under_way, "keys and replies that clients wait for"),
	GAUGE(lookups_under_way, "keys that are being looked up"),
	GAUGE(near_entries, "values kept near"),
	GAUGE(near_bytes, "memory that they take, with all that is kept beside them"),
	GAUGE(forwards_under_way, "requests that the primary has not answered"),
	COUNTER(gets, "keys asked for"),
	COUNTER(values, "of them, keys that had a value"),
	COUNTER(missing, "keys that were not there"),
	COUNTER(expired, "of the missing, keys whose time was over"),
	COUNTER(refused_loading, "keys refused because the table was not complete"),
	COUNTER(refused_stale, "keys refused because the table was too old"),
	COUNTER(refused_lost, "keys refused because there was no connection to the proxy"),
	COUNTER(refused_try_again, "keys that could not be read with certainty in time"),
	COUNTER(refused_too_large, "keys whose values were larger than gateway.max_value_bytes"),
	COUNTER(near_hits, "values found near, without a READ"),
	COUNTER(near_refused, "values not kept near: they might have been old, or were large"),
	COUNTER(near_invalidated, "near values dropped because the log showed something newer"),
	COUNTER(near_evicted, "near values dropped for room"),
	COUNTER(found_by_place, "lookups that took one READ, at a remembered place"),
	COUNTER(found_by_slots, "values found by the index"),
	COUNTER(found_together,
		"values found by a lookup that another question of the same key had begun"),
	COUNTER(retries, "lookups begun again, because the table changed meanwhile"),
	COUNTER(looks, "READs of the superblock because clients asked"),
	COUNTER(reads, "READs of the proxy's memory"),
	COUNTER(bytes_read, "bytes read from the proxy's memory"),
	COUNTER(requests, "requests of clients"),
	COUNTER(requests_refused, "of them, requests that are not served"),
	COUNTER(requests_forwarded, "of them, requests sent to the primary"),
	COUNTER(forwards_refused,
		"requests refused because the primary was away, or too many waited"),
	COUNTER(forwards_lost, "requests that a lost connection kept from the primary"),
	COUNTER(forwards_perhaps_executed, "requests that were lost with their connection: the "
					   "primary may have executed them"),
	COUNTER(forward_connections, "connections to the primary made"),
	COUNTER(clients_accepted, "clients that came"),
	COUNTER(bytes_in, "bytes from clients"),
	COUNTER(bytes_out, "bytes to clients"),
	COUNTER(reconnects, "connections to the proxy tried"),
	{0},
};

static double age_seconds(const struct kw_gets_sight *sight)
{
	bool known = sight->state == KW_GATEWAY_SERVING || sight->age_us > 0;

	return known ? (double)sight->age_us / 1e6 : (double)INFINITY;
}

static void collect_forward(const struct kw_forward *forward, struct figures *figures)
{
	if (!forward)
		return;
	figures->forwards_under_way = forward->requests;
	figures->forwards_refused = forward->counts.refused;
	figures->forwards_lost = forward->counts.lost_not_executed;
	figures->forwards_perhaps_executed = forward->counts.lost_perhaps;
	figures->forward_connections = forward->counts.connections;
}

static struct figures collect(const struct kw_gateway *gateway, const struct kw_gets_sight *sight)
{
	const struct kw_frontend_stats *server = kw_frontend_stats(gateway->server);
	struct kw_gets_stats gets;
	struct figures figures;

	kw_gets_stats(gateway->gets, &gets);
	figures = (struct figures){
		.state = (uint64_t)sight->state,
		.age_seconds = age_seconds(sight),
		.clock_error_seconds = sight->clock_error_us == UINT64_MAX
					       ? (double)INFINITY
					       : (double)sight->clock_error_us / 1e6,
		.clients = server->clients,
		.client_bytes = server->held,
		.requests_under_way = server->parts,
		.lookups_under_way = gets.looked_up,
		.gets = gets.asked,
		.values = gets.told[KW_GOT_VALUE],
		.missing = gets.told[KW_GOT_MISSING],
		.expired = gets.expired,
		.refused_loading = gets.told[KW_GOT_LOADING],
		.refused_stale = gets.told[KW_GOT_STALE],
		.refused_lost = gets.told[KW_GOT_LOST],
		.refused_try_again = gets.told[KW_GOT_TRY_AGAIN],
		.refused_too_large = gets.told[KW_GOT_TOO_LARGE],
		.near_entries = gets.near.entries,
		.near_bytes = gets.near.bytes,
		.near_hits = gets.near.hits,
		.near_refused = gets.near.refused,
		.near_invalidated = gets.near.invalidated,
		.near_evicted = gets.near.evicted,
		.found_by_place = gets.by_place,
		.found_by_slots = gets.by_slots,
		.found_together = gets.shared,
		.retries = gets.again,
		.looks = gets.looks,
		.reads = gets.reads,
		.bytes_read = gets.bytes,
		.requests = server->requests,
		.requests_refused = server->refused,
		.requests_forwarded = server->forwarded,
		.clients_accepted = server->accepted,
		.bytes_in = server->bytes_in,
		.bytes_out = server->bytes_out,
		.reconnects = kw_gets_follow(gateway->gets)->reconnects,
	};
	collect_forward(gateway->forward, &figures);
	return figures;
}

static json_t *closed_json(const struct kw_frontend_stats *stats)
{
	json_t *closed = json_object();

	for (int i = 0; i < KW_CLOSED_REASONS; i++)
		json_object_set_new(closed, kw_closed_for_name((enum kw_closed_for)i),
			json_integer((json_int_t)stats->closed[i]));
	return closed;
}

/* off, ready (a connection is opened when a request comes), or why there is none. */
static const char *forward_text(const struct kw_gateway *gateway)
{
	const char *down = gateway->forward ? kw_forward_down(gateway->forward) : NULL;

	if (!gateway->forward)
		return "off";
	return down ? down : "ready";
}

static json_t *quantile(const struct kw_gateway *gateway, double share)
{
	return json_integer((json_int_t)kw_gets_staleness_us(gateway->gets, share));
}

static json_t *status_json(const struct kw_gateway *gateway, const struct kw_gets_sight *sight)
{
	const struct kw_follow *follow = kw_gets_follow(gateway->gets);
	const bool error_known = sight->clock_error_us != UINT64_MAX;

	return json_pack(
		"{s:s,s:s,s:s,s:I,s:I,s:I,s:f,s:o,s:s,s:s,s:s,s:i,s:I,s:o,s:o,s:o,s:o,s:s,s:I}",
		"state", kw_gateway_state_name(sight->state), "reason", sight->why, "name",
		gateway->target.name, "epoch", (json_int_t)sight->epoch, "head_version",
		(json_int_t)sight->version, "fresh_us", (json_int_t)sight->fresh_us, "age_ms",
		(double)sight->age_us / 1000.0, "clock_error_us",
		error_known ? json_integer((json_int_t)sight->clock_error_us) : json_null(),
		"proxy", follow->proxy, "transport", kw_carrier_name(follow->address.carrier),
		"device", kw_follow_up(follow) ? follow->info.device : "", "depth",
		(int)follow->info.depth, "clients",
		(json_int_t)kw_frontend_stats(gateway->server)->clients, "staleness_p50_us",
		quantile(gateway, 0.5), "staleness_p99_us", quantile(gateway, 0.99),
		"staleness_max_us", quantile(gateway, 1), "clients_closed",
		closed_json(kw_frontend_stats(gateway->server)), "forward", forward_text(gateway),
		"uptime_s", (json_int_t)((kw_clock_us() - gateway->started_us) / 1000000));
}

static void on_status(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_gateway *gateway = arg;
	struct kw_gets_sight sight;
	struct figures figures;
	json_t *status;

	kw_gets_sight(gateway->gets, &sight);
	figures = collect(gateway, &sight);
	status = status_json(gateway, &sight);
	json_object_set_new(status, "near_entries", json_integer((json_int_t)figures.near_entries));
	json_object_set_new(status, "near_bytes", json_integer((json_int_t)figures.near_bytes));
	json_object_set_new(status, "client_bytes", json_integer((json_int_t)figures.client_bytes));
	kw_target_show(status, kw_gets_scouts(gateway->gets));
	kw_figures_status(status, figure_table, &figures);
	kw_rpc_result(call, status);
}

static void staleness_metrics(struct kw_buffer *text, const struct kw_gateway *gateway)
{
	static const double quantiles[] = {0.5, 0.9, 0.99, 0.999, 1};

	kw_buffer_printf(text, "# HELP keywake_gateway_staleness_seconds age of the table at each "
			       "answer\n# TYPE keywake_gateway_staleness_seconds summary\n");
	for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
		kw_buffer_printf(text, "keywake_gateway_staleness_seconds{quantile=\"%g\"} %.6f\n",
			quantiles[i],
			(double)kw_gets_staleness_us(gateway->gets, quantiles[i]) / 1e6);
}

static void closed_metrics(struct kw_buffer *text, const struct kw_frontend_stats *stats)
{
	kw_buffer_printf(text, "# HELP keywake_gateway_clients_closed_total connections ended, by "
			       "reason\n# TYPE keywake_gateway_clients_closed_total counter\n");
	for (int i = 0; i < KW_CLOSED_REASONS; i++)
		kw_buffer_printf(text, "keywake_gateway_clients_closed_total{for=\"%s\"} %llu\n",
			kw_closed_for_name((enum kw_closed_for)i),
			(unsigned long long)stats->closed[i]);
}

static void on_metrics(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_gateway *gateway = arg;
	struct kw_buffer text = {0};
	struct kw_gets_sight sight;
	struct figures figures;

	kw_gets_sight(gateway->gets, &sight);
	figures = collect(gateway, &sight);
	kw_figures_metrics(&text, "keywake_gateway", figure_table, &figures);
	kw_rdma_metrics(&text, "keywake_gateway_rdma");
	staleness_metrics(&text, gateway);
	closed_metrics(&text, kw_frontend_stats(gateway->server));
	kw_rpc_result(call, json_pack("{s:s%}", "text", (const char *)kw_buffer_bytes(&text),
				    (int)kw_buffer_length(&text)));
	kw_buffer_close(&text);
}

static void on_retarget(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_gateway *gateway = arg;
	struct kw_proxies proxies = {0};
	struct kw_error error;

	if (kw_target_asked(gateway->daemon.config, params, &proxies, &error) ||
		kw_gets_retarget(gateway->gets, &proxies, &error))
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(
			call, json_pack("{s:s}", "proxy", kw_gets_follow(gateway->gets)->proxy));
}

static void on_shutdown(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	kw_rpc_result(call, json_pack("{s:b}", "stopping", true));
	kw_gateway_shutdown(arg, "asked for on the control socket");
}

#define NO_PARAMS                                                                                  \
	{                                                                                          \
		{                                                                                  \
			NULL, JSON_NULL, false, NULL                                               \
		}                                                                                  \
	}

const struct kw_rpc_method kw_gateway_methods[] = {
	{"status", "State, age of the table, clients and counters.", NO_PARAMS, on_status},
	{"metrics", "The same figures as Prometheus text.", NO_PARAMS, on_metrics},
	{"retarget",
		"Follow another proxy from now on (until the next start, or for good with save).",
		{{"proxy", JSON_STRING, false, "its address, as in the configuration"},
			{"proxies", JSON_ARRAY, false,
				"or the addresses of several proxies of one primary"},
			{"save", JSON_TRUE, false, "keep them for the next starts, too"}},
		on_retarget},
	{"shutdown", "End the gateway.", NO_PARAMS, on_shutdown},
	KW_DAEMON_METHODS,
	{0},
};
