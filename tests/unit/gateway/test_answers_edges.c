/*
 * Every command of one key on keys of every kind and encoding, with words that are right, at their
 * bounds, and wrong: the gateway's reply is the server's, byte for byte.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "answers_server.h"

static const char *const keys[] = {"none", "text", "number", "huge", "list", "longlist", "hash",
	"bighash", "ints", "set", "bigset", "zset", "bigzset", "stream", NULL};
static const char *const stream_keys[] = {
	"none", "text", "zset", "stream", "bigstream", "holes", "empty", "varied", NULL};
static const char *const lex_keys[] = {"none", "text", "lex", "biglex", NULL};

static void fill_streams(void)
{
	answers_do("XADD stream 1-1 f v g 12");
	answers_do("XADD stream 1-2 f w g -70000");
	answers_do("XADD stream 1-3 f \"\" g 123456789012345");
	answers_do("XADD stream 5-0 other 1 words 2 f 3");
	answers_do("XADD stream 18446744073709551615-18446744073709551614 last entry");
	answers_do_many("XADD bigstream 100#-# field # other value-of-#", 350);
	answers_do_many("XADD holes #-1 a # b #", 30);
	for (int i = 3; i < 27; i += 4) {
		char line[64];

		snprintf(line, sizeof line, "XDEL holes %d-1 %d-1", i, i + 1);
		answers_do(line);
	}
	answers_do("XADD empty 7-7 a b");
	answers_do("XDEL empty 7-7");
	answers_do_many("XADD varied 9-# f# # g #", 20);
	answers_do_many("XADD varied 99999-# same # a b", 20);
	answers_do("XTRIM varied MAXLEN 33");
	answers_do("XGROUP CREATE stream group 0");
	answers_do("XREADGROUP GROUP group consumer COUNT 2 STREAMS stream >");
}

static void fill(void)
{
	char line[3000] = "SET huge ";

	memset(line + strlen(line), 'x', 2500);
	answers_do("SET text hello-world");
	answers_do("SET number -12345");
	answers_do(line);
	answers_do("RPUSH list a b c b 12 b -7 123456789012 \"\" 0");
	answers_do_many("RPUSH longlist element-# # -#000000", 200);
	line[0] = '\0';
	strcat(line, "RPUSH longlist ");
	memset(line + strlen(line), 'y', 2000);
	answers_do(line);
	answers_do("HSET hash a 1 b two c 33 \"\" \"\" 7 -70000 long 123456789012345");
	answers_do_many("HSET bighash f# value-# # #", 300);
	answers_do("SADD ints 1 2 3 5 70000 -5000000000");
	answers_do("SADD set a b 7 cc \"\"");
	answers_do_many("SADD bigset m# # x#", 300);
	answers_do("ZADD zset 1 a 1.5 b 2 cc 2 c -3 7 0.1 tiny 1e300 huge inf inf -inf neg 1e20 "
		   "round");
	answers_do("ZADD zset 4e18 below 5e18 above 9007199254740993 odd 123456789012345678 wide");
	answers_do("ZADD zset -4e18 m1 -5e18 m2 1e15 m3 1e17 m4 0.000001234 m5 -1e-9 m6 -0 m7");
	answers_do("ZADD zset 3.25e7 m8 0.1e-5 m9 1234567.125 n1 -0.0001234 n2 5e-324 n3 1e21 n4");
	answers_do_many("ZADD bigzset #.5 m# # n# 7 p#", 200);
	answers_do("ZADD lex 0 a 0 b 0 c 0 d 0 bb 0 \"\" 0 7 0 -");
	answers_do_many("ZADD biglex 0 a# 0 # 0 b-#", 100);
	fill_streams();
	answers_do("SET ones \\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff");
	answers_do("SET zeros \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00");
	answers_do("SET mixed \\x00\\x00\\xff\\x0f\\x80\\x01\\xff\\xfe\\x00");
}

static void compare_on(const char *const *templates, const char *key, bool sorted)
{
	const char *lines[200];
	size_t count = 0;

	for (; templates[count]; count++) {
		char line[400];
		const char *at = strchr(templates[count], '@');

		assert_true(count + 1 < sizeof lines / sizeof *lines);
		assert_non_null(at);
		snprintf(line, sizeof line, "%.*s%s%s", (int)(at - templates[count]),
			templates[count], key, at + 1);
		lines[count] = strdup(line);
	}
	lines[count] = NULL;
	(sorted ? answers_same_set : answers_same)(lines);
	while (count > 0)
		free((char *)lines[--count]);
}

static void compare_with(const char *const *with, const char *const *templates, bool sorted)
{
	for (int settings = 0; settings < ANSWERS_SETTINGS; settings++) {
		answers_set(settings);
		fill();
		for (const char *const *key = with; *key; key++)
			compare_on(templates, *key, sorted);
	}
	answers_none_differs();
}

static void compare_all(const char *const *templates, bool sorted)
{
	compare_with(keys, templates, sorted);
}

static void of_any_kind(void **state)
{
	static const char *const lines[] = {"TYPE @", "EXISTS @", "TTL @", "PTTL @", "EXPIRETIME @",
		"PEXPIRETIME @", "DUMP @", "TYPE @ x", "TTL @ x", "EXPIRETIME @ x", "DUMP @ x",
		NULL};

	compare_all(lines, false);
}

static void of_strings(void **state)
{
	static const char *const lines[] = {"GET @", "GET @ x", "STRLEN @", "STRLEN @ x",
		"GETRANGE @ 0 -1", "GETRANGE @ 2 4", "GETRANGE @ -3 -2", "GETRANGE @ -2 -3",
		"GETRANGE @ 3 1", "GETRANGE @ 100 200", "GETRANGE @ -100 200", "GETRANGE @ x 5",
		"GETRANGE @ 0 x", "GETRANGE @ 0 99999999999999999999", "GETRANGE @ 0",
		"GETRANGE @ -9223372036854775808 9223372036854775807", "GETRANGE @ 0 0",
		"GETRANGE @ -5000 -4000", "GETRANGE @ -5000 2", "GETRANGE @ 0 -5000",
		"GETRANGE @ -9223372036854775808 -9223372036854775808", "SUBSTR @ 1 2",
		"SUBSTR @ x 2", "GETBIT @ 0", "GETBIT @ 7", "GETBIT @ -1", "GETBIT @ x",
		"GETBIT @ 4294967295", "GETBIT @ 4294967296", "GETBIT @ 100", "GETBIT @",
		"BITCOUNT @", "BITCOUNT @ 0", "BITCOUNT @ 2", "BITCOUNT @ x", "BITCOUNT @ 0 -1",
		"BITCOUNT @ -3 -5", "BITCOUNT @ 5 30 BIT", "BITCOUNT @ 0 x", "BITCOUNT @ 0 1 WORD",
		"BITCOUNT @ x 1 WORD", "BITCOUNT @ 0 1 BYTE 3", "BITCOUNT @ -9 -1 bit",
		"BITCOUNT @ 0 99999999", "BITCOUNT @ 3 1", NULL};

	compare_all(lines, false);
}

static void of_hashes(void **state)
{
	static const char *const lines[] = {"HGET @ a", "HGET @ 7", "HGET @ \"\"", "HGET @ f77",
		"HGET @ zzz", "HGET @", "HGET @ a b", "HEXISTS @ a", "HEXISTS @ zzz", "HEXISTS @",
		"HSTRLEN @ 7", "HSTRLEN @ long", "HSTRLEN @ zzz", "HSTRLEN @ \"\"", "HLEN @",
		"HMGET @ a zzz b a", "HMGET @ f1 f299 7", "HMGET @", "HLEN @ x", "HSCAN @ x",
		"HSCAN @ 0 COUNT 0", "HSCAN @ 0 COUNT x", "HSCAN @ 0 COUNT", "HSCAN @ 0 WHAT 3",
		"HSCAN @ 99999999999999999999", "HSCAN @", "HSCAN @ 0 MATCH", "HSCAN @ 0 TYPE hash",
		NULL};
	static const char *const sets[] = {"HGETALL @", "HKEYS @", "HVALS @",
		"HSCAN @ 0 COUNT 10000", "HSCAN @ 0 MATCH *[13] COUNT 10000",
		"HSCAN @ 0 COUNT 10000 MATCH nothing*", NULL};

	compare_all(lines, false);
	compare_all(sets, true);
}

static void of_sets(void **state)
{
	static const char *const lines[] = {"SISMEMBER @ a", "SISMEMBER @ 7", "SISMEMBER @ 07",
		"SISMEMBER @ \"\"", "SISMEMBER @ m77", "SISMEMBER @ -5000000000", "SISMEMBER @",
		"SMISMEMBER @ a zzz b a", "SMISMEMBER @ 1 01 5", "SMISMEMBER @", "SCARD @",
		"SCARD @ x", "SSCAN @ x", "SSCAN @ 0 COUNT 0", "SSCAN @ 0 NOVALUES",
		"SSCAN @ 0 TYPE set", NULL};
	static const char *const sets[] = {
		"SMEMBERS @", "SSCAN @ 0 COUNT 10000", "SSCAN @ 0 MATCH [^1m]* COUNT 10000", NULL};

	compare_all(lines, false);
	compare_all(sets, true);
}

static void of_lists(void **state)
{
	static const char *const lines[] = {"LLEN @", "LLEN @ x", "LINDEX @ 0", "LINDEX @ -1",
		"LINDEX @ 3", "LINDEX @ 100000", "LINDEX @ -100000", "LINDEX @ x", "LINDEX @",
		"LINDEX @ 9223372036854775807", "LINDEX @ -9223372036854775808", "LINDEX @ 1.0",
		"LRANGE @ 0 -1", "LRANGE @ 1 2", "LRANGE @ -2 -1", "LRANGE @ 2 1",
		"LRANGE @ 100 110", "LRANGE @ -100000 1", "LRANGE @ x 1", "LRANGE @ 0 x",
		"LRANGE @ -9223372036854775808 9223372036854775807", "LRANGE @ 5 -100000",
		"LRANGE @ 9223372036854775807 9223372036854775807", "LRANGE @ 0", "LPOS @ b",
		"LPOS @ 12", "LPOS @ b RANK 2", "LPOS @ b RANK -1", "LPOS @ b COUNT 0",
		"LPOS @ b RANK -1 COUNT 2", "LPOS @ b COUNT 1", "LPOS @ b MAXLEN 2",
		"LPOS @ b RANK -1 MAXLEN 1", "LPOS @ b RANK 0", "LPOS @ b COUNT -1",
		"LPOS @ b MAXLEN -1", "LPOS @ b RANK x", "LPOS @ b WHAT 1", "LPOS @ b RANK",
		"LPOS @ b RANK -9223372036854775808", "LPOS @ b RANK -9223372036854775807",
		"LPOS @ b RANK 9223372036854775807", "LPOS @ b COUNT 9223372036854775807",
		"LPOS @ b RANK 1 RANK 2", "LPOS @ b COUNT 1 COUNT 0", "LPOS @ zzz COUNT 0",
		"LPOS @ \"\"", "LPOS @ -7", "LPOS @", NULL};

	compare_all(lines, false);
}

static void of_sorted_sets(void **state)
{
	static const char *const lines[] = {"ZSCORE @ a", "ZSCORE @ huge", "ZSCORE @ round",
		"ZSCORE @ below", "ZSCORE @ above", "ZSCORE @ odd", "ZSCORE @ wide", "ZSCORE @ m7",
		"ZSCORE @ inf", "ZSCORE @ neg", "ZSCORE @ zzz", "ZSCORE @",
		"ZMSCORE @ a zzz b a tiny", "ZMSCORE @ m1 m2 m3 m4 m5 m6 m7 m8 m9 n1 n2 n3 n4",
		"ZMSCORE @", "ZCARD @", "ZRANK @ a", "ZRANK @ zzz", "ZRANK @ m77", "ZREVRANK @ m77",
		"ZRANK @ a WITHSCORE", "ZRANK @ zzz WITHSCORE", "ZREVRANK @ b WITHSCORE",
		"ZRANK @ a WHAT", "ZRANK @ a WITHSCORE x", "ZCOUNT @ -inf +inf", "ZCOUNT @ 1 2",
		"ZCOUNT @ (1 2", "ZCOUNT @ (1 (2", "ZCOUNT @ x 2", "ZCOUNT @ 1 x", "ZCOUNT @ 5 1",
		"ZCOUNT @ nan 1", "ZCOUNT @ (inf inf", "ZCOUNT @ \"\" 1", "ZCOUNT @ ( 1",
		"ZCOUNT @ 0x10 1e3", "ZLEXCOUNT @ b d", "ZLEXCOUNT @ -x +", NULL};

	compare_all(lines, false);
}

static void ranges_of_sorted_sets(void **state)
{
	static const char *const lines[] = {"ZRANGE @ 0 -1", "ZRANGE @ 0 -1 WITHSCORES",
		"ZRANGE @ 1 2 REV", "ZRANGE @ 1 5 REV WITHSCORES", "ZRANGE @ -2 -1", "ZRANGE @ 5 1",
		"ZRANGE @ 0 100000", "ZRANGE @ -100000 1", "ZRANGE @ x 1",
		"ZRANGE @ -9223372036854775808 9223372036854775807", "ZRANGE @ 0 x REV",
		"ZRANGE @ 9223372036854775807 -9223372036854775808", "ZRANGE @ 1 2 BYSCORE",
		"ZRANGE @ (1 +inf BYSCORE WITHSCORES", "ZRANGE @ +inf -inf BYSCORE REV LIMIT 1 2",
		"ZRANGE @ -inf +inf BYSCORE LIMIT 1 2", "ZRANGE @ -inf +inf BYSCORE LIMIT 1 -1",
		"ZRANGE @ -inf +inf BYSCORE LIMIT 100000 2", "ZRANGE @ 0 1 LIMIT 0 1",
		"ZRANGE @ 0 1 LIMIT 0 -1", "ZRANGE @ 0 1 LIMIT 0", "ZRANGE @ 0 1 LIMIT x 1 BYLEX",
		"ZRANGE @ -inf +inf BYSCORE LIMIT -1 2", "ZRANGE @ -inf inf BYSCORE LIMIT 0 0",
		"ZRANGE @ inf -inf REV BYSCORE LIMIT -3 2", "ZRANGE @ - + BYLEX WITHSCORES",
		"ZRANGE @ 0 1 WHAT", "ZRANGE @ 1 2 BYSCORE BYLEX", "ZRANGE @ 1 2 REV REV",
		"ZRANGE @ a b BYSCORE", "ZRANGE @ a b BYLEX", "ZRANGE @ 0",
		"ZRANGE @ 10 14 WITHSCORES", "ZREVRANGE @ 0 1", "ZREVRANGE @ 0 -1 WITHSCORES",
		"ZREVRANGE @ 0 1 REV", "ZREVRANGE @ 0 1 LIMIT 0 1", "ZREVRANGE @ 0 1 LIMIT 0 -1",
		"ZRANGEBYSCORE @ 1 2", "ZRANGEBYSCORE @ (1 3 WITHSCORES LIMIT 0 1",
		"ZRANGEBYSCORE @ x 3", "ZRANGEBYSCORE @ -inf inf BYLEX", "ZREVRANGEBYSCORE @ 3 1",
		"ZREVRANGEBYSCORE @ 3 1 WITHSCORES LIMIT 1 5", "ZSCAN @ x", "ZSCAN @ 0 COUNT 0",
		"ZSCAN @ 0 NOVALUES", NULL};
	static const char *const sets[] = {
		"ZSCAN @ 0 COUNT 10000", "ZSCAN @ 0 MATCH [ab]* COUNT 10000", NULL};

	compare_all(lines, false);
	compare_all(sets, true);
}

/* Scores of every size: the digits are those of the server's own algorithm, not the fewest. */
static void scores_to_the_last_digit(void **state)
{
	static const char *const lines[] = {"ZRANGE random 0 -1 WITHSCORES", NULL};
	static const char *const scanned[] = {"ZSCAN random 0 COUNT 10000", NULL};
	uint64_t bits = 88172645463325252;

	for (int settings = 0; settings < ANSWERS_SETTINGS; settings++) {
		answers_set(settings);
		for (int i = 0; i < 3000; i++) {
			char line[120];
			double score;

			bits ^= bits << 13;
			bits ^= bits >> 7;
			bits ^= bits << 17;
			memcpy(&score, &bits, sizeof score);
			if (i % 2)
				score = (double)(bits >> 11) / 1e14;
			if (isfinite(score)) {
				snprintf(line, sizeof line, "ZADD random %.17g m%d", score, i);
				answers_do(line);
			}
		}
		answers_same(lines);
		answers_same_set(scanned);
	}
	answers_none_differs();
}

