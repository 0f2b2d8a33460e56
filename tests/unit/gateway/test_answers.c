/*
 * The gateway's answers against a real server: the same request, byte for byte the same reply, in
 * RESP 2 and in RESP 3.
 *
 *   test_answers [server]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "answers_server.h"
#include "gateway/answers/words.h"

static void keys_of_any_kind(void **state)
{
	static const char *const lines[] = {"TYPE s", "TYPE l", "TYPE h", "TYPE e", "TYPE z",
		"TYPE x", "TYPE none", "EXISTS s", "EXISTS none", "TTL none", "TTL s", "PTTL none",
		"PTTL s", "EXPIRETIME t", "EXPIRETIME none", "EXPIRETIME s", "PEXPIRETIME t",
		"PEXPIRETIME none", "PEXPIRETIME s", "DUMP s", "DUMP z", "DUMP none", NULL};

	answers_do("SET s text");
	answers_do("RPUSH l a b");
	answers_do("HSET h f v");
	answers_do("SADD e m");
	answers_do("ZADD z 1.5 m");
	answers_do("XADD x 1-1 f v");
	answers_do("SET t 12");
	answers_do("PEXPIREAT t 4102444800501");
	answers_same(lines);
	answers_none_differs();
}

static void strings(void **state)
{
	static const char *const lines[] = {"GET s", "GET number", "GET empty", "GET none",
		"GET long", "GET list", "STRLEN s", "STRLEN number", "STRLEN empty", "STRLEN none",
		"STRLEN list", "GETRANGE s 0 -1", "GETRANGE s 1 3", "GETRANGE s -3 -2",
		"GETRANGE s -2 -3", "GETRANGE s 3 1", "GETRANGE s 100 200", "GETRANGE s -100 200",
		"GETRANGE none 0 5", "GETRANGE s x 5", "GETRANGE s 0 99999999999999999999",
		"GETRANGE s 0 -9223372036854775808", "SUBSTR s 0 2", "GETRANGE list 0 1",
		"GETBIT bits 0", "GETBIT bits 7", "GETBIT bits 100", "GETBIT bits 1000000",
		"GETBIT bits -1", "GETBIT bits x", "GETBIT none 5", "GETBIT bits 4294967295",
		"GETBIT bits 4294967296", "BITCOUNT bits", "BITCOUNT bits 0 -1",
		"BITCOUNT bits 1 2", "BITCOUNT bits 0 0", "BITCOUNT bits 5 3",
		"BITCOUNT bits -3 -5", "BITCOUNT bits 1", "BITCOUNT none", "BITCOUNT none 0 1",
		"BITCOUNT bits 3 60 BIT", "BITCOUNT bits 0 -1 BIT", "BITCOUNT bits 8 15 bit",
		"BITCOUNT bits 9 9 BIT", "BITCOUNT bits 0 1 BYTE", "BITCOUNT bits 0 1 WORD",
		"BITCOUNT bits a b", "BITCOUNT list", NULL};
	char line[3000] = "SET long ";

	memset(line + strlen(line), 'x', 2500);
	answers_do("SET s hello-world");
	answers_do("SET number -12345");
	answers_do("SET empty \"\"");
	answers_do(line);
	answers_do("RPUSH list a");
	answers_do("SETBIT bits 3 1");
	answers_do("SETBIT bits 9 1");
	answers_do("SETBIT bits 64 1");
	answers_do("SETBIT bits 100 1");
	answers_same(lines);
	answers_none_differs();
}

/* The clock is handed in: the answer is what is left of that. */
static void what_is_left_of_a_life(void **state)
{
	static const struct {
		const char *line;
		const char *reply;
	} cases[] = {{"TTL k", ":2\r\n"}, {"PTTL k", ":1500\r\n"}, {"EXPIRETIME k", ":102\r\n"},
		{"PEXPIRETIME k", ":101500\r\n"}};
	struct kw_buffer out = {0};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct kw_reply_to to = {&out, KW_RESP_2};
		struct kw_slice words[ANSWERS_WORDS_MAX];
		char *line = strdup(cases[i].line);
		struct kw_ask ask = {.words = words,
			.count = answers_split(line, words),
			.payload = kw_slice_text("not looked at"),
			.expires_ms = 101500,
			.now_ms = 100000,
			.to = &to};

		kw_buffer_clear(&out);
		kw_command_answer(kw_command_find(words[0]), &ask);
		kw_buffer_append(&out, "", 1);
		assert_string_equal((const char *)kw_buffer_bytes(&out), cases[i].reply);
		free(line);
	}
	kw_buffer_close(&out);
}

