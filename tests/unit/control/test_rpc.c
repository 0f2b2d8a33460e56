/* The control socket: what is asked and how it is answered. */
#include "base/log.h"
#include "rpc_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void mistakes_are_answered_by_their_codes(void **state)
{
	int fd = open_raw(*state);

	expect_error(fd, "{\"id\":1,", -32700, "not JSON: column");
	expect_error(fd, "{\"id\":1,\"id\":2,\"method\":\"count\"}", -32700, "duplicate");
	expect_error(
		fd, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"count\"}]", -32600, "batches");
	expect_error(fd, "7", -32600, "a request is an object");
	expect_error(fd, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"count\"}", -32600, "2.0");
	expect_error(fd, "{\"id\":{},\"method\":\"count\"}", -32600, "id must be");
	expect_error(fd, "{\"id\":1}", -32600, "method is missing");
	expect_error(fd, "{\"id\":1,\"method\":\"echo\",\"text\":\"x\"}", -32600, "text");
	expect_error(fd, "{\"id\":1,\"method\":\"ecco\"}", -32601, "did you mean echo?");
	expect_error(fd, "{\"id\":1,\"method\":\"log.sett\"}", -32601, "did you mean log.set?");
	expect_error(fd, "{\"id\":1,\"method\":\"echo\"}", -32602, "needs the parameter text");
	expect_error(fd, "{\"id\":1,\"method\":\"echo\",\"params\":[\"x\"]}", -32602, "named");
	expect_error(fd, "{\"id\":1,\"method\":\"echo\",\"params\":{\"text\":1}}", -32602,
		"must be of type text; given 1");
	expect_error(fd, "{\"id\":1,\"method\":\"echo\",\"params\":{\"texts\":\"\"}}", -32602,
		"did you mean text?");
	expect_error(fd, "{\"id\":1,\"method\":\"count\",\"params\":{\"x\":1}}", -32602,
		"takes no parameters");
	expect_error(fd, "{\"id\":1,\"method\":\"flag\",\"params\":{\"on\":1}}", -32602, "boolean");
	expect_error(fd, "{\"id\":1,\"method\":\"log.set\",\"params\":{\"level\":\"loud\"}}",
		-32602, "trace");
	expect_error(fd, "{\"id\":1,\"method\":\"fail\"}", -32008, "no room in \\xff");
	close(fd);
}

static void refused_calls_have_no_effect(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	int fd = open_raw(*state);
	json_t *result;

	expect_error(fd, "{\"id\":1,\"method\":\"echo\",\"params\":{\"text\":\"a\",\"b\":1}}",
		-32602, "b");
	close(fd);
	assert_int_equal(call_text(client, "count", NULL, &result), 0);
	assert_int_equal(json_integer_value(json_object_get(result, "echoes")), 0);
	json_decref(result);
	kw_rpc_client_close(client);
}

static json_int_t ask_connection(struct kw_rpc_client *client, json_int_t number)
{
	json_int_t answer;
	json_t *result;

	assert_int_equal(call_text(client, "connection",
				 number ? json_pack("{s:I}", "number", number) : NULL, &result),
		0);
	answer = json_is_boolean(result) ? json_is_true(result) : json_integer_value(result);
	json_decref(result);
	return answer;
}

static void a_connection_has_a_number_until_it_ends(void **state)
{
	struct kw_rpc_client *first = open_client(*state), *second = open_client(*state);
	json_int_t number = ask_connection(first, 0);

	assert_true(number > 0);
	assert_int_equal(ask_connection(first, 0), number);
	assert_int_not_equal(ask_connection(second, 0), number);
	assert_int_equal(ask_connection(second, number), 1);
	kw_rpc_client_close(first);
	for (int i = 0; i < 1000 && ask_connection(second, number); i++)
		usleep(1000);
	assert_int_equal(ask_connection(second, number), 0);
	kw_rpc_client_close(second);
}

static void lines_in_fragments_are_put_together(void **state)
{
	static const char line[] = "\r\n  \n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"echo\","
				   "\"params\":{\"text\":\"h\xc3\xa9\"}}\r\n";
	int fd = open_raw(*state);
	json_t *message;

	for (size_t i = 0; line[i]; i++) {
		char piece[2] = {line[i], '\0'};

		send_raw(fd, piece);
		if (i % 8 == 0)
			usleep(500);
	}
	message = receive_raw(fd);
	assert_string_equal(json_string_value(json_object_get(message, "id")), "a");
	assert_string_equal(json_string_value(json_object_get(message, "result")), "h\xc3\xa9");
	json_decref(message);
	close(fd);
}

static void hundred_pipelined_calls_are_answered_in_order(void **state)
{
	int fd = open_raw(*state);
	struct kw_buffer lines = {0};

	for (int i = 0; i < 100; i++)
		kw_buffer_printf(&lines,
			"{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"echo\",\"params\":{\"text\":"
			"\"t%d\"}}\n",
			i, i);
	kw_buffer_append(&lines, "", 1);
	send_raw(fd, (const char *)lines.data);
	for (int i = 0; i < 100; i++) {
		json_t *message = receive_raw(fd);
		char wanted[16];

		snprintf(wanted, sizeof wanted, "t%d", i);
		assert_int_equal(json_integer_value(json_object_get(message, "id")), i);
		assert_string_equal(json_string_value(json_object_get(message, "result")), wanted);
		json_decref(message);
	}
	kw_buffer_close(&lines);
	close(fd);
}

static void answer_for_a_client_that_is_gone_is_dropped(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	int fd = open_raw(*state);
	json_t *result;

	send_raw(fd, "{\"id\":1,\"method\":\"hold\"}\n{\"id\":2,\"method\":\"hold\"}\n");
	wait_held(client, 2);
	close(fd);
	usleep(20000);
	assert_int_equal(call_text(client, "release", NULL, &result), 0);
	assert_int_equal(json_integer_value(result), 2);
	json_decref(result);
	kw_rpc_client_close(client);
}

