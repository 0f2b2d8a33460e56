/*
 * The figures of the proxy: what status, the metrics and the page of metrics are made from. Loop
 * thread only.
 */
#ifndef KW_PROXY_FIGURES_H
#define KW_PROXY_FIGURES_H

#include "proxy.h"

#include "control/figures.h"

#define KW_SESSIONS_SHOWN 256
#define KW_LISTENERS_SHOWN 64

/* Of this moment. */
struct kw_proxy_figures {
	double start_time_seconds, loop_turn_max_seconds, fresh_timestamp_seconds,
		clock_skew_seconds, upstream_silent_seconds;
	uint64_t term, sentinel_voters, sentinels_confirming, confirmations, mandates_lost;
	uint64_t held, agents, listeners_waiting, holding_back;
	struct kw_table_stats table;
	struct kw_source_stats source;
	struct kw_pace_report pace;
	struct kw_source_functions_report functions;
	uint64_t functions_held;
};

extern const struct kw_figure kw_proxy_figure_table[];

void kw_proxy_collect(const struct kw_proxy *proxy, struct kw_proxy_figures *figures);

/* All metrics, appended to text; arg: the struct kw_proxy. */
void kw_proxy_metrics(void *arg, struct kw_buffer *text);

/*
 * agent_figures.c. What the proxy knows of its agents and gateways: families of their own. All
 * sessions of one name, role and carrier are one agent there, so that a session that comes again is
 * no new series.
 */
void kw_proxy_agent_metrics(const struct kw_metrics *metrics, const struct kw_proxy *proxy);

/* When they run out: status gets its member certificates. */
void kw_proxy_show_certificates(const struct kw_proxy *proxy, json_t *status);

#endif
