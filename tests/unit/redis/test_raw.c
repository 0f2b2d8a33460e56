/* Replies that stay bytes: whole, in order, bounded; from a real server in RESP 2 and in RESP 3. */
#include "fixture.h"
#include "redis/raw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool note(void *arg, const struct kw_reply *reply)
{
	test_note(arg, reply);
	return true;
}

static const char *text_of(struct kw_buffer *notes)
{
	kw_buffer_append(notes, "", 1);
	return (const char *)kw_buffer_bytes(notes);
}

static void expect_heard(const char *text, size_t most, size_t piece, const char *heard)
{
	struct kw_buffer notes = {0};
	struct kw_raw_reader *reader = kw_raw_reader_new(most, note, &notes);
	size_t length = strlen(text);

	for (size_t at = 0; at < length; at += piece) {
		size_t take = length - at < piece ? length - at : piece;

		assert_int_equal(kw_raw_reader_feed(reader, text + at, take, NULL), 0);
	}
	assert_string_equal(text_of(&notes), heard);
	kw_raw_reader_free(reader);
	kw_buffer_close(&notes);
}

static void replies_are_handed_over_as_they_came(void **state)
{
	for (size_t piece = 1; piece < 40; piece++)
		expect_heard("+OK\r\n%1\r\n+k\r\n_\r\n$3\r\nabc\r\n", 100, piece,
			"raw:+OK\r\n raw:%1\r\n+k\r\n_\r\n raw:$3\r\nabc\r\n ");
}

static void a_reply_beyond_the_bound_is_told_and_the_next_one_is_whole(void **state)
{
	for (size_t piece = 1; piece < 40; piece++) {
		expect_heard("$10\r\n0123456789\r\n+OK\r\n", 16, piece, "too long:17 raw:+OK\r\n ");
		expect_heard("$10\r\n0123456789\r\n+OK\r\n", 17, piece,
			"raw:$10\r\n0123456789\r\n raw:+OK\r\n ");
	}
}

/* "$1000000\r\n" and so on: its end never comes, or so late that nobody waits for it. */
static void a_reply_without_an_end_is_broken_off(void **state)
{
	struct kw_buffer notes = {0};
	struct kw_raw_reader *reader = kw_raw_reader_new(16, note, &notes);
	struct kw_error error = {0};
	int code = 0;
	size_t fed = 0;

	assert_int_equal(kw_raw_reader_feed(reader, "*1000000\r\n", 10, &error), 0);
	for (; code == 0 && fed < 100000; fed += 4)
		code = kw_raw_reader_feed(reader, ":1\r\n", 4, &error);
	assert_int_equal(code, KW_E_PROTOCOL);
	assert_in_range(fed, 15 * 16, 17 * 16);
	assert_non_null(strstr(error.text, "does not end"));
	assert_int_equal(kw_raw_reader_feed(reader, ":1\r\n", 4, &error), KW_E_PROTOCOL);
	kw_raw_reader_free(reader);
	kw_buffer_close(&notes);
}

static void pushes_answer_nothing(void **state)
{
	for (size_t piece = 1; piece < 40; piece++)
		expect_heard("+a\r\n>1\r\n+x\r\n+b\r\n", 16, piece, "raw:+a\r\n raw:+b\r\n ");
}

static bool stop(void *arg, const struct kw_reply *reply)
{
	test_note(arg, reply);
	return false;
}

static void a_stopped_reader_takes_no_more(void **state)
{
	struct kw_buffer notes = {0};
	struct kw_raw_reader *reader = kw_raw_reader_new(16, stop, &notes);

	assert_int_equal(kw_raw_reader_feed(reader, "+a\r\n+b\r\n", 8, NULL), 0);
	assert_int_equal(kw_raw_reader_feed(reader, "+c\r\n", 4, NULL), 0);
	assert_string_equal(text_of(&notes), "raw:+a\r\n ");
	kw_raw_reader_free(reader);
	kw_buffer_close(&notes);
}

static void a_connection_hands_raw_replies_over_after_its_login(void **state)
{
	struct test_server server;
	struct kw_redis_options options;
	struct test_client c;

	test_server_start(&server, NULL);
	options = test_options(server.address);
	options.raw_bytes = 1024;
	test_client_open(&c, &options);
	kw_redis_words(c.redis, test_client_note, &c, "HELLO", "3", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "HSET", "h", "f", "v", NULL);
	kw_redis_send_copy(
		c.redis, test_client_note, &c, kw_slice_text("*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n"));
	test_client_run(&c, &c.replies, 3);
	assert_int_equal(c.ready, 1);
	assert_non_null(strstr(test_client_heard(&c), "raw:%"));
	assert_non_null(
		strstr(test_client_heard(&c), "raw::1\r\n raw:%1\r\n$1\r\nf\r\n$1\r\nv\r\n"));
	assert_int_equal(kw_redis_queued_to(c.redis), kw_redis_written_to(c.redis));
	test_client_stop(&c);
	test_server_stop(&server);
}

static void what_the_kernel_took_is_known_after_the_loss(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_RECEIVE, 1, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct kw_redis_options options;
	struct test_client c;
	uint64_t end;

	test_fake_start(&fake, script);
	options = test_options(fake.address);
	options.raw_bytes = 1024;
	test_client_open(&c, &options);
	test_client_run(&c, &c.ready, 1);
	kw_redis_words(c.redis, test_client_note, &c, "PING", NULL);
	end = kw_redis_queued_to(c.redis);
	assert_true(end > kw_redis_written_to(c.redis));
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.lost, 1);
	assert_int_equal(kw_redis_written_to(c.redis), end);
	test_client_stop(&c);
	test_fake_stop(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_are_handed_over_as_they_came),
		cmocka_unit_test(a_reply_beyond_the_bound_is_told_and_the_next_one_is_whole),
		cmocka_unit_test(a_reply_without_an_end_is_broken_off),
		cmocka_unit_test(pushes_answer_nothing),
		cmocka_unit_test(a_stopped_reader_takes_no_more),
		cmocka_unit_test(a_connection_hands_raw_replies_over_after_its_login),
		cmocka_unit_test(what_the_kernel_took_is_known_after_the_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