/* The answer meets a closed socket, without an end of file having been read before. */
static void client_that_leaves_at_once_does_no_harm(void **state)
{
	struct kw_rpc_client *client = open_client(*state);

	for (int i = 0; i < 200; i++) {
		int fd = open_raw(*state);

		send_raw(fd, "{\"id\":1,\"method\":\"big\",\"params\":{\"bytes\":300000}}\n");
		if (i % 2)
			usleep(100);
		close(fd);
	}
	assert_int_equal(held_now(client), 0);
	kw_rpc_client_close(client);
}

static void late_answer_is_passed_over_by_the_client(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	struct kw_rpc_client *other = open_client(*state);
	json_t *result;

	assert_int_equal(
		kw_rpc_client_call(client, "hold", NULL, 20, &result, &error), KW_E_TIMEOUT);
	wait_held(other, 1); /* the server may come to it later than we give up */
	assert_int_equal(call_text(other, "release", NULL, NULL), 0);
	assert_int_equal(call_text(client, "echo", json_pack("{s:s}", "text", "now"), &result), 0);
	assert_string_equal(json_string_value(result), "now");
	json_decref(result);
	kw_rpc_client_close(client);
	kw_rpc_client_close(other);
}

static void client_that_only_stopped_sending_gets_its_answers(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	int fd = open_raw(*state);
	json_t *message;

	/* The last line lacks its end, as from printf | nc -N. */
	send_raw(fd, "{\"id\":1,\"method\":\"hold\"}\n{\"id\":2,\"method\":\"count\"}");
	shutdown(fd, SHUT_WR);
	message = receive_raw(fd);
	assert_int_equal(json_integer_value(json_object_get(message, "id")), 2);
	json_decref(message);
	assert_int_equal(call_text(client, "release", NULL, NULL), 0);
	message = receive_raw(fd);
	assert_int_equal(json_integer_value(json_object_get(message, "id")), 1);
	json_decref(message);
	assert_null(receive_raw(fd));
	close(fd);
	kw_rpc_client_close(client);
}

static void notification_gets_no_answer(void **state)
{
	int fd = open_raw(*state);
	json_t *message;

	send_raw(fd, "{\"method\":\"echo\",\"params\":{\"text\":\"x\"}}\n{\"method\":\"nope\"}\n"
		     "{\"id\":null,\"method\":\"count\"}\n");
	message = receive_raw(fd);
	assert_true(json_is_null(json_object_get(message, "id")));
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(message, "result"), "echoes")),
		1);
	json_decref(message);
	close(fd);
}

static void subscriber_hears_events_and_log_lines(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *event;

	assert_int_equal(call_text(client, "events.subscribe", NULL, NULL), 0);
	assert_int_equal(call_text(client, "burst", json_pack("{s:i}", "count", 3), NULL), 0);
	assert_int_equal(call_text(client, "log", NULL, NULL), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(kw_rpc_client_event(client, PATIENCE_MS, &event, &error), 0);
		assert_string_equal(json_string_value(json_object_get(event, "kind")), "tick");
		assert_int_equal(json_integer_value(json_object_get(event, "n")), i);
		json_decref(event);
	}
	assert_int_equal(kw_rpc_client_event(client, PATIENCE_MS, &event, &error), 0);
	assert_string_equal(json_string_value(json_object_get(event, "kind")), "log");
	assert_string_equal(json_string_value(json_object_get(event, "level")), "error");
	assert_non_null(strstr(json_string_value(json_object_get(event, "text")), "\\xff"));
	json_decref(event);
	assert_int_equal(kw_rpc_client_event(client, 10, &event, &error), KW_E_TIMEOUT);
	kw_rpc_client_close(client);
}

static void methods_are_described(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	const json_t *method;
	json_t *result;

	assert_int_equal(call_text(client, "rpc.methods", NULL, &result), 0);
	assert_int_equal(json_array_size(result), 16 + 5);
	method = json_array_get(result, 0);
	assert_string_equal(json_string_value(json_object_get(method, "name")), "echo");
	method = json_array_get(json_object_get(method, "params"), 0);
	assert_string_equal(json_string_value(json_object_get(method, "type")), "text");
	assert_true(json_is_true(json_object_get(method, "required")));
	json_decref(result);
	assert_int_equal(call_text(client, "version", NULL, &result), 0);
	assert_string_equal(json_string_value(json_object_get(result, "program")), "keywake-test");
	json_decref(result);
	assert_int_equal(
		call_text(client, "log.set", json_pack("{s:s}", "level", "debug"), &result), 0);
	assert_string_equal(json_string_value(json_object_get(result, "before")), "info");
	assert_int_equal(kw_log_level(), KW_LOG_DEBUG);
	kw_log_set_level(KW_LOG_INFO);
	json_decref(result);
	kw_rpc_client_close(client);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(mistakes_are_answered_by_their_codes),
		TEST(refused_calls_have_no_effect),
		TEST(a_connection_has_a_number_until_it_ends),
		TEST(lines_in_fragments_are_put_together),
		TEST(hundred_pipelined_calls_are_answered_in_order),
		TEST(answer_for_a_client_that_is_gone_is_dropped),
		TEST(client_that_leaves_at_once_does_no_harm),
		TEST(late_answer_is_passed_over_by_the_client),
		TEST(client_that_only_stopped_sending_gets_its_answers),
		TEST(notification_gets_no_answer),
		TEST(subscriber_hears_events_and_log_lines),
		TEST(methods_are_described),
	};

	return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
