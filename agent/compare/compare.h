/*
 * One key of the table against the same key of the local server: equal, different, missing here, or
 * too many here? Values are compared by canonical digest (rdb/payload.h), because servers of two
 * versions encode the same value in two ways. Pure; any thread.
 */
#ifndef KW_AGENT_COMPARE_COMPARE_H
#define KW_AGENT_COMPARE_COMPARE_H

#include "fingerprint.h"
#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

/* One key as the table has it; absent when version is 0. */
struct kw_expected {
	struct kw_fingerprint value;
	uint64_t version, expires_ms;
};

/* One key as the local server has it. payload valid while it is judged. */
struct kw_found {
	bool there;
	struct kw_slice payload;
	int64_t expires_ms; /* as PEXPIRETIME says: -1 none */
};

enum kw_verdict_of_key { KW_SAME, KW_DIFFERENT, KW_MISSING, KW_EXTRA };

struct kw_compare_rules {
	uint64_t now_ms;  /* a key that expires before is gone, or about to go: it is not missing */
	bool exact_times; /* expiries were read by PEXPIRETIME; otherwise by PTTL, to 2 s */
	/*
	 * A value that has no canonical digest (a module's) and other bytes counts as equal. Then
	 * only its presence and its expiry are compared.
	 */
	bool unknown_equal;
};

/*
 * What the table says of a key at now_ms. A record that is no put says that it is absent.
 *
 * Fields of a hash that expire until now_ms do not count, here and in the local server's value. Two
 * servers remove them at different times. A local clock that is ahead removes them early, and a
 * value that is restored loses them again at once. The hash is equal then, as a key whose own time
 * is over is not missing. A clock that is set back brings such a field back into the comparison.
 */
void kw_expect(const struct kw_record_view *record, uint64_t now_ms, struct kw_expected *expected);

enum kw_verdict_of_key kw_compare(const struct kw_expected *expected, const struct kw_found *found,
	const struct kw_compare_rules *rules);

#endif
