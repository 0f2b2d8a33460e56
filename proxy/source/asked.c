/* What its owner asks of the source. */
#include "source/source_internal.h"

#include "base/clock.h"
#include "base/secret.h"
#include "redis/server.h"

#include <stdio.h>
#include <string.h>

void kw_source_reconcile(struct kw_source *source, const char *why)
{
	kw_source_doubt(source, KW_DOUBT_ASKED, NULL, why);
	kw_turn_wake(&source->turn);
}

int kw_source_approve(struct kw_source *source, char finding[KW_ERROR_TEXT], struct kw_error *error)
{
	if (!kw_sweep_is_held(&source->sweep) &&
		kw_source_functions_approve(&source->functions, finding)) {
		source->approvals++;
		kw_turn_wake(&source->turn);
		return KW_OK;
	}
	if (!kw_sweep_approve(&source->sweep))
		return kw_error_set(error, KW_E_STATE,
			"nothing waits for approval: the state is %s",
			kw_state_name(kw_source_state(source)));
	source->approvals++;
	snprintf(finding, KW_ERROR_TEXT, "the deletion of %llu of %llu keys that the primary lacks",
		(unsigned long long)source->sweep.brake.finding.missing,
		(unsigned long long)kw_brake_whole(&source->sweep.brake.finding));
	kw_turn_wake(&source->turn);
	return KW_OK;
}

void kw_source_set_max_missing(struct kw_source *source, double share)
{
	kw_sweep_set_max_missing(&source->sweep, share);
	kw_turn_wake(&source->turn);
}

bool kw_source_want_ticket(struct kw_source *source, uint16_t wanted)
{
	if (!kw_source_link_is_up(&source->link) || !kw_ticket_announce(&source->ticket, wanted))
		return false;
	kw_source_tell_table(source);
	return true;
}

void kw_source_begin_ticket(struct kw_source *source)
{
	if (!kw_ticket_examine(&source->ticket))
		return;
	kw_feed_examine(source->feed);
	kw_turn_wake(&source->turn);
}

const struct kw_ticket_price *kw_source_ticket_price(const struct kw_source *source)
{
	struct kw_feed_stats stats;

	kw_feed_stats(source->feed, &stats);
	return stats.feed == KW_SOURCE_FEED_STREAM ? &kw_ticket_role : &kw_ticket_look;
}

uint16_t kw_source_ticket(const struct kw_source *source)
{
	return source->ticket.number;
}

void kw_source_forgive(struct kw_source *source)
{
	kw_unreadable_forgive(&source->unreadable);
	kw_turn_wake(&source->turn);
}

void kw_source_set_password(struct kw_source *source, struct kw_slice password)
{
	struct kw_slice *own = &source->options.redis.password;

	kw_secret_close(own);
	*own = kw_secret_copy(password);
}

void kw_source_apply_limits(struct kw_source *source)
{
	const struct kw_source_options *options = &source->options;
	bool waited_for = kw_source_is_comparing(&source->comparison);

	kw_fetch_limit(source->fetch, waited_for ? 0 : options->keys_per_second,
		waited_for ? 0 : options->bytes_per_second, kw_clock_us());
	kw_pace_set_share(&source->pacing.pace, waited_for ? 1 : options->primary_share);
	kw_turn_wake(&source->turn);
}

void kw_source_set_limits(struct kw_source *source, uint64_t keys_per_second,
	uint64_t bytes_per_second, uint64_t audit_keys_per_second)
{
	source->options.keys_per_second = keys_per_second;
	source->options.bytes_per_second = bytes_per_second;
	kw_source_apply_limits(source);
	kw_sweep_limit(&source->sweep, audit_keys_per_second, kw_clock_us());
}

void kw_source_set_primary_share(struct kw_source *source, double share)
{
	source->options.primary_share = share;
	kw_source_apply_limits(source);
}

void kw_source_pace(const struct kw_source *source, struct kw_pace_report *report)
{
	kw_pace_report(&source->pacing.pace, report);
}

