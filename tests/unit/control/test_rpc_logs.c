/* log.lines: the last lines, the next ones as they come, and what a slow client is told. */
#include "rpc_fixture.h"

#include "base/log.h"
#include "base/log_ring.h"

#include <string.h>
#include <unistd.h>

#define ABSENT_MS 50 /* so long an answer that must not come is waited for */

static json_t *params(const char *format, ...)
{
	va_list args;
	json_t *json;

	va_start(args, format);
	json = json_vpack_ex(NULL, 0, format, args);
	va_end(args);
	assert_non_null(json);
	return json;
}

static json_t *lines_of(struct kw_rpc_client *client, json_t *asked)
{
	json_t *answer;

	assert_int_equal(call_text(client, "log.lines", asked, &answer), 0);
	return answer;
}

static json_int_t number_of(const json_t *answer, const char *name)
{
	return json_integer_value(json_object_get(answer, name));
}

static size_t count_of(const json_t *answer)
{
	return json_array_size(json_object_get(answer, "lines"));
}

static const char *text_of(const json_t *answer, size_t index)
{
	const json_t *line = json_array_get(json_object_get(answer, "lines"), index);

	return json_string_value(json_object_get(line, "text"));
}

/* As a client that has read everything up to now. */
static json_t *next_ones(struct kw_rpc_client *client, bool wait)
{
	json_t *answer = lines_of(client, NULL);
	json_t *asked = params("{s:I,s:I,s:b}", "after", number_of(answer, "last"), "run",
		number_of(answer, "run"), "wait", (int)wait);

	json_decref(answer);
	return asked;
}

static void the_last_lines_are_told_by_count_and_level(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *answer;
	const json_t *line;

	kw_log_error("test", "an error");
	kw_log_info("test", "some information \x1b[31m");
	answer = lines_of(client, params("{s:i}", "count", 2));
	assert_int_equal(count_of(answer), 2);
	assert_string_equal(text_of(answer, 0), "an error");
	assert_string_equal(text_of(answer, 1), "some information \\x1b[31m");
	assert_int_equal(number_of(answer, "missed"), 0);
	line = json_array_get(json_object_get(answer, "lines"), 1);
	assert_string_equal(json_string_value(json_object_get(line, "level")), "info");
	assert_string_equal(json_string_value(json_object_get(line, "where")), "test");
	assert_int_equal(number_of(line, "number"), number_of(answer, "last"));
	assert_true(number_of(line, "at_us") > 1600000000000000);
	json_decref(answer);
	answer = lines_of(client, params("{s:i,s:s}", "count", 1, "level", "warn"));
	assert_int_equal(count_of(answer), 1);
	assert_string_equal(text_of(answer, 0), "an error");
	json_decref(answer);
	kw_rpc_client_close(client);
}

static void a_wrong_level_is_refused(void **state)
{
	int fd = open_raw(*state);

	expect_error(fd, "{\"id\":1,\"method\":\"log.lines\",\"params\":{\"level\":\"loud\"}}",
		-32602, "level must be error, warn, info, debug or trace");
	close(fd);
}

static void the_answer_waits_for_a_line_of_any_thread(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *answer, *asked = next_ones(client, true);

	assert_int_equal(kw_rpc_client_begin(client, "log.lines", asked, -1, &error), 0);
	assert_int_equal(kw_rpc_client_await(client, ABSENT_MS, &answer, &error), KW_E_TIMEOUT);
	kw_log_warn("test", "at last"); /* in this thread, not in that of the loop */
	assert_int_equal(kw_rpc_client_await(client, PATIENCE_MS, &answer, &error), 0);
	assert_int_equal(count_of(answer), 1);
	assert_string_equal(text_of(answer, 0), "at last");
	json_decref(answer);
	kw_rpc_client_close(client);
}

static void a_line_below_the_level_does_not_end_the_wait(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *answer, *asked = next_ones(client, true);

	json_object_set_new(asked, "level", json_string("warn"));
	assert_int_equal(kw_rpc_client_begin(client, "log.lines", asked, -1, &error), 0);
	kw_log_info("test", "not serious");
	assert_int_equal(kw_rpc_client_await(client, ABSENT_MS, &answer, &error), KW_E_TIMEOUT);
	kw_log_error("test", "serious");
	assert_int_equal(kw_rpc_client_await(client, PATIENCE_MS, &answer, &error), 0);
	assert_int_equal(count_of(answer), 1);
	assert_string_equal(text_of(answer, 0), "serious");
	json_decref(answer);
	kw_rpc_client_close(client);
}

