/* A connection to a real server. */
#include "base/clock.h"
#include "fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct test_server server;

static struct kw_redis_options options(void)
{
	return test_options(server.address);
}

static void open_ready(struct test_client *client)
{
	struct kw_redis_options plain = options();

	test_client_open(client, &plain);
	test_client_run(client, &client->ready, 1);
}

static void every_kind_of_reply_arrives(void **state)
{
	struct test_client c;

	open_ready(&c);
	kw_redis_words(c.redis, NULL, NULL, "FLUSHALL", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "SET", "k", "v", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "GET", "k", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "GET", "none", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "INCR", "n", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "INCR", "k", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "MGET", "k", "none", "n", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "SCAN", "0", "MATCH", "zz*", NULL);
	assert_int_equal(kw_redis_pending(c.redis), 8);
	test_client_run(&c, &c.replies, 7);
	assert_string_equal(test_client_heard(&c),
		"+OK \"v\" nil :1 -ERR value is not an integer or out of range "
		"[ \"v\" nil \"1\" ] [ \"0\" [ ] ]");
	assert_int_equal(kw_redis_pending(c.redis), 0);
	assert_int_equal(kw_redis_unsent_bytes(c.redis), 0);
	test_client_stop(&c);
	assert_int_equal(c.why.code, KW_OK);
}

struct order {
	struct test_client *client;
	int64_t next;
	int done;
};

static void expect_next(void *arg, const struct kw_reply *reply)
{
	struct order *order = arg;

	assert_non_null(reply);
	assert_int_equal(reply->type, KW_REPLY_INTEGER);
	assert_int_equal(reply->integer, ++order->next);
	order->done++;
}

static void replies_come_in_the_order_of_the_commands(void **state)
{
	static const char raw[] = "*2\r\n$4\r\nINCR\r\n$5\r\norder\r\n";
	struct kw_slice argv[] = {kw_slice_text("INCR"), kw_slice_text("order")};
	struct test_client c;
	struct order order = {&c, 0, 0};

	open_ready(&c);
	kw_redis_words(c.redis, NULL, NULL, "DEL", "order", NULL);
	for (int i = 0; i < 100000; i += 2) {
		kw_redis_send(c.redis, expect_next, &order, 2, argv);
		kw_redis_send_raw(c.redis, expect_next, &order, kw_slice(raw, sizeof raw - 1));
		if (i % 10000 == 0)
			kw_redis_flush(c.redis);
	}
	test_client_run(&c, &order.done, 100000);
	test_client_stop(&c);
}

static void commands_sent_before_ready_wait_and_are_answered(void **state)
{
	struct kw_redis_options plain = options();
	struct test_client c;

	test_client_open(&c, &plain);
	kw_redis_words(c.redis, test_client_note, &c, "ECHO", "early", NULL);
	kw_redis_flush(c.redis);
	test_client_run(&c, &c.replies, 1);
	assert_int_equal(c.ready, 1);
	assert_string_equal(test_client_heard(&c), "\"early\"");
	test_client_stop(&c);
}

static void the_server_knows_the_client_by_name(void **state)
{
	struct kw_redis_options named = options();
	struct test_client c;

	strcpy(named.client_name, "keywake-test");
	test_client_open(&c, &named);
	kw_redis_words(c.redis, test_client_note, &c, "CLIENT", "GETNAME", NULL);
	test_client_run(&c, &c.replies, 1);
	assert_string_equal(test_client_heard(&c), "\"keywake-test\"");
	test_client_stop(&c);
}

static void a_name_the_server_dislikes_does_no_harm(void **state)
{
	struct kw_redis_options named = options();
	struct test_client c;

	strcpy(named.client_name, "two words");
	test_client_open(&c, &named);
	test_client_run(&c, &c.ready, 1);
	test_client_stop(&c);
}

/* A chain: each reply sends the next command. No timer runs, so a late write would hang the loop.
 */
