/* What the gateway answers on its control socket. */
#include "daemon.h"
#include "figures.h"

#include "base/clock.h"
#include "control/json_text.h"
#include "control/stage_report.h"

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
	const bool age_known = sight->age_us != KW_SIGHT_AGE_UNKNOWN;

	return json_pack(
		"{s:s,s:o,s:s,s:I,s:I,s:I,s:o,s:o,s:s,s:s,s:s,s:i,s:I,s:o,s:o,s:o,s:o,s:o,s:I}",
		"state", kw_gateway_state_name(sight->state), "reason", kw_json_text(sight->why),
		"name", gateway->target.name, "epoch", (json_int_t)sight->epoch, "head_version",
		(json_int_t)sight->version, "fresh_us", (json_int_t)sight->fresh_us, "age_ms",
		age_known ? json_real((double)sight->age_us / 1000.0) : json_null(),
		"clock_error_us",
		error_known ? json_integer((json_int_t)sight->clock_error_us) : json_null(),
		"proxy", follow->proxy, "transport", kw_carrier_name(follow->address.carrier),
		"device", kw_follow_up(follow) ? follow->info.device : "", "depth",
		(int)follow->info.depth, "clients",
		(json_int_t)kw_frontend_stats(gateway->server)->clients, "staleness_p50_us",
		quantile(gateway, 0.5), "staleness_p99_us", quantile(gateway, 0.99),
		"staleness_max_us", quantile(gateway, 1), "clients_closed",
		closed_json(kw_frontend_stats(gateway->server)), "forward",
		kw_json_text(forward_text(gateway)), "uptime_s",
		(json_int_t)((kw_clock_us() - gateway->started_us) / 1000000));
}

static json_t *whole_status(void *arg)
{
	struct kw_gateway *gateway = arg;
	struct kw_gets_sight sight;
	struct kw_gateway_figures figures;
	json_t *status;

	kw_gets_sight(gateway->gets, &sight);
	kw_gateway_collect(gateway, &sight, &figures);
	status = status_json(gateway, &sight);
	kw_daemon_tell_reason(&gateway->daemon, status, sight.row);
	json_object_set_new(status, "near_entries", json_integer((json_int_t)figures.near_entries));
	json_object_set_new(status, "near_bytes", json_integer((json_int_t)figures.near_bytes));
	json_object_set_new(status, "client_bytes", json_integer((json_int_t)figures.client_bytes));
	kw_target_show(status, kw_gets_scouts(gateway->gets));
	kw_figures_status(status, kw_gateway_figure_table, &figures);
	kw_gateway_show_certificates(gateway, status);
	return status;
}

static void on_status(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	kw_rpc_result(call, whole_status(arg));
}

/* The lag is the age of the table. */
static void get_ready(void *arg, struct kw_http_readiness *readiness)
{
	struct kw_gateway *gateway = arg;
	struct kw_gets_sight sight;

	kw_gets_sight(gateway->gets, &sight);
	readiness->ready = sight.state == KW_GATEWAY_SERVING;
	readiness->state = kw_gateway_state_name(sight.state);
	snprintf(readiness->reason, sizeof readiness->reason, "%s", sight.why);
	if (sight.age_us != KW_SIGHT_AGE_UNKNOWN)
		readiness->lag_us = sight.age_us;
}

int kw_gateway_serve_http(struct kw_gateway *gateway, struct kw_error *error)
{
	const struct kw_http_source source = {"gateway", get_ready, whole_status,
		kw_gateway_metrics, NULL, &gateway->daemon.transitions, gateway};

	return kw_http_server_new(
		gateway->loop, gateway->daemon.config, &source, &gateway->daemon.http, error);
}

static void on_metrics(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_buffer text = {0};

	kw_gateway_metrics(arg, &text);
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

/* A change passes through no stage here: the gateway reads the table when a client asks. */
static void on_lag(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	const struct kw_gateway *gateway = arg;

	kw_rpc_fail(call, KW_RPC_CODE(KW_E_STATE),
		"a gateway applies no changes, so it has no stages: ask its proxy, which it reads "
		"at %s (keywakectl -s PROXY-SOCKET explain lag there). How old its answers are, "
		"say age_ms and staleness_p99_us of its status",
		kw_gets_follow(gateway->gets)->proxy);
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
	{"lag", "Refused, with where to ask: a gateway applies no changes.", KW_LAG_PARAMS, on_lag},
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
