/* Function libraries of a table of our own making, in a real local server, by a whole agent. */
#include "load/pair.h"
#include "rdb/libraries.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct kw_history history = {
	.standing = KW_HISTORY_UNTOLD, .proxy = 77, .proxy_name = "stage"};

static const char *const modes[] = {"commands", "replica", "hybrid"};
#define MODES (sizeof modes / sizeof *modes)

/* Code of a library `name`, whose function of the same name returns `number`. */
static struct kw_slice code_of(const char *name, int number)
{
	static char code[256];

	snprintf(code, sizeof code,
		"#!lua name=%s\nredis.register_function{function_name='%s', "
		"flags={'no-writes'}, callback=function() return %d end}",
		name, name, number);
	return kw_slice_text(code);
}

static void publish_dump(
	struct stage *stage, struct kw_buffer *dump, enum kw_functions_origin origin)
{
	kw_libraries_end(99, 0, dump); /* the version of no server */
	kw_table_set_functions(stage->proxy.table,
		kw_slice(kw_buffer_bytes(dump), kw_buffer_length(dump)), origin);
	kw_buffer_close(dump);
	test_proxy_publish(&stage->proxy);
}

/* The table has these libraries from now on: "a1 b2" is a, which returns 1, and b. */
static void set_functions(struct stage *stage, const char *words, enum kw_functions_origin origin)
{
	struct kw_buffer dump = {0};

	for (const char *at = words; *at; at += at[2] ? 3 : 2) {
		const char name[2] = {at[0], '\0'};

		kw_libraries_put(code_of(name, at[1] - '0'), &dump);
	}
	publish_dump(stage, &dump, origin);
}

static void set_code(struct stage *stage, const char *code)
{
	struct kw_buffer dump = {0};

	kw_libraries_put(kw_slice_text(code), &dump);
	publish_dump(stage, &dump, KW_FUNCTIONS_FOUND);
}

static void open_mode(struct stage *stage, const char *mode)
{
	stage_open(stage, mode);
	stage->options.consent = true;
	stage->options.functions = true;
	kw_table_set_history(stage->proxy.table, &history);
	stage_fill(stage, 0, 100);
}

static void load_here(struct stage *stage, const char *name, int number)
{
	struct kw_slice code = code_of(name, number);

	assert_string_equal(test_cli(&stage->server, "FUNCTION LOAD REPLACE \"%.*s\"",
				    (int)code.length, (const char *)code.data),
		name);
}

/* The libraries of the local server, less cursors, in the words of set_functions. */
static const char *here(struct stage *stage)
{
	static char words[128];
	size_t at = 0;

	words[0] = '\0';
	for (char name = 'a'; name <= 'e'; name++) {
		const char *answer = test_cli(&stage->server, "FCALL_RO %c 0", name);

		if (strncmp(answer, "ERR", 3) != 0)
			at += (size_t)snprintf(words + at, sizeof words - at, "%s%c%s",
				at ? " " : "", name, answer);
	}
	return words;
}

static bool has_cursor(struct stage *stage)
{
	return strstr(stage_cli(stage, "FUNCTION LIST LIBRARYNAME keywake_cursor"),
		       "keywake_cursor") != NULL;
}

static struct kw_functions_report report(struct stage *stage)
{
	struct kw_functions_report report;

	kw_functions_report(&stage->agent->functions, &report);
	return report;
}

/* The newest set of the table is in the server. */
static bool is_equal(void *arg)
{
	struct stage *stage = arg;
	uint64_t version = kw_table_history(stage->proxy.table)->functions.version;

	return kw_functions_fact(&stage->agent->functions) == KW_FUNCTIONS_FINE &&
	       report(stage).version == version;
}

static void wait_warm(struct stage *stage)
{
	stage_wait(stage, is_equal, "the functions are equal");
	stage_wait_warm(stage);
}

/* An agent of this mode that has the set of the table. */
static void warm_with(
	struct stage *stage, const char *mode, const char *words, enum kw_functions_origin origin)
{
	open_mode(stage, mode);
	set_functions(stage, words, origin);
	stage_start_agent(stage);
	wait_warm(stage);
}