static void send_next(void *arg, const struct kw_reply *reply)
{
	struct order *order = arg;

	assert_non_null(reply);
	if (++order->done < 5000)
		kw_redis_words(order->client->redis, send_next, order, "PING", NULL);
}

static void a_command_sent_in_a_callback_leaves_before_the_loop_blocks(void **state)
{
	struct test_client c;
	struct order order = {&c, 0, 0};
	uint64_t begin;

	open_ready(&c);
	uv_timer_stop(&c.tick);
	begin = kw_clock_us();
	kw_redis_words(c.redis, send_next, &order, "PING", NULL);
	test_client_run(&c, &order.done, 5000);
	printf("a round trip: %.1f us\n", (double)(kw_clock_us() - begin) / 5000);
	test_client_stop(&c);
}

static void send_in_prepare(uv_prepare_t *prepare)
{
	struct order *order = prepare->data;

	uv_prepare_stop(prepare);
	kw_redis_words(order->client->redis, expect_next, order, "INCR", "prepared", NULL);
}

static void a_command_sent_right_before_the_loop_blocks_leaves_too(void **state)
{
	struct test_client c;
	struct order order = {&c, 0, 0};
	uv_prepare_t prepare;

	open_ready(&c);
	kw_redis_words(c.redis, NULL, NULL, "DEL", "prepared", NULL);
	while (kw_redis_pending(c.redis) > 0)
		uv_run(&c.loop, UV_RUN_ONCE);
	uv_timer_stop(&c.tick);
	uv_prepare_init(&c.loop, &prepare);
	prepare.data = &order;
	for (int i = 0; i < 10; i++) {
		uv_prepare_start(&prepare, send_in_prepare);
		test_client_run(&c, &order.done, i + 1);
	}
	uv_close((uv_handle_t *)&prepare, NULL);
	test_client_stop(&c);
}

static void raw_set(struct test_client *c, struct kw_buffer *wire, const char *key, size_t length)
{
	char *value = malloc(length);
	struct kw_slice argv[] = {kw_slice_text("SET"), kw_slice_text(key), {value, length}};

	for (size_t i = 0; i < length; i++)
		value[i] = (char)(i * 2654435761U >> 13);
	kw_buffer_clear(wire);
	kw_resp_command(wire, 3, argv);
	free(value);
	kw_redis_send_raw(c->redis, test_client_note, c,
		kw_slice(kw_buffer_bytes(wire), kw_buffer_length(wire)));
}

struct fetched {
	size_t bytes;
	int done;
};

static void take_value(void *arg, const struct kw_reply *reply)
{
	struct fetched *fetched = arg;

	assert_non_null(reply);
	assert_int_equal(reply->type, KW_REPLY_STRING);
	for (size_t i = 0; i < reply->text.length; i += 997)
		assert_int_equal(
			((const char *)reply->text.data)[i], (char)(i * 2654435761U >> 13));
	fetched->bytes = reply->text.length;
	fetched->done++;
}

static uint64_t fetch_us(struct test_client *c, const char *key)
{
	struct fetched fetched = {0};
	uint64_t begin = kw_clock_us();

	kw_redis_words(c->redis, take_value, &fetched, "GET", key, NULL);
	test_client_run(c, &fetched.done, 1);
	return kw_clock_us() - begin;
}

static void values_of_many_mebibytes_pass_whole_in_linear_time(void **state)
{
	struct kw_buffer wire = {0};
	struct test_client c;
	uint64_t small_us, large_us;

	open_ready(&c);
	raw_set(&c, &wire, "8m", 8 << 20);
	test_client_run(&c, &c.replies, 1);
	raw_set(&c, &wire, "64m", 64 << 20);
	test_client_run(&c, &c.replies, 2);
	fetch_us(&c, "8m");
	small_us = fetch_us(&c, "8m");
	large_us = fetch_us(&c, "64m");
	printf("8 MiB in %.1f ms, 64 MiB in %.1f ms\n", (double)small_us / 1e3,
		(double)large_us / 1e3);
	/* Moving what is there with every piece would be some 500 GB: minutes, on any machine. */
	assert_true(large_us < 10000000);
	kw_redis_words(c.redis, NULL, NULL, "FLUSHALL", NULL);
	test_client_stop(&c);
	kw_buffer_close(&wire);
}

