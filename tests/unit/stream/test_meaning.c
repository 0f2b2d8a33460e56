/* What each command of the stream means for keys. told.h says how commands and effects are written.
 */
#include "catalog_replies.h"
#include "told.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct meaning_case {
	const char *command, *effects;
};

static struct kw_repl_catalog *catalog;

static int make_catalog(void **state)
{
	catalog = catalog_from(usual_catalog);
	return 0;
}

static int free_catalog(void **state)
{
	kw_repl_catalog_free(catalog);
	return 0;
}

static void hear(void *arg, const struct kw_repl_effect *effect)
{
	told_effect(arg, effect);
}

static void assert_meaning(const char *command, bool cut, uint32_t database, const char *effects)
{
	struct told_command made;
	struct kw_buffer told = {0};

	told_command(&made, command);
	made.command.cut = cut;
	kw_repl_meaning(&made.command, database, catalog, hear, &told);
	if (strcmp(told_text(&told), effects) != 0)
		fail_msg("%s in %" PRIu32 ": %s, not %s", command, database, told_text(&told),
			effects);
	kw_buffer_close(&told);
}

static void assert_meanings(const struct meaning_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_meaning(cases[i].command, false, 0, cases[i].effects);
}

#define ASSERT_MEANINGS(cases) assert_meanings(cases, sizeof(cases) / sizeof *(cases))

static void whole_values_are_known(void **state)
{
	static const struct meaning_case cases[] = {
		{"SET k v", "VALUE k=v;"},
		{"set k v", "VALUE k=v;"},
		{"SET k ''", "VALUE k=;"},
		{"SET '' v", "VALUE =v;"},
		{"SET k v NX", "VALUE k=v;"}, /* it was set, or nothing would have been sent */
		{"SET k v XX GET", "VALUE k=v;"},
		{"SET k v PXAT 1700000000123", "VALUE k=v at 1700000000123;"},
		{"SET k v EXAT 1700000000", "VALUE k=v at 1700000000000;"},
		{"SET k v xx pxat 5", "VALUE k=v at 5;"},
		{"SET k v KEEPTTL", "VALUE k=v kept;"},
		{"SET k v XX KEEPTTL", "VALUE k=v kept;"},
		{"SETNX k v", "VALUE k=v;"},
		{"GETSET k v", "VALUE k=v;"},
		{"MSET a 1 b 2", "VALUE a=1;VALUE b=2;"},
		{"MSETNX a 1", "VALUE a=1;"},
		{"RESTORE k 0 p", "PAYLOAD k=p;"},
		{"RESTORE k 0 p REPLACE", "PAYLOAD k=p;"},
		{"RESTORE k 77 p REPLACE ABSTTL", "PAYLOAD k=p at 77;"},
		{"RESTORE k 0 p IDLETIME 3 FREQ 4 replace absttl", "PAYLOAD k=p;"},
		{"RESTORE-ASKING k 0 p", "PAYLOAD k=p;"},
	};

	ASSERT_MEANINGS(cases);
}

static void what_goes_and_what_expires_is_known(void **state)
{
	static const struct meaning_case cases[] = {
		{"DEL a", "DELETE a;"},
		{"DEL a b c", "DELETE a;DELETE b;DELETE c;"},
		{"UNLINK a", "DELETE a;"},
		{"GETDEL a", "DELETE a;"},
		{"PEXPIREAT k 5", "EXPIRY k at 5;"},
		{"PEXPIREAT k 5 NX", "EXPIRY k at 5;"},
		{"EXPIREAT k 5", "EXPIRY k at 5000;"},
		{"PERSIST k", "EXPIRY k never;"},
		{"FLUSHDB", "FLUSH;"},
		{"FLUSHDB ASYNC", "FLUSH;"},
		{"FLUSHALL", "*:FLUSHALL;"},
		{"FLUSHALL SYNC", "*:FLUSHALL;"},
		{"SWAPDB 1 2", "1:SWAP 2;"},
		{"SWAPDB 2 2", ""},
	};

	ASSERT_MEANINGS(cases);
}

static void what_is_done_to_a_known_string_is_known(void **state)
{
	static const struct meaning_case cases[] = {
		{"INCR k", "ADD k+1;"},
		{"DECR k", "ADD k-1;"},
		{"INCRBY k 17", "ADD k+17;"},
		{"INCRBY k -17", "ADD k-17;"},
		{"DECRBY k 17", "ADD k-17;"},
		{"DECRBY k -17", "ADD k+17;"},
		{"INCRBY k 9223372036854775807", "ADD k+9223372036854775807;"},
		{"APPEND k v", "APPEND k=v;"},
		{"APPEND k ''", "APPEND k=;"},
		{"SETRANGE k 3 v", "WRITE k[3]=v;"},
	};

	ASSERT_MEANINGS(cases);
}