static bool is_refused(void *arg)
{
	return kw_functions_fact(&((struct stage *)arg)->agent->functions) ==
	       KW_FUNCTIONS_ARE_REFUSED;
}

static bool is_held(void *arg)
{
	return kw_functions_fact(&((struct stage *)arg)->agent->functions) == KW_FUNCTIONS_ARE_HELD;
}

static bool has_both(void *arg)
{
	return strcmp(here(arg), "a1 b2") == 0;
}

static bool is_lagging(void *arg)
{
	const struct stage *stage = arg;

	return stage->agent->sm.state == KW_AGENT_LAGGING &&
	       stage->agent->cause == KW_REASON_FUNCTIONS_REFUSED;
}

static const struct kw_link_report *link_of(struct stage *stage)
{
	return kw_pair_link(stage->agent->pair);
}

static void the_local_libraries_become_those_of_the_table(void **state)
{
	static const char *const sets[] = {"a1 b1", "a2 b1", "b1 c3", "d4", "a1 b2 c3 d4"};
	struct stage stage;

	for (size_t m = 0; m < MODES; m++) {
		open_mode(&stage, modes[m]);
		load_here(&stage, "e", 5);
		set_functions(&stage, sets[0], KW_FUNCTIONS_FOUND);
		stage_start_agent(&stage);
		for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
			set_functions(&stage, sets[i], KW_FUNCTIONS_FOUND);
			wait_warm(&stage);
			assert_string_equal(here(&stage), sets[i]);
			assert_true(has_cursor(&stage));
		}
		assert_string_equal(stage_cli(&stage, "-n 0 DBSIZE"), "50");
		stage_close(&stage);
	}
}

/* Never warm before the newest set is in the server. */
static void warm_waits_for_functions(void **state)
{
	struct stage stage;

	for (size_t m = 0; m < MODES; m++) {
		open_mode(&stage, modes[m]);
		set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
		stage_start_agent(&stage);
		for (int i = 1; i <= 5; i++) {
			char words[3] = {'a', (char)('0' + i), '\0'};

			set_functions(&stage, words, KW_FUNCTIONS_FOUND);
			stage.warm = 0;
			do {
				uv_run(&stage.loop, UV_RUN_ONCE);
			} while (stage.warm == 0);
			if (i > 1 || stage.agent->follow.history.functions.version >= 1)
				assert_int_equal(report(&stage).version,
					stage.agent->follow.history.functions.version);
			wait_warm(&stage);
		}
		stage_close(&stage);
	}
}

/* Another proxy has another epoch, and its own versions. What counts is the set. */
static void an_equal_set_of_another_proxy_is_not_loaded_again(void **state)
{
	struct stage stage;

	warm_with(&stage, "commands", "a1 b2", KW_FUNCTIONS_FOUND);
	assert_int_equal(report(&stage).changes, 1);
	test_proxy_stop(&stage.proxy);
	test_proxy_start(&stage.proxy, &stage.loop, 0x2222, true);
	kw_table_set_history(stage.proxy.table, &history);
	stage_fill(&stage, 0, 100);
	set_functions(&stage, "c1", KW_FUNCTIONS_FOUND); /* so that the version is another one */
	set_functions(&stage, "b2 a1", KW_FUNCTIONS_FOUND);
	{
		struct kw_error error;

		assert_int_equal(
			kw_agent_retarget(stage.agent, stage.proxy.address, &error), KW_OK);
	}
	wait_warm(&stage);
	assert_int_equal(stage.agent->follow.superblock.epoch, 0x2222);
	assert_int_equal(report(&stage).version, 2);
	assert_int_equal(report(&stage).changes, 1);
	stage_close(&stage);
}

static bool is_mended(void *arg)
{
	return report(arg).differences > 0 && is_equal(arg);
}