static void confirmations_and_pongs_go_to_their_senders_messages_to_push(void **state)
{
	struct test_client sub, c;

	open_ready(&sub);
	open_ready(&c);
	kw_redis_subscribe(sub.redis, false, "news", test_client_note, &sub);
	kw_redis_subscribe(sub.redis, true, "p.*", test_client_note, &sub);
	kw_redis_words(sub.redis, test_client_note, &sub, "PING", NULL);
	test_client_run(&sub, &sub.replies, 3);
	kw_redis_words(c.redis, test_client_note, &c, "PUBLISH", "news", "one", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "PUBLISH", "p.x", "", NULL);
	test_client_run(&c, &c.replies, 2);
	test_client_run(&sub, &sub.pushes, 2);
	assert_string_equal(test_client_heard(&sub),
		"[ \"subscribe\" \"news\" :1 ] [ \"psubscribe\" \"p.*\" :2 ] [ \"pong\" \"\" ]");
	assert_string_equal(test_client_pushed(&sub),
		"[ \"message\" \"news\" \"one\" ] [ \"pmessage\" \"p.*\" \"p.x\" \"\" ]");
	test_client_stop(&c);
	test_client_stop(&sub);
}

static void note_id(void *arg, const struct kw_reply *reply)
{
	*(int *)arg = (int)reply->integer;
}

static void a_flush_arrives_as_an_invalidation_of_nil(void **state)
{
	struct test_client sub, c;
	char id_text[16];
	int id = 0;

	open_ready(&sub);
	open_ready(&c);
	kw_redis_words(sub.redis, note_id, &id, "CLIENT", "ID", NULL);
	kw_redis_subscribe(sub.redis, false, "__redis__:invalidate", test_client_note, &sub);
	test_client_run(&sub, &sub.replies, 1);
	snprintf(id_text, sizeof id_text, "%d", id);
	kw_redis_words(c.redis, test_client_note, &c, "CLIENT", "TRACKING", "ON", "REDIRECT",
		id_text, "OPTIN", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "SET", "flushed", "1", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "FLUSHDB", NULL);
	test_client_run(&c, &c.replies, 3);
	test_client_run(&sub, &sub.pushes, 1);
	assert_string_equal(test_client_heard(&c), "+OK +OK +OK");
	assert_string_equal(
		test_client_pushed(&sub), "[ \"message\" \"__redis__:invalidate\" nil ]");
	test_client_stop(&c);
	test_client_stop(&sub);
}

static void a_killed_connection_tells_every_pending_reply_null_once(void **state)
{
	struct test_client c, killer;
	int id = 0;
	char id_text[16];

	open_ready(&c);
	open_ready(&killer);
	kw_redis_words(c.redis, note_id, &id, "CLIENT", "ID", NULL);
	while (!id)
		uv_run(&c.loop, UV_RUN_ONCE);
	kw_redis_words(c.redis, test_client_note, &c, "BLPOP", "never", "0", NULL);
	for (int i = 0; i < 1000; i++)
		kw_redis_words(c.redis, test_client_note, &c, "PING", NULL);
	test_client_idle(&c, 30);
	snprintf(id_text, sizeof id_text, "%d", id);
	kw_redis_words(
		killer.redis, test_client_note, &killer, "CLIENT", "KILL", "ID", id_text, NULL);
	test_client_run(&killer, &killer.replies, 1);
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.lost, 1001);
	assert_int_equal(c.replies, 1001);
	assert_int_equal(c.why.code, KW_E_IO);
	assert_non_null(strstr(c.why.text, server.address));
	assert_non_null(strstr(c.why.text, "1001 replies"));
	test_client_stop(&c);
	test_client_stop(&killer);
}