static void commands_are_found_by_any_case_and_no_other(void **state)
{
	assert_non_null(kw_command_find(kw_slice_text("get")));
	assert_ptr_equal(
		kw_command_find(kw_slice_text("gEt")), kw_command_find(kw_slice_text("GET")));
	assert_null(kw_command_find(kw_slice_text("set")));
	assert_null(kw_command_find(kw_slice_text("")));
	assert_null(kw_command_find(kw_slice_text("ge")));
	/* No zero byte ends a name. */
	assert_null(kw_command_find(kw_slice("get\0x", 5)));
	assert_null(kw_command_find(kw_slice("get\0", 4)));
	assert_null(kw_command_find(kw_slice_text("a command of more than thirty-two bytes")));
	assert_int_equal(kw_command_keys(kw_command_find(kw_slice_text("mget")), 4), 3);
	assert_false(kw_command_fits(kw_command_find(kw_slice_text("get")), 3));
	assert_true(kw_command_fits(kw_command_find(kw_slice_text("mget")), 9));
}

static void hashes(void **state)
{
	static const char *const lines[] = {"HGET small f1", "HGET small none", "HGET none f",
		"HGET large f500", "HGET s f", "HEXISTS small f1", "HEXISTS small none",
		"HEXISTS none f", "HSTRLEN small f2", "HSTRLEN small none", "HSTRLEN none f",
		"HMGET small f1 none f2 f1", "HMGET none a b", "HMGET large f1 f999 f1000",
		"HMGET s a", "HLEN small", "HLEN large", "HLEN none", "HLEN s", "HGETALL small",
		"HGETALL none", "HGETALL s", "HKEYS small", "HVALS small", "HKEYS none",
		"HSCAN small 0", "HSCAN small 0 MATCH f*", "HSCAN small 0 MATCH *[13] COUNT 5",
		"HSCAN none 0", "HSCAN small x", "HSCAN small 0 COUNT 0", "HSCAN small 0 COUNT x",
		"HSCAN small 0 WHAT 3", NULL};

	answers_do("FLUSHALL");
	answers_do("HSET small f1 one f2 two f3 33 \"\" \"\"");
	answers_do_many("HSET large f# value-#", 1000);
	answers_do("SET s x");
	answers_same(lines);
	answers_none_differs();
}

static void sets(void **state)
{
	static const char *const lines[] = {"SISMEMBER small b", "SISMEMBER small z",
		"SISMEMBER none b", "SISMEMBER ints 5", "SISMEMBER ints 500", "SISMEMBER s a",
		"SISMEMBER large m77", "SMISMEMBER small a z b", "SMISMEMBER none a b",
		"SMISMEMBER ints 1 x 2", "SCARD small", "SCARD large", "SCARD none", "SCARD s",
		"SMEMBERS ints", "SMEMBERS none", "SMEMBERS s", "SSCAN ints 0",
		"SSCAN ints 0 MATCH [^1]*", "SSCAN none 0", NULL};

	answers_do("FLUSHALL");
	answers_do("SADD small a");
	answers_do("SADD small b");
	answers_do("SADD ints 1 2 3 5 70000");
	answers_do_many("SADD large m# x#", 700);
	answers_do("SET s x");
	answers_same(lines);
	answers_none_differs();
}

static void lists(void **state)
{
	static const char *const lines[] = {"LLEN l", "LLEN large", "LLEN none", "LLEN s",
		"LINDEX l 0", "LINDEX l -1", "LINDEX l 100", "LINDEX l -100", "LINDEX l x",
		"LINDEX none 0", "LINDEX none x", "LINDEX s 0", "LINDEX large 777", "LRANGE l 0 -1",
		"LRANGE l 1 2", "LRANGE l -2 -1", "LRANGE l 2 1", "LRANGE l 100 200",
		"LRANGE l -100 1", "LRANGE none 0 -1", "LRANGE l x 1", "LRANGE large 500 510",
		"LPOS l b", "LPOS l z", "LPOS l b RANK 2", "LPOS l b RANK -1", "LPOS l b COUNT 0",
		"LPOS l b RANK -1 COUNT 2", "LPOS l b COUNT 1", "LPOS l b MAXLEN 2",
		"LPOS l b RANK -1 MAXLEN 1", "LPOS l b RANK 0", "LPOS l b COUNT -1",
		"LPOS l b MAXLEN -1", "LPOS l b RANK x", "LPOS l b WHAT 1", "LPOS l b RANK",
		"LPOS none b", "LPOS none b COUNT 0", NULL};

	answers_do("FLUSHALL");
	answers_do("RPUSH l a b c b 12 b");
	answers_do_many("RPUSH large element-# #", 800);
	answers_do("SET s x");
	answers_same(lines);
	answers_none_differs();
}

