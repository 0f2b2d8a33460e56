/* The string after INCRBY, APPEND and SETRANGE. A missing key is written as "none". */
#include "stream/amend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NUL "\\0"

struct amend_case {
	enum kw_repl_effect_kind kind;
	const char *before, *bytes;
	int64_t number;
	int code;
	const char *after;
};

static const struct amend_case cases[] = {
	{KW_REPL_ADD, "none", "", 5, KW_OK, "5"},
	{KW_REPL_ADD, "none", "", -5, KW_OK, "-5"},
	{KW_REPL_ADD, "10", "", 5, KW_OK, "15"},
	{KW_REPL_ADD, "-10", "", 10, KW_OK, "0"},
	{KW_REPL_ADD, "9223372036854775806", "", 1, KW_OK, "9223372036854775807"},
	{KW_REPL_ADD, "9223372036854775807", "", 1, KW_E_STATE, ""},
	{KW_REPL_ADD, "-9223372036854775808", "", -1, KW_E_STATE, ""},
	{KW_REPL_ADD, "1.5", "", 1, KW_E_STATE, ""},
	{KW_REPL_ADD, "", "", 1, KW_E_STATE, ""},
	{KW_REPL_ADD, " 1", "", 1, KW_E_STATE, ""},
	{KW_REPL_APPEND, "none", "ab", 0, KW_OK, "ab"},
	{KW_REPL_APPEND, "ab", "cd", 0, KW_OK, "abcd"},
	{KW_REPL_APPEND, "ab", "", 0, KW_OK, "ab"},
	{KW_REPL_APPEND, "none", "", 0, KW_OK, ""},
	{KW_REPL_APPEND, "0123456789", "abcdef", 0, KW_OK, "0123456789abcdef"},
	{KW_REPL_APPEND, "0123456789", "abcdefg", 0, KW_E_FULL, ""},
	{KW_REPL_WRITE, "abcdef", "XY", 2, KW_OK, "abXYef"},
	{KW_REPL_WRITE, "abcdef", "XY", 5, KW_OK, "abcdeXY"},
	{KW_REPL_WRITE, "abc", "XY", 3, KW_OK, "abcXY"},
	{KW_REPL_WRITE, "abc", "XY", 5, KW_OK, "abc" NUL NUL "XY"},
	{KW_REPL_WRITE, "none", "XY", 2, KW_OK, NUL NUL "XY"},
	{KW_REPL_WRITE, "none", "XY", 0, KW_OK, "XY"},
	{KW_REPL_WRITE, "abc", "", 9, KW_OK, "abc"},
	{KW_REPL_WRITE, "none", "", 9, KW_OK, "none"},
	{KW_REPL_WRITE, "abc", "XY", 14, KW_OK,
		"abc" NUL NUL NUL NUL NUL NUL NUL NUL NUL NUL NUL "XY"},
	{KW_REPL_WRITE, "abc", "XY", 15, KW_E_FULL, ""},
	{KW_REPL_WRITE, "abc", "XY", INT64_MAX, KW_E_FULL, ""},
};

static void assert_text(const struct kw_buffer *after, const char *wanted)
{
	struct kw_buffer shown = {0};

	for (size_t i = 0; i < kw_buffer_length(after); i++)
		kw_buffer_printf(
			&shown, kw_buffer_bytes(after)[i] ? "%c" : NUL, kw_buffer_bytes(after)[i]);
	kw_buffer_append(&shown, "", 1);
	assert_string_equal((const char *)kw_buffer_bytes(&shown), wanted);
	kw_buffer_close(&shown);
}

static void the_string_after_is_the_servers(void **state)
{
	struct kw_buffer after = {0};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct amend_case *one = &cases[i];
		const struct kw_slice text = kw_slice_text(one->before);
		const struct kw_repl_effect effect = {.kind = one->kind,
			.bytes = kw_slice_text(one->bytes),
			.number = one->number};
		bool none = strcmp(one->before, "none") == 0, exists = false;
		struct kw_error error = {0};

		assert_int_equal(
			kw_repl_amend(&effect, none ? NULL : &text, 16, &after, &exists, &error),
			one->code);
		assert_true(one->code == KW_OK || error.text[0] != '\0');
		if (one->code == KW_OK && strcmp(one->after, "none") == 0)
			assert_false(exists);
		else if (one->code == KW_OK)
			assert_text(&after, one->after);
	}
	kw_buffer_close(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_string_after_is_the_servers)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