static void close_in_reply(void *arg, const struct kw_reply *reply)
{
	struct test_client *c = arg;

	test_client_note(c, reply);
	kw_redis_close(c->redis);
	kw_redis_close(c->redis);
	/* What is sent now is told NULL as well. */
	if (reply)
		kw_redis_words(c->redis, test_client_note, c, "PING", NULL);
	assert_int_equal(c->closed, 0);
}

static void closing_inside_a_callback_is_safe(void **state)
{
	static const char *const commands[] = {"ECHO", "LRANGE"};

	for (int i = 0; i < 2; i++) {
		struct test_client c;

		open_ready(&c);
		kw_redis_words(
			c.redis, close_in_reply, &c, commands[i], "a", i ? "0" : NULL, "9", NULL);
		kw_redis_words(c.redis, test_client_note, &c, "PING", NULL);
		test_client_run(&c, &c.closed, 1);
		assert_int_equal(c.replies, 3);
		assert_int_equal(c.lost, 2);
		assert_int_equal(c.why.code, KW_OK);
		test_client_stop(&c);
	}
}

static void closing_at_once_after_opening_is_safe(void **state)
{
	struct kw_redis_options plain = options();
	struct test_client c;

	test_client_open(&c, &plain);
	kw_redis_words(c.redis, test_client_note, &c, "PING", NULL);
	kw_redis_close(c.redis);
	assert_int_equal(c.closed, 0);
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.lost, 1);
	assert_int_equal(c.ready, 0);
	test_client_stop(&c);
}

static void a_missing_socket_is_told_by_the_loop_with_the_remedy(void **state)
{
	struct kw_redis_options wrong = test_options("unix:///nonexistent/redis.sock");
	struct test_client c;

	test_client_open(&c, &wrong);
	assert_int_equal(c.closed, 0);
	test_client_run(&c, &c.closed, 1);
	assert_int_equal(c.why.code, KW_E_IO);
	assert_non_null(strstr(c.why.text, "unix:///nonexistent/redis.sock"));
	assert_non_null(strstr(c.why.text, "is the server running"));
	test_client_stop(&c);
}

static void a_killed_server_is_noticed_at_once(void **state)
{
	struct test_server victim;
	struct kw_redis_options to_victim;
	struct test_client c;
	uint64_t begin;

	test_server_start(&victim, NULL);
	to_victim = test_options(victim.address);
	test_client_open(&c, &to_victim);
	test_client_run(&c, &c.ready, 1);
	begin = kw_clock_us();
	kill(victim.pid, SIGKILL);
	test_client_run(&c, &c.closed, 1);
	assert_true(kw_clock_us() - begin < 5000000);
	assert_int_equal(c.why.code, KW_E_IO);
	test_client_stop(&c);
	test_server_stop(&victim);
}

static int start(void **state)
{
	test_server_start(&server, NULL);
	return 0;
}

static int stop(void **state)
{
	test_server_stop(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_reply_arrives),
		cmocka_unit_test(replies_come_in_the_order_of_the_commands),
		cmocka_unit_test(commands_sent_before_ready_wait_and_are_answered),
		cmocka_unit_test(the_server_knows_the_client_by_name),
		cmocka_unit_test(a_name_the_server_dislikes_does_no_harm),
		cmocka_unit_test(a_command_sent_in_a_callback_leaves_before_the_loop_blocks),
		cmocka_unit_test(a_command_sent_right_before_the_loop_blocks_leaves_too),
		cmocka_unit_test(values_of_many_mebibytes_pass_whole_in_linear_time),
		cmocka_unit_test(confirmations_and_pongs_go_to_their_senders_messages_to_push),
		cmocka_unit_test(a_flush_arrives_as_an_invalidation_of_nil),
		cmocka_unit_test(a_killed_connection_tells_every_pending_reply_null_once),
		cmocka_unit_test(closing_inside_a_callback_is_safe),
		cmocka_unit_test(closing_at_once_after_opening_is_safe),
		cmocka_unit_test(a_missing_socket_is_told_by_the_loop_with_the_remedy),
		cmocka_unit_test(a_killed_server_is_noticed_at_once),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
