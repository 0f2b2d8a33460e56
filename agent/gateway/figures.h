/*
 * The figures of the gateway: what status, the metrics and the page of metrics are made from. Loop
 * thread only.
 */
#ifndef KW_AGENT_GATEWAY_FIGURES_H
#define KW_AGENT_GATEWAY_FIGURES_H

#include "daemon.h"

#include "control/figures.h"

/* Of this moment. */
struct kw_gateway_figures {
	uint64_t clients, client_bytes, requests_under_way, lookups_under_way;
	double start_time_seconds, loop_turn_max_seconds, age_seconds, clock_error_seconds;
	uint64_t gets, values, missing, expired, refused_loading, refused_stale, refused_lost,
		refused_try_again, refused_too_large, near_entries, near_bytes, near_hits,
		near_refused, near_invalidated, near_evicted, found_by_place, found_by_slots,
		found_together, retries, looks, reads, bytes_read, wire_bytes, requests,
		requests_refused, requests_forwarded, clients_accepted, bytes_in, bytes_out,
		reconnects, forwards_under_way, forwards_refused, forwards_lost,
		forwards_perhaps_executed, forward_connections;
};

extern const struct kw_figure kw_gateway_figure_table[];

/* sight: as it is now. */
void kw_gateway_collect(const struct kw_gateway *gateway, const struct kw_gets_sight *sight,
	struct kw_gateway_figures *figures);

/* All metrics, appended to text; arg: the struct kw_gateway. */
void kw_gateway_metrics(void *arg, struct kw_buffer *text);

/* When they run out: status gets its member certificates. */
void kw_gateway_show_certificates(const struct kw_gateway *gateway, json_t *status);

#endif