static void what_others_change_is_mended(void **state)
{
	static const char *const changes[] = {"FUNCTION DELETE a", "FUNCTION FLUSH"};
	struct stage stage;

	warm_with(&stage, "commands", "a1 b2", KW_FUNCTIONS_FOUND);
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		stage.agent->functions.differences = 0;
		stage_cli(&stage, changes[i]);
		stage_wait(&stage, is_mended, "the functions are mended");
		assert_string_equal(here(&stage), "a1 b2");
	}
	/* A library that is loaded is found in time. */
	stage.agent->functions.differences = 0;
	load_here(&stage, "c", 3);
	stage.agent->functions.looked_us -= KW_FUNCTIONS_LOOK_US;
	stage_wait(&stage, is_mended, "the functions are mended");
	assert_string_equal(here(&stage), "a1 b2");
	wait_warm(&stage);
	assert_true(has_cursor(&stage));
	stage_close(&stage);
}

static void what_changed_while_the_connection_was_lost_is_mended(void **state)
{
	struct stage stage;

	warm_with(&stage, "commands", "a1 b2", KW_FUNCTIONS_FOUND);
	for (int i = 0; i < 3; i++) {
		stage_cli(&stage, "CLIENT KILL TYPE normal SKIPME yes");
		stage_cli(&stage, "FUNCTION DELETE a");
		stage_wait(&stage, has_both, "the functions are there again");
		wait_warm(&stage);
	}
	stage_close(&stage);
}

/* A function that moves to another library, and two that change their places. */
static void functions_may_change_their_library(void **state)
{
	static const char *const sets[] = {
		"#!lua name=one\nredis.register_function('a', function() return 1 end)",
		"#!lua name=two\nredis.register_function('a', function() return 2 end)",
	};
	struct kw_buffer dump = {0};
	struct stage stage;

	for (size_t m = 0; m < MODES; m++) {
		open_mode(&stage, modes[m]);
		set_code(&stage, sets[0]);
		stage_start_agent(&stage);
		wait_warm(&stage);
		set_code(&stage, sets[1]);
		wait_warm(&stage);
		for (int round = 0; round < 2; round++) {
			for (int i = 0; i < 2; i++) {
				char code[128];

				snprintf(code, sizeof code,
					"#!lua name=%s\nredis.register_function('%c', function() "
					"return 1 end)",
					i ? "two" : "one", i == round ? 'a' : 'b');
				kw_libraries_put(kw_slice_text(code), &dump);
			}
			publish_dump(&stage, &dump, KW_FUNCTIONS_FOUND);
			wait_warm(&stage);
		}
		if (strcmp(modes[m], "replica") == 0)
			assert_int_equal(link_of(&stage)->refusals, 0);
		stage_close(&stage);
	}
}

/* ---- what cannot be done ---- */

/* Its code needs what the local server does not have, as of another fork. */
static void code_that_the_server_refuses_puts_no_data_in_doubt(void **state)
{
	uint64_t syncs;
	struct stage stage;

	for (size_t m = 0; m < MODES; m++) {
		warm_with(&stage, modes[m], "a1", KW_FUNCTIONS_FOUND);
		syncs = link_of(&stage)->full_syncs;
		for (int i = 0; i < 3; i++) {
			set_code(&stage, "#!lua name=a\nunheard.of_function('a', 1)");
			stage_fill(&stage, 0, 200);
			stage_wait(&stage, is_refused, "the functions are refused");
			stage_wait(&stage, is_lagging, "the agent lags");
			stage_wait_applied(&stage);
			assert_string_equal(here(&stage), "a1");
			set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
			wait_warm(&stage);
		}
		/* Other data were in doubt at no time, and are there. */
		assert_int_equal(link_of(&stage)->full_syncs, syncs);
		assert_int_equal(link_of(&stage)->refusals, 0);
		assert_int_equal(stage.agent->sync.resyncs, 0);
		assert_string_equal(stage_cli(&stage, "-n 0 DBSIZE"), "100");
		stage_close(&stage);
	}
}

/* The cursor says how many refusals were made good: the next agent resumes from it. */
static void the_next_agent_resumes_after_a_refusal(void **state)
{
	struct stage stage;

	open_mode(&stage, "replica");
	set_code(&stage, "#!lua name=a\nunheard.of_function('a', 1)");
	stage_start_agent(&stage);
	stage_wait(&stage, is_refused, "the functions are refused");
	stage_wait_applied(&stage);
	stage_stop_agent(&stage);
	set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
	stage_start_agent(&stage);
	wait_warm(&stage);
	assert_int_equal(link_of(&stage)->full_syncs, 0);
	assert_int_equal(stage.agent->sync.snapshots, 0);
	assert_string_equal(here(&stage), "a1");
	stage_close(&stage);
}

