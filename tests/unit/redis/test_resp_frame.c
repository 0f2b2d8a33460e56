/* The end of a reply: of every type of RESP 2 and 3, wherever its bytes are cut. */
#include "redis/resp_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const whole[] = {
	"+OK\r\n",
	"+\r\n",
	"-ERR no\r\n",
	":-17\r\n",
	"$5\r\nhello\r\n",
	"$0\r\n\r\n",
	"$-1\r\n",
	"$4\r\n\r\n\r\n\r\n",
	"*0\r\n",
	"*-1\r\n",
	"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
	"*3\r\n*0\r\n*-1\r\n$-1\r\n",
	"_\r\n",
	"#t\r\n",
	",1.5e300\r\n",
	",inf\r\n",
	"(3492890328409238509324850943850943825024385\r\n",
	"!5\r\nERR x\r\n",
	"=8\r\ntxt:some\r\n",
	"%0\r\n",
	"%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n_\r\n",
	"~2\r\n+a\r\n+b\r\n",
	">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
	/* An attribute belongs to what follows, also within an array, and of no pairs. */
	"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n",
	"*2\r\n|1\r\n+ttl\r\n:3\r\n:1\r\n:2\r\n",
	"|0\r\n+x\r\n",
	"|1\r\n+a\r\n*1\r\n+b\r\n|1\r\n+c\r\n+d\r\n%1\r\n+k\r\n+v\r\n",
};

static const char *const broken[] = {
	"HTTP/1.1 400\r\n",
	"\r\n",
	"$x\r\n",
	"$\r\n",
	"$-2\r\n",
	"*-2\r\n",
	"%-1\r\n",
	"~-1\r\n",
	"=-1\r\n",
	"$--1\r\n",
	"$3\r\nabcd\r\n",
	"$3\r\nabc\rx",
	"+OK\rx",
	"$1234567890123456789\r\n",
	"$?\r\n",
	"*1\r\n;4\r\n",
	"$5\n",
	"*1\r\n\r\n",
	"$ 5\r\n",
	"$1-\r\n",
};

static enum kw_resp_frame_result take_pieces(const char *text, size_t piece, size_t *total)
{
	struct kw_resp_frame frame = {0};
	enum kw_resp_frame_result result = KW_RESP_FRAME_PARTIAL;
	size_t length = strlen(text);
	struct kw_error error = {0};

	*total = 0;
	while (*total < length && result == KW_RESP_FRAME_PARTIAL) {
		size_t take = length - *total < piece ? length - *total : piece, used;

		result = kw_resp_frame_take(
			&frame, (const uint8_t *)text + *total, take, &used, &error);
		assert_true(used <= take);
		assert_true(result != KW_RESP_FRAME_PARTIAL || used == take);
		*total += used;
	}
	assert_true(result != KW_RESP_FRAME_BROKEN || error.code == KW_E_PROTOCOL);
	return result;
}

static void the_end_is_found_wherever_the_bytes_are_cut(void **state)
{
	char text[256];
	size_t total;

	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
		size_t length = strlen(whole[i]);

		/* The next reply's beginning is not taken. */
		snprintf(text, sizeof text, "%s+next\r\n", whole[i]);
		for (size_t piece = 1; piece <= strlen(text); piece++) {
			assert_int_equal(take_pieces(text, piece, &total), KW_RESP_FRAME_WHOLE);
			assert_int_equal(total, length);
		}
		for (size_t cut = 1; cut < length; cut++) {
			snprintf(text, sizeof text, "%.*s", (int)cut, whole[i]);
			assert_int_equal(take_pieces(text, cut, &total), KW_RESP_FRAME_PARTIAL);
		}
	}
}

static void what_is_no_reply_is_refused_wherever_the_bytes_are_cut(void **state)
{
	size_t total;

	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		for (size_t piece = 1; piece <= strlen(broken[i]); piece++)
			assert_int_equal(
				take_pieces(broken[i], piece, &total), KW_RESP_FRAME_BROKEN);
	}
}

static void replies_nested_too_deep_are_refused(void **state)
{
	char text[4 * (KW_RESP_FRAME_DEPTH + 2) + 8] = "";
	size_t total;

	for (int i = 0; i < KW_RESP_FRAME_DEPTH; i++)
		strcat(text, "*1\r\n");
	strcat(text, ":1\r\n");
	assert_int_equal(take_pieces(text, sizeof text, &total), KW_RESP_FRAME_WHOLE);
	strcpy(text + 4 * (size_t)KW_RESP_FRAME_DEPTH, "*1\r\n:1\r\n");
	assert_int_equal(take_pieces(text, sizeof text, &total), KW_RESP_FRAME_BROKEN);
}

static void a_line_without_an_end_is_refused(void **state)
{
	static uint8_t line[1000];
	struct kw_resp_frame frame = {0};
	enum kw_resp_frame_result result = KW_RESP_FRAME_PARTIAL;
	size_t used, total = 0;

	memset(line, '+', sizeof line);
	while (result == KW_RESP_FRAME_PARTIAL && total < 2 * KW_RESP_FRAME_LINE_MAX_BYTES) {
		result = kw_resp_frame_take(&frame, line, sizeof line, &used, NULL);
		total += used;
	}
	assert_int_equal(result, KW_RESP_FRAME_BROKEN);
}

static void the_type_of_a_reply_is_known(void **state)
{
	static const char text[] = "|1\r\n+a\r\n+b\r\n>1\r\n+x\r\n:1\r\n";
	struct kw_resp_frame frame = {0};
	size_t used, first;

	assert_int_equal(
		kw_resp_frame_take(&frame, (const uint8_t *)text, strlen(text), &first, NULL),
		KW_RESP_FRAME_WHOLE);
	assert_int_equal(frame.first, '>');
	assert_int_equal(kw_resp_frame_take(&frame, (const uint8_t *)text + first,
				 strlen(text) - first, &used, NULL),
		KW_RESP_FRAME_WHOLE);
	assert_int_equal(frame.first, ':');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_found_wherever_the_bytes_are_cut),
		cmocka_unit_test(what_is_no_reply_is_refused_wherever_the_bytes_are_cut),
		cmocka_unit_test(replies_nested_too_deep_are_refused),
		cmocka_unit_test(a_line_without_an_end_is_refused),
		cmocka_unit_test(the_type_of_a_reply_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
