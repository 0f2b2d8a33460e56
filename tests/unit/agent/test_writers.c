/* Which calls that a server counts are writes of other clients. */
#include "local/writers.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define STAT(name, calls) "cmdstat_" name ":calls=" #calls ",usec=5,usec_per_call=1.00\r\n"

/* `writes`: what the server says of the names that it is asked about. */
static void count(struct kw_writers *writers, const char *info, bool writes)
{
	const char *names[KW_WRITERS_NAMES];
	size_t asked;

	kw_writers_count(writers, kw_slice_text(info));
	asked = kw_writers_unknown(writers, names, LENGTH(names));
	for (size_t i = 0; i < asked; i++)
		kw_writers_answer(writers, names[i], writes);
}

static const struct {
	const char *name, *info;
	uint64_t foreign, shared;
} cases[] = {
	{"nothing", "", 0, 0},
	{"an agent at work",
		STAT("info", 9) STAT("restore", 100) STAT("unlink", 3) STAT("select", 4)
			STAT("flushdb", 1) STAT("function|load", 7) STAT("function|list", 1)
				STAT("client|setname", 1) STAT("scan", 5) STAT("config|get", 2),
		0, 103},
	{"an agent's link",
		STAT("ping", 9) STAT("replconf", 9) STAT("replicaof", 1) STAT("restore", 2)
			STAT("select", 1) STAT("function|load", 7) STAT("config|set", 2),
		0, 2},
	{"readers", STAT("get", 5) STAT("hgetall", 5) STAT("zrange", 5) STAT("xread", 1), 0, 0},
	{"writers", STAT("set", 5) STAT("hset", 2) STAT("del", 1), 8, 0},
	{"in a script", STAT("eval", 1) STAT("set", 3), 3, 0},
	{"in a transaction", STAT("multi", 1) STAT("exec", 1) STAT("incr", 2), 2, 0},
	{"what carries the mark of a write and mostly reads",
		STAT("sort", 1) STAT("getex", 1) STAT("georadius", 1) STAT("pfcount", 1), 0, 0},
	{"flushes are counted elsewhere", STAT("flushall", 1) STAT("swapdb", 2), 0, 0},
	{"subcommands",
		STAT("xgroup|create", 2) STAT("xgroup|help", 1) STAT("object|freq", 3)
			STAT("latency|doctor", 3),
		2, 0},
	{"in capitals, as modules may name theirs", STAT("VSIM", 4) STAT("GET", 1), 0, 0},
	{"never called", STAT("set", 0), 0, 0},
	{"no numbers", "cmdstat_set:calls=x,usec=1\r\ncmdstat_set\r\ncmdstat_:\r\n", 0, 0},
	{"more than there are numbers for", STAT("set", 18446744073709551615) STAT("hset", 2),
		UINT64_MAX, 0},
};

static void calls_that_no_agent_makes_are_others(void **state)
{
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct kw_writers writers = {0};

		print_message("%s\n", cases[i].name);
		count(&writers, cases[i].info, true);
		assert_int_equal(writers.foreign, cases[i].foreign);
		assert_int_equal(writers.shared, cases[i].shared);
	}
}

static void the_server_says_what_a_modules_command_does(void **state)
{
	struct kw_writers writers = {0};
	const char *names[2];

	kw_writers_count(&writers, kw_slice_text(STAT("json.get", 5) STAT("hset", 1)));
	assert_int_equal(writers.foreign, 0); /* until it has said so */
	assert_int_equal(kw_writers_unknown(&writers, names, 2), 2);
	kw_writers_answer(&writers, "json.get", false);
	kw_writers_answer(&writers, "hset", true);
	kw_writers_answer(&writers, "never heard of", true);
	assert_int_equal(writers.foreign, 1);
	kw_writers_count(&writers, kw_slice_text(STAT("json.get", 9) STAT("hset", 3)));
	assert_int_equal(kw_writers_unknown(&writers, names, 2), 0); /* it is asked once */
	assert_int_equal(writers.foreign, 3);
	assert_string_equal(writers.last, "hset");
	kw_writers_count(&writers, kw_slice_text("")); /* CONFIG RESETSTAT */
	assert_int_equal(writers.foreign, 0);
}

static void the_command_that_was_called_last_is_known(void **state)
{
	struct kw_writers writers = {0};

	count(&writers, STAT("set", 5) STAT("hset", 2), true);
	count(&writers, STAT("set", 5) STAT("hset", 3), true);
	assert_string_equal(writers.last, "hset");
	count(&writers, STAT("set", 6) STAT("hset", 3), true);
	assert_string_equal(writers.last, "set");
	count(&writers, STAT("set", 6) STAT("hset", 3), true);
	assert_string_equal(writers.last, "set");
}

static void names_beyond_the_room_count_as_writes(void **state)
{
	struct kw_writers writers = {0};
	char info[32768] = "", name[KW_WRITERS_NAME * 2];
	const char *names[KW_WRITERS_NAMES];

	for (int i = 0; i < KW_WRITERS_NAMES + 10; i++)
		snprintf(info + strlen(info), sizeof info - strlen(info),
			"cmdstat_module.%d:calls=1,usec=1\r\n", i);
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	snprintf(info + strlen(info), sizeof info - strlen(info), "cmdstat_%s:calls=4,usec=1\r\n",
		name);
	kw_writers_count(&writers, kw_slice_text(info));
	assert_int_equal(kw_writers_unknown(&writers, names, KW_WRITERS_NAMES), KW_WRITERS_NAMES);
	assert_int_equal(writers.foreign, 10 + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_that_no_agent_makes_are_others),
		cmocka_unit_test(the_server_says_what_a_modules_command_does),
		cmocka_unit_test(the_command_that_was_called_last_is_known),
		cmocka_unit_test(names_beyond_the_room_count_as_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
