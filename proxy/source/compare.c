#include "source/compare.h"

#include "base/clock.h"
#include "source/source_internal.h"

static void end(struct kw_source *source, const struct kw_source_compared *compared,
	const struct kw_error *error)
{
	const struct kw_source_comparing asker = source->comparison.asker;

	source->comparison = (struct kw_source_comparison){0};
	kw_source_apply_limits(source);
	asker.done(asker.arg, compared, error);
}

static void fail(struct kw_source *source, enum kw_code code, const char *words)
{
	struct kw_error error;

	kw_error_set(&error, code, "%s: %s", words,
		source->state.reason[0] ? source->state.reason
					: kw_state_name(kw_source_state(source)));
	end(source, NULL, &error);
}

static void succeed(struct kw_source *source)
{
	const struct kw_source_comparison *comparison = &source->comparison;
	const struct kw_source_compared compared = {
		.keys = source->sweep.scanned,
		.changed = kw_table_version(source->table) - comparison->version,
		.us = kw_clock_us() - comparison->begun_us,
	};

	end(source, &compared, NULL);
}

static bool is_reached(const struct kw_source *source)
{
	return kw_source_link_is_up(&source->link) && kw_source_fence(source) == KW_FENCE_OPEN &&
	       source->chain == KW_CHAIN_WHOLE;
}

void kw_source_comparison_turn(struct kw_source *source)
{
	const struct kw_source_comparison *comparison = &source->comparison;

	if (!kw_source_is_comparing(comparison))
		return;
	if (!comparison->asker.wanted(comparison->asker.arg))
		fail(source, KW_E_GONE, "nobody waits for the comparison any more");
	else if (!is_reached(source) || source->link.ups != comparison->ups)
		fail(source, KW_E_IO, "the primary was lost while it was compared");
	else if (kw_sweep_is_held(&source->sweep) && source->sweep.sm.state == KW_SWEEP_HELD)
		fail(source, KW_E_REFUSED, "the comparison waits for a person");
	else if (kw_sweep_is_mending(&source->sweep))
		return;
	else if (kw_source_state(source) == KW_SOURCE_LIVE)
		succeed(source);
	else
		fail(source, KW_E_REFUSED, "the table lacks something of the primary");
}

void kw_source_compare(struct kw_source *source, const struct kw_source_comparing *asker)
{
	struct kw_error error;

	if (kw_source_is_comparing(&source->comparison) || !is_reached(source)) {
		kw_error_set(&error, KW_E_STATE, "%s%s",
			is_reached(source) ? "another client waits for a comparison already"
					   : "the primary cannot be compared now: ",
			is_reached(source) ? "" : source->state.reason);
		asker->done(asker->arg, NULL, &error);
		return;
	}
	source->comparison = (struct kw_source_comparison){
		*asker, kw_clock_us(), kw_table_version(source->table), source->link.ups};
	kw_source_apply_limits(source);
	kw_source_reconcile(source, "a client waits for a comparison with the primary");
}

void kw_source_comparison_end(struct kw_source *source)
{
	if (kw_source_is_comparing(&source->comparison))
		fail(source, KW_E_IO, "the proxy is shutting down");
}
