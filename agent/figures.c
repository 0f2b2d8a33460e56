#include "figures.h"
#include "stages.h"

#include "base/clock.h"
#include "control/config/certificates.h"
#include "control/process.h"
#include "remote/rdma/counts.h"

#include <math.h>

#define GAUGE(name, doc) KW_GAUGE(struct kw_agent_figures, name, #name, doc)
#define COUNTER(name, doc) KW_STATUS_COUNTER(struct kw_agent_figures, name, #name, doc)
#define AUDIT(what, kind, doc)                                                                     \
	KW_PART(struct kw_agent_figures, audit_##what##_##kind, "audit_" #what "_" #kind,          \
		"audit_" #what, "kind=\"" #kind "\"", doc)

const struct kw_figure kw_agent_figure_table[] = {
	GAUGE(start_time_seconds, "when the process started"),
	GAUGE(loop_turn_max_seconds, "the longest time of the last minute or two in which the "
				     "daemon listened to nobody"),
	GAUGE(fresh_timestamp_seconds,
		"all that the primary had done by then, by the proxy's clock, is applied; 0: not "
		"known"),
	GAUGE(clock_skew_seconds, "the clock of the proxy less that of the agent"),
	GAUGE(paused, "1 while paused by an operator"),
	GAUGE(warm, "1 while warm"),
	GAUGE(held, "local keys whose deletion waits for approval, 0: none"),
	GAUGE(held_of, "of so many local keys, 0: none waits"),
	GAUGE(head_version, "newest version seen at the proxy"),
	GAUGE(applied_version, "version up to which all is applied"),
	GAUGE(behind_seconds, "age of the oldest change that may not be applied yet, by all that "
			      "is known; NaN: it is not known"),
	GAUGE(progress, "share of the data that is there, 1 once level"),
	GAUGE(proven_equal_seconds,
		"age of the oldest comparison of the audit; inf until every key was compared"),
	GAUGE(quarantined, "keys the local server refused for good"),
	GAUGE(index_keys, "keys whose value and expiry the digest index knows"),
	GAUGE(index_bytes, "memory of the digest index"),
	GAUGE(functions_libraries, "function libraries of the primary, as the table has them"),
	GAUGE(functions_version, "of the set of them that the local server has; 0: of none"),
	GAUGE(functions_equal, "1: the local server has the newest set, or none is carried"),
	GAUGE(window_bytes_used, "commands not yet acknowledged"),
	GAUGE(limited, "1 while apply.bytes_per_second holds back what is read"),
	COUNTER(bytes_handed_on,
		"bytes of commands for the local server, as apply.bytes_per_second "
		"counts them"),
	COUNTER(keys_applied, "changes the local server acknowledged"),
	COUNTER(bytes_read, "bytes read from the proxy's memory"),
	COUNTER(wire_bytes, "bytes that came over tcp for READs, as they came: with headers, and "
			    "perhaps compressed"),
	COUNTER(records_read, "records handed on by the reader"),
	COUNTER(records_stale, "records read that were superseded or known already"),
	COUNTER(records_skipped, "records left out by the filter"),
	COUNTER(reads, "READs of the proxy's memory"),
	COUNTER(wakes, "times the proxy woke this agent, which slept in place of a pause"),
	COUNTER(read_retries, "READs repeated because what they brought did not verify"),
	COUNTER(reads_ahead, "READs of the log asked for before it was known to have grown"),
	COUNTER(reads_ahead_used, "of them brought changes, in one round trip"),
	COUNTER(segments_vanished, "log segments cleaned away before they were read"),
	COUNTER(passes, "passes over the table"),
	COUNTER(snapshots, "snapshots begun"),
	COUNTER(resyncs, "snapshots begun after the first: reconciles and repeated bootstraps"),
	COUNTER(compared, "records of snapshots that were compared with the digest index"),
	COUNTER(differing, "of them were handed on: the others were applied already"),
	COUNTER(keys_pruned, "local keys deleted because the table did not have them"),
	COUNTER(rolled_back, "keys that were applied after a new primary's history branched, and "
			     "that it has with "
			     "another value or not at all: writes that failovers lost"),
	COUNTER(keys_evicted, "keys that the local server evicted by itself"),
	COUNTER(foreign_writes, "calls by which other clients wrote to the local server"),
	COUNTER(holds, "times deletions began to wait for approval"),
	COUNTER(quarantined_ever, "changes the local server refused for good"),
	COUNTER(retries, "times sending began again after a refusal that passes"),
	COUNTER(corruptions, "times the table did not verify though read again and again"),
	COUNTER(reconnects, "connections to the proxy tried"),
	COUNTER(local_reconnects, "connections to the local server tried"),
	COUNTER(audit_rounds, "times the audit has compared every key"),
	COUNTER(audit_compared, "keys of the table that the audit compared"),
	AUDIT(found, different, "keys that the audit found to differ from the table, by kind"),
	AUDIT(found, missing, "keys of the table that were not here"),
	AUDIT(found, extra, "keys here that the table does not have"),
	AUDIT(mended, different, "of the keys found, those that are right again, by kind"),
	AUDIT(mended, missing, "… here again"),
	AUDIT(mended, extra, "… deleted"),
	GAUGE(audit_unmended, "keys found to differ that are not right again yet"),
	COUNTER(audit_unsettled, "keys that changed at each look of the audit"),
	COUNTER(audit_causes, "causes seen to compare all keys at once"),
	COUNTER(functions_changes, "times function libraries of the local server were changed"),
	COUNTER(functions_differences,
		"times other clients had changed function libraries of the local server"),
	{0},
};

static void add_functions(const struct kw_agent *agent, struct kw_agent_figures *figures)
{
	struct kw_functions_report functions;

	kw_functions_report(&agent->functions, &functions);
	figures->functions_libraries = functions.libraries;
	figures->functions_version = functions.version;
	figures->functions_equal = kw_functions_fact(&agent->functions) == KW_FUNCTIONS_FINE;
	figures->functions_changes = functions.changes;
	figures->functions_differences = functions.differences;
}

static double behind_seconds(const struct kw_agent *agent)
{
	uint64_t lag_us = kw_agent_lag_us(agent, kw_clock_us());

	return lag_us == KW_LEVEL_LAG_UNKNOWN ? (double)NAN : (double)lag_us / 1e6;
}

void kw_agent_collect(const struct kw_agent *agent, struct kw_agent_figures *figures)
{
	const struct kw_reader_stats *reader = kw_reader_stats(agent->follow.reader);
	struct kw_audit_report audit;

	kw_audit_report(agent->audit, kw_clock_us(), &audit);
	*figures = (struct kw_agent_figures){
		.proven_equal_seconds = audit.proven_us == UINT64_MAX
						? (double)INFINITY
						: (double)audit.proven_us / 1e6,
		.audit_rounds = audit.rounds,
		.audit_compared = audit.compared,
		.audit_found_different = audit.found[KW_AUDIT_DIFFERENT],
		.audit_found_missing = audit.found[KW_AUDIT_MISSING],
		.audit_found_extra = audit.found[KW_AUDIT_EXTRA],
		.audit_mended_different = audit.mended[KW_AUDIT_DIFFERENT],
		.audit_mended_missing = audit.mended[KW_AUDIT_MISSING],
		.audit_mended_extra = audit.mended[KW_AUDIT_EXTRA],
		.audit_unsettled = audit.unsettled,
		.audit_causes = audit.causes,
		.start_time_seconds =
			(double)(kw_wall_us() - (kw_clock_us() - agent->started_us)) / 1e6,
		.fresh_timestamp_seconds = kw_sync_phase(&agent->sync) == KW_SYNC_TAIL
						   ? (double)agent->sync.progress.fresh_us / 1e6
						   : 0,
		.clock_skew_seconds = (double)agent->follow.skew_us / 1e6,
		.paused = agent->sync.intake == KW_SYNC_INTAKE_PAUSED,
		.audit_unmended = audit.unmended,
		.warm = agent->sm.state == KW_AGENT_WARM,
		.held = agent->sync.brake.finding.deletions,
		.held_of = agent->sync.brake.finding.keys,
		.head_version = agent->follow.superblock.version,
		.applied_version = agent->sync.progress.applied,
		.behind_seconds = behind_seconds(agent),
		.progress = kw_agent_progress(agent),
		.quarantined = kw_quarantine_count(&agent->quarantine),
		.window_bytes_used = kw_pair_progress(agent->pair)->window_bytes,
		.limited = kw_limit_holds(&agent->pair->limit, kw_clock_us()),
		.bytes_handed_on = agent->pair->limit.bytes,
		.keys_applied = kw_pair_progress(agent->pair)->applied,
		.bytes_read = reader->bytes,
		.wire_bytes = kw_follow_received(&agent->follow),
		.records_read = reader->records,
		.records_stale = reader->skipped,
		.records_skipped = agent->sync.filtered,
		.reads = reader->reads,
		.wakes = agent->follow.wakes,
		.read_retries = reader->retries,
		.reads_ahead = reader->ahead,
		.reads_ahead_used = reader->ahead_used,
		.segments_vanished = reader->vanished,
		.passes = reader->passes,
		.snapshots = agent->sync.snapshots,
		.resyncs = agent->sync.resyncs,
		.index_keys = agent->sync.index.keys,
		.index_bytes = agent->sync.index.bytes,
		.compared = agent->sync.index.compared,
		.differing = agent->sync.index.differing,
		.keys_pruned = agent->sync.pruned,
		.rolled_back = agent->sync.rolled_back,
		.keys_evicted = agent->sync.debt.evicted.ever,
		.foreign_writes = agent->sync.debt.foreign.ever,
		.holds = agent->sync.brake.holds,
		.quarantined_ever = agent->quarantine.ever,
		.retries = kw_pair_progress(agent->pair)->retries,
		.corruptions = agent->sync.reread.ever,
		.reconnects = agent->follow.reconnects,
		.local_reconnects = agent->local.reconnects,
	};
	add_functions(agent, figures);
}

/* ---- metrics ---- */

static void add_states(const struct kw_metrics *metrics, const struct kw_agent *agent)
{
	const char *names[KW_AGENT_HELD + 1];
	const struct kw_metrics_states state = {names, KW_AGENT_HELD + 1, agent->sm.state};

	for (int i = 0; i < state.count; i++)
		names[i] = agent->sm.conf->states[i].name;
	kw_metrics_states(metrics, "state", "1 for the present state", &state);
	kw_metrics_reason(metrics, kw_agent_reason_row(agent->cause)->code);
}

static void add_lag(const struct kw_metrics *metrics, const struct kw_lag *lag)
{
	struct kw_histogram histogram;

	kw_histogram_of_lag(&histogram, lag);
	kw_metrics_histogram(metrics, "lag_seconds",
		"publication by the proxy to acknowledgement by the local server", &histogram);
}

/* The link of mode replica shows the certificate of the group tls, too. */
#define GROUPS 2

static void get_certificates(
	const struct kw_agent_daemon *daemon, const struct kw_tls_context *contexts[GROUPS])
{
	contexts[0] = daemon->redis_tls.context;
	contexts[1] = daemon->target.tls.context;
}

static void add_certificates(const struct kw_agent_daemon *daemon, struct kw_buffer *text)
{
	const struct kw_tls_context *contexts[GROUPS];

	get_certificates(daemon, contexts);
	kw_certificates_metrics(text, contexts, GROUPS);
}

void kw_agent_show_certificates(const struct kw_agent_daemon *daemon, json_t *status)
{
	const struct kw_tls_context *contexts[GROUPS];

	get_certificates(daemon, contexts);
	kw_certificates_status(status, contexts, GROUPS);
}

void kw_agent_metrics(void *arg, struct kw_buffer *text)
{
	const struct kw_agent_daemon *daemon = arg;
	const struct kw_metrics metrics = {text, "keywake_agent"};
	struct kw_agent_figures figures;

	kw_agent_doubt(daemon->agent, kw_clock_us());
	kw_agent_collect(daemon->agent, &figures);
	figures.loop_turn_max_seconds = (double)kw_turns_longest_us(&daemon->daemon.turns) / 1e6;
	kw_metrics_build(&metrics, "keywake-agent");
	kw_process_metrics(text);
	add_certificates(daemon, text);
	add_states(&metrics, daemon->agent);
	kw_figures_metrics(&metrics, kw_agent_figure_table, &figures);
	add_lag(&metrics, &daemon->agent->sync.progress.lag);
	kw_stage_metrics(&metrics, &daemon->agent->sync.progress.stages, kw_agent_stages);
	kw_rdma_metrics(text, metrics.prefix);
}