static void sorted_sets(void **state)
{
	static const char *const lines[] = {"ZSCORE z b", "ZSCORE z none", "ZSCORE none b",
		"ZSCORE s b", "ZSCORE z tiny", "ZSCORE z huge", "ZSCORE z inf", "ZSCORE wide wide",
		"ZSCORE large m5", "ZSCORE large n9", "ZMSCORE z a none b a", "ZMSCORE none a",
		"ZCARD z", "ZCARD large", "ZCARD none", "ZCARD s", "ZRANK z b", "ZRANK z none",
		"ZRANK none b", "ZREVRANK z b", "ZRANK large m700", "ZREVRANK large m700",
		"ZCOUNT z -inf +inf", "ZCOUNT z 1 2", "ZCOUNT z (1 2", "ZCOUNT z (1 (2",
		"ZCOUNT z x 2", "ZCOUNT none 1 2", "ZCOUNT z 5 1", "ZLEXCOUNT lex - +",
		"ZLEXCOUNT lex [b (d", "ZLEXCOUNT lex b d", "ZRANGE z 0 -1",
		"ZRANGE z 0 -1 WITHSCORES", "ZRANGE z 1 2 REV", "ZRANGE z 1 2 REV WITHSCORES",
		"ZRANGE z -2 -1", "ZRANGE z 5 1", "ZRANGE z 0 100", "ZRANGE z -100 1",
		"ZRANGE none 0 -1", "ZRANGE s 0 -1", "ZRANGE z x 1", "ZRANGE z 1 2 BYSCORE",
		"ZRANGE z (1 +inf BYSCORE WITHSCORES", "ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2",
		"ZRANGE z -inf +inf BYSCORE LIMIT 1 2", "ZRANGE z -inf +inf BYSCORE LIMIT 1 -1",
		"ZRANGE z -inf +inf BYSCORE LIMIT 100 2", "ZRANGE z 0 1 LIMIT 0 1",
		"ZRANGE lex - + BYLEX", "ZRANGE lex [b (d BYLEX",
		"ZRANGE lex + - BYLEX REV LIMIT 1 1", "ZRANGE lex - + BYLEX WITHSCORES",
		"ZRANGE z 0 1 WHAT", "ZRANGE large 10 14 WITHSCORES", "ZREVRANGE z 0 1",
		"ZREVRANGE z 0 -1 WITHSCORES", "ZREVRANGE z 0 1 REV", "ZRANGEBYSCORE z 1 2",
		"ZRANGEBYSCORE z (1 3 WITHSCORES LIMIT 0 1", "ZRANGEBYSCORE z x 3",
		"ZREVRANGEBYSCORE z 3 1", "ZREVRANGEBYSCORE z 3 1 WITHSCORES LIMIT 1 5",
		"ZRANGEBYLEX lex [a [c", "ZRANGEBYLEX lex - (c LIMIT 1 1",
		"ZREVRANGEBYLEX lex [c [a", "ZREVRANGEBYLEX lex + -", "ZSCAN z 0",
		"ZSCAN z 0 MATCH [ab]*", "ZSCAN none 0", NULL};

	answers_do("FLUSHALL");
	answers_do("ZADD z 1 a 1.5 b 2 c 2 d -3 e 0.1 tiny 1e300 huge inf inf -inf neg 1e20 round");
	answers_do("ZADD z 0.000001234 small -0.00001 below 1e-9 least 3.25e7 "
		   "seven");
	answers_do("ZADD wide 123456789012345678 wide");
	answers_do("ZADD lex 0 a 0 b 0 c 0 d 0 bb");
	answers_do_many("ZADD large #.5 m#", 800);
	answers_do_many("ZADD large 7 n#", 20);
	answers_do("SET s x");
	answers_same(lines);
	answers_none_differs();
}

static void patterns(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {{"*", "", true}, {"*", "abc", true}, {"a*c", "abbbc", true},
		{"a*c", "abbb", false}, {"?", "a", true}, {"?", "", false}, {"a?c", "abc", true},
		{"[abc]", "b", true}, {"[^abc]", "b", false}, {"[a-c]x", "bx", true},
		{"[c-a]", "b", true}, {"\\*", "*", true}, {"\\*", "a", false}, {"", "", true},
		{"", "a", false}, {"**a**", "xxaxx", true}, {"[a", "a", true}, {"[]", "a", false},
		{"a*b*c*d", "axxbxxcxxd", true}, {"a*b*c*d", "axxbxxdxxc", false},
		{"[\\]]", "]", true}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (kw_word_matches(kw_slice_text(cases[i].text),
			    kw_slice_text(cases[i].pattern)) != cases[i].matches)
			fail_msg("%s and %s", cases[i].pattern, cases[i].text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_are_found_by_any_case_and_no_other),
		cmocka_unit_test(keys_of_any_kind),
		cmocka_unit_test(strings),
		cmocka_unit_test(hashes),
		cmocka_unit_test(sets),
		cmocka_unit_test(lists),
		cmocka_unit_test(sorted_sets),
		cmocka_unit_test(patterns),
		cmocka_unit_test(what_is_left_of_a_life),
	};

	return answers_run(argc, argv, tests);
}