/* By bytes a range means something only among equal scores. */
static void ranges_by_lex(void **state)
{
	static const char *const lines[] = {"ZRANGE @ - + BYLEX", "ZRANGE @ [b (d BYLEX",
		"ZRANGE @ + - BYLEX REV LIMIT 1 1", "ZRANGEBYLEX @ [a [c",
		"ZRANGEBYLEX @ - (c LIMIT 1 1", "ZREVRANGEBYLEX @ [c [a", "ZREVRANGEBYLEX @ + -",
		"ZREVRANGEBYLEX @ - +", "ZRANGEBYLEX @ - + WITHSCORES", "ZLEXCOUNT @ - +",
		"ZLEXCOUNT @ [b (d", "ZLEXCOUNT @ + -", "ZLEXCOUNT @ [ +", "ZLEXCOUNT @ ( (z",
		"ZRANGEBYLEX @ - + LIMIT -1 2", "ZREVRANGEBYLEX @ + - LIMIT -3 2",
		"ZRANGEBYLEX @ [b [b1 LIMIT -2 9", "ZRANGE @ (b (b BYLEX", "ZRANGE @ [b [b BYLEX",
		NULL};

	compare_with(lex_keys, lines, false);
	answers_none_differs();
}

static void of_streams(void **state)
{
	static const char *const lines[] = {"XLEN @", "XLEN @ x", "XRANGE @ - +",
		"XRANGE @ - + COUNT 1", "XREVRANGE @ + -", "XREVRANGE @ + - COUNT 1",
		"XRANGE @ 1 1", "XRANGE @ 1-2 1-3", "XRANGE @ (1-1 (5-0", "XREVRANGE @ (5-0 (1-1",
		"XRANGE @ (1 5", "XRANGE @ 1 (5", "XRANGE @ 100100 100102-3",
		"XREVRANGE @ 100102 100100 COUNT 2", "XRANGE @ 5 1", "XREVRANGE @ - +",
		"XRANGE @ - + COUNT 0", "XRANGE @ - + COUNT -1", "XRANGE @ - + COUNT x",
		"XRANGE @ - + COUNT", "XRANGE @ - + COUNT 1 COUNT 2", "XRANGE @ - + WHAT 1",
		"XRANGE @ - + 5", "XRANGE @ x +", "XRANGE @ - x", "XRANGE @ ( +", "XRANGE @ (- +",
		"XRANGE @ - (+", "XRANGE @ (0-0 +", "XRANGE @ - (0-0",
		"XRANGE @ (18446744073709551615-18446744073709551615 +", "XRANGE @ + +",
		"XRANGE @ - -", "XRANGE @ 18446744073709551615 +",
		"XRANGE @ 18446744073709551616 +", "XRANGE @ 1-* +", "XRANGE @ 007-00 +",
		"XRANGE @ -5 +", "XRANGE @ 1- +", "XRANGE @ -1-1 +", "XRANGE @ 1-1-1 +",
		"XRANGE @ \"\" +", "XRANGE @ - (10-1 COUNT 3", "XREVRANGE @ (20 (8 COUNT 3",
		"XRANGE @ 9-18 99999-2", "XREVRANGE @ 99999-2 9-17",
		"XRANGE @ - + COUNT 9223372036854775807", "XRANGE @ -", NULL};

	compare_with(stream_keys, lines, false);
	answers_none_differs();
}

