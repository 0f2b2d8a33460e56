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
	bool has_digest;          /* the payload's type is known and it is well formed */
};

void kw_fingerprint_make(struct kw_slice payload, struct kw_fingerprint *fingerprint);

/* Is the value of this DUMP payload the same: in its bytes, or at least by its digest? */
bool kw_fingerprint_matches(const struct kw_fingerprint *fingerprint, struct kw_slice payload);

#endif
