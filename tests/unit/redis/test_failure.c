/* What an exchange that did not succeed tells the program: by table. */
#include "redis/failure.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void an_answer_becomes_a_code_and_a_class(void **state)
{
	static const struct {
		enum kw_reply_type type;
		const char *text; /* NULL: no answer, the connection is lost */
		enum kw_code code;
		enum kw_server_error answer;
		bool passes;
	} cases[] = {
		{KW_REPLY_ERROR, "LOADING Redis is loading", KW_E_STATE, KW_SERVER_E_LOADING, true},
		{KW_REPLY_ERROR, "BUSY a script", KW_E_STATE, KW_SERVER_E_BUSY, true},
		{KW_REPLY_ERROR, "MASTERDOWN Link", KW_E_STATE, KW_SERVER_E_MASTERDOWN, true},
		{KW_REPLY_ERROR, "READONLY a replica", KW_E_STATE, KW_SERVER_E_READONLY, false},
		{KW_REPLY_ERROR, "MISCONF no disk", KW_E_STATE, KW_SERVER_E_MISCONF, false},
		{KW_REPLY_ERROR, "OOM command", KW_E_FULL, KW_SERVER_E_OOM, false},
		{KW_REPLY_ERROR, "NOPERM this user", KW_E_REFUSED, KW_SERVER_E_PERMISSION, false},
		{KW_REPLY_ERROR, "ERR Bad data format", KW_E_REFUSED, KW_SERVER_E_PAYLOAD, false},
		{KW_REPLY_ERROR, "ERR no such OOM", KW_E_REFUSED, KW_SERVER_E_OTHER, false},
		{KW_REPLY_STRING, "OOM said a string", KW_E_PROTOCOL, KW_SERVER_E_NONE, false},
		{KW_REPLY_ERROR, NULL, KW_E_IO, KW_SERVER_E_NONE, false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *text = cases[i].text ? cases[i].text : "";
		struct kw_reply reply = {.type = cases[i].type, .text = kw_slice_text(text)};
		struct kw_failure failure = {0};

		assert_false(kw_failed(&failure));
		kw_failure_answered(
			&failure, cases[i].text ? &reply : NULL, "GET answers \"%s\"", text);
		assert_true(kw_failed(&failure));
		assert_int_equal(failure.code, cases[i].code);
		assert_int_equal(failure.answer, cases[i].answer);
		assert_int_equal(kw_failure_passes(&failure), cases[i].passes);
	}
}

static void what_we_refuse_ourselves_is_no_answer(void **state)
{
	struct kw_failure failure = {0};

	kw_failure_set(&failure, KW_E_STATE, "module \"%s\" does not bear a load", "LOADING OOM");
	assert_int_equal(failure.code, KW_E_STATE);
	assert_int_equal(failure.answer, KW_SERVER_E_NONE);
	assert_false(kw_failure_passes(&failure));
	assert_string_equal(failure.text, "module \"LOADING OOM\" does not bear a load");
}

static void a_class_that_was_kept_is_told_again(void **state)
{
	struct kw_failure failure = {0};

	kw_failure_of_class(&failure, KW_SERVER_E_PERMISSION, "SELECT answers \"%s\"", "NOPERM");
	assert_int_equal(failure.code, KW_E_REFUSED);
	assert_int_equal(failure.answer, KW_SERVER_E_PERMISSION);
	assert_string_equal(failure.text, "SELECT answers \"NOPERM\"");
}

static void a_sentence_without_end_is_cut(void **state)
{
	char words[2 * KW_ERROR_TEXT];
	struct kw_failure failure;

	memset(words, 'x', sizeof words);
	kw_failure_set(&failure, KW_E_IO, "%.*s", (int)sizeof words, words);
	assert_int_equal(strlen(failure.text), KW_ERROR_TEXT - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_becomes_a_code_and_a_class),
		cmocka_unit_test(what_we_refuse_ourselves_is_no_answer),
		cmocka_unit_test(a_class_that_was_kept_is_told_again),
		cmocka_unit_test(a_sentence_without_end_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
