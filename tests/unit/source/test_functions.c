/*
 * The function libraries of the primary in the table. The server is a real one. The feed is a fake,
 * so nothing but what the test tells makes the source ask.
 */
#include "fake_feed.h"
#include "fixture.h"

#include "base/clock.h"
#include "rdb/libraries.h"
#include "source/functions.h"
#include "source/source_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR                                                                                     \
	"#!lua name=keywake_cursor\n"                                                              \
	"redis.register_function{function_name='keywake_cursor', flags={'no-writes'},\n"           \
	"callback=function() return 'keywake-cursor 2 epoch=%d' end}\n"

static struct test test;
static uint64_t version_before;

static struct kw_source_functions_report report(void)
{
	struct kw_source_functions_report report;

	kw_source_functions(test.source, &report);
	return report;
}

static void load_code(const char *code)
{
	const struct kw_slice argv[] = {kw_slice_text("FUNCTION"), kw_slice_text("LOAD"),
		kw_slice_text("REPLACE"), kw_slice_text(code)};

	test_send(&test, 4, argv);
	if (test.refused)
		fail_msg("FUNCTION LOAD: %s", test.reply);
}

/* A library `name` with one function of the same name, which returns `number`. */
static void load(const char *name, int number)
{
	char code[256];

	snprintf(code, sizeof code,
		"#!lua name=%s\nredis.register_function('%s', function() return %d end)", name,
		name, number);
	load_code(code);
}

/* The names in the table, in their order, with a space each. */
static const char *carried(void)
{
	static char names[256];
	struct kw_libraries set = {0};
	struct kw_error error;
	size_t at = 0;

	names[0] = '\0';
	if (kw_libraries_read(&set, kw_table_functions(test.table), KW_FUNCTIONS_BYTES, &error))
		fail_msg("%s", error.text);
	for (size_t i = 0; i < set.count; i++)
		at += (size_t)snprintf(names + at, sizeof names - at, "%.*s ",
			(int)set.all[i].name.length, (const char *)set.all[i].name.data);
	kw_libraries_close(&set);
	return names;
}

static bool is_settled(struct test *t)
{
	return t->source->functions.sm.state == KW_SOURCE_FUNCTIONS_IDLE &&
	       !kw_table_unpublished(t->table);
}

static void settle(void)
{
	test_until(&test, is_settled, "the functions");
}

static void tell(enum kw_feed_functions what)
{
	fake_feed.handlers.functions(fake_feed.handlers.arg, what);
	settle();
}

/* How often the server was asked, ever. */
static uint64_t dumps(void)
{
	const char *line = strstr(test_ask(&test, "INFO commandstats"), "cmdstat_function|dump:");

	return line ? strtoull(strstr(line, "calls=") + 6, NULL, 10) : 0;
}

static void begin(void)
{
	test_begin(&test, "", 0);
	test_carry_functions(&test);
	test_ask(&test, "DEBUG POPULATE 100 key 20");
	test.options.feed = fake_feed_new;
}

static void follow(void)
{
	test_follow(&test);
	test_until(&test, fake_feed_is_starting, "the start of the feed");
	fake_feed_ready(KW_FEED_SAME_SERVER);
	test_settle(&test);
	settle();
}

/* The connection is lost, and then this server answers. */
static void reconnect(enum kw_feed_server server)
{
	fake_feed_lost("the test says so");
	test_until(&test, fake_feed_is_stopping, "the stop of the feed");
	fake_feed_stopped();
	test_until(&test, fake_feed_is_starting, "the start of the feed");
	fake_feed_ready(server);
	test_settle(&test);
	settle();
}

static void end(void)
{
	fake_feed_end(&test);
}

static void what_the_primary_has_is_in_the_table(void **state)
{
	begin();
	load("b", 1);
	load("a", 1);
	follow();
	assert_string_equal(carried(), "a b ");
	assert_string_equal(report().state, "carried");
	assert_int_equal(report().libraries, 2);
	assert_int_equal(report().version, 1);
	assert_string_equal(report().why, "");
	end();
}

static enum kw_functions_origin origin(void)
{
	return kw_table_history(test.table)->functions.origin;
}

