#include "apply/command.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_command(const struct kw_record_view *record, const char *expected, size_t length)
{
	struct kw_window window = {0};
	struct kw_window_entry *entry;

	kw_command_add(&window, record, false);
	entry = kw_window_unsent(&window);
	assert_int_equal(entry->length, length);
	assert_memory_equal(entry->bytes, expected, length);
	assert_int_equal(entry->database, record->database);
	if (record->kind != KW_RECORD_FLUSH)
		assert_true(kw_slice_equal(kw_window_key(entry), record->key));
	kw_window_close(&window);
}

#define COMMAND(record, text) assert_command(record, text, sizeof(text) - 1)

static void a_put_is_a_restore_that_replaces(void **state)
{
	const struct kw_record_view record = {
		.kind = KW_RECORD_PUT,
		.database = 9,
		.key = {"a\0b", 3},
		.value = {"0123456789", 10},
	};

	COMMAND(&record, "*5\r\n$7\r\nRESTORE\r\n$3\r\na\0b\r\n$1\r\n0\r\n$10\r\n0123456789\r\n"
			 "$7\r\nREPLACE\r\n");
}

static void an_expiry_is_absolute(void **state)
{
	const struct kw_record_view record = {
		.kind = KW_RECORD_PUT,
		.key = {"k", 1},
		.value = {"v", 1},
		.expires_ms = 1999999999999,
	};

	COMMAND(&record, "*6\r\n$7\r\nRESTORE\r\n$1\r\nk\r\n$13\r\n1999999999999\r\n$1\r\nv\r\n"
			 "$7\r\nREPLACE\r\n$6\r\nABSTTL\r\n");
}

static void empty_keys_and_values_are_possible(void **state)
{
	const struct kw_record_view record = {.kind = KW_RECORD_PUT};
	const struct kw_record_view gone = {.kind = KW_RECORD_DELETE};

	COMMAND(&record, "*5\r\n$7\r\nRESTORE\r\n$0\r\n\r\n$1\r\n0\r\n$0\r\n\r\n"
			 "$7\r\nREPLACE\r\n");
	COMMAND(&gone, "*2\r\n$6\r\nUNLINK\r\n$0\r\n\r\n");
}

static void a_delete_is_an_unlink_and_a_flush_leaves_other_databases(void **state)
{
	const struct kw_record_view gone = {.kind = KW_RECORD_DELETE, .key = {"key", 3}};
	const struct kw_record_view flush = {.kind = KW_RECORD_FLUSH, .database = 3};

	COMMAND(&gone, "*2\r\n$6\r\nUNLINK\r\n$3\r\nkey\r\n");
	COMMAND(&flush, "*2\r\n$7\r\nFLUSHDB\r\n$5\r\nASYNC\r\n");
}

static void a_flush_of_what_is_not_wholly_ours_is_a_sweep_without_bytes(void **state)
{
	const struct kw_record_view flush = {.kind = KW_RECORD_FLUSH, .database = 3};
	struct kw_window window = {0};

	kw_command_add(&window, &flush, true);
	assert_int_equal(kw_window_unsent(&window)->kind, KW_WINDOW_SWEEP);
	assert_int_equal(kw_window_unsent(&window)->length, 0);
	assert_int_equal(kw_window_unsent(&window)->database, 3);
	kw_window_mark_sent(&window);
	kw_window_answer(&window, true);
	kw_window_close(&window);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_put_is_a_restore_that_replaces),
		cmocka_unit_test(an_expiry_is_absolute),
		cmocka_unit_test(empty_keys_and_values_are_possible),
		cmocka_unit_test(a_delete_is_an_unlink_and_a_flush_leaves_other_databases),
		cmocka_unit_test(a_flush_of_what_is_not_wholly_ours_is_a_sweep_without_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
