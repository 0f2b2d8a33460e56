/* Lines that others can cause as often as they like: ten a second, and a count of the others. */
#include "base/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define NOW (100 * SECOND)

static uint32_t say(struct kw_line_limit *limit, uint32_t lines, uint64_t now_us)
{
	uint32_t said = 0, left_out;

	for (uint32_t i = 0; i < lines; i++)
		said += kw_line_limit_allows(limit, now_us, &left_out);
	return said;
}

static void ten_lines_a_second_are_said_and_the_next_one_tells_the_others(void **state)
{
	struct kw_line_limit limit = {0};
	uint32_t left_out;

	assert_int_equal(say(&limit, 25, NOW), KW_LINES_A_SECOND);
	assert_true(kw_line_limit_allows(&limit, NOW + SECOND, &left_out));
	assert_int_equal(left_out, 25 - KW_LINES_A_SECOND);
	assert_true(kw_line_limit_allows(&limit, NOW + SECOND, &left_out));
	assert_int_equal(left_out, 0);
}

/* The flood ends: no line comes that could tell them. */
static void lines_left_out_are_told_once_without_a_next_line(void **state)
{
	struct kw_line_limit limit = {0};
	uint32_t left_out;

	assert_int_equal(kw_line_limit_left_out(&limit, NOW), 0);
	say(&limit, 25, NOW);
	assert_int_equal(kw_line_limit_left_out(&limit, NOW + SECOND - 1), 0);
	assert_int_equal(kw_line_limit_left_out(&limit, NOW + SECOND), 25 - KW_LINES_A_SECOND);
	assert_int_equal(kw_line_limit_left_out(&limit, NOW + 3 * SECOND), 0);
	assert_true(kw_line_limit_allows(&limit, NOW + 3 * SECOND, &left_out));
	assert_int_equal(left_out, 0);
	assert_int_equal(say(&limit, 5, NOW + 3 * SECOND), 5);
	assert_int_equal(kw_line_limit_left_out(&limit, NOW + 5 * SECOND), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_lines_a_second_are_said_and_the_next_one_tells_the_others),
		cmocka_unit_test(lines_left_out_are_told_once_without_a_next_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
