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
#include <unistd.h>

#include "base/buffer.h"
#include "gateway/answers/command.h"
#include "gateway/answers/words.h"
#include "gateway/resp/request.h"
#include "payload_peer.h"

#define MARK "$4\r\nmark\r\n"
#define WORDS_MAX 32

static const char *binary = "/usr/bin/redis-server";
static struct peer peer;

static int start_server(void **state)
{
	peer_start(&peer, binary, NULL);
	return 0;
}

static int stop_server(void **state)
{
	peer_stop(&peer);
	return 0;
}

/* Words of a line; "" stands for the empty word. */
static size_t split(const char *line, struct kw_slice words[WORDS_MAX])
{
	size_t count = 0;

	for (const char *at = line; *at;) {
		size_t length = strcspn(at, " ");

		assert_true(count < WORDS_MAX);
		words[count++] = length == 2 && memcmp(at, "\"\"", 2) == 0 ? kw_slice("", 0)
									   : kw_slice(at, length);
		at += length + (at[length] == ' ');
	}
	return count;
}

static void append_request(struct kw_buffer *out, const struct kw_slice *words, size_t count)
{
	kw_buffer_printf(out, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		kw_buffer_printf(out, "$%zu\r\n", words[i].length);
		kw_buffer_append(out, words[i].data, words[i].length);
		kw_buffer_append(out, "\r\n", 2);
	}
}

/* The server's reply, byte for byte. A marker that is asked for behind it shows where it ends. */
static void ask_server(const struct kw_slice *words, size_t count, struct kw_buffer *reply)
{
	const struct kw_slice echo[] = {kw_slice_text("ECHO"), kw_slice_text("mark")};
	struct kw_buffer out = {0};
	const size_t mark = strlen(MARK);

	append_request(&out, words, count);
	append_request(&out, echo, 2);
	assert_int_equal(write(peer.fd, kw_buffer_bytes(&out), kw_buffer_length(&out)),
		kw_buffer_length(&out));
	kw_buffer_close(&out);
	kw_buffer_clear(reply);
	for (;;) {
		size_t length = kw_buffer_length(reply);
		ssize_t got;

		if (length >= mark &&
			memcmp(kw_buffer_bytes(reply) + length - mark, MARK, mark) == 0)
			break;
		got = read(peer.fd, kw_buffer_reserve(reply, 65536), 65536);
		assert_true(got > 0);
		kw_buffer_filled(reply, (size_t)got);
	}
	reply->end -= mark;
}

static void run(const char *line)
{
	struct kw_slice words[WORDS_MAX];
	struct kw_buffer reply = {0};

	ask_server(words, split(line, words), &reply);
	if (kw_buffer_bytes(&reply)[0] == '-')
		fail_msg("%s: %.*s", line, (int)kw_buffer_length(&reply),
			(const char *)kw_buffer_bytes(&reply));
	kw_buffer_close(&reply);
}

static void speak(enum kw_resp_version version)
{
	run(version == KW_RESP_3 ? "HELLO 3" : "HELLO 2");
}

/* What the table holds of a key. */
static void fetch(struct kw_slice key, struct kw_buffer *payload, struct kw_ask *ask)
{
	const struct kw_slice dump[] = {kw_slice_text("DUMP"), key};
	const struct kw_slice when[] = {kw_slice_text("PEXPIRETIME"), key};
	struct kw_buffer reply = {0};
	const char *text;
	char *bytes;

	ask_server(dump, 2, &reply);
	kw_buffer_append(&reply, "", 1);
	text = (const char *)kw_buffer_bytes(&reply);
	kw_buffer_clear(payload);
	if (text[0] == '$' && text[1] != '-') {
		size_t length = strtoull(text + 1, &bytes, 10);

		kw_buffer_append(payload, bytes + 2, length);
	}
	ask->payload = kw_slice(kw_buffer_bytes(payload), kw_buffer_length(payload));
	ask->kind = kw_payload_kind(ask->payload);
	ask_server(when, 2, &reply);
	kw_buffer_append(&reply, "", 1);
	text = (const char *)kw_buffer_bytes(&reply);
	ask->expires_ms = text[1] == '-' ? 0 : strtoull(text + 1, NULL, 10);
	kw_buffer_close(&reply);
}

/* The answer for the only key of a request. */
static void ask_gateway(const struct kw_slice *words, size_t count, enum kw_resp_version version,
	struct kw_buffer *reply)
{
	const struct kw_command *command = kw_command_find(words[0]);
	const struct kw_reply_to to = {reply, version};
	struct kw_ask ask = {.words = words, .count = count, .to = &to};
	struct kw_buffer payload = {0};

	kw_buffer_clear(reply);
	assert_non_null(command);
	assert_true(kw_command_fits(command, count));
	assert_int_equal(kw_command_keys(command, count), 1);
	fetch(words[command->first_key], &payload, &ask);
	kw_command_answer(command, &ask);
	kw_buffer_close(&payload);
}