void kw_source_functions(const struct kw_source *source, struct kw_source_functions_report *report)
{
	kw_source_functions_report(&source->functions, report);
}

struct kw_stages *kw_source_stages(struct kw_source *source)
{
	return &source->trace.stages;
}

const char *kw_source_run_id(const struct kw_source *source)
{
	return source->link.ups > 0 ? kw_feed_server(source->feed)->run_id : "";
}

const char *kw_source_role(const struct kw_source *source)
{
	return source->link.ups > 0 ? kw_feed_server(source->feed)->role : "";
}

struct kw_late_counts kw_source_late_counts(const struct kw_source *source)
{
	struct kw_feed_stats feed;

	kw_feed_stats(source->feed, &feed);
	return (struct kw_late_counts){
		feed.events, source->link.ups, kw_source_link_is_up(&source->link)};
}

void kw_source_late(const struct kw_source *source, uint64_t *events, uint64_t *losses)
{
	const struct kw_late_counts now = kw_source_late_counts(source);

	*events = *losses = 0;
	if (kw_mandate_holds(kw_source_mandate(source)) ||
		strcmp(kw_source_role(source), "slave") == 0)
		return;
	*events = kw_late_events(&source->late, &now);
	*losses = kw_late_losses(&source->late, &now);
}

enum kw_source_state kw_source_state(const struct kw_source *source)
{
	return (enum kw_source_state)source->state.sm.state;
}

const char *kw_source_reason(const struct kw_source *source)
{
	return source->state.reason;
}

const struct kw_reason_row *kw_source_reason_row(const struct kw_source *source)
{
	return kw_claim_row(source->state.cause);
}

enum kw_log_level kw_source_level(const struct kw_source *source)
{
	return kw_state_level(&source->state);
}

const char *kw_source_state_name(enum kw_source_state state)
{
	return kw_state_name(state);
}

/* How long ago a server that is a replica heard of its own primary; 0: it is none. */
static uint64_t upstream_silent_us(const struct kw_source *source)
{
	uint64_t now_us = kw_clock_us(), heard_us = source->heard.us;

	if (heard_us == 0 || !kw_source_link_is_up(&source->link) ||
		kw_feed_server(source->feed)->upstream == KW_UPSTREAM_NONE)
		return 0;
	return now_us > heard_us ? now_us - heard_us : 0;
}

void kw_source_stats(const struct kw_source *source, struct kw_source_stats *stats)
{
	const struct kw_fetch_stats *fetch = kw_fetch_stats(source->fetch);
	uint64_t parked = kw_dirty_count(source->dirty, KW_DIRTY_PARKED);
	struct kw_feed_stats feed;

	kw_feed_stats(source->feed, &feed);
	*stats = (struct kw_source_stats){
		.events = feed.events,
		.fetches = fetch->fetches,
		.values = source->store.values.taken,
		.fetched_bytes = fetch->bytes,
		.unchanged = source->store.unchanged,
		.deletes = source->store.deletes,
		.dirty_keys = kw_dirty_total(source->dirty) - parked,
		.reconciles_audit = source->sweep.audits,
		.scanned = source->sweep.scanned,
		.scan_total = source->sweep.scan_total,
		.silent_refetches = feed.silent_refetches,
		.values_shed = feed.values_shed,
		.synchronisations = feed.synchronisations,
		.behind_bytes = feed.behind_bytes,
		.audit_differences = source->store.found.differences,
		.audit_unjudged = source->store.found.left_out,
		.upstream_silent_us = upstream_silent_us(source),
		.too_large = source->store.too_large.count,
		.unreadable = source->unreadable.keys.count,
		.rejected_payloads = fetch->rejected,
		.full_waiting = parked,
		.missing_keys = source->sweep.brake.finding.missing,
		.missing_of = kw_brake_whole(&source->sweep.brake.finding),
		.approvals = source->approvals,
		.clock_skew_us = feed.clock_skew_us,
		.flags = feed.flags,
		.flags_proven = feed.flags_proven,
		.feed = feed.feed,
		.feed_why = feed.feed_why,
	};
	kw_doubts_stats(&source->doubts, stats);
}
