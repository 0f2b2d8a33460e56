/* Comments and last commas go; what is left is the same text, in the same place. */
#include "control/json_comments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static enum kw_json_comments pass(const char *text, char *out, struct kw_json_place *open)
{
	size_t length = strlen(text);
	enum kw_json_comments found;

	memcpy(out, text, length);
	found = kw_json_blank_comments(out, &length, open);
	assert_true(length <= strlen(text));
	out[length] = '\0';
	return found;
}

static void becomes(const char *text, const char *expected)
{
	struct kw_json_place open;
	char out[256];

	assert_int_equal(pass(text, out, &open),
		strcmp(text, expected) == 0 ? KW_JSON_COMMENTS_NONE : KW_JSON_COMMENTS_BLANKED);
	assert_string_equal(out, expected);
}

static void json_without_comments_stays_as_it_is(void **state)
{
	static const char *const same[] = {
		"",
		" ",
		"{}",
		"[1, 2]",
		"{\"a\": [{\"b\": null}, -1.5e3]}\n",
		"\"\"",
		"/",
		"a / b",
		"*/",
		"{\"a\": \"// no comment\", \"b\": \"/* nor this */\", \"c\": \",]\"}",
		"[\"\\\"// still the text\", \"\\\\\", 1]",
		"[\"open // text",
		"[\"open \\",
		"\xc3\xa4\xff",
	};

	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		becomes(same[i], same[i]);
}

static void comments_become_spaces_and_lines_stay(void **state)
{
	becomes("// all", "      ");
	becomes("[1] // \"x\"\n", "[1]       \n");
	becomes("[1,// x\n2]", "[1,    \n2]");
	becomes("[/* a\r\n\tb */1]", "[    \r\n\t    1]");
	becomes("/**/1/***/2/*/*/3", "    1     2     3");
	becomes("/* // */1//* x", "        1     ");
	becomes("[\"a\"/*\"*/]", "[\"a\"     ]");
	becomes("[\"\\\\\"//x\n]", "[\"\\\\\"   \n]");
}

static void a_last_comma_goes_and_no_other(void **state)
{
	becomes("[1,]", "[1 ]");
	becomes("[[1,],]", "[[1 ] ]");
	becomes("{\"a\": 1 ,\n}", "{\"a\": 1  \n}");
	becomes("{\"a\": \"b\", // last\n}", "{\"a\": \"b\"         \n}");
	becomes("[1,]]", "[1 ]]");
	becomes("[,]", "[,]");
	becomes("[1,,]", "[1,,]");
	becomes("{,}", "{,}");
	becomes(",]", ",]");
	becomes("{\"a\":,}", "{\"a\":,}");
	becomes("[1,2,\"\"]", "[1,2,\"\"]");
	becomes("{},", "{},");
}

static void a_comment_without_an_end_is_placed(void **state)
{
	struct kw_json_place open;
	char out[64];

	assert_int_equal(pass("{\n \"\xc3\xa4\" /* \xc3\xa4 */ /*\n}", out, &open),
		KW_JSON_COMMENTS_UNCLOSED);
	assert_int_equal(open.line, 2);
	assert_int_equal(open.column, 14);
	assert_int_equal(pass("/*/", out, &open), KW_JSON_COMMENTS_UNCLOSED);
	assert_int_equal(open.line, 1);
	assert_int_equal(open.column, 1);
	assert_int_equal(pass("/*", out, &open), KW_JSON_COMMENTS_UNCLOSED);
}

/* jansson names the place of a mistake as if there were no comments. */
static void mistakes_keep_their_place(void **state)
{
	static const char *const pairs[][2] = {
		{"[/* \xe2\x82\xac\xc3\xa4 */ x]", "[         x]"},
		{"// \xf0\x9f\x98\x80\n[1\n /* */ 2]", "\n[1\n       2]"},
	};
	struct kw_json_place open;
	json_error_t first, second;
	char out[64];

	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		assert_int_equal(pass(pairs[i][0], out, &open), KW_JSON_COMMENTS_BLANKED);
		assert_null(json_loads(out, 0, &first));
		assert_null(json_loads(pairs[i][1], 0, &second));
		assert_int_equal(first.line, second.line);
		assert_int_equal(first.column, second.column);
		assert_string_equal(first.text, second.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_without_comments_stays_as_it_is),
		cmocka_unit_test(comments_become_spaces_and_lines_stay),
		cmocka_unit_test(a_last_comma_goes_and_no_other),
		cmocka_unit_test(a_comment_without_an_end_is_placed),
		cmocka_unit_test(mistakes_keep_their_place),
	};

	return cmocka_run_group_tests_name("json-comments", tests, NULL, NULL);
}