static void same(const char *line)
{
	struct kw_buffer server = {0}, gateway = {0};
	struct kw_slice words[WORDS_MAX];
	size_t count = split(line, words);

	for (enum kw_resp_version version = KW_RESP_2; version <= KW_RESP_3; version++) {
		speak(version);
		ask_server(words, count, &server);
		ask_gateway(words, count, version, &gateway);
		if (!kw_slice_equal(kw_slice(kw_buffer_bytes(&server), kw_buffer_length(&server)),
			    kw_slice(kw_buffer_bytes(&gateway), kw_buffer_length(&gateway))))
			fail_msg("%s (RESP %d): the server says\n%.*s\nthe gateway\n%.*s", line,
				version, (int)kw_buffer_length(&server),
				(const char *)kw_buffer_bytes(&server),
				(int)kw_buffer_length(&gateway),
				(const char *)kw_buffer_bytes(&gateway));
	}
	kw_buffer_close(&server);
	kw_buffer_close(&gateway);
}

static void all_same(const char *const *lines)
{
	for (; *lines; lines++)
		same(*lines);
}

static void keys_of_any_kind(void **state)
{
	static const char *const lines[] = {"TYPE s", "TYPE l", "TYPE h", "TYPE e", "TYPE z",
		"TYPE x", "TYPE none", "EXISTS s", "EXISTS none", "TTL none", "TTL s", "PTTL none",
		"PTTL s", "EXPIRETIME t", "EXPIRETIME none", "EXPIRETIME s", "PEXPIRETIME t",
		"PEXPIRETIME none", "PEXPIRETIME s", "DUMP s", "DUMP z", "DUMP none", NULL};

	run("SET s text");
	run("RPUSH l a b");
	run("HSET h f v");
	run("SADD e m");
	run("ZADD z 1.5 m");
	run("XADD x 1-1 f v");
	run("SET t 12");
	run("PEXPIREAT t 4102444800501");
	all_same(lines);
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
	run("SET s hello-world");
	run("SET number -12345");
	run("SET empty \"\"");
	run(line);
	run("RPUSH list a");
	run("SETBIT bits 3 1");
	run("SETBIT bits 9 1");
	run("SETBIT bits 64 1");
	run("SETBIT bits 100 1");
	all_same(lines);
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
		struct kw_slice words[WORDS_MAX];
		struct kw_ask ask = {.words = words,
			.count = split(cases[i].line, words),
			.payload = kw_slice_text("not looked at"),
			.expires_ms = 101500,
			.now_ms = 100000,
			.to = &to};

		kw_buffer_clear(&out);
		kw_command_answer(kw_command_find(words[0]), &ask);
		kw_buffer_append(&out, "", 1);
		assert_string_equal((const char *)kw_buffer_bytes(&out), cases[i].reply);
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
	assert_null(kw_command_find(kw_slice_text("a command of more than thirty-two bytes")));
	assert_int_equal(kw_command_keys(kw_command_find(kw_slice_text("mget")), 4), 3);
	assert_false(kw_command_fits(kw_command_find(kw_slice_text("get")), 3));
	assert_true(kw_command_fits(kw_command_find(kw_slice_text("mget")), 9));
}

/* A line is run several times, with a number in place of each #. */
static void run_many(const char *pattern, int count)
{
	for (int i = 0; i < count; i++) {
		char line[200];
		int length = 0;

		for (const char *at = pattern; *at; at++)
			length += *at == '#' ? snprintf(line + length, 12, "%d", i)
					     : snprintf(line + length, 2, "%c", *at);
		run(line);
	}
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

	run("FLUSHALL");
	run("HSET small f1 one f2 two f3 33 \"\" \"\"");
	run_many("HSET large f# value-#", 1000);
	run("SET s x");
	all_same(lines);
}

static void sets(void **state)
{
	static const char *const lines[] = {"SISMEMBER small b", "SISMEMBER small z",
		"SISMEMBER none b", "SISMEMBER ints 5", "SISMEMBER ints 500", "SISMEMBER s a",
		"SISMEMBER large m77", "SMISMEMBER small a z b", "SMISMEMBER none a b",
		"SMISMEMBER ints 1 x 2", "SCARD small", "SCARD large", "SCARD none", "SCARD s",
		"SMEMBERS ints", "SMEMBERS none", "SMEMBERS s", "SSCAN ints 0",
		"SSCAN ints 0 MATCH [^1]*", "SSCAN none 0", NULL};

	run("FLUSHALL");
	run("SADD small a");
	run("SADD small b");
	run("SADD ints 1 2 3 5 70000");
	run_many("SADD large m# x#", 700);
	run("SET s x");
	all_same(lines);
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

	run("FLUSHALL");
	run("RPUSH l a b c b 12 b");
	run_many("RPUSH large element-# #", 800);
	run("SET s x");
	all_same(lines);
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

	run("FLUSHALL");
	run("ZADD z 1 a 1.5 b 2 c 2 d -3 e 0.1 tiny 1e300 huge inf inf -inf neg 1e20 round");
	run("ZADD z 0.000001234 small -0.00001 below 1e-9 least 3.25e7 "
	    "seven");
	run("ZADD wide 123456789012345678 wide");
	run("ZADD lex 0 a 0 b 0 c 0 d 0 bb");
	run_many("ZADD large #.5 m#", 800);
	run_many("ZADD large 7 n#", 20);
	run("SET s x");
	all_same(lines);
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

	if (argc > 1)
		binary = argv[1];
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
