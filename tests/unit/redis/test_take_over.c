/* A connection whose stream of bytes its owner takes over after the login. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A test_client whose bytes are taken over, and how many calls told them. */
struct owner {
	struct test_client client;
	struct kw_buffer bytes;
	int length; /* of bytes: test_client_run waits for it */
	bool closes;
};

static void take(void *arg, struct kw_slice bytes)
{
	struct owner *owner = arg;

	assert_true(bytes.length > 0);
	kw_buffer_append(&owner->bytes, bytes.data, bytes.length);
	owner->length += (int)bytes.length;
	if (owner->closes)
		kw_redis_close(owner->client.redis);
}

static void take_over(struct owner *owner, const char *address)
{
	struct kw_redis_options options = test_options(address);

	test_client_open(&owner->client, &options);
	test_client_run(&owner->client, &owner->client.ready, 1);
	kw_redis_take_over(owner->client.redis, take, owner);
}

static void stop(struct owner *owner)
{
	test_client_stop(&owner->client);
	kw_buffer_close(&owner->bytes);
}

static void bytes_are_handed_over_as_they_came(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "+PONG\r\n*1\r\n"}, {TEST_DRIP, 0, "$4\r\n\n\nno RESP at all"},
		{TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	static const char sent[] = "+PONG\r\n*1\r\n$4\r\n\n\nno RESP at all";
	struct owner owner = {0};
	struct test_fake fake;

	test_fake_start(&fake, script);
	take_over(&owner, fake.address);
	kw_redis_put(owner.client.redis, kw_slice_text("*1\r\n$4\r\n"));
	kw_redis_put(owner.client.redis, kw_slice_text("PING\r\n"));
	test_client_run(&owner.client, &owner.length, sizeof sent - 1);
	assert_int_equal(owner.length, sizeof sent - 1);
	assert_memory_equal(kw_buffer_bytes(&owner.bytes), sent, sizeof sent - 1);
	assert_int_equal(owner.client.replies, 0);
	stop(&owner);
	test_fake_stop(&fake);
}

static void the_end_of_a_stream_is_told_with_a_sentence(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_RECEIVE, 1, NULL}, {TEST_END, 0, NULL}};
	struct owner owner = {0};
	struct test_fake fake;

	test_fake_start(&fake, script);
	take_over(&owner, fake.address);
	kw_redis_put(owner.client.redis, kw_slice_text("*1\r\n$4\r\nPING\r\n"));
	test_client_run(&owner.client, &owner.client.closed, 1);
	assert_int_equal(owner.client.why.code, KW_E_IO);
	assert_non_null(strstr(owner.client.why.text, "closed the stream"));
	assert_non_null(strstr(owner.client.why.text, "client-output-buffer-limit"));
	stop(&owner);
	test_fake_stop(&fake);
}

/* No reply is pending, so no deadline of replies ends it. */
static void silence_is_no_failure(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_DRIP_SLOW, 60, "abcdef"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct kw_redis_options options;
	struct owner owner = {0};
	struct test_fake fake;

	test_fake_start(&fake, script);
	options = test_options(fake.address);
	options.reply_timeout_ms = 20;
	test_client_open(&owner.client, &options);
	test_client_run(&owner.client, &owner.client.ready, 1);
	kw_redis_take_over(owner.client.redis, take, &owner);
	kw_redis_put(owner.client.redis, kw_slice_text("*1\r\n$4\r\nPING\r\n"));
	test_client_run(&owner.client, &owner.length, 6);
	assert_int_equal(owner.client.closed, 0);
	stop(&owner);
	test_fake_stop(&fake);
}

static void the_owner_may_close_it_when_bytes_come(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_DRIP, 0, "abc"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct owner owner = {.closes = true};
	struct test_fake fake;

	test_fake_start(&fake, script);
	take_over(&owner, fake.address);
	kw_redis_put(owner.client.redis, kw_slice_text("*1\r\n$4\r\nPING\r\n"));
	test_client_run(&owner.client, &owner.client.closed, 1);
	assert_int_equal(owner.client.why.code, KW_OK);
	stop(&owner);
	test_fake_stop(&fake);
}

static void hold_after_each(void *arg, struct kw_slice bytes)
{
	struct owner *owner = arg;

	take(owner, bytes);
	kw_redis_hold(owner->client.redis);
}

static void note_end(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
}

/* Does the loop sleep for a while, although bytes wait in the socket? */
static bool sleeps(uv_loop_t *loop)
{
	uv_timer_t timer;
	bool ended = false;
	int turns = 0;

	uv_timer_init(loop, &timer);
	timer.data = &ended;
	uv_timer_start(&timer, note_end, 50, 0);
	for (; !ended; turns++)
		uv_run(loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(loop, UV_RUN_NOWAIT);
	return turns < 100;
}

/* What the server sends meanwhile waits in the socket, whatever becomes of the way of reading. */
static void check_hold(bool by_timer_before, bool by_timer_after)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_SEND, 0, "abc"}, {TEST_RECEIVE, 1, NULL}, {TEST_SEND, 0, "def"},
		{TEST_RECEIVE, 1, NULL}, {TEST_SEND, 0, "ghi"}, {TEST_HOLD, 0, NULL},
		{TEST_END, 0, NULL}};
	struct kw_redis_options options;
	struct owner owner = {0};
	struct test_fake fake;

	test_fake_start(&fake, script);
	options = test_options(fake.address);
	test_client_open(&owner.client, &options);
	test_client_run(&owner.client, &owner.client.ready, 1);
	kw_redis_read_by_timer(owner.client.redis, by_timer_before);
	kw_redis_take_over(owner.client.redis, hold_after_each, &owner);
	kw_redis_put(owner.client.redis, kw_slice_text("*1\r\n$4\r\nPING\r\n"));
	test_client_run(&owner.client, &owner.length, 3);
	kw_redis_put(owner.client.redis, kw_slice_text("*1\r\n$4\r\nPING\r\n"));
	kw_redis_read_by_timer(owner.client.redis, by_timer_after);
	assert_true(sleeps(&owner.client.loop));
	assert_int_equal(owner.length, 3);
	kw_redis_release(owner.client.redis);
	test_client_run(&owner.client, &owner.length, 6);
	kw_redis_release(owner.client.redis);
	kw_redis_put(owner.client.redis, kw_slice_text("*1\r\n$4\r\nPING\r\n"));
	test_client_run(&owner.client, &owner.length, 9);
	assert_memory_equal(kw_buffer_bytes(&owner.bytes), "abcdefghi", 9);
	stop(&owner);
	test_fake_stop(&fake);
}

static void a_held_connection_hands_nothing_over(void **state)
{
	check_hold(true, true);
	check_hold(true, false);
	check_hold(false, true);
	check_hold(false, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_handed_over_as_they_came),
		cmocka_unit_test(the_end_of_a_stream_is_told_with_a_sentence),
		cmocka_unit_test(silence_is_no_failure),
		cmocka_unit_test(the_owner_may_close_it_when_bytes_come),
		cmocka_unit_test(a_held_connection_hands_nothing_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
