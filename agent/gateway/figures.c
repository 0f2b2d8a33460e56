#include "figures.h"

#include "base/clock.h"
#include "control/config/certificates.h"
#include "control/process.h"
#include "remote/rdma/counts.h"

#include <math.h>

#define GAUGE(name, doc) KW_GAUGE(struct kw_gateway_figures, name, #name, doc)
#define COUNTER(name, doc) KW_STATUS_COUNTER(struct kw_gateway_figures, name, #name, doc)
#define REFUSED(why, doc)                                                                          \
	KW_PART(struct kw_gateway_figures, refused_##why, "refused_" #why, "refused",              \
		"why=\"" #why "\"", doc)
#define FOUND(how, doc)                                                                            \
	KW_PART(struct kw_gateway_figures, found_##how, "found_" #how, "found",                    \
		"how=\"" #how "\"", doc)

const struct kw_figure kw_gateway_figure_table[] = {
	GAUGE(start_time_seconds, "when the process started"),
	GAUGE(loop_turn_max_seconds, "the longest time of the last minute or two in which the "
				     "daemon listened to nobody"),
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
	REFUSED(loading, "keys refused, by reason"),
	REFUSED(stale, "keys refused because the table was too old"),
	REFUSED(lost, "keys refused because there was no connection to the proxy"),
	REFUSED(try_again, "keys that could not be read with certainty in time"),
	REFUSED(too_large, "keys whose values were larger than gateway.max_value_bytes"),
	COUNTER(near_hits, "values found near, without a READ"),
	COUNTER(near_refused, "values not kept near: they might have been old, or were large"),
	COUNTER(near_invalidated, "near values dropped because the log showed something newer"),
	COUNTER(near_evicted, "near values dropped for room"),
	FOUND(by_place, "values looked up, by how they were found"),
	FOUND(by_slots, "values found by the index"),
	FOUND(together, "values found by a lookup that another question of the same key had begun"),
	COUNTER(retries, "lookups begun again, because the table changed meanwhile"),
	COUNTER(looks, "READs of the superblock because clients asked"),
	COUNTER(reads, "READs of the proxy's memory"),
	COUNTER(bytes_read, "bytes read from the proxy's memory"),
	COUNTER(wire_bytes, "bytes that came over tcp for READs, as they came: with headers, and "
			    "perhaps compressed"),
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
	bool known = sight->age_us != KW_SIGHT_AGE_UNKNOWN;

	return known ? (double)sight->age_us / 1e6 : (double)INFINITY;
}

static void collect_forward(const struct kw_forward *forward, struct kw_gateway_figures *figures)
{
	if (!forward)
		return;
	figures->forwards_under_way = forward->requests;
	figures->forwards_refused = forward->counts.refused;
	figures->forwards_lost = forward->counts.lost_not_executed;
	figures->forwards_perhaps_executed = forward->counts.lost_perhaps;
	figures->forward_connections = forward->counts.connections;
}

void kw_gateway_collect(const struct kw_gateway *gateway, const struct kw_gets_sight *sight,
	struct kw_gateway_figures *figures)
{
	const struct kw_frontend_stats *server = kw_frontend_stats(gateway->server);
	struct kw_gets_stats gets;

	kw_gets_stats(gateway->gets, &gets);
	*figures = (struct kw_gateway_figures){
		.start_time_seconds =
			(double)(kw_wall_us() - (kw_clock_us() - gateway->started_us)) / 1e6,
		.loop_turn_max_seconds = (double)kw_turns_longest_us(&gateway->daemon.turns) / 1e6,
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
		.wire_bytes = kw_follow_received(kw_gets_follow(gateway->gets)),
		.requests = server->requests,
		.requests_refused = server->refused,
		.requests_forwarded = server->forwarded,
		.clients_accepted = server->accepted,
		.bytes_in = server->bytes_in,
		.bytes_out = server->bytes_out,
		.reconnects = kw_gets_follow(gateway->gets)->reconnects,
	};
	collect_forward(gateway->forward, figures);
}

/* ---- metrics ---- */

static void add_states(const struct kw_metrics *metrics, enum kw_gateway_state now)
{
	const char *names[KW_GATEWAY_FAILED + 1];
	const struct kw_metrics_states state = {names, KW_GATEWAY_FAILED + 1, (int)now};

	for (int i = 0; i < state.count; i++)
		names[i] = kw_gateway_state_name((enum kw_gateway_state)i);
	kw_metrics_states(metrics, "state", "1 for the present state", &state);
}

static void add_staleness(const struct kw_metrics *metrics, const struct kw_lag *lag)
{
	struct kw_histogram histogram;

	kw_histogram_of_lag(&histogram, lag);
	kw_metrics_histogram(
		metrics, "staleness_seconds", "age of the table at each answer", &histogram);
}

static void add_closed(const struct kw_metrics *metrics, const struct kw_frontend_stats *stats)
{
	kw_metrics_family(
		metrics, "clients_closed_total", "counter", "connections ended, by reason");
	for (int i = 0; i < KW_CLOSED_REASONS; i++) {
		char labels[KW_METRICS_LABELS] = "";

		kw_metrics_label(labels, "why", kw_closed_for_name((enum kw_closed_for)i));
		kw_metrics_integer(metrics, "clients_closed_total", labels, stats->closed[i]);
	}
}

#define GROUPS 3

static void get_certificates(
	const struct kw_gateway *gateway, const struct kw_tls_context *contexts[GROUPS])
{
	contexts[0] = gateway->redis_tls.context;
	contexts[1] = gateway->target.tls.context;
	contexts[2] = gateway->client_tls.context;
}

static void add_certificates(const struct kw_gateway *gateway, struct kw_buffer *text)
{
	const struct kw_tls_context *contexts[GROUPS];

	get_certificates(gateway, contexts);
	kw_certificates_metrics(text, contexts, GROUPS);
}

void kw_gateway_show_certificates(const struct kw_gateway *gateway, json_t *status)
{
	const struct kw_tls_context *contexts[GROUPS];

	get_certificates(gateway, contexts);
	kw_certificates_status(status, contexts, GROUPS);
}

void kw_gateway_metrics(void *arg, struct kw_buffer *text)
{
	const struct kw_gateway *gateway = arg;
	const struct kw_metrics metrics = {text, "keywake_gateway"};
	struct kw_gets_sight sight;
	struct kw_gateway_figures figures;

	kw_gets_sight(gateway->gets, &sight);
	kw_gateway_collect(gateway, &sight, &figures);
	kw_metrics_build(&metrics, "keywake-gateway");
	kw_process_metrics(text);
	add_certificates(gateway, text);
	add_states(&metrics, sight.state);
	kw_metrics_reason(&metrics, sight.row->code);
	kw_figures_metrics(&metrics, kw_gateway_figure_table, &figures);
	add_staleness(&metrics, kw_gets_staleness(gateway->gets));
	add_closed(&metrics, kw_frontend_stats(gateway->server));
	kw_rdma_metrics(text, metrics.prefix);
}