static void a_refusal_of_data_still_counts(void **state)
{
	struct stage stage;

	warm_with(&stage, "replica", "a1", KW_FUNCTIONS_FOUND);
	assert_false(kw_link_bears(stage.agent->pair->link, 1));
	stage_close(&stage);
}

static bool names_dump(void *arg)
{
	return strstr(((struct stage *)arg)->agent->reason, "function|dump") != NULL;
}

static void a_user_without_permission_is_told_which(void **state)
{
	struct stage stage;

	open_mode(&stage, "commands");
	stage_cli(&stage, "ACL SETUSER default -function\\|restore");
	set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
	stage_start_agent(&stage);
	stage_wait(&stage, is_lagging, "the agent lags");
	assert_non_null(strstr(stage.agent->reason, "function|restore"));
	stage_cli(&stage, "ACL SETUSER default +function\\|restore -function\\|dump");
	set_functions(&stage, "a2", KW_FUNCTIONS_FOUND);
	stage_wait(&stage, names_dump, "the other permission is named");
	stage_cli(&stage, "ACL SETUSER default +function\\|dump");
	wait_warm(&stage);
	assert_string_equal(here(&stage), "a2");
	stage_close(&stage);
}

static void a_library_with_the_name_of_a_cursor_is_refused(void **state)
{
	struct stage stage;

	open_mode(&stage, "commands");
	set_code(&stage, "#!lua name=keywake_cursor\nredis.register_function('a', print)");
	stage_start_agent(&stage);
	stage_wait(&stage, is_lagging, "the agent lags");
	assert_non_null(strstr(stage.agent->reason, "apply.cursor_name"));
	assert_true(has_cursor(&stage));
	stage_close(&stage);
}

/* Bytes of the area that are none: the agent says so, and goes on with the next set. */
static void what_does_not_verify_is_not_applied(void **state)
{
	uint8_t *bytes;
	struct stage stage;

	open_mode(&stage, "commands");
	set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
	bytes = (uint8_t *)(uintptr_t)kw_table_functions(stage.proxy.table).data;
	bytes[3]++;
	stage_start_agent(&stage);
	stage_wait(&stage, is_lagging, "the agent lags");
	assert_non_null(strstr(stage.agent->reason, "do not verify"));
	assert_string_equal(here(&stage), "");
	bytes[3]--;
	wait_warm(&stage);
	assert_string_equal(here(&stage), "a1");
	kw_table_set_functions(stage.proxy.table, kw_slice("no payload", 10), KW_FUNCTIONS_FOUND);
	test_proxy_publish(&stage.proxy);
	stage_wait(&stage, is_lagging, "the agent lags");
	assert_string_equal(here(&stage), "a1");
	set_functions(&stage, "a2", KW_FUNCTIONS_FOUND);
	wait_warm(&stage);
	assert_string_equal(here(&stage), "a2");
	stage_close(&stage);
}

/* How often the local server was asked, ever. */
static uint64_t dumps(struct stage *stage)
{
	const char *line = strstr(stage_cli(stage, "INFO commandstats"), "cmdstat_function|dump:");

	return line ? strtoull(strstr(line, "calls=") + 6, NULL, 10) : 0;
}

/* A proxy that names bytes outside of its table. The set of before is none to compare with. */
static void a_set_outside_of_the_table_makes_no_work(void **state)
{
	struct kw_history_functions *named;
	struct stage stage;
	uint64_t before;

	warm_with(&stage, "commands", "a1", KW_FUNCTIONS_FOUND);
	kw_table_set_functions(stage.proxy.table, kw_slice("another", 7), KW_FUNCTIONS_FOUND);
	named = (struct kw_history_functions *)(uintptr_t)&kw_table_history(stage.proxy.table)
			->functions;
	named->offset = UINT64_C(1) << 40;
	test_proxy_publish(&stage.proxy);
	stage_wait(&stage, is_lagging, "the agent lags");
	assert_non_null(strstr(stage.agent->reason, "outside of its table"));
	before = dumps(&stage);
	for (int i = 0; i < 20; i++) {
		stage.agent->functions.retry_us = 0; /* the pause is over */
		stage_fill(&stage, 100 + i, 101 + i);
		stage_wait_applied(&stage);
	}
	assert_int_equal(dumps(&stage) - before, 0);
	assert_true(is_refused(&stage));
	set_functions(&stage, "a2", KW_FUNCTIONS_FOUND);
	wait_warm(&stage);
	assert_string_equal(here(&stage), "a2");
	stage_close(&stage);
}

