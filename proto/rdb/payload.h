/*
 * What a DUMP payload says, without asking a server.
 *
 *   type byte │ the value as in an RDB file │ RDB version, 2 bytes │ CRC64 of all before, 8 bytes
 *
 * (both little-endian)
 *
 * A server writes equal values differently: compact or not, compressed or not, and in any order if
 * order means nothing. kw_payload_digest is the same for all of these. So payloads of two servers
 * can be compared, even if their settings and versions differ (Redis 6.2 to 8.x, Valkey 7.2 to 9).
 * Older encodings that these still load are understood, too.
 *
 * Pure functions of their arguments; any thread. Every length inside the payload is checked against
 * the bytes that are there. Memory is taken only to unpack compressed strings, at most
 * KW_PAYLOAD_EXPANSION times the bytes given.
 */
#ifndef KW_RDB_PAYLOAD_H
#define KW_RDB_PAYLOAD_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_PAYLOAD_FOOTER 10 /* RDB version and CRC64 */

/* LZF's longest match copies 264 bytes for 3: no honest compressed string grows more than this. */
#define KW_PAYLOAD_EXPANSION 88

/*
 * Is it whole? Checks the CRC64 and hands out the RDB version (NULL: not wanted). The version tells
 * which servers load it. The value itself is not looked at. KW_E_CORRUPT: too short for a payload,
 * or the CRC64 does not hold.
 */
int kw_payload_check(struct kw_slice payload, uint16_t *rdb_version, struct kw_error *error);

/*
 * The value's type in the words of the TYPE command: "string", "list", "set", "zset", "hash",
 * "stream"; "module" for a module's value; "unknown" for a type byte that is none of these.
 */
const char *kw_payload_type_name(struct kw_slice payload);

/*
 * Is it a vector set, the value of the module that Redis 8 has built in? encoding (NULL: not
 * wanted) is the version in which the module wrote it. Only the first bytes are looked at.
 */
bool kw_payload_is_vector_set(struct kw_slice payload, unsigned *encoding);

/*
 * The canonical digest: equal for equal values, different (as far as 128 bits can be) for others.
 *
 *   string     its bytes; integers and LZF unpacked
 *   list       the elements in their order
 *   set        the members, in any order
 *   hash       fields, values and the fields' own expiry times, in any order
 *   zset       members and scores, in any order; a score is the double it means, -0 is 0
 *   stream     entries, ids, groups, pending entries and consumers, with the strings unpacked.
 *              Type 15 (Redis 6.2) lacks counters of later servers: it equals type 15 only.
 *              Streams of Redis 8.6 and later (types 26, 27): the raw bytes, as for a module
 *   module     the raw bytes: equal only when the module writes equal values equally
 *
 * The CRC64 is not checked again here, nor does it or the RDB version take part.
 *
 * KW_E_CORRUPT: the value is not well formed.
 * KW_E_PROTOCOL: a type this program does not know; the caller can only compare bytes.
 * KW_E_NOMEM: no memory to unpack a compressed string.
 */
int kw_payload_digest(struct kw_slice payload, struct kw_hash128 *digest, struct kw_error *error);

/*
 * The same without the fields of a hash whose time is over at `now_ms`. A server removes them when
 * it comes to it, and by its own clock. over (NULL: not wanted): that is all the fields there are,
 * so the key itself is gone, or about to go. Errors as kw_payload_digest.
 */
int kw_payload_digest_at(struct kw_slice payload, uint64_t now_ms, struct kw_hash128 *digest,
	bool *over, struct kw_error *error);

/*
 * Append the bytes of a string value to text. Errors as kw_payload_digest, and
 * KW_E_ARGUMENT: not a string. KW_E_FULL: the string is longer than `most` bytes. text is unchanged
 * then.
 */
int kw_payload_text(
	struct kw_slice payload, size_t most, struct kw_buffer *text, struct kw_error *error);

#endif
