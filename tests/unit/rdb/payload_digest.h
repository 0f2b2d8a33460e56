/* Payloads of the larger types, and their digests, for the tests of the canonical digest. */
#ifndef KW_TESTS_UNIT_RDB_PAYLOAD_DIGEST_H
#define KW_TESTS_UNIT_RDB_PAYLOAD_DIGEST_H

#include "payload_build.h"
#include "rdb/payload.h"

/* The digest of a payload that must be sound. */
struct kw_hash128 digest_of(struct kw_slice payload);
void assert_same(struct kw_hash128 a, struct kw_hash128 b);
void assert_other(struct kw_hash128 a, struct kw_hash128 b);

/* A sorted set of one member, ended; the score as the type has it: a double (5), text, or in a
 * pack. */
void zset_begin(struct kw_buffer *payload, uint8_t type, const char *member, double score,
	const char *text);

/* A stream with one node, one group, one consumer and one pending entry. active: of type 21. */
void stream_build(
	struct kw_buffer *payload, uint8_t type, uint64_t seen, uint64_t active, bool compressed);

#endif
