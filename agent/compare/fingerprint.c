#include "fingerprint.h"

#include "rdb/payload.h"
#include "rdb/payload_visit.h"

static struct kw_hash128 hash_bytes(struct kw_slice payload)
{
	size_t length = payload.length > KW_PAYLOAD_FOOTER ? payload.length - KW_PAYLOAD_FOOTER : 0;

	return kw_hash128_key(0, payload.data, length);
}

static bool equal(struct kw_hash128 a, struct kw_hash128 b)
{
	return a.low == b.low && a.high == b.high;
}

void kw_fingerprint_make(
	struct kw_slice payload, uint64_t now_ms, struct kw_fingerprint *fingerprint)
{
	*fingerprint = (struct kw_fingerprint){.bytes = hash_bytes(payload), .now_ms = now_ms};
	fingerprint->has_digest = kw_payload_kind(payload) != KW_VALUE_MODULE &&
				  kw_payload_digest_at(payload, now_ms, &fingerprint->digest,
					  &fingerprint->over, NULL) == KW_OK;
}

bool kw_fingerprint_matches(const struct kw_fingerprint *fingerprint, struct kw_slice payload)
{
	struct kw_hash128 digest;

	if (equal(fingerprint->bytes, hash_bytes(payload)))
		return true;
	return fingerprint->has_digest &&
	       kw_payload_digest_at(payload, fingerprint->now_ms, &digest, NULL, NULL) == KW_OK &&
	       equal(fingerprint->digest, digest);
}
