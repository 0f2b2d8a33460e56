/*
 * The figures of the agent: what status, the metrics and the page of metrics are made from. Loop
 * thread only.
 */
#ifndef KW_AGENT_FIGURES_H
#define KW_AGENT_FIGURES_H

#include "daemon.h"

#include "control/figures.h"

/* Of this moment. */
struct kw_agent_figures {
	uint64_t warm, paused, held, held_of, head_version, applied_version, quarantined,
		window_bytes_used;
	double behind_seconds, progress, proven_equal_seconds, start_time_seconds,
		loop_turn_max_seconds, fresh_timestamp_seconds, clock_skew_seconds;
	uint64_t keys_applied, bytes_read, wire_bytes, records_read, records_stale, records_skipped,
		reads, wakes, read_retries, segments_vanished, passes, snapshots, resyncs,
		keys_pruned, keys_evicted, rolled_back, foreign_writes, holds, reads_ahead,
		reads_ahead_used, index_keys, index_bytes, bytes_handed_on, limited, compared,
		differing, quarantined_ever, retries, corruptions, reconnects, local_reconnects;
	uint64_t audit_rounds, audit_compared, audit_found_different, audit_found_missing,
		audit_found_extra, audit_mended_different, audit_mended_missing, audit_mended_extra,
		audit_unsettled, audit_unmended, audit_causes;
	uint64_t functions_libraries, functions_version, functions_equal, functions_changes,
		functions_differences;
};

extern const struct kw_figure kw_agent_figure_table[];

void kw_agent_collect(const struct kw_agent *agent, struct kw_agent_figures *figures);

/* All metrics, appended to text; arg: the struct kw_agent_daemon. */
void kw_agent_metrics(void *arg, struct kw_buffer *text);

/* When they run out: status gets its member certificates. */
void kw_agent_show_certificates(const struct kw_agent_daemon *daemon, json_t *status);

#endif
