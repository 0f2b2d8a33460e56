/* Which words are keys: key specifications of every kind, and positions as Redis 6.2 tells them. */
#include "catalog_replies.h"
#include "told.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void tell(void *arg, uint32_t index)
{
	kw_buffer_printf(arg, "%u ", index);
}

struct keys_case {
	const char *command;
	enum kw_repl_keys result;
	const char *indexes;
};

static void assert_keys(const char *catalog_text, const struct keys_case *cases, size_t count)
{
	struct kw_repl_catalog *catalog = catalog_from(catalog_text);

	for (size_t i = 0; i < count; i++) {
		struct told_command made;
		struct kw_buffer told = {0};
		enum kw_repl_keys result = kw_repl_catalog_keys(
			catalog, told_command(&made, cases[i].command), tell, &told);

		if (result != cases[i].result)
			fail_msg("%s: %d", cases[i].command, (int)result);
		assert_string_equal(told_text(&told), cases[i].indexes);
		kw_buffer_close(&told);
	}
	kw_repl_catalog_free(catalog);
}

#define ASSERT_KEYS(text, cases) assert_keys(text, cases, sizeof(cases) / sizeof *(cases))

static void key_specifications_name_the_keys_that_may_change(void **state)
{
	static const char text[] =
		"zadd write 1 1 1 | RW index 1 range 0 1 0\n"
		"del write 1 -1 1 | RM,DELETE index 1 range -1 1 0\n"
		"mset write 1 -1 2 | OW index 1 range -1 2 0\n"
		"get readonly 1 1 1 | RO index 1 range 0 1 0\n"
		"blpop write 1 -2 1 | RW index 1 range -2 1 0\n"
		"xclaim write 1 1 1 | RW index 1 range 0 1 0\n"
		"xreadgroup write 0 0 0 | RO keyword STREAMS 4 range -1 1 2\n"
		"readwrite write 0 0 0 | RW keyword STREAMS 4 range -1 1 2\n"
		"georadius write 1 1 1 | RO index 1 range 0 1 0 | OW keyword STORE 6 range 0 1 0 | "
		"OW keyword STOREDIST 6 range 0 1 0\n"
		"behind write 0 0 0 | OW keyword TO -2 range 0 1 0\n"
		"zunionstore write 0 0 0 | OW index 1 range 0 1 0 | RO index 2 keynum 0 1 1\n"
		"lmpop write 0 0 0 | RW index 1 keynum 0 1 1\n"
		"pairs write 0 0 0 | RW index 2 keynum 0 1 2\n"
		"sort write 1 1 1 | RO index 1 range 0 1 0 | OW unknown unknown\n"
		"partly write 1 1 1 | RW,incomplete index 1 range 0 1 0\n"
		"xgroup - 0 0 0 |\n"
		"xgroup.create write 2 2 1 | RW index 2 range 0 1 0\n"
		"xgroup.help - 0 0 0 |\n"
		"publish - 0 0 0 |\n"
		"odd write 0 0 0 |\n";
	static const struct keys_case cases[] = {
		{"ZADD k 1 m", KW_REPL_KEYS_TOLD, "1 "},
		{"zadd k 1 m", KW_REPL_KEYS_TOLD, "1 "},
		{"DEL a b c", KW_REPL_KEYS_TOLD, "1 2 3 "},
		{"MSET a 1 b 2", KW_REPL_KEYS_TOLD, "1 3 "},
		{"GET k", KW_REPL_KEYS_TOLD, ""}, /* only read */
		{"BLPOP a b 0", KW_REPL_KEYS_TOLD, "1 2 "},
		{"XREADGROUP GROUP g c STREAMS a b 0 0", KW_REPL_KEYS_TOLD, ""},
		{"READWRITE GROUP g c STREAMS a b 0 0", KW_REPL_KEYS_TOLD, "5 6 "},
		{"GEORADIUS k 1 2 3 m STORE d", KW_REPL_KEYS_TOLD, "7 "},
		{"GEORADIUS k 1 2 3 m storedist d", KW_REPL_KEYS_TOLD, "7 "},
		{"GEORADIUS k 1 2 3 m", KW_REPL_KEYS_TOLD, ""},
		{"BEHIND TO x TO y", KW_REPL_KEYS_TOLD, "4 "}, /* sought from the end */
		{"ZUNIONSTORE d 2 a b", KW_REPL_KEYS_TOLD, "1 "},
		{"LMPOP 2 a b LEFT", KW_REPL_KEYS_TOLD, "2 3 "},
		{"PAIRS x 2 a 1 b 2", KW_REPL_KEYS_TOLD, "3 5 "},
		{"XGROUP CREATE k g $", KW_REPL_KEYS_TOLD, "2 "},
		{"xgroup create k g $", KW_REPL_KEYS_TOLD, "2 "},
		{"XGROUP HELP", KW_REPL_KEYS_NONE, ""},
		{"PUBLISH c m", KW_REPL_KEYS_NONE, ""},
		/* Nobody knows. */
		{"SORT k STORE d", KW_REPL_KEYS_UNKNOWN, ""},
		{"PARTLY k", KW_REPL_KEYS_UNKNOWN, ""},
		{"XGROUP OTHER k", KW_REPL_KEYS_ANYWHERE, ""},
		{"XGROUP", KW_REPL_KEYS_ANYWHERE, ""},
		{"ODD k", KW_REPL_KEYS_UNKNOWN, ""}, /* writes, and says no key */
		{"NEWER k", KW_REPL_KEYS_ANYWHERE, ""},
		/* What no server accepts. */
		{"ZADD", KW_REPL_KEYS_UNKNOWN, ""},
		{"LMPOP x a", KW_REPL_KEYS_UNKNOWN, ""},
		{"LMPOP -1 a", KW_REPL_KEYS_UNKNOWN, ""},
		{"LMPOP 3 a b", KW_REPL_KEYS_UNKNOWN, "2 3 "},
		{"LMPOP 99999999999999 a", KW_REPL_KEYS_UNKNOWN, ""},
		{"LMPOP ~ a", KW_REPL_KEYS_UNKNOWN, ""},
		{"GEORADIUS k 1 2 3 m STORE", KW_REPL_KEYS_UNKNOWN, ""},
	};

	ASSERT_KEYS(text, cases);
}

