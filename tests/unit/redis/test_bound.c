/* Which command may be answered by how much, and that no reply takes more memory than that. */
#include "base/buffer.h"
#include "fixture.h"
#include "redis/bound.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <malloc.h>

static enum kw_bound find(const char *words)
{
	struct kw_slice argv[8];
	char copy[64], *rest = copy;
	int argc = 0;

	snprintf(copy, sizeof copy, "%s", words);
	for (char *word; (word = strsep(&rest, " "));)
		argv[argc++] = kw_slice_text(word);
	return kw_bound_of(argc, argv);
}

static void a_bound_is_found_by_the_words_of_its_command(void **state)
{
	static const struct {
		const char *words;
		enum kw_bound bound;
	} cases[] = {
		{"DUMP key", KW_BOUND_DUMP},
		{"SCAN 0 COUNT 500", KW_BOUND_SCAN},
		{"INFO commandstats", KW_BOUND_INFO},
		{"GET key", KW_BOUND_GET},
		{"CLIENT LIST TYPE normal", KW_BOUND_CLIENT_LIST},
		{"COMMAND INFO get set", KW_BOUND_COMMAND_INFO},
		{"COMMAND", KW_BOUND_COMMAND},
		{"FUNCTION LIST LIBRARYNAME x", KW_BOUND_FUNCTION_LIST},
		{"FUNCTION DUMP", KW_BOUND_FUNCTION_DUMP},
		{"CLIENT SETNAME LIST", KW_BOUND_SHORT},
		{"CLIENT", KW_BOUND_SHORT},
		{"CONFIG GET databases", KW_BOUND_CONFIG_GET},
		{"CONFIG SET databases", KW_BOUND_SHORT},
		{"PEXPIRETIME DUMP", KW_BOUND_SHORT},
		{"DUMPS key", KW_BOUND_SHORT},
		{"FUNCTION", KW_BOUND_SHORT},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (find(cases[i].words) != cases[i].bound)
			fail_msg("%s", cases[i].words);
	}
}

static void what_real_servers_send_is_within_the_bounds(void **state)
{
	/* 65536 databases in INFO keyspace; 100,000 clients of 700 bytes; a bucket of a million. */
	assert_true(kw_bound(KW_BOUND_INFO)->bytes >= (size_t)65536 * 1024);
	assert_true(kw_bound(KW_BOUND_CLIENT_LIST)->bytes >= (size_t)100000 * 700);
	assert_true(kw_bound(KW_BOUND_SCAN)->elements > 1000000);
	assert_true(kw_bound(KW_BOUND_DUMP)->bytes > (size_t)600 * 1024 * 1024);
	assert_true(kw_bound(KW_BOUND_MESSAGE)->bytes > (size_t)600 * 1024 * 1024);
	assert_true(kw_bound(KW_BOUND_FUNCTION_DUMP)->bytes > (size_t)64 * 1024 * 1024);
}

static const struct kw_reply_bound narrow = {"the reply to X", 16 * 1024, 8};

static bool count(void *arg, const struct kw_reply *reply)
{
	int *replies = arg;

	assert_true(reply->text.length <= narrow.bytes);
	(*replies)++;
	return true;
}

/* Feed in pieces; how many replies came. */
static int feed(const char *text, size_t length, size_t piece, struct kw_error *error)
{
	int replies = 0, code = 0;
	struct kw_reply_reader *reader = kw_reply_reader_new(count, &replies);

	*error = (struct kw_error){0};
	kw_reply_reader_bound(reader, &narrow);
	for (size_t at = 0; at < length && code == 0; at += piece) {
		size_t take = length - at < piece ? length - at : piece;

		code = kw_reply_reader_feed(reader, text + at, take, error);
	}
	assert_int_equal(error->code, code);
	kw_reply_reader_free(reader);
	return replies;
}

/* head, then `filler` bytes of x, then tail. */
static void expect(const char *head, size_t filler, const char *tail, const char *refusal)
{
	static const size_t pieces[] = {1, 7, 1000, 4096, 65536, 1 << 20};
	struct kw_buffer text = {0};
	struct kw_error error;

	kw_buffer_printf(&text, "%s", head);
	memset(kw_buffer_reserve(&text, filler + 1), 'x', filler);
	kw_buffer_filled(&text, filler);
	kw_buffer_printf(&text, "%s", tail);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		int replies = feed((const char *)kw_buffer_bytes(&text), kw_buffer_length(&text),
			pieces[i], &error);

		if (!refusal) {
			assert_int_equal(error.code, KW_OK);
			assert_int_equal(replies, 1);
			continue;
		}
		assert_int_equal(error.code, KW_E_PROTOCOL);
		assert_int_equal(replies, 0);
		if (!strstr(error.text, refusal) || !strstr(error.text, "the reply to X"))
			fail_msg("%s: %s", head, error.text);
	}
	kw_buffer_close(&text);
}