static void of_bits(void **state)
{
	static const char *const lines[] = {"BITPOS @ 0", "BITPOS @ 1", "BITPOS @ 2", "BITPOS @ x",
		"BITPOS @ 1 0", "BITPOS @ 0 1", "BITPOS @ 0 x", "BITPOS @ 1 2 -1", "BITPOS @ 0 2 x",
		"BITPOS @ 0 0 0", "BITPOS @ 1 0 -1 BIT", "BITPOS @ 0 3 5 BIT",
		"BITPOS @ 1 7 15 bit", "BITPOS @ 0 -3 -1 BIT", "BITPOS @ 1 0 -1 BYTE",
		"BITPOS @ 1 0 -1 WORD", "BITPOS @ 1 0 -1 BIT x", "BITPOS @ 1 5 2",
		"BITPOS @ 0 -1 -5", "BITPOS @ 0 100000", "BITPOS @ 1 -100 3", "BITPOS @ 1 x 2 WORD",
		"BITPOS @", "BITPOS @ 0 17 18 BIT", "BITPOS @ 1 9223372036854775807",
		"BITPOS @ 0 9 9 BIT", "BITFIELD_RO @", "BITFIELD_RO @ GET u8 0",
		"BITFIELD_RO @ GET i8 1 GET u3 5", "BITFIELD_RO @ GET i64 3",
		"BITFIELD_RO @ GET u63 70", "BITFIELD_RO @ GET u64 0", "BITFIELD_RO @ GET i65 0",
		"BITFIELD_RO @ GET u0 0", "BITFIELD_RO @ GET x8 0", "BITFIELD_RO @ GET i 0",
		"BITFIELD_RO @ GET i5 #3", "BITFIELD_RO @ GET i5 -1", "BITFIELD_RO @ GET i5 x",
		"BITFIELD_RO @ GET i5 4294967295", "BITFIELD_RO @ GET i5 4294967296",
		"BITFIELD_RO @ GET i5 #858993459", "BITFIELD_RO @ SET i5 0 1",
		"BITFIELD_RO @ GET i5 0 INCRBY i5 0 x", "BITFIELD_RO @ GET i5 0 INCRBY i5 0 3",
		"BITFIELD_RO @ OVERFLOW SAT GET i5 3", "BITFIELD_RO @ OVERFLOW WHAT GET i5 3",
		"BITFIELD_RO @ OVERFLOW FAIL", "BITFIELD_RO @ GET i5", "BITFIELD_RO @ WHAT i5 0",
		"BITFIELD_RO @ GET i5 # ", NULL};
	static const char *const bit_keys[] = {
		"none", "text", "number", "huge", "list", "ones", "zeros", "mixed", NULL};

	compare_with(bit_keys, lines, false);
	answers_none_differs();
}