static void keys_change_their_names_with_all_that_they_have(void **state)
{
	static const struct meaning_case cases[] = {
		{"RENAME a b", "MOVE a>b;"},
		{"RENAMENX a b", "MOVE a>b;"},
		{"RENAME a a", "TOUCH a;TOUCH a;"},
		{"MOVE a 3", "MOVE a>3:a;"},
		{"MOVE a 70000", "MOVE a>70000:a;"},
		{"MOVE a 0", "*:DOUBT;"},
		{"MOVE a x", "*:DOUBT;"},
		{"COPY a b", "COPY a>b;"},
		{"COPY a b REPLACE", "COPY a>b;"},
		{"COPY a a DB 2 REPLACE", "COPY a>2:a;"},
		{"COPY a b DB", "*:DOUBT;"},
		{"COPY a b NEWER", "*:DOUBT;"},
	};

	ASSERT_MEANINGS(cases);
}

static void all_other_commands_touch_their_keys(void **state)
{
	static const struct meaning_case cases[] = {
		{"ZADD k 1 m", "TOUCH k;"},
		{"SMOVE a b m", "TOUCH a;TOUCH b;"},
		{"LMPOP 2 a b LEFT", "TOUCH a;TOUCH b;"},
		{"ZUNIONSTORE d 2 a b", "TOUCH d;"},
		{"PFCOUNT a b", "TOUCH a;TOUCH b;"},
		{"SORT a STORE d", "TOUCH d;"},
		{"SORT a BY w_* LIMIT 0 10 GET # STORE d ALPHA DESC", "TOUCH d;"},
		{"SORT a BY STORE STORE d", "TOUCH d;"},
		{"GEORADIUS a 1 2 3 m STORE d", "TOUCH d;"},
		{"georadius a 1 2 3 m COUNT 5 ANY STORE d storedist e", "TOUCH d;TOUCH e;"},
		{"GEORADIUSBYMEMBER a STORE 3 m ASC STOREDIST d", "TOUCH d;"},
		{"GET k", ""},
	};

	ASSERT_MEANINGS(cases);
}

static void a_form_that_is_not_understood_touches_its_keys(void **state)
{
	static const struct meaning_case cases[] = {
		{"SET k v PX 100", "TOUCH k;"}, /* a time from now on, of Redis 6.2 */
		{"SET k v EX 100", "TOUCH k;"},
		{"SET k v IFEQ w", "TOUCH k;"},
		{"SET k v PXAT", "TOUCH k;"},
		{"SET k v PXAT x", "TOUCH k;"},
		{"SET k v PXAT -5", "TOUCH k;"},
		{"SET k v EXAT 9223372036854775807", "TOUCH k;"},
		{"SET k ~", "TOUCH k;"}, /* a value too long to keep */
		{"MSET a 1 b ~ c 3", "VALUE a=1;TOUCH b;VALUE c=3;"},
		{"EXPIRE k 5", "TOUCH k;"},
		{"RESTORE k 100 p", "TOUCH k;"},
		{"RESTORE k 0 ~", "TOUCH k;"},
		{"RESTORE k 0 p NEWER", "TOUCH k;"},
		{"INCRBY k x", "TOUCH k;"},
		{"INCRBY k -9223372036854775808", "TOUCH k;"},
		{"SETRANGE k -1 v", "TOUCH k;"},
		{"SETRANGE k 1 ~", "TOUCH k;"},
	};

	ASSERT_MEANINGS(cases);
}

static void what_cannot_be_named_is_a_doubt_of_its_database(void **state)
{
	static const struct meaning_case cases[] = {
		{"ODD k", "DOUBT;"},   /* writes, and says no key */
		{"SET ~ v", "DOUBT;"}, /* a key too long to keep */
		{"DEL a ~ c", "DELETE a;DOUBT;DELETE c;"},
		{"ZADD ~ 1 m", "DOUBT;"},
		{"SORT a STORE d NEWER", "DOUBT;"},
		{"SET k", "TOUCH k;"},
		{"SWAPDB 1 x", "*:DOUBT;"},
		{"SWAPDB 1 2147483648", "*:DOUBT;"},
		/* A script itself may write anywhere. */
		{"EVAL x 0", "*:DOUBT;"},
		{"EVALSHA x 0", "*:DOUBT;"},
		{"FCALL f 0", "*:DOUBT;"},
	};

	ASSERT_MEANINGS(cases);
}

/* It can be MOVE or SWAPDB under another name (rename-command), and so of any database. */
static void what_no_list_has_is_a_doubt_of_every_database(void **state)
{
	static const struct meaning_case cases[] = {
		{"NEWER k v", "*:DOUBT;"},
		{"swapx 3 4", "*:DOUBT;"},
		{"~ k v", "*:DOUBT;"},
	};

	ASSERT_MEANINGS(cases);
}