/* ---- functions that are gone ---- */

static void a_primary_that_may_have_lost_them_takes_none_away(void **state)
{
	char finding[KW_SYNC_WHY];
	struct kw_error error;
	struct stage stage;

	for (size_t m = 0; m < MODES; m++) {
		open_mode(&stage, modes[m]);
		load_here(&stage, "a", 1);
		set_functions(&stage, "", KW_FUNCTIONS_FOUND);
		stage_start_agent(&stage);
		stage_wait(&stage, is_held, "the functions are held");
		assert_string_equal(here(&stage), "a1");
		assert_non_null(strstr(report(&stage).why, "keywakectl approve"));
		assert_int_equal(kw_agent_approve(stage.agent, finding, &error), KW_OK);
		assert_non_null(strstr(finding, "all 1 function libraries"));
		wait_warm(&stage);
		assert_string_equal(here(&stage), "");
		assert_int_equal(kw_agent_approve(stage.agent, finding, &error), KW_E_STATE);
		stage_close(&stage);
	}
}

static void any_library_ends_the_hold(void **state)
{
	struct stage stage;

	open_mode(&stage, "commands");
	load_here(&stage, "a", 1);
	set_functions(&stage, "", KW_FUNCTIONS_FOUND);
	stage_start_agent(&stage);
	stage_wait(&stage, is_held, "the functions are held");
	set_functions(&stage, "b2", KW_FUNCTIONS_FOUND);
	wait_warm(&stage);
	assert_string_equal(here(&stage), "b2");
	set_functions(&stage, "", KW_FUNCTIONS_TOLD); /* FUNCTION FLUSH */
	wait_warm(&stage);
	assert_string_equal(here(&stage), "");
	stage_close(&stage);
}

/* ---- without any ---- */

static void without_the_option_nothing_is_touched(void **state)
{
	struct stage stage;

	open_mode(&stage, "commands");
	stage.options.functions = false;
	load_here(&stage, "b", 2);
	set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_string_equal(report(&stage).state, "off");
	assert_string_equal(here(&stage), "b2");
	stage_close(&stage);
}

static void a_table_that_carries_none_changes_nothing(void **state)
{
	struct stage stage;

	open_mode(&stage, "commands");
	load_here(&stage, "b", 2);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_string_equal(report(&stage).state, "not carried");
	assert_string_equal(here(&stage), "b2");
	set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
	wait_warm(&stage);
	kw_table_forget_functions(stage.proxy.table);
	stage_wait_warm(&stage);
	assert_string_equal(here(&stage), "a1");
	stage_close(&stage);
}

/* ---- a proxy that is gone ---- */

static void lose_proxy(struct stage *stage)
{
	test_proxy_stop(&stage->proxy);
	stage_wait_state(stage, KW_AGENT_CONNECTING);
}

/* Its table has no functions: nothing keeps the agent from being warm. */
static void find_another_proxy(struct stage *stage)
{
	struct kw_error error;

	test_proxy_start(&stage->proxy, &stage->loop, 0x2222, true);
	kw_table_set_history(stage->proxy.table, &history);
	stage_fill(stage, 0, 100);
	test_proxy_publish(&stage->proxy);
	assert_int_equal(kw_agent_retarget(stage->agent, stage->proxy.address, &error), KW_OK);
	stage_wait_warm(stage);
	assert_string_equal(report(stage).state, "not carried");
}

