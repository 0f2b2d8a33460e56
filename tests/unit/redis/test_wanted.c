/* What a user lacks, from answers as real servers give them: by table. */
#include "redis/wanted.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const struct kw_wanted wanted[] = {
	{{"SCAN", "0", "COUNT", "0"}, KW_WANTED_TRIED, "+scan", "to find keys"},
	{{"SUBSCRIBE", "c"}, KW_WANTED_ASKED, "+subscribe &c", "to hear"},
	{{"DUMP", KW_WANTED_KEY}, KW_WANTED_TRIED, "+dump", "to read values"},
	{{"FLUSHDB"}, KW_WANTED_ASKED, "+flushdb", "to empty databases"},
};
#define WANTED 4

struct connection {
	struct kw_wanted_check check;
	char sent[512];
	struct {
		kw_reply_fn fn;
		void *arg;
	} waiting[8];
	int count, done;
};

static void take(void *arg, kw_reply_fn fn, void *fn_arg, int argc, const struct kw_slice *argv)
{
	struct connection *connection = arg;
	size_t at = strlen(connection->sent);

	assert_true(connection->count < 8);
	connection->waiting[connection->count].fn = fn;
	connection->waiting[connection->count++].arg = fn_arg;
	for (int i = 0; i < argc; i++)
		at += (size_t)snprintf(connection->sent + at, sizeof connection->sent - at,
			i ? " %.*s" : ";%.*s", (int)argv[i].length, (const char *)argv[i].data);
}

static void on_done(void *arg)
{
	((struct connection *)arg)->done++;
}

/* "+": a status; "-": an error; "$": a text; ":": a number; NULL: the connection is lost. */
static void answer(struct connection *connection, int index, const char *text)
{
	struct kw_reply reply = {0};

	if (text) {
		reply.type = *text == '+'   ? KW_REPLY_STATUS
			     : *text == '-' ? KW_REPLY_ERROR
			     : *text == '$' ? KW_REPLY_STRING
					    : KW_REPLY_INTEGER;
		reply.text = kw_slice_text(text + 1);
	}
	connection->waiting[index].fn(connection->waiting[index].arg, text ? &reply : NULL);
}

static void begin(struct connection *connection, const char *user, bool denied)
{
	*connection = (struct connection){0};
	connection->check = (struct kw_wanted_check){.wanted = wanted,
		.count = WANTED,
		.user = user,
		.send = take,
		.done = on_done,
		.arg = connection,
		.denied = denied};
	kw_wanted_begin(&connection->check);
}

#define NO "-NOPERM User u has no permissions to run the command"

