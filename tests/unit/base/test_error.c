#include "base/error.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void set_keeps_code_and_sentence_and_returns_the_code(void **state)
{
	struct kw_error error = {0};

	assert_int_equal(kw_error_set(&error, KW_E_REFUSED, "agent %s: %d", "a1", 7), KW_E_REFUSED);
	assert_int_equal(error.code, KW_E_REFUSED);
	assert_string_equal(error.text, "agent a1: 7");
}

static void wrap_puts_who_tried_before_what_failed(void **state)
{
	struct kw_error error = {0};

	kw_error_set(&error, KW_E_TIMEOUT, "deadline of %d ms passed", 500);
	assert_int_equal(kw_error_wrap(&error, "segment %d", 12), KW_E_TIMEOUT);
	assert_int_equal(kw_error_wrap(&error, "agent"), KW_E_TIMEOUT);
	assert_string_equal(error.text, "agent: segment 12: deadline of 500 ms passed");
	assert_int_equal(error.code, KW_E_TIMEOUT);
}

static void errno_is_told_in_words(void **state)
{
	struct kw_error error = {0};

	assert_int_equal(kw_error_errno(&error, ENOENT, "open %s", "/x"), KW_E_IO);
	assert_string_equal(error.text, "open /x: No such file or directory");
	assert_int_equal(kw_error_errno(&error, ENOMEM, "mmap"), KW_E_NOMEM);
}

static void what_does_not_fit_is_cut_and_ended(void **state)
{
	struct kw_error error = {0};
	char large[4 * KW_ERROR_TEXT];

	memset(large, 'q', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	kw_error_set(&error, KW_E_IO, "%s", large);
	assert_int_equal(strlen(error.text), KW_ERROR_TEXT - 1);
	kw_error_wrap(&error, "front");
	assert_int_equal(strlen(error.text), KW_ERROR_TEXT - 1);
	assert_memory_equal(error.text, "front: qqq", 10);
	kw_error_wrap(&error, "%s", large);
	assert_int_equal(strlen(error.text), KW_ERROR_TEXT - 1);
	kw_error_errno(&error, EIO, "%s", large);
	assert_int_equal(strlen(error.text), KW_ERROR_TEXT - 1);
}

static void a_sentence_is_data_never_a_format(void **state)
{
	struct kw_error error = {0};

	kw_error_set(&error, KW_E_IO, "%s", "100%s of %n");
	kw_error_wrap(&error, "outer");
	assert_string_equal(error.text, "outer: 100%s of %n");
}

static void nobody_has_to_want_the_sentence(void **state)
{
	assert_int_equal(kw_error_set(NULL, KW_E_FULL, "x"), KW_E_FULL);
	assert_int_equal(kw_error_errno(NULL, EIO, "x"), KW_E_IO);
	assert_int_not_equal(kw_error_wrap(NULL, "x"), KW_OK);
}

static void every_code_has_a_name_and_others_do_too(void **state)
{
	for (int a = KW_OK; a <= KW_E_GONE; a++) {
		assert_non_null(kw_code_name((enum kw_code)a));
		for (int b = KW_OK; b < a; b++)
			assert_string_not_equal(
				kw_code_name((enum kw_code)a), kw_code_name((enum kw_code)b));
	}
	assert_non_null(kw_code_name((enum kw_code)999));
	assert_non_null(kw_code_name((enum kw_code) - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_keeps_code_and_sentence_and_returns_the_code),
		cmocka_unit_test(wrap_puts_who_tried_before_what_failed),
		cmocka_unit_test(errno_is_told_in_words),
		cmocka_unit_test(what_does_not_fit_is_cut_and_ended),
		cmocka_unit_test(a_sentence_is_data_never_a_format),
		cmocka_unit_test(nobody_has_to_want_the_sentence),
		cmocka_unit_test(every_code_has_a_name_and_others_do_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
