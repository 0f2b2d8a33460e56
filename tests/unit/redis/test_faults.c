/* A server that misbehaves: each fault ends in a sentence, never in a hang or a lost callback. */
#include "base/clock.h"
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SHORT_MS 1500 /* also under a sanitizer on a busy machine */

static void open_fake_for(struct test_client *client, struct test_fake *fake,
	const struct test_step *script, uint32_t timeout_ms)
{
	struct kw_redis_options options;

	test_fake_start(fake, script);
	options = test_options(fake->address);
	options.connect_timeout_ms = timeout_ms;
	options.reply_timeout_ms = timeout_ms;
	test_client_open(client, &options);
}

static void open_fake(
	struct test_client *client, struct test_fake *fake, const struct test_step *script)
{
	open_fake_for(client, fake, script, SHORT_MS);
}

static void stop_both(struct test_client *client, struct test_fake *fake)
{
	test_client_stop(client);
	test_fake_stop(fake);
}

static void send_pings(struct test_client *client, int count)
{
	for (int i = 0; i < count; i++)
		kw_redis_words(client->redis, test_client_note, client, "PING", NULL);
}

/* Run to the end, which comes with this code and this in its sentence. */
static void expect_end(struct test_client *client, enum kw_code code, const char *words)
{
	test_client_run(client, &client->closed, 1);
	assert_int_equal(client->why.code, code);
	if (!strstr(client->why.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, client->why.text);
}

static void replies_that_come_byte_by_byte_are_whole(void **state)
{
	static const struct test_step script[] = {{TEST_RECEIVE, 1, NULL},
		{TEST_DRIP, 0, "+OK\r\n"}, {TEST_RECEIVE, 4, NULL},
		{TEST_DRIP, 0, ":12\r\n$4\r\na\r\nb\r\n*2\r\n$1\r\nx\r\n*1\r\n$-1\r\n-ERR x\r\n"},
		{TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	send_pings(&c, 4);
	test_client_run(&c, &c.replies, 4);
	assert_string_equal(test_client_heard(&c), ":12 \"a\r\nb\" [ \"x\" [ nil ] ] -ERR x");
	stop_both(&c, &fake);
}

static void garbage_ends_the_connection(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 2, NULL},
		{TEST_SEND, 0, "+fine\r\nHTTP/1.1 200\r\n"}, {TEST_HOLD, 0, NULL},
		{TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	send_pings(&c, 2);
	expect_end(&c, KW_E_PROTOCOL, "is this the address of a Redis server?");
	assert_string_equal(test_client_heard(&c), "+fine lost");
	stop_both(&c, &fake);
}

static void a_close_in_the_middle_of_a_reply_is_told_once(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 3, NULL},
		{TEST_SEND, 0, "+one\r\n*2\r\n$5\r\nhel"}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	send_pings(&c, 3);
	expect_end(&c, KW_E_IO, "2 replies were pending");
	assert_string_equal(test_client_heard(&c), "+one lost lost");
	stop_both(&c, &fake);
}

static void words_before_an_early_close_are_not_lost(void **state)
{
	static const struct test_step script[] = {
		{TEST_SEND, 0, "-ERR max number of clients reached\r\n"}, {TEST_END, 0, NULL}};

	for (int i = 0; i < 20; i++) {
		struct test_fake fake;
		struct test_client c;

		open_fake(&c, &fake, script);
		test_client_idle(&c, 1);
		expect_end(&c, KW_E_IO, "raise maxclients");
		stop_both(&c, &fake);
	}
}

static void a_server_that_never_replies_is_given_up_in_time(void **state)
{
	static const struct test_step script[] = {{TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;
	uint64_t begin = kw_clock_us();

	open_fake(&c, &fake, script);
	send_pings(&c, 1);
	expect_end(&c, KW_E_TIMEOUT, "no reply within");
	assert_in_range(kw_clock_us() - begin, SHORT_MS * 1000, 20 * SHORT_MS * 1000);
	assert_int_equal(c.lost, 1);
	stop_both(&c, &fake);
}

static void a_reply_that_never_comes_is_given_up_in_time(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "$100\r\nhalf"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;
	uint64_t begin;

	open_fake(&c, &fake, script);
	test_client_run(&c, &c.ready, 1);
	begin = kw_clock_us();
	send_pings(&c, 1);
	expect_end(&c, KW_E_TIMEOUT, "1 replies are pending");
	assert_in_range(kw_clock_us() - begin, SHORT_MS * 1000, 20 * SHORT_MS * 1000);
	stop_both(&c, &fake);
}

static void slow_bytes_are_no_timeout(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_DRIP_SLOW, 300, "$8\r\nslow but\r\n"}, {TEST_HOLD, 0, NULL},
		{TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	/* All of them take longer, and the fake may be held up before one of them. */
	open_fake_for(&c, &fake, script, 3000);
	send_pings(&c, 1);
	test_client_run(&c, &c.replies, 1);
	assert_string_equal(test_client_heard(&c), "\"slow but\"");
	stop_both(&c, &fake);
}

static void silence_is_no_timeout_while_nothing_is_pending(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "+PONG\r\n"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	test_client_run(&c, &c.ready, 1);
	test_client_idle(&c, 3 * SHORT_MS);
	send_pings(&c, 1);
	test_client_run(&c, &c.replies, 1);
	assert_string_equal(test_client_heard(&c), "+PONG");
	stop_both(&c, &fake);
}

static void a_reply_nobody_asked_for_ends_the_connection(void **state)
{
	static const struct test_step script[] = {{TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "+OK\r\n+surprise\r\n"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	expect_end(&c, KW_E_PROTOCOL, "surprise");
	stop_both(&c, &fake);
}

static void note_closed(void *arg, const struct kw_error *why)
{
	struct test_client *c = arg;

	c->pushes++;
	assert_int_equal(why->code, KW_E_PROTOCOL);
}

static void a_message_without_a_handler_ends_the_connection(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0,
			"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
			"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"},
		{TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct kw_redis_handlers deaf = {.closed = note_closed};
	struct kw_redis_options options;
	struct kw_redis *redis;
	struct test_fake fake, fake_of_deaf;
	struct test_client c;

	open_fake(&c, &fake, script);
	kw_redis_subscribe(c.redis, false, "c", test_client_note, &c);
	test_client_run(&c, &c.pushes, 1);

	test_fake_start(&fake_of_deaf, script);
	options = test_options(fake_of_deaf.address);
	deaf.arg = &c;
	assert_int_equal(kw_redis_open(&c.loop, &options, &deaf, &redis, NULL), 0);
	kw_redis_subscribe(redis, false, "c", test_client_note, &c);
	test_client_run(&c, &c.pushes, 2);
	kw_redis_free(redis);
	test_fake_stop(&fake_of_deaf);
	stop_both(&c, &fake);
}

static void a_message_before_the_confirmation_is_an_ordinary_reply(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 2, NULL},
		{TEST_SEND, 0,
			"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"
			"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"},
		{TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	kw_redis_words(c.redis, test_client_note, &c, "LRANGE", "l", "0", "2", NULL);
	kw_redis_subscribe(c.redis, false, "c", test_client_note, &c);
	test_client_run(&c, &c.replies, 2);
	assert_int_equal(c.pushes, 0);
	stop_both(&c, &fake);
}

static void a_refused_subscription_goes_to_its_sender(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "-NOPERM no channel\r\n"}, {TEST_HOLD, 0, NULL},
		{TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	kw_redis_subscribe(c.redis, false, "c", test_client_note, &c);
	test_client_run(&c, &c.replies, 1);
	assert_string_equal(test_client_heard(&c), "-NOPERM no channel");
	assert_int_equal(c.closed, 0);
	stop_both(&c, &fake);
}

static void count_turn(uv_timer_t *timer)
{
	(*(int *)timer->data)++;
}

static void a_server_that_does_not_read_blocks_nothing_but_itself(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_SULK, 0, NULL}, {TEST_END, 0, NULL}};
	size_t length = 32 << 20;
	char *data = calloc(1, length);
	struct test_fake fake;
	struct test_client c;
	uv_timer_t timer;
	int turns = 0;

	open_fake(&c, &fake, script);
	test_client_run(&c, &c.ready, 1);
	uv_timer_init(&c.loop, &timer);
	timer.data = &turns;
	uv_timer_start(&timer, count_turn, 1, 1);
	kw_redis_send_raw(c.redis, test_client_note, &c, kw_slice(data, length));
	kw_redis_flush(c.redis);
	assert_in_range(kw_redis_unsent_bytes(c.redis), 1, length - 1);
	expect_end(&c, KW_E_TIMEOUT, "pending");
	assert_true(turns > 10);
	assert_int_equal(c.lost, 1);
	uv_close((uv_handle_t *)&timer, NULL);
	stop_both(&c, &fake);
	free(data);
}

static void resend_once(void *arg, const struct kw_reply *reply)
{
	struct test_client *c = arg;

	assert_null(reply);
	kw_redis_words(c->redis, test_client_note, c, "PING", NULL);
}

static void a_command_sent_while_closing_is_told_null_too(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_RECEIVE, 1, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct test_client c;

	open_fake(&c, &fake, script);
	test_client_run(&c, &c.ready, 1);
	for (int i = 0; i < 100; i++)
		kw_redis_words(c.redis, resend_once, &c, "PING", NULL);
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.lost, 100);
	stop_both(&c, &fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_that_come_byte_by_byte_are_whole),
		cmocka_unit_test(garbage_ends_the_connection),
		cmocka_unit_test(a_close_in_the_middle_of_a_reply_is_told_once),
		cmocka_unit_test(words_before_an_early_close_are_not_lost),
		cmocka_unit_test(a_server_that_never_replies_is_given_up_in_time),
		cmocka_unit_test(a_reply_that_never_comes_is_given_up_in_time),
		cmocka_unit_test(slow_bytes_are_no_timeout),
		cmocka_unit_test(silence_is_no_timeout_while_nothing_is_pending),
		cmocka_unit_test(a_reply_nobody_asked_for_ends_the_connection),
		cmocka_unit_test(a_message_without_a_handler_ends_the_connection),
		cmocka_unit_test(a_message_before_the_confirmation_is_an_ordinary_reply),
		cmocka_unit_test(a_refused_subscription_goes_to_its_sender),
		cmocka_unit_test(a_server_that_does_not_read_blocks_nothing_but_itself),
		cmocka_unit_test(a_command_sent_while_closing_is_told_null_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