static void all_that_is_lacking_is_found_and_given_by_one_line(void **state)
{
	static const struct {
		const char *name;
		const char *tried[2], *asked[2]; /* asked NULL: it must not be */
		const char *names, *line;        /* NULL: nothing is lacking */
		bool denied;
	} cases[] = {
		{"all is there", {"-ERR syntax error", "$"}, {NULL, NULL}, NULL, NULL},
		{"a command that is renamed away", {"-ERR unknown command 'SCAN'", "$"},
			{NULL, NULL}, NULL, NULL},
		{"a server that loads", {"-LOADING", "-LOADING"}, {NULL, NULL}, NULL, NULL},
		{"all is lacking", {NO, NO}, {"$User u has no", "$User u has no"},
			"+scan to find keys, +subscribe &c to hear, +dump to read values, "
			"+flushdb to empty databases",
			"ACL SETUSER u +scan +subscribe &c +dump +flushdb"},
		{"one, and DRYRUN is allowed", {"-ERR syntax error", NO}, {"+OK", "+OK"},
			"+dump to read values:", "ACL SETUSER u +dump"},
		{"one, and DRYRUN is not", {NO, "$"}, {NO, NO},
			"+scan to find keys:", "ACL SETUSER u +scan +subscribe &c +flushdb"},
		{"a server without DRYRUN", {NO, "$"},
			{"-ERR Unknown subcommand or wrong number of arguments", "-ERR Unknown"},
			"+scan to find keys:", "ACL SETUSER u +scan +subscribe &c +flushdb"},
		{"denied, and DRYRUN tells which", {"-ERR syntax error", "$"},
			{"+OK", "$User u has no"},
			"+flushdb to empty databases:", "ACL SETUSER u +flushdb", true},
		{"denied, and nothing tells which", {"-ERR syntax error", "$"}, {NO, NO},
			"does not tell which:", "ACL SETUSER u +subscribe &c +flushdb", true},
		{"denied, and given since", {"-ERR syntax error", "$"}, {"+OK", "+OK"}, NULL, NULL,
			true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct connection connection;
		struct kw_error error;

		print_message("%s\n", cases[i].name);
		begin(&connection, "u", cases[i].denied);
		assert_int_equal(connection.count, 2);
		answer(&connection, 0, cases[i].tried[0]);
		assert_int_equal(connection.done, 0);
		answer(&connection, 1, cases[i].tried[1]);
		assert_int_equal(connection.count, cases[i].asked[0] ? 4 : 2);
		for (int k = 0; cases[i].asked[0] && k < 2; k++)
			answer(&connection, 2 + k, cases[i].asked[k]);
		assert_int_equal(connection.done, 1);
		assert_int_equal(kw_wanted_any_lacks(&connection.check), cases[i].names != NULL);
		if (!cases[i].names)
			continue;
		assert_int_equal(kw_wanted_sentence(&connection.check, &error), KW_E_REFUSED);
		assert_non_null(strstr(error.text, cases[i].names));
		assert_string_equal(strstr(error.text, "ACL SETUSER"), cases[i].line);
	}
}

/* However long the name is, and however much is lacking: the line is whole, and ends it. */
static void the_line_is_never_cut(void **state)
{
	static const char name[] =
		"a-user-whose-name-is-as-long-as-one-that-is-shown-at-most-64-----";
	static const char end[] = " +scan +subscribe &c +dump +flushdb";
	struct kw_wanted_check check = {
		.wanted = wanted,
		.count = WANTED,
		.user = name,
		.state = KW_WANTED_OVER,
		.lacking = 15,
	};
	struct kw_error error;

	(void)state;
	kw_wanted_sentence(&check, &error);
	assert_true(strlen(error.text) < KW_WANTED_TEXT);
	assert_string_equal(error.text + strlen(error.text) - strlen(end), end);
}

static void a_thorough_check_asks_for_all_that_cannot_be_tried(void **state)
{
	struct connection connection = {0};
	struct kw_wanted_texts texts;

	(void)state;
	connection.check = (struct kw_wanted_check){.wanted = wanted,
		.count = WANTED,
		.user = "u",
		.thorough = true,
		.send = take,
		.done = on_done,
		.arg = &connection};
	kw_wanted_begin(&connection.check);
	answer(&connection, 0, "-ERR syntax error");
	answer(&connection, 1, "$");
	assert_int_equal(connection.count, 4);
	answer(&connection, 2, "$User u has no");
	answer(&connection, 3, NO);
	assert_int_equal(connection.done, 1);
	kw_wanted_texts(&connection.check, &texts);
	assert_string_equal(texts.lacks, "+subscribe &c to hear");
	assert_string_equal(texts.rules, " +subscribe &c +flushdb");
}

static void what_is_sent_has_no_effect(void **state)
{
	struct connection connection;

	(void)state;
	begin(&connection, "", false);
	assert_string_equal(connection.sent, ";SCAN 0 COUNT 0;DUMP " KW_WANTED_KEY);
	answer(&connection, 0, NO);
	answer(&connection, 1, "$");
	assert_non_null(strstr(
		connection.sent, ";ACL DRYRUN default SUBSCRIBE c;ACL DRYRUN default FLUSHDB"));
}

static void a_lost_connection_tells_nothing(void **state)
{
	struct connection connection;

	(void)state;
	begin(&connection, "u", false);
	answer(&connection, 0, NO);
	answer(&connection, 1, NULL);
	assert_int_equal(connection.done, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_lacking_is_found_and_given_by_one_line),
		cmocka_unit_test(the_line_is_never_cut),
		cmocka_unit_test(a_thorough_check_asks_for_all_that_cannot_be_tried),
		cmocka_unit_test(what_is_sent_has_no_effect),
		cmocka_unit_test(a_lost_connection_tells_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