/* It was only found so: who lost all of them looks the same. Agents delete nothing by it. */
static void a_primary_without_functions_has_an_empty_set(void **state)
{
	begin();
	follow();
	assert_string_equal(carried(), "");
	assert_int_equal(report().version, 1);
	assert_string_equal(report().state, "carried");
	assert_int_equal(origin(), KW_FUNCTIONS_FOUND);
	tell(KW_FEED_FUNCTIONS_FLUSHED); /* a client has called FUNCTION FLUSH */
	assert_int_equal(origin(), KW_FUNCTIONS_TOLD);
	assert_int_equal(report().version, 2);
	end();
}

static void what_the_feed_tells_of_is_read(void **state)
{
	begin();
	load("a", 1);
	follow();
	load("b", 1);
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(carried(), "a b ");
	load("b", 2);
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_int_equal(report().version, 3);
	test_ask(&test, "FUNCTION DELETE a");
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(carried(), "b ");
	test_ask(&test, "FUNCTION FLUSH");
	tell(KW_FEED_FUNCTIONS_FLUSHED);
	assert_string_equal(carried(), "");
	assert_string_equal(report().state, "carried");
	end();
}

static void what_is_not_told_is_found_in_time(void **state)
{
	begin();
	follow();
	load("a", 1);
	test_run_ms(&test, 300);
	assert_string_equal(carried(), "");
	test.source->functions.asked_us -= KW_SOURCE_FUNCTIONS_LOOK_US;
	kw_source_reconcile(test.source, "so that there is a turn");
	test_settle(&test);
	settle();
	assert_string_equal(carried(), "a ");
	end();
}

static void equal_sets_are_not_published_again(void **state)
{
	begin();
	load("a", 1);
	follow();
	for (int i = 0; i < 3; i++)
		tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_int_equal(report().version, 1);
	assert_int_equal(report().changes, 1);
	end();
}

/* However often it is told, one question is out, and one follows. */
static void what_is_told_meanwhile_is_asked_once_more(void **state)
{
	uint64_t before;

	begin();
	follow();
	before = dumps();
	for (int i = 0; i < 50; i++)
		fake_feed.handlers.functions(fake_feed.handlers.arg, KW_FEED_FUNCTIONS_CHANGED);
	settle();
	assert_int_equal(dumps() - before, 1);
	end();
}

static bool is_another_version(struct test *t)
{
	return report().version != version_before;
}

/* An agent's cursor changes many times a second. It is of one server's data alone. */
static void cursors_of_agents_are_not_carried(void **state)
{
	char code[512];

	begin();
	load("a", 1);
	follow();
	for (int i = 0; i < 3; i++) {
		snprintf(code, sizeof code, CURSOR, i);
		load_code(code);
		tell(KW_FEED_FUNCTIONS_CHANGED);
		assert_string_equal(carried(), "a ");
	}
	assert_int_equal(report().version, 1);
	end();
}

static void a_refusal_is_told_and_keys_go_on(void **state)
{
	begin();
	load("a", 1);
	follow();
	test_ask(&test, "ACL SETUSER default -function|dump");
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(report().state, "refused");
	assert_non_null(strstr(report().why, "+function|dump"));
	assert_int_equal(report().version, 0);
	assert_true(test_is_live(&test));
	test_ask(&test, "ACL SETUSER default +function|dump");
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(report().state, "carried");
	assert_string_equal(carried(), "a ");
	end();
}

/* The server counts what it refused at once beside the calls. */
static bool is_refused_twice(struct test *t)
{
	const char *line = strstr(test_ask(t, "INFO commandstats"), "cmdstat_function|dump:");

	return line && strtoull(strstr(line, "rejected_calls=") + 15, NULL, 10) >= 2;
}

/* It says MASTERDOWN here; a script that runs for long has it say BUSY. */
static void a_server_that_cannot_answer_now_is_asked_again(void **state)
{
	begin();
	load("a", 1);
	follow();
	version_before = report().version;
	load("b", 1);
	test_ask(&test, "CONFIG SET replica-serve-stale-data no");
	test_ask(&test, "REPLICAOF 127.0.0.1 1");
	fake_feed.handlers.functions(fake_feed.handlers.arg, KW_FEED_FUNCTIONS_CHANGED);
	test_until(&test, is_refused_twice, "a second question");
	assert_string_equal(report().state, "carried");
	assert_int_equal(report().version, version_before);
	test_ask(&test, "REPLICAOF NO ONE");
	settle();
	assert_string_equal(report().state, "carried");
	assert_string_equal(carried(), "a b ");
	end();
}

