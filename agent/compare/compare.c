#include "compare.h"

/* Without PEXPIRETIME: the answer's way, and clocks read at two places. */
#define PTTL_TOLERANCE_MS 2000

static bool same_expiry(uint64_t expected_ms, int64_t found_ms, bool exact)
{
	int64_t apart = (int64_t)expected_ms - found_ms;

	if (expected_ms == 0 || found_ms < 0)
		return expected_ms == 0 && found_ms < 0;
	if (exact)
		return apart == 0;
	return apart <= PTTL_TOLERANCE_MS && apart >= -PTTL_TOLERANCE_MS;
}

void kw_expect(const struct kw_record_view *record, uint64_t now_ms, struct kw_expected *expected)
{
	*expected = (struct kw_expected){0};
	if (record->kind != KW_RECORD_PUT)
		return;
	expected->version = record->version;
	expected->expires_ms = record->expires_ms;
	kw_fingerprint_make(record->value, now_ms, &expected->value);
}

/* Its time is over, or that of all its fields: gone here, and about to go there. */
static bool is_over(const struct kw_expected *expected, const struct kw_compare_rules *rules)
{
	return expected->value.over ||
	       (expected->expires_ms != 0 && expected->expires_ms <= rules->now_ms);
}

enum kw_verdict_of_key kw_compare(const struct kw_expected *expected, const struct kw_found *found,
	const struct kw_compare_rules *rules)
{
	if (expected->version == 0)
		return found->there ? KW_EXTRA : KW_SAME;
	if (!found->there)
		return is_over(expected, rules) ? KW_SAME : KW_MISSING;
	if (!same_expiry(expected->expires_ms, found->expires_ms, rules->exact_times))
		return KW_DIFFERENT;
	if (!expected->value.has_digest && rules->unknown_equal)
		return KW_SAME;
	return kw_fingerprint_matches(&expected->value, found->payload) ? KW_SAME : KW_DIFFERENT;
}