/* The count that stands in the value, and the one that must be computed; sparse and dense. */
static void of_hyperloglogs(void **state)
{
	static const char *const lines[] = {"PFCOUNT few", "PFCOUNT some", "PFCOUNT many",
		"PFCOUNT none", "PFCOUNT text", "PFCOUNT short", "PFCOUNT cut", "PFCOUNT magic",
		"PFCOUNT list", "PFCOUNT merged", "PFCOUNT nothing", NULL};

	for (int settings = 0; settings < ANSWERS_SETTINGS; settings++) {
		answers_set(settings);
		fill();
		answers_do("PFADD few a b c");
		answers_do("PFADD nothing");
		answers_do_many("PFADD some #", 700);
		answers_do("CONFIG SET hll-sparse-max-bytes 100");
		answers_do_many("PFADD many # x# y# z#", 2000);
		answers_do("CONFIG SET hll-sparse-max-bytes 3000");
		answers_do("PFMERGE merged some many");
		answers_do("SET short HYLL");
		answers_do("SET magic HYLLxxxxxxxxxxxxxxxxxxxxx");
		/* sparse, stale, and one register short */
		answers_do(
			"SET cut HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80"
			"\\x7f\\xfe");
		answers_same(lines);
	}
	answers_none_differs();
}

/* What random commands refuse, and what leaves no choice. */
static void of_chance(void **state)
{
	static const char *const lines[] = {"HRANDFIELD @ x", "HRANDFIELD @ 0",
		"HRANDFIELD @ 1 WHAT", "HRANDFIELD @ 1 WITHVALUES x",
		"HRANDFIELD @ -9223372036854775808", "HRANDFIELD @ 9223372036854775807 WITHVALUES",
		"HRANDFIELD @ 0 WITHVALUES", "HRANDFIELD @ x WITHVALUES", "SRANDMEMBER @ x",
		"SRANDMEMBER @ 0", "SRANDMEMBER @ 1 2", "SRANDMEMBER @ -9223372036854775808",
		"ZRANDMEMBER @ x", "ZRANDMEMBER @ 0", "ZRANDMEMBER @ 1 WHAT",
		"ZRANDMEMBER @ 1 WITHSCORES x", "ZRANDMEMBER @ -9223372036854775808",
		"ZRANDMEMBER @ 0 WITHSCORES", "ZRANDMEMBER @ 9223372036854775807 WITHSCORES",
		"HRANDFIELD @", NULL};
	static const char *const all[] = {"HRANDFIELD @ 5000", "HRANDFIELD @ 5000 WITHVALUES",
		"SRANDMEMBER @ 5000", "ZRANDMEMBER @ 5000", "ZRANDMEMBER @ 5000 WITHSCORES", NULL};
	static const char *const but_hashes[] = {
		"none", "text", "list", "ints", "bigset", "zset", "bigzset", "stream", NULL};
	static const char *const no_choice[] = {"HRANDFIELD one", "HRANDFIELD one -3",
		"HRANDFIELD one 1 WITHVALUES", "HRANDFIELD one -2 withvalues", "SRANDMEMBER alone",
		"SRANDMEMBER alone -2", "SRANDMEMBER alone 1", "ZRANDMEMBER only",
		"ZRANDMEMBER only -2 WITHSCORES", "ZRANDMEMBER only 1", NULL};

	compare_with(but_hashes, lines, false);
	compare_all(all, true);
	answers_do("HSET one 7 \"\"");
	answers_do("SADD alone 12");
	answers_do("ZADD only 1.5 \"\"");
	answers_same(no_choice);
	answers_none_differs();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_any_kind),
		cmocka_unit_test(of_strings),
		cmocka_unit_test(of_hashes),
		cmocka_unit_test(of_sets),
		cmocka_unit_test(of_lists),
		cmocka_unit_test(of_sorted_sets),
		cmocka_unit_test(ranges_of_sorted_sets),
		cmocka_unit_test(ranges_by_lex),
		cmocka_unit_test(scores_to_the_last_digit),
		cmocka_unit_test(of_streams),
		cmocka_unit_test(of_bits),
		cmocka_unit_test(of_hyperloglogs),
		cmocka_unit_test(of_chance),
	};

	return answers_run(argc, argv, tests);
}