static void a_reply_beyond_its_bound_is_refused_however_it_is_cut(void **state)
{
	expect("$16384\r\n", 16384, "\r\n", NULL);
	expect("$16385\r\n", 16385, "\r\n", "16 KiB");
	expect("+", 16384, "\r\n", NULL);
	expect("+", 16385, "\r\n", "16 KiB");
	expect("*2\r\n:1\r\n$16000\r\n", 16000, "\r\n", NULL);
	expect("*2\r\n:1\r\n$16384\r\n", 16384, "\r\n", "16 KiB");
	expect("*1\r\n*1\r\n$16000\r\n", 16000, "\r\n", NULL);
	expect("*1\r\n*1\r\n$16384\r\n", 16384, "\r\n", "16 KiB");
	expect("*4\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:", 0, "1\r\n", NULL);
	expect("*9\r\n", 0, "", "8 elements");
	expect("*4\r\n*5\r\n", 0, "", "8 elements");
	expect("*6500000\r\n", 0, "", "8 elements");
	expect("*2147483647\r\n", 0, "", "8 elements");
}

static void an_array_is_refused_before_it_takes_memory(void **state)
{
	struct mallinfo2 before = mallinfo2(), after;
	struct kw_error error;
	struct kw_reply_reader *reader;
	int replies = 0;

	reader = kw_reply_reader_new(count, &replies);
	kw_reply_reader_bound(reader, kw_bound(KW_BOUND_LOGIN));
	assert_int_equal(kw_reply_reader_feed(reader, "*6500000\r\n", 10, &error), KW_E_PROTOCOL);
	after = mallinfo2();
	assert_true(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + (1 << 20));
	kw_reply_reader_free(reader);
}

static void a_bound_holds_for_the_present_reply_only(void **state)
{
	static const struct kw_reply_bound wide = {"another", 1 << 20, 100};
	struct kw_error error;
	int replies = 0;
	struct kw_reply_reader *reader = kw_reply_reader_new(count, &replies);

	kw_reply_reader_bound(reader, &wide);
	assert_int_equal(kw_reply_reader_feed(reader,
				 "*9\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"
				 ":1\r\n:1\r\n:1\r\n+OK\r\n",
				 45, &error),
		0);
	assert_int_equal(replies, 2);
	kw_reply_reader_bound(reader, &narrow);
	assert_int_equal(kw_reply_reader_feed(reader, "*9\r\n", 4, &error), KW_E_PROTOCOL);
	kw_reply_reader_free(reader);
}

/* On a connection. */

static void expect_refusal(const struct test_step *script, const char *word, const char *sentence)
{
	struct test_fake fake;
	struct test_client client;
	struct kw_redis_options options;

	test_fake_start(&fake, script);
	options = test_options(fake.address);
	test_client_open(&client, &options);
	if (word) {
		test_client_run(&client, &client.ready, 1);
		kw_redis_words(client.redis, test_client_note, &client, word, NULL);
	}
	test_client_run(&client, &client.closed, 1);
	assert_int_equal(client.why.code, KW_E_PROTOCOL);
	if (!strstr(client.why.text, sentence))
		fail_msg("%s", client.why.text);
	test_client_stop(&client);
	test_fake_stop(&fake);
}

static void before_the_login_no_reply_is_large(void **state)
{
	static const struct test_step array[] = {
		{TEST_SEND, 0, "*6500000\r\n"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	static const struct test_step text[] = {
		{TEST_SEND, 0, "$20000000\r\n"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};

	expect_refusal(array, NULL, "the reply to AUTH or CLIENT SETNAME has more than 8 elements");
	expect_refusal(text, NULL, "the reply to AUTH or CLIENT SETNAME has more than 16 KiB");
}

static void a_short_question_has_a_short_reply(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "*1025\r\n"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	static const struct test_step info[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "$134218729\r\n"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};

	expect_refusal(script, "TIME", "more than 1024 elements");
	expect_refusal(info, "INFO", "the reply to INFO has more than 128 MiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bound_is_found_by_the_words_of_its_command),
		cmocka_unit_test(what_real_servers_send_is_within_the_bounds),
		cmocka_unit_test(a_reply_beyond_its_bound_is_refused_however_it_is_cut),
		cmocka_unit_test(an_array_is_refused_before_it_takes_memory),
		cmocka_unit_test(a_bound_holds_for_the_present_reply_only),
		cmocka_unit_test(before_the_login_no_reply_is_large),
		cmocka_unit_test(a_short_question_has_a_short_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