/* `keywakectl wait warm` must not end because the proxy is gone: the local server lacks them. */
static void what_could_not_be_loaded_is_lacking_without_the_proxy_too(void **state)
{
	struct stage stage;

	open_mode(&stage, "commands");
	set_code(&stage, "#!lua name=a\nunheard.of_function('a', 1)");
	stage_start_agent(&stage);
	stage_wait(&stage, is_refused, "the functions are refused");
	stage_wait_applied(&stage);
	lose_proxy(&stage);
	assert_true(is_refused(&stage));
	assert_string_equal(report(&stage).state, "refused");
	assert_int_equal(report(&stage).table_version, 1);
	find_another_proxy(&stage);
	stage_close(&stage);
}

static void what_is_held_is_held_without_the_proxy_too(void **state)
{
	struct stage stage;

	open_mode(&stage, "commands");
	load_here(&stage, "a", 1);
	set_functions(&stage, "", KW_FUNCTIONS_FOUND);
	stage_start_agent(&stage);
	stage_wait(&stage, is_held, "the functions are held");
	lose_proxy(&stage);
	assert_true(is_held(&stage));
	assert_string_equal(report(&stage).state, "held");
	find_another_proxy(&stage);
	stage_close(&stage);
}

static void what_is_equal_is_equal_without_the_proxy_too(void **state)
{
	struct stage stage;

	warm_with(&stage, "commands", "a1", KW_FUNCTIONS_FOUND);
	lose_proxy(&stage);
	assert_int_equal(kw_functions_fact(&stage.agent->functions), KW_FUNCTIONS_FINE);
	assert_string_equal(report(&stage).state, "equal");
	find_another_proxy(&stage);
	assert_string_equal(here(&stage), "a1");
	stage_close(&stage);
}

static bool is_changing(void *arg)
{
	return ((struct stage *)arg)->agent->functions.sm.state == KW_FUNCTIONS_CHANGING;
}

static bool is_idle(void *arg)
{
	return ((struct stage *)arg)->agent->functions.sm.state == KW_FUNCTIONS_IDLE;
}

/* The proxy goes while FUNCTION RESTORE is on its way. */
static void what_is_on_its_way_is_late_without_the_proxy_too(void **state)
{
	struct stage stage;

	warm_with(&stage, "commands", "a1", KW_FUNCTIONS_FOUND);
	stage_cli(&stage, "CLIENT PAUSE 600000 WRITE");
	set_functions(&stage, "a2", KW_FUNCTIONS_FOUND);
	stage_wait(&stage, is_changing, "a change is out");
	lose_proxy(&stage);
	assert_int_equal(kw_functions_fact(&stage.agent->functions), KW_FUNCTIONS_LATE);
	assert_string_equal(report(&stage).state, "pending");
	stage_cli(&stage, "CLIENT UNPAUSE");
	stage_wait(&stage, is_idle, "the change is carried out");
	/* No look has shown it. */
	assert_int_equal(kw_functions_fact(&stage.agent->functions), KW_FUNCTIONS_LATE);
	find_another_proxy(&stage);
	stage_close(&stage);
}

static bool knows_version_2(void *arg)
{
	return ((struct stage *)arg)->agent->follow.history.functions.version == 2;
}

/* A new connection has no superblock at first. What the last one named still counts. */
static void a_set_that_was_named_counts_until_another_is(void **state)
{
	struct kw_functions *functions;
	struct kw_follow *follow;
	struct stage stage;

	open_mode(&stage, "commands");
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	functions = &stage.agent->functions;
	follow = &stage.agent->follow;
	assert_int_equal(kw_functions_fact(functions), KW_FUNCTIONS_FINE);
	follow->superblock = (struct kw_superblock){0};
	follow->history = (struct kw_history){0};
	assert_int_equal(kw_functions_fact(functions), KW_FUNCTIONS_FINE);
	stage_wait_warm(&stage);
	set_functions(&stage, "a1", KW_FUNCTIONS_FOUND);
	wait_warm(&stage);
	kw_agent_pause(stage.agent, true);
	set_functions(&stage, "a2", KW_FUNCTIONS_FOUND);
	stage_wait(&stage, knows_version_2, "the set is known");
	assert_int_equal(kw_functions_fact(functions), KW_FUNCTIONS_LATE);
	kw_functions_step(functions, 0);
	follow->superblock = (struct kw_superblock){0};
	follow->history = (struct kw_history){0};
	assert_int_equal(kw_functions_fact(functions), KW_FUNCTIONS_LATE);
	kw_agent_pause(stage.agent, false);
	wait_warm(&stage);
	assert_string_equal(here(&stage), "a2");
	stage_close(&stage);
}

