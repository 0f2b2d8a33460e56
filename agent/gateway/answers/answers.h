/*
 * The answers of single commands, by the kind of the value. Each writes one reply as the server
 * would (its source: t_string.c, bitops.c, expire.c, …). A value that cannot be taken apart is
 * answered with -TRYAGAIN: it was verified by its checksum, so this is a form we do not know.
 *
 * Pure; used by command.c only.
 */
#ifndef KW_AGENT_GATEWAY_ANSWERS_ANSWERS_H
#define KW_AGENT_GATEWAY_ANSWERS_ANSWERS_H

#include "command.h"

/* answers_any.c */
void kw_answer_dump(const struct kw_ask *ask);
void kw_answer_exists(const struct kw_ask *ask);
void kw_answer_expiretime(const struct kw_ask *ask);
void kw_answer_pexpiretime(const struct kw_ask *ask);
void kw_answer_ttl(const struct kw_ask *ask);
void kw_answer_pttl(const struct kw_ask *ask);
void kw_answer_type(const struct kw_ask *ask);

/* answers_string.c */
void kw_answer_get(const struct kw_ask *ask);
void kw_answer_strlen(const struct kw_ask *ask);
void kw_answer_getrange(const struct kw_ask *ask);
void kw_answer_getbit(const struct kw_ask *ask);
void kw_answer_bitcount(const struct kw_ask *ask);

/* answers_bits.c */
void kw_answer_bitfield(const struct kw_ask *ask);
void kw_answer_bitpos(const struct kw_ask *ask);

/* answers_geo.c */
void kw_answer_geodist(const struct kw_ask *ask);
void kw_answer_geohash(const struct kw_ask *ask);
void kw_answer_geopos(const struct kw_ask *ask);
void kw_answer_georadius(const struct kw_ask *ask);
void kw_answer_georadiusbymember(const struct kw_ask *ask);
void kw_answer_geosearch(const struct kw_ask *ask);

/* answers_hash.c */
void kw_answer_hexists(const struct kw_ask *ask);
void kw_answer_hexpiretime(const struct kw_ask *ask);
void kw_answer_hget(const struct kw_ask *ask);
void kw_answer_hgetall(const struct kw_ask *ask);
void kw_answer_hkeys(const struct kw_ask *ask);
void kw_answer_hlen(const struct kw_ask *ask);
void kw_answer_hmget(const struct kw_ask *ask);
void kw_answer_hpexpiretime(const struct kw_ask *ask);
void kw_answer_hpttl(const struct kw_ask *ask);
void kw_answer_hscan(const struct kw_ask *ask);
void kw_answer_hstrlen(const struct kw_ask *ask);
void kw_answer_httl(const struct kw_ask *ask);
void kw_answer_hvals(const struct kw_ask *ask);

/* answers_hyperloglog.c */
void kw_answer_pfcount(const struct kw_ask *ask);

/* answers_random.c */
#define KW_RANDOM_MOST (INT64_C(1) << 20) /* elements of a negative count */
void kw_answer_hrandfield(const struct kw_ask *ask);
void kw_answer_srandmember(const struct kw_ask *ask);
void kw_answer_zrandmember(const struct kw_ask *ask);

/* answers_set.c */
void kw_answer_sismember(const struct kw_ask *ask);
void kw_answer_size(const struct kw_ask *ask);
void kw_answer_smembers(const struct kw_ask *ask);
void kw_answer_smismember(const struct kw_ask *ask);
void kw_answer_sscan(const struct kw_ask *ask);

/* answers_list.c */
void kw_answer_lindex(const struct kw_ask *ask);
void kw_answer_lpos(const struct kw_ask *ask);
void kw_answer_lrange(const struct kw_ask *ask);

/* answers_stream.c */
void kw_answer_xlen(const struct kw_ask *ask);
void kw_answer_xrange(const struct kw_ask *ask);
void kw_answer_xrevrange(const struct kw_ask *ask);

/* answers_zset.c */
void kw_answer_zcount(const struct kw_ask *ask);
void kw_answer_zlexcount(const struct kw_ask *ask);
void kw_answer_zmscore(const struct kw_ask *ask);
void kw_answer_zrange(const struct kw_ask *ask);
void kw_answer_zrangebylex(const struct kw_ask *ask);
void kw_answer_zrangebyscore(const struct kw_ask *ask);
void kw_answer_zrank(const struct kw_ask *ask);
void kw_answer_zrevrange(const struct kw_ask *ask);
void kw_answer_zrevrangebylex(const struct kw_ask *ask);
void kw_answer_zrevrangebyscore(const struct kw_ask *ask);
void kw_answer_zrevrank(const struct kw_ask *ask);
void kw_answer_zscan(const struct kw_ask *ask);
void kw_answer_zscore(const struct kw_ask *ask);

/* The visit of the ask's value failed: say so. */
void kw_answer_unreadable(const struct kw_ask *ask, const struct kw_error *error);

/* The value announced another number of elements than it has: say so in place of the reply. */
void kw_answer_miscounted(const struct kw_ask *ask);

/* Say it of the string's bytes; of a missing key: of none. (answers_string.c) */
void kw_answer_string(
	const struct kw_ask *ask, void (*say)(const struct kw_ask *ask, struct kw_slice bytes));

#define KW_STRING_MAX (INT64_C(512) << 20) /* bytes: the servers' proto-max-bulk-len */

/* As below, but of bytes or bits: what lies before the first becomes the first. */
void kw_answer_clamp_bytes(int64_t *start, int64_t *end, int64_t total);

/*
 * A range of positions, both included and counted from the end if negative, within `count` of them.
 * first > last: it is empty.
 */
void kw_answer_clamp(int64_t *first, int64_t *last, int64_t count);

/* A word as a number, as the server takes it: decimal, no blanks, no plus. 0: it is none. */
int kw_answer_number(struct kw_slice word, int64_t *number);

/* A word as an unsigned number, as the servers' string2ull takes it. */
int kw_answer_unsigned(struct kw_slice word, uint64_t *number);

/* A word as a double, as the server's release takes it. It can be infinite or no number. */
int kw_answer_double(const struct kw_ask *ask, struct kw_slice word, double *number);

#endif