static void without_wait_no_news_is_an_answer(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *answer = lines_of(client, next_ones(client, false));

	assert_int_equal(count_of(answer), 0);
	assert_int_equal(number_of(answer, "missed"), 0);
	json_decref(answer);
	kw_rpc_client_close(client);
}

static void a_slow_client_is_told_how_many_lines_are_gone(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *answer, *asked = next_ones(client, true);
	const int gone = 17;

	for (int i = 0; i < KW_LOG_RING_LINES + gone; i++)
		kw_log_info("test", "flood %d", i);
	answer = lines_of(client, asked);
	assert_int_equal(number_of(answer, "missed"), gone);
	assert_int_equal(count_of(answer), KW_LOG_RING_LINES);
	assert_string_equal(text_of(answer, 0), "flood 17");
	json_decref(answer);
	/* A client that has read nothing has missed nothing. */
	answer = lines_of(client, params("{s:i}", "count", 1));
	assert_int_equal(number_of(answer, "missed"), 0);
	json_decref(answer);
	kw_rpc_client_close(client);
}

static void numbers_of_another_process_do_not_count(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *answer, *asked = next_ones(client, true);

	kw_log_info("test", "kept");
	json_object_set_new(asked, "run", json_integer(1));
	answer = lines_of(client, asked); /* at once, and all that there is */
	assert_true(count_of(answer) > 0);
	assert_int_equal(number_of(answer, "missed"), 0);
	json_decref(answer);
	kw_rpc_client_close(client);
}

static void one_call_of_a_connection_waits(void **state)
{
	struct kw_rpc_client *client = open_client(*state);
	json_t *asked = next_ones(client, true), *answer;

	assert_int_equal(
		kw_rpc_client_begin(client, "log.lines", json_incref(asked), -1, &error), 0);
	assert_int_equal(call_text(client, "log.lines", asked, &answer), KW_E_REFUSED);
	assert_non_null(strstr(error.text, "waits for lines already"));
	kw_rpc_client_close(client);
}

/* Clients that wait and leave, again and again, leave nothing that fails: the sanitizers look. */
static void clients_that_leave_while_they_wait_do_no_harm(void **state)
{
	for (int i = 0; i < 100; i++) {
		struct kw_rpc_client *client = open_client(*state);
		json_t *asked = next_ones(client, true);

		assert_int_equal(kw_rpc_client_begin(client, "log.lines", asked, -1, &error), 0);
		kw_rpc_client_close(client);
		if (i % 10 == 0)
			kw_log_info("test", "between");
	}
}

static void the_end_of_the_server_answers_what_waits(void **state)
{
	struct kw_rpc_client *client = open_client(*state), *other = open_client(*state);
	json_t *answer, *asked = next_ones(client, true);

	assert_int_equal(kw_rpc_client_begin(client, "log.lines", asked, -1, &error), 0);
	assert_int_equal(kw_rpc_client_await(client, ABSENT_MS, &answer, &error), KW_E_TIMEOUT);
	assert_int_equal(call_text(other, "stop", NULL, NULL), 0);
	assert_int_equal(kw_rpc_client_await(client, PATIENCE_MS, &answer, &error), 0);
	assert_int_equal(count_of(answer), 0);
	json_decref(answer);
	kw_rpc_client_close(client);
	kw_rpc_client_close(other);
	/* Lines after that concern nobody. */
	kw_log_info("test", "after the end");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_last_lines_are_told_by_count_and_level),
		TEST(a_wrong_level_is_refused),
		TEST(the_answer_waits_for_a_line_of_any_thread),
		TEST(a_line_below_the_level_does_not_end_the_wait),
		TEST(without_wait_no_news_is_an_answer),
		TEST(a_slow_client_is_told_how_many_lines_are_gone),
		TEST(numbers_of_another_process_do_not_count),
		TEST(one_call_of_a_connection_waits),
		TEST(clients_that_leave_while_they_wait_do_no_harm),
		TEST(the_end_of_the_server_answers_what_waits),
	};

	return cmocka_run_group_tests_name("rpc logs", tests, NULL, NULL);
}
