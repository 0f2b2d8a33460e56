/*
 * What is remembered of a value while its counterpart is fetched: two hashes instead of the bytes.
 * Pure; any thread.
 */
#ifndef KW_AGENT_COMPARE_FINGERPRINT_H
#define KW_AGENT_COMPARE_FINGERPRINT_H

#include "base/hash.h"
#include "base/slice.h"

#include <stdbool.h>

struct kw_fingerprint {
	struct kw_hash128 bytes;  /* of the payload less RDB version and CRC64 */
	struct kw_hash128 digest; /* canonical; only with has_digest */
	bool has_digest;          /* well formed, and of a type that is known; no module's value */
	bool over;                /* a hash, and the time of all its fields is over at now_ms */
	uint64_t now_ms;          /* fields that expire until then are in neither digest */
};

/*
 * The digest of a module's value would be one of its bytes. A module need not write equal values
 * equally: a vector set that was restored is written in another order.
 */
void kw_fingerprint_make(
	struct kw_slice payload, uint64_t now_ms, struct kw_fingerprint *fingerprint);

/*
 * Is the value of this DUMP payload the same: in its bytes, or at least by its digest? Its digest
 * is taken as of the fingerprint's time, too: a field whose time was over then counts on neither
 * side.
 */
bool kw_fingerprint_matches(const struct kw_fingerprint *fingerprint, struct kw_slice payload);

#endif