static void functions_that_are_too_large_are_not_carried(void **state)
{
	const size_t length = KW_FUNCTIONS_BYTES + 100;
	char *code = malloc(length + 1);

	begin();
	load("a", 1);
	follow();
	/* It cannot be packed, or the server would. */
	srandom(1);
	for (size_t i = 0; i < length; i++)
		code[i] = (char)('a' + random() % 26);
	code[length] = '\0';
	memcpy(code, "#!lua name=large\nredis.register_function('f', function() return 1 end)\n--",
		73);
	load_code(code);
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(report().state, "unfit");
	assert_int_equal(report().version, 0);
	assert_true(test_is_live(&test));
	test_ask(&test, "FUNCTION DELETE large");
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(carried(), "a ");
	free(code);
	end();
}

static void an_older_server_is_not_asked(void **state)
{
	begin();
	test_follow(&test);
	test_until(&test, fake_feed_is_starting, "the start of the feed");
	fake_feed.identity.major = 6;
	fake_feed_ready(KW_FEED_SAME_SERVER);
	test_settle(&test);
	settle();
	assert_string_equal(report().state, "unsupported");
	assert_int_equal(report().version, 0);
	assert_int_equal(dumps(), 0);
	end();
}

static void without_the_option_nothing_is_asked(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE 100 key 20");
	test.options.feed = fake_feed_new;
	load("a", 1);
	follow();
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(report().state, "off");
	assert_int_equal(dumps(), 0);
	end();
}

/* ---- functions that are gone ---- */

static void a_server_that_came_back_without_functions_is_held(void **state)
{
	begin();
	load("a", 1);
	load("b", 1);
	follow();
	test_ask(&test, "FUNCTION FLUSH");
	reconnect(KW_FEED_ANOTHER_SERVER);
	assert_string_equal(report().state, "held");
	assert_int_equal(report().libraries, 2);
	assert_non_null(strstr(report().why, "keywakectl approve"));
	assert_string_equal(carried(), "a b ");
	load("c", 1); /* a set with any library is believed */
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(report().state, "carried");
	assert_string_equal(carried(), "c ");
	end();
}

static void an_approval_lets_them_go(void **state)
{
	char finding[KW_ERROR_TEXT];
	struct kw_error error;

	begin();
	load("a", 1);
	follow();
	assert_int_equal(kw_source_approve(test.source, finding, &error), KW_E_STATE);
	test_ask(&test, "FUNCTION FLUSH");
	reconnect(KW_FEED_ANOTHER_SERVER);
	assert_int_equal(kw_source_approve(test.source, finding, &error), KW_OK);
	assert_non_null(strstr(finding, "1 function libraries"));
	settle();
	assert_string_equal(carried(), "");
	assert_string_equal(report().state, "carried");
	tell(KW_FEED_FUNCTIONS_CHANGED);
	assert_string_equal(carried(), "");
	assert_int_equal(kw_source_approve(test.source, finding, &error), KW_E_STATE);
	end();
}

/* The same run and history: only a command can have taken them, seen or not. */
static void a_flush_while_the_connection_was_lost_is_believed(void **state)
{
	begin();
	load("a", 1);
	follow();
	test_ask(&test, "FUNCTION FLUSH");
	reconnect(KW_FEED_SAME_SERVER);
	assert_string_equal(report().state, "carried");
	assert_string_equal(carried(), "");
	end();
}

/* On the server that came back an operator says: there are none. */
static void a_flush_that_is_told_explains_it(void **state)
{
	begin();
	load("a", 1);
	follow();
	test_ask(&test, "FUNCTION FLUSH");
	reconnect(KW_FEED_ANOTHER_SERVER);
	assert_string_equal(report().state, "held");
	tell(KW_FEED_FUNCTIONS_CHANGED); /* by a load none is gone */
	assert_string_equal(report().state, "held");
	test_ask(&test, "FUNCTION FLUSH");
	tell(KW_FEED_FUNCTIONS_FLUSHED);
	assert_string_equal(carried(), "");
	assert_int_equal(origin(), KW_FUNCTIONS_TOLD);
	end();
}