/* ---- under load ---- */

/* Changes go on over the same link, and keep their order for each key. */
static void keys_go_on_while_functions_change(void **state)
{
	struct stage stage;

	for (size_t m = 0; m < MODES; m++) {
		warm_with(&stage, modes[m], "a1", KW_FUNCTIONS_FOUND);
		for (int i = 0; i < 60; i++) {
			char words[3] = {'a', (char)('1' + i % 9), '\0'}, value[16];

			set_functions(&stage, words, KW_FUNCTIONS_FOUND);
			snprintf(value, sizeof value, "%d", i);
			for (int key = 0; key < 50; key++) {
				test_proxy_put(&stage.proxy, 0, key % 2 ? "odd" : "even", value);
				stage_fill(&stage, 100 + key, 101 + key);
			}
			test_proxy_publish(&stage.proxy);
			uv_run(&stage.loop, UV_RUN_NOWAIT);
		}
		wait_warm(&stage);
		assert_string_equal(stage_cli(&stage, "GET odd"), "59");
		assert_string_equal(stage_cli(&stage, "GET even"), "59");
		assert_string_equal(here(&stage), "a6");
		assert_int_equal(link_of(&stage)->refusals, 0);
		stage_close(&stage);
	}
}

/* The agent ends at some moment, and the next one finds what is to be done. */
static void an_agent_may_end_at_any_moment(void **state)
{
	struct stage stage;

	for (size_t m = 0; m < MODES; m++) {
		open_mode(&stage, modes[m]);
		set_functions(&stage, "a1 b1", KW_FUNCTIONS_FOUND);
		for (int turns = 0; turns < 40; turns += 4) {
			stage_start_agent(&stage);
			if (turns > 0)
				wait_warm(&stage);
			set_functions(&stage, turns % 8 ? "a1 b1" : "b2 c3", KW_FUNCTIONS_FOUND);
			for (int i = 0; i < turns; i++)
				uv_run(&stage.loop, UV_RUN_ONCE);
			stage_stop_agent(&stage);
		}
		stage_start_agent(&stage);
		wait_warm(&stage);
		assert_string_equal(here(&stage), "a1 b1");
		assert_true(has_cursor(&stage));
		stage_close(&stage);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_local_libraries_become_those_of_the_table),
		cmocka_unit_test(warm_waits_for_functions),
		cmocka_unit_test(an_equal_set_of_another_proxy_is_not_loaded_again),
		cmocka_unit_test(what_others_change_is_mended),
		cmocka_unit_test(what_changed_while_the_connection_was_lost_is_mended),
		cmocka_unit_test(functions_may_change_their_library),
		cmocka_unit_test(code_that_the_server_refuses_puts_no_data_in_doubt),
		cmocka_unit_test(the_next_agent_resumes_after_a_refusal),
		cmocka_unit_test(a_refusal_of_data_still_counts),
		cmocka_unit_test(a_user_without_permission_is_told_which),
		cmocka_unit_test(a_library_with_the_name_of_a_cursor_is_refused),
		cmocka_unit_test(what_does_not_verify_is_not_applied),
		cmocka_unit_test(a_set_outside_of_the_table_makes_no_work),
		cmocka_unit_test(a_primary_that_may_have_lost_them_takes_none_away),
		cmocka_unit_test(any_library_ends_the_hold),
		cmocka_unit_test(without_the_option_nothing_is_touched),
		cmocka_unit_test(a_table_that_carries_none_changes_nothing),
		cmocka_unit_test(what_could_not_be_loaded_is_lacking_without_the_proxy_too),
		cmocka_unit_test(what_is_held_is_held_without_the_proxy_too),
		cmocka_unit_test(what_is_equal_is_equal_without_the_proxy_too),
		cmocka_unit_test(what_is_on_its_way_is_late_without_the_proxy_too),
		cmocka_unit_test(a_set_that_was_named_counts_until_another_is),
		cmocka_unit_test(keys_go_on_while_functions_change),
		cmocka_unit_test(an_agent_may_end_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