static void commands_of_the_stream_itself_mean_nothing_for_keys(void **state)
{
	static const struct meaning_case cases[] = {
		{"PING", ""},
		{"REPLCONF GETACK *", ""},
		{"PUBLISH c m", ""},
		{"SPUBLISH c m", ""},
		{"SCRIPT LOAD x", ""},
		{"WAIT 1 0", ""},
		{"FUNCTION LOAD x", "FUNCTIONS;"},
		{"function load replace x", "FUNCTIONS;"},
		{"function flush", "FLUSHED;"},
		{"FUNCTION DELETE x", "FUNCTIONS;"},
		{"FUNCTION RESTORE x FLUSH", "FUNCTIONS;"},
		{"FUNCTION", "FUNCTIONS;"},
	};

	ASSERT_MEANINGS(cases);
}

static void effects_are_of_the_database_that_is_selected(void **state)
{
	static const struct meaning_case cases[] = {
		{"SET k v", "7:VALUE k=v;"},
		{"ZADD k 1 m", "7:TOUCH k;"},
		{"RENAME a b", "7:MOVE a>7:b;"},
		{"COPY a b", "7:COPY a>7:b;"},
		{"COPY a b DB 0", "7:COPY a>b;"},
		{"MOVE a 0", "7:MOVE a>a;"},
		{"FLUSHDB", "7:FLUSH;"},
		{"ZADD ~ 1 m", "7:DOUBT;"},
		{"NEWER k", "*:DOUBT;"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_meaning(cases[i].command, false, 7, cases[i].effects);
}

static void before_the_first_select_a_key_is_touched_in_every_database(void **state)
{
	static const struct meaning_case cases[] = {
		{"SET k v", "*:TOUCH k;"},
		{"DEL a b", "*:TOUCH a;*:TOUCH b;"},
		{"PERSIST k", "*:TOUCH k;"},
		{"INCR k", "*:TOUCH k;"},
		{"ZADD k 1 m", "*:TOUCH k;"},
		{"RENAME a b", "*:TOUCH a;*:TOUCH b;"},
		{"MOVE a 3", "*:TOUCH a;3:TOUCH a;"},
		{"COPY a b DB 3", "*:TOUCH a;3:TOUCH b;"},
		{"FLUSHDB", "*:FLUSH;"},
		{"FLUSHALL", "*:FLUSHALL;"},
		{"SWAPDB 1 2", "1:SWAP 2;"},
		{"NEWER k", "*:DOUBT;"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_meaning(cases[i].command, false, KW_REPL_ANY_DATABASE, cases[i].effects);
}

static void a_command_that_was_cut_is_never_taken_for_whole(void **state)
{
	static const struct meaning_case cases[] = {
		{"SET k v", "TOUCH k;"}, /* an option may be behind the cut */
		{"MSET a 1 b 2", "DOUBT;"},
		{"DEL a b", "DELETE a;DELETE b;DOUBT;"},
		{"PFCOUNT a b", "DOUBT;"},
		{"ZADD k 1 m", "TOUCH k;"},
		{"SMOVE a", "TOUCH a;DOUBT;"},
		{"RENAME a", "TOUCH a;DOUBT;"},
		{"PUBLISH c m", ""},
		{"FLUSHALL", "*:FLUSHALL;"},
		{"", "*:DOUBT;"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_meaning(cases[i].command, true, 0, cases[i].effects);
}

static void numbers_are_read_as_the_server_reads_them(void **state)
{
	static const char *const none[] = {"", "-", "+1", " 1", "1 ", "01", "-0", "-01", "1.0",
		"0x1", "9223372036854775808", "-9223372036854775809", "99999999999999999999",
		"111111111111111111111"};
	static const struct {
		const char *text;
		int64_t number;
	} some[] = {{"0", 0}, {"-1", -1}, {"10", 10}, {"9223372036854775807", INT64_MAX},
		{"-9223372036854775808", INT64_MIN}};
	int64_t number;

	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_false(kw_repl_number(kw_slice_text(none[i]), &number));
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		assert_true(kw_repl_number(kw_slice_text(some[i].text), &number));
		assert_true(number == some[i].number);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_values_are_known),
		cmocka_unit_test(what_goes_and_what_expires_is_known),
		cmocka_unit_test(what_is_done_to_a_known_string_is_known),
		cmocka_unit_test(keys_change_their_names_with_all_that_they_have),
		cmocka_unit_test(all_other_commands_touch_their_keys),
		cmocka_unit_test(a_form_that_is_not_understood_touches_its_keys),
		cmocka_unit_test(what_cannot_be_named_is_a_doubt_of_its_database),
		cmocka_unit_test(what_no_list_has_is_a_doubt_of_every_database),
		cmocka_unit_test(commands_of_the_stream_itself_mean_nothing_for_keys),
		cmocka_unit_test(effects_are_of_the_database_that_is_selected),
		cmocka_unit_test(before_the_first_select_a_key_is_touched_in_every_database),
		cmocka_unit_test(a_command_that_was_cut_is_never_taken_for_whole),
		cmocka_unit_test(numbers_are_read_as_the_server_reads_them),
	};

	return cmocka_run_group_tests(tests, make_catalog, free_catalog);
}
