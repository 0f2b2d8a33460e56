/* Which numbers are told as texts, so that no reader rounds them. */
#include "control/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

static void what_a_double_rounds_is_a_text(void **state)
{
	static const struct {
		const char *name;
		json_int_t number;
		const char *text; /* NULL: it stays a number */
	} cases[] = {
		{"version", 0, NULL},
		{"version", INT64_C(9007199254740992), NULL},
		{"version", INT64_C(-9007199254740992), NULL},
		{"version", INT64_C(9007199254740993), "9007199254740993"},
		{"version", INT64_C(-9007199254740993), "-9007199254740993"},
		{"version", INT64_MIN, "-9223372036854775808"},
		{"epoch", 77, "000000000000004d"},
		{"epoch", 0, "0000000000000000"},
		{"epoch", INT64_C(5351230973542938896), "4a436437e9183910"},
		{"epoch", -1, "ffffffffffffffff"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		json_t *number = json_integer(cases[i].number);
		char text[KW_JSON_EXACT_TEXT];

		assert_int_equal(kw_json_exact_text(cases[i].name, number, text), !!cases[i].text);
		if (cases[i].text)
			assert_string_equal(text, cases[i].text);
		json_decref(number);
	}
}

static void what_is_no_integer_stays_as_it_is(void **state)
{
	char text[KW_JSON_EXACT_TEXT];
	json_t *real = json_real(1e300), *word = json_string("7");

	assert_false(kw_json_exact_text("epoch", real, text));
	assert_false(kw_json_exact_text("epoch", word, text));
	assert_false(kw_json_exact_text("epoch", NULL, text));
	json_decref(real);
	json_decref(word);
}

static void texts_are_put_however_deep_and_the_original_stays(void **state)
{
	static const char before[] =
		"{\"a\":[{\"epoch\":1,\"offset\":9007199254740993}],\"b\":[9007199254740993,null],"
		"\"c\":{\"d\":true,\"e\":1.5}}";
	static const char after[] =
		"{\"a\":[{\"epoch\":\"0000000000000001\",\"offset\":\"9007199254740993\"}],"
		"\"b\":[\"9007199254740993\",null],\"c\":{\"d\":true,\"e\":1.5}}";
	json_t *value = json_loads(before, 0, NULL), *exact = kw_json_exact(value);
	char *told = json_dumps(exact, JSON_COMPACT), *kept = json_dumps(value, JSON_COMPACT);

	assert_string_equal(told, after);
	assert_string_equal(kept, before);
	free(told);
	free(kept);
	json_decref(exact);
	json_decref(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_double_rounds_is_a_text),
		cmocka_unit_test(what_is_no_integer_stays_as_it_is),
		cmocka_unit_test(texts_are_put_however_deep_and_the_original_stays),
	};

	return cmocka_run_group_tests_name("json-text", tests, NULL, NULL);
}