static void a_module_that_names_its_keys_by_a_function_is_unknown(void **state)
{
	static const char text[] =
		"plainmod write,module 1 1 1 | RW index 1 range 0 1 0\n"
		"asksmod write,module,movablekeys 1 1 1 | RW index 1 range 0 1 0\n";
	static const struct keys_case cases[] = {
		{"PLAINMOD a b", KW_REPL_KEYS_TOLD, "1 "},
		{"ASKSMOD a b", KW_REPL_KEYS_UNKNOWN, "1 "},
	};

	ASSERT_KEYS(text, cases);
}

static void positions_do_where_a_server_tells_no_specifications(void **state)
{
	static const char text[] = "zadd write 1 1 1\n"
				   "mset write 1 -1 2\n"
				   "blpop write 1 -2 1\n"
				   "rename write 1 2 1\n"
				   "pfcount readonly,may_replicate 1 -1 1\n"
				   "xgroup write 2 2 1\n"
				   "eval movablekeys 0 0 0\n"
				   "zunionstore write,movablekeys 1 1 1\n"
				   "publish pubsub 0 0 0\n"
				   "flushall write 0 0 0\n";
	static const struct keys_case cases[] = {
		{"ZADD k 1 m", KW_REPL_KEYS_TOLD, "1 "},
		{"MSET a 1 b 2", KW_REPL_KEYS_TOLD, "1 3 "},
		{"BLPOP a b 0", KW_REPL_KEYS_TOLD, "1 2 "},
		{"RENAME a b", KW_REPL_KEYS_TOLD, "1 2 "},
		/* It is sent if it changed the number that is kept in its key. */
		{"PFCOUNT a b", KW_REPL_KEYS_TOLD, "1 2 "},
		{"XGROUP CREATE k g $", KW_REPL_KEYS_TOLD, "2 "},
		{"PUBLISH c m", KW_REPL_KEYS_NONE, ""},
		{"EVAL x 1 k", KW_REPL_KEYS_UNKNOWN, ""},
		{"ZUNIONSTORE d 2 a b", KW_REPL_KEYS_UNKNOWN, "1 "},
		{"FLUSHALL", KW_REPL_KEYS_UNKNOWN, ""},
	};

	ASSERT_KEYS(text, cases);
}

static void a_command_that_was_cut_is_unknown_if_its_keys_may_be_behind_the_cut(void **state)
{
	static const char text[] = "del write 1 -1 1 | RM index 1 range -1 1 0\n"
				   "zadd write 1 1 1 | RW index 1 range 0 1 0\n"
				   "store write 0 0 0 | OW keyword STORE 2 range 0 1 0\n";
	struct kw_repl_catalog *catalog = catalog_from(text);
	static const struct keys_case cases[] = {
		{"DEL a b", KW_REPL_KEYS_UNKNOWN, ""},
		{"ZADD k 1 m", KW_REPL_KEYS_TOLD, "1 "},
		{"STORE a b", KW_REPL_KEYS_UNKNOWN, ""},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct told_command made;
		struct kw_buffer told = {0};

		told_command(&made, cases[i].command);
		made.command.cut = true;
		assert_int_equal(
			kw_repl_catalog_keys(catalog, &made.command, tell, &told), cases[i].result);
		assert_string_equal(told_text(&told), cases[i].indexes);
		kw_buffer_close(&told);
	}
	kw_repl_catalog_free(catalog);
}

static void without_a_catalog_nothing_is_known(void **state)
{
	struct told_command made;

	assert_int_equal(kw_repl_catalog_keys(NULL, told_command(&made, "ZADD k 1 m"), tell, NULL),
		KW_REPL_KEYS_ANYWHERE);
}

static void a_reply_that_is_no_list_of_commands_is_refused(void **state)
{
	static const struct kw_reply number = {.type = KW_REPLY_INTEGER},
				     nil = {.type = KW_REPLY_NIL},
				     entry = {.type = KW_REPLY_ARRAY, .elements = &nil, .count = 1};
	const struct kw_reply replies[] = {number, nil, {.type = KW_REPLY_ARRAY},
		{.type = KW_REPLY_ARRAY, .elements = &number, .count = 1},
		{.type = KW_REPLY_ARRAY, .elements = &entry, .count = 1}};
	struct kw_repl_catalog *catalog;
	struct kw_error error;

	for (size_t i = 0; i < sizeof replies / sizeof *replies; i++)
		assert_int_equal(kw_repl_catalog_new(&replies[i], &catalog, &error), KW_E_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_specifications_name_the_keys_that_may_change),
		cmocka_unit_test(a_module_that_names_its_keys_by_a_function_is_unknown),
		cmocka_unit_test(positions_do_where_a_server_tells_no_specifications),
		cmocka_unit_test(
			a_command_that_was_cut_is_unknown_if_its_keys_may_be_behind_the_cut),
		cmocka_unit_test(without_a_catalog_nothing_is_known),
		cmocka_unit_test(a_reply_that_is_no_list_of_commands_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
