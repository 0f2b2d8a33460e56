#include "fingerprint.h"

#include "rdb/payload.h"

static struct kw_hash128 hash_bytes(struct kw_slice payload)
{
	size_t length = payload.length > KW_PAYLOAD_FOOTER ? payload.length - KW_PAYLOAD_FOOTER : 0;

	return kw_hash128_key(0, payload.data, length);
}

static bool equal(struct kw_hash128 a, struct kw_hash128 b)
{
	return a.low == b.low && a.high == b.high;
}

void kw_fingerprint_make(struct kw_slice payload, struct kw_fingerprint *fingerprint)
{
	*fingerprint = (struct kw_fingerprint){.bytes = hash_bytes(payload)};
	fingerprint->has_digest = kw_payload_digest(payload, &fingerprint->digest, NULL) == KW_OK;
}

bool kw_fingerprint_matches(const struct kw_fingerprint *fingerprint, struct kw_slice payload)
{
	struct kw_hash128 digest;

	if (equal(fingerprint->bytes, hash_bytes(payload)))
		return true;
	return fingerprint->has_digest && kw_payload_digest(payload, &digest, NULL) == KW_OK &&
	       equal(fingerprint->digest, digest);
}