static void another_data_set_in_the_same_server_is_held(void **state)
{
	begin();
	load("a", 1);
	follow();
	test_ask(&test, "FUNCTION FLUSH");
	fake_feed_doubt(KW_DOUBT_LOADED, -1);
	test_settle(&test);
	settle();
	assert_string_equal(report().state, "held");
	assert_string_equal(carried(), "a ");
	end();
}

/* ---- tickets ---- */

static bool is_examined(struct test *t)
{
	return fake_feed.examinations_owed == 1;
}

static bool ticket_passed(struct test *t)
{
	return kw_source_ticket(t->source) % 2 == 0;
}

/* What the examination told of is in the table when the ticket passes, also under a busy server. */
static void a_ticket_covers_functions(void **state)
{
	begin();
	load("a", 1);
	follow();
	fake_feed.barriers = FAKE_HOLD;
	for (int i = 0; i < 5; i++) {
		uint16_t drawn = kw_ticket_drawn(kw_source_ticket(test.source));

		version_before = report().version;
		load("a", 2 + i);
		assert_true(kw_source_want_ticket(test.source, drawn));
		kw_table_publish(test.table, kw_wall_us());
		kw_source_begin_ticket(test.source);
		test_until(&test, is_examined, "the examination");
		fake_feed.handlers.functions(fake_feed.handlers.arg, KW_FEED_FUNCTIONS_CHANGED);
		fake_feed_examined();
		fake_feed.barriers = FAKE_PASS;
		test_until(&test, ticket_passed, "the ticket");
		assert_true(is_another_version(&test));
		fake_feed.barriers = FAKE_HOLD;
	}
	fake_feed.barriers = FAKE_PASS;
	end();
}

/* Libraries are loaded again before any answer: the look at them has no end. */
static bool ticket_passed_meanwhile(struct test *t)
{
	fake_feed.handlers.functions(fake_feed.handlers.arg, KW_FEED_FUNCTIONS_CHANGED);
	return ticket_passed(t);
}

/* It waits for what was told of before it, and not for all that comes later. */
static void a_ticket_passes_while_libraries_change_all_the_time(void **state)
{
	begin();
	load("a", 1);
	follow();
	for (int i = 0; i < 5; i++) {
		uint16_t drawn = kw_ticket_drawn(kw_source_ticket(test.source));

		version_before = report().version;
		load("a", 2 + i);
		fake_feed.handlers.functions(fake_feed.handlers.arg, KW_FEED_FUNCTIONS_CHANGED);
		assert_true(kw_source_want_ticket(test.source, drawn));
		kw_table_publish(test.table, kw_wall_us());
		kw_source_begin_ticket(test.source);
		test_until(&test, is_examined, "the examination");
		fake_feed_examined();
		test_until(&test, ticket_passed_meanwhile, "the ticket");
		assert_true(is_another_version(&test));
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_primary_has_is_in_the_table),
		cmocka_unit_test(a_primary_without_functions_has_an_empty_set),
		cmocka_unit_test(what_the_feed_tells_of_is_read),
		cmocka_unit_test(what_is_not_told_is_found_in_time),
		cmocka_unit_test(equal_sets_are_not_published_again),
		cmocka_unit_test(what_is_told_meanwhile_is_asked_once_more),
		cmocka_unit_test(cursors_of_agents_are_not_carried),
		cmocka_unit_test(a_refusal_is_told_and_keys_go_on),
		cmocka_unit_test(a_server_that_cannot_answer_now_is_asked_again),
		cmocka_unit_test(functions_that_are_too_large_are_not_carried),
		cmocka_unit_test(an_older_server_is_not_asked),
		cmocka_unit_test(without_the_option_nothing_is_asked),
		cmocka_unit_test(a_server_that_came_back_without_functions_is_held),
		cmocka_unit_test(an_approval_lets_them_go),
		cmocka_unit_test(a_flush_while_the_connection_was_lost_is_believed),
		cmocka_unit_test(a_flush_that_is_told_explains_it),
		cmocka_unit_test(another_data_set_in_the_same_server_is_held),
		cmocka_unit_test(a_ticket_covers_functions),
		cmocka_unit_test(a_ticket_passes_while_libraries_change_all_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
